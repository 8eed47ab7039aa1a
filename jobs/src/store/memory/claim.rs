//! The claims of the store in memory: which jobs a claim takes, and the lanes of the due jobs with a partition.
//!
//! Ground rules:
//!
//! - A job with a partition is in `coming` until a claim finds it due. That claim moves it to its lane, and no later
//!   claim meets it before its lane has a turn.
//! - A claim chooses one job after the other: the first of `waiting`, or the first of the lane that is next in turn.
//! - `waiting` is read in its order and no further than the claim needs. Only head starts make a claim sort it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::{ClaimRecord, JobRecord, LaneKey, Memory, fence_of};
use crate::store::lanes::{self, Lanes, Opens};
use crate::store::{ClaimRequest, Claimed};
use crate::values::id::JobId;
use crate::values::job::{Extra, partition_of};
use crate::values::setting::Rank;
use crate::values::time::Millis;

/// The first job of a lane.
struct FirstOfLane {
    rank: (Rank, JobId),
    lane: LaneKey,
    due: Millis,
}

impl JobRecord {
    /// Returns the lane of the job, if it has a partition.
    pub(super) fn lane(&self) -> Option<LaneKey> {
        let partition = partition_of(self.extra.as_deref())?;
        Some((Arc::clone(&self.kind), Arc::clone(partition)))
    }

    /// Gives the job the progress of its run, if the run has set one.
    pub(super) fn set_progress(&mut self, progress: Option<Vec<u8>>) {
        if progress.is_some() {
            self.extra = Extra::with_progress(self.extra.take(), progress);
        }
    }
}

impl Memory {
    /// Adds a job to those that are not claimed.
    pub(super) fn wait(&mut self, id: JobId) {
        if let Some(record) = self.alive.get(&id) {
            let road = if record.lane().is_some() { &mut self.coming } else { &mut self.waiting };
            road.insert((record.due, id), Arc::clone(&record.kind));
        }
    }

    /// Takes a job that was due then from those that are not claimed.
    pub(super) fn leave(&mut self, due: Millis, id: JobId, record: &JobRecord) {
        self.waiting.remove(&(due, id));
        if let Some(lane) = record.lane() {
            self.coming.remove(&(due, id));
            leave_lane(&mut self.in_lanes, &mut self.lanes, &lane, due, id);
        }
    }

    /// Ends the claim of a job that exists. The job keeps the progress of its run.
    pub(super) fn end_claim(&mut self, id: JobId) -> Option<ClaimRecord> {
        let mut claim = self.claims.remove(&id)?;
        if let Some(record) = self.alive.get_mut(&id) {
            self.lanes.ended((id, &record.kind, partition_of(record.extra.as_deref())));
            record.set_progress(claim.progress.take());
        }
        Some(claim)
    }

