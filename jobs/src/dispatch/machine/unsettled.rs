//! A commit without an answer: it is asked for again.
//!
//! Ground rules:
//!
//! - Only a store that takes one batch once has such commits ([`ApplyError::again`]). The batch is sent
//!   again as it was, until it is answered: so a lost reply neither loses nor doubles anything.
//! - Whatever comes meanwhile waits, because it may depend on what the batch did.
//! - A caller waits for so long and no longer. What it asked for is in the batch nevertheless, and its
//!   effect is unknown to the caller; what has waited and was never sent is refused.

use std::time::Instant;

use super::work::{Then, Work};
use super::{FIRST_RETRY, LONGEST_RETRY, Machine, Turn};
use crate::dispatch::command::{Command, Reply};
use crate::dispatch::events::Event;
use crate::store::words::{ApplyError, ClaimRequest, Store};
use crate::values::error::StoreError;
use crate::values::time::Now;

/// A commit that has no answer yet.
pub(super) struct Unsettled {
    number: u64,
    work: Work,
    claim: Option<ClaimRequest>,
    since: Instant,
    /// Why the last attempt failed. It is unknown what the batch did if that is so of any of them.
    failed: ApplyError,
}

impl Machine {
    pub(super) fn keep_unsettled(
        &mut self,
        number: u64,
        work: Work,
        claim: Option<ClaimRequest>,
        failed: ApplyError,
        present: Now,
        turn: &mut Turn,
    ) {
        let since = present.instant;
        self.try_later(Unsettled { number, work, claim, since, failed }, present, turn);
    }

    fn try_later(&mut self, mut unsettled: Unsettled, present: Now, turn: &mut Turn) {
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(16)).min(LONGEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(present.millis().plus(wait));
        turn.events.push(Event::CommitFailed { error: unsettled.failed.error.clone() });
        if present.instant.saturating_duration_since(unsettled.since) >= self.settings.patience {
            for then in &mut unsettled.work.then {
                if let Then::Answer(reply) = then
                    && let Some(reply) = reply.take()
                {
                    turn.answers.push((reply, Err(unsettled.failed.clone())));
                }
            }
        }
        self.unsettled = Some(unsettled);
    }

    /// Asks again for what has no answer. Returns `false` if there is none yet; the commands wait
    /// then.
    pub(super) fn settle(
        &mut self,
        present: Now,
        commands: &mut Vec<Command>,
        store: &mut dyn Store,
        turn: &mut Turn,
    ) -> bool {
        let Some(unsettled) = self.unsettled.take() else { return true };
        for command in commands.drain(..) {
            self.let_wait(command, present, store);
        }
        let now = present.millis();
        // On a manual clock nothing would come of waiting.
        let waits = !self.settings.patience.is_zero() && self.retry_at.is_some_and(|at| now < at);
        if waits && !self.given_up {
            self.unsettled = Some(unsettled);
            return false;
        }
        let Unsettled { number, work, claim, since, failed } = unsettled;
        let batch = work.batch(number, claim, now);
        match store.apply(&batch) {
            Ok(outcome) => {
                (self.failures, self.retry_at) = (0, None);
                self.committed(work, outcome, present, turn);
                commands.extend(self.waiting.drain(..).map(|(_, command)| command));
                true
            }
            Err(wrong) if !wrong.again => {
                let failed = ApplyError { unknown: failed.unknown || wrong.unknown, ..wrong };
                self.failed(work, &failed, now, turn);
                commands.extend(self.waiting.drain(..).map(|(_, command)| command));
                true
            }
            Err(again) => {
                let failed = ApplyError { unknown: failed.unknown || again.unknown, ..again };
                self.refuse_waiting(&failed.error, present, turn);
                self.try_later(Unsettled { number, work, claim, since, failed }, present, turn);
                false
            }
        }
    }

    /// Says whether somebody waits for an answer that the store has not given.
    pub(super) fn callers_wait(&self) -> bool {
        let Some(unsettled) = &self.unsettled else { return false };
        let asks = |(_, command): &(Instant, Command)| {
            matches!(command, Command::Ask { reply: Some(_), .. })
        };
        unsettled.work.is_awaited() || self.waiting.iter().any(asks)
    }

    fn let_wait(&mut self, command: Command, present: Now, store: &mut dyn Store) {
        match command {
            Command::Close { reply } => {
                self.closing = Some(reply);
                self.withdraw_all();
            }
            Command::Abandon => self.abandon(),
            Command::Check(reply) => drop(reply.send(store.check())),
            Command::Look | Command::Wake => {}
            other => self.waiting.push((present.instant, other)),
        }
    }

    /// Refuses what has waited for too long.
    fn refuse_waiting(&mut self, error: &StoreError, present: Now, turn: &mut Turn) {
        let patience = self.settings.patience;
        let is_over = |since: Instant| present.instant.saturating_duration_since(since) >= patience;
        for (since, command) in core::mem::take(&mut self.waiting) {
            match command {
                Command::Ask { reply: Some(reply), .. } if is_over(since) => {
                    refuse(turn, reply, error);
                }
                other => self.waiting.push((since, other)),
            }
        }
    }
}

fn refuse(turn: &mut Turn, reply: Reply, error: &StoreError) {
    turn.answers.push((reply, Err(error.clone().into())));
}
