//! The verbs that read: counts of jobs, kinds, dead jobs by error, and nodes; lists of jobs, a page at a time; the
//! history, in each minute of the last 48 hours and in each hour of the last 90 days; and why a job has not started.

use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use super::asynchronous::both;
use super::client::{Client, check_name};
use super::kind::{Kind, Queue};
use super::request::{self, Caller, on_thread};
use crate::store::{Ending, HistoryPart, JobSet, Page, PageKey, PageRequest};
use crate::values::error::StoreError;
use crate::values::history::{HistoryEntry, Step};
use crate::values::id::JobId;
use crate::values::info::{Counts, DeadByError, JobInfo, JobState};
use crate::values::job::Job;
use crate::values::node::NodeInfo;
use crate::values::pending_reason::PendingReason;
use crate::values::time::Millis;

both! {
    Client:
    /// Returns how many jobs there are.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("len", "size", "stats"))]
    pub fn count(&self) -> Result<Counts, StoreError> = |it, caller| {
        it.ask(caller, request::counts()).await
    };

    /// Returns the dead jobs in groups, by kind and first line of the error: `most` groups at most, those with the
    /// most jobs first. It reads the groups and not the jobs, so it costs the same however many jobs are dead.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("failures", "group_by"))]
    pub fn dead_by_error(
        &self,
        most: usize,
    ) -> Result<Vec<DeadByError>, StoreError> = |it, caller| {
        it.ask(caller, request::dead_by_error(most)).await
    };

    /// Returns the processes that run the jobs of the queue, those that have ended without a word within the last day
    /// too: [`NodeInfo::was_seen_lately`] tells these apart on a server. A shutdown removes its process from the list.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("workers", "processes", "servers"))]
    pub fn nodes(&self) -> Result<Vec<NodeInfo>, StoreError> = |it, caller| {
        it.ask(caller, request::nodes()).await
    };

    /// Returns the kinds that have jobs and no handler in this process, each with its number of
    /// jobs. Their jobs wait.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn unhandled(&self) -> Result<Vec<(String, u64)>, StoreError> = |it, caller| {
        let waits = |(kind, jobs): &(String, u64)| *jobs > 0 && !it.dispatcher.handles(kind);
        let kinds = it.ask(caller, request::kinds()).await?;
        Ok(kinds.into_iter().filter(waits).collect())
    };

    /// Returns why a job has not started: every reason that holds. If there is none, [`PendingReason::Interrupted`] or
    /// [`PendingReason::Turn`]. The list is empty if the job is not pending: [`get`](Client::get) tells whether it
    /// runs, has ended, or is gone.
    ///
    /// It reads the job, the settings of the queue and its nodes, and the claimed jobs if a limit is stored. The
    /// figures of a node are some seconds old on a server, and may be older on a file.
    ///
    /// Of limits it knows those that are stored, and not those that only a program has
    /// ([`Builder::limit_unless_set`](crate::Builder::limit_unless_set)): a job behind such a limit waits for its turn.
    /// A job that has expired has the same reasons, because it ends at its turn.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs, PendingReason};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Mail(u64);
    /// # impl Job for Mail { const KIND: &'static str = "mail"; }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (jobs, driver) = Jobs::memory().handle(|_: Mail, _| Ok(())).manual()?;
    /// jobs.kind::<Mail>().pause()?;
    /// let id = jobs.insert(Duration::ZERO, Mail(7))?;
    /// driver.advance(Duration::from_secs(1));
    /// assert_eq!(jobs.why_pending(id)?, [PendingReason::KindPaused]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("explain", "blocked", "stuck"))]
    pub fn why_pending(&self, id: JobId) -> Result<Vec<PendingReason>, StoreError> = |it, caller| {
        match it.ask(caller, request::get(id)).await? {
            Some(job) => Ok(it.why_of_by(caller, &[job]).await?.pop().unwrap_or_default()),
            None => Ok(Vec::new()),
        }
    };
}

both! {
    Queue:
    /// Returns every kind that the store has ever had, each with its number of jobs that are not
    /// dead.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn kinds(&self) -> Result<Vec<(String, u64)>, StoreError> = |it, caller| {
        it.0.ask(caller, request::kinds()).await
    };

    /// Returns what happened to the jobs of the queue: an entry for each minute or hour in which something happened,
    /// in their order, if it began in `range`. There are minutes of the last 48 hours, and hours of the last 90 days.
    ///
    /// The figures are exact: an event counts in the minute in which it was committed, by the clock of the store, and
    /// in that commit. Inserts of [`Client::statement`] count when the process that runs the jobs takes them.
    ///
    /// It reads one row for each kind and hour, or for each kind and day. At most 200 kinds have a history of their
    /// own; further ones share that of the kind `other`.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("statistics", "metrics", "rate", "throughput"))]
    pub fn history(
        &self,
        step: Step,
        range: Range<SystemTime>,
    ) -> Result<Vec<HistoryEntry>, StoreError> = |it, caller| {
        it.0.history_by(caller, None, step, range).await
    };
}

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
    pub(crate) kind: Option<String>,
    pub(crate) from: Millis,
    pub(crate) to: Millis,
    after: Option<PageKey>,
    ready: VecDeque<JobInfo>,
    /// The jobs, if they were named one by one.
    ids: Option<VecDeque<JobId>>,
    /// The key, if the list is the pending job that has it when the list is read.
    pub(crate) key: Option<String>,
    only: Option<Only>,
    finished: bool,
    error: Option<StoreError>,
}

