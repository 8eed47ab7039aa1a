//! Attacks: attempts to make the wheel hang, die, or lose a job.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};
use tickwheel::{
    Geometry, Group, Guard, Handle, Hierarchy, Keyed, Next, Repeat, Scheduler, Tick, Wheel,
};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Waits for `condition`. If it takes a minute, that is a defect on any machine.
#[track_caller]
#[allow(clippy::disallowed_methods)]
fn wait_for(condition: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "this never comes true");
        thread::yield_now();
    }
}

/// Returns a pool whose threads are all busy until the sender is dropped.
fn full_pool(threads: usize) -> (Arc<ThreadPool>, Sender<()>) {
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
    let (release, gate) = channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let busy = Arc::new(Barrier::new(threads + 1));
    for _ in 0..threads {
        let (gate, busy) = (Arc::clone(&gate), Arc::clone(&busy));
        pool.spawn(move || {
            busy.wait();
            let _ = gate.lock().unwrap().recv();
        });
    }
    busy.wait();
    (pool, release)
}

/// A pool whose threads are busy delays jobs, and loses none.
#[test]
fn full_pool_delays_jobs_and_loses_none() {
    let (pool, release) = full_pool(2);
    let wheel = Wheel::builder().pool(pool).build().unwrap();
    let (sender, receiver) = channel();
    for n in 0..100 {
        let sender = sender.clone();
        wheel.insert(Duration::ZERO, move || sender.send(n).unwrap());
    }
    wait_for(|| wheel.is_empty());
    assert_eq!(wheel.stats().in_flight, 100);
    assert!(receiver.try_recv().is_err());
    drop(release);
    assert_eq!(receiver.iter().take(100).sum::<i32>(), 4950);
}

/// Shutdown and drop do not wait for a pool whose threads are busy.
#[test]
fn full_pool_delays_neither_shutdown_nor_drop() {
    let (pool, release) = full_pool(1);
    let wheel = Wheel::builder().pool(Arc::clone(&pool)).build().unwrap();
    wheel.insert(Duration::ZERO, || panic!("there was no thread for it"));
    wait_for(|| wheel.is_empty());
    assert_eq!(wheel.shutdown().count(), 1);
    let wheel = Wheel::builder().pool(pool).build().unwrap();
    wheel.insert(Duration::ZERO, || panic!("there was no thread for it"));
    wait_for(|| wheel.is_empty());
    drop(wheel);
    drop(release);
}

/// A drainer that yields to the pool does not run another drainer on top of it.
#[test]
fn drainer_that_yields_does_not_run_another_on_top() {
    // One thread is busy. The other ends a stint, and finds the drainer that was meant for the first.
    // If it ran that one on top, it would hold both permits: a job there blocks until a later job has
    // run, and no thread would run that.
    let (pool, release) = full_pool(2);
    let wheel = Wheel::builder().pool(Arc::clone(&pool)).build().unwrap();
    let (open, gate) = channel::<()>();
    let (open, gate) = (Mutex::new(Some(open)), Mutex::new(gate));
    let doors = Arc::new((open, gate));
    let (started, starts) = channel();
    let ran = Arc::new(AtomicUsize::new(0));
    let job = || {
        let (doors, started, ran) = (Arc::clone(&doors), started.clone(), Arc::clone(&ran));
        let job = move || match ran.fetch_add(1, Ordering::SeqCst) {
            64 => {
                started.send(()).unwrap();
                assert!(doors.1.lock().unwrap().recv().is_err());
            }
            80 => drop(doors.0.lock().unwrap().take()),
            _ => (),
        };
        (Duration::ZERO, job)
    };
    wheel.insert_batch((0..100).map(|_| job())).unwrap();
    wait_for(|| wheel.is_empty());
    // One thread comes free, and runs jobs until one blocks; then the other.
    release.send(()).unwrap();
    starts.recv().unwrap();
    release.send(()).unwrap();
    wait_for(|| ran.load(Ordering::SeqCst) == 100 && wheel.stats().in_flight == 0);
    assert_eq!(wheel.stats().panicked, 0);
}

