//! Turns commands into the operations of a commit, also those of inserts without a waiting caller and of the flush
//! after them.
//!
//! Ground rules:
//!
//! - An insert without a waiting caller that was not stored is tried again with the next commit, before the commands
//!   that have come since. If that cannot be, it is dropped: [`Event::InsertsDropped`](super::Event) names it.
//! - A flush succeeds if every insert before it is stored. It fails if one of them was not stored by the flush's own
//!   commit, even if that insert is tried again. It also fails if one of them was dropped, and no flush has said so
//!   yet.

use core::task::Waker;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;

use super::commit::{Commit, EndedRun, FollowUp};
use super::time_limits::{by_limit, overrun_end};
use super::{Machine, StepOutput};
use crate::dispatch::command::{Checked, Command, CommandReply, RunEnd};
use crate::dispatch::events::Event;
use crate::dispatch::run_state::RunState;
use crate::store::{
    Answer, ApplyError, End, Finish, IfTaken, Inserted, NewJob, Op, RunBuckets, Store,
};
use crate::values::error::{StoreError, Violation};
use crate::values::fail_and_retry::{ERROR_BYTES, Fail, Fate, cut};
use crate::values::id::JobId;
use crate::values::job::{group_of, may_start};
use crate::values::node;
use crate::values::run_end::{Outcome, StopReason};
use crate::values::time::{Millis, Now};

/// The commands that the next step takes before new ones.
#[derive(Default)]
pub(super) struct Backlog {
    pub(super) commands: Vec<Command>,
    /// Errors of the inserts that stood in it.
    pub(super) unstored: Unstored,
}

impl Backlog {
    pub(super) fn push(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// Withdraws a claimed job, so that it never starts here, and gives its claim back with the next step. A job that
    /// has started stays.
    pub(super) fn withdraw(&mut self, run: &RunState) {
        if run.withdraw() {
            self.push(Command::GiveBack(run.id));
        }
    }
}

/// The end of the machine, once it was asked for or has come by itself.
#[derive(Default)]
pub(super) struct Closing {
    /// The machine was asked to end; and the caller that waits for it.
    pub(super) asked: Option<Option<CommandReply>>,
    /// How many runs the machine does not wait for, although they have started.
    pub(super) abandoned: usize,
    /// The machine waits for no run any more.
    pub(super) given_up: bool,
    /// The error at which it has stopped by itself.
    pub(super) stopped: Option<StoreError>,
}

impl Machine {
    pub(super) fn take(
        &mut self,
        command: Command,
        present: Now,
        store: &mut dyn Store,
        commit: &mut Commit,
        output: &mut StepOutput,
    ) {
        match command {
            Command::Call { op, reply } => {
                // A call that its caller has given up must not be done.
                if reply.as_ref().is_none_or(CommandReply::take) {
                    self.call(op, reply, commit, output);
                } else {
                    self.keep_progress(op);
                }
            }
            Command::Ended { id, fence, end, at } => {
                if !self.overrun_has_ended((id, fence))
                    && self.is_held(id, fence, present.instant, output)
                {
                    self.run_ended(id, end, at, commit);
                }
            }
            Command::Overrun { id, fence, at } => {
                match self.runs.get(id, fence).and_then(|run| run.limit) {
                    Some(limit) => self.run_ended(id, overrun_end(limit), at, commit),
                    // Its lease was lost meanwhile.
                    None => self.keep_slot((id, fence)),
                }
            }
            Command::GiveBack(id) => self.give_back(id, commit),
            Command::Wake => {}
            Command::Poll => match store.poll(present.millis()) {
                Ok(poll) => {
                    output.oldest_runs = Some(self.oldest_runs());
                    self.own_work.load_schedules |= poll.changed;
                    for id in poll.cancel_requested {
                        if !self.runs.cancel_requested.contains(&id) {
                            self.call(Op::Cancel(id), None, commit, output);
                        }
                    }
                }
                Err(error) => {
                    if error == StoreError::Overtaken {
                        self.overtaken();
                    }
                    output.emit(Event::CommitFailed { error });
                }
            },
            Command::Close { reply } => {
                self.close(reply);
                for command in core::mem::take(&mut self.backlog.commands) {
                    if let Command::GiveBack(id) = command {
                        self.give_back(id, commit);
                    }
                }
            }
            Command::Check(reply, checked) => output.checks.push((reply, check(checked, store))),
            Command::TellRuns => self.tell_runs(),
            Command::Abandon => {
                self.abandon();
                for run in self.runs.by_id.values() {
                    commit.release(run);
                }
            }
        }
    }

