//! Decides how many jobs a commit claims, and of which kinds.

use std::sync::Arc;

use foldhash::HashMap;

use super::Machine;
use super::commit::Commit;
use crate::dispatch::run_state::{RunState, Slot};
use crate::store::ClaimRequest;
use crate::values::time::Now;

/// How many jobs one step claims, so that no commit takes long.
const CLAIMS_PER_STEP: usize = 1024;
/// While a kind that is handled has a head start, this part of all slots is kept for such kinds, up to a number that
/// suffices for any pool: its threads find them among the claimed jobs while the next ones are claimed.
const KEPT_PART: usize = 8;
const MOST_KEPT: usize = 64;

/// How many runs are held, by what they occupy.
#[derive(Default)]
pub(super) struct Held {
    /// How many of the runs take a thread each.
    blocking: usize,
    /// How many of the other runs there are, of each kind. A run that has lost its lease is not counted: it was
    /// cancelled.
    not_blocking: HashMap<Arc<str>, usize>,
    /// How many runs had no head start when they were claimed.
    plain: usize,
}

impl Held {
    /// Counts a run as held from now on (1), or not any more (-1).
    pub(super) fn count(&mut self, run: &RunState, by: isize) {
        let held = match run.slot {
            Slot::Thread => &mut self.blocking,
            Slot::Future | Slot::Batch { .. } => {
                self.not_blocking.entry(Arc::clone(&run.kind)).or_insert(0)
            }
        };
        *held = held.saturating_add_signed(by);
        if run.head_start.is_none() {
            self.plain = self.plain.saturating_add_signed(by);
        }
    }
}

impl Machine {
    pub(super) fn claim_request(&mut self, present: Now, commit: &Commit) -> Option<ClaimRequest> {
        let limit = self.free_slots(commit.ending).min(CLAIMS_PER_STEP);
        if !self.runs_jobs() || limit == 0 || self.stored.is_paused {
            return None;
        }
        let blocking = match &self.settings.capacity {
            None => limit,
            Some(capacity) => {
                let held = self.held.blocking.saturating_sub(commit.ending_blocking);
                capacity.room(held, present.instant).min(limit)
            }
        };
        let rooms = self.rooms(commit);
        // No room: the end of a run makes the next step, or the end of a pause.
        let is_full = |kind: &Arc<str>| rooms.iter().any(|(its, room)| its == kind && *room == 0);
        if blocking == 0 && rooms.iter().all(|(_, room)| *room == 0)
            || self.settings.policies.keys().all(is_full)
        {
            return None;
        }
        let until = present.millis().plus(self.settings.ahead);
        let mut request = ClaimRequest::new(until, limit, blocking, rooms);
        if !self.stored.head_starts.is_empty() {
            request.now = present.millis();
            request.head_starts = self.stored.head_starts.clone();
            request.plain = self.plain_room(commit);
        }
        Some(self.admit_suspects(request, present.instant, commit))
    }

    /// Returns how many more jobs may be claimed of kinds without a head start. So a job with one finds a slot, and
    /// does not wait behind all the jobs that were claimed before it.
    fn plain_room(&self, commit: &Commit) -> usize {
        let all = self.settings.max_in_flight;
        let kept = (all / KEPT_PART).clamp(1, MOST_KEPT).min(all - 1);
        let held = self.held.plain.saturating_sub(commit.ending_plain) + self.lost_claims.len();
        (all - kept).saturating_sub(held)
    }

    /// Returns how many more jobs may be claimed of each kind with a number of its own, and none of each kind that is
    /// paused.
    fn rooms(&self, commit: &Commit) -> Vec<(Arc<str>, usize)> {
        let room = |(kind, most): (&Arc<str>, &usize)| {
            let held = self.held.not_blocking.get(kind).copied().unwrap_or(0);
            let ending = commit.ending_by_kind.iter().filter(|its| *its == kind).count();
            let room = most.saturating_sub(held.saturating_sub(ending));
            (Arc::clone(kind), room)
        };
        let is_paused = |kind: &&Arc<str>| self.stored.paused_kinds.contains(&***kind);
        let paused = self.settings.policies.keys().filter(is_paused);
        let open = self.settings.rooms.iter().filter(|(kind, _)| !is_paused(kind));
        open.map(room).chain(paused.map(|kind| (Arc::clone(kind), 0))).collect()
    }
}
