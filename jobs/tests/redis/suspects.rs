//! Suspects: jobs that were interrupted, and so may be what ends their process.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, JobId, JobState};

use crate::server::Server;
use crate::support::{MS, Order, bytes, in_hand, open};

const HOUR: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(10);
/// By so much the score of a job that waits is higher than its deadline, for each interruption.
const BAND: u64 = 1_000_000_000_000_000;

#[derive(Serialize, Deserialize)]
struct Mail(String);

impl Job for Mail {
    const KIND: &'static str = "mail";
}

/// Makes a job one that was interrupted so often: where it waits, or in its claim.
fn interrupt(server: &Server, id: JobId, times: u8) {
    let id = bytes(id);
    for (key, at) in [("jobs", 5), ("fence", 33 + 5)] {
        let found: Option<Vec<u8>> = server.by_hand("HGET", key, &[&id]);
        let Some(mut value) = found else { continue };
        value[at..at + 4].copy_from_slice(&[0, 0, 0, times]);
        let _: i64 = server.by_hand("HSET", key, &[&id, &value]);
    }
    let score: Option<f64> = server.by_hand("ZSCORE", "due:order", &[&id]);
    if let Some(score) = score {
        let score = score as u64 % BAND + u64::from(times) * BAND;
        let _: i64 = server.by_hand("ZADD", "due:order", &[score.to_string().as_bytes(), &id]);
    }
}

fn never(_: Order, _: &tickwheel_jobs::Run) -> Result<(), tickwheel_jobs::Fail> {
    panic!("a manual clock that is not moved runs nothing")
}

fn at() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000)
}

/// Redis P17: Suspects that wait delay no other job of their kind. Before a fix, a suspect at the head of its kind
/// delayed them all, until every suspect before them had been claimed alone.
#[test]
fn suspects_that_wait_delay_no_job_of_their_kind() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let suspects = client.insert_batch((0..600).map(|n| (at(), Order(n)))).unwrap();
    for (n, id) in suspects.iter().enumerate() {
        interrupt(&server, *id, 1 + (n % 4) as u8);
    }
    client.check().unwrap();
    let innocent = client.insert_batch((0..50).map(|n| (at() + MS, Order(1000 + n)))).unwrap();
    let (jobs, driver) = open(&server).lease(LEASE).handle(never).manual().unwrap();
    driver.set_wall(at() + 2 * MS);
    for id in &innocent {
        assert_eq!(client.get(*id).unwrap().unwrap().state, JobState::Claimed);
    }
    // Some of the suspects are claimed, and most wait.
    let claimed = jobs.stats().in_flight;
    assert!((50..=50 + 33).contains(&claimed), "{claimed} are claimed");
    client.check().unwrap();
    core::mem::forget((jobs, driver));
}

/// Redis P17: A suspect that waits is listed, rescheduled, replaced and cancelled like any other pending job.
#[test]
fn suspect_is_listed_rescheduled_replaced_and_cancelled() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let ids: Vec<JobId> = (0..700u32)
        .map(|n| client.keyed(&n.to_string()).insert(at() + n * MS, Order(n.into())).unwrap())
        .collect();
    for (n, id) in ids.iter().enumerate() {
        interrupt(&server, *id, (n % 5) as u8);
    }
    let listed: Vec<JobId> = client.pending().map(|job| job.id).collect();
    assert_eq!(listed, ids);
    for (n, id) in ids.iter().enumerate().take(10) {
        let job = client.get(*id).unwrap().unwrap();
        assert_eq!((job.due, job.interruptions), (at() + n as u32 * MS, n as u32 % 5));
        assert_eq!(job.state, JobState::Pending);
    }
    assert!(client.reschedule(ids[3], at() + HOUR).unwrap());
    let moved = client.get(ids[3]).unwrap().unwrap();
    assert_eq!((moved.due, moved.interruptions), (at() + HOUR, 3));
    assert!(client.cancel(ids[4]).unwrap().is_cancelled());
    let replaced = client.keyed("7").insert_keeping_time(HOUR, Order(1000)).unwrap();
    assert_eq!(client.get(replaced).unwrap().unwrap().due, at() + 7 * MS);
    assert_eq!(client.get(ids[7]).unwrap(), None);
    assert!(client.keyed("8").cancel().unwrap());
    assert_eq!(client.count().unwrap().pending, 698);
    client.check().unwrap();
    // A claim that is given back leaves a suspect one.
    let (jobs, driver) = open(&server).lease(LEASE).handle(never).manual().unwrap();
    driver.set_wall(at() + 2 * MS);
    assert!(jobs.stats().in_flight > 0);
    jobs.shutdown().unwrap();
    let counts = client.count().unwrap();
    assert_eq!((counts.pending, counts.claimed + counts.running), (698, 0));
    assert_eq!(client.get(ids[1]).unwrap().unwrap().interruptions, 1);
    client.check().unwrap();
    drop(driver);
}

