//! The machine and the store of the jobs behind one lock: the dispatcher's thread makes the steps, with commands from
//! two channels, and a caller that is alone makes the step of its own call. So does the thread that hears the
//! notifications of other processes: to this module it is a caller that waits for no answer.
//!
//! Two switches of threads would take longer than a commit that does not wait for the disk, so a lone caller makes
//! none. A notification makes one less.
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
//! - A caller is alone if no other caller waits, the dispatcher sleeps, its channels are empty, and its last step
//!   answered one caller at most. Any other caller goes to the dispatcher, and shares a commit there.
//! - Only a thread that waits for its answer makes a step, and that of the notifications: never a future, never a
//!   handler, whose thread others may wait for. A thread in a hook is refused before.
//! - A batch of many jobs goes to the dispatcher: the switches are little beside its commit, and the ends of runs can
//!   share it.
//! - The caller waits for no lock here. It waits in the store until the limit of its call at most, as the dispatcher
//!   would for it. Commands of others wait meanwhile, as they do for any step.
//! - The channel of callers is bounded, so callers wait for a slow disk: a thread waits for room, and a future leaves
//!   its waker.
//! - A future that finds no room leaves its waker first, and then tries once more. The dispatcher checks for wakers
//!   after it has made room. So no future misses room.
//!
//! `shared_machine/model.rs` tries every order of the steps of these threads.

#[cfg(test)]
mod model;

use core::any::Any;
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crossbeam_channel::{SendError, SendTimeoutError, Sender, TrySendError};

use super::call::{Alive, Stage};
use super::clock::Clock;
use super::command::{Answered, Command, CommandReply};
use super::dispatcher_handle::{Sent, Way, is_in_handler};
use super::events::{call_hook, wake};
use super::execute::Executor;
use super::machine::{Machine, StepOutput};
use super::metrics::Metrics;
use crate::store::{Store, StoreStats};
use crate::values::error::StoreError;
use crate::values::panics::locked;
use crate::values::time::{Millis, Now};

/// The longest sleep of the dispatcher, and the longest time between two polls.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The lock, and the hints beside it.
#[derive(Default)]
pub(crate) struct SharedMachine {
    /// None before the dispatcher has started, and once it has ended.
    held: Mutex<Option<LockedMachine>>,
    /// The dispatcher is awake: it has the lock, or is about to take it.
    is_at_work: AtomicBool,
    /// The last step of the dispatcher answered several callers.
    has_company: AtomicBool,
}

