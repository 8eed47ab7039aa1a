//! The calls of a client that many threads and futures share: one of them makes the steps for all that wait.
//!
//! Ground rules:
//!
//! - The *leader* makes the steps. If there is no leader, a thread that calls becomes the leader: it makes
//!   steps until its own call is over, and each step takes the commands that have come meanwhile. So callers
//!   share commits, and a lone caller needs no other thread.
//! - If other callers still wait then, the helper becomes the leader; its thread starts when it is first
//!   needed. The helper leads for futures too, because their threads must not wait.
//! - The leader makes the steps without the lock of the line, which is held for moments only.
//! - A panic in a step ends the client: callers that wait get an error, and every later call is refused.
//! - No command is left behind. Before a leader stops, it sees under the lock that no command is queued and no
//!   caller waits, or it hands over to the helper.

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
        Line(Arc::new(Inner { inline, helper, state, has_come }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Makes steps until the leader is done.
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
