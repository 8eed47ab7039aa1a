//! The machine and the store of the jobs, behind one lock: the dispatcher's thread makes the steps, and a caller that
//! is alone makes the step of its own call.
//!
//! Ground rules:
//!
//! - The thread with the lock has the machine. It makes one step, gives the starts to the executor, and releases the
//!   lock. No code of the program runs under the lock.
//! - The dispatcher takes commands out of its channels only between two locks, while `has_commands` is set, and steps
//!   with them under the second one. A caller steps only if it finds `has_commands` unset and the channels empty, under
//!   the lock. So no call overtakes a command that was sent before it.
//! - A command is its own wake-up: it lies in a channel until the dispatcher, which sleeps at the channels, has the
//!   lock. So work that comes while a caller steps waits for that step, and is not lost.
//! - The dispatcher's time of waking is in `sleeps_until`, which it sets under the lock before it sleeps. A step of a
//!   caller that needs an earlier time sends a [`Command::Wake`] before it releases the lock. A later time needs none:
//!   the dispatcher wakes, and makes a step that changes nothing.
//! - A step of a caller that has anything but the caller's own answer leaves its output here: events, ends of runs,
//!   wakers, answers to others, the end of the machine. The dispatcher takes all of it before its next step, and the
//!   caller waits for its answer as others do. So these come in the order of the steps, from the dispatcher's thread.
//! - If a step of a caller panics, the caller gets an error, `is_over` is set, and the dispatcher ends as after a panic
//!   of its own.
//! - The dispatcher takes the machine out when it ends. A caller that finds none takes the way of the channels, and is
//!   refused there.
//! - `is_at_work` and `has_company` are hints, read without the lock. With the first no caller takes the lock again and
//!   again while the dispatcher waits for it. With the second, callers that come together share commits.
//!
//! `shared_machine/model.rs` tries every order of the steps of these threads.

#[cfg(test)]
mod model;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::Clock;
use super::command::Command;
use super::execute::Executor;
use super::machine::{Machine, StepOutput};
use super::metrics::Metrics;
use crate::store::{Store, StoreStats};
use crate::values::time::{Millis, Now};

/// The longest sleep of the dispatcher, and the longest time between two polls.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The lock, and the hints beside it.
#[derive(Default)]
pub(crate) struct SharedMachine {
    /// None before the dispatcher has started, and once it has ended.
    held: Mutex<Option<Held>>,
    /// The dispatcher is awake: it has the lock, or is about to take it.
    is_at_work: AtomicBool,
    /// The last step of the dispatcher answered several callers.
    has_company: AtomicBool,
}

/// The parts that the lock protects.
pub(crate) struct Held {
    pub(crate) machine: Machine,
    pub(crate) store: Box<dyn Store>,
    /// It refers back to this, until the dispatcher takes it out.
    pub(crate) executor: Arc<Executor>,
    pub(crate) stats: StoreStats,
    /// When the next step is due.
    wake_at: Option<Millis>,
    /// When the dispatcher wakes by itself, if that is sooner than [`POLL_INTERVAL`] after it fell asleep.
    sleeps_until: Option<Millis>,
    /// The dispatcher has taken commands, and makes the next step.
    has_commands: bool,
    /// The outputs of callers' steps that the dispatcher has to deal with.
    left: Vec<StepOutput>,
    /// How many steps callers have made.
    callers_steps: u64,
    /// The machine makes no further step: it has finished, or a step of a caller has panicked.
    is_over: bool,
    has_panicked: bool,
}

/// When the dispatcher wakes.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) now: Now,
    /// For how long it sleeps from `now` on, unless a command comes.
    pub(crate) sleep: Duration,
    /// How many steps callers have made: none since then, if it is the same later.
    pub(crate) callers_steps: u64,
}

/// The next action of the dispatcher.
pub(crate) enum Next {
    /// It takes commands and steps.
    Step,
    /// It deals with the outputs of callers' steps.
    Left(Vec<StepOutput>),
    /// A step of a caller has panicked, or the machine is gone.
    Fail,
}

impl SharedMachine {
    /// Puts the machine behind the lock.
    pub(crate) fn start(&self, machine: Machine, store: Box<dyn Store>, executor: Arc<Executor>) {
        let held = Held {
            machine,
            store,
            executor,
            stats: StoreStats::default(),
            // The first step is due at once.
            wake_at: Some(Millis::ZERO),
            sleeps_until: Some(Millis::ZERO),
            has_commands: false,
            left: Vec::new(),
            callers_steps: 0,
            is_over: false,
            has_panicked: false,
        };
        *self.lock() = Some(held);
    }

    /// Takes the machine out, because the dispatcher ends.
    pub(crate) fn take(&self) -> Option<Held> {
        self.lock().take()
    }

