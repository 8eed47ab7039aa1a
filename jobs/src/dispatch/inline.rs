//! The machine behind a lock: the calling thread makes the step.
//!
//! For a manual clock, where a driver moves time; and for a process that only inserts, cancels and
//! asks, which has no thread of its own for that.
//!
//! Ground rules:
//!
//! - Handlers, events, wakers and answers are outside the lock.
//! - A caller waits for the lock, for the store and for the next attempt as long as its call lasts, and
//!   no longer.
//! - A step's starts go to the executor before the lock is released, so nothing that comes later
//!   starts sooner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::call::Alive;
use super::clock::Clock;
use super::command::{Command, RunEnd};
use super::events::{Event, OnEvent, tell, wake};
use super::execute::Executor;
use super::link::Sent;
use super::machine::{Machine, Turn};
use super::metrics::Metrics;
use super::run::RunState;
use super::timed_lock::{Guard, TimedLock};
use crate::store::words::Store;
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// How long a caller waits before it asks again, at most.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A machine that whoever calls it drives.
pub(crate) struct Inline {
    inner: TimedLock<Inner>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    on_event: Option<OnEvent>,
    /// Callers wait for a store that does not answer. Not on a manual clock, which stands still
    /// meanwhile.
    asks_again: bool,
    /// Callers learn here why the machine has ended by itself.
    alive: Arc<Alive>,
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
        alive: Arc<Alive>,
    ) -> Inline {
        let wake_at = Some(Millis::ZERO);
        let inner = Inner { machine, store: Some(store), wake_at, executor: None };
        Inline { inner: TimedLock::new(inner), clock, metrics, on_event, asks_again, alive }
    }

    /// Sets what runs the jobs.
    pub(crate) fn run_with(&self, executor: Arc<Executor>) {
        if let Some(mut inner) = self.inner.lock_until(None) {
            inner.executor = Some(executor);
        }
    }

    /// Makes a step with these commands; and, if the first of them is a call, as many as it takes to
    /// answer it within its time.
    pub(crate) fn step(&self, commands: &mut Vec<Command>) -> Sent {
        let call = commands.first().and_then(Command::call);
        let until = call.as_ref().and_then(|(_, until)| *until);
        loop {
            let is_over = until.is_some_and(|until| until <= self.clock.now().instant);
            let wake_at = match self.step_once(commands, until) {
                Ok(wake_at) => wake_at,
                Err(sent) => return sent,
            };
            let is_answered = call.as_ref().is_none_or(|(stage, _)| stage.is_answered());
            if is_answered || is_over || !self.asks_again {
                return Sent::Yes;
            }
            // The store has not answered, and no other thread asks it again.
            let now = self.clock.now();
            let next =
                wake_at.map(|at| at.to_system().duration_since(now.wall).unwrap_or_default());
            let left = until.map(|until| until.saturating_duration_since(now.instant));
            let wait = next.into_iter().chain(left).fold(LONGEST_WAIT, Duration::min);
            let _ = crossbeam_channel::after(wait).recv();
        }
    }

    /// Returns when the next step is due.
    fn step_once(
        &self,
        commands: &mut Vec<Command>,
        until: Option<Instant>,
    ) -> Result<Option<Millis>, Sent> {
        let (turn, next) = {
            let mut inner = self.inner.lock_until(until).ok_or(Sent::TimedOut)?;
            let Inner { machine, store: Some(store), wake_at, executor } = &mut *inner else {
                return Err(Sent::Closed);
            };
            machine.until = until;
            let mut turn = machine.step(self.clock.now(), commands, &mut **store);
            *wake_at = turn.wake_at;
            self.metrics.keep(store.facts());
            let in_flight = machine.in_flight();
            self.metrics.in_flight.store(in_flight, core::sync::atomic::Ordering::Relaxed);
            if let Some(executor) = executor {
                executor.arm(core::mem::take(&mut turn.starts));
            }
            let next = turn.wake_at;
            (turn, next)
        };
        let Turn { answers, events, wakers, finished, stopped, .. } = turn;
        wake(wakers, false);
        for event in events {
            tell(event, &self.metrics, self.on_event.as_ref(), false);
        }
        if let Some(error) = stopped {
            self.alive.stop(error.clone());
            tell(Event::Stopped { error }, &self.metrics, self.on_event.as_ref(), false);
        }
        let closed = if finished { self.close() } else { Ok(()) };
        for (reply, answer) in answers {
            reply.answer(match &closed {
                Err(error) if finished => answer.and(Err(error.clone().into())),
                _ => answer,
            });
        }
        Ok(next)
    }

    /// Tells that a run has ended.
    pub(crate) fn ended(&self, run: &RunState, end: RunEnd, at: Millis) {
        let (id, fence) = (run.id, run.fence);
        self.step(&mut vec![Command::Ended { id, fence, end, at }]);
    }

    /// Starts the earliest run whose time has come. Returns `false` if there is none.
    pub(crate) fn run_one_due(&self) -> bool {
        let executor = self.lock().and_then(|inner| inner.executor.clone());
        executor.is_some_and(|executor| executor.run_one_due(self.clock.now().millis()))
    }

    /// Returns when the next step is due, or the next run.
    pub(crate) fn next_time(&self) -> Option<Millis> {
        // Once the store is closed, nothing follows.
        let inner = self.lock().filter(|inner| inner.store.is_some())?;
        let next_start = inner.executor.as_ref().and_then(|executor| executor.next_start());
        inner.wake_at.into_iter().chain(next_start).min()
    }

    fn close(&self) -> Result<(), StoreError> {
        let (store, executor) = {
            let Some(mut inner) = self.lock() else { return Ok(()) };
            (inner.store.take(), inner.executor.take())
        };
        drop(executor);
        store.map_or(Ok(()), Store::close)
    }

    /// Waits for the lock, which without a limit is always had.
    fn lock(&self) -> Option<Guard<'_, Inner>> {
        self.inner.lock_until(None)
    }
}
