//! The ticker, which advances the wheel: once a tick while there is work, and not at all otherwise. It has a thread of
//! its own. A loop or a future of the user's may stand in for the thread (`api/driver.rs`, `ticker_slot.rs`).
//!
//! Ground rules:
//!
//! - It sleeps until the next tick with work. An insert that is due earlier wakes it, by the protocol at the top of
//!   `alarm.rs`. If nothing is pending that ever comes due, it sleeps until it is woken.
//! - It goes from one tick with work to the next, and finishes a tick in all shards of jobs and all other sources
//!   before the next. So after a stall, everything is delivered in the order of deadlines.
//! - Within a tick, jobs and sources alternate every [`ENTRIES_PER_LOCK`] entries, so a million jobs do not delay a
//!   source.
//! - It holds a shard's lock for no more than [`ENTRIES_PER_LOCK`] entries at a time. It also holds it to search for
//!   the next tick with work, at worst with a look at every occupied slot of the outermost ring; and, seldom, to move
//!   few timers to a smaller slab (`structure/shrink.rs`: milliseconds).
//! - It leaves the free of large blocks to the pool (`structure/shrink.rs`).
//! - It runs no job, and drops none. The delivery of a source may be user code (`sources.rs`). It runs on this thread,
//!   outside the locks and behind the unwind boundary, so no panic ends the ticker. It may end the wheel, so the ticker
//!   checks after each delivery whether the engine is stopped, and its own thread never joins it (`threads.rs`).
//! - While any job waits for a wall-clock time, the ticker reads the wall clock whenever it is awake, and wakes for
//!   that once a [`WALL_CHECK_INTERVAL`]. (While `max_in_flight` is reached, it wakes only if a job ends or a source
//!   has something due.) If the clock was set by more than [`WALL_STEP_MIN`] since any of the deadlines of these jobs
//!   was estimated, all of them are estimated anew. For that, the ticker holds a shard's lock for 256 registrations at
//!   a time.
//! - While `max_in_flight` is reached, due jobs stay in the wheel, where they can be cancelled, and the end of a job
//!   wakes the ticker. The other sources go on meanwhile.
//!
//! Its present [`Activity`] tells a shutdown how long to wait for it:
//!
//! - The ticker's own work ends soon, and meanwhile the ticker may hold jobs that are in no shard and in no queue. A
//!   shutdown waits until that work has ended, even beyond its limit.
//! - A delivery is user code and may take any time, so the ticker announces each. It holds no job then, and hands none
//!   over afterwards if the engine was stopped meanwhile. So a shutdown waits for a delivery only until its limit.
//! - A notification is a system call, so the ticker sends one only if a thread waits.

use core::ops::RangeFrom;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::dispatch::Outlet;
use crate::engine::shard::{NextWake, WALL_STEP_MIN};
use crate::engine::sources::Source;
use crate::engine::verbs::{DueJobs, Engine};
use crate::host::clock::Limit;
use crate::host::sync::{Condvar, Mutex, lock, wait, wait_timeout};
#[cfg(feature = "tracing")]
use crate::host::traces;
use crate::host::user_panics::Panic;
#[cfg(feature = "tracing")]
use crate::host::user_panics::call_hook;
use crate::values::time::{Moment, Tick};

/// How many entries are looked at before a shard's lock is released.
const ENTRIES_PER_LOCK: usize = 256;

/// How often the ticker reads the wall clock while a job waits for it. After the clock was set
/// forward, a job may be late by this.
pub(crate) const WALL_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A ticker that is behind by this, or held up by a delivery for this, is traced.
#[cfg(feature = "tracing")]
const DELAY_MIN: Duration = Duration::from_millis(100);

pub(crate) struct Ticker<O> {
    engine: Arc<Engine>,
    outlet: O,
    due: DueJobs,
    activity: Arc<Activity>,
    /// Its delay was traced, and it has not caught up since.
    #[cfg(feature = "tracing")]
    is_behind: bool,
}

/// The ticker's plan, made at the tick `present`.
struct Plan {
    present: Tick,
    jobs: JobsPlan,
    /// A tick before which nothing is due in the other sources.
    sources: Tick,
}

/// The plan for the shards of jobs.
enum JobsPlan {
    /// Wake at a tick, and perhaps to read the wall clock.
    Wake(NextWake),
    /// Jobs are due, but `max_in_flight` is reached: sleep until the end of a job wakes the ticker.
    /// No insert of a job needs to wake it.
    Room,
}

/// The permission to sleep: until this moment at the latest, if there is one.
struct SleepUntil(Option<Moment>);

impl Plan {
    fn tick(&self) -> Tick {
        match self.jobs {
            JobsPlan::Wake(jobs) => jobs.tick.min(self.sources),
            JobsPlan::Room => self.sources,
        }
    }

    fn watches_the_wall(&self) -> bool {
        matches!(self.jobs, JobsPlan::Wake(NextWake { wall: Some(_), .. }))
    }
}

