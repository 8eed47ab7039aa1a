//! Lists of jobs, a page at a time.

use std::collections::VecDeque;
use std::time::SystemTime;

use super::caller::{Caller, on_thread};
use super::client::Client;
use super::request;
use crate::store::{Ending, JobSet, Page, PageKey, PageRequest};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::job::Job;
use crate::values::time::Millis;

/// Jobs, read a page at a time. Nothing is held open between pages, so a slow reader delays no other user of
/// the store. A job that is inserted meanwhile may be missed, and one that is rescheduled may be seen twice or
/// not at all. A page ends with the job at which what is read of its jobs (payloads, results, progress, errors,
/// headers) reaches 1 MiB.
///
/// A page costs a read for each of its jobs, however many are pending, with two exceptions. On a file the jobs
/// of an hour that has not begun are not sorted: the first page of such an hour reads the places of all its
/// jobs, at about 0.1 microseconds each, and so does the next page after each 65,536 of them. On a server a
/// page of jobs that have not ended reads the places of all claimed jobs as well.
///
/// As an iterator it ends at an error of the store, which [`Pages::error`] then returns. [`Pages::next_page`]
/// returns each error itself.
#[derive(Debug)]
pub struct Pages {
    pub(super) client: Client,
    set: JobSet,
    /// The wanted state, of jobs that are not dead.
    state: Option<JobState>,
    kind: Option<String>,
    from: Millis,
    to: Millis,
    after: Option<PageKey>,
    /// How many jobs the next page has, at most.
    limit: usize,
    /// How many jobs any page has, at most.
    most: usize,
    ready: VecDeque<JobInfo>,
    finished: bool,
    error: Option<StoreError>,
}

const JOBS_PER_PAGE: usize = 256;

impl Client {
    /// Returns the pending jobs, in the order of due time. Nothing is held open between pages.
    #[doc(alias("list", "scheduled", "queued", "waiting"))]
    pub fn pending(&self) -> Pages {
        Pages::pending(self.clone())
    }

    /// Returns the jobs that run, and those that another process has claimed ([`JobState::Claimed`]): only that process
    /// knows whether they have started.
    #[doc(alias("list", "active", "executing"))]
    pub fn running(&self) -> Pages {
        Pages::running(self.clone())
    }

    /// Returns the jobs that have ended and are kept, the latest end first: completed ones of kinds that keep them
    /// ([`Kind::keep_completed`](crate::Kind::keep_completed)), dead ones, and cancelled ones whose end a caller
    /// waited for. [`Pages::state`] leaves out all but one of these.
    #[doc(alias("completed", "finished", "history"))]
    pub fn ended(&self) -> Pages {
        Pages::new(self.clone(), JobSet::Ended(None))
    }

    /// Returns the dead jobs, the latest death first.
    #[doc(alias("list", "failed", "dead_letter", "morgue"))]
    pub fn dead(&self) -> Pages {
        Pages::new(self.clone(), JobSet::Ended(Some(Ending::Dead)))
    }
}

impl Pages {
    pub(crate) fn new(client: Client, set: JobSet) -> Pages {
        Pages {
            client,
            set,
            state: None,
            kind: None,
            from: Millis::ZERO,
            to: Millis::MAX,
            after: None,
            limit: JOBS_PER_PAGE,
            most: JOBS_PER_PAGE,
            ready: VecDeque::new(),
            finished: false,
            error: None,
        }
    }

    pub(crate) fn pending(client: Client) -> Pages {
        Pages { state: Some(JobState::Pending), ..Pages::new(client, JobSet::Alive) }
    }

    pub(crate) fn running(client: Client) -> Pages {
        Pages { state: Some(JobState::Running), ..Pages::new(client, JobSet::Claimed) }
    }

    /// Leaves out the jobs of other kinds.
    #[must_use]
    pub fn kind<J: Job>(self) -> Pages {
        self.kind_named(J::KIND)
    }

    /// Leaves out the jobs of other kinds.
    #[must_use]
    pub fn kind_named(self, name: &str) -> Pages {
        Pages { kind: Some(name.to_owned()), ..self }
    }

