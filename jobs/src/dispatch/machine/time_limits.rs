//! Time limits of runs: the signal at the limit, and the end after the grace.
//!
//! Ground rules:
//!
//! - A limit counts from the start of the run on the monotonic clock. The machine does not learn of a start, so
//!   it looks when the limit would be reached if the run had started at the last look.
//! - After the grace the machine ends the claim as a failure. The run occupies its slot until its handler ends,
//!   and that end is ignored: from the commit on it is in `Runs::lost`.
//! - A handler that has ended before the machine gives up its run has kept the grace, although its end may still
//!   be on its way here. [`RunState::overruns`] decides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use foldhash::HashMap;

use super::{Machine, StepOutput};
use crate::dispatch::command::{Command, RunEnd};
use crate::dispatch::run_state::RunState;
use crate::store::Fence;
use crate::values::fail_and_retry::{ErrorType, Fail, Fate};
use crate::values::id::{Claim, JobId};
use crate::values::run_end::StopReason;
use crate::values::time::{Millis, Now};

/// The time limits of the runs that are under way.
#[derive(Default)]
pub(super) struct TimeLimits {
    /// When to look at the limits of runs, the earliest first.
    checks: BinaryHeap<Reverse<(Instant, JobId, Fence)>>,
    /// Runs that have overrun their limit, until that is in the store.
    pub(super) overrun: HashMap<Claim, HandlerEnded>,
}

impl Machine {
    /// Watches the limit of a run that a step at `now` has claimed, if it has one.
    pub(super) fn watch_limit(&mut self, run: &RunState, now: Instant) {
        let Some(limit) = run.limit else { return };
        if self.time_limits.checks.len() >= self.settings.max_in_flight.saturating_mul(2) {
            let mut checks = core::mem::take(&mut self.time_limits.checks);
            checks.retain(|Reverse((_, id, fence))| self.is_watched(*id, *fence));
            self.time_limits.checks = checks;
        }
        self.check_limit(now.checked_add(limit), run.id, run.fence);
    }

    fn check_limit(&mut self, at: Option<Instant>, id: JobId, fence: Fence) {
        // A limit beyond every `Instant` is never reached.
        self.time_limits.checks.extend(at.map(|at| Reverse((at, id, fence))));
    }

    fn is_watched(&self, id: JobId, fence: Fence) -> bool {
        self.runs.get(id, fence).is_some_and(|run| run.is_under_way())
    }

    /// Cancels the runs that have reached their limit, and gives up those whose grace is over.
    pub(super) fn enforce_limits(&mut self, present: Now) {
        let now = present.instant;
        while let Some(Reverse((at, id, fence))) = self.time_limits.checks.peek().copied()
            && at <= now
        {
            self.time_limits.checks.pop();
            let run = self.runs.get(id, fence).filter(|run| run.is_under_way());
            let Some((run, limit)) = run.and_then(|run| Some((run, run.limit?))) else { continue };
            let reached = run.started().unwrap_or(now).checked_add(limit);
            if reached.is_none_or(|reached| now < reached) {
                self.check_limit(reached, id, fence);
                continue;
            }
            run.tell(StopReason::TimeLimit, &mut self.wakers);
            let given_up = reached.and_then(|at| at.checked_add(self.settings.limit_grace));
            if given_up.is_none_or(|given_up| now < given_up) {
                self.check_limit(given_up, id, fence);
            } else if run.overruns() {
                self.time_limits.overrun.insert((id, fence), HandlerEnded(false));
                self.backlog.push(Command::Overrun { id, fence, at: present.millis() });
            }
        }
    }

    /// Notes that the handler of a run has ended. Returns `true` if the run has overrun its limit, and its end is
    /// not in the store yet: then the end of the handler is ignored.
    pub(super) fn overrun_has_ended(&mut self, claim: Claim) -> bool {
        match self.time_limits.overrun.get_mut(&claim) {
            Some(ended) => {
                *ended = HandlerEnded(true);
                true
            }
            None => false,
        }
    }

    /// Says whether the slot of this run is free once its claim has ended.
    pub(super) fn frees_its_slot(&self, claim: Claim) -> bool {
        !matches!(self.time_limits.overrun.get(&claim), Some(HandlerEnded(false)))
    }

    /// Keeps the slot of a run whose claim has ended, if it has overrun its limit and its handler goes on.
    pub(super) fn keep_slot(&mut self, claim: Claim) {
        match self.time_limits.overrun.remove(&claim) {
            Some(HandlerEnded(false)) => drop(self.runs.lost.insert(claim)),
            Some(HandlerEnded(true)) => drop(self.runs.lost.remove(&claim)),
            None => {}
        }
    }

    /// Sets the next step to the next look at a limit.
    pub(super) fn wake_for_limits(&mut self, present: Now, output: &mut StepOutput) {
        while let Some(Reverse((at, id, fence))) = self.time_limits.checks.peek().copied() {
            if self.is_watched(id, fence) {
                let wait = at.saturating_duration_since(present.instant);
                let time = present.wall.checked_add(wait);
                output.wake_by(time.and_then(|time| Millis::due(time).ok()));
                return;
            }
            self.time_limits.checks.pop();
        }
    }
}

/// Whether the handler of an overrun run has ended.
pub(super) struct HandlerEnded(bool);

