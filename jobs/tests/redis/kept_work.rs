//! What completed jobs cost a server that keeps many of them: counted by commands.

use std::collections::BTreeMap;
use std::time::Duration;

use tickwheel_jobs::{JobState, Keep};

use crate::scenarios::Mail;
use crate::server::Server;
use crate::support::{MS, open};

/// Returns how often each command was called, also in scripts.
fn commands(server: &Server) -> BTreeMap<String, u64> {
    let stats: String = server.ask(&["INFO", "commandstats"]);
    let calls = |line: &str| {
        let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), figures.split(',').next()?.parse().ok()?))
    };
    stats.lines().filter_map(calls).filter(|(command, _)| command != "info").collect()
}

/// Returns how many commands a step takes.
fn cost(server: &Server, step: impl FnOnce()) -> u64 {
    let sum = |commands: BTreeMap<String, u64>| commands.values().sum::<u64>();
    let before = sum(commands(server));
    step();
    sum(commands(server)) - before
}

/// With 20,000 jobs kept, a job that completes, a page, a count and a purge take as many commands as with 200. The
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
        let trims = cost(&server, || while driver.advance(MS) > 0 {});
        let pages = || jobs.ended().kind::<Mail>().state(JobState::Completed);
        let page = cost(&server, || {
            assert_eq!(pages().next_page().unwrap().len(), many.min(256) as usize)
        });
        let count = cost(&server, || {
            jobs.count().unwrap();
        });
        let purge = cost(&server, || {
            driver.advance(Duration::from_secs(601));
        });
        assert_eq!(pages().count() as u64, many);
        jobs.check().unwrap();
        [trims, page, count, purge]
    };
    let (few, many) = (costs(200), costs(20_000));
    println!("commands with 200 kept: {few:?}, with 20,000: {many:?}");
    for (few, many) in few.into_iter().zip(many) {
        assert!(many <= few + few / 4 + 60, "{few} commands, and {many} with more kept");
    }
}
