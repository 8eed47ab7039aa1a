//! The dispatcher as a state machine: a step takes commands and the present, commits what it changes, and returns
//! answers, starts and the time of the next step.
//!
//! Ground rules:
//!
//! - A step is a function of its arguments: it reads no clock, starts no thread and waits for no channel. The thread in
//!   `dispatcher_thread.rs` and the callers in `caller_machine.rs` drive the same machine.
//! - A step returns an answer after the commit that makes it true.
//! - A run is in `Runs` from the commit that claims it to the commit that ends its claim. So a slot that is free here
//!   is free in the store.
//! - The end of a run is never lost: if its commit fails, the next step takes it again.
//! - A run that has not started is withdrawn before its job is cancelled, rescheduled or replaced. The same commit
//!   gives its claim back to the store, or, if that fails, a later one.
//! - The settings do not change while the jobs run.

mod after_commit;
mod leases;
mod time_limits;
mod commands;
pub(crate) mod claims;
mod own_work;
mod commit;
#[cfg(test)]
mod fixture;

use core::task::Waker;
use std::sync::Arc;
use std::time::{Duration, Instant};

use claims::{Runs, StoredSettings};
use commands::{Backlog, Closing};
use commit::Commits;
use foldhash::HashMap;
use leases::Leases;
use own_work::{OwnWork, Told};
use time_limits::TimeLimits;

use super::call;
use super::command::{CheckResult, Command, CommandReply};
use super::events::Event;
use super::run_state::RunState;
use super::spans::RunSpan;
use crate::dispatch::command::Progress;
use crate::dispatch::machine::claims::Capacity;
use crate::dispatch::questions::EndWaits;
use crate::dispatch::run_state::Slot;
use crate::store::{Answer, ApplyError, Store, StoredSchedule};
use crate::values::error::StoreError;
use crate::values::fail_and_retry::Retry;
use crate::values::limit::Limit;
use crate::values::time::{Millis, Now};

/// The state machine. Each of its parts stands in the file of its verbs.
pub(crate) struct Machine {
    settings: MachineSettings,
    runs: Runs,
    leases: Leases,
    time_limits: TimeLimits,
    commits: Commits,
    own_work: OwnWork,
    stored: StoredSettings,
    backlog: Backlog,
    closing: Closing,
    /// Wakers of futures whose runs were cancelled.
    wakers: Vec<Waker>,
    /// The names of unreadable jobs and schedules that were reported.
    told: Told,
    /// When the last step was made.
    last: Millis,
    last_instant: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct StepOutput {
    pub(crate) answers: Vec<(CommandReply, Result<Answer, ApplyError>)>,
    pub(crate) checks: Vec<(call::Reply<CheckResult>, CheckResult)>,
    /// Callers that wait for ends which this commit holds.
    pub(crate) end_waits: Vec<call::Reply<()>>,
    /// In any order.
    pub(crate) starts: Vec<Start>,
    pub(crate) events: Vec<(Event, RunSpan)>,
    /// How many jobs the commit inserted, by kind. A kind may stand there several times.
    pub(crate) inserted: Vec<(Arc<str>, u64)>,
    /// After a poll: the oldest run of each kind, of those that have started. From `LockedMachine::step` on: those of
    /// the poll before, to be dropped.
    pub(crate) oldest_runs: Option<Vec<Arc<RunState>>>,
    /// Runs that have ended: to be reported outside of any lock.
    pub(crate) ended: Vec<Arc<RunState>>,
    /// To be woken outside of any lock.
    pub(crate) wakers: Vec<Waker>,
    /// When the next step is due if no command comes: at once, if that has passed.
    pub(crate) wake_at: Option<Millis>,
    /// The machine was closed, and no run is left that it waits for.
    pub(crate) finished: bool,
    /// The error, if the machine has stopped by itself.
    pub(crate) stopped: Option<StoreError>,
}

/// A run to start at its time.
pub(crate) struct Start {
    pub(crate) state: Arc<RunState>,
    pub(crate) payload: Vec<u8>,
    /// Its place among the claimed jobs, if it has a partition.
    pub(crate) turn: Option<LaneTurn>,
}

/// The place of a claimed job with a partition. The job stands in the order as if it had become due at `due`. That is
/// not before the `due` of the job of its kind that had the turn before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaneTurn {
    pub(crate) due: Millis,
    pub(crate) number: u64,
}

