//! Rates on a server whose nodes are killed.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{JobId, Jobs, Limit, Run};

use crate::node::Node;
use crate::scenarios::rates::at_most;
use crate::server::{Server, pause};
use crate::support::{MS, Order, now, open};

const URL: &str = "TICKWHEEL_RATE_NODE";
/// How many seconds the test takes, if not 20. The figure in `docs/performance-redis.md` is of 60 seconds.
const SECONDS: &str = "TICKWHEEL_RATE_SECONDS";
const SECOND: Duration = Duration::from_secs(1);
/// How long a run takes: several times as long as the observer waits between two lists. So it sees each claim.
const RUN: Duration = Duration::from_millis(100);

/// Runs in a process of its own, and is killed.
#[test]
fn node() {
    let Ok(url) = std::env::var(URL) else { return };
    let handler = |_: Order, _: &Run| {
        pause(RUN);
        Ok(())
    };
    let jobs = Jobs::redis(url).unwrap().lease(2 * SECOND).threads(16).handle(handler).start();
    pause(Duration::from_secs(120));
    drop(jobs);
}

/// Redis P24: Every ten seconds one of three nodes is killed, and comes back five seconds later. In no second the nodes
/// claim more jobs than their rate. Prints how many of the tokens they use.
#[test]
fn nodes_that_are_killed_keep_a_rate() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    client.kind::<Order>().limit(Limit::none().rate(100, SECOND)).unwrap();
    let seconds = std::env::var(SECONDS).map_or(20, |seconds| seconds.parse().unwrap());
    client.insert_batch((0..100 * seconds + 1000).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    let start = || Node::start("killed_rates::node", URL, server.url());
    let mut nodes = [(); 3].map(|()| start());
    let mut claims: BTreeSet<(SystemTime, JobId)> = BTreeSet::new();
    let (began, mut kills, mut starts) = (now(), 0, 0);
    while began.elapsed() < SECOND * u32::try_from(seconds).unwrap() {
        let claimed = client.running().filter_map(|job| Some((job.claimed?, job.id)));
        claims.extend(claimed);
        let passed = began.elapsed().as_secs();
        if passed >= 5 + 10 * kills {
            nodes[kills as usize % 3].process.kill();
            kills += 1;
        }
        if passed >= 10 + 10 * starts {
            nodes[starts as usize % 3] = start();
            starts += 1;
        }
        pause(10 * MS);
    }
    drop(nodes);
    client.check().unwrap();
    assert!(claims.len() > 1, "no node has claimed a job");
    let times: Vec<SystemTime> = claims.iter().map(|(time, _)| *time).collect();
    // The time of a claim is stored in microseconds, and the rate counts whole milliseconds.
    at_most(100, SECOND - MS, &times);
    let took = times[times.len() - 1].duration_since(times[0]).unwrap().as_secs_f64();
    let used = times.len() as f64 / took;
    println!("{} claims in {took:.2} s, {used:.1} in 100 tokens; {kills} kills", times.len());
    assert!(kills > 1, "{kills}");
}
