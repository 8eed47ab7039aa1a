//! The dispatcher's thread: it owns the store, and makes every step.
//!
//! Ground rules:
//!
//! - Commands come through two channels. The one of callers is bounded, so callers wait for a slow disk. The
//!   urgent one is not. It has the ends of runs, which must not wait for a caller, and which are no more than
//!   the jobs in flight. It also has the end of the jobs and the nudges, which this very thread may send.
//! - The end of the jobs overtakes no command: commands that were sent before it are taken before it.
//! - A function of the user's (an event, a waker, a drop) never waits for this thread: calls that would wait
//!   are refused there (`events.rs`).
//! - If this thread stops by itself, even by a panic, callers get an error (`call.rs`), the runs under way are
//!   cancelled, and the program receives an event.
//! - One step takes the commands that came while the step before waited for the disk.
//! - The thread wakes for commands, for the machine's own times, and once a second: to poll for changes of
//!   other processes, and to check whether the wall clock was set.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use tickwheel::Wheel;

use super::call::Alive;
use super::channels::Room;
use super::clock::Clock;
use super::command::{Command, JOBS_PER_STEP, Reply};
use super::events::{Event, OnEvent, call_hook, emit, emit_of_run, wake};
use super::execute::Executor;
use super::machine::Machine;
use super::metrics::Metrics;
use super::reports::report_end;
use super::run_state::RunState;
use crate::store::memory::Memory;
use crate::store::{Answer, ApplyError, Store};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// The longest sleep, and the longest time between two polls.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A larger log is reported: four times the size to which an emptied log is truncated.
const LARGE_LOG: u64 = 256 << 20;
/// How long the thread must be idle before the store does its maintenance.
const MAINTAIN_AFTER: Duration = Duration::from_millis(20);
/// How often the thread lets others run before a commit.
const YIELDS: u32 = 16;
/// How often it lets others run for one caller, before it sleeps.
const LONE_YIELDS: u32 = 64;
/// How many ends of runs one step takes, so that no commit takes long.
const ENDS_PER_STEP: usize = 2048;

/// The state of the thread.
pub(crate) struct Dispatcher {
    pub(crate) machine: Machine,
    pub(crate) store: Box<dyn Store>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) urgent: Receiver<Command>,
    /// Futures that wait for room in the channel of callers.
    pub(crate) room: Arc<Room>,
    /// A nudge is under way.
    pub(crate) nudged: Arc<AtomicBool>,
    /// Callers check here whether this thread lives.
    pub(crate) alive: Arc<Alive>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) on_event: Option<OnEvent>,
    pub(crate) executor: Arc<Executor>,
    /// Notifications of other processes.
    pub(crate) notifications: Receiver<Command>,
    /// The next poll comes within this time.
    pub(crate) poll_within: Duration,
    /// Several machines share the store: they must not poll all at once.
    pub(crate) shared: bool,
    /// The store may have maintenance to do.
    pub(crate) needs_maintenance: bool,
    /// How many callers the last commit answered.
    pub(crate) answered: usize,
    /// Runs that have ended, and are to be reported: after a panic too.
    pub(crate) ended: Vec<Arc<RunState>>,
    /// The wheels that hold claimed jobs until their time. They are dropped with the thread.
    pub(crate) wheels: Vec<Wheel>,
}

impl Dispatcher {
    /// Runs until the machine has finished.
    pub(crate) fn run(mut self) {
        match catch_unwind(AssertUnwindSafe(|| self.serve())) {
            Ok(answers) => self.end(answers),
            Err(panic) => {
                // The drop of the panic's payload may panic as well.
                call_hook(|| drop(panic));
                self.fail();
            }
        }
    }

