//! Leases: renewed in time, or lost.
//!
//! Ground rules:
//!
//! - A lease is counted on the monotonic clock, from before its request, and is shortened by a margin. So it
//!   ends here before it ends in the store, even if the answer is delayed.
//! - One operation of the dispatcher renews all leases together. It waits for no handler.
//! - A run whose lease is lost is cancelled, and its end is not sent. It occupies its slot until it ends.
//! - A job that has not started a second after its claim is given back, so that another process can start it.

use core::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::commit::{Commit, FollowUp};
use super::{CLOCK_STEP, Machine, StepOutput};
use crate::dispatch::events::Event;
use crate::dispatch::machine::claims::START_WITHIN;
use crate::dispatch::run_state::{RunState, Slot};
use crate::store::{Fence, Op};
use crate::values::id::JobId;
use crate::values::job::partition_of;
use crate::values::run_end::{Outcome, StopReason};
use crate::values::time::Now;

/// Leases are renewed when this part of their time has passed.
const RENEWED_AT: f64 = 1.0 / 3.0;
/// This process relies on a lease for this part of its time.
const COUNTED_ON: f64 = 0.8;

/// When the leases of this process are renewed, and when the first of them may end.
#[derive(Default)]
pub(super) struct Leases {
    renew_at: Option<Instant>,
    ends_at: Option<Instant>,
}

impl Machine {
    /// Adds a run that a step at `now` has claimed.
    pub(super) fn add_run(&mut self, run: Arc<RunState>, now: Instant, output: &mut StepOutput) {
        if let Some(lease) = self.settings.lease {
            let until = now + lease.mul_f64(COUNTED_ON);
            run.set_lease(until);
            let earliest = |at: Option<Instant>, new| at.into_iter().chain([new]).min();
            self.leases.ends_at = earliest(self.leases.ends_at, until);
            let renew_at = now + lease.mul_f64(RENEWED_AT);
            self.leases.renew_at = earliest(self.leases.renew_at, renew_at);
            // The claim was lost, and this process has claimed the job again before it noticed that.
            if self.runs.by_id.contains_key(&run.id) {
                self.lose(run.id, now, output);
            }
        }
        self.runs.held.count(&run, 1);
        let has_rate = || self.stored.limits.has_rate(&run.kind);
        if run.slot == Slot::Thread && (partition_of(run.extra.as_deref()).is_some() || has_rate())
        {
            self.runs.in_lanes.insert(run.id);
        }
        let longest = match run.slot {
            Slot::Thread => Some(START_WITHIN),
            Slot::Batch { wait } => Some(START_WITHIN.saturating_add(wait)),
            Slot::Future => None,
        };
        let start_by = longest.and_then(|longest| now.checked_add(longest));
        if let (Some(start_by), true) = (start_by, self.must_start_soon(&run)) {
            self.forget_started();
            self.runs.to_start.push(Reverse((start_by, run.id, run.fence)));
        }
        self.watch_limit(&run, now);
        self.runs.by_id.insert(run.id, run);
    }

    /// Removes runs that have started from the list of runs that must start soon, once the list has twice the
    /// limit of claimed runs. The rest are claimed runs, so the list is never longer, however fast runs end.
    fn forget_started(&mut self) {
        if self.runs.to_start.len() >= self.settings.max_in_flight.saturating_mul(2) {
            let runs = &self.runs.by_id;
            self.runs.to_start.retain(|Reverse((_, id, fence))| {
                runs.get(id).is_some_and(|run| run.fence == *fence && run.is_waiting())
            });
        }
    }