/// Returns a job that stands before its last interruption, and one that was claimed after it by the same
/// process, which is gone. That one was interrupted so often.
fn gone_with_two_claims(server: &Server, interruptions: u8, others: u64) -> [JobId; 2] {
    let client = open(server).client().unwrap();
    let first = client.insert(at(), Order(1)).unwrap();
    interrupt(server, first, 4);
    let (jobs, driver) = open(server).lease(LEASE).handle(never).manual().unwrap();
    driver.set_wall(at());
    assert_eq!(client.get(first).unwrap().unwrap().state, JobState::Claimed);
    let second = client.insert(at() + MS, Order(2)).unwrap();
    client.insert_batch((0..others).map(|n| (at() + MS, Order(3 + n)))).unwrap();
    driver.set_wall(at() + MS);
    (0..others / 128 + 1).for_each(|_| jobs.nudge());
    assert_eq!(client.get(second).unwrap().unwrap().state, JobState::Claimed);
    interrupt(server, second, interruptions);
    core::mem::forget((jobs, driver));
    // Another process, which handles other jobs, finds that the leases have ended.
    let (jobs, driver) = open(server).lease(LEASE).handle(|_: Mail, _| Ok(())).manual().unwrap();
    driver.set_wall(at() + 2 * LEASE);
    jobs.nudge();
    assert_eq!(in_hand(&client), 0);
    client.check().unwrap();
    drop((jobs, driver));
    [first, second]
}

/// Redis P17: The fifth interruption of a job makes it dead, unless a suspect was claimed after it. That suspect is the
/// more likely cause of the end of their process. A job that was never interrupted is none.
#[test]
fn interruption_kills_unless_a_suspect_was_claimed_later() {
    let (lives, dies) = ((JobState::Pending, 4), (JobState::Dead, 5));
    // With 600 others the look has several parts, in any order.
    for (interruptions, others, first) in [(1, 0, lives), (1, 600, lives), (0, 300, dies)] {
        let server = Server::start();
        let client = open(&server).client().unwrap();
        let found = gone_with_two_claims(&server, interruptions, others);
        let found = found.map(|id| client.get(id).unwrap().unwrap());
        let seen = found.map(|job| (job.state, job.interruptions));
        let second = (JobState::Pending, u32::from(interruptions) + 1);
        assert_eq!(seen, [first, second], "{interruptions} interruptions, {others} others");
        let left: Vec<String> = server.ask(&["HKEYS", "tw:{jobs}:meta"]);
        let stays = |field: &String| ["claims", "schedules", "layout"].contains(&&**field);
        assert!(left.iter().all(stays), "{left:?}");
    }
}

/// A job that dies of interruptions again and again keeps five errors. Before a fix, each death added one, until their
/// length had more bytes than its place in the record.
#[test]
fn job_that_dies_again_and_again_keeps_five_errors() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let id = client.insert(at(), Order(1)).unwrap();
    for death in 1..=8 {
        interrupt(&server, id, 4);
        let time = at() + death * HOUR;
        let (jobs, driver) = open(&server).lease(LEASE).handle(never).manual().unwrap();
        driver.set_wall(time);
        core::mem::forget((jobs, driver));
        let other = open(&server).lease(LEASE).handle(|_: Mail, _| Ok(()));
        let (jobs, driver) = other.manual().unwrap();
        driver.set_wall(time + 2 * LEASE);
        jobs.nudge();
        drop((jobs, driver));
        assert!(client.retry(id).unwrap(), "it is dead");
    }
    let record: Vec<u8> = server.by_hand("HGET", "jobs", &[&bytes(id)]);
    assert_eq!(String::from_utf8_lossy(&record).matches("{\"at\":").count(), 5);
    assert_eq!(client.get(id).unwrap().unwrap().errors.len(), 5);
    client.check().unwrap();
}
