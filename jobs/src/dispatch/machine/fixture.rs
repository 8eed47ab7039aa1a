//! A machine and its store for the tests of this folder.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use foldhash::HashMap;

use super::{Machine, MachineSettings, StepOutput};
use crate::dispatch::command::{Command, RunEnd};
use crate::dispatch::run_state::RunState;
use crate::store::memory::Memory;
use crate::store::{
    Answer, ApplyError, Batch, BatchOutcome, Claimed, Fence, NewJob, Op, PollResult, Store,
    StoreStats, Tries,
};
use crate::values::error::{StoreError, Violation};
use crate::values::fail_and_retry::Retry;
use crate::values::id::JobId;
use crate::values::time::{Millis, Now};

pub(super) const KIND: &str = "task";

/// A store in memory that fails on demand.
#[derive(Default)]
pub(super) struct Fails {
    memory: Memory,
    pub(super) failure: Option<ApplyError>,
    /// Each insert is refused with it, and the rest of a commit is done.
    pub(super) refuses_inserts: Option<StoreError>,
    /// How many ends of runs were sent, also in commits that failed.
    pub(super) finishes: usize,
    /// The jobs that were inserted, also in commits that failed.
    pub(super) inserts: Vec<NewJob>,
    /// The progress that was written, also in commits that failed.
    pub(super) progress: Vec<Vec<u8>>,
}

impl Store for Fails {
    fn start_runner(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError> {
        self.memory.start_runner(kinds, now)
    }

    fn apply(&mut self, batch: &Batch<'_>) -> Result<BatchOutcome, ApplyError> {
        for op in batch.ops {
            match op {
                Op::Finish(_) => self.finishes += 1,
                Op::Insert(job) => self.inserts.push(job.clone()),
                Op::InsertMany(jobs) => self.inserts.extend_from_slice(jobs),
                Op::PutProgress { value, .. } => self.progress.push(value.clone()),
                _ => {}
            }
        }
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let Some(refusal) = &self.refuses_inserts else { return self.memory.apply(batch) };
        let is_refused = |op: &&Op| matches!(op, Op::Insert(_) | Op::InsertMany(_));
        let others: Vec<Op> = batch.ops.iter().filter(|op| !is_refused(op)).cloned().collect();
        let claim = batch.claim.clone();
        let mut outcome = self.memory.apply(&Batch { ops: &others, claim, ..*batch })?;
        let mut answers = outcome.answers.into_iter();
        let answer = |op: &Op| match is_refused(&op) {
            true => Answer::Refused(refusal.clone()),
            false => answers.next().unwrap(),
        };
        outcome.answers = batch.ops.iter().map(answer).collect();
        Ok(outcome)
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

/// A machine, its store, and the time at which it began.
pub(super) struct Steps {
    pub(super) machine: Machine,
    pub(super) store: Fails,
    pub(super) begun: Instant,
}

impl Steps {
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    pub(super) fn new(settings: MachineSettings) -> Steps {
        let begun = Instant::now();
        let machine = Machine::new(settings, at(begun, Duration::ZERO).millis());
        let mut steps = Steps { machine, store: Fails::default(), begun };
        steps.store.start_runner(&[Arc::from(KIND)], Millis::ZERO).unwrap();
        steps.step(Duration::ZERO, None);
        steps
    }

    pub(super) fn step(
        &mut self,
        after: Duration,
        commands: impl IntoIterator<Item = Command>,
    ) -> StepOutput {
        let present = at(self.begun, after);
        self.machine.step(present, &mut commands.into_iter().collect(), &mut self.store)
    }

    /// Claims a new job, and starts it.
    pub(super) fn start(&mut self, number: u64, after: Duration) -> Arc<RunState> {
        let present = at(self.begun, after);
        let mut starts = self.step(after, [insert(job(number, present))]).starts;
        let run = starts.pop().unwrap().state;
        assert!(run.start(Duration::ZERO, present.instant));
        run
    }

    /// Returns the end of a run that has completed.
    pub(super) fn ended(&self, run: &RunState, after: Duration) -> Command {
        let at = at(self.begun, after).millis();
        Command::Ended { id: run.id, fence: run.fence, end: RunEnd::Done, at }
    }
}

/// Returns the insert of a job whose caller does not wait.
pub(super) fn insert(job: NewJob) -> Command {
    Command::Call { op: Op::Insert(job), reply: None }
}

/// The settings of a machine that handles jobs of [`KIND`], without leases.
pub(super) fn settings(max_in_flight: usize) -> MachineSettings {
    let retry = Retry::fixed(Duration::from_secs(3600));
    MachineSettings {
        queue: String::new(),
        max_in_flight,
        most_runs: max_in_flight,
        ahead: Duration::ZERO,
        lease: None,
        call_timeout: Duration::ZERO,
        synced: false,
        policies: HashMap::from_iter([(Arc::from(KIND), retry)]),
        slots: HashMap::default(),
        rooms: HashMap::default(),
        time_limits: HashMap::default(),
        limit_grace: Duration::ZERO,
        capacity: None,
        end_waits: Arc::default(),
        progress: Arc::default(),
        threads: None,
        pool: 1,
        flows: HashMap::default(),
        expiries: HashMap::default(),
        limits: Vec::new(),
        history: false,
    }
}

/// The present, some time after the test has begun.
pub(super) fn at(begun: Instant, after: Duration) -> Now {
    let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) + after;
    Now { wall, instant: begun + after }
}

/// A job that is due at once.
pub(super) fn job(number: u64, present: Now) -> NewJob {
    NewJob {
        id: JobId::from_u128(number.into()),
        kind: Arc::from(KIND),
        due: present.millis(),
        key: None,
        callers_id: false,
        extra: None,
        payload: Vec::new(),
    }
}

/// A claimed job that was interrupted so often before.
pub(super) fn claimed(number: u64, interruptions: u32, fence: u64) -> Claimed {
    Claimed {
        id: JobId::from_u128(number.into()),
        kind: Arc::from(KIND),
        due: Millis::ZERO,
        tries: Tries { interruptions, ..Tries::default() },
        key: None,
        payload: Vec::new(),
        extra: None,
        fence: Fence::new(fence, 0),
    }
}
