//! Decides how many jobs a commit claims, and of which kinds: as many as the threads of this node can start soon, so
//! that other nodes get the rest, and few of those that may end their process.
//!
//! Ground rules:
//!
//! - Only handlers that block a thread are counted. Handlers that are futures start at once: `Builder::max_async_runs`
//!   limits those of each kind (`Machine::rooms`).
//! - A batch holds one thread. Its jobs are not counted here: a node claims as many of each such kind as the threads
//!   take, and one batch more, which is collected meanwhile.
//! - Each free thread gets a job. Beyond that a node claims as many jobs as its threads finish within [`HORIZON`] at
//!   the rate of the latest runs: many if a run takes microseconds, none if it takes a second. It claims none ahead
//!   while every thread is busy and no run has ended for [`HORIZON`].
//! - Where no other node shares the jobs, only jobs with a partition or a rate are bounded so
//!   (`Machine::room_in_lanes`, on a server too, with a shorter time).
//! - The number is an estimate. So a claimed job that has not started after [`START_WITHIN`] is given back
//!   (`leases.rs`).
//! - A suspect is a claimed job that was interrupted before, and so may have ended its process. It is on trial until it
//!   has run for [`TRIAL`]. At most [`ON_TRIAL`] jobs that were interrupted once are on trial together. A job that was
//!   interrupted more often starts only while no other is on trial.
//! - The next interruption of a job may be its last, which makes it dead. Such a job is on its last trial until it has
//!   run for [`LAST_TRIAL`]. It starts once every other suspect has run that long, and no other suspect starts
//!   meanwhile. So a neighbour that ends the process within that time does not make it dead.
//! - Jobs that were never interrupted wait for no suspect: a claim passes over the suspects that must wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashSet};

use super::commit::Commit;
use super::{LaneTurn, Machine};
use crate::dispatch::command::Command;
use crate::dispatch::run_state::{RunState, Slot};
use crate::store::{ClaimRequest, Claimed, Fence, MOST_INTERRUPTIONS, Op};
use crate::values::id::{Claim, JobId};
use crate::values::job::partition_of;
use crate::values::setting;
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

/// The claimed jobs of this process.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) by_id: HashMap<JobId, Arc<RunState>>,
    /// The slots of those runs.
    pub(super) held: Slots,
    /// The runs that take a thread, of jobs with a partition, and of kinds with a rate.
    pub(super) in_lanes: HashSet<JobId>,
    /// By the hash of the standard library, because a stranger may choose the keys.
    pub(super) by_key: std::collections::HashMap<String, JobId>,
    /// The latest start of each run that waits for a thread. The earliest comes first.
    pub(super) to_start: BinaryHeap<Reverse<(Instant, JobId, Fence)>>,
    /// Runs whose cancel was answered with `Running`.
    pub(super) cancel_requested: HashSet<JobId>,
    /// Runs that have lost their lease or overrun their time limit, and not ended: each still occupies a slot;
    /// its end is ignored.
    pub(super) lost: HashSet<Claim>,
    /// Claimed jobs that were interrupted before.
    pub(super) suspects: Vec<Suspect>,
    pub(super) turns: LaneTurns,
}

impl Runs {
    /// Returns the run of a claim that is held.
    pub(super) fn get(&self, id: JobId, fence: Fence) -> Option<&Arc<RunState>> {
        self.by_id.get(&id).filter(|run| run.fence == fence)
    }
}

/// The settings in the store, as the last step has read them.
#[derive(Default)]
pub(super) struct StoredSettings {
    /// Pauses, head starts of the kinds that are handled here, and how many completed jobs are kept.
    pub(super) settings: setting::QueueSettings,
    pub(super) limits: Limits,
    /// This process has stored the flows of its kinds.
    has_flows: bool,
}

/// Runs that are held, or that end with a commit, by what each of them occupies.
#[derive(Default)]
pub(super) struct Slots {
    /// How many runs there are. A step reads this of those that end.
    pub(super) all: usize,
    /// How many of the runs take a thread each.
    blocking: usize,
    /// How many of the other runs there are, of each kind. A run that has lost its lease is not counted: it was
    /// cancelled.
    not_blocking: HashMap<Arc<str>, usize>,
    /// How many runs had no head start when they were claimed.
    plain: usize,
}

/// The turns of the jobs with a partition, in the order in which they were claimed. Without turns, the claimed jobs
/// of one partition would start before all others if they are due earlier.
#[derive(Default)]
pub(super) struct LaneTurns {
    /// For each kind, the place of the job that was claimed last.
    latest: HashMap<Arc<str>, Millis>,
    taken: u64,
}

