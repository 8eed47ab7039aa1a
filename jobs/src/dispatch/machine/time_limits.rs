//! Time limits of runs: the signal at the limit, and the end after the grace.
//!
//! Ground rules:
//!
//! - A limit counts from the start of the run on the monotonic clock. The machine does not learn of a start, so
//!   it looks when the limit would be reached if the run had started at the last look.
//! - After the grace the machine ends the claim as a failure. The run occupies its slot until its handler ends,
//!   and that end is ignored: from the commit on it is one of `lost_claims`.
//! - A handler that has ended before the machine gives up its run has kept the grace, although its end may still
//!   be on its way here. [`RunState::overruns`] decides.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::{Machine, StepOutput};
use crate::dispatch::command::{Command, RunEnd};
use crate::dispatch::run_state::RunState;
use crate::store::Fence;
use crate::values::cancellation::Cancellation;
use crate::values::error_type::ErrorType;
use crate::values::fail::{Fail, Fate};
use crate::values::id::JobId;
use crate::values::time::{Millis, Now};

impl Machine {
    /// Watches the limit of a run that a step at `now` has claimed, if it has one.
    pub(super) fn watch_limit(&mut self, run: &RunState, now: Instant) {
        let Some(limit) = run.limit else { return };
        if self.limit_checks.len() >= self.settings.max_in_flight.saturating_mul(2) {
            let mut checks = core::mem::take(&mut self.limit_checks);
            checks.retain(|Reverse((_, id, fence))| self.is_watched(*id, *fence));
            self.limit_checks = checks;
        }
        self.check_limit(now.checked_add(limit), run.id, run.fence);
    }

    fn check_limit(&mut self, at: Option<Instant>, id: JobId, fence: Fence) {
        // A limit beyond every `Instant` is never reached.
        self.limit_checks.extend(at.map(|at| Reverse((at, id, fence))));
    }

    fn is_watched(&self, id: JobId, fence: Fence) -> bool {
        self.runs.get(&id).is_some_and(|run| run.fence == fence && run.is_under_way())
    }

    /// Cancels the runs that have reached their limit, and gives up those whose grace is over.
    pub(super) fn enforce_limits(&mut self, present: Now) {
        let now = present.instant;
        while let Some(Reverse((at, id, fence))) = self.limit_checks.peek().copied()
            && at <= now
        {
            self.limit_checks.pop();
            let run = self.runs.get(&id).filter(|run| run.fence == fence && run.is_under_way());
            let Some((run, limit)) = run.and_then(|run| Some((run, run.limit?))) else { continue };
            let reached = run.started().unwrap_or(now).checked_add(limit);
            if reached.is_none_or(|reached| now < reached) {
                self.check_limit(reached, id, fence);
                continue;
            }
            run.tell(Cancellation::TimeLimit, &mut self.wakers);
            let given_up = reached.and_then(|at| at.checked_add(self.settings.limit_grace));
            if given_up.is_none_or(|given_up| now < given_up) {
                self.check_limit(given_up, id, fence);
            } else if run.overruns() {
                self.overrun.insert(fence, HandlerEnded(false));
                self.backlog.push(Command::Overrun { id, fence, at: present.millis() });
            }
        }
    }

    /// Notes that the handler of a run has ended. Returns `true` if the run has overrun its limit, and its end is
    /// not in the store yet: then the end of the handler is ignored.
    pub(super) fn overrun_has_ended(&mut self, fence: Fence) -> bool {
        match self.overrun.get_mut(&fence) {
            Some(ended) => {
                *ended = HandlerEnded(true);
                true
            }
            None => false,
        }
    }

    /// Says whether the slot of this run is free once its claim has ended.
    pub(super) fn frees_its_slot(&self, fence: Fence) -> bool {
        !matches!(self.overrun.get(&fence), Some(HandlerEnded(false)))
    }

