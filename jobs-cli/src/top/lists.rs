//! Lists of jobs and single jobs, as the view of `top` opens them.
//!
//! Ground rules:
//!
//! - A list is read a page of [`MOST_ROWS`] jobs at a time.
//! - A file does not sort the jobs of an hour that has not begun. If a kind has very many jobs, only those of this
//!   hour are listed.

use std::time::{Duration, SystemTime};

use tickwheel_jobs::view::{DeadGroup, JobFilter, JobRow, ListState, Place};
use tickwheel_jobs::{JobId, JobInfo, JobState, PendingReason, StoreError};

use super::ask::{MOST_ROWS, Source};
use super::tables::symbols;
use crate::inspect;
use crate::text::{cut, now};

/// The most jobs of a kind on a file that are sorted for a page.
const MOST_SORTED: u64 = 100_000;
const LINE_CHARS: usize = 4096;

/// The states of the lists of a kind, in the order of the arrow keys.
pub(crate) const STATES: [ListState; 5] = [
    ListState::Pending,
    ListState::Running,
    ListState::Dead,
    ListState::Completed,
    ListState::Expired,
];

pub(crate) fn has_ended(state: ListState) -> bool {
    matches!(state, ListState::Dead | ListState::Completed | ListState::Expired)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ListOf {
    pub(crate) kind: String,
    pub(crate) state: ListState,
    pub(crate) group: Option<DeadGroup>,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) of: ListOf,
    /// The number of the page, from 0 on.
    pub(crate) page: usize,
    pub(crate) jobs: Vec<JobRow>,
    pub(crate) has_more: bool,
    /// Says which jobs the list leaves out, if any.
    pub(crate) note: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct JobPage {
    pub(crate) id: JobId,
    /// `None`: the job has completed, or was cancelled or deleted.
    pub(crate) job: Option<OpenJob>,
}

#[derive(Clone, Debug)]
pub(crate) struct OpenJob {
    pub(crate) kind: String,
    pub(crate) state: JobState,
    pub(crate) lines: Vec<String>,
}

pub(crate) struct Lists {
    source: Source,
    /// The list that was read last, the number of its last page, and the place of its next one.
    open: Option<(ListOf, usize, Place)>,
}

impl Lists {
    pub(crate) fn new(source: Source) -> Lists {
        Lists { source, open: None }
    }

    /// Reads a page of a list. A further page is read only if the page before it was read last. Otherwise this reads
    /// the first page.
    pub(crate) fn page(&mut self, of: &ListOf, page: usize) -> Result<List, StoreError> {
        let (page, from) = match self.open.take() {
            Some((open, last, next)) if open == *of && page == last + 1 => (page, Some(next)),
            _ => (0, None),
        };
        let mut filter = JobFilter::new(of.state);
        filter.kind = Some(of.kind.clone());
        filter.group = of.group.as_ref().map(|group| group.group);
        let mut note = None;
        if of.state == ListState::Pending && self.is_too_long(&of.kind)? {
            filter.to = Some(end_of_hour(now()));
            note = Some("the jobs that are due this hour; later ones are too many to sort");
        }
        let list = self.source.view.jobs(&filter, from, MOST_ROWS)?;
        if list.searched.is_some_and(|searched| searched.hit_limit) {
            note = Some("the search goes on with the next page");
        }
        self.open = list.next.map(|next| (of.clone(), page, next));
        Ok(List { of: of.clone(), page, jobs: list.rows, has_more: list.next.is_some(), note })
    }

    fn is_too_long(&self, kind: &str) -> Result<bool, StoreError> {
        if !self.source.is_file {
            return Ok(false);
        }
        let kinds = self.source.view.client().queue().kinds()?;
        Ok(kinds.iter().any(|(its, jobs)| its == kind && *jobs > MOST_SORTED))
    }

    pub(crate) fn job(&self, id: JobId) -> Result<JobPage, StoreError> {
        let client = self.source.view.client();
        let job = match client.get(id)? {
            Some(job) => {
                let reasons = client.why_pending(job.id)?;
                let lines = lines(&job, &reasons);
                Some(OpenJob { kind: job.kind, state: job.state, lines })
            }
            None => None,
        };
        Ok(JobPage { id, job })
    }
}

/// Returns the last millisecond of the hour.
fn end_of_hour(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let end = Duration::from_secs((since.as_secs() / 3600 + 1) * 3600);
    SystemTime::UNIX_EPOCH + (end - Duration::from_millis(1))
}

fn lines(job: &JobInfo, reasons: &[PendingReason]) -> Vec<String> {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = inspect::job_page(job, reasons, now(), &mut page);
    let page = String::from_utf8_lossy(&page);
    page.lines().map(|line| symbols(&cut(line, LINE_CHARS))).collect()
}
