//! A caller that is alone makes the step of its own call, on its own thread. Otherwise two switches of threads would
//! take longer than a commit that does not wait for the disk.
//!
//! Ground rules:
//!
//! - A caller is alone if no other caller waits, the dispatcher sleeps, its channels are empty, and its last step
//!   answered one caller at most. Any other caller goes to the dispatcher, and shares a commit there.
//! - Only a thread that waits for its answer makes a step: never a future, never a handler, whose thread others may
//!   wait for. A thread in a hook is refused before.
//! - A batch of many jobs goes to the dispatcher: the switches are little beside its commit, and the ends of runs can
//!   share it.
//! - The caller waits for no lock here. It waits in the store until the limit of its call at most, as the dispatcher
//!   would for it. Commands of others wait meanwhile, as they do for any step.
//! - Nothing but its own answer is given on this thread: see `shared_machine.rs`.

use core::any::Any;
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::call::Alive;
use super::channels::Channels;
use super::clock::Clock;
use super::command::{Answered, Command, Reply};
use super::dispatcher_handle::{Sent, Way};
use super::events::call_hook;
use super::in_handler::is_in_handler;
use super::machine::StepOutput;
use super::metrics::Metrics;
use super::shared_machine::SharedMachine;
use crate::values::error::StoreError;

/// A call with more jobs than this goes to the dispatcher.
const MOST_JOBS: usize = 8;

/// The result of a step of a caller.
enum Made {
    /// The caller's answer, and nothing for anyone else.
    Alone(Reply, Answered),
    /// More than that: the dispatcher has it.
    WithMore,
    Panicked(Box<dyn Any + Send>),
}

/// The way to the dispatcher of a process that runs jobs.
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
        match self.step_locked(command)? {
            Made::Alone(reply, answer) => {
                reply.answer(answer);
                return Some(Sent::Done);
            }
            Made::WithMore => {}
            // The drop of the panic's payload may panic as well.
            Made::Panicked(panic) => call_hook(|| drop(panic)),
        }
        Some(Sent::Yes)
    }

    /// Makes the step under the lock, which is released when this returns.
    fn step_locked(&self, command: &mut Option<Command>) -> Option<Made> {
        let call = command.as_ref().filter(|command| command.weight() <= MOST_JOBS);
        let (stage, until) = call.and_then(Command::call)?;
        if is_in_handler() {
            return None;
        }
        let mut locked = self.shared.try_lock()?;
        let held = locked.as_mut()?;
        if !held.is_free() || !self.channels.are_empty() {
            return None;
        }
        let mut commands: Vec<Command> = command.take().into_iter().collect();
        let now = self.clock.now();
        let stepped = catch_unwind(AssertUnwindSafe(|| {
            held.machine.until = until;
            let output = held.step(now, &mut commands, &self.clock, &self.metrics);
            held.machine.until = None;
            output
        }));
        let mut output = match stepped {
            Ok(output) => output,
            Err(panic) => {
                self.alive.stop(StoreError::Other("the dispatcher has panicked".to_owned()));
                held.panicked();
                self.wake_dispatcher();
                return Some(Made::Panicked(panic));
            }
        };
        self.metrics.stepped(self.clock.now().instant.saturating_duration_since(now.instant));
        let wakes = held.was_stepped(now);
        let own = match &output.answers[..] {
            [(reply, _)] if stage.is_of(reply) && has_no_more(&output) => output.answers.pop(),
            _ => None,
        };
        if own.is_none() {
            held.leave(output);
        }
        if wakes || own.is_none() {
            self.wake_dispatcher();
        }
        Some(own.map_or(Made::WithMore, |(reply, answer)| Made::Alone(reply, answer)))
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
