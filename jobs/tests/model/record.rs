//! What the oracle knows of a job, of a schedule, and of an id that is remembered.

use tickwheel_jobs::{JobId, JobState};

use crate::ops::{Plan, Policy};

/// What a job has of its own, beside its kind.
#[derive(Clone, Default, Debug)]
pub(crate) struct Own {
    /// It holds its key until its end.
    pub(crate) held: bool,
    /// For how many milliseconds it waits after a failure, and how often it is tried again.
    pub(crate) retry: Option<(i64, u32)>,
    /// Its header `tenant`.
    pub(crate) tenant: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) id: Option<JobId>,
    pub(crate) kind: usize,
    pub(crate) due: i64,
    pub(crate) key: Option<String>,
    pub(crate) own: Own,
    /// The id was chosen, or made from a name: it is remembered.
    pub(crate) named: bool,
    pub(crate) plan: Plan,
    pub(crate) state: JobState,
    pub(crate) failures: u32,
    pub(crate) interruptions: u32,
    /// Runs that failed, or whose process ended.
    pub(crate) runs: u32,
    /// The texts of its last five errors, the newest first.
    pub(crate) errors: Vec<String>,
    /// Not before, and not after.
    pub(crate) died: (i64, i64),
    pub(crate) asked: bool,
    pub(crate) claimable: bool,
    /// A crash may have interrupted it, or not.
    pub(crate) doubtful: bool,
    /// A crash has interrupted it, and it may have died of that.
    pub(crate) interrupted: bool,
    /// It may have one run more: its last try was given back.
    pub(crate) runs_unsure: bool,
    /// The schedule that it is an occurrence of, by number, and when.
    pub(crate) occurs: Option<(u64, i64)>,
    /// It need not be there yet, or not any more.
    pub(crate) perhaps: bool,
    /// Its key was taken by another process, which may not be known here.
    pub(crate) robbed: bool,
    /// The id of an occurrence that may still be known, so it need not be made.
    pub(crate) unsure: bool,
    pub(crate) starts: usize,
    pub(crate) fence: u64,
    /// When it came to be where it is, by the monotonic clock, and as the how-manieth change.
    pub(crate) since: i64,
    pub(crate) change: u64,
    /// The how-manieth insert.
    pub(crate) order: u64,
}

impl Record {
    /// An attempt failed with this error.
    pub(crate) fn failed_with(&mut self, error: &str) {
        self.errors.insert(0, error.to_owned());
        self.errors.truncate(5);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Repeated {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) kind: usize,
    pub(crate) period: i64,
    pub(crate) next: i64,
    pub(crate) policy: Policy,
    pub(crate) plan: Plan,
}

/// An id that is remembered, and since when: not before, and not after.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) id: JobId,
    pub(crate) since: (i64, i64),
    pub(crate) perhaps: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    Yes,
    No,
    Perhaps,
}