/// A batch of inserts or resets wakes a ticker that sleeps for longer.
#[test]
fn batch_wakes_a_ticker_that_sleeps() {
    let wheel = Wheel::builder().threads(1).build().unwrap();
    let (sender, ran) = channel();
    let job = |n| {
        let sender = sender.clone();
        move || sender.send(n).unwrap()
    };
    let minute = Duration::from_secs(60);
    let far = wheel.insert(HOUR, job(1));
    // The ticker falls asleep meanwhile.
    assert!(ran.recv_timeout(MS * 50).is_err());
    assert_eq!(wheel.reset_batch(&[(far, Duration::ZERO)]), [true]);
    assert_eq!(ran.recv_timeout(minute), Ok(1));
    assert!(ran.recv_timeout(MS * 50).is_err());
    wheel.insert_batch([(HOUR, job(2)), (Duration::ZERO, job(3))]).unwrap();
    assert_eq!(ran.recv_timeout(minute), Ok(3));
}

/// Inserts itself anew each time it runs, and tries to cancel itself from inside.
fn repeat(scheduler: &Scheduler, runs: &Arc<AtomicUsize>, own: Arc<OnceLock<Handle>>) {
    let (next, runs, mine) = (scheduler.clone(), Arc::clone(runs), Arc::clone(&own));
    let inserted = scheduler.insert(MS, move || {
        runs.fetch_add(1, Ordering::SeqCst);
        assert!(!next.cancel(*mine.get().unwrap()), "what runs cannot be cancelled");
        if runs.load(Ordering::SeqCst) < 5 {
            repeat(&next, &runs, Arc::default());
        }
    });
    own.set(inserted.unwrap()).unwrap();
}

/// A job that inserts itself anew cannot cancel its current run.
#[test]
fn cancel_by_the_job_itself_returns_false() {
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    repeat(&wheel.scheduler(), &runs, Arc::default());
    assert_eq!(driver.advance(HOUR), 5);
    assert_eq!((runs.load(Ordering::SeqCst), wheel.stats().panicked), (5, 0));
}

/// A repeating job may drop or shut down its wheel. It does not run again, and is dropped.
#[test]
fn repeating_job_may_end_its_wheel() {
    for shutdown in [false, true] {
        let wheel = Arc::new(Mutex::new(None));
        let (own, (sender, ended)) = (Arc::clone(&wheel), channel());
        let mut built = wheel.lock().unwrap();
        let scheduler = built.insert(Wheel::builder().threads(1).build().unwrap()).scheduler();
        let handle = scheduler.repeat(Repeat::every(MS), move |_| {
            let wheel: Wheel = own.lock().unwrap().take().expect("there is no second run");
            let unfired = if shutdown { wheel.shutdown().len() } else { 0 };
            sender.send(unfired).unwrap();
            Next::Period
        });
        let other = scheduler.every(HOUR, || ()).unwrap();
        drop(built);
        assert_eq!(ended.recv(), Ok(usize::from(shutdown)), "the other, and not itself");
        // The captures are dropped with the job.
        assert!(ended.recv().is_err());
        assert!(!scheduler.cancel(handle.unwrap()) && !scheduler.cancel(other));
    }
}

