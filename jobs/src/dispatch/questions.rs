//! Questions, which only read, on a connection of their own: the caller's thread asks them, past the
//! dispatcher.
//!
//! Ground rules:
//!
//! - A question sees every commit that was answered before it was asked.
//! - The store knows which jobs are claimed. Only this process knows which of them have not started: `correct`
//!   writes that into the answer.
//! - The connection is opened for the first question, and closed when the dispatcher has ended.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use foldhash::HashSet;

use super::call::Alive;
use super::timed_lock::TimedLock;
use crate::store::{Answer, ApplyError, Batch, Op, Store};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::time::Millis;

/// Opens the store of the jobs once more.
pub(crate) type Open = Box<dyn Fn() -> Result<Box<dyn Store>, StoreError> + Send + Sync>;

/// Returns what this process knows of its claims.
pub(crate) type OwnClaims = Box<dyn Fn() -> Claims + Send + Sync>;

/// The claims of this process.
#[derive(Default)]
pub(crate) struct Claims {
    /// The claimed jobs that have not started.
    pub(crate) not_started: HashSet<JobId>,
    /// How many jobs this process has claimed, if other processes claim jobs of the store too.
    pub(crate) in_flight: Option<u64>,
}

/// Asks the store on a connection of its own.
pub(crate) struct Questions {
    open: Open,
    alive: Arc<Alive>,
    own_claims: OnceLock<OwnClaims>,
    store: TimedLock<Option<Box<dyn Store>>>,
}

impl Questions {
    pub(crate) fn new(open: Open, alive: Arc<Alive>) -> Questions {
        Questions { open, alive, own_claims: OnceLock::new(), store: TimedLock::new(None) }
    }

    /// Sets the function that knows which claimed jobs have not started.
    pub(crate) fn correct_by(&self, own_claims: OwnClaims) {
        let _ = self.own_claims.set(own_claims);
    }

    /// Asks the store. Waits for other threads that ask, until `until` at most.
    pub(crate) fn ask(
        &self,
        op: &Op,
        until: Option<Instant>,
        now: Millis,
    ) -> Result<Answer, ApplyError> {
        let answer = self.with_store(until, |store| {
            let ops = core::slice::from_ref(op);
            let batch =
                Batch { number: 0, ops, claim: None, synced: false, awaited: true, until, now };
            store.apply(&batch)?.answers.pop().ok_or_else(|| StoreError::Closed.into())
        })?;
        let own = self.own_claims.get().map(|own_claims| own_claims()).unwrap_or_default();
        let waiting = own.not_started.len() as u64;
        Ok(correct(answer, |id| own.not_started.contains(&id), waiting, own.in_flight))
    }

    /// Checks the whole store.
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

/// Marks claimed jobs as claimed, not as running: this process cannot know which of them run.
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

/// Marks which claimed jobs run. `waits` says which jobs of this process have not started, and `waiting` how
/// many: these are pending. `in_flight`: how many jobs this process has claimed, if other processes claim jobs of
/// the store too. Only those processes know which of theirs have started.
pub(crate) fn correct(
    mut answer: Answer,
    waits: impl Fn(JobId) -> bool,
    waiting: u64,
    in_flight: Option<u64>,
) -> Answer {
    let correct = |job: &mut JobInfo| {
        if job.state == JobState::Running && waits(job.id) {
            job.state = JobState::Pending;
            job.attempt = job.attempt.saturating_sub(1);
            (job.claimed, job.lease_ends) = (None, None);
        }
    };
    match &mut answer {
        Answer::Info(Some(job)) => correct(job),
        Answer::Page(page) => page.jobs.iter_mut().for_each(correct),
        Answer::Counts(counts) => {
            let own = in_flight.unwrap_or(counts.running).min(counts.running);
            counts.claimed += counts.running - own;
            let waiting = waiting.min(own);
            counts.running = own - waiting;
            counts.pending += waiting;
        }
        _ => {}
    }
    answer
}
