//! What rates and holds leave on a server. `killed_rates.rs` has the rates of several nodes.

use std::time::Duration;

use tickwheel_jobs::Limit;

use crate::scenarios::limits::{Charge, charge, noted};
use crate::server::Server;
use crate::support::{MS, open};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Redis P24: A hold that is over leaves nothing on the server, also if no job comes to its partition.
#[test]
fn holds_that_are_over_leave_nothing() {
    let server = Server::start();
    let (jobs, driver, _) = noted(open(&server));
    let charges = jobs.kind::<Charge>();
    for n in 0..300 {
        charges.partition(&n.to_string()).hold(MINUTE).unwrap();
    }
    charges.partition("held").hold(24 * 60 * MINUTE).unwrap();
    let holds = || {
        let names: Vec<String> = server.ask(&["HKEYS", "tw:{jobs}:flow"]);
        names.iter().filter(|name| name.starts_with("hold")).count()
    };
    assert_eq!(holds(), 301);
    driver.advance(30 * MINUTE);
    assert_eq!(holds(), 1);
    jobs.check().unwrap();
}

/// The tokens of a rate have a note for the time at which they are forgotten, also if a claim takes one in the call
/// that finds the note of those before.
#[test]
fn tokens_of_a_rate_have_one_note() {
    let server = Server::start();
    let (jobs, driver, ran) = noted(open(&server));
    jobs.kind::<Charge>().limit(Limit::none().rate(1, SECOND)).unwrap();
    for n in 1..4 {
        jobs.insert(MINUTE, charge("nobody")).unwrap();
        driver.set_wall(driver.wall_now() + MINUTE);
        driver.advance(MS);
        assert_eq!(ran.lock().unwrap().len(), n);
        assert_eq!(server.ask::<u64>(&["ZLEXCOUNT", "tw:{jobs}:turn", "[\0", "(\u{1}"]), 1);
    }
}
