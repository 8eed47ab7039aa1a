//! The operations that one step gathers for its commit, the follow-up of each, and a commit without an answer, which is
//! sent again until it is answered.
//!
//! Ground rules:
//!
//! - Only a store that applies a batch once, even if it is sent again, has such commits ([`ApplyError::again`]). The
//!   batch is sent again as it was, until it is answered. So a lost reply neither loses nor doubles a change.
//! - Commands that come meanwhile wait, because they may depend on the effect of the batch.
//! - A caller waits until its limit. If the batch may have been sent by then, it is sent again nevertheless, and the
//!   caller gets an error with an unknown outcome. If it certainly was not sent, the caller's operation is taken out of
//!   it and refused. A call that waits behind the batch is refused in either case.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashSet;

use super::claims::Slots;
use super::{FIRST_RETRY, LONGEST_RETRY, Machine, StepOutput, commands};
use crate::dispatch::call::Alive;
use crate::dispatch::command::{Answered, Command, CommandReply, RunEnd};
use crate::dispatch::events::{Event, OnEvent, OnRun, emit, emit_of_run, report_end, wake};
use crate::dispatch::metrics::Metrics;
use crate::dispatch::run_state::{RunError, RunState};
use crate::dispatch::spans::RunSpan;
use crate::store::{Answer, ApplyError, Batch, ClaimRequest, Fence, Finish, Inserted, Op, Store};
use crate::values::error::StoreError;
use crate::values::fail_and_retry::{ERROR_BYTES, ErrorType, Fail, Fate, cut};
use crate::values::id::JobId;
use crate::values::run_end::Outcome;
use crate::values::time::{Millis, Now};

/// The operations of one commit, and the follow-up of each.
#[derive(Default)]
pub(super) struct Commit {
    pub(super) ops: Vec<Op>,
    pub(super) follow_ups: Vec<FollowUp>,
    pub(super) synced: bool,
    /// The number of its batch, and the claim in it.
    number: u64,
    pub(super) claim: Option<ClaimRequest>,
    /// The outcome of an earlier attempt is unknown.
    was_unknown: bool,
    /// The claims that these operations end.
    pub(super) ending: Slots,
    /// Runs that have started, and that these operations cancel.
    pub(super) cancelling: HashSet<JobId>,
}

pub(super) enum FollowUp {
    Answer(Option<CommandReply>),
    Ended(EndedRun),
    Released(JobId),
    Extended,
    SchedulesLoaded,
    SettingsLoaded,
    NodeNoted,
    ProgressPut,
    Occurred,
    Purged,
}

/// A run whose end goes to the store.
pub(super) struct EndedRun {
    pub(super) id: JobId,
    pub(super) fence: Fence,
    pub(super) end: RunEnd,
    pub(super) at: Millis,
    pub(super) outcome: Outcome,
    pub(super) event: Option<Event>,
}

impl Commit {
    /// Returns the batch for the store. `until`: when the caller that makes the step stops waiting, if a caller
    /// makes it.
    pub(super) fn batch(&self, until: Option<Instant>, now: Millis) -> Batch<'_> {
        let Commit { ops, synced, number, claim, .. } = self;
        let (number, synced, claim) = (*number, *synced, claim.clone());
        let awaited = self.follow_ups.iter().any(|then| matches!(then, FollowUp::Answer(Some(_))));
        let until = self.until().into_iter().chain(until).min();
        Batch { number, ops, claim, synced, awaited, until, now }
    }

    /// Returns when the first of the callers stops waiting.
    pub(super) fn until(&self) -> Option<Instant> {
        let until = |then: &FollowUp| match then {
            FollowUp::Answer(Some(reply)) => reply.until(),
            _ => None,
        };
        self.follow_ups.iter().filter_map(until).min()
    }

    pub(super) fn push(&mut self, op: Op, then: FollowUp) {
        self.ops.push(op);
        self.follow_ups.push(then);
    }

    pub(super) fn release(&mut self, run: &RunState) {
        self.ending.count(run, 1);
        let (id, fence) = (run.id, run.fence);
        self.push(Op::Release { id, fence, interrupted: false }, FollowUp::Released(id));
    }

    /// Returns the jobs that may have ended by these operations, but for those that a key names.
    pub(super) fn ending_jobs(&self) -> impl Iterator<Item = JobId> {
        self.ops.iter().flat_map(each_of).filter_map(|op| match op {
            Op::Finish(Finish { id, .. })
            | Op::Cancel(id)
            | Op::Release { id, .. }
            | Op::Delete(id) => Some(*id),
            _ => None,
        })
    }

    /// Returns the jobs whose runs these operations finish.
    pub(super) fn ended(&self) -> HashSet<JobId> {
        let finished = |op: &Op| match op {
            Op::Finish(finish) => Some(finish.id),
            _ => None,
        };
        self.ops.iter().filter_map(finished).collect()
    }
}

