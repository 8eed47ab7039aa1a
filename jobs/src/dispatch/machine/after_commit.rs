//! The effects of a commit, or of a failed one, on the machine.

use std::sync::Arc;

use super::claims::{Suspect, TRIAL};
use super::commands::again;
use super::commit::{Commit, EndedRun, FollowUp, each_of, error_of};
use super::{LONGEST_RETRY, Machine, Start, StepOutput};
use crate::dispatch::command::{Command, CommandReply, RunEnd};
use crate::dispatch::events::Event;
use crate::dispatch::questions::{correct, seen_by_others};
use crate::dispatch::run_state::{RunState, Slot};
use crate::store::{
    self, Answer, ApplyError, Claimed, Finish, Inserted, Op, StoredSchedule, Unreadable,
};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::job::may_start;
use crate::values::run_end::{Outcome, StopReason};
use crate::values::schedule::Rule;
use crate::values::setting::QueueSettings;
use crate::values::time::{Millis, Now};

#[cfg(test)]
mod tests;

/// The effects that the answers of a commit have together.
#[derive(Default)]
struct Effects {
    /// Operations that failed alone and for which no caller waits. They are done again. `failure`: the first error.
    failed: Commit,
    failure: Option<StoreError>,
    /// Buffered inserts that a full server has refused. They are not tried again, because they would delay all other
    /// commits.
    dropped: Vec<JobId>,
    unreadable: Vec<Unreadable>,
    changed: Changed,
}

/// What the settings that were read have changed.
#[derive(Default)]
pub(super) struct Changed {
    /// A head start or a limit. Then the claimed jobs that have not started go back to the store, also those of this
    /// very commit. They may be in the wrong order, in slots that are kept now, or more than the limit allows.
    order: bool,
    pauses: bool,
}

impl Machine {
    /// Takes what a commit did: its answers, the cancels that it requested, and the jobs that it claimed.
    pub(super) fn committed(
        &mut self,
        commit: Commit,
        outcome: store::BatchOutcome,
        present: Now,
        output: &mut StepOutput,
    ) {
        let now = present.millis();
        output.end_waits.extend(self.settings.end_waits.take(commit.ending_jobs()));
        let mut effects = Effects { unreadable: outcome.unreadable, ..Effects::default() };
        let ops = commit.ops.into_iter().zip(commit.follow_ups);
        for ((op, then), answer) in ops.zip(outcome.answers) {
            match answer {
                Answer::Refused(error) | Answer::Unsure(error) if is_repeated(&then, &error) => {
                    self.keep_refused(op, then, error, &mut effects);
                }
                answer => self.done(op, then, answer, present, &mut effects, output),
            }
        }
        self.backlog.unstored.end_commit();
        self.report(effects.dropped, effects.unreadable, output);
        for id in commit.cancelling {
            if let Some(run) = self.runs.by_id.get(&id) {
                self.runs.cancel_requested.insert(id);
                run.tell(StopReason::Requested, &mut self.wakers);
            }
        }
        for claimed in outcome.claimed {
            self.take_claimed(claimed, present, output);
        }
        self.withdraw_changed(&effects.changed, now, output);
        if let Some(error) = effects.failure {
            let failure = ApplyError { error, unknown: true, again: false };
            self.failed(effects.failed, &failure, now, output);
            self.commits.retry_at = Some(now.plus(LONGEST_RETRY));
        }
        if self.closing.asked.is_some() {
            // A commit whose answer was lost may bring claims after the close.
            self.withdraw_all();
        }
        self.finish_step(present, outcome.next_due, output);
        if outcome.suspects_wait && self.runs_jobs() {
            output.wake_by(now.plus(TRIAL));
        }
    }

    /// Keeps an operation that failed alone.
    fn keep_refused(&mut self, op: Op, then: FollowUp, error: StoreError, effects: &mut Effects) {
        if matches!(then, FollowUp::Answer(None)) {
            self.backlog.unstored.note_kept(&error);
        }
        effects.failure.get_or_insert(error);
        if let Op::Finish(Finish { id, then: Some(_), .. }) = &op
            && let Some(run) = self.runs.by_id.get(id)
        {
            run.follow_ups.note_refused();
        }
        effects.failed.push(op, then);
    }