impl LaneTurns {
    /// Returns the place of a job that is claimed now, if it has a partition.
    pub(super) fn next(&mut self, claimed: &Claimed, now: Millis) -> Option<LaneTurn> {
        partition_of(claimed.extra.as_deref())?;
        let latest = self.latest.get(&claimed.kind).copied().unwrap_or(claimed.due);
        // If the clock was set back, the latest place may be in the future.
        let due = latest.min(now).max(claimed.due);
        self.latest.insert(Arc::clone(&claimed.kind), due);
        self.taken += 1;
        Some(LaneTurn { due, number: self.taken })
    }
}

impl Slots {
    /// Counts a run from now on (1), or not any more (-1).
    pub(super) fn count(&mut self, run: &RunState, by: isize) {
        self.all = self.all.saturating_add_signed(by);
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
        let limit = self.free_slots(commit.ending.all).min(CLAIMS_PER_STEP);
        if !self.runs_jobs() || limit == 0 || self.stored.settings.is_paused {
            return None;
        }
        let blocking = match &self.settings.capacity {
            // Other processes share the jobs.
            Some(capacity) if self.settings.lease.is_some() => {
                let held = self.runs.held.blocking.saturating_sub(commit.ending.blocking);
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
        request.limits = self.stored.limits.clone();
        request.in_lanes = self.room_in_lanes(present.instant);
        if !self.stored.settings.head_starts.is_empty() {
            request.head_starts = self.stored.settings.head_starts.clone();
            request.plain = self.plain_room(commit);
        }
        Some(self.admit_suspects(request, present.instant, commit))
    }

    /// Returns how many more jobs may be claimed of kinds without a head start. So a job with one finds a slot, and
    /// does not wait behind all the jobs that were claimed before it.
    fn plain_room(&self, commit: &Commit) -> usize {
        let all = self.settings.max_in_flight;
        let kept = (all / KEPT_PART).clamp(1, MOST_KEPT).min(all - 1);
        let held = self.runs.held.plain.saturating_sub(commit.ending.plain) + self.runs.lost.len();
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
        let is_first = !core::mem::replace(&mut self.stored.has_flows, true);
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
        let changed = limits != self.stored.limits;
        if changed {
            self.stored.limits = limits;
        }
        changed
    }

    /// Says whether a claimed job is given back that has waited too long for a thread: another process may start it, or
    /// other jobs have their turn.
    pub(super) fn must_start_soon(&self, run: &RunState) -> bool {
        let is_shared = self.settings.lease.is_some();
        self.settings.capacity.is_some() && (is_shared || self.runs.in_lanes.contains(&run.id))
    }

    /// Returns how many more jobs with a partition, or of kinds with a rate, may be claimed. Two of them wait for each
    /// thread, or as many as the threads finish within [`CLAIMED_WITHIN`]. If more were claimed, those of one partition
    /// would stand before all others, and the jobs of a rate would start later than they were claimed, many at once.
    fn room_in_lanes(&self, now: Instant) -> usize {
        let waits = |id: &&JobId| self.runs.by_id.get(*id).is_some_and(|run| run.is_waiting());
        let waiting = self.runs.in_lanes.iter().filter(waits).count();
        let soon = self.settings.capacity.as_ref().map_or(0, |its| its.ahead(CLAIMED_WITHIN, now));
        (CLAIMED_PER_THREAD * self.settings.pool).max(soon).saturating_sub(waiting)
    }

    /// Returns how many more jobs may be claimed of each kind whose handlers are futures, and none of each kind
    /// that is paused.
    fn rooms(&self, commit: &Commit) -> Vec<(Arc<str>, usize)> {
        let room = |(kind, most): (&Arc<str>, &usize)| {
            let runs = |slots: &Slots| slots.not_blocking.get(kind).copied().unwrap_or(0);
            let held = runs(&self.runs.held).saturating_sub(runs(&commit.ending));
            let room = most.saturating_sub(held);
            (Arc::clone(kind), room)
        };
        let is_paused = |kind: &&Arc<str>| self.stored.settings.paused_kinds.contains(&***kind);
        let paused = self.settings.policies.keys().filter(is_paused);
        let open = self.settings.rooms.iter().filter(|(kind, _)| !is_paused(kind));
        open.map(room).chain(paused.map(|kind| (Arc::clone(kind), 0))).collect()
    }
}

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
    pub(super) fn of(claimed: &Claimed) -> Option<Suspect> {
        let (id, fence, interruptions) = (claimed.id, claimed.fence, claimed.tries.interruptions);
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
        let ended = if self.runs.suspects.is_empty() { HashSet::default() } else { commit.ended() };
        let runs = &self.runs.by_id;
        self.runs.suspects.retain(|suspect| {
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
            last_try: self.runs.suspects.is_empty(),
            ..request
        }
    }
}

/// How far a node claims ahead.
const HORIZON: Duration = Duration::from_millis(100);
/// A claimed job that has not started after this time is given back.
pub(crate) const START_WITHIN: Duration = Duration::from_secs(1);

/// Counts the runs that hold a thread, and how long they take. The counters are read for an estimate, so no
/// order between them matters.
pub(crate) struct Capacity {
    threads: usize,
    running: AtomicUsize,
    /// How many of the running are batches, whose jobs a kind has a number of its own for.
    batches: AtomicUsize,
    /// The moving average of the time that runs take, in nanoseconds: the latest run weighs an eighth.
    /// [`UNKNOWN`] before a run has ended.
    nanos: AtomicU64,
    origin: Instant,
    /// When the latest run ended, in milliseconds since `origin`.
    ended_at: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Capacity {
    pub(crate) fn new(threads: usize, origin: Instant) -> Capacity {
        Capacity {
            threads,
            running: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            nanos: AtomicU64::new(UNKNOWN),
            origin,
            ended_at: AtomicU64::new(0),
        }
    }

    pub(crate) fn started(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn batch_started(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.started();
    }

    pub(crate) fn batch_ended(&self, took: Duration, now: Instant) {
        self.batches.fetch_sub(1, Ordering::Relaxed);
        self.ended(took, now);
    }

    pub(crate) fn ended(&self, took: Duration, now: Instant) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.ended_at.store(self.millis(now), Ordering::Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(UNKNOWN - 1);
        let average = match self.nanos.load(Ordering::Relaxed) {
            UNKNOWN => took,
            average => average - average / 8 + took / 8,
        };
        self.nanos.store(average, Ordering::Relaxed);
    }

    /// Notes that a claimed job has waited too long for a thread.
    pub(crate) fn was_too_slow(&self) {
        let waited = START_WITHIN.as_nanos() as u64;
        let average = self.nanos.load(Ordering::Relaxed);
        // Before a run has ended the average is unknown, and nothing is claimed ahead anyway.
        self.nanos.store(average.max(waited), Ordering::Relaxed);
    }

    /// Returns how many more jobs may be claimed now, if this many claimed jobs have not ended.
    pub(crate) fn room(&self, claimed: usize, now: Instant) -> usize {
        let running = self.running.load(Ordering::Relaxed);
        let batches = self.batches.load(Ordering::Relaxed);
        let waiting = claimed.saturating_sub(running.saturating_sub(batches));
        let free = self.threads.saturating_sub(running);
        (free + self.ahead(HORIZON, now)).saturating_sub(waiting)
    }

    /// Returns how many jobs the threads finish within a time, at the rate of the latest runs.
    pub(crate) fn ahead(&self, within: Duration, now: Instant) -> usize {
        let since_end = self.millis(now).saturating_sub(self.ended_at.load(Ordering::Relaxed));
        let are_held = self.running.load(Ordering::Relaxed) >= self.threads;
        if are_held && u128::from(since_end) > HORIZON.as_millis() {
            return 0;
        }
        // None if the average is unknown: that is the largest number.
        let each = within.as_nanos() / u128::from(self.nanos.load(Ordering::Relaxed).max(1));
        usize::try_from(each).unwrap_or(usize::MAX).saturating_mul(self.threads)
    }

    fn millis(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.origin).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dispatch::command::RunEnd;
    use crate::dispatch::machine::claims::Capacity;
    use crate::dispatch::machine::fixture::{claimed, settings};
    use crate::dispatch::machine::{MachineSettings, StepOutput};
    use crate::dispatch::run_state::{RunState, Slot};
    use crate::values::setting::HeadStart;
    use crate::values::time::Millis;

    /// Two jobs of lanes are claimed for each thread, and more if the threads finish more within 10 ms.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn jobs_of_lanes_are_claimed_ahead_for_a_short_time() {
        let now = Instant::now();
        let capacity = Arc::new(Capacity::new(2, now));
        let (known, pool) = (Some(Arc::clone(&capacity)), 2);
        let machine =
            Machine::new(MachineSettings { capacity: known, pool, ..settings(8) }, Millis::ZERO);
        assert_eq!(machine.room_in_lanes(now), 4);
        capacity.started();
        capacity.ended(Duration::from_micros(100), now);
        assert_eq!(machine.room_in_lanes(now), 200);
        capacity.started();
        capacity.ended(Duration::from_secs(1), now);
        assert_eq!(machine.room_in_lanes(now), 4);
    }

    const NONE: (usize, bool, bool) = (0, false, false);

    struct Trials {
        machine: Machine,
        begun: Instant,
    }

    impl Trials {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
        fn new() -> Trials {
            let begun = Instant::now();
            Trials { machine: Machine::new(settings(1000), Millis::ZERO), begun }
        }

        /// Claims a job that was interrupted so often before.
        fn claim(&mut self, number: u64, interruptions: u32) -> Arc<RunState> {
            let claimed = claimed(number, interruptions, number);
            let run = Arc::new(RunState::new(&claimed, Slot::Thread, None, HeadStart::NONE));
            self.machine.runs.suspects.extend(Suspect::of(&claimed));
            self.machine.add_run(Arc::clone(&run), self.begun, &mut StepOutput::default());
            run
        }

        /// The same, and starts it at the beginning.
        fn start(&mut self, number: u64, interruptions: u32) -> Arc<RunState> {
            let run = self.claim(number, interruptions);
            assert!(run.start(Duration::ZERO, self.begun));
            run
        }

        /// Returns which suspects a claim of this step admits: of those that were interrupted once, how many;
        /// whether one of the others; and whether that one may be on its last try.
        fn admitted(&mut self, after: Duration, commit: &Commit) -> (usize, bool, bool) {
            let request = ClaimRequest::new(Millis::ZERO, 1000, 1000, Vec::new());
            let request = self.machine.admit_suspects(request, self.begun + after, commit);
            (request.crashed_once, request.poison_pill, request.last_try)
        }

        fn admitted_after(&mut self, after: Duration) -> (usize, bool, bool) {
            self.admitted(after, &Commit::default())
        }
    }

    /// A job that was interrupted before is a suspect, and is on its last try once the next interruption is the last.
    #[test]
    fn suspect_is_a_job_that_was_interrupted() {
        let tried = |interruptions| Suspect::of(&claimed(1, interruptions, 1));
        let is_last_try = |interruptions| tried(interruptions).map(|suspect| suspect.is_last_try);
        assert_eq!(is_last_try(0), None);
        assert_eq!(is_last_try(1), Some(false));
        assert_eq!(is_last_try(MOST_INTERRUPTIONS - 2), Some(false));
        assert_eq!(is_last_try(MOST_INTERRUPTIONS - 1), Some(true));
    }

    /// A suspect delays others until it has run for [`TRIAL`], and those on their last try until it has run for
    /// [`LAST_TRIAL`]. Before it starts it delays them too. A job that was never interrupted delays none.
    #[test]
    fn suspect_is_on_trial_until_it_has_run_for_a_while() {
        let ms = Duration::from_millis(1);
        let mut trials = Trials::new();
        trials.start(1, 0);
        assert_eq!(trials.admitted_after(Duration::ZERO), (ON_TRIAL, true, true));
        let first = trials.claim(2, 1);
        trials.start(3, 2);
        assert_eq!(trials.admitted_after(TRIAL - ms), (ON_TRIAL - 2, false, false));
        assert_eq!(trials.admitted_after(TRIAL), (ON_TRIAL - 1, false, false));
        assert!(first.start(Duration::ZERO, trials.begun + LAST_TRIAL));
        let since = |after| LAST_TRIAL + after;
        assert_eq!(trials.admitted_after(since(TRIAL - ms)), (ON_TRIAL - 1, false, false));
        assert_eq!(trials.admitted_after(since(TRIAL)), (ON_TRIAL, true, false));
        assert_eq!(trials.admitted_after(since(LAST_TRIAL - ms)), (ON_TRIAL, true, false));
        assert_eq!(trials.admitted_after(since(LAST_TRIAL)), (ON_TRIAL, true, true));
    }

    /// At most [`ON_TRIAL`] suspects are on trial together.
    #[test]
    fn suspects_on_trial_have_a_bound() {
        let mut trials = Trials::new();
        for number in 0..ON_TRIAL as u64 {
            assert_eq!(trials.admitted_after(Duration::ZERO).0, ON_TRIAL - number as usize);
            trials.start(number, 1);
        }
        assert_eq!(trials.admitted_after(Duration::ZERO), NONE);
        assert_eq!(trials.admitted_after(TRIAL), (ON_TRIAL, true, false));
    }

    /// No suspect starts beside one on its last trial, until that has run for [`LAST_TRIAL`].
    #[test]
    fn suspect_on_its_last_trial_is_alone() {
        let ms = Duration::from_millis(1);
        let mut trials = Trials::new();
        trials.start(1, MOST_INTERRUPTIONS - 1);
        for after in [Duration::ZERO, TRIAL, LAST_TRIAL - ms] {
            assert_eq!(trials.admitted_after(after), NONE, "{after:?}");
        }
        assert_eq!(trials.admitted_after(LAST_TRIAL), (ON_TRIAL, true, true));
    }

    /// A suspect whose run has ended, or ends with the commit, delays none. Neither does one whose claim was lost,
    /// although the job was claimed again.
    #[test]
    fn suspect_that_has_ended_is_off_trial() {
        let mut trials = Trials::new();
        let run = trials.start(1, MOST_INTERRUPTIONS - 1);
        assert_eq!(trials.admitted_after(Duration::ZERO), NONE);
        let mut given_back = Commit::default();
        given_back.release(&run);
        assert_eq!(trials.admitted(Duration::ZERO, &given_back), NONE);
        let mut finished = Commit::default();
        trials.machine.run_ended(run.id, RunEnd::Done, Millis::ZERO, &mut finished);
        assert_eq!(trials.admitted(Duration::ZERO, &finished), (ON_TRIAL, true, true));
        trials.start(3, MOST_INTERRUPTIONS - 1);
        assert_eq!(trials.admitted_after(Duration::ZERO), NONE);
        trials.machine.forget(JobId::from_u128(3));
        assert_eq!(trials.admitted_after(Duration::ZERO), (ON_TRIAL, true, true));
        trials.start(2, MOST_INTERRUPTIONS - 1);
        trials.machine.forget(JobId::from_u128(2));
        let again = Arc::new(RunState::new(&claimed(2, 0, 7), Slot::Thread, None, HeadStart::NONE));
        trials.machine.add_run(again, trials.begun, &mut StepOutput::default());
        assert_eq!(trials.admitted_after(Duration::ZERO), (ON_TRIAL, true, true));
    }

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn two_threads() -> (Capacity, Instant) {
        let origin = Instant::now();
        (Capacity::new(2, origin), origin)
    }

    /// Before a run has ended, a node claims a job for each free thread. It claims short runs ahead, by the thousand if
    /// they take microseconds, until it has given back a job: its estimate of its speed was too high.
    #[test]
    fn short_runs_are_claimed_ahead() {
        let (capacity, now) = two_threads();
        assert_eq!((capacity.room(0, now), capacity.room(1, now)), (2, 1));
        capacity.started();
        assert_eq!((capacity.room(1, now), capacity.room(2, now)), (1, 0));
        capacity.ended(20 * Duration::from_micros(1), now);
        assert_eq!(capacity.room(0, now), 2 + 2 * 5000);
        capacity.was_too_slow();
        assert_eq!(capacity.room(0, now), 2);
    }

    /// If runs take a second, a node claims none ahead, and none at all while every thread is busy.
    #[test]
    fn long_runs_are_not_claimed_ahead() {
        let (capacity, now) = two_threads();
        capacity.started();
        capacity.ended(SECOND, now + SECOND);
        assert_eq!(capacity.room(0, now + SECOND), 2);
        // Short runs first, then both threads are busy.
        let (capacity, now) = two_threads();
        for _ in 0..3 {
            capacity.started();
        }
        capacity.ended(MS, now);
        assert!(capacity.room(2, now + MS) > 100);
        assert_eq!(capacity.room(2, now + SECOND), 0);
    }

    /// The estimate is a moving average, in which the latest run weighs an eighth.
    #[test]
    fn latest_run_weighs_an_eighth() {
        let (capacity, now) = two_threads();
        let room_after = |took: Duration| {
            capacity.started();
            capacity.ended(took, now);
            capacity.room(0, now)
        };
        assert_eq!(room_after(8 * MS), 2 + 2 * (100 / 8));
        // 8 ms less 1 ms, and 2 ms more.
        assert_eq!(room_after(16 * MS), 2 + 2 * (100 / 9));
        // 7.875 ms.
        assert_eq!(room_after(Duration::ZERO), 2 + 2 * 12);
    }
}
