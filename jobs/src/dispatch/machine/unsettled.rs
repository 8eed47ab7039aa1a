//! A commit without an answer, which is sent again until it is answered.
//!
//! Ground rules:
//!
//! - Only a store that applies a batch once, even if it is sent again, has such commits
//!   ([`ApplyError::again`]). The batch is sent again as it was, until it is answered. So a lost reply neither
//!   loses nor doubles a change.
//! - Commands that come meanwhile wait, because they may depend on the effect of the batch.
//! - A caller waits until its limit. If the batch may have been sent by then, it is sent again nevertheless,
//!   and the caller gets an error with an unknown outcome. If it certainly was not sent, the caller's operation
//!   is taken out of it and refused. A call that waits behind the batch is refused in either case.

use super::commit::{Commit, FollowUp};
use super::{FIRST_RETRY, LONGEST_RETRY, Machine, StepOutput, commands};
use crate::dispatch::command::{Command, Reply};
use crate::dispatch::events::Event;
use crate::store::{ApplyError, ClaimRequest, Store};
use crate::values::time::{Millis, Now};

/// A commit that has no answer yet.
pub(super) struct Unsettled {
    number: u64,
    commit: Commit,
    claim: Option<ClaimRequest>,
    /// The error of the last attempt. Its `unknown` is set if the outcome of any attempt is unknown.
    failed: ApplyError,
}

impl Machine {
    pub(super) fn keep_unsettled(
        &mut self,
        number: u64,
        commit: Commit,
        claim: Option<ClaimRequest>,
        failed: ApplyError,
        present: Now,
        output: &mut StepOutput,
    ) {
        self.try_later(Unsettled { number, commit, claim, failed }, present, output);
    }

    fn try_later(&mut self, unsettled: Unsettled, present: Now, output: &mut StepOutput) {
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(16)).min(LONGEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(present.millis().plus(wait));
        output.emit(Event::CommitFailed { error: unsettled.failed.error.clone() });
        self.unsettled = Some(unsettled);
        self.answer_impatient(present, output);
    }

    /// Answers the callers whose limit is over. Returns `false` if there was none.
    fn answer_impatient(&mut self, present: Now, output: &mut StepOutput) -> bool {
        let Some(mut unsettled) = self.unsettled.take() else { return false };
        let before = output.answers.len();
        // On a manual clock a wait changes nothing.
        let is_manual = self.settings.call_timeout.is_zero();
        let is_over = |reply: &Reply| is_manual || reply.is_over(present.instant);
        let Unsettled { commit, failed, .. } = &mut unsettled;
        let (ops, then) =
            (core::mem::take(&mut commit.ops), core::mem::take(&mut commit.follow_ups));
        for (op, mut then) in ops.into_iter().zip(then) {
            if let FollowUp::Answer(reply) = &mut then
                && let Some(reply) = reply.take_if(|reply| is_over(reply))
            {
                output.answers.push((reply, Err(failed.clone())));
                if !failed.unknown {
                    continue;
                }
            }
            commit.push(op, then);
        }
        for command in core::mem::take(&mut self.waiting) {
            match command {
                Command::Call { reply: Some(reply), .. } if is_over(&reply) => {
                    if reply.take() {
                        output.answers.push((reply, Err(failed.error.clone().into())));
                    }
                }
                other => self.waiting.push(other),
            }
        }
        self.unsettled = Some(unsettled);
        output.answers.len() > before
    }

    /// Sends the commit without an answer again. Returns `false` if there is no answer yet: the commands then
    /// wait.
    pub(super) fn settle(
        &mut self,
        present: Now,
        commands: &mut Vec<Command>,
        store: &mut dyn Store,
        output: &mut StepOutput,
    ) -> bool {
        if self.unsettled.is_none() {
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
        let waits = !is_manual && self.retry_at.is_some_and(is_ahead);
        if (answered || waits) && !self.given_up {
            return false;
        }
        let Some(unsettled) = self.unsettled.take() else { return true };
        let Unsettled { number, commit, claim, failed } = unsettled;
        let batch = commit.batch(number, claim.clone(), self.until, now);
        match store.apply(&batch) {
            Ok(outcome) => {
                (self.failures, self.retry_at) = (0, None);
                self.committed(commit, outcome, present, output);
                commands.append(&mut self.waiting);
                true
            }
            Err(wrong) if !wrong.again => {
                let failed = ApplyError { unknown: failed.unknown || wrong.unknown, ..wrong };
                self.failed(commit, &failed, now, output);
                commands.append(&mut self.waiting);
                true
            }
            Err(again) => {
                let failed = ApplyError { unknown: failed.unknown || again.unknown, ..again };
                self.try_later(Unsettled { number, commit, claim, failed }, present, output);
                false
            }
        }
    }

    /// Sets the next step to the first limit of a caller that waits for this commit.
    pub(super) fn wake_for_callers(&self, present: Now, output: &mut StepOutput) {
        let Some(unsettled) = &self.unsettled else { return };
        let waiting = self.waiting.iter().filter_map(|command| match command {
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
            other => self.waiting.push(other),
        }
    }
}
