//! One process that runs jobs on a manual clock, and the oracle that watches it: handlers, restarts,
//! crashes.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tickwheel_jobs::{Builder, Client, Driver, Fail, JobState, Jobs, Run};

use crate::batches;
use crate::end_in::{Ended, transact};
use crate::history::Noted;
use crate::hooks::{around, handle_or_leave, told};
use crate::ops::{BATCH, BROKEN, Ending, LATE, Op, Plan, Stop, Task, micros, retry, system};
use crate::oracle::{Oracle, Outcome, ensure};
use crate::place::{Kind, Place, Setup};
use crate::record::Record;
use crate::run_sets::RunSets;

/// What the handlers of one process share with the test.
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) place: Place,
}

pub(crate) struct State {
    pub(crate) oracle: Oracle,
    pub(crate) driver: Weak<Driver>,
    /// What the clocks read when the process began.
    began: (Instant, i64),
    pub(crate) wrong: Option<String>,
    /// A copy of the store as a crash in a handler leaves it, and the oracle of that instant.
    crashed: Option<(Place, Oracle)>,
    pub(crate) failures: u64,
    pub(crate) deaths: u64,
    /// The last runs that have ended.
    pub(crate) late: Vec<Run>,
    /// Another process that has the store open.
    pub(crate) other: Option<Client>,
    /// What hooks call, and what the next event does with it.
    pub(crate) client: Option<Client>,
    pub(crate) on_event: Vec<Op>,
    /// The wall clock was set, and the jobs do not know it yet: the oracle must not either.
    pub(crate) unseen: bool,
    /// The runs of a batch have ended for the oracle, and end one by one in the store.
    pub(crate) batch_ends: bool,
    /// The plans that a handler has left to its middleware.
    pub(crate) left: Vec<Plan>,
}

thread_local! {
    /// Whose payloads are decoded on this thread.
    static CURRENT: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// A process that runs jobs.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) shared: Arc<Shared>,
    jobs: Option<Jobs>,
    driver: Option<Arc<Driver>>,
    /// Another process that has the store open.
    pub(crate) other: Option<Client>,
    folder: PathBuf,
    /// By how much the test has set the wall clock forward so far, in microseconds.
    pub(crate) shifted: i64,
    /// What the figures of the step before were.
    pub(crate) noted: Option<Noted>,
    /// The latest time that a clock of any process has read, in microseconds.
    pub(crate) latest: i64,
}

/// Histories follow each other in time, so that the ids of this process, which ascend, say the time
/// of their making in each of them.
static LATEST: AtomicI64 = AtomicI64::new(1_800_000_000_000_000);

/// How long a process that crashed is away before another starts on a store with leases, in
/// microseconds: a lease, and what a clock that was set back a little adds to it.
const LEASE_GAP: i64 = 40_000_000;

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the oracle the time.
    pub(crate) fn look_at_the_clocks(&self, jumped: bool) -> (i64, Instant) {
        let mut state = self.lock();
        let driver = state.driver.upgrade().expect("the driver is there while jobs run");
        let (wall, now) = (micros(driver.wall_now()), driver.now());
        let mono = state.began.1 + now.duration_since(state.began.0).as_micros() as i64;
        if !state.unseen {
            state.oracle.time_is(wall, mono, jumped);
        }
        (wall, now)
    }

    pub(crate) fn note(&self, outcome: Outcome) {
        if let Err(wrong) = outcome {
            self.lock().wrong.get_or_insert(wrong);
        }
    }

    /// Copies the store as it is: what a crash now leaves.
    pub(crate) fn crash(&self) {
        let mut state = self.lock();
        if state.crashed.is_none() && !self.place.is_memory() {
            state.crashed = Some((self.place.copy(), state.oracle.clone()));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().crashed()
    }
}

/// A payload of the kind whose payloads do not decode is looked at: the job starts, and dies.
pub(crate) fn decoding(payload: &[u8]) {
    let Some(shared) = CURRENT.with_borrow(Clone::clone) else { return };
    if shared.is_over() {
        return;
    }
    let plan: Plan = serde_json::from_slice(payload).expect("the payload is a plan");
    shared.look_at_the_clocks(false);
    let mut state = shared.lock();
    let jobs = &state.oracle.jobs;
    let is_it = |at: &usize| {
        jobs[*at].kind == BROKEN
            && jobs[*at].state == JobState::Pending
            && jobs[*at].plan.tag == plan.tag
    };
    // Occurrences share a tag, and the first of them is first.
    let place = |at: &usize| (jobs[*at].due, state.oracle.id_of(&jobs[*at]));
    let first = (0..jobs.len()).filter(is_it).min_by_key(place);
    let outcome = match first {
        None => Err(format!("nobody inserted what was decoded: {plan:?}")),
        Some(at) => state.oracle.start(at).map(|()| state.oracle.ended(at, None, None)),
    };
    state.oracle.settle_now();
    drop(state);
    shared.note(outcome);
}

