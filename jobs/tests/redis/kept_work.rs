//! What claimed jobs, and kept ones of which a server has many, cost it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_jobs::{JobState, Keep};

use crate::scenarios::Mail;
use crate::server::Server;
use crate::support::{MS, open};

/// With 4,000 jobs kept, a job that completes, a page, a count and a purge take as many commands as with 200. The
/// commands themselves take the logarithm of their number.
#[test]
fn kept_jobs_cost_as_many_commands_however_many_there_are() {
    let costs = |many: u64| {
        let server = Server::start();
        let (jobs, driver) = open(&server).handle(|_: Mail, _| Ok(())).manual().unwrap();
        jobs.kind::<Mail>().keep_completed(Keep::last(many)).unwrap();
        for part in 0..many.div_ceil(1000) {
            jobs.insert_batch((0..1000.min(many)).map(|n| (MS, Mail(1000 * part + n)))).unwrap();
            while driver.advance(MS) > 0 {}
        }
        jobs.insert_batch((0..10).map(|n| (MS, Mail(n)))).unwrap();
        let trims = server.cost(|| while driver.advance(MS) > 0 {});
        let pages = || jobs.ended().kind::<Mail>().state(JobState::Completed);
        let page =
            server.cost(|| assert_eq!(pages().next_page().unwrap().len(), many.min(256) as usize));
        let count = server.cost(|| {
            jobs.count().unwrap();
        });
        let purge = server.cost(|| {
            driver.advance(Duration::from_secs(601));
        });
        assert_eq!(pages().count() as u64, many);
        jobs.check().unwrap();
        [trims, page, count, purge]
    };
    let (few, many) = (costs(200), costs(4_000));
    println!("commands with 200 kept: {few:?}, with 4,000: {many:?}");
    for (few, many) in few.into_iter().zip(many) {
        assert!(many <= few + few / 4 + 60, "{few} commands, and {many} with more kept");
    }
}

/// The server keeps the jobs of a large claim in a tree, and only them. In a list, which it would take for up to 128
/// members, it would search for each: a quarter of the server's time for a job.
#[test]
fn claimed_jobs_of_a_large_claim_lie_in_a_tree() {
    let server = Server::start();
    let found = Arc::new(Mutex::new(Vec::new()));
    let (url, its) = (server.url(), Arc::clone(&found));
    let look = move |_: Mail, _: &tickwheel_jobs::Run| {
        let mut server = redis::Client::open(&*url).unwrap().get_connection().unwrap();
        let run = "tw:{jobs}:run";
        let encoding: String =
            redis::cmd("OBJECT").arg("ENCODING").arg(run).query(&mut server).unwrap();
        let members: Vec<Vec<u8>> =
            redis::cmd("ZRANGE").arg(run).arg(0).arg(-1).query(&mut server).unwrap();
        assert!(members.iter().all(|member| member.len() == 16));
        its.lock().unwrap().push((encoding, members.len()));
        Ok(())
    };
    let (jobs, driver) = open(&server).handle(look).manual().unwrap();
    jobs.insert_batch((0..100).map(|n| (MS, Mail(n)))).unwrap();
    while driver.advance(MS) > 0 {}
    let found = found.lock().unwrap().clone();
    assert_eq!(found.len(), 100);
    assert_eq!(found[0], ("skiplist".to_owned(), 100));
    jobs.check().unwrap();
}
