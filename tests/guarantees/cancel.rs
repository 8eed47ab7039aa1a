//! Cancel, take and reset, and the promises of a handle.

use super::*;

/// C10, C11, C12: A job that was cancelled or taken never runs. The one is dropped before `cancel` returns, and the other
/// is given back. A further call for such a job, or for one that has run, changes nothing.
#[test]
fn cancelled_job_never_runs_and_is_dropped_at_once() {
    let (wheel, driver) = manual();
    let (token, alive) = counted();
    let [ran, cancelled, taken, other] = [1, 2, 2, 3].map(|delay| {
        let token = Arc::clone(&token);
        wheel.insert(MS * delay, move || drop(token))
    });
    assert_eq!((driver.advance(MS), alive()), (1, 4));
    assert!(wheel.is_pending(cancelled) && wheel.cancel(cancelled));
    assert_eq!(alive(), 3);
    let job = wheel.take(taken).unwrap();
    for handle in [ran, cancelled, taken] {
        assert!(!wheel.cancel(handle) && !wheel.is_pending(handle));
        assert!(!wheel.reset(handle, MS) && wheel.take(handle).is_none());
    }
    assert!(wheel.is_pending(other) && wheel.len() == 1);
    assert_eq!((driver.advance(HOUR), alive()), (1, 2));
    job.run();
    assert_eq!(alive(), 1);
}

/// C11: A job that was handed to the pool cannot be cancelled.
#[test]
fn job_at_the_pool_cannot_be_cancelled() {
    let wheel = threads(1);
    let release = blocker(&wheel);
    let (sender, receiver) = channel();
    let queued = wheel.insert(Duration::ZERO, move || sender.send(()).unwrap());
    wait_for(|| !wheel.is_pending(queued));
    assert!(!wheel.cancel(queued), "the pool has it");
    assert!(receiver.try_recv().is_err(), "and has not started it");
    drop(release);
    receiver.recv().unwrap();
}

/// C12: Of a cancel and the fire of one job, exactly one happens.
#[test]
fn cancel_or_fire_happens_but_never_both() {
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

/// C13: After a `reset` that returned `true` the job does not start before its new time, also if the reset comes in
/// the moment of the deadline.
#[test]
fn reset_at_the_deadline_is_kept_or_refused() {
    let (idle, tick) = (MS * 2, Duration::from_micros(100));
    let wheel = Wheel::builder().threads(2).tick(tick).build().unwrap();
    let race = |round: u32| {
        let (start, starts) = channel();
        let begin = now();
        let insert = |number| {
            let start = start.clone();
            (wheel.insert(idle, move || start.send((number, now())).unwrap()), begin + idle)
        };
        let mut timers: Vec<_> = (0..20).map(insert).collect();
        drop(start);
        while begin.elapsed() < idle + tick * (round % 4) {
            std::hint::spin_loop();
        }
        for (handle, earliest) in &mut timers {
            let new = now() + idle;
            if wheel.reset(*handle, idle) {
                *earliest = new;
            }
        }
        let mut ran: Vec<(usize, Instant)> = starts.iter().collect();
        ran.sort_unstable();
        assert!(ran.iter().map(|&(number, _)| number).eq(0..timers.len()), "each runs once");
        assert!(ran.iter().zip(&timers).all(|((_, at), (_, earliest))| at >= earliest));
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(race));
        }
    });
}

/// C14: A handle has at most 16 bytes and is `Copy`.
#[test]
fn handle_is_small_and_its_drop_does_nothing() {
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

/// C14: A stale handle does nothing, also when its place is used again.
#[test]
fn stale_handle_does_nothing() {
    let (wheel, driver) = manual();
    let fired = wheel.insert(MS, || ());
    let cancelled = wheel.insert(MS, || ());
    wheel.cancel(cancelled);
    driver.advance(MS);
    // The table entries of both jobs are used again, over and over.
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

/// C14: A handle of another wheel does nothing.
#[test]
fn handle_of_another_wheel_does_nothing() {
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