pub(crate) fn handle(
    shared: &Arc<Shared>,
    kind: usize,
    plan: &Plan,
    run: &Run,
) -> Result<(), Fail> {
    if shared.is_over() {
        return Ok(());
    }
    shared.look_at_the_clocks(false);
    let begun = begin(shared, kind, plan, run);
    let starts = match begun {
        Ok(starts) => starts,
        Err(wrong) => {
            shared.note(Err(wrong));
            return Ok(());
        }
    };
    let set = act(shared, plan, run);
    let ended = set.and_then(|set| transact(shared, plan.ending(starts), run, set));
    let ending = ended.and_then(|ended| match ended {
        Ended::Before(ending) => Some(ending),
        Ended::ByHandler(ending, set) => end(shared, run, ending, set),
    });
    ending.map_or(Ok(()), result)
}

/// Does what a run does. Returns what it has set, or `None` after a crash.
pub(crate) fn act(shared: &Arc<Shared>, plan: &Plan, run: &Run) -> Option<RunSets> {
    let mut set = RunSets::default();
    for act in &plan.acts {
        match act {
            Op::CrashHere => shared.crash(),
            Op::SetResult(bytes, once) => shared.note(set.result(run, *bytes, *once)),
            Op::SetProgress(n) => shared.note(set.progress(shared, run, *n)),
            Op::Then(key, kind, time, plan) => {
                shared.note(set.then(shared, run, *key, (*kind, *time, plan)));
            }
            Op::LateProgress => shared.set_late_progress(),
            act => {
                shared.note(crate::calls::call(shared, &run.client(), act, Some(run.id()), false));
            }
        }
        if shared.is_over() {
            return None;
        }
    }
    Some(set)
}

/// Ends a run in the oracle. Returns how its handler ends.
pub(crate) fn end(shared: &Arc<Shared>, run: &Run, ending: Ending, set: RunSets) -> Option<Ending> {
    let mut state = shared.lock();
    let at = state.oracle.find(run.id());
    let Some(at) = at else {
        drop(state);
        shared.note(Err(format!("the oracle lost {}", run.id())));
        return None;
    };
    let Record { asked, ref own, .. } = state.oracle.jobs[at];
    let group = own.group;
    set.stays(&mut state.oracle, at);
    state.oracle.ended(at, Some(ending), set.result);
    if ending == Ending::Done {
        state.oracle.follow(set.follow_ups, group);
    }
    state.oracle.settle_now();
    state.late.push(run.clone());
    let forgotten = (state.late.len() > 3).then(|| state.late.remove(0));
    drop(state);
    drop(forgotten);
    shared.note(ensure(run.is_cancelled() == asked, || {
        format!("{run:?} is told of a cancel: {asked}")
    }));
    Some(ending)
}

/// Returns the result of a handler whose run ends in this way.
pub(crate) fn result(ending: Ending) -> Result<(), Fail> {
    match ending {
        Ending::Done => Ok(()),
        Ending::Fails => Err(Fail::from(std::io::Error::other("fails"))),
        Ending::FailsAfter(ms) => {
            Err(Fail::after(std::time::Duration::from_millis(ms), "fails later"))
        }
        Ending::Snoozes(ms) => Err(Fail::snooze(std::time::Duration::from_millis(ms))),
        Ending::Dies => Err(Fail::dead("dies")),
        Ending::InTransaction { .. } => unreachable!("its handler returns another"),
        Ending::Panics => std::panic::resume_unwind(Box::new("as planned")),
    }
}

