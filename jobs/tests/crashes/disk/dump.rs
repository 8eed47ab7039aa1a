//! Everything that a store says it has, to be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use tickwheel_jobs::{Client, JobId, JobInfo, JobState};

use crate::deaths::contents::Contents;

/// What a store has.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Dump {
    pub(crate) jobs: BTreeMap<JobId, Row>,
    /// Of each schedule: its name, its rule, and its next occurrence.
    pub(crate) schedules: Vec<(String, String, SystemTime)>,
}

/// A job, whether it is claimed or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) dead: bool,
    pub(crate) due: SystemTime,
    pub(crate) failures: u32,
    pub(crate) interruptions: u32,
    pub(crate) key: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) payload: Vec<u8>,
}

impl Dump {
    pub(crate) fn of(client: &Client) -> Dump {
        Dump::with_claims(client).0
    }

    /// Returns the contents of the store, and the jobs that it reports as claimed.
    pub(crate) fn with_claims(client: &Client) -> (Dump, BTreeSet<JobId>) {
        let contents = Contents::of(client).expect("the store can be read");
        let Contents { pending, running, dead, schedules, counts } = contents;
        let claimed = running.iter().map(|job| job.id).collect();
        let mut dump = Dump::default();
        for job in running.into_iter().chain(pending).chain(dead) {
            let (id, row) = (job.id, Row::new(job));
            assert!(dump.jobs.insert(id, row).is_none(), "{id} is listed twice");
        }
        dump.schedules =
            schedules.into_iter().map(|repeat| (repeat.name, repeat.rule, repeat.next)).collect();
        let dead = dump.jobs.values().filter(|row| row.dead).count() as u64;
        assert_eq!(counts.dead, dead, "dead jobs are counted as they are listed");
        let alive = dump.jobs.len() as u64 - dead;
        let counted = counts.pending + counts.claimed + counts.running;
        assert_eq!(counted, alive, "jobs are counted as they are listed");
        (dump, claimed)
    }
}

impl Row {
    fn new(job: JobInfo) -> Row {
        Row {
            dead: job.state == JobState::Dead,
            due: job.due,
            failures: job.failures,
            interruptions: job.interruptions,
            key: job.key,
            error: job.error,
            payload: job.payload,
        }
    }
}