/// A clock that steps back by more than this was set.
const CLOCK_STEP: Duration = Duration::from_secs(1);
/// An occurrence that is found later than this after its due time was missed.
const GRACE: Duration = Duration::from_secs(1);
const OCCURRENCES_PER_STEP: usize = 1000;
const PURGE_INTERVAL: Duration = Duration::from_secs(600);
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

impl Machine {
    pub(crate) fn new(settings: MachineSettings, now: Millis) -> Machine {
        Machine {
            runs: Runs::default(),
            leases: Leases::default(),
            time_limits: TimeLimits::default(),
            commits: Commits::default(),
            own_work: OwnWork::new(&settings, now),
            stored: StoredSettings::default(),
            backlog: Backlog::default(),
            closing: Closing::default(),
            wakers: Vec::new(),
            told: Told::default(),
            last: now,
            last_instant: None,
            settings,
        }
    }

    /// Sets when the caller that makes the next step stops waiting, if a caller makes it.
    pub(crate) fn set_until(&mut self, until: Option<Instant>) {
        self.commits.until = until;
    }

    pub(crate) fn end_waits(&self) -> Arc<EndWaits> {
        Arc::clone(&self.settings.end_waits)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.runs.by_id.len() + self.runs.lost.len()
    }

    /// Takes the commands, and does the machine's own due work, in one commit.
    pub(crate) fn step(
        &mut self,
        present: Now,
        commands: &mut Vec<Command>,
        store: &mut dyn Store,
    ) -> StepOutput {
        let now = present.millis();
        let mut output = StepOutput::default();
        let mut commit = self.commits.begin();
        self.lose_ended_leases(present.instant, &mut output);
        self.enforce_limits(present);
        if !self.settle(present, commands, store, &mut output) {
            self.finish_step(present, None, &mut output);
            return output;
        }
        if now.plus(CLOCK_STEP) < self.last {
            self.withdraw_all();
            // A time that was set while the clock was ahead would be too late now.
            self.own_work.clock_was_set = true;
            self.own_work.purge_at = self.own_work.purge_at.min(now.plus(PURGE_INTERVAL));
        }
        self.give_back_late(present);
        let mut taken = core::mem::take(&mut self.backlog.commands);
        if self.last_instant.is_none() && self.settings.lease.is_some() && self.runs_jobs() {
            // The work that other processes left behind comes before the first claim.
            taken.push(Command::Poll);
        }
        self.renew_after_clock_jump(present);
        self.last = now;
        taken.append(commands);
        self.write_progress(present.instant, &mut taken, &mut commit);
        for command in taken {
            self.take(command, present, store, &mut commit, &mut output);
        }
        self.renew(present.instant, &mut commit);
        self.do_own_work(now, &mut commit);
        commit.claim = self.claim_request(present, &commit);
        let is_empty = commit.ops.is_empty() && commit.claim.is_none();
        if is_empty || !self.send(commit, present, store, &mut output) {
            self.finish_step(present, None, &mut output);
        }
        output
    }

    fn runs_jobs(&self) -> bool {
        !self.settings.policies.is_empty() && self.closing.asked.is_none()
    }

    fn free_slots(&self, ending: usize) -> usize {
        let held = self.in_flight().saturating_sub(ending);
        self.settings.max_in_flight.saturating_sub(held)
    }