/// A job that owns its group, its guard or its `Keyed` ends and is dropped.
#[test]
fn job_that_owns_its_group_guard_or_keyed_is_dropped() {
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let second = MS * 1000;
    // One of the group's own jobs drops the group while the job runs.
    let own = Arc::new(Mutex::new(None));
    let inner = Arc::clone(&own);
    let group = Group::new(wheel.scheduler());
    let closes = move |_: tickwheel::Run| {
        drop(inner.lock().unwrap().take());
        Next::Period
    };
    group.repeat(Repeat::every(second), closes).unwrap();
    group.insert(HOUR, || ()).unwrap();
    *own.lock().unwrap() = Some(group);
    assert_eq!((driver.advance(second * 3), wheel.len()), (1, 0));
    // The guarded job owns its guard.
    let own = Arc::new(Mutex::new(None));
    let inner = Arc::clone(&own);
    let ping = wheel.every(second, move || drop(inner.lock().unwrap().take())).unwrap();
    *own.lock().unwrap() = Some(Guard::new(wheel.scheduler(), ping));
    assert_eq!((driver.advance(second * 3), wheel.len()), (1, 0));
    // The job of every key owns the `Keyed`, and cancels the next key when it is dropped.
    let keyed: Keyed<u32> = Keyed::new(wheel.scheduler());
    struct Cancels(Keyed<u32>, u32);
    impl Drop for Cancels {
        fn drop(&mut self) {
            self.0.cancel(&self.1);
        }
    }
    for key in 0..10_000 {
        let next = Cancels(keyed.clone(), key + 1);
        keyed.insert(key, HOUR, move || drop(next)).unwrap();
    }
    assert!(keyed.cancel(&9_990), "and with it the last ten");
    assert_eq!((keyed.len(), wheel.len()), (9_990, 9_990));
    assert_eq!((keyed.cancel_all(), keyed.len(), wheel.len()), (9_990, 0, 0));
    assert_eq!(wheel.stats().panicked, 0);
}

/// Each of 100 000 repeating jobs can be cancelled: in the wheel, in the queue, or while it runs.
#[test]
fn repeating_jobs_by_the_hundred_thousand_can_be_cancelled() {
    let wheel = Wheel::builder().tick(MS * 10).build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let handles: Vec<Handle> = (0..100_000)
        .map(|n| {
            let runs = Arc::clone(&runs);
            let first = Repeat::every(MS * 50).starting(MS * (n % 50));
            let count = move |_: tickwheel::Run| {
                runs.fetch_add(1, Ordering::Relaxed);
                Next::Period
            };
            wheel.repeat(first, count).unwrap()
        })
        .collect();
    wait_for(|| runs.load(Ordering::Relaxed) > 300_000);
    // Every job can be cancelled, wherever it is: in the wheel, in the queue, running.
    assert!(wheel.cancel_batch(&handles).into_iter().all(|cancelled| cancelled));
    wait_for(|| wheel.stats().in_flight == 0);
    let so_far = runs.load(Ordering::Relaxed);
    assert!(wheel.is_empty());
    thread::yield_now();
    assert_eq!(runs.load(Ordering::Relaxed), so_far);
}

/// An advance inside a job of the same driver returns at once; the outer advance runs the jobs.
#[test]
fn driver_may_advance_inside_its_own_advance() {
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let driver = Arc::new(driver);
    let inner = Arc::clone(&driver);
    wheel.insert(MS, move || assert_eq!(inner.advance(MS * 10), 0, "the outer call does it"));
    wheel.insert(MS * 11, || ());
    wheel.insert(MS * 12, || ());
    assert_eq!(driver.advance(MS), 2);
    assert_eq!(driver.advance(MS), 1);
    assert_eq!(wheel.stats().panicked, 0);
}

/// The cost of `next_turn` does not grow with the number of timers.
#[test]
fn next_turn_costs_the_same_with_many_timers() {
    // A million searches among 200,000 timers: if each were a scan, this would take hours.
    let mut wheel = Hierarchy::default();
    for n in 0..200_000 {
        wheel.insert(Tick::new(1_000_000 + n % 1000), n);
    }
    for _ in 0..1_000_000 {
        assert!(wheel.next_turn().is_some_and(|next| next <= Tick::new(1_000_000)));
    }
}