    /// Makes steps until the machine has finished. Returns the last answers.
    fn serve(&mut self) -> Vec<(Reply, Result<Answer, ApplyError>)> {
        let mut commands = Vec::new();
        let mut large_log = false;
        let mut commits = 0;
        let mut polled_at = self.clock.now();
        let mut wake_at = Some(polled_at.millis());
        let mut stepped_at = None;
        loop {
            self.wait(wake_at, stepped_at, &mut commands);
            self.gather(&mut commands);
            self.room.made();
            let now = self.clock.now();
            stepped_at = Some(now.instant);
            // Callers that never pause must not keep this process from polling.
            if now.instant.saturating_duration_since(polled_at.instant) >= self.poll_within {
                commands.push(Command::Poll);
                polled_at = now;
                self.draw_poll_time();
            }
            let mut output = self.machine.step(now, &mut commands, &mut *self.store);
            wake_at = output.wake_at;
            let stats = self.store.stats();
            let took = || self.clock.now().instant.saturating_duration_since(now.instant);
            self.metrics.set_store_stats(stats, took);
            for (kind, jobs) in &output.inserted {
                self.metrics.kinds.inserted(kind, *jobs);
            }
            if let Some(oldest) = output.oldest_runs {
                self.metrics.kinds.set_oldest(oldest);
            }
            self.ended.append(&mut output.ended);
            crate::values::hook::at("before the answers");
            self.executor.arm(core::mem::take(&mut output.starts));
            wake(output.wakers, true);
            for (event, span) in output.events {
                emit_of_run(&span, event, &self.metrics, self.on_event.as_ref(), true);
            }
            self.report_ends();
            self.metrics.in_flight.store(self.machine.in_flight(), Ordering::Relaxed);
            self.needs_maintenance |=
                core::mem::replace(&mut commits, stats.commits) != stats.commits;
            let was_large = core::mem::replace(&mut large_log, stats.wal_bytes > LARGE_LOG);
            if large_log && !was_large {
                let event = Event::LogGrows { bytes: stats.wal_bytes };
                emit(event, &self.metrics, self.on_event.as_ref(), true);
            }
            if let Some(error) = output.stopped {
                self.alive.stop(error.clone());
                emit(Event::Stopped { error }, &self.metrics, self.on_event.as_ref(), true);
            }
            for (reply, found) in output.checks {
                reply.answer(found);
            }
            output.end_waits.into_iter().for_each(|reply| reply.answer(()));
            if output.finished {
                return output.answers;
            }
            self.answered = output.answers.len();
            for (reply, answer) in output.answers {
                reply.answer(answer);
            }
        }
    }

    fn report_ends(&mut self) {
        for run in core::mem::take(&mut self.ended) {
            report_end(&run, &self.metrics, self.executor.on_run.as_ref(), true);
        }
    }

    /// Waits for commands, or until `wake_at`, or for a second; then takes the commands. `stepped_at`: when the
    /// last step began.
    fn wait(
        &mut self,
        wake_at: Option<Millis>,
        mut stepped_at: Option<Instant>,
        commands: &mut Vec<Command>,
    ) {
        loop {
            let now = self.clock.now();
            if let Some(stepped_at) = stepped_at.take() {
                self.metrics.stepped(now.instant.saturating_duration_since(stepped_at));
            }
            let until = |at: Millis| at.to_system().duration_since(now.wall).unwrap_or_default();
            let sleep = wake_at.map_or(self.poll_within, until).min(self.poll_within);
            if sleep.is_zero()
                || !self.notifications.is_empty()
                || !self.commands.is_empty()
                || !self.urgent.is_empty()
            {
                break;
            }
            if self.a_lone_caller_returns() {
                break;
            }
            let maintains = self.needs_maintenance && sleep > MAINTAIN_AFTER;
            crossbeam_channel::select_biased! {
                recv(self.urgent) -> command => commands.extend(command.ok()),
                recv(self.notifications) -> notification => commands.extend(notification.ok()),
                recv(self.commands) -> command => match command {
                    Ok(command) => commands.push(command),
                    // Every client is dropped, and so are the jobs that could shut down: only the runs are left
                    // to wait for.
                    Err(_) => commands.push(Command::Close { reply: None }),
                },
                default(if maintains { MAINTAIN_AFTER } else { sleep }) => {
                    if maintains {
                        stepped_at = Some(self.clock.now().instant);
                        self.needs_maintenance = self.store.maintain(sleep - MAINTAIN_AFTER).unwrap_or(false);
                        continue;
                    }
                    commands.push(Command::Wake);
                }
            }
            break;
        }
        self.take_all(commands);
    }

