//! The oracle of the claims: a list of jobs, and filters.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rates::Starts;
use super::{Checked, KINDS, PARTITIONS, ensure};
use crate::store::{BatchOutcome, Claimed};
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::limit::Limit;
use crate::values::stored_limits::{LimitScope, Limits};
use crate::values::time::Millis;

/// A job that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Job {
    id: JobId,
    kind: &'static str,
    partition: Option<&'static str>,
    due: Millis,
    expires: Option<Millis>,
    interruptions: u32,
    is_claimed: bool,
}

impl Job {
    /// Returns a job that has not ended, as the model has it.
    pub(super) fn of(info: &JobInfo) -> Job {
        let name = |of: &[&'static str], name: &str| {
            of.iter().copied().find(|its| *its == name).expect("the test has given the name")
        };
        Job {
            id: info.id,
            kind: name(&KINDS, &info.kind),
            partition: info.partition.as_deref().map(|of| name(&PARTITIONS, of)),
            due: Millis::present(info.due),
            expires: info.expires.map(Millis::present),
            interruptions: info.interruptions,
            is_claimed: info.state == JobState::Running,
        }
    }
}

/// A kind and a partition.
type Lane = (&'static str, &'static str);

pub(super) struct Oracle {
    /// Those that have not ended, before each claim.
    pub(super) jobs: Vec<Job>,
    limits: Limits,
    /// For each kind: its partitions that may run, with their weights, and the turns since they are the same.
    turns: BTreeMap<&'static str, (BTreeMap<&'static str, u32>, Vec<&'static str>)>,
    paused: Vec<Lane>,
    starts: Starts,
    /// Until when each scope is held, and whether a claim came after that. Then a store may have forgotten the hold,
    /// which makes a difference if the clock is set back.
    holds: Vec<(LimitScope, Millis, bool)>,
    /// The time of the last claim.
    now: Millis,
    /// How long before its due time a job may be claimed. On a server it is zero: there jobs of several kinds with one
    /// due time have no order.
    ahead: Duration,
}

impl Oracle {
    pub(super) fn new(ahead: Duration) -> Oracle {
        Oracle {
            jobs: Vec::new(),
            limits: Limits::default(),
            turns: BTreeMap::new(),
            paused: Vec::new(),
            starts: Starts::default(),
            holds: Vec::new(),
            now: Millis::ZERO,
            ahead,
        }
    }

    /// The clock was set back: a lane may have no due job any more.
    pub(super) fn set_back(&mut self) {
        self.turns.clear();
        self.starts.clock_was_set_back();
    }

    /// Another process runs the jobs: it does not know whose turn it was.
    pub(super) fn restarted(&mut self) {
        self.turns.clear();
    }

    pub(super) fn limited(&mut self, limits: Limits) {
        self.limits = limits;
        self.starts.limited(&self.limits);
        // The weights may have changed.
        self.turns.clear();
    }

    pub(super) fn held(&mut self, scope: &LimitScope, until: Millis) {
        self.holds.retain(|(its, ..)| its != scope);
        self.holds.push((scope.clone(), until, false));
    }

    pub(super) fn paused(&mut self, lane: Lane, pauses: bool) {
        self.paused.retain(|paused| *paused != lane);
        self.paused.extend(pauses.then_some(lane));
    }

    fn running(&self, counts: impl Fn(&Job) -> bool) -> usize {
        self.jobs.iter().filter(|job| job.is_claimed && counts(job)).count()
    }