    /// Returns the claims, as the lanes count them.
    pub(super) fn claims_by_lane(&self) -> impl Iterator<Item = lanes::ScopedClaim<'_>> {
        self.claims.keys().filter_map(|id| {
            let record = self.alive.get(id)?;
            Some((*id, &record.kind, partition_of(record.extra.as_deref())))
        })
    }

    pub(super) fn claim(&mut self, request: &mut ClaimRequest) -> Vec<Claimed> {
        let mut lanes = core::mem::take(&mut self.lanes);
        lanes.begin(&request.limits, request.now, self.claims_by_lane());
        self.lanes = lanes;
        self.suspects_wait = None;
        self.move_to_lanes(request.now.min(request.until));
        let chosen = self.choose(request);
        chosen.into_iter().map(|(due, id)| self.take_claim(due, id, request.now)).collect()
    }

    /// Chooses the jobs of a claim, and removes those of lanes from their lanes.
    fn choose(&mut self, request: &mut ClaimRequest) -> Vec<(Millis, JobId)> {
        let Memory { waiting, in_lanes, lanes, alive, handled, suspects_wait, .. } = self;
        let until = request.until;
        let due = waiting.iter().take_while(|((due, _), _)| *due <= until);
        let mut by_rank: Vec<(&(Millis, JobId), &Arc<str>)> = Vec::new();
        if !request.head_starts.is_empty() {
            by_rank.extend(due.clone().filter(|(_, kind)| handled.contains(*kind)));
            by_rank.sort_by_key(|((due, id), kind)| (request.rank(kind, *due), *id));
        }
        let by_due = due.take_while(|_| by_rank.is_empty());
        let mut plain = by_due.chain(by_rank.iter().copied()).peekable();
        let mut chosen = Vec::new();
        // The kinds that this claim has no room for. It finds none for them later either.
        let mut closed: HashSet<&Arc<str>> = HashSet::new();
        while chosen.len() < request.limit {
            // A job that a claim may not take now, it may not take later either.
            let first_plain = loop {
                let Some(&(&(due, id), kind)) = plain.peek() else { break None };
                if closed.len() >= handled.len() {
                    break None;
                }
                if closed.contains(kind) {
                    plain.next();
                    continue;
                }
                if handled.contains(kind) && !has_room(request, lanes, kind) {
                    closed.insert(kind);
                }
                let last = if lanes.is_limited(kind) { request.now } else { until };
                if handled.contains(kind) && !closed.contains(kind) && due <= last {
                    let interruptions = alive[&id].tries.interruptions;
                    if interruptions == 0 || request.clone().admits(interruptions) {
                        break Some(((request.rank(kind, due), id), due, kind));
                    }
                    *suspects_wait = Some(until);
                }
                plain.next();
            };
            let first = first_in_lanes(handled, lanes, in_lanes, request);
            let is_first =
                |first: &FirstOfLane| first_plain.is_none_or(|(rank, ..)| first.rank < rank);
            if let Some(FirstOfLane { rank: (_, id), lane, due }) = first.filter(is_first) {
                if !request.admits(alive[&id].tries.interruptions) {
                    *suspects_wait = Some(until);
                    lanes.pass_over(&lane.0, &lane.1);
                    continue;
                }
                request.takes(&lane.0, true);
                // The turn comes before the lane may be drained.
                let extra = alive[&id].extra.as_deref();
                lanes.claimed((id, &lane.0, Some(&lane.1)), extra, request.now);
                leave_lane(in_lanes, lanes, &lane, due, id);
                chosen.push((due, id));
            } else if let Some(((_, id), due, kind)) = first_plain {
                request.admits(alive[&id].tries.interruptions);
                request.takes(kind, lanes.has_rate(kind));
                lanes.claimed((id, kind, None), alive[&id].extra.as_deref(), request.now);
                chosen.push((due, id));
                plain.next();
            } else {
                break;
            }
        }
        chosen
    }

    /// Claims this pending job, whether it is its turn or not. A test repeats the claims of another store in this one.
    #[cfg(test)]
    pub(crate) fn claim_one(&mut self, id: JobId, now: Millis) -> Option<Claimed> {
        if self.claims.contains_key(&id) {
            return None;
        }
        let record = self.alive.get(&id)?.clone();
        self.leave(record.due, id, &record);
        Some(self.take_claim(record.due, id, now))
    }

    fn take_claim(&mut self, due: Millis, id: JobId, now: Millis) -> Claimed {
        self.waiting.remove(&(due, id));
        self.claimed += 1;
        let claim = ClaimRecord { asked: false, progress: None, order: self.claimed, at: now };
        self.claims.insert(id, claim);
        let JobRecord { kind, tries, key, extra, payload, .. } = self.alive[&id].clone();
        let fence = fence_of(self.starts, self.claimed);
        Claimed { id, kind, due, tries, key, extra, payload, fence }
    }

    /// Moves the jobs with a partition that are due by then to their lanes.
    fn move_to_lanes(&mut self, now: Millis) {
        if self.moved_until.is_some_and(|until| now < until) {
            self.move_back(now);
        }
        self.moved_until = Some(now);
        let due = self.coming.iter().take_while(|((due, _), _)| *due <= now);
        let handled = due.filter(|(_, kind)| self.handled.contains(*kind));
        let lane = |(at, _): (&(Millis, JobId), _)| Some((*at, self.alive[&at.1].lane()?));
        let moved: Vec<((Millis, JobId), LaneKey)> = handled.filter_map(lane).collect();
        for (at, lane) in moved {
            self.coming.remove(&at);
            self.lanes.file(&lane.0, &lane.1);
            self.in_lanes.entry(lane).or_default().insert(at);
        }
    }

    /// Takes the jobs that are not due any more from their lanes: the clock was set back.
    fn move_back(&mut self, now: Millis) {
        let in_lanes = self.in_lanes.iter();
        let early = in_lanes.flat_map(|(lane, jobs)| {
            jobs.iter().filter(|(due, _)| *due > now).map(|at| (lane.clone(), *at))
        });
        for (lane, (due, id)) in early.collect::<Vec<_>>() {
            leave_lane(&mut self.in_lanes, &mut self.lanes, &lane, due, id);
            self.coming.insert((due, id), lane.0);
        }
    }

    pub(super) fn next_due(&self, request: Option<&ClaimRequest>) -> Option<Millis> {
        let lanes = &self.lanes;
        let not_ahead = |due| request.map_or(due, |request| request.not_ahead(due));
        // When a claim may take a job of the kind that is due at `due`.
        let opens = |kind: &Arc<str>, due: Millis| match lanes.opens(kind) {
            Opens::Now => Some(due),
            Opens::At(time) => Some(due.max(not_ahead(time))),
            Opens::Later => None,
        };
        let waits = |(due, id): &(Millis, JobId)| {
            self.suspects_wait.is_some_and(|until| *due <= until)
                && self.alive[id].tries.interruptions > 0
        };
        // The first time at which a claim may take one of these jobs. Of each kind, only the first job counts.
        let first = |jobs: &BTreeMap<(Millis, JobId), Arc<str>>,
                     of: &dyn Fn(&Arc<str>, Millis) -> Option<Millis>| {
            let handled =
                jobs.iter().filter(|(at, kind)| self.handled.contains(*kind) && !waits(at));
            let (mut earliest, mut seen): (Option<Millis>, HashSet<&Arc<str>>) = Default::default();
            for ((due, _), kind) in handled {
                let is_found = earliest.is_some_and(|earliest| earliest <= *due);
                if is_found || seen.len() >= self.handled.len() {
                    break;
                }
                if seen.insert(kind) {
                    earliest = earliest.into_iter().chain(of(kind, *due)).min();
                }
            }
            earliest
        };
        let plain = first(&self.waiting, &|kind, due| {
            let has_room =
                request.is_none_or(|request| request.has_room_of(kind, lanes.has_rate(kind)));
            let due = if lanes.is_limited(kind) { not_ahead(due) } else { due };
            opens(kind, due).filter(|_| has_room)
        });
        let has_room_in_lanes =
            |kind: &Arc<str>| request.is_none_or(|request| request.has_room_in_lanes(kind));
        let coming = first(&self.coming, &|kind, due| {
            opens(kind, not_ahead(due)).filter(|_| has_room_in_lanes(kind))
        });
        let of_lanes = |kind: &Arc<str>| {
            let at_once = lanes.any_in_turn(kind).then_some(Millis::ZERO);
            let next = at_once.into_iter().chain(lanes.next_waiting(kind).map(not_ahead)).min()?;
            opens(kind, next).filter(|_| has_room_in_lanes(kind))
        };
        let of_lanes = self.handled.iter().filter_map(of_lanes);
        of_lanes.chain(plain).chain(coming).min()
    }
}

