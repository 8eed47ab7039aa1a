//! The end of a run, as the dispatcher gives it to the store.

use std::sync::Arc;

use super::ended::End;
use super::figures::RunBuckets;
use super::new_job::NewJob;
use crate::values::fence::Fence;
use crate::values::group::GroupId;
use crate::values::id::JobId;
use crate::values::keep::Keep;

/// The end of a run: how it ended, and what the store does with it.
#[derive(Clone, Debug)]
pub(crate) struct Finish {
    pub(crate) id: JobId,
    pub(crate) fence: Fence,
    pub(crate) end: End,
    /// How long the run took, in milliseconds.
    pub(crate) took: u64,
    /// The result of the run, if it has set one.
    pub(crate) result: Option<Vec<u8>>,
    /// How much is kept of the completed jobs of its kind.
    pub(crate) keep: Option<Keep>,
    /// A caller waits for the end of the job.
    pub(crate) wanted: bool,
    /// The buckets in which the history counts the run. None: the program wants no history.
    pub(crate) run: Option<RunBuckets>,
    /// The follow-ups of a run that completed.
    pub(crate) then: Option<Arc<Vec<NewJob>>>,
    /// The group of which the job is a member.
    pub(crate) group: Option<GroupId>,
}

#[cfg(test)]
impl Finish {
    /// Returns the end of a run of a millisecond that leaves nothing behind.
    pub(crate) fn of(id: JobId, fence: Fence, end: End) -> Finish {
        Finish {
            id,
            fence,
            end,
            took: 1,
            result: None,
            keep: None,
            wanted: false,
            run: None,
            then: None,
            group: None,
        }
    }
}