    /// Returns the scope that allows no further job beside those that are claimed.
    fn full(&self, kind: &'static str, partition: Option<&'static str>) -> Option<&'static str> {
        let below = |most: Option<u32>, running| most.is_none_or(|most| running < most as usize);
        let flow = self.limits.flow_of(kind);
        let of_flow = |job: &Job| self.limits.flow_of(job.kind) == flow;
        if !below(self.limits.of_queue().running, self.running(|_| true)) {
            return Some("queue");
        }
        if !below(self.limits.of_flow(flow).running, self.running(of_flow)) {
            return Some("flow");
        }
        let partition = partition?;
        if self.paused.contains(&(kind, partition)) {
            return Some("pause");
        }
        let of_it = |job: &Job| job.kind == kind && job.partition == Some(partition);
        let most = self.limits.of_partition(kind, partition).running;
        (!below(most, self.running(of_it))).then_some("partition")
    }

    /// Returns the scopes of a job that are limited or held together: the queue, its flow, its partition.
    fn scopes(&self, kind: &str, partition: Option<&str>) -> Vec<LimitScope> {
        let flow = self.limits.flow_of(kind).to_owned();
        let of_partition = |partition: &str| LimitScope::Partition {
            kind: kind.to_owned(),
            partition: partition.to_owned(),
        };
        let all = [LimitScope::Queue, LimitScope::Flow(flow)].into_iter();
        all.chain(partition.map(of_partition)).collect()
    }

    /// Says whether a claim now would break a rate or a hold.
    fn must_wait(&self, job: &Job, now: Millis) -> Option<&'static str> {
        let scopes = self.scopes(job.kind, job.partition);
        let holds = |(scope, until, is_over): &(LimitScope, Millis, bool)| {
            *until > now && !is_over && scopes.contains(scope)
        };
        if self.holds.iter().any(holds) {
            return Some("hold");
        }
        scopes.iter().any(|scope| self.starts.is_used_up(scope, now)).then_some("P24")
    }

    /// Returns the time from which on neither a rate nor a hold may keep the job from a claim.
    fn free_from(&self, job: &Job, now: Millis) -> Millis {
        let scopes = self.scopes(job.kind, job.partition);
        let holds = self.holds.iter().filter(|(scope, ..)| scopes.contains(scope));
        let free = scopes.iter().map(|scope| self.starts.free_from(scope, now));
        holds.map(|(_, until, _)| *until).chain(free).max().unwrap_or(now)
    }

    /// Says whether a job of the kind may not be claimed before it is due.
    fn waits_for_its_time(&self, job: &Job) -> bool {
        let is_limited = |limit: Limit| limit.running.is_some() || limit.start_rate().is_some();
        let of_flow = self.limits.of_flow(self.limits.flow_of(job.kind));
        job.partition.is_some() || is_limited(self.limits.of_queue()) || is_limited(of_flow)
    }

    /// Returns the jobs that may be claimed now. A suspect may have to wait, and its partition with it.
    fn may_be_claimed(&self, now: Millis, room_in_lanes: usize) -> Vec<Job> {
        let mut jobs = self.may_be_claimed_but_for_rates(now, room_in_lanes);
        jobs.retain(|job| self.free_from(job, now) <= now);
        jobs
    }

    fn may_be_claimed_but_for_rates(&self, now: Millis, room_in_lanes: usize) -> Vec<Job> {
        let holds_up = |of: &Job| {
            let same = |other: &Job| (other.kind, other.partition) == (of.kind, of.partition);
            let before = |other: &Job| (other.due, other.id) <= (of.due, of.id);
            let waits = |other: &&Job| {
                other.interruptions > 0 && !other.is_claimed && same(other) && before(other)
            };
            of.partition.is_some() && self.jobs.iter().any(|other| waits(&other))
        };
        let may = |job: &&Job| {
            !job.is_claimed
                && job.due <= now
                && job.interruptions == 0
                && KINDS[..3].contains(&job.kind)
                && (!self.is_bounded(job) || room_in_lanes > 0)
                && self.full(job.kind, job.partition).is_none()
                && !holds_up(job)
        };
        self.jobs.iter().filter(may).cloned().collect()
    }

    /// Says whether the claims of jobs like this one are bounded by the number of threads.
    fn is_bounded(&self, job: &Job) -> bool {
        let of_flow = self.limits.of_flow(self.limits.flow_of(job.kind));
        let has_rate = |limit: Limit| limit.start_rate().is_some();
        job.partition.is_some() || has_rate(self.limits.of_queue()) || has_rate(of_flow)
    }

    /// Checks what a claim has taken.
    pub(super) fn claim(
        &mut self,
        outcome: &BatchOutcome,
        (now, until): (Millis, Millis),
        limit: usize,
        mut room_in_lanes: usize,
    ) -> Checked {
        let claimed = &outcome.claimed;
        self.now = now;
        self.starts.claim(now);
        self.holds.iter_mut().for_each(|(_, until, is_over)| *is_over |= *until <= now);
        ensure(claimed.len() <= limit, || format!("{} claimed, not {limit}", claimed.len()))?;
        for job in claimed {
            self.take(job, (now, until), &mut room_in_lanes)?;
        }
        if claimed.len() == limit {
            return Ok(());
        }
        let left = self.may_be_claimed(now, room_in_lanes);
        ensure(left.is_empty(), || format!("P25: due, and not claimed: {:?}", left[0]))?;
        self.next_due_is_right(outcome, now, room_in_lanes)
    }

    fn take(
        &mut self,
        claimed: &Claimed,
        (now, until): (Millis, Millis),
        room_in_lanes: &mut usize,
    ) -> Checked {
        let found = self.jobs.iter().position(|job| job.id == claimed.id);
        let at = found.ok_or_else(|| format!("claimed, and not there: {claimed:?}"))?;
        let job = self.jobs[at].clone();
        ensure(!job.is_claimed, || format!("claimed twice: {job:?}"))?;
        ensure(*claimed.kind == *job.kind && claimed.due == job.due, || format!("not {job:?}"))?;
        ensure(KINDS[..3].contains(&job.kind), || format!("nobody handles {job:?}"))?;
        let last = if self.waits_for_its_time(&job) { now } else { until };
        ensure(job.due <= last, || format!("P7: claimed before its time: {job:?}"))?;
        let full = self.full(job.kind, job.partition);
        ensure(full.is_none(), || format!("P23: the {} is full: {job:?}", full.unwrap_or("")))?;
        let waits = self.must_wait(&job, now);
        ensure(waits.is_none(), || format!("{}: claimed too early: {job:?}", waits.unwrap_or("")))?;
        ensure(!self.is_bounded(&job) || *room_in_lanes > 0, || format!("no room: {job:?}"))?;
        let others = self.may_be_claimed(now, *room_in_lanes);
        for other in &others {
            let is_before = (other.due, other.id) < (job.due, job.id);
            let same = (other.kind, other.partition) == (job.kind, job.partition);
            ensure(!(same && is_before), || format!("P16: {job:?} before {other:?}"))?;
            let is_before = match self.ahead.is_zero() {
                true => other.due < job.due,
                false => is_before,
            };
            let overtaken = other.partition.is_none() && is_before;
            ensure(!overtaken, || format!("P27: {job:?} overtakes {other:?}"))?;
        }
        *room_in_lanes -= usize::from(self.is_bounded(&job));
        if let Some(partition) = job.partition {
            self.turn((job.kind, partition), &others)?;
        }
        // P107: a job that is too old takes no token.
        if job.expires.is_none_or(|expires| expires >= now) {
            self.starts.started(self.scopes(job.kind, job.partition), now);
        }
        self.jobs[at].is_claimed = true;
        Ok(())
    }

    /// A partition takes a turn. `may_run`: the jobs that may be claimed now. Of the latest k turns, for any k, each
    /// partition that may run has had its share, less one, while the same partitions may run.
    fn turn(&mut self, (kind, partition): Lane, may_run: &[Job]) -> Checked {
        let weight = |of: &str| self.limits.of_partition(kind, of).weight.unwrap_or(1);
        let of_kind = may_run.iter().filter(|job| job.kind == kind);
        let may_run = of_kind.filter_map(|job| job.partition).chain([partition]);
        let may_run: BTreeMap<_, _> = may_run.map(|name| (name, weight(name))).collect();
        let (before, turns) = self.turns.entry(kind).or_default();
        if *before != may_run {
            (*before, *turns) = (may_run, Vec::new());
        }
        turns.push(partition);
        let total: u32 = before.values().sum();
        for (name, weight) in before.iter() {
            let mut had = 0;
            for (many, turn) in (1u32..).zip(turns.iter().rev()) {
                had += u32::from(turn == name);
                let share = many * weight / total;
                ensure(had + 1 >= share, || {
                    format!("P26: {name} has {had} of {many} turns of {before:?}: {turns:?}")
                })?;
            }
        }
        Ok(())
    }

    /// The store asks for a step when the next job may be claimed, and not before.
    fn next_due_is_right(&self, outcome: &BatchOutcome, now: Millis, room: usize) -> Checked {
        let step = outcome.next_due.map(|due| due.minus(self.ahead));
        ensure(step.is_none_or(|step| step > now), || format!("a step is due at {step:?}"))?;
        let later = now.plus(Duration::from_secs(3600));
        let jobs = self.may_be_claimed_but_for_rates(later, room).into_iter();
        let next = jobs.map(|job| (job.due.max(self.free_from(&job, now)), job));
        let Some((time, next)) = next.min_by_key(|(time, _)| *time) else { return Ok(()) };
        ensure(step.is_some_and(|step| step <= time), || {
            format!("the next step is at {step:?}, too late for {next:?} at {time:?}")
        })
    }
}
