//! One test for each sentence of `docs/guarantees.md`, under the name that stands there. Here are
//! those for single jobs, the pool, the bounds and the end; in files of their own, those for more.

mod again;
mod many;
mod names;
mod wall;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tickwheel::{
    Builder, ConfigError, Driver, Geometry, GeometryError, Handle, Hierarchy, InsertErrorKind,
    Scheduler, Tick, Wheel,
};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn manual() -> (Wheel, Driver) {
    Wheel::builder().manual().unwrap()
}

fn threads(count: usize) -> Wheel {
    Wheel::builder().threads(count).build().unwrap()
}

#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

/// Waits for as long as it takes for `condition` to come true; a minute is a defect on any machine.
#[track_caller]
fn wait_for(condition: impl Fn() -> bool) {
    let begin = now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "this never comes true");
        thread::yield_now();
    }
}

/// Lets real time pass where nothing is to happen.
fn let_pass(duration: Duration) {
    let (_open, never) = channel::<()>();
    let _ = never.recv_timeout(duration);
}

/// A job that waits until the sender is dropped, and a receiver that hears of its start.
fn blocker(wheel: &Wheel) -> (Sender<()>, Receiver<()>) {
    let (release, gate) = channel::<()>();
    let (started, starts) = channel();
    wheel.insert(Duration::ZERO, move || {
        started.send(()).unwrap();
        let _ = gate.recv();
    });
    (release, starts)
}

/// Counts how many of its clones are alive.
fn counted() -> (Arc<()>, impl Fn() -> usize) {
    let token = Arc::new(());
    let watched = Arc::downgrade(&token);
    (token, move || Weak::strong_count(&watched))
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

// Time.

#[test]
fn never_early() {
    let wheel = threads(2);
    let (sender, receiver) = channel();
    let count = 400;
    for n in 0..count {
        let (sender, delay) = (sender.clone(), Duration::from_micros(n * 97));
        let before = now();
        wheel.insert(delay, move || sender.send((before.elapsed(), delay)).unwrap());
    }
    for (waited, delay) in receiver.iter().take(count as usize) {
        assert!(waited >= delay, "after {waited:?}, not {delay:?}");
    }
}

#[test]
fn never_before_the_instant() {
    let wheel = threads(2);
    let (sender, receiver) = channel();
    let begin = now();
    for n in 0..100 {
        let (sender, at) = (sender.clone(), begin + Duration::from_micros(n * 313));
        let moved = at + MS * 3;
        let handle = wheel.insert_at(at + HOUR, move || sender.send((now(), moved)).unwrap());
        assert!(wheel.reset_at(handle, moved));
    }
    for (ran, at) in receiver.iter().take(100) {
        assert!(ran >= at, "{:?} before the instant", at - ran);
    }
}

#[test]
fn at_the_first_tick_at_or_after_its_deadline() {
    for (micros, tick) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (2300, 3), (256_000, 256)] {
        let (wheel, driver) = manual();
        wheel.insert(Duration::from_micros(micros), || ());
        assert_eq!(driver.advance(MS * tick - Duration::from_nanos(1)), 0, "{micros}");
        assert_eq!(driver.advance(Duration::from_nanos(1)), 1, "{micros}");
    }
}

#[test]
fn without_a_delay_at_the_next_tick() {
    let (wheel, driver) = manual();
    driver.advance(MS * 10);
    wheel.insert(Duration::ZERO, || ());
    wheel.insert_at(driver.now() - MS * 5, || ());
    wheel.insert_at(driver.now(), || ());
    assert_eq!(driver.advance(Duration::ZERO), 0);
    assert_eq!(driver.advance(MS), 3);
    // Also in the middle of a tick, and for a job that inserts itself without end.
    fn again(scheduler: Scheduler) {
        let next = scheduler.clone();
        let _ = scheduler.insert(Duration::ZERO, || again(next));
    }
    (0..2).for_each(|_| again(wheel.scheduler()));
    assert_eq!(driver.advance(MS * 5), 10);
}