    /// Does what follows the answer of an operation.
    fn done(
        &mut self,
        op: Op,
        then: FollowUp,
        answer: Answer,
        present: Now,
        effects: &mut Effects,
        output: &mut StepOutput,
    ) {
        output.count_inserts(&op, &answer);
        for key in ended_keys(&op, &answer) {
            output.end_waits.extend(self.settings.end_waits.take_key(key));
        }
        match then {
            FollowUp::Answer(reply) => self.answered(op, reply, answer, effects, output),
            FollowUp::Ended(ended) => self.ended(ended, &answer, present, output),
            FollowUp::Released(id) => {
                // A run that has started is released if a shutdown waits no longer.
                if let Some(run) = self.forget(id) {
                    let outcome = match answer {
                        Answer::EndedBefore => Outcome::Completed,
                        _ => Outcome::Interrupted,
                    };
                    output.run_over(run, outcome, None, present.instant);
                }
            }
            FollowUp::Extended => {
                if let Answer::ClaimsLost(lost) = answer {
                    self.extended(&lost, present.instant, output);
                }
            }
            FollowUp::SchedulesLoaded => {
                if let Answer::Schedules(schedules) = answer {
                    effects.unreadable.extend(self.load(schedules));
                    if self.own_work.clock_was_set && !self.own_work.schedules.is_empty() {
                        output.wake_by(present.millis());
                    }
                }
            }
            FollowUp::NodeNoted => {}
            FollowUp::ProgressPut => {
                if let Answer::Refused(_) | Answer::Unsure(_) = answer {
                    self.keep_progress(op);
                }
            }
            FollowUp::SettingsLoaded => {
                if let Answer::Settings(stored) = answer {
                    let changed = self.follow_settings(&stored);
                    effects.changed.order |= changed.order;
                    effects.changed.pauses |= changed.pauses;
                }
            }
            FollowUp::Occurred => match (op, answer) {
                // The schedule was changed meanwhile.
                (_, Answer::Changed(false)) => self.own_work.load_schedules = true,
                (Op::Occur { name: schedule, .. }, Answer::InsertedMany(taken)) => {
                    if let Some((_, by)) = taken.first() {
                        let (occurrences, by) = (taken.len(), *by);
                        output.emit(Event::OccurrencesSkipped { schedule, occurrences, by });
                    }
                }
                _ => {}
            },
            FollowUp::Purged => {
                if let Answer::Changed(true) = answer {
                    self.own_work.purge_at = present.millis();
                }
            }
        }
    }

    /// Answers a caller, or notes the loss of an operation that no caller waits for.
    fn answered(
        &mut self,
        op: Op,
        reply: Option<CommandReply>,
        answer: Answer,
        effects: &mut Effects,
        output: &mut StepOutput,
    ) {
        match self.flushed(&op, self.seen_from_here(answer)) {
            Answer::Refused(error) => {
                if reply.is_none() {
                    self.backlog.unstored.note_dropped(&error);
                    effects.dropped.extend(op.jobs().iter().map(|job| job.id));
                    output.emit(Event::CommitFailed { error: error.clone() });
                }
                output.refuse(reply, error.into());
                self.keep_progress(op);
            }
            Answer::Unsure(error) => {
                output.emit(Event::CommitFailed { error: error.clone() });
                output.refuse(reply, ApplyError { error, unknown: true, again: false });
                self.keep_progress(op);
            }
            answer => output.answer(reply, answer),
        }
    }

    /// Ends a run whose end the store has taken.
    fn ended(&mut self, ended: EndedRun, answer: &Answer, present: Now, output: &mut StepOutput) {
        let EndedRun { id, fence, end, outcome, event, .. } = ended;
        // The lease may have been lost meanwhile.
        let was_lost = !self.runs.lost.is_empty() && self.runs.lost.remove(&(id, fence));
        let run = if was_lost { None } else { self.forget(id) };
        self.keep_slot((id, fence));
        let (outcome, event) = match answer {
            Answer::ClaimsLost(_) => {
                let has_run = !matches!(end, RunEnd::Expired);
                (Outcome::Interrupted, has_run.then_some(Event::LeaseLost { id }))
            }
            Answer::EndedBefore => (Outcome::Completed, None),
            // The job is gone: neither retried nor dead.
            Answer::Cancelled(_) => (Outcome::Cancelled, None),
            _ => (outcome, event),
        };
        match (event, &run) {
            (Some(event), Some(run)) => output.emit_of(run, event),
            (Some(event), None) => output.emit(event),
            (None, _) => {}
        }
        if let Some(run) = run {
            if run.follow_ups.were_refused() {
                // This commit has claimed nothing for its slot.
                output.wake_by(present.millis());
            }
            let error = error_of(end, outcome);
            output.run_over(run, outcome, error, present.instant);
        }
    }

    /// Reports the inserts that are lost, and the jobs and schedules that cannot be read.
    fn report(
        &mut self,
        dropped: Vec<JobId>,
        unreadable: Vec<Unreadable>,
        output: &mut StepOutput,
    ) {
        if !dropped.is_empty() {
            output.emit(Event::InsertsDropped { ids: dropped });
        }
        for Unreadable { what, error } in unreadable {
            if self.told.is_new(&what) {
                output.emit(Event::Unreadable { what, error });
            }
        }
    }

