//! Jobs whose process ended while they were claimed: which of them dies.

use std::path::Path;

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{JobId, JobState};

use super::support::*;

/// Makes a file with jobs that are due, and writes how often each was interrupted before.
fn interrupted(path: &Path, interruptions: &[u32]) -> Vec<JobId> {
    let client = client(path);
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

/// P17: A job is dead after its fifth interruption, unless another suspect was claimed after it. The later
/// one is the more likely cause, so the first keeps its last attempt.
#[test]
fn fifth_interruption_kills_unless_a_suspect_was_claimed_later() {
    for (order, dies) in [([0, 1, 2], false), ([1, 0, 2], true), ([2, 0, 1], false)] {
        let (_folder, path) = file();
        let ids = interrupted(&path, &[4, 1, 0]);
        claimed(&path, &order.map(|at: usize| ids[at]));
        let builder = open(&path);
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
