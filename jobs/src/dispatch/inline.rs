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

use super::clock::Clock;
use super::command::{Command, RunEnd};
use super::events::{OnEvent, tell};
use super::execute::Executor;
use super::machine::{Machine, Turn};
use super::metrics::Metrics;
use crate::store::words::Store;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A machine that whoever calls it drives.
pub(crate) struct Inline {
    inner: Mutex<Inner>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    on_event: Option<OnEvent>,
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
    ) -> Inline {
        let wake_at = Some(Millis::ZERO);
        let inner = Inner { machine, store: Some(store), wake_at, executor: None };
        Inline { inner: Mutex::new(inner), clock, metrics, on_event }
    }

    /// Sets what runs the jobs.
    pub(crate) fn run_with(&self, executor: Arc<Executor>) {
        self.lock().executor = Some(executor);
    }

    /// Makes a step with these commands. Returns `false` if the store is closed.
    pub(crate) fn step(&self, commands: &mut Vec<Command>) -> bool {
        let Turn { answers, events, finished, .. } = {
            let mut inner = self.lock();
            let Inner { machine, store: Some(store), wake_at, executor } = &mut *inner else {
                return false;
            };
            let mut turn = machine.step(self.clock.now().millis(), commands, &mut **store);
            *wake_at = turn.wake_at;
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
        true
    }

    /// Tells that a run has ended.
    pub(crate) fn ended(&self, id: JobId, end: RunEnd, at: Millis) {
        self.step(&mut vec![Command::Ended { id, end, at }]);
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
