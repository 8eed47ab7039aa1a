//! The protocols between threads, model-checked by `loom`: every interleaving with up to three
//! preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --lib models`
//!
//! Time stands still in a model, and a thread that sleeps wakes only when it is woken. So a lost
//! wake-up is a deadlock, which loom reports. The real code runs, with two exceptions: the threads
//! of the pool are threads of the model, and the channel is not taken apart (its operations are
//! single steps).

mod alarm;
mod sources;
#[cfg(feature = "async")]
mod ticker_slot;
#[cfg(feature = "async")]
mod wakers;

use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::engine::dispatch::pool::PoolShared;
use crate::engine::dispatch::{DueJob, Outlet, run_inline};
use crate::engine::ticker::Ticker;
use crate::engine::verbs::{Config, DueJobs, Engine};
use crate::host::clock::{Clock, Limit};
use crate::host::sync::Parker;
use crate::host::user_panics::UnwindBoundary;
use crate::structure::Geometry;
use crate::values::handle::Handle;
use crate::values::job::Job;
use crate::values::repeat::{Next, Repeat};
use crate::values::time::{Moment, Scale, Tick};

/// In ticks of a nanosecond: an hour.
const AN_HOUR: u64 = 3_600_000_000_000;

/// Explores every interleaving with up to three preemptions, which is where such bugs live.
/// `LOOM_MAX_PREEMPTIONS` sets another bound; 100, which allows all of them, takes minutes.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

/// Returns an engine of one small shard, with ticks of a nanosecond. Every tick in the models but
/// [`AN_HOUR`] has passed when a model begins. A job that is inserted for it is due, however far
/// the ticker has come.
fn engine() -> Arc<Engine> {
    bounded(None)
}

fn bounded(max_pending: Option<usize>) -> Arc<Engine> {
    engine_on(Clock::monotonic(), max_pending)
}

fn engine_on(clock: Clock, max_pending: Option<usize>) -> Arc<Engine> {
    engine_of(1, clock, max_pending)
}

fn engine_of(shards: usize, clock: Clock, max_pending: Option<usize>) -> Arc<Engine> {
    Arc::new(Engine::new(Config {
        scale: Scale::new(Duration::from_nanos(1)).unwrap(),
        clock,
        geometry: Geometry::ring(4).unwrap(),
        shards,
        max_pending,
        boundary: UnwindBoundary::default(),
    }))
}

/// Takes jobs until `left` is zero, then stops the engine: the ticker ends.
struct Until {
    engine: Arc<Engine>,
    left: AtomicUsize,
}

impl Outlet for Until {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        let count = jobs.drain(..).count();
        if self.left.fetch_sub(count, Ordering::Relaxed) == count {
            assert_eq!(self.engine.stop().len(), 0);
        }
    }
}

/// Starts the real ticker, which ends once `jobs` jobs came due.
fn ticker(engine: &Arc<Engine>, jobs: usize) -> thread::JoinHandle<()> {
    let outlet = Until { engine: Arc::clone(engine), left: AtomicUsize::new(jobs) };
    let mut ticker = Ticker::new(Arc::clone(engine), outlet);
    thread::spawn(move || ticker.run(|| false))
}

fn insert(engine: &Arc<Engine>, tick: u64) -> Handle {
    let at = engine.timebase().clock().instant(Moment::after(Duration::from_nanos(tick)));
    engine.insert(at.into(), || ()).expect("the engine is not stopped")
}

#[test]
fn an_insert_wakes_a_ticker_that_is_about_to_sleep() {
    explore(|| {
        let engine = engine();
        let ticker = ticker(&engine, 1);
        insert(&engine, 6);
        ticker.join().unwrap();
    });
}

#[test]
fn two_inserts_that_race_are_both_found() {
    explore(|| {
        let engine = engine();
        let ticker = ticker(&engine, 2);
        let other = Arc::clone(&engine);
        let other = thread::spawn(move || {
            insert(&other, 5);
        });
        insert(&engine, 6);
        other.join().unwrap();
        ticker.join().unwrap();
    });
}

/// Does the first half of an insert: the job is in its shard, and its thread stops there.
fn insert_silently(engine: &Arc<Engine>, tick: u64) {
    let shard = engine.own_shard();
    assert!(shard.insert(Tick::new(tick), Box::new(|| ())).is_ok());
}

#[test]
fn an_insert_relies_on_no_other_to_wake_the_ticker() {
    explore(|| {
        let engine = engine();
        let ticker = ticker(&engine, 2);
        // Another thread has put an earlier job into the same shard, and was stopped before it
        // could wake the ticker. When this insert has returned, the ticker must not sleep past it.
        insert_silently(&engine, 5);
        insert(&engine, 6);
        ticker.join().unwrap();
    });
}

