//! Attempts to make the wheel hang, die, or lose a job.

use super::*;
use rayon::ThreadPool;
use std::sync::Barrier;
use tickwheel::{Guard, Keyed, Next, Repeat};

/// Returns a pool whose threads are all busy until the sender is dropped.
fn full_pool(threads: usize) -> (Arc<ThreadPool>, Sender<()>) {
    let pool = pool_of(threads);
    let (release, gate) = channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
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
    let wheel = threads(1);
    let (sender, ran) = channel();
    let job = |n| {
        let sender = sender.clone();
        move || sender.send(n).unwrap()
    };
    let far = wheel.insert(HOUR, job(1));
    // The ticker falls asleep meanwhile.
    assert!(ran.recv_timeout(MS * 50).is_err());
    assert_eq!(wheel.reset_batch(&[(far, Duration::ZERO)]), [true]);
    assert_eq!(ran.recv_timeout(MINUTE), Ok(1));
    assert!(ran.recv_timeout(MS * 50).is_err());
    wheel.insert_batch([(HOUR, job(2)), (Duration::ZERO, job(3))]).unwrap();
    assert_eq!(ran.recv_timeout(MINUTE), Ok(3));
}

/// A repeating job may drop or shut down its wheel. It does not run again, and is dropped.
#[test]
fn repeating_job_may_end_its_wheel() {
    for shutdown in [false, true] {
        let wheel = Arc::new(Mutex::new(None));
        let (own, (sender, ended)) = (Arc::clone(&wheel), channel());
        let mut built = wheel.lock().unwrap();
        let scheduler = built.insert(threads(1)).scheduler();
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

/// A job that owns its guard or its `Keyed` ends and is dropped.
#[test]
fn job_that_owns_its_guard_or_keyed_is_dropped() {
    let (wheel, driver) = manual();
    let second = MS * 1000;
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
    let (wheel, driver) = manual();
    let driver = Arc::new(driver);
    let inner = Arc::clone(&driver);
    wheel.insert(MS, move || assert_eq!(inner.advance(MS * 10), 0, "the outer call does it"));
    wheel.insert(MS * 11, || ());
    wheel.insert(MS * 12, || ());
    assert_eq!(driver.advance(MS), 2);
    assert_eq!(driver.advance(MS), 1);
    assert_eq!(wheel.stats().panicked, 0);
}

/// A panic of a task that a job spawned on the pool is caught and counted.
#[test]
fn panic_in_a_task_that_a_job_spawned_is_caught() {
    let wheel = threads(1);
    wheel.insert(Duration::ZERO, || rayon::spawn(|| panic!("in a task that a job spawned")));
    wait_for(|| wheel.stats().panicked == 1);
}

/// A million jobs all run while eight threads insert, reset and cancel others.
#[test]
fn jobs_by_the_million_run_while_threads_insert() {
    let wheel = threads(2);
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
    let wheel = threads(1);
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
    let wheel = threads(2);
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
