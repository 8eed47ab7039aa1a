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

impl PageRequest {
    /// Says whether a job that is due at this time belongs to a page in the order of due time.
    pub(crate) fn has_due(&self, due: Millis, id: JobId, kind: &str) -> bool {
        (self.from..=self.to).contains(&due)
            && self.after.is_none_or(|after| (due, id) > after)
            && self.kind.as_ref().is_none_or(|wanted| wanted == kind)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobSet {
    /// Pending and claimed jobs, in the order of due time, then of id.
    Alive,
    /// Claimed jobs, in the same order.
    Claimed,
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

/// A page ends with the job at which its jobs reach this many bytes.
pub(crate) const BYTES_PER_PAGE: usize = 1 << 20;

impl Page {
    /// Reads the jobs at these positions, up to [`BYTES_PER_PAGE`]. `next`: the position after which the next page
    /// begins if all of them fit.
    pub(crate) fn read<T, E>(
        found: impl IntoIterator<Item = (PageKey, T)>,
        next: Option<PageKey>,
        mut job: impl FnMut(PageKey, T) -> Result<Option<JobInfo>, E>,
    ) -> Result<Page, E> {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        for (at, place) in found {
            let Some(job) = job(at, place)? else { continue };
            bytes += job.bytes();
            jobs.push(job);
            if bytes >= BYTES_PER_PAGE {
                return Ok(Page { jobs, next: Some(at) });
            }
        }
        Ok(Page { jobs, next })
    }
}