    /// Of jobs that have ended, leaves out those that ended in another way: of the dead ones all, if the state is
    /// [`JobState::Completed`]. Has no effect on lists of other jobs.
    #[must_use]
    pub fn state(self, state: JobState) -> Pages {
        let only = Ending::ALL.into_iter().find(|ending| ending.state() == state);
        match self.set {
            JobSet::Ended(before) => {
                let is_empty = only.is_none() || before.is_some_and(|before| Some(before) != only);
                let finished = self.finished || is_empty;
                Pages { set: JobSet::Ended(only), finished, ..self }
            }
            JobSet::Alive | JobSet::Claimed => self,
        }
    }

    /// Leaves out jobs that are due before `from` or after `to`.
    #[must_use]
    pub fn between(self, from: SystemTime, to: SystemTime) -> Pages {
        // Whole milliseconds: the first at or after `from`, the last at or before `to`.
        let from = Millis::due(from).unwrap_or(Millis::present(from));
        Pages { from, to: Millis::present(to), ..self }
    }

    /// Reads pages of one job, two jobs, four jobs, and so on, for a caller that wants few of them. For the
    /// command `tickwheel-jobs`.
    #[doc(hidden)]
    #[must_use]
    pub fn from_one_job_on(self) -> Pages {
        Pages { limit: 1, ..self }
    }

    /// Reads pages of at most this many jobs. For the command `tickwheel-jobs`.
    #[doc(hidden)]
    #[must_use]
    pub fn in_pages_of(self, jobs: usize) -> Pages {
        let most = jobs.clamp(1, JOBS_PER_PAGE);
        Pages { limit: most, most, ..self }
    }

    /// Returns the next page. It is empty after the last job.
    ///
    /// # Errors
    ///
    /// If the store could not be read. The next call tries again.
    pub fn next_page(&mut self) -> Result<Vec<JobInfo>, StoreError> {
        on_thread(self.next_page_by(Caller::Thread))
    }

    pub(super) async fn next_page_by(
        &mut self,
        caller: Caller,
    ) -> Result<Vec<JobInfo>, StoreError> {
        if !self.ready.is_empty() {
            return Ok(self.ready.drain(..).collect());
        }
        while !self.finished {
            let page = self.read(caller).await?;
            self.finished = page.next.is_none();
            self.after = page.next;
            self.limit = (self.limit * 2).min(self.most);
            let wanted = |job: &JobInfo| match self.state {
                Some(JobState::Running) => {
                    matches!(job.state, JobState::Running | JobState::Claimed)
                }
                other => other.is_none_or(|state| job.state == state),
            };
            let jobs: Vec<JobInfo> = page.jobs.into_iter().filter(wanted).collect();
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
        Ok(Vec::new())
    }

    /// Returns the error at which the iterator ended, if it did.
    #[must_use]
    pub fn error(&self) -> Option<&StoreError> {
        self.error.as_ref()
    }

    /// Returns the state of the listed jobs.
    pub(super) fn listed(&self) -> JobState {
        self.state.unwrap_or(JobState::Dead)
    }

    /// Leaves out the jobs that are due at this time, if the list is among them. It must be in the order of due
    /// time.
    pub(super) fn skip_rest_of(&mut self, due: Millis) {
        if let Some((at, id)) = &mut self.after
            && *at == due
        {
            *id = JobId::from_u128(u128::MAX);
        }
    }

    async fn read(&self, caller: Caller) -> Result<Page, StoreError> {
        let jobs = PageRequest {
            set: self.set,
            kind: self.kind.clone(),
            from: self.from,
            to: self.to,
            after: self.after,
            limit: self.limit,
        };
        self.client.ask(caller, request::page(jobs)).await
    }
}

impl Iterator for Pages {
    type Item = JobInfo;

    fn next(&mut self) -> Option<JobInfo> {
        if self.ready.is_empty() && self.error.is_none() {
            match self.next_page() {
                Ok(jobs) => self.ready = jobs.into(),
                Err(error) => self.error = Some(error),
            }
        }
        self.ready.pop_front()
    }
}