    /// Once a job has waited for a thread for [`START_WITHIN`], gives back all jobs that wait for one: another
    /// process may start them. It gives back all of them, so that the jobs of this process still start in
    /// order. A job that waits for the rest of its batch has the time of this wait in addition, and is given
    /// back with the other jobs of batches. If no other process shares the jobs, only those with a partition or a rate
    /// go back: other partitions may have their turn.
    pub(super) fn give_back_late(&mut self, present: Now) {
        let Some(capacity) = &self.settings.capacity else { return };
        let (mut jobs_are_late, mut batches_are_late) = (false, false);
        while let Some(Reverse((start_by, id, fence))) = self.runs.to_start.peek().copied()
            && start_by <= present.instant
        {
            self.runs.to_start.pop();
            let run = self.runs.get(id, fence).filter(|run| run.is_waiting());
            let is_of_batch = |run: &Arc<RunState>| matches!(run.slot, Slot::Batch { .. });
            jobs_are_late |= run.is_some_and(|run| !is_of_batch(run));
            batches_are_late |= run.is_some_and(is_of_batch);
        }
        if !jobs_are_late && !batches_are_late {
            return;
        }
        capacity.was_too_slow();
        for run in self.runs.by_id.values() {
            let is_late = match run.slot {
                Slot::Thread => jobs_are_late,
                Slot::Batch { .. } => batches_are_late,
                Slot::Future => false,
            };
            if is_late && self.must_start_soon(run) {
                self.backlog.withdraw(run);
            }
        }
    }

    /// Renews the leases at once if the store's clock, by which they end, was set forward.
    pub(super) fn renew_after_clock_jump(&mut self, present: Now) {
        let before = self.last_instant.replace(present.instant);
        let passed = before.map_or(Duration::MAX, |before| present.instant - before);
        if self.leases.renew_at.is_some()
            && present.millis().since(self.last) > passed.saturating_add(CLOCK_STEP)
        {
            self.leases.renew_at = Some(present.instant);
        }
    }

    pub(super) fn renew(&mut self, now: Instant, commit: &mut Commit) {
        let Some(lease) = self.settings.lease else { return };
        if self.leases.renew_at.is_none_or(|at| now < at) {
            return;
        }
        self.leases.renew_at = None;
        let ended = commit.ended();
        // An end that was refused may be refused again.
        let is_held =
            |run: &&Arc<RunState>| !ended.contains(&run.id) || run.follow_ups.were_refused();
        let held = self.runs.by_id.values().filter(is_held);
        let held: Vec<(JobId, Fence)> = held.map(|run| (run.id, run.fence)).collect();
        if !held.is_empty() {
            self.leases.renew_at = Some(now + lease.mul_f64(RENEWED_AT));
            commit.push(Op::Extend(held), FollowUp::Extended);
        }
    }

    /// Notes that a step at `now` has renewed the leases, other than those that are `lost`.
    pub(super) fn extended(&mut self, lost: &[JobId], now: Instant, output: &mut StepOutput) {
        let Some(lease) = self.settings.lease else { return };
        for id in lost {
            self.lose(*id, now, output);
        }
        let until = now + lease.mul_f64(COUNTED_ON);
        self.runs.by_id.values().for_each(|run| run.set_lease(until));
        self.leases.ends_at = Some(until);
    }

    pub(super) fn lose_ended_leases(&mut self, now: Instant, output: &mut StepOutput) {
        if self.leases.ends_at.is_none_or(|at| now < at) {
            return;
        }
        let lost = self.runs.by_id.values().filter(|run| run.lease_has_ended(now));
        for id in lost.map(|run| run.id).collect::<Vec<JobId>>() {
            self.lose(id, now, output);
        }
        self.leases.ends_at = self.runs.by_id.values().filter_map(|run| run.lease()).min();
    }

    /// Says whether a claim is held whose run has ended. If the claim was lost, forgets that.
    pub(super) fn is_held(
        &mut self,
        id: JobId,
        fence: Fence,
        now: Instant,
        output: &mut StepOutput,
    ) -> bool {
        if self.runs.get(id, fence).is_some_and(|run| run.lease_has_ended(now)) {
            self.lose(id, now, output);
        }
        let lost = !self.runs.lost.is_empty() && self.runs.lost.remove(&(id, fence));
        !lost && self.runs.get(id, fence).is_some()
    }