#[test]
fn the_longest_delay_is_never() {
    let (wheel, driver) = manual();
    let [cancelled, reset, taken] = [0, 1, 2].map(|_| wheel.insert(Duration::MAX, || ()));
    assert_eq!(driver.advance(Duration::from_secs(u64::MAX / 2)), 0);
    assert_eq!(driver.advance(Duration::MAX), 0);
    assert_eq!(wheel.remaining(cancelled), Some(Duration::MAX));
    assert!(wheel.cancel(cancelled) && wheel.take(taken).is_some());
    assert!(
        wheel.is_pending(reset),
        "also at the end of the clock, where no time is left to reset to"
    );
    let (wheel, driver) = manual();
    let reset = wheel.insert(Duration::MAX, || ());
    assert!(wheel.reset(reset, MS));
    assert_eq!(driver.advance(MS), 1);
}

#[test]
fn a_stall_is_caught_up_in_the_order_of_deadlines() {
    // One job at a time, and the first holds up all the others until they are long due.
    let wheel = Wheel::builder().threads(1).max_in_flight(1).shards(4).build().unwrap();
    let (release, starts) = blocker(&wheel);
    starts.recv().unwrap();
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for lane in 0..4 {
            let (wheel, sender) = (&wheel, sender.clone());
            scope.spawn(move || {
                for n in 0..10 {
                    let (sender, delay) = (sender.clone(), (n * 7 + lane * 3) % 11 * 3 + 2);
                    let at = wheel.insert(MS * delay as u32, || ());
                    // What was asked for and not what was measured: two inserts of one deadline
                    // may come to lie on two ticks.
                    let due = now() + wheel.remaining(at).unwrap();
                    wheel.cancel(at);
                    wheel.insert_at(due, move || sender.send(due).unwrap());
                }
            });
        }
    });
    let_pass(MS * 40);
    drop(release);
    let order: Vec<Instant> = receiver.iter().take(40).collect();
    for pair in order.windows(2) {
        assert!(pair[1] + MS >= pair[0], "a whole tick out of order: {:?}", pair[0] - pair[1]);
    }
    // The same on a manual clock, exactly.
    let (wheel, driver) = manual();
    let ran = Arc::new(Mutex::new(Vec::new()));
    for n in [50_u32, 3, 70_000, 3, 900, 256, 255] {
        let ran = Arc::clone(&ran);
        wheel.insert(MS * n, move || ran.lock().unwrap().push(n));
    }
    assert_eq!(driver.advance(HOUR), 7);
    assert_eq!(*ran.lock().unwrap(), [3, 3, 50, 255, 256, 900, 70_000]);
}