/// Returns the single operations of an operation.
pub(super) fn each_of(op: &Op) -> &[Op] {
    match op {
        Op::Each(each) => each,
        op => core::slice::from_ref(op),
    }
}

impl StepOutput {
    /// Tells the program what the step has done, answers checks and waits, and returns the answers of the calls.
    /// `threaded`: on a dispatcher's thread.
    pub(crate) fn tell(
        self,
        metrics: &Metrics,
        (on_event, on_run): (Option<&OnEvent>, Option<&OnRun>),
        alive: &Alive,
        threaded: bool,
    ) -> Vec<(CommandReply, Answered)> {
        wake(self.wakers, threaded);
        for (event, span) in self.events {
            emit_of_run(&span, event, metrics, on_event, threaded);
        }
        for run in self.ended {
            report_end(&run, metrics, on_run, threaded);
        }
        if let Some(error) = self.stopped {
            alive.stop(error.clone());
            emit(Event::Stopped { error }, metrics, on_event, threaded);
        }
        for (reply, found) in self.checks {
            reply.answer(found);
        }
        self.end_waits.into_iter().for_each(|reply| reply.answer(()));
        self.answers
    }

    pub(super) fn answer(&mut self, reply: Option<CommandReply>, answer: Answer) {
        self.answers.extend(reply.map(|reply| (reply, Ok(answer))));
    }

    pub(super) fn refuse(&mut self, reply: Option<CommandReply>, error: ApplyError) {
        self.answers.extend(reply.map(|reply| (reply, Err(error))));
    }

    pub(super) fn count_inserts(&mut self, op: &Op, answer: &Answer) {
        let taken: HashSet<usize> = match answer {
            Answer::Inserted(Inserted::New) => HashSet::default(),
            Answer::InsertedMany(taken) => taken.iter().map(|(at, _)| *at).collect(),
            _ => return,
        };
        let inserted = op.jobs().iter().enumerate().filter(|(at, _)| !taken.contains(at));
        inserted.for_each(|(_, job)| self.count_insert(&job.kind));
    }

    fn count_insert(&mut self, kind: &Arc<str>) {
        match self.inserted.last_mut() {
            Some((last, jobs)) if last == kind => *jobs += 1,
            _ => self.inserted.push((Arc::clone(kind), 1)),
        }
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.events.push((event, RunSpan::default()));
    }

    pub(super) fn emit_of(&mut self, run: &RunState, event: Event) {
        self.events.push((event, run.span.clone()));
    }

    /// Notes the end of a run, unless it has ended before or has not started.
    pub(super) fn run_over(
        &mut self,
        run: Arc<RunState>,
        outcome: Outcome,
        error: Option<RunError>,
        now: Instant,
    ) {
        if run.end(outcome, error, now) {
            self.ended.push(run);
        }
    }

    pub(super) fn wake_by(&mut self, time: impl Into<Option<Millis>>) {
        self.wake_at = self.wake_at.into_iter().chain(time.into()).min();
    }
}

/// Returns the error of a run that ended with this outcome.
pub(super) fn error_of(end: RunEnd, outcome: Outcome) -> Option<RunError> {
    let has_failed = match outcome {
        Outcome::Retried | Outcome::Dead => true,
        Outcome::Completed | Outcome::Snoozed | Outcome::Interrupted | Outcome::Expired => false,
        Outcome::Cancelled => {
            !matches!(end, RunEnd::Failed(Fail { fate: Fate::Snooze(_) | Fate::Interrupted, .. }))
        }
    };
    let (text, of_type) = match end {
        RunEnd::Done | RunEnd::Expired => return None,
        RunEnd::Failed(Fail { error, of_type, .. }) => (error, of_type),
        RunEnd::Undecodable(error) => (error, ErrorType::UNDECODABLE),
    };
    has_failed.then(|| RunError { text: cut(&text, ERROR_BYTES), of_type })
}