    /// Returns the oldest run of each kind, of those that have started.
    fn oldest_runs(&self) -> Vec<Arc<RunState>> {
        let mut oldest: HashMap<&str, (Instant, &Arc<RunState>)> = HashMap::default();
        for run in self.runs.by_id.values() {
            let Some(started) = run.started() else { continue };
            let found = oldest.entry(&run.kind).or_insert((started, run));
            if started < found.0 {
                *found = (started, run);
            }
        }
        oldest.into_values().map(|(_, run)| Arc::clone(run)).collect()
    }

    pub(super) fn call(
        &mut self,
        op: Op,
        reply: Option<CommandReply>,
        commit: &mut Commit,
        output: &mut StepOutput,
    ) {
        if !self.is_admitted(&op) && reply.is_some() {
            output.refuse(reply, StoreError::Closed.into());
            self.keep_progress(op);
            return;
        }
        match &op {
            Op::Each(ops) => ops.iter().for_each(|op| self.before_change(op, commit)),
            Op::Insert(job) => {
                if let Some(holder) = self.left_as_it_is(job) {
                    output.answer(reply, Answer::Inserted(Inserted::Taken(holder)));
                    return;
                }
            }
            // Read in the same commit, so that a pause holds here once its call has returned.
            Op::PutSchedule(_)
            | Op::DropSchedule(_)
            | Op::PauseSchedule(..)
            | Op::ResumeSchedule { .. } => self.own_work.load_schedules = true,
            op => self.before_change(op, commit),
        }
        op.jobs().iter().for_each(|job| self.withdraw_holder(job, commit));
        let is_setting =
            matches!(op, Op::PutSetting { .. } | Op::ReplaceSetting { .. } | Op::Hold { .. });
        let flush = matches!(op, Op::Flush);
        commit.synced |= flush || self.settings.synced && reply.is_some() && !op.is_question();
        commit.push(op, FollowUp::Answer(reply));
        if is_setting && !self.settings.policies.is_empty() {
            // In the same commit, so that the setting holds here once its call has returned.
            commit.push(Op::Settings, FollowUp::SettingsLoaded);
        }
    }

    /// Says whether the jobs still serve a call. In a shutdown they serve questions, and calls of a run for which the
    /// shutdown waits.
    fn is_admitted(&self, op: &Op) -> bool {
        let is_of_run = matches!(op, Op::PutProgress { .. }) && !self.closing.given_up;
        self.closing.asked.is_none() || op.is_question() || is_of_run
    }

    /// Withdraws the job that a call cancels or reschedules, by its id or its key. If its run has started, a cancel by
    /// its id reaches the run with the commit.
    fn before_change(&mut self, op: &Op, commit: &mut Commit) {
        match op {
            Op::Cancel(id) => {
                self.withdraw(*id, commit);
                if self.runs.by_id.get(id).is_some_and(|run| run.has_started()) {
                    commit.cancelling.insert(*id);
                }
            }
            Op::Reschedule(id, _) => self.withdraw(*id, commit),
            Op::CancelKey(key) | Op::RescheduleKey(key, _) => {
                if let Some(id) = self.runs.by_key.get(key).copied() {
                    self.withdraw(id, commit);
                }
            }
            _ => {}
        }
    }

    /// Returns the job that has the key of the new one, if the new one must leave it, and it is claimed here
    /// but has not started. Then the store need not be asked.
    fn left_as_it_is(&self, new: &NewJob) -> Option<JobId> {
        let Some((key, IfTaken::Leave)) = &new.key else { return None };
        // Only the store knows whether it knows the id.
        let holder = self.runs.by_key.get(key).filter(|_| !new.callers_id)?;
        self.runs.by_id.get(holder).filter(|run| run.is_waiting()).map(|run| run.id)
    }

    /// Withdraws a claimed job with this key that has not started: it counts as pending, although the store has
    /// its claim.
    fn withdraw_holder(&mut self, new: &NewJob, commit: &mut Commit) {
        if let Some((key, _)) = &new.key
            && let Some(holder) = self.runs.by_key.get(key).copied()
        {
            self.withdraw(holder, commit);
        }
    }

    /// Withdraws a claimed job, so that it never starts, and gives its claim back. A job that has started
    /// stays.
    pub(super) fn withdraw(&mut self, id: JobId, commit: &mut Commit) {
        let Some(run) = self.runs.by_id.get(&id).map(Arc::clone) else { return };
        if run.withdraw() {
            self.forget_key(&run);
            commit.release(&run);
        }
    }

    pub(super) fn give_back(&mut self, id: JobId, commit: &mut Commit) {
        if let Some(run) = self.runs.by_id.get(&id) {
            commit.release(run);
        }
    }

