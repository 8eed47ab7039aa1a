//! The dispatcher's thread: it makes the steps, but for those of a caller that is alone.
//!
//! Ground rules:
//!
//! - It shares the machine and the store with such a caller (`shared_machine.rs`). It has the lock for its own steps
//!   only: not while it waits, nor while functions of the user's run.
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

use crossbeam_channel::{Receiver, Select, TryRecvError};
use tickwheel::Wheel;

use super::call::Alive;
use super::clock::Clock;
use super::command::{Answered, Command, CommandReply, JOBS_PER_STEP, answer_all};
use super::events::{Event, OnEvent, call_hook, emit};
use super::execute::Executor;
use super::machine::{Machine, StepOutput};
use super::metrics::Metrics;
use super::shared_machine::{LockedMachine, Maintained, Next, POLL_INTERVAL, Room, SharedMachine};
use crate::values::error::StoreError;
use crate::values::id::JobId;

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

type Answers = Vec<(CommandReply, Answered)>;

pub(crate) struct Dispatcher {
    pub(crate) machine: Arc<SharedMachine>,
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
    /// How many commits the store had made at the last look.
    pub(crate) commits: u64,
    pub(crate) has_large_log: bool,
    /// How many callers the last commit answered.
    pub(crate) answered: usize,
    /// The wheels that hold claimed jobs until their time. They are dropped with the thread.
    pub(crate) wheels: Vec<Wheel>,
}

impl Dispatcher {
    /// Runs until the machine has finished.
    pub(crate) fn run(mut self) {
        match catch_unwind(AssertUnwindSafe(|| self.serve())) {
            Ok(Some(answers)) => self.end(answers),
            Ok(None) => self.fail(),
            Err(panic) => {
                // The drop of the panic's payload may panic as well.
                call_hook(|| drop(panic));
                self.fail();
            }
        }
    }

    /// Makes steps until the machine has finished. Returns the last answers, or `None` if a step of a caller has
    /// panicked.
    fn serve(&mut self) -> Option<Answers> {
        let mut commands = Vec::new();
        let mut polled_at = self.clock.now();
        let mut stepped_at = None;
        loop {
            self.wait(stepped_at.take());
            match self.machine.begin() {
                Next::Step => {}
                Next::Fail => return None,
                Next::Left(outputs) => {
                    let last = outputs.into_iter().find_map(|output| self.deal_with(output));
                    if last.is_some() {
                        return last;
                    }
                    continue;
                }
            }
            self.take_all(&mut commands);
            self.gather(&mut commands);
            self.room.made();
            let now = self.clock.now();
            stepped_at = Some(now.instant);
            // Callers that never pause must not keep this process from polling.
            if now.instant.saturating_duration_since(polled_at.instant) >= self.poll_within {
                commands.push(Command::Poll);
                polled_at = now;
                self.look_at_log();
                self.draw_poll_time();
            }
            let stepped = self.machine.step(now, &mut commands, &self.clock, &self.metrics);
            let (output, stats) = stepped?;
            let commits = core::mem::replace(&mut self.commits, stats.commits);
            self.needs_maintenance |= commits != stats.commits;
            if let Some(last) = self.deal_with(output) {
                return Some(last);
            }
        }
    }

    /// Gives the program what a step has for it, and the callers their answers. Returns the answers if this was the
    /// last step.
    fn deal_with(&mut self, output: StepOutput) -> Option<Answers> {
        let is_last = output.finished;
        let answers = self.tell(output);
        if is_last {
            return Some(answers);
        }
        self.answered = answers.len();
        for (reply, answer) in answers {
            reply.answer(answer);
        }
        None
    }

    fn tell(&self, output: StepOutput) -> Answers {
        let hooks = (self.on_event.as_ref(), self.executor.on_run.as_ref());
        output.tell(&self.metrics, hooks, &self.alive, true)
    }