#[test]
fn a_reset_to_earlier_wakes_a_ticker_that_sleeps_for_long() {
    explore(|| {
        let engine = engine();
        let far = insert(&engine, AN_HOUR);
        let ticker = ticker(&engine, 1);
        assert!(engine.reset(far, Duration::ZERO.into()));
        ticker.join().unwrap();
    });
}

#[test]
fn a_stop_wakes_a_ticker_that_is_about_to_sleep() {
    explore(|| {
        let engine = engine();
        insert(&engine, AN_HOUR);
        let ticker = ticker(&engine, usize::MAX);
        assert_eq!(engine.stop().len(), 1);
        ticker.join().unwrap();
    });
}

#[test]
fn of_a_cancel_and_the_fire_exactly_one_gets_the_job() {
    explore(|| {
        let engine = engine();
        let handle = insert(&engine, 6);
        let other = Arc::clone(&engine);
        let fire = thread::spawn(move || {
            let mut due = DueJobs::default();
            assert!(other.advance_shard(0, other.timebase().present(), usize::MAX, &mut due));
            due.jobs.len()
        });
        let cancelled = usize::from(engine.cancel(handle));
        assert_eq!(cancelled + fire.join().unwrap(), 1);
    });
}

#[test]
fn of_a_cancel_and_the_stop_exactly_one_gets_the_job() {
    explore(|| {
        let engine = engine();
        let handle = insert(&engine, AN_HOUR);
        let other = Arc::clone(&engine);
        let stop = thread::spawn(move || other.stop().len());
        let cancelled = usize::from(engine.cancel(handle));
        assert_eq!(cancelled + stop.join().unwrap(), 1);
        assert!(engine.insert(Duration::ZERO.into(), || ()).is_err());
    });
}

/// Inserts a repeating job that is due now, and then again after an hour.
fn repeat(engine: &Arc<Engine>) -> Handle {
    let past = engine.timebase().clock().instant(Moment::after(Duration::from_nanos(6)));
    let again = |_| Next::After(Duration::from_nanos(AN_HOUR));
    engine.repeat(Repeat::irregular().starting(past), again).expect("the engine is not stopped")
}

/// Takes out the due jobs and runs them, as ticker and pool would.
fn fire(engine: &Arc<Engine>) -> thread::JoinHandle<()> {
    let engine = Arc::clone(engine);
    thread::spawn(move || {
        let mut due = DueJobs::default();
        engine.advance_shard(0, engine.timebase().present(), usize::MAX, &mut due);
        due.jobs.into_iter().for_each(|due| engine.runner().boundary().fire(due.job, due.handle));
    })
}

