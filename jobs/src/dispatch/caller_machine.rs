//! The machine behind a lock without a thread of its own: the thread that calls makes the step.
//!
//! It serves a manual clock, where a driver moves time, and a client. Of a client that many threads and futures share,
//! one caller makes the steps for all that wait.
//!
//! Ground rules:
//!
//! - Handlers, events, wakers and answers run outside the lock.
//! - A function of the user's that a step of a client calls must not wait for that client, whose next step only this
//!   thread would make. So it counts as a hook. On a manual clock it may make any call, because each call makes a step.
//! - A caller waits for the lock and for the store until the limit of its call, and no longer.
//! - The starts of a step go to the executor before the lock is released, so no job of a later step starts sooner.
//! - After a step that has panicked there is no other: the state of the machine may be wrong.
//! - The *leader* makes the steps. If there is no leader, a thread that calls becomes the leader: it makes steps until
//!   its own call is over, and each step takes the commands that have come meanwhile. So callers share commits, and a
//!   lone caller needs no other thread.
//! - If other callers still wait then, the helper becomes the leader; its thread starts when it is first needed. The
//!   helper leads for futures too, because their threads must not wait.
//! - The leader makes the steps without the lock of the line, which is held for moments only.
//! - A panic in a step ends the client: callers that wait get an error, and every later call is refused.
//! - No command is left behind. Before a leader stops, it sees under the lock that no command is queued and no caller
//!   waits, or it hands over to the helper.

use core::task::Waker;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::call::{Alive, Guard, Stage, TimedLock};
use super::clock::Clock;
use super::command::{Command, JOBS_PER_STEP, RunEnd, answer_all};
use super::dispatcher_handle::{Helper, Sent, Way};
use super::events::{OnEvent, OnRun};
use super::execute::Executor;
use super::machine::Machine;
use super::metrics::Metrics;
use super::run_state::RunState;
use crate::store::Store;
use crate::values::error::StoreError;
use crate::values::panics::locked;
use crate::values::time::{Millis, Now};

/// A machine that its callers drive.
pub(crate) struct Inline {
    inner: TimedLock<Locked>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    on_event: Option<OnEvent>,
    on_run: Option<OnRun>,
    /// Functions of the user's are hooks, in which no call waits.
    has_hooks: bool,
    /// Tells callers why the machine has stopped by itself.
    alive: Arc<Alive>,
}

struct Locked {
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
        let inner = Locked { machine, store, wake_at, is_stepping, executor: None };
        let inner = TimedLock::new(inner);
        Inline { inner, clock, metrics, on_event, on_run, has_hooks, alive }
    }

    pub(crate) fn run_with(&self, executor: Arc<Executor>) {
        if let Some(mut inner) = self.inner.lock_until(None) {
            inner.executor = Some(executor);
        }
    }

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
            let Locked { machine, store: Some(store), wake_at, is_stepping, executor } =
                &mut *inner
            else {
                return Err(Sent::Closed);
            };
            if core::mem::replace(is_stepping, true) {
                let end_waits = machine.end_waits();
                drop(inner);
                self.has_panicked();
                drop(end_waits.take_all());
                return Err(Sent::Closed);
            }
            machine.set_until(until);
            let now = self.clock.now();
            let mut output = machine.step(now, commands, &mut **store);
            *wake_at = output.wake_at;
            let took = || self.clock.now().instant.saturating_duration_since(now.instant);
            self.metrics.count_step(store.stats(), &output.inserted, took);
            let in_flight = machine.in_flight();
            self.metrics.in_flight.store(in_flight, core::sync::atomic::Ordering::Relaxed);
            if let Some(executor) = executor {
                executor.arm(core::mem::take(&mut output.starts));
            }
            // The thread that made the last step ends alone: it answers when the store is closed.
            let ending = output
                .finished
                .then(|| (inner.store.take(), inner.executor.take(), inner.machine.end_waits()));
            inner.is_stepping = false;
            (output, ending)
        };
        let (wake_at, hooks) = (output.wake_at, (self.on_event.as_ref(), self.on_run.as_ref()));
        let answers = output.tell(&self.metrics, hooks, &self.alive, self.has_hooks);
        let closed = ending.map_or(Ok(()), |(store, executor, end_waits)| {
            drop(executor);
            let closed = store.map_or(Ok(()), Store::close);
            // The callers that wait for the end of a job look once more, and are refused.
            drop(end_waits.take_all());
            closed
        });
        answer_all(answers, &closed);
        Ok(wake_at)
    }

    /// Ends the machine after a step that has panicked. Its state may be wrong, so every call is refused from
    /// now on.
    pub(crate) fn has_panicked(&self) {
        self.alive.stop(StoreError::Other("a step has panicked".to_owned()));
        self.alive.end();
    }

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
        let next_start = inner.executor.as_ref().and_then(|it| it.blocking.next_due());
        inner.wake_at.into_iter().chain(next_start).min()
    }

    /// Waits for the lock. Without a limit it always gets it.
    fn lock(&self) -> Option<Guard<'_, Locked>> {
        self.inner.lock_until(None)
    }
}

/// On a manual clock the caller makes the step.
impl Way for Arc<Inline> {
    fn send(&self, command: Command) -> Sent {
        self.step(&mut vec![command])
    }

    fn urge(&self, command: Command) -> Sent {
        self.send(command)
    }

    fn try_send(&self, command: &mut Option<Command>, _: &Waker) -> Option<Sent> {
        command.take().map(|command| self.send(command))
    }
}

/// The calls of a client.
#[derive(Clone)]
pub(crate) struct Line(Arc<LineInner>);

struct LineInner {
    inline: Arc<Inline>,
    helper: Arc<Helper>,
    state: Mutex<LineState>,
    has_come: Condvar,
}

