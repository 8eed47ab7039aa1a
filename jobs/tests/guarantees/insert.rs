//! What an insert promises.

use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Durability, JobId};

use super::support::*;

/// P3: Every buffered insert is in the file once `flush` has returned.
#[test]
fn buffered_insert_is_stored_once_flush_returns() {
    let (_folder, path) = file();
    let builder = open(&path).durability(Durability::Buffered);
    let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
    let ids: Vec<JobId> = (0..100).map(|n| jobs.insert(HOUR, close(n)).unwrap()).collect();
    jobs.flush().unwrap();
    let other = client(&path);
    assert!(ids.iter().all(|id| other.get(*id).unwrap().is_some()));
}

/// A jitter spreads the due times over its whole window, and never beyond it.
#[test]
fn jitter_spreads_due_times_over_its_window() {
    on_manual(|jobs, driver, _| {
        let at = driver.wall_now() + HOUR;
        let due = |when: When| {
            let id = jobs.insert(when, close(1)).unwrap();
            jobs.get(id).unwrap().unwrap().due
        };
        let drawn: Vec<_> = (0..200).map(|_| due(When::wall(at).jitter(100 * MS))).collect();
        assert!(drawn.iter().all(|due| (at..=at + 100 * MS).contains(due)));
        let early = drawn.iter().filter(|due| **due < at + 50 * MS).count();
        assert!((40..=160).contains(&early), "{early} of 200 in the first half");
    });
}

/// P72: A long call timeout holds on a file too: an insert waits for a transaction of another connection that takes
/// longer than the ten seconds of the default.
#[test]
fn long_call_timeout_outlasts_a_long_transaction() {
    let (_folder, path) = file();
    let client = open(&path).call_timeout(LONG).client().unwrap();
    let other = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let insert = std::thread::spawn(move || client.insert(HOUR, close(1)).map(drop));
    pause(11 * SECOND);
    assert!(!insert.is_finished());
    other.execute_batch("COMMIT").unwrap();
    insert.join().unwrap().unwrap();
}
