//! Questions on a connection of their own: the caller's thread asks them, and the dispatcher goes on.
//!
//! Ground rules:
//!
//! - A question sees every commit that was answered before it was asked.
//! - The store says which jobs are claimed. Which of those have not started yet only this process
//!   knows: `correct` says so in the answer.
//! - The connection is opened for the first question, and closed when the dispatcher has ended.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::call::Alive;
use super::timed_lock::TimedLock;
use crate::store::{Answer, ApplyError, Batch, Op, Store};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::time::Millis;

/// Opens the store of the jobs once more.
pub(crate) type Open = Box<dyn Fn() -> Result<Box<dyn Store>, StoreError> + Send + Sync>;

/// Returns the claimed jobs that have not started.
pub(crate) type NotStarted = Box<dyn Fn() -> HashSet<JobId> + Send + Sync>;

/// Asks the store on a connection of its own.
pub(crate) struct Questions {
    open: Open,
    alive: Arc<Alive>,
    not_started: OnceLock<NotStarted>,
    store: TimedLock<Option<Box<dyn Store>>>,
}

impl Questions {
    pub(crate) fn new(open: Open, alive: Arc<Alive>) -> Questions {
        Questions { open, alive, not_started: OnceLock::new(), store: TimedLock::new(None) }
    }

    /// Sets what knows which claimed jobs have not started.
    pub(crate) fn correct_by(&self, not_started: NotStarted) {
        let _ = self.not_started.set(not_started);
    }

    /// Asks, and waits for others who ask until `until` at most.
    pub(crate) fn ask(
        &self,
        op: &Op,
        until: Option<Instant>,
        now: Millis,
    ) -> Result<Answer, ApplyError> {
        let answer = self.with_store(until, |store| {
            let ops = core::slice::from_ref(op);
            let batch =
                Batch { number: 0, ops, claim: None, synced: false, awaited: false, until, now };
            store.apply(&batch)?.answers.pop().ok_or_else(|| StoreError::Closed.into())
        })?;
        let not_started = self.not_started.get().map(|not_started| not_started());
        let not_started = not_started.unwrap_or_default();
        Ok(correct(answer, |id| not_started.contains(&id), not_started.len() as u64))
    }

    /// Walks the whole store.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let checked = self.with_store(None, |store| Ok(store.check()));
        checked.map_err(|failed| failed.error)?
    }

    /// Closes the connection, unless a question is under way: its caller closes the connection then.
    pub(crate) fn close(&self) {
        if let Some(mut store) = self.store.try_lock() {
            drop(store.take());
        }
    }

    fn with_store<T>(
        &self,
        until: Option<Instant>,
        ask: impl FnOnce(&mut dyn Store) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        let answer = {
            let mut slot = self.store.lock_until(until).ok_or(StoreError::Busy)?;
            if self.alive.refuses() {
                return Err(self.alive.why_ended().into());
            }
            let mut store = match slot.take() {
                Some(store) => store,
                None => (self.open)()?,
            };
            let answer = ask(&mut *store);
            *slot = Some(store);
            answer
        };
        if self.alive.has_ended() {
            self.close();
        }
        answer
    }
}

/// Says of claimed jobs that they are claimed: this process cannot know which of them run.
pub(crate) fn seen_by_others(mut answer: Answer) -> Answer {
    let see = |state: &mut JobState| {
        if *state == JobState::Running {
            *state = JobState::Claimed;
        }
    };
    match &mut answer {
        Answer::Info(Some(job)) => see(&mut job.state),
        Answer::Page(page) => page.jobs.iter_mut().for_each(|job| see(&mut job.state)),
        Answer::Counts(counts) => counts.claimed = core::mem::take(&mut counts.running),
        _ => {}
    }
    answer
}

/// Says of claimed jobs which of them run: `waits` says which have not started, `waiting` how many.
pub(crate) fn correct(mut answer: Answer, waits: impl Fn(JobId) -> bool, waiting: u64) -> Answer {
    let correct = |job: &mut JobInfo| {
        if job.state == JobState::Running && waits(job.id) {
            job.state = JobState::Pending;
            job.attempt = job.attempt.saturating_sub(1);
        }
    };
    match &mut answer {
        Answer::Info(Some(job)) => correct(job),
        Answer::Page(page) => page.jobs.iter_mut().for_each(correct),
        Answer::Counts(counts) => {
            let waiting = waiting.min(counts.running);
            counts.running -= waiting;
            counts.pending += waiting;
        }
        _ => {}
    }
    answer
}