#[derive(Default)]
struct LineState {
    commands: Vec<Command>,
    /// The calls that were not over at the last check.
    calls: Vec<Stage>,
    is_led: bool,
}

/// The thread that makes the steps.
enum Leader {
    /// A thread that calls, with its call if it waits for an answer.
    Caller(Option<(Stage, Option<Instant>)>),
    Helper,
}

/// The longest time that a leader waits before its next step.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// With this many queued commands, a command without an answer makes a step of its own.
const MOST_COMMANDS: usize = 4096;
/// How often the helper lets other threads run after a step.
const YIELDS: u32 = 16;

impl Line {
    pub(crate) fn new(inline: Arc<Inline>, helper: Arc<Helper>) -> Line {
        let (state, has_come) = (Mutex::default(), Condvar::new());
        Line(Arc::new(LineInner { inline, helper, state, has_come }))
    }

    fn lock(&self) -> MutexGuard<'_, LineState> {
        locked(&self.0.state)
    }

    /// Queues the command. Returns whether the caller must lead now.
    fn join(&self, command: Command) -> bool {
        let mut state = self.lock();
        state.calls.extend(command.call().map(|(stage, _)| stage));
        state.commands.push(command);
        let leads = !core::mem::replace(&mut state.is_led, true);
        drop(state);
        if !leads {
            self.0.has_come.notify_one();
        }
        leads
    }

    fn lead(&self, leader: &Leader) {
        let end = EndOnPanic(self);
        self.make_steps(leader);
        // No step has panicked, although the thread may be unwinding: in a drop that calls.
        core::mem::forget(end);
    }

    fn make_steps(&self, leader: &Leader) {
        let until = match leader {
            Leader::Caller(Some((_, until))) => *until,
            Leader::Caller(None) | Leader::Helper => None,
        };
        loop {
            let wake_at = self.step(until);
            if matches!(leader, Leader::Helper) {
                self.let_come();
            }
            let now = self.0.inline.clock.now();
            let mut state = self.lock();
            state.calls.retain(|stage| !stage.is_over());
            let (is_done, own) = match leader {
                Leader::Caller(None) => (true, 0),
                Leader::Caller(Some((stage, until))) => {
                    let is_late = until.is_some_and(|until| until <= now.instant);
                    (is_late || stage.is_over(), usize::from(!stage.is_over()))
                }
                Leader::Helper => (state.calls.is_empty(), 0),
            };
            let others = state.calls.len().saturating_sub(own);
            if is_done && others == 0 && state.commands.is_empty() {
                state.is_led = false;
                return;
            }
            let hands_over = is_done && others > 0;
            if hands_over {
                drop(state);
                if self.hand_over() {
                    return;
                }
                state = self.lock();
            }
            if state.commands.is_empty() {
                // The store has not answered, or other callers wait and there is no helper.
                let wait = wait(wake_at, until, now);
                let waited = self.0.has_come.wait_timeout(state, wait);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Makes a step with the queued commands. Returns when the next one is due.
    fn step(&self, until: Option<Instant>) -> Option<Millis> {
        let mut commands = self.take();
        match self.0.inline.step_once(&mut commands, until) {
            Ok(wake_at) => wake_at,
            Err(Sent::TimedOut) => {
                self.lock().commands.splice(0..0, commands);
                None
            }
            // The store is closed: the callers of these commands are refused.
            Err(_) => None,
        }
    }

    /// Makes the helper the leader. Returns `false` if there is no helper.
    fn hand_over(&self) -> bool {
        let line = self.clone();
        self.0.helper.run(Box::new(move || line.lead(&Leader::Helper))).is_ok()
    }

    /// Takes as many commands as a step takes.
    fn take(&self) -> Vec<Command> {
        let mut state = self.lock();
        let mut weight = 0;
        let fits = |command: &Command| {
            let fits = weight < JOBS_PER_STEP;
            weight += command.weight();
            fits
        };
        let many = state.commands.iter().map(fits).take_while(|fits| *fits).count();
        state.commands.drain(..many).collect()
    }

    /// Lets callers run that were just answered and are likely to call again, so that they share a commit.
    fn let_come(&self) {
        for _ in 0..YIELDS {
            std::thread::yield_now();
            let state = self.lock();
            if state.commands.len() >= 2 {
                return;
            }
        }
    }
}

/// Ends the client if the thread that leads panics.
struct EndOnPanic<'a>(&'a Line);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        self.0.0.inline.has_panicked();
        let state = core::mem::take(&mut *self.0.lock());
        drop(state);
    }
}

impl Way for Line {
    fn send(&self, command: Command) -> Sent {
        let own = command.call();
        if own.is_none() && self.lock().commands.len() >= MOST_COMMANDS {
            return self.urge(command);
        }
        if self.join(command) {
            self.lead(&Leader::Caller(own));
            return Sent::Done;
        }
        Sent::Yes
    }

    fn urge(&self, command: Command) -> Sent {
        self.0.inline.step(&mut vec![command])
    }

    /// There is always room, because a future has one call.
    fn try_send(&self, command: &mut Option<Command>, _: &Waker) -> Option<Sent> {
        if self.join(command.take()?) && !self.hand_over() {
            self.lead(&Leader::Caller(None));
        }
        Some(Sent::Yes)
    }
}

/// Returns how long to wait for new commands.
fn wait(wake_at: Option<Millis>, until: Option<Instant>, now: Now) -> Duration {
    let next = wake_at.map(|at| at.to_system().duration_since(now.wall).unwrap_or_default());
    let left = until.map(|until| until.saturating_duration_since(now.instant));
    next.into_iter().chain(left).fold(LONGEST_WAIT, Duration::min)
}