    fn finish_step(&mut self, present: Now, next_due: Option<Millis>, output: &mut StepOutput) {
        let now = present.millis();
        output.wakers.append(&mut self.wakers);
        self.wake_for_leases(present, output);
        self.wake_for_limits(present, output);
        self.wake_for_progress(present, output);
        self.wake_for_callers(present, output);
        if let Some(retry_at) = self.commits.retry_at {
            output.wake_by(retry_at);
        } else if !self.backlog.commands.is_empty() {
            output.wake_by(now);
        }
        if self.runs_jobs() {
            if self.free_slots(0) > 0 {
                output.wake_by(next_due.map(|due| due.minus(self.settings.ahead)));
            }
            let occurs = |schedule: &&StoredSchedule| {
                self.settings.policies.contains_key(&*schedule.kind)
                    && !self.stored.settings.paused_schedules.contains(&schedule.name)
            };
            let next =
                self.own_work.schedules.iter().filter(occurs).map(|schedule| schedule.next).min();
            if self.commits.retry_at.is_none() {
                output.wake_by(next.map(|next| next.minus(self.settings.ahead)));
                if self.own_work.purge_at <= now {
                    // There is more to delete. Otherwise a later purge waits until another step is made.
                    output.wake_by(now);
                }
                if self.own_work.load_schedules {
                    output.wake_by(now);
                }
            }
        }
        if let Some(error) = &self.closing.stopped {
            output.finished = true;
            output.stopped = Some(error.clone());
            output.ended.extend(self.interrupt_all(present.instant));
            let reply = self.closing.asked.as_mut().and_then(Option::take);
            output.refuse(reply, error.clone().into());
            return;
        }
        let idle = self.in_flight() == 0
            && self.backlog.commands.is_empty()
            && self.commits.unsettled.is_none();
        if self.closing.asked.is_none() || !idle && !self.closing.given_up {
            return;
        }
        // The ends of these runs are not awaited.
        output.ended.extend(self.interrupt_all(present.instant));
        output.finished = true;
        let is_end = |command: &Command| matches!(command, Command::Ended { .. });
        let answer = match self.closing.abandoned {
            _ if self.backlog.commands.iter().any(is_end) => {
                Err(self.commits.last_failure.take().unwrap_or(StoreError::Busy).into())
            }
            0 => Ok(Answer::Done),
            runs => Err(ApplyError::from(StoreError::StillRunning(runs))),
        };
        let reply = self.closing.asked.as_mut().and_then(Option::take);
        output.answers.extend(reply.map(|reply| (reply, answer)));
    }
}

/// The choices of the builder, as the machine needs them.
#[derive(Clone)]
pub(crate) struct MachineSettings {
    /// The name of the queue. Empty: the default one.
    pub(crate) queue: String,
    /// How many jobs may be claimed at once.
    pub(crate) max_in_flight: usize,
    /// How many runs can be under way at once.
    pub(crate) most_runs: usize,
    /// How long before its due time a job is claimed.
    pub(crate) ahead: Duration,
    /// How long a claim holds unless it is renewed. None: as long as the process runs.
    pub(crate) lease: Option<Duration>,
    /// The limit of a call. Zero on a manual clock.
    pub(crate) call_timeout: Duration,
    /// A change is on stable storage before its answer.
    pub(crate) synced: bool,
    /// The retry policy of each kind that is handled here. Empty: nothing is claimed.
    pub(crate) policies: HashMap<Arc<str>, Retry>,
    /// How much capacity a job takes, for each kind whose jobs do not take a thread each.
    pub(crate) slots: HashMap<Arc<str>, Slot>,
    /// How many jobs of each of these kinds may be claimed at once. Other kinds share the threads.
    pub(crate) rooms: HashMap<Arc<str>, usize>,
    /// How long a run of a kind may take, and how much longer until the machine gives it up.
    pub(crate) time_limits: HashMap<Arc<str>, Duration>,
    pub(crate) limit_grace: Duration,
    /// How many jobs the threads can start soon. None on a manual clock.
    pub(crate) capacity: Option<Arc<Capacity>>,
    pub(crate) end_waits: Arc<EndWaits>,
    pub(crate) progress: Arc<Progress>,
    /// How many threads run the handlers, if that was set.
    pub(crate) threads: Option<usize>,
    /// How many handlers that block can run at once.
    pub(crate) pool: usize,
    /// The flow of each kind that is handled here.
    pub(crate) flows: HashMap<Arc<str>, &'static str>,
    /// For these kinds: how long after its due time an occurrence expires.
    pub(crate) expiries: HashMap<Arc<str>, Duration>,
    /// The limits of flows that hold as long as none is stored.
    pub(crate) limits: Vec<(String, Limit)>,
    /// The store counts what happens in each minute.
    pub(crate) history: bool,
}