    /// Keeps the slot of a run whose claim has ended, if it has overrun its limit and its handler goes on.
    pub(super) fn keep_slot(&mut self, fence: Fence) {
        match self.overrun.remove(&fence) {
            Some(HandlerEnded(false)) => drop(self.lost_claims.insert(fence)),
            Some(HandlerEnded(true)) => drop(self.lost_claims.remove(&fence)),
            None => {}
        }
    }

    /// Sets the next step to the next look at a limit.
    pub(super) fn wake_for_limits(&mut self, present: Now, output: &mut StepOutput) {
        while let Some(Reverse((at, id, fence))) = self.limit_checks.peek().copied() {
            if self.is_watched(id, fence) {
                let wait = at.saturating_duration_since(present.instant);
                let time = present.wall.checked_add(wait);
                output.wakes(time.and_then(|time| Millis::due(time).ok()));
                return;
            }
            self.limit_checks.pop();
        }
    }
}

/// Whether the handler of an overrun run has ended.
pub(super) struct HandlerEnded(bool);

/// The end of a run that has taken longer than its limit and the grace.
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
    use std::collections::{HashMap, HashSet};
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::dispatch::machine::Settings;
    use crate::store::memory::Memory;
    use crate::store::{
        ApplyError, Batch, NewJob, Op, Outcome as Applied, PollResult, Store, StoreStats,
    };
    use crate::values::error::{StoreError, Violation};
    use crate::values::retry::Retry;
    use crate::values::run_report::Outcome;

    const SECOND: Duration = Duration::from_secs(1);

    /// A store in memory that fails on demand.
    #[derive(Default)]
    struct Fails {
        memory: Memory,
        fails: bool,
        /// How many ends of runs were sent, also in commits that failed.
        finishes: usize,
    }

    impl Store for Fails {
        fn start_runner(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError> {
            self.memory.start_runner(kinds, now)
        }

        fn apply(&mut self, batch: &Batch<'_>) -> Result<Applied, ApplyError> {
            let is_finish = |op: &&Op| matches!(op, Op::Finish(_));
            self.finishes += batch.ops.iter().filter(is_finish).count();
            match self.fails {
                true => Err(StoreError::Busy.into()),
                false => self.memory.apply(batch),
            }
        }

        fn poll(&mut self, now: Millis) -> Result<PollResult, StoreError> {
            self.memory.poll(now)
        }

        fn maintain(&mut self, idle: Duration) -> Result<bool, StoreError> {
            self.memory.maintain(idle)
        }

        fn check(&mut self) -> Result<(), Violation> {
            self.memory.check()
        }

        fn stats(&self) -> StoreStats {
            self.memory.stats()
        }

        fn close(self: Box<Self>) -> Result<(), StoreError> {
            Ok(())
        }
    }

    /// A machine with jobs whose limit is 5 s and whose grace is one second.
    struct Limited {
        machine: Machine,
        store: Fails,
        begun: Instant,
    }

    impl Limited {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
        fn new(max_in_flight: usize) -> Limited {
            let kind: Arc<str> = Arc::from("task");
            let settings = Settings {
                max_in_flight,
                ahead: Duration::ZERO,
                lease: None,
                call_timeout: Duration::ZERO,
                synced: false,
                policies: HashMap::from([(Arc::clone(&kind), Retry::fixed(3600 * SECOND))]),
                async_kinds: HashSet::new(),
                max_async_runs: 1,
                time_limits: HashMap::from([(Arc::clone(&kind), 5 * SECOND)]),
                limit_grace: SECOND,
                capacity: None,
                end_waits: Arc::default(),
                progress: Arc::default(),
                threads: None,
                history: false,
            };
            let mut store = Fails::default();
            let begun = Instant::now();
            let machine = Machine::new(settings, Limited::at(begun, Duration::ZERO).millis());
            store.start_runner(&[kind], Millis::ZERO).unwrap();
            Limited { machine, store, begun }
        }

        fn at(begun: Instant, after: Duration) -> Now {
            let wall = SystemTime::UNIX_EPOCH + 1_000_000 * SECOND + after;
            Now { wall, instant: begun + after }
        }

        fn step(&mut self, after: Duration, command: Option<Command>) -> StepOutput {
            let present = Limited::at(self.begun, after);
            self.machine.step(present, &mut command.into_iter().collect(), &mut self.store)
        }

        /// Claims a new job, and starts it.
        fn start(&mut self, number: u64, after: Duration) -> Arc<RunState> {
            let present = Limited::at(self.begun, after);
            let job = NewJob {
                id: JobId::from_u128(number.into()),
                kind: Arc::from("task"),
                due: present.millis(),
                key: None,
                callers_id: false,
                extra: None,
                payload: Vec::new(),
            };
            let command = Command::Call { op: Op::Insert(job), reply: None };
            let mut starts = self.step(after, Some(command)).starts;
            let state = starts.pop().unwrap().state;
            assert!(state.start(Duration::ZERO, present.instant));
            state
        }

        fn returns(&mut self, run: &RunState, after: Duration) -> StepOutput {
            run.returns(self.begun + after);
            let at = Limited::at(self.begun, after).millis();
            let (id, fence) = (run.id, run.fence);
            self.step(after, Some(Command::Ended { id, fence, end: RunEnd::Done, at }))
        }
    }

    fn outcomes(output: &StepOutput) -> Vec<Outcome> {
        output.ended.iter().map(|run| run.over().unwrap().outcome).collect()
    }

    /// If the commit fails that gives a run up, the run is given up by a later commit, once. Its slot is free once
    /// its handler has ended and the commit was made, in either order.
    #[test]
    fn overrun_whose_commit_fails_is_ended_once_and_frees_its_slot() {
        for ends_before_commit in [true, false] {
            let mut limited = Limited::new(8);
            let run = limited.start(1, Duration::ZERO);
            limited.step(5 * SECOND, None);
            assert!(run.is_told());
            limited.store.fails = true;
            assert_eq!(outcomes(&limited.step(6 * SECOND, None)), []);
            if ends_before_commit {
                assert_eq!(outcomes(&limited.returns(&run, 7 * SECOND)), []);
            }
            limited.store.fails = false;
            assert_eq!(outcomes(&limited.step(8 * SECOND, None)), [Outcome::Retried]);
            assert_eq!(limited.machine.in_flight(), usize::from(!ends_before_commit));
            if !ends_before_commit {
                assert_eq!(outcomes(&limited.returns(&run, 9 * SECOND)), []);
            }
            assert_eq!(limited.machine.in_flight(), 0);
            // One in each commit: the end of the handler was never sent.
            assert_eq!(limited.store.finishes, if ends_before_commit { 3 } else { 2 });
            assert!(limited.machine.overrun.is_empty() && limited.machine.lost_claims.is_empty());
            limited.store.check().unwrap();
        }
    }

    /// A handler that has ended within the grace has kept it, although the machine learns of its end later.
    #[test]
    fn end_within_the_grace_counts_although_it_arrives_late() {
        let mut limited = Limited::new(8);
        let run = limited.start(1, Duration::ZERO);
        limited.step(5 * SECOND, None);
        run.returns(limited.begun + 5 * SECOND);
        assert_eq!(outcomes(&limited.step(7 * SECOND, None)), []);
        assert_eq!(outcomes(&limited.returns(&run, 7 * SECOND)), [Outcome::Completed]);
        assert_eq!(limited.machine.in_flight(), 0);
    }

    /// The list of limits to check has a bound, however many runs end before their limits, and none of those
    /// that are left wakes the machine.
    #[test]
    fn list_of_limits_has_a_bound() {
        let mut limited = Limited::new(8);
        let first = limited.start(1, Duration::ZERO);
        for number in 2..1000 {
            let run = limited.start(number, SECOND);
            limited.returns(&run, SECOND);
            assert!(limited.machine.limit_checks.len() <= 2 * 8);
        }
        assert!(limited.step(2 * SECOND, None).wake_at.is_some());
        limited.returns(&first, 2 * SECOND);
        assert!(limited.machine.limit_checks.is_empty());
    }
}
