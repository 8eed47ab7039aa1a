//! The dispatcher's thread: it owns the store, and makes every step.
//!
//! Ground rules:
//!
//! - Commands come by two channels. The one of callers is bounded, so a slow disk pushes back; the one
//!   of runs is not, because there are no more ends than jobs in flight, and the end of a run must
//!   never wait for a caller.
//! - One step takes whatever has come while the step before waited for the disk.
//! - The thread wakes for commands, for the machine's own times, and once a second to look at what
//!   other processes have done and whether the wall clock was set.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use tickwheel::{Scheduler, Wheel, When};

use super::clock::Clock;
use super::command::{Command, Reply};
use super::events::OnEvent;
use super::execute::Executor;
use super::machine::{Machine, Start};
use super::metrics::Metrics;
use crate::store::{Answer, ApplyError, Store};

/// The longest sleep.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How many commands one step takes, so that no commit takes long.
const COMMANDS_PER_STEP: usize = 2048;

/// What the thread is given.
pub(crate) struct Dispatcher {
    pub(crate) machine: Machine,
    pub(crate) store: Box<dyn Store>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) ends: Receiver<Command>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) on_event: Option<OnEvent>,
    pub(crate) executor: Arc<Executor>,
    /// The wheels that hold claimed jobs until their time. They are dropped with the thread.
    pub(crate) wheels: Vec<Wheel>,
}

impl Dispatcher {
    /// Runs until the machine has finished.
    pub(crate) fn run(mut self) {
        let mut commands = Vec::new();
        let mut wake_at = Some(self.clock.now().millis());
        loop {
            self.wait(wake_at, &mut commands);
            let now = self.clock.now().millis();
            let mut turn = self.machine.step(now, &mut commands, &mut *self.store);
            wake_at = turn.wake_at;
            crate::hook::at("before the answers");
            arm(&self.executor, core::mem::take(&mut turn.starts));
            for event in turn.events {
                self.metrics.count(&event);
                if let Some(on_event) = &self.on_event {
                    on_event(event);
                }
            }
            self.metrics.in_flight.store(self.machine.in_flight(), Ordering::Relaxed);
            self.metrics.keep(self.store.facts());
            if turn.finished {
                return self.end(turn.answers);
            }
            for (reply, answer) in turn.answers {
                let _ = reply.send(answer);
            }
        }
    }

    /// Waits for commands, or for `wake_at`, or for a second; then takes what is there.
    fn wait(&mut self, wake_at: Option<crate::values::time::Millis>, commands: &mut Vec<Command>) {
        let now = self.clock.now().millis();
        let sleep = wake_at.map_or(LOOK_INTERVAL, |at| at.since(now)).min(LOOK_INTERVAL);
        if sleep.is_zero() || !self.commands.is_empty() || !self.ends.is_empty() {
            self.take_all(commands);
            return;
        }
        if let Ok(true) = self.store.tidy(sleep) {
            self.take_all(commands);
            return;
        }
        crossbeam_channel::select_biased! {
            recv(self.ends) -> command => commands.extend(command.ok()),
            recv(self.commands) -> command => match command {
                Ok(command) => commands.push(command),
                // Every client is gone, and so is whoever could shut down: the runs are all that is
                // left to wait for.
                Err(_) => commands.push(Command::Close { reply: None }),
            },
            default(sleep) => commands.push(Command::Look),
        }
        self.take_all(commands);
    }

    fn take_all(&self, commands: &mut Vec<Command>) {
        commands.extend(self.ends.try_iter().take(COMMANDS_PER_STEP));
        loop {
            if commands.len() >= 2 * COMMANDS_PER_STEP {
                return;
            }
            match self.commands.try_recv() {
                Ok(command) => commands.push(command),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Closes the store, then gives the last answers, so that whoever shut down finds it closed.
    fn end(self, answers: Vec<(Reply, Result<Answer, ApplyError>)>) {
        let Dispatcher { store, wheels, commands, ends, executor, .. } = self;
        let closed = store.close();
        drop((wheels, executor, commands, ends));
        for (reply, answer) in answers {
            let answer = match &closed {
                Err(error) => answer.and(Err(error.clone().into())),
                Ok(()) => answer,
            };
            let _ = reply.send(answer);
        }
    }
}

/// Gives runs to the wheel, which starts each at its time.
pub(crate) fn arm(executor: &Arc<Executor>, starts: Vec<Start>) {
    if starts.is_empty() {
        return;
    }
    let now = executor.clock.now().wall;
    let (returning, blocking): (Vec<Start>, Vec<Start>) =
        starts.into_iter().partition(|start| executor.is_async(&start.state.kind));
    for (starts, wheel) in [(blocking, &executor.blocking), (returning, &executor.returning)] {
        hand_over(executor, starts, wheel, now);
    }
}

fn hand_over(
    executor: &Arc<Executor>,
    starts: Vec<Start>,
    wheel: &Scheduler,
    now: std::time::SystemTime,
) {
    let timers = starts.into_iter().map(|start| {
        let due = start.state.due.to_system();
        let when = if due <= now { When::after(Duration::ZERO) } else { When::wall(due) };
        let executor = Arc::clone(executor);
        (when, move || executor.run(start))
    });
    // The wheel is gone only once the dispatcher has ended, and refuses nothing else.
    drop(wheel.insert_batch(timers));
}
