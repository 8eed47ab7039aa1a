//! Jobs whose process ended while they were claimed: whom they keep waiting, and which of them dies.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{JobId, JobState, Jobs};

use super::support::*;

/// Makes a file with jobs that are due, and writes how often each was interrupted before.
fn interrupted(path: &Path, interruptions: &[u32]) -> Vec<JobId> {
    let client = Jobs::open(path).unwrap().client().unwrap();
    let ids: Vec<JobId> = (0..interruptions.len() as u64)
        .map(|order| client.insert(MS * u32::try_from(order).unwrap(), close(order)).unwrap())
        .collect();
    let conn = Connection::open(path).unwrap();
    for (id, interruptions) in ids.iter().zip(interruptions) {
        let set = "UPDATE tickwheel_job SET interruptions = ?2 WHERE id = ?1";
        let set = conn.execute(set, (id.to_u128().to_be_bytes(), *interruptions));
        assert_eq!(set.unwrap(), 1);
    }
    ids
}

/// Writes that a process had claimed these jobs, in this order, when it ended.
fn claimed(path: &Path, ids: &[JobId]) {
    let conn = Connection::open(path).unwrap();
    let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_u128().to_be_bytes()).collect();
    conn.execute("INSERT INTO tickwheel_claim (ids) VALUES (?1)", [ids]).unwrap();
}

/// P17: A suspect delays no other job. A job that was interrupted twice was at the head of its kind until it
/// was claimed, one a second, and every new job waited behind all of them.
#[test]
fn suspects_with_long_runs_delay_no_new_job() {
    let (_folder, path) = file();
    interrupted(&path, &[2; 300]);
    let released = Arc::new(AtomicBool::new(false));
    let go_on = Arc::clone(&released);
    let jobs = Jobs::open(&path)
        .unwrap()
        .threads(80)
        .handle(move |job: Close, _| {
            if job.order < 300 {
                wait_until("the suspects may end", || go_on.load(Ordering::Relaxed));
            }
            Ok(())
        })
        .start()
        .unwrap();
    let id = jobs.insert(MS, close(1000)).unwrap();
    wait_until("the new job has run", || jobs.get(id).unwrap().is_none());
    released.store(true, Ordering::Relaxed);
    jobs.check().unwrap();
    wait_until("all have run", || jobs.count().unwrap().pending == 0);
    jobs.shutdown().unwrap();
}

/// P17: A job is dead after its fifth interruption, unless another suspect was claimed after it. The later
/// one is the more likely cause, so the first keeps its last attempt.
#[test]
fn fifth_interruption_kills_unless_a_suspect_was_claimed_later() {
    for (order, dies) in [([0, 1, 2], false), ([1, 0, 2], true), ([2, 0, 1], false)] {
        let (_folder, path) = file();
        let ids = interrupted(&path, &[4, 1, 0]);
        claimed(&path, &order.map(|at: usize| ids[at]));
        let builder = Jobs::open(&path).unwrap();
        let (jobs, _driver) = builder.handle(|_: Push, _| Ok(())).manual().unwrap();
        let found = |at: usize| {
            let job = jobs.get(ids[at]).unwrap().unwrap();
            (job.state, job.interruptions)
        };
        let expected = if dies { (JobState::Dead, 5) } else { (JobState::Pending, 4) };
        assert_eq!(found(0), expected, "claimed in the order {order:?}");
        assert_eq!(found(1), (JobState::Pending, 2));
        assert_eq!(found(2), (JobState::Pending, 1));
        jobs.check().unwrap();
    }
}
