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

/// A pool whose threads are busy delays jobs, and loses none. Shutdown and drop do not wait for it.
#[test]
fn full_pool_delays_jobs_and_no_end() {
    let (pool, release) = full_pool(2);
    let build = || Wheel::builder().pool(Arc::clone(&pool)).build().unwrap();
    let [shut_down, dropped] = [(); 2].map(|()| {
        let wheel = build();
        wheel.insert(Duration::ZERO, || panic!("there was no thread for it"));
        wait_for(|| wheel.is_empty());
        wheel
    });
    assert_eq!(shut_down.shutdown().count(), 1);
    drop(dropped);
    let wheel = build();
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

/// A panic of a task that a job spawned on the pool is caught and counted.
#[test]
fn panic_in_a_task_that_a_job_spawned_is_caught() {
    let wheel = threads(1);
    wheel.insert(Duration::ZERO, || rayon::spawn(|| panic!("in a task that a job spawned")));
    wait_for(|| wheel.stats().panicked == 1);
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