#[test]
fn a_shutdown_loses_no_job_that_goes_back() {
    explore(|| {
        let engine = engine();
        repeat(&engine);
        let ran = Arc::new(AtomicUsize::new(0));
        let runs = Arc::clone(&ran);
        let once = move || {
            runs.fetch_add(1, Ordering::Relaxed);
        };
        engine.insert(std::time::SystemTime::UNIX_EPOCH.into(), once).unwrap();
        let fire = fire(&engine);
        let pending = engine.stop().len();
        fire.join().unwrap();
        let strays = engine.collect_unstarted(core::iter::empty()).len();
        // The repeating job comes back in any case, the other one if it has not run.
        assert_eq!(pending + strays + ran.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_repeating_job_that_is_cancelled_does_not_come_back() {
    explore(|| {
        let engine = bounded(Some(1));
        let handle = repeat(&engine);
        let fire = fire(&engine);
        // The job may be in the wheel, on its way out, running, or back in.
        assert!(engine.cancel(handle));
        fire.join().unwrap();
        assert_eq!(engine.len(), 0);
        assert!(!engine.cancel(handle));
        // Its room was given back exactly once.
        engine.insert(Duration::MAX.into(), || ()).unwrap();
        assert!(engine.insert(Duration::MAX.into(), || ()).is_err());
        assert_eq!(engine.stop().len(), 1);
    });
}

#[test]
fn of_a_reset_and_the_run_one_says_when_the_next_is() {
    explore(|| {
        let engine = engine();
        let handle = repeat(&engine);
        let fire = fire(&engine);
        assert!(engine.reset(handle, Duration::MAX.into()));
        fire.join().unwrap();
        // The job is in the wheel: for "never" if the reset came last, otherwise for an hour.
        assert_eq!(engine.len(), 1);
        assert!(engine.remaining(handle) > Some(Duration::ZERO));
        assert_eq!(engine.stop().len(), 1);
    });
}

/// The state that the drainers of a pool share, with one permit; and a count of the jobs that ran.
struct PoolModel {
    shared: Arc<PoolShared>,
    parker: Arc<Parker>,
    ran: Arc<AtomicUsize>,
    engine: Arc<Engine>,
}

impl PoolModel {
    fn new(max_in_flight: usize) -> Arc<PoolModel> {
        let (engine, parker) = (engine(), Arc::new(Parker::new()));
        let (runner, clock) = (Arc::clone(engine.runner()), Arc::clone(engine.timebase().clock()));
        let shared =
            Arc::new(PoolShared::new(1, max_in_flight, runner, clock, Arc::clone(&parker), None));
        Arc::new(PoolModel { shared, parker, ran: Arc::default(), engine })
    }

    fn send(&self) {
        let ran = Arc::clone(&self.ran);
        let job = Job::new(Box::new(move || {
            ran.fetch_add(1, Ordering::SeqCst);
        }));
        let handle = insert(&self.engine, AN_HOUR);
        self.shared.send(DueJob { job, handle, deadline: Moment::default() }, Moment::default());
    }

    fn send_and_drain(&self) {
        self.send();
        if self.shared.permit_for_queue() {
            Arc::clone(&self.shared).drain();
        }
    }

    fn ran(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }
}

#[test]
fn no_job_is_left_in_the_queue_without_a_drainer() {
    explore(|| {
        let pool = PoolModel::new(usize::MAX);
        let other = Arc::clone(&pool);
        let other = thread::spawn(move || other.send_and_drain());
        pool.send_and_drain();
        other.join().unwrap();
        assert_eq!(pool.ran(), 2);
    });
}

#[test]
fn a_job_that_ends_wakes_who_waits_for_room() {
    explore(|| {
        let pool = PoolModel::new(1);
        pool.send();
        let other = Arc::clone(&pool);
        let other = thread::spawn(move || {
            assert!(other.shared.permit_for_queue());
            Arc::clone(&other.shared).drain();
        });
        while pool.shared.room() == 0 {
            pool.parker.park(None);
        }
        other.join().unwrap();
    });
}

#[test]
fn after_a_stop_that_waited_no_job_starts_and_none_is_lost() {
    explore(|| {
        let pool = PoolModel::new(usize::MAX);
        pool.send();
        pool.send();
        let other = Arc::clone(&pool);
        let other = thread::spawn(move || {
            assert!(other.shared.permit_for_queue());
            Arc::clone(&other.shared).drain();
        });
        pool.shared.close();
        pool.shared.wait(&Limit::new(Duration::MAX));
        let ran = pool.ran();
        let back = core::iter::from_fn(|| pool.shared.take_queued()).count();
        assert_eq!(ran + back, 2);
        other.join().unwrap();
        assert_eq!(pool.ran(), ran);
    });
}

#[test]
fn a_spawn_that_crosses_a_stop_is_refused_or_comes_back() {
    explore(|| {
        let pool = PoolModel::new(usize::MAX);
        let other = Arc::clone(&pool);
        let spawned = thread::spawn(move || {
            other.engine.pass(Box::new(|| ()), |due, now| other.shared.send(due, now)).is_ok()
        });
        assert_eq!(pool.engine.stop().len(), 0);
        pool.shared.close();
        let back = core::iter::from_fn(|| pool.shared.take_queued()).count();
        assert_eq!(back, usize::from(spawned.join().unwrap()));
    });
}

#[test]
fn a_wait_for_an_idle_wheel_sees_the_last_cancel() {
    explore(|| {
        let engine = engine();
        let handles = [insert(&engine, AN_HOUR), insert(&engine, AN_HOUR)];
        let other = Arc::clone(&engine);
        let other = thread::spawn(move || handles.map(|handle| assert!(other.cancel(handle))));
        assert!(engine.wait_idle(Duration::MAX));
        other.join().unwrap();
    });
}

#[test]
fn a_wait_for_an_idle_wheel_sees_the_last_job_end() {
    explore(|| {
        let engine = engine();
        insert(&engine, 5);
        insert(&engine, 6);
        let other = Arc::clone(&engine);
        let other = thread::spawn(move || {
            let mut due = DueJobs::default();
            let present = other.timebase().present();
            assert!(other.advance_shard(0, present, usize::MAX, &mut due) && due.jobs.len() == 2);
            for due in due.jobs {
                run_inline(other.runner(), other.timebase().clock(), due);
            }
        });
        assert!(engine.wait_idle(Duration::MAX));
        other.join().unwrap();
    });
}
