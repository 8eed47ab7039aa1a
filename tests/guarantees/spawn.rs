//! Jobs that go to the pool without the ticker.

use super::*;
use tickwheel::Job;

/// Returns a wheel whose next tick is far away, on a pool that has started.
fn far_from_a_tick(threads: usize) -> Wheel {
    Wheel::builder().tick(HOUR).pool(pool_of(threads)).build().unwrap()
}

/// C123: A spawned job runs at once, also if the next tick is far away. A wait for the idle wheel waits for it, and it is
/// counted as any other. Its panic is reported with its handle.
#[test]
fn spawned_job_does_not_wait_for_a_tick() {
    let (report, panics) = channel();
    let builder = Wheel::builder().tick(HOUR).pool(pool_of(2));
    let wheel = builder.on_panic(move |panic| report.send(panic.handle).unwrap()).build().unwrap();
    let (sender, receiver) = channel();
    wheel.spawn(move || sender.send(()).unwrap()).unwrap();
    assert_eq!(receiver.recv_timeout(MINUTE), Ok(()));
    wheel.spawn(|| panic_any("in a spawned job")).unwrap();
    let handle = panics.recv_timeout(MINUTE).unwrap().unwrap();
    assert!(!wheel.cancel(handle) && wheel.wait_idle_timeout(MINUTE));
    let stats = wheel.stats();
    assert_eq!((stats.inserted, stats.fired, stats.completed, stats.panicked), (2, 2, 2, 1));
    assert_eq!((stats.pending, stats.in_flight, stats.cancelled), (0, 0, 0));
}

/// C123: If spawns on several threads cross the end of the wheel, each job runs, or it comes back from its call or from
/// the shutdown.
#[test]
fn spawn_that_crosses_the_end_loses_no_job() {
    for round in 0..50 {
        let wheel = far_from_a_tick(2);
        let (ran, spawned) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let unfired = thread::scope(|scope| {
            for _ in 0..3 {
                let (scheduler, ran, spawned) = (wheel.scheduler(), &ran, &spawned);
                scope.spawn(move || {
                    loop {
                        let ran = Arc::clone(ran);
                        let job = move || _ = ran.fetch_add(1, Ordering::SeqCst);
                        match scheduler.spawn(job) {
                            Ok(()) => spawned.fetch_add(1, Ordering::SeqCst),
                            Err(refused) => break refused.into_inner()(),
                        };
                    }
                });
            }
            wait_for(|| spawned.load(Ordering::SeqCst) > round * 20);
            wheel.close().map(|unfired| unfired.job.run()).count()
        });
        let ran = ran.load(Ordering::SeqCst);
        assert_eq!(ran, spawned.into_inner() + 3, "{unfired} came back from the shutdown");
    }
}

/// C21, C123: While a job waits in rayon, its thread starts no spawned job on top of it.
#[test]
fn spawned_job_does_not_start_on_top_of_a_job_that_waits() {
    let pool = pool_of(2);
    let wheel = Wheel::builder().tick(HOUR).pool(Arc::clone(&pool)).build().unwrap();
    // The other thread is busy, so only the thread of the job could start the spawned one.
    let (wait, other) = gate();
    pool.spawn(wait);
    other.has_come();
    let lock = Arc::new(Mutex::new(()));
    let scheduler = wheel.scheduler();
    let job = move || {
        let held = lock.lock().unwrap();
        let its = Arc::clone(&lock);
        scheduler.spawn(move || drop(its.lock().unwrap())).unwrap();
        rayon::yield_now();
        drop(held);
    };
    wheel.spawn(job).unwrap();
    assert!(wheel.wait_idle_timeout(MINUTE));
    assert_eq!(wheel.stats().completed, 2);
    drop(other);
}

/// C123: Without a pool, under a bound, or before the pool has started, a spawn is an insert for the next tick.
#[test]
fn spawn_is_an_insert_if_no_thread_can_take_the_job() {
    let (wheel, driver) = manual();
    wheel.spawn(|| ()).unwrap();
    assert_eq!((wheel.len(), driver.advance(MS)), (1, 1));
    let wheel = Wheel::builder().tick(HOUR).pool(pool_of(1)).max_in_flight(1).build().unwrap();
    wheel.spawn(|| ()).unwrap();
    assert_eq!(wheel.len(), 1);
    let wheel = Wheel::builder().tick(HOUR).threads(1).build().unwrap();
    wheel.spawn(|| ()).unwrap();
    assert_eq!(wheel.len(), 1);
    let (wheel, driver) = Wheel::builder().driven().unwrap();
    wheel.spawn(|| ()).unwrap();
    assert_eq!(wheel.len(), 1);
    wait_for(|| driver.run_due() == 1);
    let wheel = far_from_a_tick(1);
    let taken: Job = wheel.take(wheel.insert(HOUR, || ())).unwrap();
    wheel.spawn(taken).unwrap();
    assert_eq!(wheel.len(), 1);
    let scheduler = wheel.scheduler();
    drop(wheel);
    assert_eq!(scheduler.spawn(|| ()).unwrap_err().kind(), InsertErrorKind::Shutdown);
}