#[test]
fn a_clock_that_steps_back() {
    // The system's monotonic clock does not; the structure is told the time and does not care.
    let mut wheel = Hierarchy::new(Geometry::default());
    let mut due = Vec::new();
    let _ = wheel.advance(Tick::new(100), usize::MAX, &mut due);
    let key = wheel.insert(Tick::new(45), "five ticks after the clock stepped back to 40");
    let turn = wheel.advance(Tick::new(45), usize::MAX, &mut due);
    assert_eq!((turn.now, turn.finished, due.len()), (Tick::new(100), true, 0));
    assert!(wheel.contains(key));
    let _ = wheel.advance(Tick::new(101), usize::MAX, &mut due);
    assert_eq!(due.len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn with_nothing_due_nothing_wakes() {
    let wheel = Wheel::builder().name("g-idle").threads(2).build().unwrap();
    for n in 0..100_000 {
        wheel.insert(HOUR + MS * n, || ());
    }
    // A thread that sleeps is not switched to, however busy the machine is; first let it get there.
    let mut before = switches("g-idle");
    loop {
        let_pass(MS * 50);
        let settled = switches("g-idle");
        if settled == before {
            break;
        }
        before = settled;
    }
    let_pass(MS * 300);
    assert_eq!(switches("g-idle"), before);
    assert_eq!(wheel.len(), 100_000);
}

/// How often threads whose names begin so were switched to, together.
#[cfg(target_os = "linux")]
fn switches(name: &str) -> u64 {
    let count = |status: &str| -> u64 {
        let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
        lines.map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    threads_named(name).iter().map(|status| count(status)).sum()
}

/// `/proc/self/task/*/status` of the threads whose names begin so.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("status")).ok()
    };
    let named = |status: &String| status.starts_with(&format!("Name:\t{name}"));
    tasks.filter_map(status).filter(named).collect()
}

// Cancel, take, reset.

#[test]
fn cancelled_is_never_run_and_dropped_already() {
    let (wheel, driver) = manual();
    let (token, alive) = counted();
    let handle = wheel.insert(MS, move || panic!("ran, with {token:?}"));
    assert_eq!(alive(), 1);
    assert!(wheel.is_pending(handle));
    assert!(wheel.cancel(handle));
    assert_eq!(alive(), 0);
    assert_eq!((driver.advance(HOUR), wheel.stats().panicked), (0, 0));
}

#[test]
fn cancel_false_means_that_nothing_changed() {
    let (wheel, driver) = manual();
    let [ran, cancelled, other] = [0, 1, 2].map(|n| wheel.insert(MS * (n + 1), || ()));
    assert_eq!(driver.advance(MS), 1);
    assert!(wheel.cancel(cancelled));
    for handle in [ran, cancelled] {
        assert!(!wheel.cancel(handle) && !wheel.is_pending(handle));
        assert!(!wheel.reset(handle, MS) && wheel.take(handle).is_none());
    }
    assert_eq!(wheel.len(), 1);
    assert!(wheel.is_pending(other));
    assert_eq!(driver.advance(MS * 2), 1);
}

#[test]
fn what_the_pool_has_cannot_be_cancelled() {
    let wheel = threads(1);
    let (release, starts) = blocker(&wheel);
    starts.recv().unwrap();
    let (sender, receiver) = channel();
    let queued = wheel.insert(Duration::ZERO, move || sender.send(()).unwrap());
    wait_for(|| !wheel.is_pending(queued));
    assert!(!wheel.cancel(queued), "the pool has it");
    assert!(receiver.try_recv().is_err(), "and has not started it");
    drop(release);
    receiver.recv().unwrap();
}

#[test]
fn of_cancel_and_fire_exactly_one() {
    let wheel = Wheel::builder().threads(2).tick(Duration::from_micros(100)).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let cancelled = AtomicUsize::new(0);
    let each = 4000;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 0..each {
                    let ran = Arc::clone(&ran);
                    let handle = wheel.insert(Duration::from_micros(n % 300), move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                    });
                    (0..n % 97).for_each(|_| std::hint::spin_loop());
                    cancelled.fetch_add(usize::from(wheel.cancel(handle)), Ordering::SeqCst);
                }
            });
        }
    });
    let done = || ran.load(Ordering::SeqCst) + cancelled.load(Ordering::SeqCst);
    wait_for(|| wheel.is_empty() && wheel.stats().in_flight == 0);
    assert_eq!(done(), 2 * each as usize);
}

#[test]
fn taken_is_given_back() {
    let (wheel, driver) = manual();
    let (token, alive) = counted();
    let handle = wheel.insert(MS, move || drop(token));
    let job = wheel.take(handle).unwrap();
    assert_eq!((alive(), driver.advance(HOUR), wheel.len()), (1, 0, 0));
    assert!(wheel.take(handle).is_none());
    job.run();
    assert_eq!(alive(), 0);
}

#[test]
fn reset_moves_both_ways() {
    let (wheel, driver) = manual();
    let handle = wheel.insert(MS * 300, || ());
    assert!(wheel.reset(handle, MS * 5));
    assert!(wheel.reset(handle, MS * 80_000));
    assert_eq!(driver.advance(MS * 400), 0);
    assert!(wheel.reset(handle, MS * 20));
    assert_eq!(wheel.remaining(handle), Some(MS * 20));
    assert_eq!((driver.advance(MS * 19), driver.advance(MS)), (0, 1));
    assert_eq!(driver.advance(HOUR), 0);
    assert!(!wheel.reset(handle, MS));
}

// Handles.

#[test]
fn a_handle_is_small_and_idle() {
    assert!(size_of::<Handle>() <= 16);
    assert_eq!(size_of::<Option<Handle>>(), size_of::<Handle>());
    fn is_a_value<T: Copy + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync>(_: T) {}
    let (wheel, driver) = manual();
    let handle = wheel.insert(MS, || ());
    is_a_value(handle);
    let kept = handle;
    assert_eq!(HashSet::from([handle, kept]).len(), 1);
    wheel.insert(MS, || ());
    assert_eq!(driver.advance(MS), 2, "one handle was dropped");
}