pub(crate) fn begin(shared: &Shared, kind: usize, plan: &Plan, run: &Run) -> Outcome<usize> {
    let mut state = shared.lock();
    state.batch_ends = false;
    let oracle = &mut state.oracle;
    oracle.is_seen(run.id(), micros(run.due()) / 1000)?;
    let at = oracle.recognize(run.id(), run.kind(), &crate::oracle::encoded(plan))?;
    oracle.start(at)?;
    oracle.identify(at, run.attempt(), run.fence().get())?;
    let job = &oracle.jobs[at];
    let late = (oracle.wall - job.due * 1000) as u128;
    let left = run.progress::<String>().map_err(|error| format!("its progress: {error:?}"))?;
    ensure(left == job.progress, || format!("{run:?} has the progress {left:?}: {job:?}"))?;
    let same = job.kind == kind
        && micros(run.due()) == job.due * 1000
        && (run.key() == job.key.as_deref() || job.robbed)
        && run.late().as_micros() == late
        && run.header("tenant") == job.own.tenant.as_deref()
        && run.headers().count() == usize::from(job.own.tenant.is_some())
        && !run.is_cancelled();
    ensure(same, || format!("the run {run:?} is not of {job:?}"))?;
    Ok(job.starts)
}

impl World {
    pub(crate) fn new(setup: Setup) -> World {
        let n = crate::place::number();
        let shm = Path::new("/dev/shm");
        let root = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        let folder = root.join(format!("tickwheel-model-{}-{n}", std::process::id()));
        let mut oracle = Oracle::new(setup.retention, setup.in_flight, setup.store.ahead());
        // The jobs in memory never restart.
        oracle.handled[LATE] = setup.store == Kind::Memory && setup.named;
        let place = Place::new(setup.store, &folder, setup.named);
        oracle.queue = place.queue().to_owned();
        let wall = LATEST.load(Ordering::Relaxed);
        let mut world = World {
            setup,
            shared: Arc::new(Shared::over(oracle.clone(), Place::Memory)),
            jobs: None,
            driver: None,
            other: None,
            folder,
            shifted: 0,
            noted: None,
            latest: wall,
        };
        world.open(oracle, place, wall, false);
        world
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        self.jobs.as_ref().expect("the jobs run")
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.driver.as_ref().expect("the jobs run")
    }

    fn builder(&self, shared: &Arc<Shared>, late: bool) -> Builder {
        let on = |kind: usize| {
            let shared = Arc::clone(shared);
            move |plan: &Plan, run: &Run| {
                let its = core::iter::once(plan);
                handle_or_leave(&shared, its, || handle(&shared, kind, plan, run))
            }
        };
        let (steady, on_late, broken) = (on(0), on(LATE), on(BROKEN));
        let of_batch = Arc::clone(shared);
        let most = BATCH.min(self.setup.in_flight);
        let (events, its_middleware) = (Arc::clone(shared), Arc::clone(shared));
        let builder = shared
            .place
            .builder()
            .durability(self.setup.durability)
            .max_in_flight(self.setup.in_flight)
            .keep_dead(std::time::Duration::from_millis(self.setup.retention as u64))
            .retry(retry(1))
            .handle_with(retry(0), move |job: Task<0>, run| steady(&job.0, run))
            .handle_batch(most, std::time::Duration::ZERO, move |jobs: &[(Task<1>, Run)]| {
                let plans = jobs.iter().map(|(task, _)| &task.0);
                handle_or_leave(&of_batch, plans, || batches::handle(&of_batch, jobs))
            })
            .handle_with(retry(BROKEN), move |job: Task<3>, run| broken(&job.0, run))
            .middleware(move |runs, next| around(&its_middleware, runs, next))
            .on_event(move |event| told(&events, event));
        match late {
            true => builder.handle_with(retry(LATE), move |job: Task<2>, run| on_late(&job.0, run)),
            false => builder,
        }
    }

    /// Starts to run the jobs of a store, when the clock reads `wall`.
    pub(crate) fn open(&mut self, mut oracle: Oracle, place: Place, mut wall: i64, crashed: bool) {
        let late = oracle.handled[LATE];
        let expires = crashed && place.has_leases();
        if expires {
            wall += LEASE_GAP;
            oracle.mono += LEASE_GAP;
        }
        let shared = Arc::new(Shared::over(oracle, place));
        let (jobs, driver) = self.builder(&shared, late).manual().expect("the jobs start");
        let driver = Arc::new(driver);
        {
            let mut state = shared.lock();
            state.began = (driver.now(), state.oracle.mono);
            state.driver = Arc::downgrade(&driver);
            state.client = Some(jobs.client());
            let opened = micros(driver.wall_now()).div_euclid(1000);
            let found = if expires { wall.div_euclid(1000) } else { opened };
            state.oracle.taken_over(crashed, found);
            state.oracle.set_back = wall < opened * 1000;
            state.oracle.opened = opened;
            state.oracle.crashes += u64::from(crashed);
        }
        driver.set_wall(system(wall));
        shared.look_at_the_clocks(true);
        if expires {
            jobs.nudge();
        }
        CURRENT.set(Some(Arc::clone(&shared)));
        (self.jobs, self.driver, self.shared) = (Some(jobs), Some(driver), shared);
        let place = &self.shared.place;
        self.set_other((!place.is_memory()).then(|| place.builder().client().expect("a client")));
    }