    /// Emits an event if the store's log has become large.
    fn look_at_log(&mut self) {
        let bytes = self.executor.dispatcher.log_bytes();
        let was_large = core::mem::replace(&mut self.has_large_log, bytes > LARGE_LOG);
        if self.has_large_log && !was_large {
            emit(Event::LogGrows { bytes }, &self.metrics, self.on_event.as_ref(), true);
        }
    }

    /// Waits for commands, or until the next step is due, or for a second. `stepped_at`: when the last step began.
    fn wait(&mut self, mut stepped_at: Option<Instant>) {
        loop {
            let mut plan = self.machine.plan(&self.clock, self.poll_within);
            if let Some(stepped_at) = stepped_at.take() {
                self.metrics.stepped(plan.now.instant.saturating_duration_since(stepped_at));
            }
            if plan.sleep.is_zero() || self.have_come() || self.a_lone_caller_returns() {
                return;
            }
            let until = plan.now.instant + plan.sleep;
            loop {
                let now = self.clock.now().instant;
                let sleep = until.saturating_duration_since(now);
                let maintains = self.needs_maintenance && sleep > MAINTAIN_AFTER;
                if self.sleep(if maintains { MAINTAIN_AFTER } else { sleep }) || !maintains {
                    return;
                }
                let begun = self.clock.now().instant;
                match self.machine.maintain(plan, until.saturating_duration_since(begun)) {
                    Maintained::NotIdle(callers_steps) => plan.callers_steps = callers_steps,
                    maintained => {
                        self.needs_maintenance = maintained == Maintained::InPart;
                        stepped_at = Some(begun);
                        break;
                    }
                }
            }
        }
    }

    /// Sleeps for this long, or until a command comes. Returns whether one has come. It takes none: see
    /// `shared_machine.rs`. The channels have senders as long as the executor lives.
    fn sleep(&self, longest: Duration) -> bool {
        let mut channels = Select::new();
        for channel in [&self.urgent, &self.notifications, &self.commands] {
            channels.recv(channel);
        }
        channels.ready_timeout(longest).is_ok()
    }

    fn have_come(&self) -> bool {
        let channels = [&self.urgent, &self.notifications, &self.commands];
        channels.into_iter().any(|channel| !channel.is_empty())
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
    fn end(self, answers: Answers) {
        let (mut closed, mut machine) = (Ok(()), None);
        if let Some(held) = self.machine.take() {
            closed = held.store.close();
            machine = Some((held.machine, held.executor));
        }
        self.disband(machine, || answer_all(answers, &closed));
    }

    /// Ends after a panic: this process writes nothing more, and no end of its runs counts.
    fn fail(self) {
        let error = StoreError::Other("the dispatcher has panicked".to_owned());
        self.alive.stop(error.clone());
        let mut output = StepOutput { stopped: Some(error), ..StepOutput::default() };
        let mut machine = None;
        if let Some(LockedMachine { machine: its, store, executor, .. }) = self.machine.take() {
            output.wakers = its.tell_all_lost();
            drop(store);
            output.ended = its.interrupt_all(self.clock.now().instant);
            machine = Some((its, executor));
        }
        drop(self.tell(output));
        self.disband(machine, || {});
    }

    /// Drops everything but the channel of callers. Some of it are values of the user's, whose drops may call
    /// any function. Then gives the last answers, and lets everybody know that the thread has ended.
    fn disband(self, machine: Option<(Machine, Arc<Executor>)>, answer: impl FnOnce()) {
        let Dispatcher { wheels, commands, urgent, executor, metrics, on_event, .. } = self;
        let end_waits = Arc::clone(&executor.dispatcher.end_waits);
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
        drop(self.notifications);
        answer();
        self.alive.end();
        // A later command is not read: its caller checks `Alive`.
        commands.try_iter().for_each(drop);
        self.room.made();
        // No timer wakes the waiting futures any more. They look once more, and are refused.
        call_hook(|| drop(end_waits.take_all()));
    }
}