/// Says which of the read jobs the list has.
#[derive(Clone)]
struct Only(Arc<dyn Fn(&JobInfo) -> bool + Send + Sync>);

impl core::fmt::Debug for Only {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Only")
    }
}

/// How many jobs of a list by ids are read at once.
const IDS_PER_PAGE: usize = 32;
const JOBS_PER_PAGE: usize = 256;

impl Client {
    /// Returns the pending jobs, in the order of due time. Nothing is held open between pages.
    #[doc(alias("list", "scheduled", "queued", "waiting"))]
    pub fn pending(&self) -> Pages {
        Pages::new(self.clone(), JobSet::Alive)
    }

    /// Returns the jobs that run, and those that another process has claimed ([`JobState::Claimed`]): only that process
    /// knows whether they have started.
    #[doc(alias("list", "active", "executing"))]
    pub fn running(&self) -> Pages {
        Pages::new(self.clone(), JobSet::Claimed)
    }

    /// Returns the jobs that have ended and are kept, the latest end first. These are dead jobs, completed and expired
    /// jobs of kinds that keep them ([`Kind::keep_completed`](crate::Kind::keep_completed)), and cancelled jobs for
    /// whose end a caller waited. [`Pages::state`] leaves out all but one of these.
    #[doc(alias("completed", "finished", "history"))]
    pub fn ended(&self) -> Pages {
        Pages::new(self.clone(), JobSet::Ended(None))
    }

    /// Returns the dead jobs, the latest death first.
    #[doc(alias("list", "failed", "dead_letter", "morgue"))]
    pub fn dead(&self) -> Pages {
        Pages::new(self.clone(), JobSet::Ended(Some(Ending::Dead)))
    }

    /// Returns these jobs, in the order of their ids here. Those that are gone are left out. A change of all of them
    /// ([`Pages::cancel_all`], [`Pages::retry_all`] and so on) applies to each job that is in a state for it, and
    /// passes the others over. It reads the jobs before only for a reschedule, and if something narrows the list or the
    /// change ([`Pages::kind`], [`Pages::between`], [`Bulk::only`](crate::Bulk::only)).
    #[doc(alias("reschedule_batch", "retry_batch"))]
    pub fn by_ids(&self, ids: impl IntoIterator<Item = JobId>) -> Pages {
        let ids = Some(ids.into_iter().collect());
        Pages { ids, ..Pages::new(self.clone(), JobSet::Alive) }
    }
}

