//! The calls of a client that many threads and futures share: one of them makes the step for all who wait.
//!
//! Ground rules:
//!
//! - A thread that comes when nobody leads leads itself: it makes steps until its own call is over, and takes with
//!   each of them whatever has come meanwhile. So callers share commits, and a lone caller needs no other thread.
//! - If others still wait then, the helper leads on: a thread that starts when it is first needed. It leads for
//!   futures, too, because no thread of theirs may wait.
//! - Whoever leads makes the steps without the lock of the line, which is held for moments only.
//! - A panic in a step ends the client: whoever waits learns of it, and every later call is refused.
//! - Nothing is left behind: a leader that stops has seen under the lock that no command lies there and that nobody
//!   waits, or has handed over.

use core::task::Waker;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::call::Stage;
use super::command::{Command, JOBS_PER_STEP};
use super::dispatcher_handle::{Sent, Way};
use super::helper::Helper;
use super::inline::Inline;
use crate::values::time::{Millis, Now};

/// The calls of a client.
#[derive(Clone)]
pub(crate) struct Line(Arc<Inner>);

struct Inner {
    inline: Arc<Inline>,
    helper: Arc<Helper>,
    state: Mutex<State>,
    /// A command has come.
    has_come: Condvar,
}

#[derive(Default)]
struct State {
    commands: Vec<Command>,
    /// The calls that are not over, as far as it was looked.
    calls: Vec<Stage>,
    is_led: bool,
}

/// Who makes the steps.
enum Leader {
    /// A thread, whose call may be one of them.
    Caller(Option<(Stage, Option<Instant>)>),
    Helper,
}

/// How long a leader waits before it asks the store again, at most.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How many commands that nobody waits for may lie in the line.
const MOST_COMMANDS: usize = 4096;
/// How often the helper lets callers come who were answered just now.
const YIELDS: u32 = 16;

impl Line {
    pub(crate) fn new(inline: Arc<Inline>, helper: Arc<Helper>) -> Line {
        let (state, has_come) = (Mutex::default(), Condvar::new());
        Line(Arc::new(Inner { inline, helper, state, has_come }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the command in the line. Returns whether the caller is to lead now.
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

    /// Makes steps until the leader is done.
    fn lead(&self, leader: &Leader) {
        let end = EndOnPanic(self);
        self.make_steps(leader);
        // It has not panicked, although its thread may be unwinding: in a drop that calls.
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
                // The store has not answered, or its other callers wait and no thread leads for them.
                let wait = wait(wake_at, until, now);
                let waited = self.0.has_come.wait_timeout(state, wait);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Makes a step with what has come. Returns when the next one is due.
    fn step(&self, until: Option<Instant>) -> Option<Millis> {
        let mut commands = self.take();
        match self.0.inline.step_once(&mut commands, until) {
            Ok(wake_at) => wake_at,
            Err(Sent::TimedOut) => {
                self.lock().commands.splice(0..0, commands);
                None
            }
            // The store is closed: whoever waits is refused.
            Err(_) => None,
        }
    }

    /// Lets the helper lead. Returns `false` if there is none.
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

    /// Lets callers come that were answered a moment ago and are likely to ask again, so that they share a commit.
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

/// Ends the lead of a thread that panics.
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

    /// There is always room: a future has one call.
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
