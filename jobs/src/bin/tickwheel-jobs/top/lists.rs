//! Lists of jobs and single jobs, as the view of `top` opens them.
//!
//! Ground rules:
//!
//! - A list is read a page of [`MOST_ROWS`] jobs at a time, and each page reads at most [`MOST_READ`] jobs.
//! - A file does not sort the jobs of an hour that has not begun. If a kind has very many jobs, only those of this
//!   hour are listed.

use std::time::{Duration, SystemTime};

use tickwheel_jobs::{JobId, JobInfo, JobState, Pages, PendingReason, StoreError};

use super::ask::Source;
use super::figures::{Listed, MOST_ROWS};
use super::tables::symbols;
use crate::inspect;
use crate::text::{cut, now};

/// The most jobs that are read for one page.
const MOST_READ: usize = 2000;
/// The most jobs of a kind on a file that are sorted for a page.
const MOST_SORTED: u64 = 100_000;
/// The most characters of a line about a job.
const LINE_CHARS: usize = 4096;

/// The state of the jobs of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Set {
    Pending,
    Running,
    Dead,
    Completed,
}

impl Set {
    pub(crate) const ALL: [Set; 4] = [Set::Pending, Set::Running, Set::Dead, Set::Completed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Set::Pending => "pending",
            Set::Running => "running",
            Set::Dead => "dead",
            Set::Completed => "completed",
        }
    }

    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Set::Dead | Set::Completed)
    }
}

/// Which jobs a list has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ListOf {
    pub(crate) kind: String,
    pub(crate) set: Set,
    /// Only dead jobs whose errors have this first line.
    pub(crate) error: Option<String>,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) of: ListOf,
    /// The number of the page, from 0 on.
    pub(crate) page: usize,
    pub(crate) jobs: Vec<Listed>,
    pub(crate) has_more: bool,
    /// Says which jobs the list leaves out, if any.
    pub(crate) note: Option<&'static str>,
}

/// Everything about a job.
#[derive(Clone, Debug)]
pub(crate) struct JobPage {
    pub(crate) id: String,
    /// `None`: the job has completed, or was cancelled or deleted.
    pub(crate) job: Option<(Listed, Vec<String>)>,
}

/// Reads the pages of one list after the other.
pub(crate) struct Lists {
    source: Source,
    /// The list that was read last, the number of its last page, and its other pages.
    open: Option<(ListOf, usize, Pages)>,
}

impl Lists {
    pub(crate) fn new(source: Source) -> Lists {
        Lists { source, open: None }
    }

    /// Reads a page of a list. A further page is read only if the page before it was read last. Otherwise this reads
    /// the first page.
    pub(crate) fn page(&mut self, of: &ListOf, page: usize) -> Result<List, StoreError> {
        let mut note = None;
        let (page, mut pages) = match self.open.take() {
            Some((open, last, pages)) if open == *of && page == last + 1 => (page, pages),
            _ => {
                let (pages, left_out) = self.first(of)?;
                note = left_out;
                (0, pages)
            }
        };
        let (mut jobs, mut read) = (Vec::new(), 0);
        while jobs.len() < MOST_ROWS && read < MOST_READ {
            let Some(job) = pages.next() else { break };
            read += 1;
            if takes(of, &job) {
                jobs.push(Listed::of(&job));
            }
        }
        if let Some(error) = pages.error() {
            return Err(error.clone());
        }
        let has_more = jobs.len() == MOST_ROWS || read == MOST_READ;
        if read == MOST_READ {
            note = Some("2,000 jobs were searched");
        }
        self.open = Some((of.clone(), page, pages));
        Ok(List { of: of.clone(), page, jobs, has_more, note })
    }

    fn first(&self, of: &ListOf) -> Result<(Pages, Option<&'static str>), StoreError> {
        let client = &self.source.client;
        let pages = match of.set {
            Set::Pending => client.pending(),
            Set::Running => client.running(),
            Set::Dead => client.dead(),
            Set::Completed => client.ended().state(JobState::Completed),
        };
        let pages = pages.kind_named(&of.kind).in_pages_of(MOST_ROWS);
        if of.set != Set::Pending || !self.source.is_file {
            return Ok((pages, None));
        }
        let kinds = client.kinds()?;
        let many = kinds.iter().any(|(kind, jobs)| *kind == of.kind && *jobs > MOST_SORTED);
        Ok(match many {
            false => (pages, None),
            true => {
                let pages = pages.between(SystemTime::UNIX_EPOCH, end_of_hour(now()));
                (pages, Some("the jobs that are due this hour; later ones are too many to sort"))
            }
        })
    }

    /// Reads a job.
    pub(crate) fn job(&self, id: &str) -> Result<JobPage, StoreError> {
        let found = match id.parse::<JobId>() {
            Ok(id) => self.source.client.get(id)?,
            Err(_) => None,
        };
        let job = match found {
            Some(job) => {
                let reasons = self.source.client.why_pending(job.id)?;
                Some((Listed::of(&job), lines(&job, &reasons)))
            }
            None => None,
        };
        Ok(JobPage { id: id.to_owned(), job })
    }
}

fn takes(of: &ListOf, job: &JobInfo) -> bool {
    of.error.as_ref().is_none_or(|error| first_line(job) == error)
}

/// Returns the first line of the last error. The store groups dead jobs by this line.
pub(crate) fn first_line(job: &JobInfo) -> &str {
    job.error.as_deref().and_then(|error| error.lines().next()).unwrap_or_default()
}

/// Returns the last millisecond of the hour.
fn end_of_hour(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let end = Duration::from_secs((since.as_secs() / 3600 + 1) * 3600);
    SystemTime::UNIX_EPOCH + (end - Duration::from_millis(1))
}

/// Returns everything about a job as `show` prints it, with one field in each line.
fn lines(job: &JobInfo, reasons: &[PendingReason]) -> Vec<String> {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = inspect::job_page(job, reasons, now(), &mut page);
    let page = String::from_utf8_lossy(&page);
    page.lines().map(|line| symbols(&cut(line, LINE_CHARS))).collect()
}