#[test]
fn a_stale_handle_does_nothing() {
    let (wheel, driver) = manual();
    let fired = wheel.insert(MS, || ());
    let cancelled = wheel.insert(MS, || ());
    wheel.cancel(cancelled);
    driver.advance(MS);
    // Both places are used again, over and over.
    for _ in 0..100_000 {
        let fresh = [0, 1].map(|_| wheel.insert(HOUR, || ()));
        for stale in [fired, cancelled] {
            assert!(!fresh.contains(&stale) && !wheel.is_pending(stale));
            assert!(!wheel.cancel(stale) && !wheel.reset(stale, MS));
            assert_eq!(wheel.remaining(stale), None);
        }
        assert!(fresh.iter().all(|&handle| wheel.cancel(handle)));
    }
}

#[test]
fn a_handle_of_another_wheel_does_nothing() {
    let ((ours, _driver), (theirs, _other)) = (manual(), manual());
    let sharded = Wheel::builder().shards(8).manual().unwrap().0;
    let handle = ours.insert(HOUR, || ());
    for foreign in [theirs.insert(HOUR, || ()), sharded.insert(HOUR, || ())] {
        assert!(!ours.is_pending(foreign) && !ours.cancel(foreign));
        assert!(!ours.reset(foreign, MS) && ours.take(foreign).is_none());
        assert!(ours.remaining(foreign).is_none() && ours.location(foreign).is_none());
    }
    assert!(ours.is_pending(handle));
    assert_eq!((ours.len(), theirs.len(), sharded.len()), (1, 1, 1));
}

// Jobs.

