//! Bulk changes: one verb for every job of a list, and cancels of a batch by ids or keys, at most 256 jobs a commit.
//!
//! Ground rules:
//!
//! - A step is one operation of the store ([`Op::Each`]), so all of its changes are one commit.
//! - A job leaves `chosen` after its step was answered. So the next call makes a step again if it failed or if
//!   its future was dropped, and the jobs behind it wait.
//! - The due time of a rescheduled job depends on `when`, on the first step, and on the job's id. So a job that
//!   was moved is recognized if the list comes to it once more.

use core::borrow::Borrow;
use std::collections::VecDeque;

use tickwheel::When;

use super::asynchronous::both;
use super::client::{Client, check_name, draw};
use super::read::Pages;
use super::request;
use super::request::{Caller, on_thread};
use crate::store::{Answer, MOST_EACH, Op};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{Cancel, JobInfo, JobState};
use crate::values::invalid_input::InvalidInput;
use crate::values::time::{Millis, Now};

/// A change of every job of a list: [`Pages::cancel_all`], [`Pages::reschedule_all`], [`Pages::retry_all`],
/// [`Pages::delete_all`]. It changes nothing until it is iterated, or [run](Bulk::run).
///
/// Each step changes at most 256 jobs in one commit, and returns its counts. Callers, claims and ends of runs get
/// their turn between the steps, so no number of jobs stops the others. The whole is not one transaction: if the
/// program stops calling [`next`](Iterator::next), the jobs of the steps before are changed and the others are
/// not.
///
/// If a step fails, none of its jobs is changed; after [`StoreError::Unknown`] they may be. The bulk keeps its
/// place: the next call makes the same step again and goes on. A job that the failed step did change counts as
/// passed over then. An iteration that ignores errors does not end while the store fails.
///
/// The list is read as it goes ([`Pages`]). A job that is inserted meanwhile is changed if its place in the list
/// was not reached yet. To change only jobs of before, give the list an end with [`Pages::between`], or choose
/// with [`Bulk::only`].
///
/// ```
/// use std::time::Duration;
/// # use serde::{Deserialize, Serialize};
/// # use tickwheel_jobs::{Job, Jobs, StoreError};
/// # #[derive(Serialize, Deserialize)]
/// # struct Charge { customer: u64 }
/// # impl Job for Charge { const KIND: &'static str = "charge"; }
/// # let (jobs, _driver) = Jobs::memory().handle(|_: Charge, _| Ok(())).manual()?;
/// let hour = Duration::from_secs(3600);
/// jobs.insert_batch((0..1000).map(|customer| (hour, Charge { customer })))?;
/// for step in jobs.pending().kind::<Charge>().reschedule_all(24 * hour)? {
///     println!("{} more jobs are due tomorrow", step?.changed);
/// }
/// let counts = jobs.pending().kind_named("charge").cancel_all()?.run()?;
/// assert_eq!(counts.changed, 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a bulk changes nothing until it is iterated or run"]
pub struct Bulk {
    pages: Pages,
    change: BulkChange,
    only: Option<Only>,
    /// The jobs that were read and are not changed yet.
    chosen: VecDeque<JobId>,
    /// How many jobs may still be chosen.
    room: u64,
    has_more: bool,
    total: BulkCounts,
}

/// How many pages a step reads at most.
const PAGES_PER_STEP: usize = 16;

type Only = Box<dyn FnMut(&JobInfo) -> bool + Send>;

#[derive(Clone, Copy, Debug)]
enum BulkChange {
    Cancel,
    /// `since`: the present of the first step, from which a delay counts.
    Reschedule {
        when: When,
        since: Option<Now>,
    },
    Retry,
    Delete,
}

/// How many jobs a step of a [`Bulk`], or all of its steps, were about.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct BulkCounts {
    /// The jobs that the list had: the sum of the others.
    pub seen: u64,
    /// The jobs that were cancelled, rescheduled, retried or deleted.
    pub changed: u64,
    /// The jobs that may have started, and whose runs were asked to stop ([`Cancel::Running`]).
    pub asked_to_stop: u64,
    /// The jobs that were left as they are: a job had ended, or ran already and could not be rescheduled, or
    /// another job has the key of a dead one.
    pub passed_over: u64,
}

