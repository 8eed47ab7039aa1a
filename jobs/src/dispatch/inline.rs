//! The machine behind a lock: the calling thread makes the step.
//!
//! For a manual clock, where a driver moves time; and for a process that only inserts, cancels and
//! asks, which has no thread of its own for that.
//!
//! Ground rules:
//!
//! - Handlers, events and answers are outside the lock.
//! - A step's starts go to the executor before the lock is released, so nothing that comes later
//!   starts sooner.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::Clock;
use super::command::{Command, RunEnd};
use super::events::{OnEvent, tell};
use super::execute::Executor;
use super::machine::{Machine, Turn};
use super::metrics::Metrics;
use super::run::RunState;
use crate::store::words::Store;
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// How long a caller waits before it asks again, at most.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A machine that whoever calls it drives.
pub(crate) struct Inline {
    inner: Mutex<Inner>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    on_event: Option<OnEvent>,
    /// Callers wait for a store that does not answer. Not on a manual clock, which stands still
    /// meanwhile.
    asks_again: bool,
}

struct Inner {
    machine: Machine,
    /// None once it was closed.
    store: Option<Box<dyn Store>>,
    wake_at: Option<Millis>,
    /// What runs the jobs, if any are run here. It leads back to this, until the store is closed.
    executor: Option<Arc<Executor>>,
}

impl Inline {
    pub(crate) fn new(
        machine: Machine,
        store: Box<dyn Store>,
        clock: Clock,
        metrics: Arc<Metrics>,
        on_event: Option<OnEvent>,
        asks_again: bool,
    ) -> Inline {
        let wake_at = Some(Millis::ZERO);
        let inner = Inner { machine, store: Some(store), wake_at, executor: None };
        Inline { inner: Mutex::new(inner), clock, metrics, on_event, asks_again }
    }

    /// Sets what runs the jobs.
    pub(crate) fn run_with(&self, executor: Arc<Executor>) {
        self.lock().executor = Some(executor);
    }

    /// Makes a step with these commands. Returns `false` if the store is closed.
    pub(crate) fn step(&self, commands: &mut Vec<Command>) -> bool {
        loop {
            let Some(unsettled) = self.step_once(commands) else { return false };
            // Nobody else asks again for what the store has not answered.
            let Some(until) = unsettled.filter(|_| self.asks_again) else { return true };
            let wait = until.to_system().duration_since(self.clock.now().wall);
            let wait = wait.unwrap_or_default().min(LONGEST_WAIT);
            let _ = crossbeam_channel::after(wait).recv();
        }
    }

    /// Returns `None` if the store is closed, and when to ask again if it has not answered.
    fn step_once(&self, commands: &mut Vec<Command>) -> Option<Option<Millis>> {
        let mut unsettled = None;
        let Turn { answers, events, finished, .. } = {
            let mut inner = self.lock();
            let Inner { machine, store: Some(store), wake_at, executor } = &mut *inner else {
                return None;
            };
            let mut turn = machine.step(self.clock.now(), commands, &mut **store);
            *wake_at = turn.wake_at;
            if turn.callers_wait {
                unsettled = turn.wake_at;
            }
            self.metrics.keep(store.facts());
            let in_flight = machine.in_flight();
            self.metrics.in_flight.store(in_flight, core::sync::atomic::Ordering::Relaxed);
            if let Some(executor) = executor {
                executor.arm(core::mem::take(&mut turn.starts));
            }
            turn
        };
        for event in events {
            tell(event, &self.metrics, self.on_event.as_ref(), false);
        }
        let closed = if finished { self.close() } else { Ok(()) };
        for (reply, answer) in answers {
            let answer = match &closed {
                Err(error) if finished => answer.and(Err(error.clone().into())),
                _ => answer,
            };
            let _ = reply.send(answer);
        }
        Some(unsettled)
    }

    /// Tells that a run has ended.
    pub(crate) fn ended(&self, run: &RunState, end: RunEnd, at: Millis) {
        let (id, fence) = (run.id, run.fence);
        self.step(&mut vec![Command::Ended { id, fence, end, at }]);
    }

    /// Starts the earliest run whose time has come. Returns `false` if there is none.
    pub(crate) fn run_one_due(&self) -> bool {
        let executor = self.lock().executor.clone();
        executor.is_some_and(|executor| executor.run_one_due(self.clock.now().millis()))
    }

    /// Returns when the next step is due, or the next run.
    pub(crate) fn next_time(&self) -> Option<Millis> {
        let inner = self.lock();
        let next_start = inner.executor.as_ref().and_then(|executor| executor.next_start());
        inner.wake_at.into_iter().chain(next_start).min()
    }

    fn close(&self) -> Result<(), StoreError> {
        let (store, executor) = {
            let mut inner = self.lock();
            (inner.store.take(), inner.executor.take())
        };
        drop(executor);
        store.map_or(Ok(()), Store::close)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