    fn take_claimed(&mut self, claimed: Claimed, present: Now, output: &mut StepOutput) {
        let slot = self.settings.slots.get(&claimed.kind).copied().unwrap_or(Slot::Thread);
        let limit = self.settings.time_limits.get(&claimed.kind).copied();
        let head_start = self.stored.settings.head_starts.of(&claimed.kind);
        let state = Arc::new(RunState::new(&claimed, slot, limit, head_start));
        let (id, fence, at) = (claimed.id, claimed.fence, present.millis());
        let is_too_old = !may_start(claimed.extra.as_deref(), at);
        if let Some(suspect) = Suspect::of(&claimed).filter(|_| !is_too_old) {
            self.runs.suspects.push(suspect);
        }
        if let Some(key) = &state.key {
            self.runs.by_key.insert(key.clone(), claimed.id);
        }
        self.add_run(Arc::clone(&state), present.instant, output);
        if is_too_old {
            // The next step ends the job.
            state.withdraw();
            self.backlog.push(Command::Ended { id, fence, end: RunEnd::Expired, at });
            return;
        }
        let turn = self.runs.turns.next(&claimed, present.millis());
        output.starts.push(Start { state, payload: claimed.payload, turn });
    }

    /// Withdraws the runs that have not started and that changed settings concern.
    fn withdraw_changed(&mut self, changed: &Changed, now: Millis, output: &mut StepOutput) {
        if changed.order {
            self.withdraw_all();
        } else {
            self.withdraw_paused();
        }
        if changed.order || changed.pauses {
            // The claim of this commit knew the limits from before, and asked for no kind whose pause has ended.
            output.wake_by(now);
        }
    }

    pub(super) fn follow_settings(&mut self, stored: &[(String, String)]) -> Changed {
        let before = core::mem::replace(&mut self.stored.settings, QueueSettings::of(stored));
        let all = core::mem::take(&mut self.stored.settings.head_starts);
        self.stored.settings.head_starts =
            all.only(|kind| self.settings.policies.contains_key(kind));
        let limits_change = self.follow_limits(stored);
        Changed {
            order: limits_change || self.stored.settings.head_starts != before.head_starts,
            pauses: self.stored.settings.is_paused != before.is_paused
                || self.stored.settings.paused_kinds != before.paused_kinds,
        }
    }

    /// Withdraws the runs of paused kinds that have not started: the next step gives their claims back.
    fn withdraw_paused(&mut self) {
        let QueueSettings { is_paused, paused_kinds, .. } = &self.stored.settings;
        if !is_paused && paused_kinds.is_empty() {
            return;
        }
        for run in self.runs.by_id.values() {
            if *is_paused || paused_kinds.contains(&*run.kind) {
                self.backlog.withdraw(run);
            }
        }
    }

    /// Takes the schedules. Leaves out those whose rule another version or another set of features wrote, and
    /// returns which of these have kinds that are handled here.
    fn load(&mut self, schedules: Vec<StoredSchedule>) -> Vec<Unreadable> {
        let is_known = |schedule: &StoredSchedule| !matches!(schedule.schedule.rule, Rule::Unknown);
        let (known, unknown) = schedules.into_iter().partition(is_known);
        self.own_work.schedules = known;
        let unknown: Vec<StoredSchedule> = unknown;
        let handled = |of: &StoredSchedule| self.settings.policies.contains_key(&*of.kind);
        let told = |StoredSchedule { name, rule_text, .. }| {
            let error = StoreError::Damaged(format!("its rule makes no sense here: {rule_text:?}"));
            Unreadable { what: format!("schedule {name:?}"), error }
        };
        unknown.into_iter().filter(handled).map(told).collect()
    }

    /// Forgets a run whose claim has ended.
    pub(super) fn forget(&mut self, id: JobId) -> Option<Arc<RunState>> {
        if !self.runs.cancel_requested.is_empty() {
            self.runs.cancel_requested.remove(&id);
        }
        let run = self.runs.by_id.remove(&id)?;
        self.runs.held.count(&run, -1);
        self.runs.in_lanes.remove(&id);
        self.forget_key(&run);
        Some(run)
    }

    /// Forgets the key of a run, unless a later run has the key: another process may have stored a job under
    /// it.
    pub(super) fn forget_key(&mut self, run: &RunState) {
        if let Some(key) = &run.key
            && self.runs.by_key.get(key) == Some(&run.id)
        {
            self.runs.by_key.remove(key);
        }
    }