impl BulkCounts {
    pub(super) fn of(answers: Vec<Answer>) -> Result<BulkCounts, StoreError> {
        let mut counts = BulkCounts::default();
        for answer in answers {
            counts.seen += 1;
            match answer {
                Answer::Cancelled(Cancel::Cancelled) | Answer::Changed(true) => counts.changed += 1,
                Answer::Cancelled(Cancel::Running) => counts.asked_to_stop += 1,
                Answer::Refused(error) if !matches!(error, StoreError::KeyTaken { .. }) => {
                    return Err(error);
                }
                _ => counts.passed_over += 1,
            }
        }
        Ok(counts)
    }

    pub(super) fn add(&mut self, step: BulkCounts) {
        let BulkCounts { seen, changed, asked_to_stop, passed_over } = step;
        self.seen += seen;
        self.changed += changed;
        self.asked_to_stop += asked_to_stop;
        self.passed_over += passed_over;
    }
}

const ENDED: [JobState; 4] =
    [JobState::Dead, JobState::Completed, JobState::Cancelled, JobState::Expired];

/// Verbs for every job of the list, from where it has been read to its end.
impl Pages {
    /// Cancels the jobs, which are pending or run. A run is asked to stop, and is not tried again if it fails.
    /// That holds for a pending job too that has started since it was listed.
    ///
    /// # Errors
    ///
    /// [`InvalidInput::NotApplicable`] if the list is one of jobs that have ended.
    #[doc(alias("clear", "empty", "drain", "purge", "obliterate"))]
    pub fn cancel_all(self) -> Result<Bulk, StoreError> {
        self.bulk("cancel_all", &[JobState::Pending, JobState::Running], BulkChange::Cancel)
    }

    /// Gives the jobs, which are pending, another due time. A delay counts from the first step. If `when` has a
    /// [jitter](When::jitter), the jobs spread over it. A job that is due at its new time already is left out,
    /// and not counted.
    ///
    /// # Errors
    ///
    /// [`InvalidInput::NotApplicable`] if the list is not one of pending jobs. A time outside of the years 1970 to
    /// 9999 is an error of the first step.
    #[doc(alias("move", "postpone", "delay"))]
    pub fn reschedule_all(self, when: impl Into<When>) -> Result<Bulk, StoreError> {
        let change = BulkChange::Reschedule { when: when.into(), since: None };
        self.bulk("reschedule_all", &[JobState::Pending], change)
    }

    /// Makes the dead jobs of the list pending and due now, as [`Client::retry`](crate::Client::retry) does. A
    /// job whose key another job has stays dead, and counts as passed over.
    ///
    /// # Errors
    ///
    /// [`InvalidInput::NotApplicable`] if the list is not one of jobs that have ended.
    #[doc(alias("requeue", "revive", "resurrect"))]
    pub fn retry_all(self) -> Result<Bulk, StoreError> {
        self.bulk("retry_all", &ENDED, BulkChange::Retry)
    }

    /// Deletes the jobs: dead ones, or, of [`Client::ended`](crate::Client::ended), also completed and cancelled ones
    /// that are kept, with their results.
    ///
    /// # Errors
    ///
    /// [`InvalidInput::NotApplicable`] if the list is not one of jobs that have ended.
    #[doc(alias("discard", "remove", "purge"))]
    pub fn delete_all(self) -> Result<Bulk, StoreError> {
        self.bulk("delete_all", &ENDED, BulkChange::Delete)
    }

    fn bulk(
        self,
        verb: &'static str,
        allowed: &[JobState],
        change: BulkChange,
    ) -> Result<Bulk, StoreError> {
        if let Some(listed) = self.listed()
            && !allowed.contains(&listed)
        {
            return Err(InvalidInput::NotApplicable { verb, listed: listed.word() }.into());
        }
        let (chosen, total) = (VecDeque::new(), BulkCounts::default());
        let (only, room, has_more) = (None, u64::MAX, false);
        Ok(Bulk { pages: self, change, only, chosen, room, has_more, total })
    }
}

impl Bulk {
    /// Leaves out the jobs for which `wanted` is false: the others are neither changed nor counted. A second
    /// `only` replaces the first.
    ///
    /// ```
    /// # use tickwheel_jobs::{Client, StoreError};
    /// # fn retry(jobs: &Client) -> Result<(), StoreError> {
    /// let timed_out = |job: &tickwheel_jobs::JobInfo| {
    ///     job.error.as_ref().is_some_and(|error| error.contains("timed out"))
    /// };
    /// jobs.dead().retry_all()?.only(timed_out).run()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("filter", "matching", "where"))]
    pub fn only(self, wanted: impl FnMut(&JobInfo) -> bool + Send + 'static) -> Bulk {
        Bulk { only: Some(Box::new(wanted)), ..self }
    }