    /// Removes a run whose claim is lost. Cancels it if it has started.
    fn lose(&mut self, id: JobId, now: Instant, output: &mut StepOutput) {
        let Some(run) = self.forget(id) else { return };
        if !run.withdraw() && run.has_started() {
            self.runs.lost.insert((id, run.fence));
            run.tell(StopReason::LeaseLost, &mut self.wakers);
            output.emit_of(&run, Event::LeaseLost { id });
            output.run_over(run, Outcome::Interrupted, None, now);
        }
    }

    pub(super) fn wake_for_leases(&self, present: Now, output: &mut StepOutput) {
        let renew_at = self.leases.renew_at.filter(|_| self.commits.unsettled.is_none());
        let to_start = self.runs.to_start.peek().filter(|_| self.commits.unsettled.is_none());
        let to_start = to_start.map(|Reverse((start_by, ..))| *start_by);
        for at in renew_at.into_iter().chain(self.leases.ends_at).chain(to_start) {
            let wait = at.saturating_duration_since(present.instant);
            output.wake_by(present.millis().plus(wait + Duration::from_millis(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use foldhash::HashMap;

    use super::*;
    use crate::dispatch::machine::MachineSettings;
    use crate::dispatch::machine::claims::Capacity;
    use crate::dispatch::machine::fixture::{at, claimed, settings};
    use crate::store::Claimed;
    use crate::values::job::Extra;
    use crate::values::setting::HeadStart;
    use crate::values::time::Millis;

    /// The list of the runs that must start soon has a bound, however many runs end in a second.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn list_of_runs_to_start_has_a_bound() {
        let now = Instant::now();
        let settings = MachineSettings {
            lease: Some(Duration::from_secs(30)),
            policies: HashMap::default(),
            capacity: Some(Arc::new(Capacity::new(2, now))),
            ..settings(8)
        };
        let mut machine = Machine::new(settings, Millis::ZERO);
        let run = |machine: &mut Machine, n: u64| {
            let claimed = claimed(n, 0, n);
            let mut output = StepOutput::default();
            let run = RunState::new(&claimed, Slot::Thread, None, HeadStart::NONE);
            machine.add_run(Arc::new(run), now, &mut output);
        };
        // The first one does not start, and stays.
        run(&mut machine, 1);
        for n in 2..1000 {
            run(&mut machine, n);
            machine.forget(JobId::from_u128(n.into()));
            assert!(machine.runs.to_start.len() <= 2 * 8, "{}", machine.runs.to_start.len());
        }
        assert_eq!(
            machine.runs.to_start.peek().map(|Reverse((_, id, _))| *id),
            Some(JobId::from_u128(1))
        );
    }

    /// On a file, claimed jobs of a partition that have waited too long for a thread are given back, since other
    /// partitions may have their turn. Other jobs stay: no other process could start them.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn late_jobs_of_partitions_are_given_back_on_a_file() {
        let now = Instant::now();
        let settings =
            MachineSettings { capacity: Some(Arc::new(Capacity::new(2, now))), ..settings(8) };
        let mut machine = Machine::new(settings, Millis::ZERO);
        for (n, partition) in [(1, None), (2, Some("acme"))] {
            let extra = Extra { partition: partition.map(Arc::from), ..Extra::default() };
            let claimed = Claimed { extra: extra.boxed(), ..claimed(n, 0, n) };
            let run = RunState::new(&claimed, Slot::Thread, None, HeadStart::NONE);
            machine.add_run(Arc::new(run), now, &mut StepOutput::default());
        }
        let is_waiting =
            |machine: &Machine, n: u128| machine.runs.by_id[&JobId::from_u128(n)].is_waiting();
        machine.give_back_late(at(now, START_WITHIN - Duration::from_millis(1)));
        assert!(is_waiting(&machine, 1) && is_waiting(&machine, 2));
        machine.give_back_late(at(now, START_WITHIN));
        assert!(is_waiting(&machine, 1) && !is_waiting(&machine, 2));
        assert_eq!(machine.backlog.commands.len(), 1);
    }
}
