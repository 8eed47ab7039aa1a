//! Decides how many jobs a commit claims, and of which kinds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashSet};

use super::commit::Commit;
use super::{Machine, Turn};
use crate::dispatch::command::Command;
use crate::dispatch::run_state::{RunState, Slot};
use crate::store::{ClaimRequest, Claimed, Op};
use crate::values::id::JobId;
use crate::values::job::partition_of;
use crate::values::stored_limits::{self, Limits};
use crate::values::time::{Millis, Now};

/// How many jobs one step claims, so that no commit takes long.
const CLAIMS_PER_STEP: usize = 1024;
/// While a kind that is handled has a head start, this part of all slots is kept for such kinds, up to a number that
/// suffices for any pool: its threads find them among the claimed jobs while the next ones are claimed.
const KEPT_PART: usize = 8;
const MOST_KEPT: usize = 64;
/// How many claimed jobs with a partition, or of kinds with a rate, may wait for each thread; and more of them if the
/// threads finish more within a time.
const CLAIMED_PER_THREAD: usize = 2;
const CLAIMED_WITHIN: Duration = Duration::from_millis(10);

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
    /// The runs that take a thread, of jobs with a partition, and of kinds with a rate.
    in_lanes: HashSet<JobId>,
}

/// The turns of the jobs with a partition, in the order in which they were claimed. Without turns, the claimed jobs
/// of one partition would start before all others if they are due earlier.
#[derive(Default)]
pub(super) struct Turns {
    /// For each kind, the place of the job that was claimed last.
    latest: HashMap<Arc<str>, Millis>,
    taken: u64,
}

impl Turns {
    /// Returns the place of a job that is claimed now, if it has a partition.
    pub(super) fn next(&mut self, claimed: &Claimed, now: Millis) -> Option<Turn> {
        partition_of(claimed.extra.as_deref())?;
        let latest = self.latest.get(&claimed.kind).copied().unwrap_or(claimed.due);
        // If the clock was set back, the latest place may be in the future.
        let due = latest.min(now).max(claimed.due);
        self.latest.insert(Arc::clone(&claimed.kind), due);
        self.taken += 1;
        Some(Turn { due, number: self.taken })
    }
}

impl Held {
    /// Counts a run as held from now on (1), or not any more (-1).
    ///
    /// `has_rate`: the flow of its kind or the queue has a rate.
    pub(super) fn count(&mut self, run: &RunState, by: isize, has_rate: bool) {
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
        let is_bounded = || has_rate || partition_of(run.extra.as_deref()).is_some();
        if by < 0 {
            self.in_lanes.remove(&run.id);
        } else if run.slot == Slot::Thread && is_bounded() {
            self.in_lanes.insert(run.id);
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
            // Other processes share the jobs.
            Some(capacity) if self.settings.lease.is_some() => {
                let held = self.held.blocking.saturating_sub(commit.ending_blocking);
                capacity.room(held, present.instant).min(limit)
            }
            _ => limit,
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
        request.now = present.millis();
        request.limits = self.limits.clone();
        request.in_lanes = self.room_in_lanes(present.instant);
        if !self.stored.head_starts.is_empty() {
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

    /// Takes the limits among the stored settings. Returns whether they have changed: then the claimed jobs that have
    /// not started go back to the store, since they may be more than the limits allow.
    ///
    /// After the start, the next step stores the flow of each kind that this process handles, so that a process without
    /// the type of the kind finds it. It is stored once: of two versions of a program that disagree, the one that has
    /// started later decides, and neither answers the other.
    pub(super) fn follow_limits(&mut self, stored: &[(String, String)]) -> bool {
        let flows = self.settings.flows.iter().map(|(kind, flow)| (&**kind, *flow));
        let is_first = !core::mem::replace(&mut self.has_stored_flows, true);
        for (kind, flow) in flows.clone().filter(|_| is_first) {
            let name = stored_limits::flow_setting(kind);
            let found = stored.iter().find(|(its, _)| *its == name).map(|(_, flow)| &**flow);
            let wanted = (kind != flow).then_some(flow);
            if found != wanted {
                let op = Op::PutSetting { name, value: wanted.map(str::to_owned) };
                self.backlog.push(Command::Call { op, reply: None });
            }
        }
        let limits = Limits::with_flows(stored, &self.settings.limits, flows);
        let changed = limits != self.limits;
        if changed {
            self.limits = limits;
        }
        changed
    }

    /// Says whether a claimed job is given back that has waited too long for a thread: another process may start it, or
    /// other jobs have their turn.
    pub(super) fn must_start_soon(&self, run: &RunState) -> bool {
        let is_shared = self.settings.lease.is_some();
        self.settings.capacity.is_some() && (is_shared || self.held.in_lanes.contains(&run.id))
    }

    /// Returns how many more jobs with a partition, or of kinds with a rate, may be claimed. Two of them wait for each
    /// thread, or as many as the threads finish within [`CLAIMED_WITHIN`]. If more were claimed, those of one partition
    /// would stand before all others, and the jobs of a rate would start later than they were claimed, many at once.
    fn room_in_lanes(&self, now: Instant) -> usize {
        let waits = |id: &&JobId| self.runs.get(*id).is_some_and(|run| run.is_waiting());
        let waiting = self.held.in_lanes.iter().filter(waits).count();
        let soon = self.settings.capacity.as_ref().map_or(0, |its| its.ahead(CLAIMED_WITHIN, now));
        (CLAIMED_PER_THREAD * self.settings.pool).max(soon).saturating_sub(waiting)
    }

    /// Returns how many more jobs may be claimed of each kind whose handlers are futures, and none of each kind
    /// that is paused.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::capacity::Capacity;
    use crate::dispatch::machine::Settings;
    use crate::dispatch::machine::fixture::settings;

    /// Two jobs of lanes are claimed for each thread, and more if the threads finish more within 10 ms.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn jobs_of_lanes_are_claimed_ahead_for_a_short_time() {
        let now = Instant::now();
        let capacity = Arc::new(Capacity::new(2, now));
        let (known, pool) = (Some(Arc::clone(&capacity)), 2);
        let machine = Machine::new(Settings { capacity: known, pool, ..settings(8) }, Millis::ZERO);
        assert_eq!(machine.room_in_lanes(now), 4);
        capacity.started();
        capacity.ended(Duration::from_micros(100), now);
        assert_eq!(machine.room_in_lanes(now), 200);
        capacity.started();
        capacity.ended(Duration::from_secs(1), now);
        assert_eq!(machine.room_in_lanes(now), 4);
    }
}