    /// Ends the list behind `jobs` jobs, for example those that a person has confirmed. [`Bulk::has_more`] says whether
    /// there were more.
    #[doc(alias("limit", "take"))]
    pub fn at_most(self, jobs: u64) -> Bulk {
        Bulk { room: jobs, ..self }
    }

    /// Says whether the list had more jobs than [`Bulk::at_most`] allows. The others are as they were.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Makes the next step. Returns its counts, or `None` after the last job of the list. It reads 4,096 jobs at most:
    /// if the list takes few of them, a step may change none.
    ///
    /// # Errors
    ///
    /// If the store could not be read or changed. The next call tries again.
    pub fn next_step(&mut self) -> Result<Option<BulkCounts>, StoreError> {
        on_thread(self.next_step_by(Caller::Thread))
    }

    /// Makes all steps that are left. Returns the counts of all steps since the beginning.
    ///
    /// # Errors
    ///
    /// If the store could not be read or changed. [`Bulk::total`] has the counts up to there, and the next call
    /// goes on from there.
    pub fn run(&mut self) -> Result<BulkCounts, StoreError> {
        on_thread(self.run_by(Caller::Thread))
    }

    /// Returns the counts of all steps since the beginning.
    #[must_use]
    pub fn total(&self) -> BulkCounts {
        self.total
    }

    pub(super) async fn run_by(&mut self, caller: Caller) -> Result<BulkCounts, StoreError> {
        while self.next_step_by(caller).await?.is_some() {}
        Ok(self.total)
    }

    pub(super) async fn next_step_by(
        &mut self,
        caller: Caller,
    ) -> Result<Option<BulkCounts>, StoreError> {
        self.begin(caller).await?;
        // Whether a job has moved already is seen only once it is read.
        let needs_reading =
            self.only.is_some() || matches!(self.change, BulkChange::Reschedule { .. });
        if !needs_reading && let Some(ids) = self.pages.take_ids() {
            ids.into_iter().for_each(|id| self.take(id));
        }
        for _ in 0..PAGES_PER_STEP {
            if self.chosen.len() >= MOST_EACH || self.pages.is_over() {
                break;
            }
            let page = self.pages.look_by(caller).await?;
            self.choose(&page);
        }
        // Few jobs are no reason for a commit, unless they are the last ones.
        if self.chosen.len() < MOST_EACH && !self.pages.is_over() {
            return Ok(Some(BulkCounts::default()));
        }
        let client = &self.pages.client;
        let now = client.dispatcher.clock.now().millis();
        let of_step = self.chosen.iter().take(MOST_EACH);
        let ops: Vec<Op> = of_step.map(|id| self.change.op(*id, now)).collect();
        if ops.is_empty() {
            return Ok(None);
        }
        let jobs = ops.len();
        let answers = client.ask(caller, request::each(ops)).await?;
        let step = BulkCounts::of(answers)?;
        self.chosen.drain(..jobs);
        self.total.add(step);
        Ok(Some(step))
    }

    /// Takes the present of the first step, and checks the time of a reschedule.
    async fn begin(&mut self, caller: Caller) -> Result<(), StoreError> {
        if let BulkChange::Reschedule { when, since: since @ None } = &mut self.change {
            let now = self.pages.client.latest(caller).await?;
            now.resolve(*when, 0)?;
            *since = Some(now);
        }
        Ok(())
    }

    fn choose(&mut self, page: &[JobInfo]) {
        let mut moved_before = None;
        for job in page {
            let due = self.change.due_of(job.id);
            if due.is_some_and(|due| due == Millis::present(job.due)) {
                moved_before = due;
                continue;
            }
            if self.only.as_mut().is_none_or(|wanted| wanted(job)) {
                self.take(job.id);
            }
        }
        // The list has come to the time to which the jobs move: without a jitter that is all of them.
        if let (BulkChange::Reschedule { when, .. }, Some(due)) = (self.change, moved_before)
            && when.leeway().is_zero()
        {
            self.pages.skip_rest_of(due);
        }
    }

    fn take(&mut self, id: JobId) {
        if self.room == 0 {
            self.has_more = true;
            self.pages.end();
            return;
        }
        self.room -= 1;
        self.chosen.push_back(id);
    }
}

impl BulkChange {
    /// Returns when a job is due after this change, if it is rescheduled.
    fn due_of(self, id: JobId) -> Option<Millis> {
        match self {
            BulkChange::Reschedule { when, since: Some(since) } => {
                since.resolve(when, draw(id)).ok()
            }
            _ => None,
        }
    }

