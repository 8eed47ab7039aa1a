//! Suspects: claimed jobs that were interrupted before, and so may have ended their process.
//!
//! Ground rules:
//!
//! - A suspect is on trial until it has run for [`TRIAL`]. At most [`ON_TRIAL`] jobs that were
//!   interrupted once are on trial together. A job that was interrupted more often is on trial alone.
//! - The next interruption of a job may be its last, which makes it dead. Such a job is on its last trial until
//!   it has run for [`LAST_TRIAL`]. It starts once every other suspect has run that long, and no other suspect
//!   starts meanwhile. So a neighbour that ends the process within that time does not make it dead.
//! - Jobs that were never interrupted wait for no suspect: a claim passes over the suspects that must wait.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::Machine;
use super::commit::Commit;
use crate::store::{ClaimRequest, Claimed, Fence, MOST_INTERRUPTIONS};
use crate::values::id::JobId;

/// How long a suspect delays other suspects, from its start on.
pub(super) const TRIAL: Duration = Duration::from_millis(100);
/// The same for a suspect whose next interruption is the last.
const LAST_TRIAL: Duration = Duration::from_secs(10);
/// How many jobs that were interrupted once may be on trial together.
const ON_TRIAL: usize = 32;

/// A claimed job that was interrupted before.
pub(super) struct Suspect {
    id: JobId,
    fence: Fence,
    is_last_try: bool,
}

impl Suspect {
    /// Returns the claimed job as a suspect, if it is one.
    pub(super) fn of(claimed: &Claimed) -> Option<Suspect> {
        let Claimed { id, fence, interruptions, .. } = *claimed;
        let is_last_try = interruptions + 1 >= MOST_INTERRUPTIONS;
        (interruptions > 0).then_some(Suspect { id, fence, is_last_try })
    }
}

impl Machine {
    /// Sets which suspects the request may claim.
    pub(super) fn admit_suspects(
        &mut self,
        request: ClaimRequest,
        now: Instant,
        commit: &Commit,
    ) -> ClaimRequest {
        let (mut on_trial, mut on_last_trial) = (0, false);
        let ended = if self.suspects.is_empty() { HashSet::new() } else { commit.ended() };
        let runs = &self.runs;
        self.suspects.retain(|suspect| {
            let run = runs.get(&suspect.id).filter(|run| run.fence == suspect.fence);
            // A suspect whose run this commit ends has survived it, so the same commit may claim the next
            // suspect. If nothing else is in flight, no other step may follow.
            let Some(run) = run.filter(|_| !ended.contains(&suspect.id)) else { return false };
            let age = run.age(now).unwrap_or_default();
            on_trial += usize::from(age < TRIAL);
            on_last_trial |= suspect.is_last_try && age < LAST_TRIAL;
            age < LAST_TRIAL
        });
        if on_last_trial {
            return request;
        }
        ClaimRequest {
            crashed_once: ON_TRIAL.saturating_sub(on_trial),
            poison_pill: on_trial == 0,
            last_try: self.suspects.is_empty(),
            ..request
        }
    }
}