/// A commit that has no answer yet.
pub(super) struct Unsettled {
    commit: Commit,
    /// The error of the last attempt. Its `unknown` is set if the outcome of any attempt is unknown.
    failed: ApplyError,
}

#[derive(Default)]
pub(super) struct Commits {
    /// The number of the last commit that was begun.
    number: u64,
    /// A commit without an answer, and the commands that have come since. They wait, because the step that takes them
    /// may depend on its effect; those of the backlog were taken before.
    pub(super) unsettled: Option<Unsettled>,
    waiting: Vec<Command>,
    /// When the caller that makes this step stops waiting, if a caller makes it.
    pub(super) until: Option<Instant>,
    /// How many commits have failed one after the other, and when the next one is tried for the backlog alone.
    pub(super) failures: u32,
    pub(super) retry_at: Option<Millis>,
    pub(super) last_failure: Option<StoreError>,
}

impl Commits {
    pub(super) fn begin(&mut self) -> Commit {
        self.number += 1;
        Commit { number: self.number, ..Commit::default() }
    }

    /// Sets the time of the next attempt, which is the later the more commits have failed. Returns how long it is.
    pub(super) fn retry_later(&mut self, now: Millis) -> Duration {
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(16)).min(LONGEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.plus(wait));
        wait
    }
}

impl Machine {
    /// Sends a commit to the store, and does what follows. If there is no answer, keeps the commit to send it again.
    /// Returns whether the store has it.
    pub(super) fn send(
        &mut self,
        commit: Commit,
        present: Now,
        store: &mut dyn Store,
        output: &mut StepOutput,
    ) -> bool {
        crate::values::hook::at("before the commit");
        let applied = store.apply(&commit.batch(self.commits.until, present.millis()));
        let failed = match applied {
            Ok(outcome) => {
                crate::values::hook::at("after the commit");
                if !outcome.claimed.is_empty() {
                    crate::values::hook::at("claim: after the commit");
                }
                (self.commits.failures, self.commits.retry_at) = (0, None);
                self.committed(commit, outcome, present, output);
                return true;
            }
            Err(failed) => ApplyError { unknown: commit.was_unknown || failed.unknown, ..failed },
        };
        if failed.again {
            self.commits.retry_later(present.millis());
            output.emit(Event::CommitFailed { error: failed.error.clone() });
            self.commits.unsettled = Some(Unsettled { commit, failed });
            self.answer_impatient(present, output);
        } else {
            self.failed(commit, &failed, present.millis(), output);
        }
        false
    }

    /// Answers the callers whose limit is over. Returns `false` if there was none.
    fn answer_impatient(&mut self, present: Now, output: &mut StepOutput) -> bool {
        let Some(mut unsettled) = self.commits.unsettled.take() else { return false };
        let before = output.answers.len();
        // On a manual clock a wait changes nothing.
        let is_manual = self.settings.call_timeout.is_zero();
        let is_over = |reply: &CommandReply| is_manual || reply.is_over(present.instant);
        let Unsettled { commit, failed } = &mut unsettled;
        let (ops, then) =
            (core::mem::take(&mut commit.ops), core::mem::take(&mut commit.follow_ups));
        for (op, mut then) in ops.into_iter().zip(then) {
            if let FollowUp::Answer(reply) = &mut then
                && let Some(reply) = reply.take_if(|reply| is_over(reply))
            {
                output.answers.push((reply, Err(failed.clone())));
                if !failed.unknown {
                    self.keep_progress(op);
                    continue;
                }
            }
            commit.push(op, then);
        }
        for command in core::mem::take(&mut self.commits.waiting) {
            match command {
                Command::Call { reply: Some(reply), .. } if is_over(&reply) => {
                    if reply.take() {
                        output.answers.push((reply, Err(failed.error.clone().into())));
                    }
                }
                other => self.commits.waiting.push(other),
            }
        }
        self.commits.unsettled = Some(unsettled);
        output.answers.len() > before
    }