    /// If the last commit answered one caller, lets it run for a little while. To wake this thread would cost
    /// as much as a commit that does not wait for the disk. Returns whether a command has come.
    fn a_lone_caller_returns(&mut self) -> bool {
        if core::mem::take(&mut self.answered) != 1 {
            return false;
        }
        for _ in 0..LONE_YIELDS {
            if !self.commands.is_empty() || !self.urgent.is_empty() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Lets callers run that were just answered and are likely to call again, so that they share a commit. It
    /// waits until they are scheduled, which takes a few tens of microseconds at most.
    fn gather(&mut self, commands: &mut Vec<Command>) {
        for _ in 0..YIELDS {
            if commands.len() * 2 >= self.answered {
                return;
            }
            std::thread::yield_now();
            self.take_all(commands);
        }
    }

    /// Draws the time to the next poll, between 70 % and 100 % of [`POLL_INTERVAL`], if the store is shared.
    fn draw_poll_time(&mut self) {
        if self.shared {
            let bits =
                (JobId::new().to_u128() >> 72) as u64 ^ self.clock.now().millis().get() as u64;
            let parts = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
            self.poll_within = POLL_INTERVAL.mul_f64(0.7 + 0.3 * parts as f64 / 256.0);
        }
    }

    fn take_all(&self, commands: &mut Vec<Command>) {
        commands.extend(self.notifications.try_iter());
        commands.extend(self.urgent.try_iter().take(ENDS_PER_STEP));
        // A nudge from here on sends a command again. The poll of an earlier nudge is in this step.
        self.nudged.store(false, Ordering::Release);
        let is_end = |command: &Command| matches!(command, Command::Close { .. });
        if let Some(at) = commands.iter().position(is_end) {
            let rest = commands.split_off(at);
            commands.extend(self.commands.try_iter().take(self.commands.len()));
            commands.extend(rest);
            return;
        }
        let is_callers = |command: &&Command| !matches!(command, Command::Ended { .. });
        let mut weight: usize = commands.iter().filter(is_callers).map(Command::weight).sum();
        while weight < JOBS_PER_STEP {
            match self.commands.try_recv() {
                Ok(command) => {
                    weight += command.weight();
                    commands.push(command);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Closes the store, then gives the last answers, so that a caller of `shutdown` finds it closed.
    fn end(mut self, answers: Vec<(Reply, Result<Answer, ApplyError>)>) {
        let store = core::mem::replace(&mut self.store, Box::new(Memory::default()));
        let closed = store.close();
        let (alive, room) = (Arc::clone(&self.alive), Arc::clone(&self.room));
        let commands = self.disband();
        for (reply, answer) in answers {
            reply.answer(match &closed {
                Err(error) => answer.and(Err(error.clone().into())),
                Ok(()) => answer,
            });
        }
        alive.end();
        // A command that comes after this is not read: its caller checks `Alive`.
        commands.try_iter().for_each(drop);
        room.made();
    }

    /// Ends after a panic: this process writes nothing more, and no end of its runs counts.
    fn fail(mut self) {
        let error = StoreError::Other("the dispatcher has panicked".to_owned());
        self.alive.stop(error.clone());
        let mut wakers = Vec::new();
        self.machine.tell_all_lost(&mut wakers);
        drop(core::mem::replace(&mut self.store, Box::new(Memory::default())));
        wake(wakers, true);
        self.ended.extend(self.machine.interrupt_all(self.clock.now().instant));
        self.report_ends();
        emit(Event::Stopped { error }, &self.metrics, self.on_event.as_ref(), true);
        let (alive, room) = (Arc::clone(&self.alive), Arc::clone(&self.room));
        let commands = self.disband();
        alive.end();
        commands.try_iter().for_each(drop);
        room.made();
    }

    /// Drops everything but the channel of callers. Some of it are values of the user's, whose drops may call
    /// any function.
    fn disband(self) -> Receiver<Command> {
        let Dispatcher { wheels, commands, urgent, executor, machine, metrics, on_event, .. } =
            self;
        let lost: Vec<JobId> = commands.try_iter().flat_map(Command::buffered_ids).collect();
        if !lost.is_empty() {
            emit(Event::InsertsDropped { ids: lost }, &metrics, on_event.as_ref(), true);
        }
        let dispatcher = &executor.dispatcher;
        if let Some(questions) = &dispatcher.questions {
            questions.close();
        }
        call_hook(|| dispatcher.futures.end());
        call_hook(|| drop((wheels, executor, urgent, machine, on_event)));
        commands
    }
}