#[test]
fn every_job_runs_exactly_once() {
    let wheel = Wheel::builder().tick(Duration::from_micros(200)).build().unwrap();
    let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..20_000).map(|_| AtomicUsize::new(0)).collect());
    thread::scope(|scope| {
        for lane in 0..4 {
            let (wheel, runs) = (&wheel, &runs);
            scope.spawn(move || {
                for n in (lane..runs.len()).step_by(4) {
                    let runs = Arc::clone(runs);
                    let delay = Duration::from_micros((n as u64 * 7919) % 30_000);
                    wheel.insert(delay, move || {
                        runs[n].fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        }
    });
    wait_for(|| wheel.is_empty() && wheel.stats().in_flight == 0);
    let stats = wheel.stats();
    assert_eq!((stats.inserted, stats.fired, stats.cancelled), (20_000, 20_000, 0));
    assert!(runs.iter().all(|runs| runs.load(Ordering::SeqCst) == 1));
}

/// A builder whose handler collects the payloads that are strings.
fn reporting() -> (Builder, Receiver<&'static str>) {
    let (sender, receiver) = channel();
    let builder = Wheel::builder().threads(1).on_panic(move |payload| {
        sender.send(*payload.downcast::<&'static str>().unwrap()).unwrap();
    });
    (builder, receiver)
}

#[test]
fn a_panic_is_counted_reported_and_stays() {
    let (builder, reports) = reporting();
    let wheel = builder.build().unwrap();
    let (sender, receiver) = channel();
    for n in 0..3 {
        let sender = sender.clone();
        wheel.insert(MS * n, || panic_any("in a job"));
        wheel.insert(MS * n, move || sender.send(()).unwrap());
    }
    receiver.iter().take(3).for_each(drop);
    assert_eq!(reports.iter().take(3).collect::<Vec<_>>(), ["in a job"; 3]);
    assert_eq!(wheel.stats().panicked, 3);
}

#[test]
fn a_panic_in_a_drop_is_counted_reported_and_stays() {
    let (builder, reports) = reporting();
    let (wheel, driver) = builder.manual().unwrap();
    let insert = |text: &'static str| {
        let captured = OnDrop(move || panic_any(text));
        wheel.insert(MS, move || drop(captured))
    };
    assert!(wheel.cancel(insert("cancelled")));
    insert("run");
    assert_eq!(driver.advance(MS), 1);
    for text in ["discarded", "discarded"] {
        insert(text);
    }
    let (token, alive) = counted();
    wheel.insert(MS, move || drop(token));
    let scheduler = wheel.scheduler();
    drop(wheel);
    assert_eq!(alive(), 0, "the job after the bad ones");
    let reports: Vec<_> = reports.try_iter().collect();
    assert_eq!(reports, ["cancelled", "run", "discarded", "discarded"]);
    assert_eq!(scheduler.stats().panicked, 4);
}

#[test]
fn a_blocked_job_holds_up_its_own_thread_only() {
    let wheel = threads(2);
    let (release, starts) = blocker(&wheel);
    starts.recv().unwrap();
    let (sender, receiver) = channel();
    for n in 0..200 {
        let sender = sender.clone();
        wheel.insert(Duration::from_micros(n * 50), move || sender.send(()).unwrap());
    }
    receiver.iter().take(200).for_each(drop);
    drop(release);
}

#[test]
fn a_job_may_use_its_wheel() {
    let wheel = Arc::new(threads(2));
    let (sender, receiver) = channel();
    let own = Arc::new(OnceLock::new());
    let victim = wheel.insert(HOUR, || ());
    let moved = wheel.insert(HOUR, {
        let sender = sender.clone();
        move || sender.send("moved").unwrap()
    });
    let handle = wheel.insert(MS * 5, {
        let (wheel, own) = (Arc::clone(&wheel), Arc::clone(&own));
        move || {
            let own = *own.wait();
            assert!(!wheel.is_pending(own) && !wheel.cancel(own) && !wheel.reset(own, MS));
            assert!(wheel.cancel(victim) && wheel.reset(moved, MS));
            let sender = sender.clone();
            wheel.insert(MS, move || sender.send("inserted").unwrap());
            assert!(wheel.stats().in_flight >= 1);
        }
    });
    own.set(handle).unwrap();
    let heard: HashSet<_> = receiver.iter().take(2).collect();
    assert_eq!(heard, HashSet::from(["moved", "inserted"]));
    assert_eq!(wheel.stats().panicked, 0);
}

#[test]
fn a_drop_may_use_the_wheel() {
    let wheel = threads(1);
    let insert = |delay| {
        let scheduler = wheel.scheduler();
        let captured = OnDrop(move || {
            let _ = scheduler.len();
            if let Ok(handle) = scheduler.insert(HOUR, || ()) {
                assert!(scheduler.reset(handle, HOUR * 2) && scheduler.cancel(handle));
            }
        });
        wheel.insert(delay, move || drop(captured))
    };
    assert!(wheel.cancel(insert(HOUR)));
    insert(Duration::ZERO);
    wait_for(|| wheel.is_empty() && wheel.stats().in_flight == 0);
    assert_eq!(wheel.stats().panicked, 0);
    insert(HOUR);
    let scheduler = wheel.scheduler();
    drop(wheel);
    assert_eq!(scheduler.stats().panicked, 0);
}

/// Runs `end` on the wheel, in a job of that wheel; returns when the job has.
fn in_its_own_job(end: impl FnOnce(Wheel) + Send + 'static) {
    let own: Arc<Mutex<Option<Wheel>>> = Arc::default();
    let (done, ended) = channel();
    let wheel = threads(1);
    let slot = Arc::clone(&own);
    let (ready, go) = channel::<()>();
    wheel.insert(HOUR, || ());
    wheel.insert(Duration::ZERO, move || {
        go.recv().unwrap();
        end(slot.lock().unwrap().take().unwrap());
        done.send(()).unwrap();
    });
    *own.lock().unwrap() = Some(wheel);
    ready.send(()).unwrap();
    ended.recv().unwrap();
}

#[test]
fn a_job_may_drop_its_wheel() {
    in_its_own_job(drop);
    // And a manual one.
    let own: Arc<Mutex<Option<Wheel>>> = Arc::default();
    let (wheel, driver) = manual();
    let slot = Arc::clone(&own);
    wheel.insert(MS, move || drop(slot.lock().unwrap().take()));
    wheel.insert(MS * 2, || panic!("the wheel is gone"));
    let scheduler = wheel.scheduler();
    *own.lock().unwrap() = Some(wheel);
    assert_eq!(driver.advance(HOUR), 1);
    assert_eq!(scheduler.stats().panicked, 0);
}

#[test]
fn a_job_may_shut_its_wheel_down() {
    in_its_own_job(|wheel| assert_eq!(wheel.shutdown().count(), 1));
    // The job ends, and its thread, the only one, then runs what it spawned.
    let (done, ended) = channel();
    in_its_own_job(|wheel| rayon::spawn(move || done.send(wheel.shutdown().count()).unwrap()));
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(1));
}

/// Jobs without end, until the flag is set: each inserts its successor, and takes so long that with
/// some thousands of them there are always some due.
fn flood(scheduler: &Scheduler, stop: &Arc<AtomicBool>, breadth: usize) {
    for _ in 0..breadth {
        let (next, flag) = (scheduler.clone(), Arc::clone(stop));
        if !stop.load(Ordering::SeqCst) {
            let _ = scheduler.insert(Duration::ZERO, move || {
                (0..1000).for_each(|_| std::hint::spin_loop());
                flood(&next, &flag, 1);
            });
        }
    }
}

fn pool_of_one() -> Arc<rayon::ThreadPool> {
    Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap())
}

#[test]
fn a_shared_pool_gets_its_turn() {
    let (pool, stop) = (pool_of_one(), Arc::default());
    let wheel = Wheel::builder().pool(Arc::clone(&pool)).build().unwrap();
    flood(&wheel.scheduler(), &stop, 20_000);
    wait_for(|| wheel.stats().fired > 0);
    assert_eq!(pool.install(|| 6 * 7), 42, "in the middle of the flood");
    stop.store(true, Ordering::SeqCst);
    let _ = wheel.shutdown();
    assert_eq!(pool.install(|| 6 * 7), 42, "after the wheel");
}

#[test]
fn two_wheels_share_a_pool() {
    let (pool, stop) = (pool_of_one(), Arc::default());
    let [one, two] = [0, 1].map(|_| Wheel::builder().pool(Arc::clone(&pool)).build().unwrap());
    flood(&one.scheduler(), &stop, 5_000);
    flood(&two.scheduler(), &stop, 5_000);
    let ended = |wheel: &Wheel| {
        let stats = wheel.stats();
        stats.fired - stats.in_flight as u64
    };
    wait_for(|| ended(&one) > 2_000 && ended(&two) > 2_000);
    assert_eq!(pool.install(|| 6 * 7), 42);
    stop.store(true, Ordering::SeqCst);
}

#[test]
fn a_job_that_waits_in_rayon_gets_on() {
    let (wheel, stop) = (threads(2), Arc::default());
    flood(&wheel.scheduler(), &stop, 5_000);
    let (sender, receiver) = channel();
    for _ in 0..20 {
        let sender = sender.clone();
        wheel.insert(Duration::ZERO, move || {
            let work = || let_pass(MS * 2);
            rayon::join(work, work);
            sender.send(()).unwrap();
        });
    }
    for _ in 0..20 {
        receiver.recv_timeout(Duration::from_secs(60)).expect("buried under other jobs");
    }
    stop.store(true, Ordering::SeqCst);
}

// Bounds.

#[test]
fn a_full_wheel_gives_the_job_back() {
    let (wheel, driver) = Wheel::builder().max_pending(2).manual().unwrap();
    let (token, alive) = counted();
    let first = wheel.insert(MS, || ());
    wheel.try_insert(MS, || ()).unwrap();
    let refused = wheel.try_insert_at(driver.now(), move || drop(token)).unwrap_err();
    assert_eq!(refused.kind(), InsertErrorKind::Full);
    assert_eq!(refused.to_string(), "the wheel is full");
    assert_eq!(alive(), 1);
    refused.into_inner()();
    assert_eq!(alive(), 0);
    assert_eq!(wheel.scheduler().insert(MS, || ()).unwrap_err().kind(), InsertErrorKind::Full);
    assert!(wheel.cancel(first));
    wheel.try_insert(MS, || ()).unwrap();
    assert!(wheel.try_insert(MS, || ()).is_err());
    assert_eq!(driver.advance(MS), 2);
    let both = [0, 1].map(|_| wheel.try_insert(HOUR, || ()).unwrap());
    assert!(wheel.take(both[0]).is_some());
    assert!(wheel.try_insert(MS, || ()).is_ok() && wheel.try_insert(MS, || ()).is_err());
}

#[test]
fn insert_panics_on_a_full_wheel() {
    let (wheel, _driver) = Wheel::builder().max_pending(1).manual().unwrap();
    wheel.insert(MS, || ());
    let panic = catch_unwind(AssertUnwindSafe(|| wheel.insert(MS, || ()))).unwrap_err();
    assert_eq!(*panic.downcast::<String>().unwrap(), "the wheel is full");
    assert_eq!(wheel.len(), 1);
}

#[test]
fn beyond_max_in_flight_jobs_wait_in_the_wheel() {
    let wheel = Wheel::builder().threads(2).max_in_flight(2).build().unwrap();
    let first = [blocker(&wheel), blocker(&wheel)];
    first.iter().for_each(|(_, starts)| starts.recv().unwrap());
    let ran = Arc::new(AtomicU64::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let handles: Vec<Handle> = (0..50)
        .map(|_| {
            let (ran, most, scheduler) = (Arc::clone(&ran), Arc::clone(&most), wheel.scheduler());
            wheel.insert(Duration::ZERO, move || {
                most.fetch_max(scheduler.stats().in_flight, Ordering::SeqCst);
                ran.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    let_pass(MS * 20);
    assert_eq!((wheel.len(), wheel.stats().in_flight), (50, 2));
    assert_eq!(wheel.remaining(handles[0]), Some(Duration::ZERO), "due, and waits");
    assert!(handles[..10].iter().all(|&handle| wheel.cancel(handle)));
    drop(first);
    wait_for(|| ran.load(Ordering::SeqCst) == 40);
    assert!(most.load(Ordering::SeqCst) <= 2);
}

#[test]
fn bad_values_are_refused_by_name() {
    let built = |builder: Builder| builder.build().unwrap_err();
    let manual = |builder: Builder| builder.manual().unwrap_err();
    let new = Wheel::builder;
    let too_long = Duration::from_secs(u64::MAX);
    for tick in [Duration::ZERO, too_long] {
        assert!(matches!(built(new().tick(tick)), ConfigError::Tick(t) if t == tick));
        assert!(manual(new().tick(tick)).to_string().contains(&format!("{tick:?}")));
    }
    for threads in [0, Builder::MAX_THREADS + 1] {
        assert!(matches!(built(new().threads(threads)), ConfigError::Threads(n) if n == threads));
    }
    for shards in [0, Builder::MAX_SHARDS + 1] {
        assert!(matches!(built(new().shards(shards)), ConfigError::Shards(n) if n == shards));
        assert!(matches!(manual(new().shards(shards)), ConfigError::Shards(n) if n == shards));
    }
    assert!(matches!(built(new().max_pending(0)), ConfigError::MaxPending(0)));
    assert!(matches!(built(new().max_in_flight(0)), ConfigError::MaxInFlight(0)));
    assert!(matches!(manual(new().max_in_flight(0)), ConfigError::MaxInFlight(0)));
    assert!(matches!(built(new().name("a\0b")), ConfigError::Name(name) if name == "a\0b"));
    assert!(matches!(manual(new().name("a\0b")), ConfigError::Name(_)));
    assert_eq!(Geometry::ring(0), Err(GeometryError::NoSlots { level: 0 }));
    assert_eq!(Geometry::levels(&[]), Err(GeometryError::NoLevels));
    assert!(Geometry::ring(usize::MAX).unwrap_err().to_string().contains(&usize::MAX.to_string()));
    assert!(Geometry::levels(&[1 << 16; 4]).is_err());
}

// The end.

#[test]
fn shutdown_hands_back_what_never_ran() {
    let wheel = threads(1);
    let (release, starts) = blocker(&wheel);
    starts.recv().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let late = wheel.insert(HOUR * 2, || ());
    let soon = wheel.insert(HOUR, || ());
    let never = wheel.insert(Duration::MAX, || ());
    let queued = wheel.insert(Duration::ZERO, {
        let ended = Arc::clone(&ended);
        move || ended.store(true, Ordering::SeqCst)
    });
    wait_for(|| !wheel.is_pending(queued));
    let (scheduler, stopping) = (wheel.scheduler(), wheel);
    let shutdown = thread::spawn(move || stopping.shutdown());
    // Once inserts are refused the shutdown has begun; it waits for the job that is running.
    wait_for(|| {
        scheduler.insert(HOUR, || ()).is_err_and(|e| e.kind() == InsertErrorKind::Shutdown)
    });
    let_pass(MS * 20);
    assert!(!shutdown.is_finished());
    drop(release);
    let unfired = shutdown.join().unwrap();
    let jobs: Vec<_> = unfired.collect();
    let inserted_late = jobs.len() - 4;
    let order: Vec<Handle> = jobs.iter().map(|unfired| unfired.handle).collect();
    assert_eq!((order[0], order[1]), (queued, soon));
    assert_eq!(order[order.len() - 2..], [late, never]);
    assert_eq!(jobs[0].remaining, Duration::ZERO);
    assert!(jobs[1].remaining <= HOUR + MS && jobs[1].remaining > HOUR / 2);
    assert_eq!(jobs[jobs.len() - 1].remaining, Duration::MAX);
    assert!(
        !ended.load(Ordering::SeqCst),
        "started after the shutdown, {inserted_late} in between"
    );
    jobs.into_iter().next().unwrap().job.run();
    assert!(ended.load(Ordering::SeqCst));
}

#[test]
fn late_callers_get_their_job_back() {
    for stop in [drop as fn(Wheel), |wheel| drop(wheel.shutdown())] {
        let wheel = threads(1);
        let scheduler = wheel.scheduler().clone();
        let (held, alive) = counted();
        let pending = scheduler.insert(HOUR, move || drop(held)).unwrap();
        stop(wheel);
        assert_eq!(alive(), 0, "a scheduler keeps no job alive");
        let (token, alive) = counted();
        let refused = scheduler.insert(MS, move || drop(token)).unwrap_err();
        assert_eq!(refused.kind(), InsertErrorKind::Shutdown);
        assert_eq!(format!("{refused:?}"), "InsertError { kind: Shutdown, .. }");
        assert_eq!(alive(), 1);
        drop(refused);
        assert!(scheduler.try_insert_at(now(), || ()).is_err());
        assert!(!scheduler.cancel(pending) && !scheduler.reset(pending, MS));
        assert!(scheduler.is_empty() && scheduler.take(pending).is_none());
    }
}

#[test]
fn drop_discards_and_does_not_wait() {
    let wheel = threads(1);
    let (release, starts) = blocker(&wheel);
    starts.recv().unwrap();
    let (token, alive) = counted();
    for delay in [Duration::ZERO, HOUR, Duration::MAX] {
        let token = Arc::clone(&token);
        let handle = wheel.insert(delay, move || drop(token));
        wait_for(|| !delay.is_zero() || !wheel.is_pending(handle));
    }
    drop(token);
    assert_eq!(alive(), 3);
    drop(wheel);
    assert_eq!(alive(), 0);
    release.send(()).expect("the job is still running");
}

#[cfg(target_os = "linux")]
#[test]
fn no_thread_is_left_behind() {
    let build = |name| Wheel::builder().name(name).threads(3).build().unwrap();
    let wheel = build("g-shut");
    let (done, ended) = mpsc::channel();
    wheel.insert(Duration::ZERO, move || done.send(()).unwrap());
    ended.recv().unwrap();
    wait_for(|| threads_named("g-shut").len() == 4);
    let scheduler = wheel.scheduler();
    let _ = wheel.shutdown();
    // They were joined; give the system the moment it takes to take them off its list.
    wait_for(|| threads_named("g-shut").is_empty());
    let wheel = build("g-drop");
    let (release, starts) = blocker(&wheel);
    starts.recv().unwrap();
    drop(wheel);
    assert!(!threads_named("g-drop-t").iter().any(|status| status.contains("g-drop-ticker")));
    drop(release);
    wait_for(|| threads_named("g-drop").is_empty());
    drop(scheduler);
}

// What is not promised.

#[test]
fn jobs_of_one_tick_all_run_in_some_order() {
    let (wheel, driver) = Wheel::builder().shards(3).manual().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    for n in 0..100 {
        let ran = Arc::clone(&ran);
        wheel.insert(MS * 7, move || ran.lock().unwrap().push(n));
    }
    assert_eq!((driver.advance(MS * 6), driver.advance(MS)), (0, 100));
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_unstable();
    assert_eq!(ran, (0..100).collect::<Vec<_>>());
}

/// The document and this file name the same tests.
#[test]
fn every_sentence_has_its_test() {
    let document = include_str!("../../docs/guarantees.md");
    let tests = [
        include_str!("main.rs"),
        include_str!("again.rs"),
        include_str!("many.rs"),
        include_str!("names.rs"),
        include_str!("wall.rs"),
    ]
    .concat();
    let named: HashSet<&str> =
        document.split('[').skip(1).filter_map(|rest| rest.split(']').next()).collect();
    let written: HashSet<&str> = tests
        .split("#[test]\nfn ")
        .skip(1)
        .filter_map(|rest| rest.split('(').next())
        .filter(|&name| name != "every_sentence_has_its_test")
        .collect();
    assert!(named.len() > 30);
    assert_eq!(named, written);
}