/// A cancel in each pause of a burst does not make the advance visit the slot anew.
#[test]
fn burst_that_is_cancelled_while_it_fires_is_not_rescanned() {
    // A cancel in every pause: if each had to look at the whole slot, this would take hours.
    let mut wheel = Hierarchy::default();
    let count = 1_000_000;
    let keys: Vec<_> = (0..count).map(|n| wheel.insert(Tick::new(5), n)).collect();
    let (mut due, mut cancelled) = (Vec::new(), 0);
    while !wheel.advance(Tick::new(5), 16, &mut due).finished {
        cancelled += u64::from(wheel.cancel(keys[cancelled as usize]).is_some());
    }
    assert_eq!(due.len() as u64 + cancelled, count);
}

/// The same holds if one timer was inserted after its deadline.
#[test]
fn burst_with_a_late_timer_is_not_rescanned() {
    // A timer that was inserted after its deadline must not make each pause look at the whole slot.
    let mut wheel = Hierarchy::default();
    assert!(wheel.advance(Tick::new(4), 0, &mut Vec::new()).finished);
    let count = 1_000_000;
    let keys: Vec<_> = (0..count).map(|n| wheel.insert(Tick::new(5), n)).collect();
    wheel.insert(Tick::new(3), count);
    let (mut due, mut cancelled) = (Vec::new(), 0);
    while !wheel.advance(Tick::new(5), 16, &mut due).finished {
        cancelled += u64::from(wheel.cancel(keys[cancelled as usize]).is_some());
    }
    assert_eq!(due.len() as u64 + cancelled, count + 1);
}

/// An insert of a past deadline in each pause of a burst does not make the advance visit the slot anew.
#[test]
fn burst_with_late_inserts_is_not_rescanned() {
    // As above, with an insert after its deadline in every pause.
    let mut wheel = Hierarchy::default();
    assert!(wheel.advance(Tick::new(4), 0, &mut Vec::new()).finished);
    let count = 1_000_000;
    (0..count).for_each(|n| {
        wheel.insert(Tick::new(5), n);
    });
    let (mut due, mut late) = (Vec::new(), 0);
    while !wheel.advance(Tick::new(5), 16, &mut due).finished {
        wheel.insert(Tick::new(late % 5), count + late);
        late += 1;
    }
    assert_eq!(due.len() as u64, count + late);
}

/// Visits a slot with a budget of 256 and an insert in every pause. Most of its timers wait for
/// another cycle: the visit must look at each of them once, and not begin again.
fn visit_a_full_slot(sizes: &[usize], first_visit: u64, insert: impl Fn(usize) -> u64) {
    let mut wheel = Hierarchy::new(Geometry::levels(sizes).unwrap());
    let range = sizes.iter().product::<usize>() as u64;
    let count = 50_000;
    for n in 0..count {
        wheel.insert(Tick::new(first_visit + n % 3 * range), 0);
    }
    let (mut due, mut pauses) = (Vec::new(), 0);
    while !wheel.advance(Tick::new(first_visit), 256, &mut due).finished {
        assert!(pauses < 250, "{count} timers cost 196 budgets of 256, and some for the inserts");
        pauses += 1;
        wheel.insert(Tick::new(insert(pauses)), 0);
    }
    wheel.check().unwrap();
    assert!(wheel.advance(Tick::new(first_visit + 8 * range), usize::MAX, &mut due).finished);
    assert_eq!((due.len(), wheel.len()), (count as usize + pauses, 0));
}

/// Inserts into a slot that is being visited do not make the visit begin again.
#[test]
fn inserts_into_the_visited_slot_do_not_delay_the_visit() {
    // Inserts for another cycle; for the current tick; for both in turn.
    visit_a_full_slot(&[3600], 3600, |_| 7200);
    visit_a_full_slot(&[3600], 3600, |_| 3600);
    visit_a_full_slot(&[3600], 3600, |pause| 3600 * (1 + pause as u64 % 4));
}