    pub(super) fn close(&mut self, reply: Option<CommandReply>) {
        self.closing.asked = Some(reply);
        self.withdraw_all();
    }

    pub(super) fn tell_runs(&mut self) {
        for run in self.runs.by_id.values() {
            run.tell(StopReason::Shutdown, &mut self.wakers);
        }
    }

    pub(super) fn abandon(&mut self) {
        self.tell_runs();
        for run in self.runs.by_id.values() {
            self.closing.abandoned += usize::from(run.has_started());
        }
        self.closing.abandoned += self.runs.lost.len();
        self.closing.given_up = true;
    }

    /// Cancels every run, because its claim is lost, and withdraws those that have not started. Returns the wakers.
    pub(crate) fn tell_all_lost(&self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for run in self.runs.by_id.values().filter(|run| !run.withdraw()) {
            run.tell(StopReason::LeaseLost, &mut wakers);
        }
        wakers
    }

    /// Ends all runs that have started, because their results do not count. Returns those that had not ended.
    pub(crate) fn interrupt_all(&self, now: Instant) -> Vec<Arc<RunState>> {
        let ends = |run: &&Arc<RunState>| run.end(Outcome::Interrupted, None, now);
        self.runs.by_id.values().filter(ends).cloned().collect()
    }

    /// Withdraws every run that has not started: the next step gives their claims back.
    pub(super) fn withdraw_all(&mut self) {
        for run in self.runs.by_id.values() {
            self.backlog.withdraw(run);
        }
    }