/// The parts that the lock protects.
pub(crate) struct LockedMachine {
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
        let held = LockedMachine {
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
    pub(crate) fn take(&self) -> Option<LockedMachine> {
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
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Option<LockedMachine>>> {
        if self.is_at_work.load(Ordering::Relaxed) || self.has_company.load(Ordering::Relaxed) {
            return None;
        }
        // A poisoned lock: a step of the dispatcher has panicked, and it ends.
        self.held.try_lock().ok()
    }

    fn lock(&self) -> MutexGuard<'_, Option<LockedMachine>> {
        locked(&self.held)
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

impl LockedMachine {
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
        metrics.count_step(self.stats, &output.inserted, took);
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
}

/// A call with more jobs than this goes to the dispatcher.
const MOST_JOBS: usize = 8;

/// The result of a step of a caller.
enum Made {
    /// The caller's answer, if it waits for one, and nothing for anyone else.
    Alone(Option<(CommandReply, Answered)>),
    /// More than that: the dispatcher has it.
    WithMore,
    Panicked(Box<dyn Any + Send>),
}

/// The way to the dispatcher of a process that runs jobs.
#[derive(Clone)]
pub(crate) struct LoneCaller {
    pub(crate) channels: Channels,
    pub(crate) shared: Arc<SharedMachine>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) alive: Arc<Alive>,
}

impl LoneCaller {
    /// Takes the command, and makes its step. If this thread may not, leaves the command, and returns `None`.
    fn step(&self, command: &mut Option<Command>) -> Option<Sent> {
        let call = command.as_ref().filter(|command| command.weight() <= MOST_JOBS);
        let (stage, until) = call.and_then(Command::call)?;
        if is_in_handler() {
            return None;
        }
        match self.step_locked(command, Some(&stage), until)? {
            Made::Alone(answer) => {
                answer.into_iter().for_each(|(reply, answer)| reply.answer(answer));
                return Some(Sent::Done);
            }
            Made::WithMore => {}
            // The drop of the panic's payload may panic as well.
            Made::Panicked(panic) => call_hook(|| drop(panic)),
        }
        Some(Sent::Yes)
    }

    /// Makes the step of a notification. If this thread may not, returns the command.
    #[cfg(feature = "redis")]
    pub(crate) fn notified(&self, command: Command) -> Option<Command> {
        let mut command = Some(command);
        if let Some(Made::Panicked(panic)) = self.step_locked(&mut command, None, None) {
            call_hook(|| drop(panic));
        }
        command
    }

    /// Makes the step under the lock, which is released when this returns. `stage`: of the caller that waits for the
    /// answer, if one does.
    fn step_locked(
        &self,
        command: &mut Option<Command>,
        stage: Option<&Stage>,
        until: Option<Instant>,
    ) -> Option<Made> {
        let mut locked = self.shared.try_lock()?;
        let held = locked.as_mut()?;
        if !held.is_free() || !self.channels.are_empty() {
            return None;
        }
        let mut commands: Vec<Command> = command.take().into_iter().collect();
        let now = self.clock.now();
        let stepped = catch_unwind(AssertUnwindSafe(|| {
            held.machine.set_until(until);
            let output = held.step(now, &mut commands, &self.clock, &self.metrics);
            held.machine.set_until(None);
            output
        }));
        let mut output = match stepped {
            Ok(output) => output,
            Err(panic) => {
                self.alive.stop(StoreError::Other("the dispatcher has panicked".to_owned()));
                (held.is_over, held.has_panicked) = (true, true);
                self.wake_dispatcher();
                return Some(Made::Panicked(panic));
            }
        };
        self.metrics.stepped(self.clock.now().instant.saturating_duration_since(now.instant));
        let wakes = held.was_stepped(now);
        let is_alone = match &output.answers[..] {
            [] => stage.is_none(),
            [(reply, _)] => stage.is_some_and(|stage| stage.is_of(reply)),
            _ => false,
        };
        let made = match is_alone && has_no_more(&output) {
            true => Made::Alone(output.answers.pop()),
            false => {
                held.left.push(output);
                Made::WithMore
            }
        };
        if wakes || matches!(made, Made::WithMore) {
            self.wake_dispatcher();
        }
        Some(made)
    }

    fn wake_dispatcher(&self) {
        let _ = self.channels.urge(Command::Wake);
    }
}

/// Says whether a step has nothing for anyone, beside answers.
fn has_no_more(output: &StepOutput) -> bool {
    output.checks.is_empty()
        && output.end_waits.is_empty()
        && output.events.is_empty()
        && output.oldest_runs.is_none()
        && output.ended.is_empty()
        && output.wakers.is_empty()
        && output.stopped.is_none()
        && !output.finished
}

impl Way for LoneCaller {
    fn send(&self, command: Command) -> Sent {
        self.channels.send(command)
    }

    fn send_alone(&self, command: Command) -> Sent {
        let mut command = Some(command);
        let stepped = self.step(&mut command);
        // One of the two: the step was made, or the command is left.
        stepped.or_else(|| command.map(|command| self.channels.send(command))).unwrap_or(Sent::Yes)
    }

    fn urge(&self, command: Command) -> Sent {
        self.channels.urge(command)
    }

    fn try_send(&self, command: &mut Option<Command>, waker: &Waker) -> Option<Sent> {
        self.channels.try_send(command, waker)
    }
}

/// The sending ends.
#[derive(Clone)]
pub(crate) struct Channels {
    pub(crate) commands: Sender<Command>,
    pub(crate) urgent: Sender<Command>,
    pub(crate) room: Arc<Room>,
}

/// Futures that wait for room in the channel.
#[derive(Default)]
pub(crate) struct Room {
    is_wanted: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Room {
    fn want(&self, waker: Waker) {
        locked(&self.wakers).push(waker);
        self.is_wanted.store(true, Ordering::SeqCst);
    }

    /// Wakes the futures that wait for room: there is room now, or the dispatcher has ended.
    pub(crate) fn made(&self) {
        if self.is_wanted.load(Ordering::SeqCst) {
            self.is_wanted.store(false, Ordering::SeqCst);
            let wakers = core::mem::take(&mut *locked(&self.wakers));
            wake(wakers, true);
        }
    }
}

impl Way for Channels {
    fn send(&self, command: Command) -> Sent {
        let until = command.call().and_then(|(_, until)| until);
        let sent = match until {
            Some(until) => self.commands.send_deadline(command, until),
            None => self
                .commands
                .send(command)
                .map_err(|SendError(it)| SendTimeoutError::Disconnected(it)),
        };
        match sent {
            Ok(()) => Sent::Yes,
            Err(SendTimeoutError::Timeout(_)) => Sent::TimedOut,
            Err(SendTimeoutError::Disconnected(_)) => Sent::Closed,
        }
    }

    fn urge(&self, command: Command) -> Sent {
        match self.urgent.send(command) {
            Ok(()) => Sent::Yes,
            Err(SendError(_)) => Sent::Closed,
        }
    }

    fn try_send(&self, command: &mut Option<Command>, waker: &Waker) -> Option<Sent> {
        self.try_once(command).or_else(|| {
            self.room.want(waker.clone());
            self.try_once(command)
        })
    }
}

impl Channels {
    pub(crate) fn are_empty(&self) -> bool {
        self.commands.is_empty() && self.urgent.is_empty()
    }

    fn try_once(&self, command: &mut Option<Command>) -> Option<Sent> {
        match self.commands.try_send(command.take()?) {
            Ok(()) => Some(Sent::Yes),
            Err(TrySendError::Disconnected(_)) => Some(Sent::Closed),
            Err(TrySendError::Full(full)) => {
                *command = Some(full);
                None
            }
        }
    }
}