/// Inserts into the next tick do not make the visit of an outer slot begin again.
#[test]
fn inserts_into_the_next_tick_do_not_delay_an_outer_visit() {
    visit_a_full_slot(&[4, 64], 256, |_| 0);
    visit_a_full_slot(&[4, 64], 256, |_| 256);
    visit_a_full_slot(&[4, 4, 16], 256, |_| 256);
    visit_a_full_slot(&[4, 64], 256, |pause| 256 * (pause as u64 % 3));
}

/// A panic of a task that a job spawned on the pool is caught and counted.
#[test]
fn panic_in_a_task_that_a_job_spawned_is_caught() {
    let wheel = Wheel::builder().threads(1).build().unwrap();
    wheel.insert(Duration::ZERO, || rayon::spawn(|| panic!("in a task that a job spawned")));
    wait_for(|| wheel.stats().panicked == 1);
}

/// A million jobs all run while eight threads insert, reset and cancel others.
#[test]
fn jobs_by_the_million_run_while_threads_insert() {
    let wheel = Wheel::builder().threads(2).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let (before, count) = (wheel.insert(HOUR, || ()), 1_000_000);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..count / 8 {
                    let ran = Arc::clone(&ran);
                    wheel.insert(MS * 20, move || {
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                    let cancelled = wheel.insert(HOUR, || panic!("was cancelled"));
                    assert!(wheel.reset(cancelled, HOUR * 2) && wheel.cancel(cancelled));
                }
            });
        }
    });
    wait_for(|| ran.load(Ordering::Relaxed) == count);
    assert!(wheel.cancel(before));
    assert_eq!((wheel.stats().panicked, wheel.len()), (0, 0));
}

/// A chain of drops that each insert the next job ends with the wheel.
#[test]
fn drop_that_inserts_its_successor_ends_with_the_wheel() {
    // Each captured value inserts the next when it is dropped. The end of the wheel ends the chain.
    struct Chain(Scheduler, Arc<AtomicUsize>);
    impl Drop for Chain {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
            let next = Chain(self.0.clone(), Arc::clone(&self.1));
            if let Err(refused) = self.0.insert(HOUR, move || drop(next)) {
                // The drop of the refused job would try again, without end.
                std::mem::forget(refused);
            }
        }
    }
    let wheel = Wheel::builder().threads(1).build().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let first = Chain(wheel.scheduler(), Arc::clone(&drops));
    let handle = wheel.insert(HOUR, move || drop(first));
    assert!(wheel.cancel(handle));
    assert_eq!((drops.load(Ordering::SeqCst), wheel.len()), (1, 1));
    drop(wheel);
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

/// Fifty wheels are built and ended, one after the other.
#[test]
fn wheels_may_come_and_go_by_the_dozen() {
    for n in 0..50 {
        let wheel = Wheel::builder().threads(1).shards(1).build().unwrap();
        let (sender, receiver) = channel();
        wheel.insert(Duration::ZERO, move || sender.send(n).unwrap());
        wheel.insert(HOUR, || ());
        if n % 2 == 0 {
            assert_eq!(receiver.recv(), Ok(n));
            assert_eq!(wheel.shutdown().count(), 1);
        }
    }
}

/// Jobs that wait in rayon for parts of themselves all end.
#[test]
fn jobs_may_use_rayon_inside() {
    // While a job waits in rayon, rayon runs other tasks of the pool on top of it.
    let wheel = Wheel::builder().threads(2).build().unwrap();
    let (sender, receiver) = channel();
    for _ in 0..500 {
        let sender = sender.clone();
        wheel.insert(Duration::ZERO, move || {
            let (a, b) = rayon::join(|| fib(12), || fib(13));
            sender.send(a + b).unwrap();
        });
    }
    assert!(receiver.iter().take(500).all(|sum| sum == 144 + 233));
    assert_eq!(wheel.shutdown().count(), 0);
}

fn fib(n: u64) -> u64 {
    match n {
        0 | 1 => n,
        _ => {
            let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
    }
}