    pub(super) fn run_ended(&mut self, id: JobId, end: RunEnd, at: Millis, commit: &mut Commit) {
        let Some(run) = self.runs.by_id.get(&id) else { return };
        let (fence, end) = (run.fence, by_limit(run, end));
        let failures = run.failures.saturating_add(1);
        // Most runs complete, and need none of this.
        let policy = || {
            let its_own = run.extra.as_ref().and_then(|extra| extra.retry);
            let of_kind = || self.settings.policies.get(&run.kind).copied().unwrap_or_default();
            its_own.unwrap_or_else(of_kind)
        };
        let kind = || run.kind.to_string();
        let noted = |error: &str| {
            let error = cut(error, ERROR_BYTES);
            (run.errors.and(at, run.attempt, node::name(), &error), error)
        };
        let died = |error: &str| {
            let (errors, error) = noted(error);
            (End::Dead { errors }, Some(Event::Died { id, kind: kind(), error }))
        };
        let again = |wait: Option<Duration>, error: &str| match wait {
            None => died(error),
            // The retry would only expire, and the error would be lost.
            Some(wait) if !may_start(run.extra.as_deref(), at.plus(wait)) => died(error),
            Some(wait) => {
                let (errors, error) = noted(error);
                let event = Event::Failed { id, kind: kind(), error };
                (End::Retry { due: at.plus(wait), errors }, Some(event))
            }
        };
        let (its_end, event) = match &end {
            RunEnd::Done => (End::Completed, None),
            // If a cancel was requested, the store knows it, and counts no run.
            RunEnd::Expired => (End::Expired, Some(Event::Expired { id, kind: kind() })),
            _ if self.runs.cancel_requested.contains(&id) || commit.cancelling.contains(&id) => {
                (End::Cancelled, None)
            }
            RunEnd::Undecodable(error) => died(error),
            RunEnd::Failed(Fail { fate, error, .. }) => match fate {
                Fate::Interrupted if run.is_told() => {
                    commit.ending.count(run, 1);
                    let outcome = Outcome::Interrupted;
                    let then =
                        FollowUp::Ended(EndedRun { id, fence, end, at, outcome, event: None });
                    let interrupted = self.settings.history;
                    commit.push(Op::Release { id, fence, interrupted }, then);
                    return;
                }
                Fate::Policy | Fate::Interrupted => {
                    again(policy().draw_wait(failures, draw(id, failures)), error)
                }
                Fate::After(wait) => again(policy().wait(failures).map(|_| *wait), error),
                Fate::Snooze(wait) => (End::Snoozed { due: at.plus(*wait) }, None),
                Fate::Dead => died(error),
            },
        };
        if self.frees_its_slot((id, fence)) && !run.follow_ups.were_refused() {
            commit.ending.count(run, 1);
        }
        let outcome = its_end.outcome();
        // A run that has overrun its limit goes on. A job that has expired has had no run.
        let limit = run.limit.filter(|_| run.has_started());
        let took = run.took().or(limit).unwrap_or_default();
        let buckets = || match run.has_started() {
            true => RunBuckets::of(run.late(), took),
            false => RunBuckets::NO_RUN,
        };
        let buckets = self.settings.history.then(buckets);
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let result = run.result().filter(|_| its_end == End::Completed);
        let keep = self.stored.settings.keeps.get(&*run.kind).copied();
        let wanted = run.extra.as_ref().is_some_and(|extra| extra.wanted);
        let then = run.follow_ups.jobs().filter(|_| its_end == End::Completed);
        let group = group_of(run.extra.as_deref());
        let gives_result = run.extra.as_ref().is_some_and(|extra| extra.gives_result);
        for job in then.iter().flat_map(|jobs| &**jobs) {
            self.withdraw_holder(job, commit);
        }
        let ended = EndedRun { id, fence, end, at, outcome, event };
        let (end, run) = (its_end, buckets);
        let finish =
            Finish { id, fence, end, took, result, keep, wanted, run, then, group, gives_result };
        commit.push(Op::Finish(finish), FollowUp::Ended(ended));
    }
}

pub(super) fn check(checked: Checked, store: &mut dyn Store) -> Result<(), Violation> {
    match checked {
        Checked::Everything => store.check(),
        Checked::Claims => store.check_claims(),
    }
}

/// Returns a pseudo-random number that differs by job and by failure, and is the same in each call.
fn draw(id: JobId, failures: u32) -> u64 {
    let bits = id.to_u128();
    let mut mixed = (bits >> 64) as u64 ^ (bits as u64).rotate_left(32) ^ u64::from(failures) << 56;
    // The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// How many inserts without a waiting caller are kept while the store fails.
pub(super) const MOST_BUFFERED: usize = 100_000;

/// The errors of inserts that are not stored, for the flushes after them.
#[derive(Default)]
pub(super) struct Unstored {
    /// The error of an insert of this commit that is tried again.
    kept: Option<StoreError>,
    /// The error of an insert that was dropped.
    dropped: Option<StoreError>,
    /// A flush of this commit has the error of the inserts that were dropped.
    is_told: bool,
}

impl Unstored {
    pub(super) fn note_kept(&mut self, error: &StoreError) {
        self.kept.get_or_insert_with(|| error.clone());
    }

    pub(super) fn note_dropped(&mut self, error: &StoreError) {
        self.is_told = false;
        self.dropped.get_or_insert_with(|| error.clone());
    }

    /// Returns the error that a flush after these inserts gets.
    pub(super) fn tell(&mut self) -> Option<StoreError> {
        self.is_told = true;
        self.dropped.as_ref().or(self.kept.as_ref()).cloned()
    }

    pub(super) fn end_commit(&mut self) {
        self.kept = None;
        if core::mem::take(&mut self.is_told) {
            self.dropped = None;
        }
    }
}

impl Machine {
    /// Returns the answer of an operation. A flush that succeeds in the store may come after inserts that are not
    /// stored.
    pub(super) fn flushed(&mut self, op: &Op, answer: Answer) -> Answer {
        match (op, &answer) {
            (Op::Flush, Answer::Done) => {
                self.backlog.unstored.tell().map_or(answer, Answer::Refused)
            }
            _ => answer,
        }
    }

    /// Says whether a failed operation without a waiting caller is tried again. `kept`: how many operations of its
    /// commit are.
    pub(super) fn tries_again(&self, kept: usize, error: &StoreError) -> bool {
        kept < MOST_BUFFERED && self.closing.asked.is_none() && *error != StoreError::Overtaken
    }
}

/// Returns the operation as it is tried again. An insert that may be in the store already looks for its id first.
pub(super) fn again(op: Op, failed: &ApplyError) -> Op {
    let once = |job: NewJob| NewJob { callers_id: true, ..job };
    match op {
        Op::Insert(job) if failed.unknown => Op::Insert(once(job)),
        Op::InsertMany(jobs) if failed.unknown => {
            Op::InsertMany(jobs.into_iter().map(once).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number spreads the retries of jobs that fail together: it differs by job and by failure, and each of its
    /// bits is set for about half of the jobs.
    #[test]
    fn draw_differs_by_job_and_by_failure() {
        let by_job: Vec<u64> =
            (0..1000).map(|id| draw(JobId::from_u128(id << 64 | 7), 1)).collect();
        let by_failure: Vec<u64> =
            (0..100).map(|failures| draw(JobId::from_u128(7), failures)).collect();
        for mut draws in [by_job.clone(), by_failure] {
            let many = draws.len();
            draws.sort_unstable();
            draws.dedup();
            assert_eq!(draws.len(), many);
        }
        for bit in 0..64 {
            let set = by_job.iter().filter(|draw| **draw >> bit & 1 == 1).count();
            assert!((400..=600).contains(&set), "bit {bit}: {set}");
        }
    }
}