    /// The dispatcher is about to sleep, `poll_within` at most. Returns until when.
    pub(crate) fn plan(&self, clock: &Clock, poll_within: Duration) -> Plan {
        let mut held = self.lock();
        self.is_at_work.store(false, Ordering::Relaxed);
        // Under the lock, so that the sleep begins before the next step of a caller.
        let now = clock.now();
        let (mut sleep, mut callers_steps) = (Duration::ZERO, 0);
        if let Some(held) = &mut *held
            && held.left.is_empty()
            && !held.is_over
        {
            held.sleeps_until = held.wake_at;
            callers_steps = held.callers_steps;
            let until = |at: Millis| at.to_system().duration_since(now.wall).unwrap_or_default();
            sleep = held.wake_at.map_or(poll_within, until).min(poll_within);
        }
        Plan { now, sleep, callers_steps }
    }

    /// The dispatcher has woken. It takes commands only if this returns [`Next::Step`].
    pub(crate) fn begin(&self) -> Next {
        self.is_at_work.store(true, Ordering::Relaxed);
        let mut held = self.lock();
        match &mut *held {
            Some(held) if held.has_panicked => Next::Fail,
            Some(held) if !held.left.is_empty() => Next::Left(core::mem::take(&mut held.left)),
            Some(held) => {
                held.has_commands = true;
                Next::Step
            }
            None => Next::Fail,
        }
    }

    /// Makes the dispatcher's step with the commands that it has taken. Returns `None` if the machine is gone.
    pub(crate) fn step(
        &self,
        now: Now,
        commands: &mut Vec<Command>,
        clock: &Clock,
        metrics: &Metrics,
    ) -> Option<(StepOutput, StoreStats)> {
        let mut held = self.lock();
        let held = held.as_mut()?;
        let output = held.step(now, commands, clock, metrics);
        held.has_commands = false;
        self.has_company.store(output.answers.len() > 1, Ordering::Relaxed);
        Some((output, held.stats))
    }

    /// Does the postponed work of the store, unless callers have made steps since `plan`: then it is not idle.
    pub(crate) fn maintain(&self, plan: Plan, idle: Duration) -> Maintained {
        self.is_at_work.store(true, Ordering::Relaxed);
        let mut held = self.lock();
        match &mut *held {
            Some(held) if held.callers_steps == plan.callers_steps && !held.is_over => {
                match held.store.maintain(idle) {
                    Ok(true) => Maintained::InPart,
                    _ => Maintained::Wholly,
                }
            }
            Some(held) => {
                self.is_at_work.store(false, Ordering::Relaxed);
                Maintained::NotIdle(held.callers_steps)
            }
            None => Maintained::Wholly,
        }
    }

    /// Takes the lock for a caller, if the machine is free for it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Option<Held>>> {
        if self.is_at_work.load(Ordering::Relaxed) || self.has_company.load(Ordering::Relaxed) {
            return None;
        }
        // A poisoned lock: a step of the dispatcher has panicked, and it ends.
        self.held.try_lock().ok()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far the postponed work of the store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Maintained {
    Wholly,
    InPart,
    /// No work was done, because callers have made steps. The number is that of their steps until now.
    NotIdle(u64),
}

impl Held {
    /// Says whether a caller may step: nothing waits for the dispatcher. The caller has looked into the channels, under
    /// this lock.
    pub(crate) fn is_free(&self) -> bool {
        !self.has_commands && self.left.is_empty() && !self.is_over
    }

    /// Makes a step, and gives its starts to the executor.
    pub(crate) fn step(
        &mut self,
        now: Now,
        commands: &mut Vec<Command>,
        clock: &Clock,
        metrics: &Metrics,
    ) -> StepOutput {
        let mut output = self.machine.step(now, commands, &mut *self.store);
        self.wake_at = output.wake_at;
        self.is_over |= output.finished;
        self.stats = self.store.stats();
        let took = || clock.now().instant.saturating_duration_since(now.instant);
        metrics.set_store_stats(self.stats, took);
        for (kind, jobs) in &output.inserted {
            metrics.kinds.inserted(kind, *jobs);
        }
        if let Some(oldest) = output.oldest_runs.take() {
            // Those of the last look drop outside the lock: the last user of a span calls the user's subscriber.
            output.oldest_runs = Some(metrics.kinds.replace_oldest(oldest));
        }
        crate::values::hook::at("before the answers");
        self.executor.arm(core::mem::take(&mut output.starts));
        metrics.in_flight.store(self.machine.in_flight(), Ordering::Relaxed);
        output
    }

    /// Notes a step of a caller at `now`. Returns whether the caller must wake the dispatcher.
    pub(crate) fn was_stepped(&mut self, now: Now) -> bool {
        self.callers_steps += 1;
        let Some(wake_at) = self.wake_at else { return false };
        let is_earlier = self.sleeps_until.is_none_or(|until| wake_at < until);
        // It wakes within this time anyway, and then sees when the next step is due.
        if !is_earlier || wake_at >= now.millis().plus(POLL_INTERVAL) {
            return false;
        }
        // It wakes at once, so it need not be woken again for that time.
        self.sleeps_until = Some(wake_at);
        true
    }

    /// Leaves the output of a caller's step to the dispatcher, which the caller must wake.
    pub(crate) fn leave(&mut self, output: StepOutput) {
        self.left.push(output);
    }

    /// Ends the machine, because a step of a caller has panicked.
    pub(crate) fn panicked(&mut self) {
        (self.is_over, self.has_panicked) = (true, true);
    }
}