/// Says whether a claim may take one more job of the kind without a partition.
fn has_room(request: &ClaimRequest, lanes: &Lanes, kind: &str) -> bool {
    request.has_room_of(kind, lanes.has_rate(kind)) && lanes.has_room(kind)
}

/// Returns the first of the jobs of those lanes that are next in turn.
fn first_in_lanes(
    handled: &HashSet<Arc<str>>,
    lanes: &mut Lanes,
    in_lanes: &BTreeMap<LaneKey, BTreeSet<(Millis, JobId)>>,
    request: &ClaimRequest,
) -> Option<FirstOfLane> {
    if in_lanes.is_empty() {
        return None;
    }
    let mut first: Option<FirstOfLane> = None;
    for kind in handled {
        if !request.has_room_in_lanes(kind) || !lanes.has_room(kind) {
            continue;
        }
        let Some(partition) = lanes.next(kind) else { continue };
        let lane = (Arc::clone(kind), partition);
        let Some(&(due, id)) = in_lanes.get(&lane).and_then(BTreeSet::first) else { continue };
        let rank = (request.rank(kind, due), id);
        if first.as_ref().is_none_or(|first| rank < first.rank) {
            first = Some(FirstOfLane { rank, lane, due });
        }
    }
    first
}

/// Takes a job from its lane, if it is there.
fn leave_lane(
    in_lanes: &mut BTreeMap<LaneKey, BTreeSet<(Millis, JobId)>>,
    lanes: &mut Lanes,
    lane: &LaneKey,
    due: Millis,
    id: JobId,
) {
    if let Some(jobs) = in_lanes.get_mut(lane) {
        jobs.remove(&(due, id));
        if jobs.is_empty() {
            in_lanes.remove(lane);
            lanes.drained(&lane.0, &lane.1);
        }
    }
}