pub(super) fn overrun_end(limit: Duration) -> RunEnd {
    let error = format!("took longer than {limit:?}");
    RunEnd::Failed(Fail::by_jobs(Fate::Policy, error, ErrorType::TIME_LIMIT))
}

/// Returns the end of a run as it counts. If a handler gives up at its time limit, the run has failed: else its
/// job would run again at once, as often as it takes too long.
pub(super) fn by_limit(run: &RunState, end: RunEnd) -> RunEnd {
    match (&end, run.limit, run.took()) {
        (RunEnd::Failed(Fail { fate: Fate::Interrupted, .. }), Some(limit), Some(took))
            if took >= limit =>
        {
            overrun_end(limit)
        }
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use foldhash::HashMap;
    use std::sync::Arc;

    use super::*;
    use crate::dispatch::call::call;
    use crate::dispatch::machine::MachineSettings;
    use crate::dispatch::machine::fixture::{KIND, Steps, settings};
    use crate::store::Store;
    use crate::values::error::StoreError;
    use crate::values::run_end::Outcome;

    const SECOND: Duration = Duration::from_secs(1);

    /// A machine with jobs whose limit is 5 s and whose grace is one second.
    fn limited() -> Steps {
        Steps::new(MachineSettings {
            time_limits: HashMap::from_iter([(Arc::from(KIND), 5 * SECOND)]),
            limit_grace: SECOND,
            ..settings(8)
        })
    }

    impl Steps {
        fn returns(&mut self, run: &RunState, after: Duration) -> StepOutput {
            run.returns(self.begun + after);
            let end = self.ended(run, after);
            self.step(after, [end])
        }
    }

    fn outcomes(output: &StepOutput) -> Vec<Outcome> {
        output.ended.iter().map(|run| run.over().unwrap().outcome).collect()
    }

    /// P35: If the commit fails that gives a run up, the run is given up by a later commit, once. Its slot is free once
    /// its handler has ended and the commit was made, in either order.
    #[test]
    fn overrun_whose_commit_fails_is_ended_once_and_frees_its_slot() {
        for ends_before_commit in [true, false] {
            let mut limited = limited();
            let run = limited.start(1, Duration::ZERO);
            limited.step(5 * SECOND, None);
            assert!(run.is_told());
            limited.store.failure = Some(StoreError::Busy.into());
            assert_eq!(outcomes(&limited.step(6 * SECOND, None)), []);
            if ends_before_commit {
                assert_eq!(outcomes(&limited.returns(&run, 7 * SECOND)), []);
            }
            limited.store.failure = None;
            assert_eq!(outcomes(&limited.step(8 * SECOND, None)), [Outcome::Retried]);
            assert_eq!(limited.machine.in_flight(), usize::from(!ends_before_commit));
            if !ends_before_commit {
                assert_eq!(outcomes(&limited.returns(&run, 9 * SECOND)), []);
            }
            assert_eq!(limited.machine.in_flight(), 0);
            // One in each commit: the end of the handler was never sent.
            assert_eq!(limited.store.finishes, if ends_before_commit { 3 } else { 2 });
            assert!(
                limited.machine.time_limits.overrun.is_empty()
                    && limited.machine.runs.lost.is_empty()
            );
            limited.store.check().unwrap();
        }
    }

    /// A run that was given up and goes on is one of those that a shutdown leaves behind.
    #[test]
    fn overrun_that_goes_on_is_still_running_at_a_shutdown() {
        let mut limited = limited();
        limited.start(1, Duration::ZERO);
        limited.step(5 * SECOND, None);
        assert_eq!(outcomes(&limited.step(6 * SECOND, None)), [Outcome::Retried]);
        let (reply, _call) = call(None);
        assert!(!limited.step(7 * SECOND, Some(Command::Close { reply: Some(reply) })).finished);
        let output = limited.step(8 * SECOND, Some(Command::Abandon));
        let answers: Vec<_> = output.answers.into_iter().map(|(_, answer)| answer).collect();
        let [Err(failed)] = &answers[..] else { panic!("another answer") };
        assert_eq!(failed.error, StoreError::StillRunning(1));
    }

    /// P35: A handler that has ended within the grace has kept it, although the machine learns of its end later.
    #[test]
    fn end_within_the_grace_counts_although_it_arrives_late() {
        let mut limited = limited();
        let run = limited.start(1, Duration::ZERO);
        limited.step(5 * SECOND, None);
        run.returns(limited.begun + 5 * SECOND);
        assert_eq!(outcomes(&limited.step(7 * SECOND, None)), []);
        assert_eq!(outcomes(&limited.returns(&run, 7 * SECOND)), [Outcome::Completed]);
        assert_eq!(limited.machine.in_flight(), 0);
    }

    /// P35: The list of limits to check has a bound, however many runs end before their limits, and none of those
    /// that are left wakes the machine.
    #[test]
    fn list_of_limits_has_a_bound() {
        let mut limited = limited();
        let first = limited.start(1, Duration::ZERO);
        for number in 2..1000 {
            let run = limited.start(number, SECOND);
            limited.returns(&run, SECOND);
            assert!(limited.machine.time_limits.checks.len() <= 2 * 8);
        }
        assert!(limited.step(2 * SECOND, None).wake_at.is_some());
        limited.returns(&first, 2 * SECOND);
        assert!(limited.machine.time_limits.checks.is_empty());
    }
}