impl<O: Outlet> Ticker<O> {
    pub(crate) fn new(engine: Arc<Engine>, outlet: O) -> Ticker<O> {
        let due = DueJobs::with_capacity(ENTRIES_PER_LOCK);
        Ticker {
            engine,
            outlet,
            due,
            activity: Arc::new(Activity::new()),
            #[cfg(feature = "tracing")]
            is_behind: false,
        }
    }

    /// The ticker's present activity, for threads that wait for its end.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    pub(crate) fn outlet(&self) -> &O {
        &self.outlet
    }

    /// Advances the wheel until the engine is stopped, or another thread wants the ticker: that
    /// thread also wakes this one.
    pub(crate) fn run(&mut self, is_wanted: impl Fn() -> bool) {
        while !self.engine.is_stopped() && !is_wanted() {
            self.awake();
            let plan = self.plan();
            match plan.tick() > plan.present {
                true => self.sleep(&plan),
                false => self.process_tick(&plan),
            }
        }
    }

    /// For a loop that sleeps elsewhere: makes a plan, and returns how long the loop may sleep:
    /// zero if something is due, `None` if it may sleep until it is woken (or the engine is
    /// stopped).
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.next_wake().map(|wake| wake.since(self.engine.timebase().clock().now()))
    }

    /// Does what [`Ticker::timeout`] does, and returns the moment of the end of that time.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        while !self.engine.is_stopped() {
            self.awake();
            let plan = self.plan();
            if plan.tick() <= plan.present {
                return Some(self.engine.timebase().scale().begin(plan.tick()));
            }
            if let Some(SleepUntil(end)) = self.plan_to_sleep(&plan) {
                return end;
            }
        }
        None
    }

    /// For a loop that has slept: delivers everything that was due when this was called.
    pub(crate) fn run_due(&mut self) {
        self.awake();
        self.engine.note_wakeup();
        let end = self.engine.timebase().present();
        while !self.engine.is_stopped() {
            let plan = self.plan();
            if plan.tick() > end {
                return;
            }
            self.process_tick(&plan);
        }
    }

    /// Announces that no insert needs to wake this thread.
    pub(crate) fn awake(&self) {
        self.engine.alarm().awake();
        self.engine.sources().alarm().awake();
    }

    fn plan(&self) -> Plan {
        let jobs = self.next_wake_of_jobs();
        let sources = self.engine.sources().next_due();
        let present = self.engine.timebase().present();
        let jobs = match jobs.tick <= present && self.outlet.room() == 0 {
            true => JobsPlan::Room,
            false => JobsPlan::Wake(jobs),
        };
        Plan { present, jobs, sources }
    }

    /// Returns the next wake for the shards of jobs, after a check of the wall clock if a job waits
    /// for it.
    fn next_wake_of_jobs(&self) -> NextWake {
        let next_wake = self.engine.next_wake();
        let Some(readings) = next_wake.wall else { return next_wake };
        let now = self.engine.timebase().clock().read_wall_closely();
        if readings.distance(now) <= WALL_STEP_MIN {
            return next_wake;
        }
        self.engine.follow_the_wall();
        self.engine.next_wake()
    }

    /// Sleeps until there is work, or until woken.
    fn sleep(&self, plan: &Plan) {
        if let Some(SleepUntil(end)) = self.plan_to_sleep(plan) {
            let clock = self.engine.timebase().clock();
            self.engine.alarm().parker().park(end.map(|end| end.since(clock.now())));
            self.engine.note_wakeup();
        }
    }

    /// Publishes the plan, so that earlier inserts wake this thread. Returns `None` if the thread
    /// may not sleep, because the plan has changed or the engine is stopped.
    fn plan_to_sleep(&self, plan: &Plan) -> Option<SleepUntil> {
        let next = plan.tick();
        if let JobsPlan::Wake(_) = plan.jobs {
            self.engine.alarm().plan(next);
        }
        self.engine.sources().alarm().plan(next);
        if self.has_changed_since(plan) || self.engine.is_stopped() {
            return None;
        }
        let timebase = self.engine.timebase();
        let at_tick = (next != Tick::MAX).then(|| timebase.scale().begin(next));
        let look = plan.watches_the_wall().then_some(WALL_CHECK_INTERVAL);
        let at_most = self.outlet.retry_threads().into_iter().chain(look).min();
        let sooner = at_most.map(|at_most| timebase.clock().now().plus(at_most));
        Some(SleepUntil(at_tick.into_iter().chain(sooner).min()))
    }

    /// Returns whether there is now something to wake for before `plan`.
    fn has_changed_since(&self, plan: &Plan) -> bool {
        let jobs_changed = || match plan.jobs {
            JobsPlan::Room => false,
            JobsPlan::Wake(before) => {
                let now = self.engine.next_wake();
                now.tick < plan.tick() || now.wall.is_some() != before.wall.is_some()
            }
        };
        jobs_changed() || self.engine.sources().next_due() < plan.tick()
    }

    /// Delivers everything that is due at the tick of the plan: jobs as far as there is room in
    /// flight. Every earlier tick has been processed.
    fn process_tick(&mut self, plan: &Plan) {
        let tick = plan.tick();
        #[cfg(feature = "tracing")]
        self.trace_delay(plan);
        let mut shard = match plan.jobs {
            JobsPlan::Wake(_) => 0,
            JobsPlan::Room => self.engine.shards(),
        };
        let mut sources = 0..;
        let mut source = self.source(&mut sources);
        while (shard < self.engine.shards() || source.is_some()) && !self.engine.is_stopped() {
            if shard < self.engine.shards() {
                shard = self.hand_over_some(shard, tick, plan.present);
            }
            if source.as_ref().is_some_and(|source| self.deliver(&**source, tick)) {
                source = self.source(&mut sources);
            }
        }
    }

    /// Delivers due timers of a source. Returns whether it delivered all of them.
    fn deliver(&self, source: &dyn Source, tick: Tick) -> bool {
        #[cfg(feature = "tracing")]
        let begun = traces::wants_delays().then(|| self.engine.timebase().present());
        let finished = self.activity.deliver(|| source.advance(tick, ENTRIES_PER_LOCK));
        #[cfg(feature = "tracing")]
        if let Some(begun) = begun {
            let took = self.time_between(begun, self.engine.timebase().present());
            if took >= DELAY_MIN {
                self.trace(|| traces::was_slow(took));
            }
        }
        finished
    }

    fn source(&self, indices: &mut RangeFrom<usize>) -> Option<Arc<dyn Source>> {
        indices.next().and_then(|index| self.engine.sources().get(index))
    }

    /// Hands over jobs of a shard that are due at `tick`, looking at no more than
    /// [`ENTRIES_PER_LOCK`] entries. Returns the shard to continue with: the number of shards,
    /// which is no shard, once there is no room in flight.
    fn hand_over_some(&mut self, shard: usize, tick: Tick, present: Tick) -> usize {
        let limit = self.outlet.room().min(ENTRIES_PER_LOCK);
        if limit == 0 {
            return self.engine.shards();
        }
        let finished = self.engine.advance_shard(shard, tick, limit, &mut self.due);
        if !self.due.jobs.is_empty() {
            self.engine.set_behind(present - tick);
            self.outlet.hand_over(&mut self.due.jobs);
            self.report_refusal();
        }
        if let Some(surplus) = self.due.surplus.take() {
            self.outlet.discard(surplus);
        }
        if finished { shard + 1 } else { shard }
    }

    /// Reports to the user's panic handler that the system refused the threads of the pool. The
    /// ticker holds no job then.
    fn report_refusal(&self) {
        if let Some(error) = self.outlet.take_refusal() {
            let report = Panic { handle: None, payload: Box::new(error) };
            let boundary = self.engine.runner().boundary();
            self.activity.deliver(|| boundary.report(report));
        }
    }
}

