//! A page of jobs: which jobs are asked for, and those that were found.

use super::ended::Ending;
use crate::values::id::JobId;
use crate::values::info::JobInfo;
use crate::values::time::Millis;

/// Which jobs to list.
#[derive(Clone, Debug)]
pub(crate) struct PageRequest {
    pub(crate) set: JobSet,
    pub(crate) kind: Option<String>,
    pub(crate) from: Millis,
    pub(crate) to: Millis,
    pub(crate) after: Option<PageKey>,
    pub(crate) limit: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobSet {
    /// Pending and claimed jobs, in the order of due time, then of id.
    Alive,
    /// Jobs that ended in this way, or in any, and that are kept: the latest end first.
    Ended(Option<Ending>),
}

impl JobSet {
    /// Says whether the jobs that ended so are in the set.
    pub(crate) fn has(self, ending: Ending) -> bool {
        matches!(self, JobSet::Ended(only) if only.is_none_or(|only| only == ending))
    }
}

/// The position of the last job of a page: its due time or the time of its end, and its id.
pub(crate) type PageKey = (Millis, JobId);

#[derive(Clone, Default, Debug)]
pub(crate) struct Page {
    pub(crate) jobs: Vec<JobInfo>,
    /// The position after which the next page begins. `None`: this was the last page.
    pub(crate) next: Option<PageKey>,
}