    fn op(self, id: JobId, now: Millis) -> Op {
        match self {
            BulkChange::Cancel => Op::Cancel(id),
            BulkChange::Reschedule { .. } => {
                Op::Reschedule(id, self.due_of(id).unwrap_or(Millis::ZERO))
            }
            BulkChange::Retry => Op::Retry(id, now),
            BulkChange::Delete => Op::Delete(id),
        }
    }
}

impl Iterator for Bulk {
    type Item = Result<BulkCounts, StoreError>;

    fn next(&mut self) -> Option<Result<BulkCounts, StoreError>> {
        self.next_step().transpose()
    }
}

both! {
    Client:
    /// Cancels many jobs, for example the jobs of all orders that were paid. Returns the answer to each, in the order
    /// of the ids. It makes one commit for each 256 of them, and on a server one call of a script.
    ///
    /// Each answer is that of [`Client::cancel`]. [`Pages::cancel_all`] cancels the jobs of a list, and counts the
    /// answers.
    ///
    /// # Errors
    ///
    /// As [`Client::cancel`], if the first commit fails. If a later commit fails, [`StoreError::Incomplete`] says how
    /// many jobs, from the first one on, have an answer. A second call with the same ids is safe: it answers
    /// [`Cancel::Gone`] for a job that the first call has cancelled.
    #[doc(alias("cancel_many", "cancel_all", "remove_all", "abort_all"))]
    pub fn cancel_batch(
        &self,
        ids: impl IntoIterator<Item = impl Borrow<JobId>>,
    ) -> Result<Vec<Cancel>, StoreError> = |it, caller| {
        let cancels = ids.into_iter().map(|id| Op::Cancel(*id.borrow())).collect();
        it.each(caller, cancels, |answer| match answer {
            Answer::Cancelled(cancel) => Some(cancel),
            _ => None,
        })
        .await
    };

    /// Cancels the pending jobs of many keys: [`Keyed::cancel`](crate::Keyed::cancel) for each. Returns whether each
    /// key had a pending job, in the order of the keys. It makes one commit for each 256 of them, and on a server one
    /// call of a script.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct CloseOrder { order: u64 }
    /// # impl Job for CloseOrder { const KIND: &'static str = "close-order"; }
    /// # let (jobs, _driver) = Jobs::memory().handle(|_: CloseOrder, _| Ok(())).manual()?;
    /// let hour = std::time::Duration::from_secs(3600);
    /// jobs.keyed("order-1001").insert(72 * hour, CloseOrder { order: 1001 })?;
    /// let paid = [1001, 1002].map(|order| format!("order-{order}"));
    /// assert_eq!(jobs.cancel_keys(paid)?, [true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::cancel_batch`]. If a key is empty or longer than 255 bytes, no job is cancelled.
    #[doc(alias("cancel_batch_by_key", "cancel_all", "remove_all"))]
    pub fn cancel_keys(
        &self,
        keys: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Vec<bool>, StoreError> = |it, caller| {
        let keys: Vec<String> = keys.into_iter().map(Into::into).collect();
        keys.iter().try_for_each(|key| check_name("key", key))?;
        let cancels = keys.into_iter().map(Op::CancelKey).collect();
        it.each(caller, cancels, |answer| match answer {
            Answer::Changed(changed) => Some(changed),
            _ => None,
        })
        .await
    };
}

impl Client {
    /// Makes changes of single jobs, at most [`MOST_EACH`] in a commit. Returns the answer to each.
    async fn each<A>(
        &self,
        caller: Caller,
        changes: Vec<Op>,
        read: fn(Answer) -> Option<A>,
    ) -> Result<Vec<A>, StoreError> {
        let mut answers = Vec::with_capacity(changes.len());
        for part in changes.chunks(MOST_EACH) {
            let of_part = self.ask(caller, request::each(part.to_vec())).await;
            let of_part = of_part.and_then(|of_part| {
                let read: Option<Vec<A>> = of_part.into_iter().map(read).collect();
                read.ok_or_else(request::strange)
            });
            match of_part {
                Ok(of_part) => answers.extend(of_part),
                Err(error) if answers.is_empty() => return Err(error),
                Err(error) => {
                    let (done, error) = (answers.len(), Box::new(error));
                    return Err(StoreError::Incomplete { done, error });
                }
            }
        }
        Ok(answers)
    }
}

impl core::fmt::Debug for Bulk {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Bulk { pages, change, chosen, total, .. } = self;
        f.debug_struct("Bulk")
            .field("pages", pages)
            .field("change", change)
            .field("chosen", &chosen.len())
            .field("total", total)
            .finish_non_exhaustive()
    }
}