#[cfg(feature = "tracing")]
impl<O: Outlet> Ticker<O> {
    /// Traces that the ticker is behind the clock: once, until it has caught up. A loop of the user's may be any
    /// time behind.
    fn trace_delay(&mut self, plan: &Plan) {
        let behind = self.time_between(plan.tick(), plan.present);
        let is_behind = behind >= DELAY_MIN && !self.engine.alarm().is_turned();
        if is_behind && !self.is_behind {
            self.trace(|| traces::is_behind(behind));
        }
        self.is_behind = is_behind;
    }

    fn time_between(&self, earlier: Tick, later: Tick) -> Duration {
        let scale = self.engine.timebase().scale();
        scale.begin(later).since(scale.begin(earlier))
    }

    /// Calls the program's subscriber.
    fn trace(&self, event: impl FnOnce()) {
        let boundary = self.engine.runner().boundary();
        self.activity.deliver(|| call_hook(|| boundary.call_without_handle(event)));
    }
}

impl<O> Drop for Ticker<O> {
    fn drop(&mut self) {
        self.activity.end();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) struct Activity {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    /// How many threads wait for the end of the ticker.
    waiting: usize,
}

#[derive(Clone, Copy)]
enum Phase {
    /// It does its own work, or sleeps.
    Works,
    /// It delivers the due timers of a source, or reports refused threads.
    Delivers,
    Ended,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        let state = State { phase: Phase::Works, waiting: 0 };
        Activity { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn deliver<R>(&self, call: impl FnOnce() -> R) -> R {
        self.change(Phase::Delivers);
        let result = call();
        self.change(Phase::Works);
        result
    }

    pub(crate) fn end(&self) {
        self.change(Phase::Ended);
    }

    fn change(&self, phase: Phase) {
        let mut state = lock(&self.state);
        state.phase = phase;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until the ticker of a stopped engine has ended, or until it delivers and the limit has
    /// passed. Returns whether it has ended.
    pub(crate) fn wait(&self, limit: &Limit) -> bool {
        let mut state = lock(&self.state);
        state.waiting += 1;
        let ended = loop {
            state = match state.phase {
                Phase::Ended => break true,
                Phase::Delivers if limit.has_passed() => break false,
                Phase::Delivers => wait_timeout(&self.changed, state, limit.remaining()),
                Phase::Works => wait(&self.changed, state),
            };
        };
        state.waiting -= 1;
        ended
    }
}