    /// Sends the commit that has no answer again. Returns `false` while there is still no answer: other commands
    /// wait then.
    pub(super) fn settle(
        &mut self,
        present: Now,
        commands: &mut Vec<Command>,
        store: &mut dyn Store,
        output: &mut StepOutput,
    ) -> bool {
        if self.commits.unsettled.is_none() {
            return true;
        }
        for command in commands.drain(..) {
            self.let_wait(command, store, output);
        }
        let now = present.millis();
        let is_manual = self.settings.call_timeout.is_zero();
        // Callers that were answered just now must not wait for another attempt.
        let answered = !is_manual && self.answer_impatient(present, output);
        // A time that lies further ahead was set before the clock was set back.
        let is_ahead = |at: Millis| now < at && at.since(now) <= LONGEST_RETRY;
        let waits = !is_manual && self.commits.retry_at.is_some_and(is_ahead);
        if (answered || waits) && !self.closing.given_up {
            return false;
        }
        let Some(Unsettled { mut commit, failed }) = self.commits.unsettled.take() else {
            return true;
        };
        commit.was_unknown = failed.unknown;
        self.send(commit, present, store, output);
        if self.commits.unsettled.is_some() {
            return false;
        }
        commands.append(&mut self.commits.waiting);
        true
    }

    /// Sets the next step to the first limit of a caller that waits for this commit.
    pub(super) fn wake_for_callers(&self, present: Now, output: &mut StepOutput) {
        let Some(unsettled) = &self.commits.unsettled else { return };
        let waiting = self.commits.waiting.iter().filter_map(|command| match command {
            Command::Call { reply: Some(reply), .. } => reply.until(),
            _ => None,
        });
        if let Some(until) = waiting.chain(unsettled.commit.until()).min() {
            let wait = until.saturating_duration_since(present.instant);
            output.wake_by(present.millis().plus(wait));
        }
    }

    fn let_wait(&mut self, command: Command, store: &mut dyn Store, output: &mut StepOutput) {
        match command {
            Command::Close { reply } => self.close(reply),
            Command::TellRuns => self.tell_runs(),
            Command::Abandon => self.abandon(),
            Command::Check(reply, checked) => {
                output.checks.push((reply, commands::check(checked, store)));
            }
            Command::Poll | Command::Wake => {}
            other => self.commits.waiting.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::machine::fixture::{at, job};
    use crate::store::{End, NewGroup};
    use crate::values::group::GroupId;

    /// Each job that an operation has inserted is counted, and none that another job has kept out.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn every_job_that_an_operation_has_inserted_is_counted() {
        let present = at(Instant::now(), Duration::ZERO);
        let jobs = || vec![job(1, present), job(2, present)];
        let (id, other) = (GroupId::from_u128(1), JobId::from_u128(9));
        let new = NewGroup {
            id,
            members: jobs(),
            callback: None,
            is_sealed: true,
            waits_for_the_dead: false,
            keeps_results: false,
        };
        let end = Finish::of(other, Fence::new(1, 0), End::Completed);
        let end = Finish { then: Some(Arc::new(jobs())), ..end };
        let occur =
            Op::Occur { name: String::new(), expected: Millis::ZERO, jobs: jobs(), next: None };
        let all = || Answer::InsertedMany(Vec::new());
        let ops = [
            (Op::Insert(job(1, present)), Answer::Inserted(Inserted::New), 1),
            (Op::Insert(job(1, present)), Answer::Inserted(Inserted::Known), 0),
            (Op::InsertMany(jobs()), Answer::InsertedMany(vec![(1, other)]), 1),
            (Op::AddToGroup(id, jobs()), all(), 2),
            (Op::InsertGroup(Box::new(new)), all(), 2),
            (occur, all(), 2),
            (Op::Finish(end), all(), 2),
            (Op::Cancel(other), Answer::Changed(true), 0),
        ];
        for (op, answer, many) in ops {
            let mut output = StepOutput::default();
            output.count_inserts(&op, &answer);
            let counted: u64 = output.inserted.iter().map(|(_, jobs)| *jobs).sum();
            assert_eq!(counted, many, "{op:?}");
        }
    }
}