    pub(crate) fn set_other(&mut self, other: Option<Client>) {
        self.shared.lock().other.clone_from(&other);
        self.other = other;
    }

    pub(crate) fn restart(&mut self, stop: Stop, gap: u64, late: bool) -> Outcome {
        if self.shared.place.is_memory() {
            return Ok(());
        }
        let (wall, _) = self.shared.look_at_the_clocks(false);
        let place = self.shared.place.clone();
        // A clock that was set back leaves a lease that ends later.
        let unseen_back = self.shared.lock().unseen && wall < self.shared.lock().oracle.wall;
        let stop = if unseen_back && place.has_leases() { Stop::DropJobs } else { stop };
        let copy = (stop == Stop::Crash).then(|| place.copy());
        let mut oracle = self.shared.lock().oracle.clone();
        self.close(stop)?;
        let place = copy.map_or(place.clone(), |copy| place.recovered(copy));
        oracle.mono += gap as i64 * 1000;
        oracle.handled[LATE] = late;
        self.open(oracle, place, wall + gap as i64 * 1000, stop == Stop::Crash);
        Ok(())
    }

    /// Goes on after a crash in a handler, if there was one.
    pub(crate) fn recover(&mut self) -> Outcome<bool> {
        let Some((place, oracle)) = self.shared.lock().crashed.take() else { return Ok(false) };
        if let Some(wrong) = self.shared.lock().wrong.take() {
            return Err(wrong);
        }
        self.close(Stop::DropJobs)?;
        let place = self.shared.place.recovered(place);
        let wall = oracle.wall;
        self.open(oracle, place, wall, true);
        Ok(true)
    }

    pub(crate) fn close(&mut self, stop: Stop) -> Outcome {
        CURRENT.set(None);
        self.set_other(None);
        let late = core::mem::take(&mut self.shared.lock().late);
        drop(late);
        self.shared.lock().client = None;
        let (Some(jobs), Some(driver)) = (self.jobs.take(), self.driver.take()) else {
            return Ok(());
        };
        let client = jobs.client();
        match stop {
            Stop::Shutdown => jobs.shutdown().map_err(|error| format!("shutdown: {error}"))?,
            Stop::DropDriver => drop((driver, jobs)),
            Stop::DropJobs | Stop::Crash => drop((jobs, driver)),
        }
        self.shared.lock().wrong.take().map_or(Ok(()), Err)?;
        let plan = Plan { tag: 7, acts: Vec::new(), ends: vec![Ending::Done], partition: None };
        let refused = client.insert(std::time::Duration::ZERO, Task::<0>(plan));
        let refused = refused.err().map(|error| (error.kind().clone(), error.into_inner().0.tag));
        let closed = Some((tickwheel_jobs::InsertErrorKind::Closed, 7));
        ensure(refused == closed, || format!("an insert after the end: {refused:?}"))
    }
}

impl State {
    pub(crate) fn crashed(&self) -> bool {
        self.crashed.is_some()
    }
}

impl Shared {
    fn over(oracle: Oracle, place: Place) -> Shared {
        let state = State {
            oracle,
            driver: Weak::new(),
            began: (tickwheel_start(), 0),
            wrong: None,
            crashed: None,
            failures: 0,
            deaths: 0,
            late: Vec::new(),
            other: None,
            client: None,
            on_event: Vec::new(),
            unseen: false,
            batch_ends: false,
            left: Vec::new(),
        };
        Shared { state: Mutex::new(state), place }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a place for an instant that is set before it is used"
)]
fn tickwheel_start() -> Instant {
    Instant::now()
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.close(Stop::DropJobs);
        let latest = self.shared.lock().oracle.wall.max(LATEST.load(Ordering::Relaxed));
        LATEST.store(latest + 3_600_000_000, Ordering::Relaxed);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
