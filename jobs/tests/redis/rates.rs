//! Rates on a server: several nodes, of which one is cut off.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Builder, Fail, JobId, Jobs, Limit, Run};

use crate::proxy::Proxy;
use crate::scenarios::limits::{Charge, charge, noted};
use crate::scenarios::rates::at_most;
use crate::server::{Server, wait_until};
use crate::support::{MS, in_hand, open};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The time of each claim, by the clock of the server, and its job. A run that has lost its lease may see a later claim
/// of its job. So two runs may report one claim, and the set has it once.
type Claims = Arc<Mutex<BTreeSet<(SystemTime, JobId)>>>;

fn node(builder: Builder, claims: &Claims) -> Jobs {
    let claims = Arc::clone(claims);
    let handler = move |_: Charge, run: &Run| -> Result<(), Fail> {
        let job = run.client().get(run.id())?.ok_or("it is gone")?;
        let claimed = job.claimed.ok_or("it is not claimed")?;
        claims.lock().unwrap().insert((claimed, run.id()));
        Ok(())
    };
    builder.lease(SECOND).handle(handler).start().unwrap()
}

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

/// Redis P24: Three nodes together claim no more jobs of a flow in any period than its rate, also if one of them is cut
/// off, and run all jobs.
#[test]
fn nodes_together_keep_a_rate() {
    let server = Server::start();
    let (proxy, claims) = (Proxy::to(server.port), Claims::default());
    let nodes: Vec<Jobs> = (0..2).map(|_| node(open(&server), &claims)).collect();
    let cut_off = node(Jobs::redis(proxy.url()).unwrap(), &claims);
    let client = open(&server).client().unwrap();
    client.kind::<Charge>().limit(Limit::none().rate(100, SECOND).burst(5)).unwrap();
    client
        .insert_batch((0..250).map(|n| (Duration::ZERO, charge(["acme", "nobody"][n % 2]))))
        .unwrap();
    let many = || claims.lock().unwrap().len();
    wait_until("some ran", || many() > 80);
    proxy.cut(true);
    wait_until("all ended", || in_hand(&client) == 0 && client.count().unwrap().pending == 0);
    client.check().unwrap();
    drop(cut_off);
    nodes.into_iter().for_each(|node| node.shutdown().unwrap());
    let times: Vec<SystemTime> = claims.lock().unwrap().iter().map(|(time, _)| *time).collect();
    // The time of a claim is stored in microseconds, and the rate counts whole milliseconds.
    at_most(104, SECOND - MS, &times);
    let took = times[times.len() - 1].duration_since(times[0]).unwrap();
    println!("{} claims in {took:?}", times.len());
}