impl Pages {
    pub(crate) fn new(client: Client, set: JobSet) -> Pages {
        Pages {
            client,
            set,
            kind: None,
            from: Millis::ZERO,
            to: Millis::MAX,
            after: None,
            ready: VecDeque::new(),
            ids: None,
            key: None,
            only: None,
            finished: false,
            error: None,
        }
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
        while !self.is_over() {
            let jobs = self.look_by(caller).await?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
        Ok(Vec::new())
    }

    /// Returns the jobs that were read and not returned, or reads one page of the store and returns those of its jobs
    /// that the list has.
    pub(super) async fn look_by(&mut self, caller: Caller) -> Result<Vec<JobInfo>, StoreError> {
        if !self.ready.is_empty() {
            return Ok(self.ready.drain(..).collect());
        }
        // In a list by time, the store leaves out the other jobs. Here the list does.
        let is_wanted = |job: &JobInfo| {
            self.kind.as_ref().is_none_or(|kind| *kind == job.kind)
                && (self.from..=self.to).contains(&Millis::present(job.due))
        };
        let mut jobs = match (&self.key, &self.ids) {
            (Some(key), _) => {
                let job = self.client.keyed(key).get_by(caller).await?;
                self.finished = true;
                job.into_iter().filter(is_wanted).collect()
            }
            (None, Some(ids)) => {
                let mut jobs = Vec::new();
                let read = ids.len().min(IDS_PER_PAGE);
                for id in ids.iter().take(read) {
                    jobs.extend(self.client.ask(caller, request::get(*id)).await?);
                }
                jobs.retain(is_wanted);
                self.ids.iter_mut().for_each(|ids| drop(ids.drain(..read)));
                self.finished = self.ids.as_ref().is_none_or(VecDeque::is_empty);
                jobs
            }
            (None, None) => {
                let page = self.read(caller).await?;
                self.finished = page.next.is_none();
                self.after = page.next;
                page.jobs
            }
        };
        jobs.retain(|job| {
            let is_in_set = match self.set {
                JobSet::Alive => job.state == JobState::Pending || self.ids.is_some(),
                JobSet::Claimed => matches!(job.state, JobState::Running | JobState::Claimed),
                JobSet::Ended(_) => true,
            };
            is_in_set && self.only.as_ref().is_none_or(|only| (only.0)(job))
        });
        Ok(jobs)
    }

    /// Leaves out the jobs for which `wanted` is false.
    #[must_use]
    pub(crate) fn only(self, wanted: impl Fn(&JobInfo) -> bool + Send + Sync + 'static) -> Pages {
        Pages { only: Some(Only(Arc::new(wanted))), ..self }
    }

    /// Says whether all pages were read.
    pub(super) fn is_over(&self) -> bool {
        self.finished && self.ready.is_empty()
    }

    /// Takes the jobs that were named one by one, unread, if they were, and if the list has all of them.
    pub(super) fn take_ids(&mut self) -> Option<VecDeque<JobId>> {
        let has_all_times = (self.from, self.to) == (Millis::ZERO, Millis::MAX);
        if self.kind.is_some() || self.only.is_some() || !has_all_times {
            return None;
        }
        let ids = self.ids.take()?;
        self.finished = true;
        Some(ids)
    }

    /// Ends the list here.
    pub(super) fn end(&mut self) {
        self.finished = true;
        self.ready.clear();
    }

    /// Returns the error at which the iterator ended, if it did.
    #[must_use]
    pub fn error(&self) -> Option<&StoreError> {
        self.error.as_ref()
    }

    /// Returns the state of the listed jobs, unless they were named one by one. Those that have ended in any way count
    /// as dead.
    pub(super) fn listed(&self) -> Option<JobState> {
        let state = match self.set {
            JobSet::Alive => JobState::Pending,
            JobSet::Claimed => JobState::Running,
            JobSet::Ended(ending) => ending.map_or(JobState::Dead, Ending::state),
        };
        self.ids.is_none().then_some(state)
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
            limit: JOBS_PER_PAGE,
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

both! {
    Kind:
    /// Returns what happened to the jobs of the kind: see [`Queue::history`]. A kind that has none of its own, because
    /// 200 others have one, has an empty history; `kind_named("other")` has that of all such kinds.
    ///
    /// # Errors
    ///
    /// If the store could not be read, or the name of the kind is empty or longer than 255 bytes.
    pub fn history(
        &self,
        step: Step,
        range: Range<SystemTime>,
    ) -> Result<Vec<HistoryEntry>, StoreError> = |it, caller| {
        check_name("kind's name", &it.name)?;
        it.client.history_by(caller, Some(&it.name), step, range).await
    };
}

/// Returns the first beginning of a minute or an hour at this time or after it.
fn next(step: Step, time: SystemTime) -> Millis {
    let (ms, length) = (Millis::present(time).get(), length_ms(step));
    Millis::clamped(ms.saturating_add(length - 1) / length * length)
}

fn length_ms(step: Step) -> i64 {
    i64::try_from(step.length().as_millis()).unwrap_or(i64::MAX)
}

/// Adds up parts of a history by the step that was asked for.
fn entries(step: Step, parts: Vec<HistoryPart>) -> Vec<HistoryEntry> {
    let length = length_ms(step);
    let mut entries: Vec<HistoryEntry> = Vec::new();
    for (begin, is_hour, figures) in parts {
        if is_hour && step == Step::Minute {
            continue;
        }
        let begin = Millis::clamped(begin.get() - begin.get().rem_euclid(length)).to_system();
        if entries.last().is_none_or(|last| last.begin != begin) {
            entries.push(HistoryEntry::at(begin));
        }
        if let Some(last) = entries.last_mut() {
            figures.add_to(last);
        }
    }
    entries
}

impl Client {
    pub(super) async fn history_by(
        &self,
        caller: Caller,
        kind: Option<&str>,
        step: Step,
        range: Range<SystemTime>,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let (from, to) = (next(step, range.start), next(step, range.end));
        let kind = kind.map(str::to_owned);
        let parts = self.ask(caller, request::history(kind, from, to)).await?;
        Ok(entries(step, parts))
    }

    /// Returns why each of these jobs has not started.
    pub(crate) fn why_of(&self, jobs: &[JobInfo]) -> Result<Vec<Vec<PendingReason>>, StoreError> {
        on_thread(self.why_of_by(Caller::Thread, jobs))
    }

    async fn why_of_by(
        &self,
        caller: Caller,
        jobs: &[JobInfo],
    ) -> Result<Vec<Vec<PendingReason>>, StoreError> {
        let mut each = vec![Vec::new(); jobs.len()];
        if jobs.iter().all(|job| job.state != JobState::Pending) {
            return Ok(each);
        }
        let stored = self.ask(caller, request::settings()).await?;
        let nodes = self.ask(caller, request::nodes()).await?;
        for (job, reasons) in jobs.iter().zip(&mut each) {
            if job.state != JobState::Pending {
                continue;
            }
            let reached = self.reached_limits(caller, &stored, job).await?;
            let now = self.dispatcher.clock.now().millis().to_system();
            *reasons = PendingReason::of_settings(job, &stored, now);
            reasons.extend(reached.into_iter().map(PendingReason::Limit));
            PendingReason::add_nodes(reasons, job, &nodes, self.dispatcher.shared, now);
        }
        Ok(each)
    }
}
