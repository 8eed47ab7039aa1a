//! The machine behind a lock: the calling thread makes the step.
//!
//! It serves a manual clock, where a driver moves time, and a client, which has no thread of its own for steps.
//!
//! Ground rules:
//!
//! - Handlers, events, wakers and answers run outside the lock.
//! - A function of the user's that a step of a client calls must not wait for that client, whose next step only this
//!   thread would make. So it counts as a hook. On a manual clock it may make any call, because each call makes a step.
//! - A caller waits for the lock and for the store until the limit of its call, and no longer.
//! - The starts of a step go to the executor before the lock is released, so no job of a later step starts
//!   sooner.
//! - After a step that has panicked there is no other: the state of the machine may be wrong.

use core::task::Waker;
use std::sync::Arc;
use std::time::Instant;

use super::call::Alive;
use super::clock::Clock;
use super::command::{Command, RunEnd};
use super::dispatcher_handle::{Sent, Way};
use super::events::{Event, OnEvent, emit, emit_of_run, wake};
use super::execute::Executor;
use super::machine::{Machine, StepOutput};
use super::metrics::Metrics;
use super::reports::{OnRun, report_end};
use super::run_state::RunState;
use super::timed_lock::{Guard, TimedLock};
use crate::store::Store;
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// A machine that its callers drive.
pub(crate) struct Inline {
    inner: TimedLock<Inner>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    on_event: Option<OnEvent>,
    on_run: Option<OnRun>,
    /// Functions of the user's are hooks, in which no call waits.
    has_hooks: bool,
    /// Tells callers why the machine has stopped by itself.
    alive: Arc<Alive>,
}

struct Inner {
    machine: Machine,
    /// None once it was closed.
    store: Option<Box<dyn Store>>,
    wake_at: Option<Millis>,
    /// A step is being made, or has panicked.
    is_stepping: bool,
    /// Runs the jobs, if this process runs any. It refers back to this machine until the store is closed.
    executor: Option<Arc<Executor>>,
}

impl Inline {
    pub(crate) fn new(
        machine: Machine,
        store: Box<dyn Store>,
        clock: Clock,
        metrics: Arc<Metrics>,
        (on_event, on_run): (Option<OnEvent>, Option<OnRun>),
        has_hooks: bool,
        alive: Arc<Alive>,
    ) -> Inline {
        let wake_at = Some(Millis::ZERO);
        let (store, is_stepping) = (Some(store), false);
        let inner = Inner { machine, store, wake_at, is_stepping, executor: None };
        let inner = TimedLock::new(inner);
        Inline { inner, clock, metrics, on_event, on_run, has_hooks, alive }
    }

    /// Sets the executor, which runs the jobs.
    pub(crate) fn run_with(&self, executor: Arc<Executor>) {
        if let Some(mut inner) = self.inner.lock_until(None) {
            inner.executor = Some(executor);
        }
    }

    /// Makes a step with these commands.
    pub(crate) fn step(&self, commands: &mut Vec<Command>) -> Sent {
        let until = commands.first().and_then(Command::call).and_then(|(_, until)| until);
        match self.step_once(commands, until) {
            Ok(_) => Sent::Done,
            Err(sent) => sent,
        }
    }

    /// Makes a step with these commands, once it has the lock. Returns when the next step is due.
    pub(crate) fn step_once(
        &self,
        commands: &mut Vec<Command>,
        until: Option<Instant>,
    ) -> Result<Option<Millis>, Sent> {
        let (output, ending) = {
            let mut inner = self.inner.lock_until(until).ok_or(Sent::TimedOut)?;
            let Inner { machine, store: Some(store), wake_at, is_stepping, executor } = &mut *inner
            else {
                return Err(Sent::Closed);
            };
            if core::mem::replace(is_stepping, true) {
                self.has_panicked();
                return Err(Sent::Closed);
            }
            machine.until = until;
            let now = self.clock.now();
            let mut output = machine.step(now, commands, &mut **store);
            *wake_at = output.wake_at;
            let took = || self.clock.now().instant.saturating_duration_since(now.instant);
            self.metrics.set_store_stats(store.stats(), took);
            for (kind, jobs) in &output.inserted {
                self.metrics.kinds.inserted(kind, *jobs);
            }
            let in_flight = machine.in_flight();
            self.metrics.in_flight.store(in_flight, core::sync::atomic::Ordering::Relaxed);
            if let Some(executor) = executor {
                executor.arm(core::mem::take(&mut output.starts));
            }
            // The thread that made the last step ends alone: it answers when the store is closed.
            let ending = output.finished.then(|| (inner.store.take(), inner.executor.take()));
            inner.is_stepping = false;
            (output, ending)
        };
        let StepOutput {
            answers, checks, end_waits, events, ended, wakers, wake_at, stopped, ..
        } = output;
        wake(wakers, self.has_hooks);
        for (event, span) in events {
            emit_of_run(&span, event, &self.metrics, self.on_event.as_ref(), self.has_hooks);
        }
        for run in ended {
            report_end(&run, &self.metrics, self.on_run.as_ref(), self.has_hooks);
        }
        if let Some(error) = stopped {
            self.alive.stop(error.clone());
            let event = Event::Stopped { error };
            emit(event, &self.metrics, self.on_event.as_ref(), self.has_hooks);
        }
        for (reply, found) in checks {
            reply.answer(found);
        }
        end_waits.into_iter().for_each(|reply| reply.answer(()));
        let closed = ending.map_or(Ok(()), |(store, executor)| {
            drop(executor);
            store.map_or(Ok(()), Store::close)
        });
        for (reply, answer) in answers {
            reply.answer(match &closed {
                Err(error) => answer.and(Err(error.clone().into())),
                Ok(()) => answer,
            });
        }
        Ok(wake_at)
    }

    /// Ends the machine after a step that has panicked. Its state may be wrong, so every call is refused from
    /// now on.
    pub(crate) fn has_panicked(&self) {
        self.alive.stop(StoreError::Other("a step has panicked".to_owned()));
        self.alive.end();
    }

    /// Makes a step for the end of a run.
    pub(crate) fn ended(&self, run: &RunState, end: RunEnd, at: Millis) {
        let (id, fence) = (run.id, run.fence);
        self.step(&mut vec![Command::Ended { id, fence, end, at }]);
    }

    /// Starts the earliest run if it is due. Returns `false` if none is.
    pub(crate) fn run_one_due(&self) -> bool {
        let executor = self.lock().and_then(|inner| inner.executor.clone());
        executor.is_some_and(|executor| executor.run_one_due(self.clock.now().millis()))
    }

    /// Returns when the next step or the next run is due.
    pub(crate) fn next_time(&self) -> Option<Millis> {
        // Once the store is closed, nothing follows.
        let inner = self.lock().filter(|inner| inner.store.is_some())?;
        let next_start = inner.executor.as_ref().and_then(|executor| executor.next_start());
        inner.wake_at.into_iter().chain(next_start).min()
    }

    /// Waits for the lock. Without a limit it always gets it.
    fn lock(&self) -> Option<Guard<'_, Inner>> {
        self.inner.lock_until(None)
    }
}

/// On a manual clock the caller makes the step.
impl Way for Arc<Inline> {
    fn send(&self, command: Command) -> Sent {
        self.step(&mut vec![command])
    }

    fn urge(&self, command: Command) -> Sent {
        self.step(&mut vec![command])
    }

    fn try_send(&self, command: &mut Option<Command>, _: &Waker) -> Option<Sent> {
        Some(self.step(&mut vec![command.take()?]))
    }
}
