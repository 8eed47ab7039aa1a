//! The history of a queue: what happened in each minute or hour, as a program reads it.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::buckets::Buckets;
use super::time::rfc3339;

/// How many kinds have figures of their own. So a program that makes up kinds cannot fill a store or a process.
pub(crate) const MOST_KINDS: usize = 200;
/// The name of the further kinds together.
pub(crate) const OTHER: &str = "other";

/// The length of the time that an entry of a history covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Step {
    /// A minute. A queue has these for 48 hours.
    Minute,
    /// An hour. A queue has these for 90 days.
    Hour,
}

impl Step {
    /// Returns the length as a duration.
    #[must_use]
    pub fn length(self) -> Duration {
        match self {
            Step::Minute => Duration::from_secs(60),
            Step::Hour => Duration::from_secs(3600),
        }
    }
}

/// Counts of the events of a minute or an hour, of all jobs of a queue or of those of one kind.
/// [`Client::history`](crate::Client::history) returns them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// When the minute or the hour began.
    #[serde(serialize_with = "rfc3339")]
    pub begin: SystemTime,
    /// Jobs that were inserted. Occurrences of schedules are among them, and jobs whose id was known are not.
    pub inserted: u64,
    /// Runs that ended well.
    pub completed: u64,
    /// Runs that failed, and whose jobs were retried later.
    pub retried: u64,
    /// Runs that were snoozed.
    pub snoozed: u64,
    /// Runs after which their jobs were dead.
    pub dead: u64,
    /// Jobs that were cancelled or replaced before they ran, and runs that failed after a cancel.
    pub cancelled: u64,
    /// Runs whose process ended, and runs that ended with [`Fail::interrupted`](crate::Fail::interrupted).
    pub interrupted: u64,
    /// How late the runs started that ended in this time: as many in each bucket, under the bounds of
    /// [`Buckets::BOUNDS`]. Interrupted runs are not among them.
    pub lateness: [u64; Buckets::BOUNDS.len() + 1],
    /// How long these runs took, under the same bounds.
    pub run_time: [u64; Buckets::BOUNDS.len() + 1],
}

impl HistoryEntry {
    /// Returns an entry without figures.
    pub(crate) fn at(begin: SystemTime) -> HistoryEntry {
        HistoryEntry {
            begin,
            inserted: 0,
            completed: 0,
            retried: 0,
            snoozed: 0,
            dead: 0,
            cancelled: 0,
            interrupted: 0,
            lateness: [0; Buckets::BOUNDS.len() + 1],
            run_time: [0; Buckets::BOUNDS.len() + 1],
        }
    }

    /// Returns the number of runs that ended, of which each is in one bucket of `lateness` and one of `run_time`.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.run_time.iter().sum()
    }
}