    /// Marks which claimed jobs run, as far as this process knows.
    pub(super) fn seen_from_here(&self, answer: Answer) -> Answer {
        if self.settings.policies.is_empty() {
            return seen_by_others(answer);
        }
        let waits = |id: JobId| self.runs.by_id.get(&id).is_some_and(|run| !run.has_started());
        let waiting = match answer {
            Answer::Counts(_) => self.runs.by_id.values().filter(|run| !run.has_started()).count(),
            _ => 0,
        };
        let in_flight = self.settings.lease.map(|_| self.runs.by_id.len() as u64);
        correct(answer, waits, waiting as u64, in_flight)
    }

    /// Ends the machine: another process runs the jobs now, and has all claims.
    pub(super) fn overtaken(&mut self) {
        let told = self.tell_all_lost();
        self.wakers.extend(told);
        self.closing.stopped = Some(StoreError::Overtaken);
    }

    /// Answers the callers with the error, and keeps the operations that no caller would repeat.
    pub(super) fn failed(
        &mut self,
        commit: Commit,
        failed: &ApplyError,
        now: Millis,
        output: &mut StepOutput,
    ) {
        let wait = self.commits.retry_later(now);
        self.commits.last_failure = Some(failed.error.clone());
        self.own_work.load_schedules = true;
        output.emit(Event::CommitFailed { error: failed.error.clone() });
        // Other programs had the lock until the limit of the first caller. Callers with a later limit wait on.
        let until = commit.until().filter(|_| failed.error == StoreError::Busy && !failed.unknown);
        let mut lost = Vec::new();
        let mut kept = 0;
        for (op, then) in commit.ops.into_iter().zip(commit.follow_ups) {
            match then {
                FollowUp::Answer(Some(reply))
                    if until.is_some_and(|until| reply.until().is_some_and(|its| its > until)) =>
                {
                    reply.put_back();
                    self.backlog.push(Command::Call { op, reply: Some(reply) });
                }
                FollowUp::Answer(Some(reply)) => {
                    if matches!(op, Op::Flush) {
                        self.backlog.unstored.tell();
                    }
                    output.answers.push((reply, Err(failed.clone())));
                    self.keep_progress(op);
                }
                FollowUp::Answer(None) if self.tries_again(kept, &failed.error) => {
                    kept += 1;
                    self.backlog.push(Command::Call { op: again(op, failed), reply: None });
                }
                FollowUp::Answer(None) => {
                    self.backlog.unstored.note_dropped(&failed.error);
                    lost.extend(op.jobs().iter().map(|job| job.id));
                }
                FollowUp::Ended(EndedRun { id, fence, at, .. })
                    if self.time_limits.overrun.contains_key(&(id, fence)) =>
                {
                    self.backlog.push(Command::Overrun { id, fence, at });
                }
                FollowUp::Ended(EndedRun { id, fence, end, at, .. }) => {
                    self.backlog.push(Command::Ended { id, fence, end, at });
                }
                FollowUp::Released(id) => self.backlog.push(Command::GiveBack(id)),
                FollowUp::ProgressPut => self.keep_progress(op),
                FollowUp::Purged => self.own_work.purge_at = now.plus(wait),
                FollowUp::SchedulesLoaded
                | FollowUp::SettingsLoaded
                | FollowUp::NodeNoted
                | FollowUp::Occurred
                | FollowUp::Extended => {}
            }
        }
        self.backlog.unstored.end_commit();
        if failed.error == StoreError::Overtaken {
            self.overtaken();
        }
        self.report(lost, Vec::new(), output);
    }
}

/// Says whether an operation with this error is done again. If no caller waits for it, no caller would repeat it.
fn is_repeated(then: &FollowUp, error: &StoreError) -> bool {
    match then {
        FollowUp::Answer(Some(_)) | FollowUp::ProgressPut => false,
        FollowUp::Answer(None) => *error != StoreError::Full,
        _ => true,
    }
}

/// Returns the keys whose jobs an operation may have ended: it has cancelled or replaced them.
fn ended_keys<'a>(op: &'a Op, answer: &Answer) -> impl Iterator<Item = &'a str> {
    let (changes, jobs) = match (op, answer) {
        (Op::Each(_), _) | (Op::CancelKey(_), Answer::Changed(true)) => (each_of(op), &[][..]),
        (_, Answer::Inserted(Inserted::New) | Answer::InsertedMany(_)) => (&[][..], op.jobs()),
        _ => (&[][..], &[][..]),
    };
    let cancelled = changes.iter().filter_map(|op| match op {
        Op::CancelKey(key) => Some(key),
        _ => None,
    });
    let of_jobs = jobs.iter().filter_map(|job| job.key.as_ref().map(|(key, _)| key));
    cancelled.chain(of_jobs).map(|key| &**key)
}
