//! Wheels that a loop drives, on the real clock and without a thread.

use super::names::Compared;
#[cfg(feature = "async")]
use super::polled::polled;
use super::*;
use std::collections::BTreeMap;

use tickwheel::{Events, Keyed, LoopDriver, Scheduler};

fn driven() -> (Wheel, LoopDriver) {
    Wheel::builder().driven().unwrap()
}

/// Sets a waker that unparks this thread, as an eventfd wakes a loop. Returns a function that returns how often it was
/// called so far.
fn unpark_for(driver: &LoopDriver) -> impl Fn() -> usize + use<> {
    let (thread, calls) = (thread::current(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&calls);
    driver.on_earlier(waker(move || {
        calls.fetch_add(1, Ordering::SeqCst);
        thread.unpark();
    }));
    move || counted.load(Ordering::SeqCst)
}

/// Waits as a loop does, and calls `run_due`. Returns the number of jobs that ran.
fn wait_and_turn(driver: &LoopDriver) -> usize {
    match driver.timeout() {
        Some(timeout) => thread::park_timeout(timeout),
        None => thread::park(),
    }
    driver.run_due()
}

/// C66: A loop may be late. Then its plan does not tell how far the clock is.
#[cfg(feature = "async")]
#[test]
fn reset_to_the_past_is_over_at_the_next_poll_of_a_late_loop() {
    let (wheel, driver) = driven();
    let mut sleeps = [HOUR, MS, 2 * MS].map(|delay| polled(wheel.sleep(delay)));
    assert!(sleeps.iter_mut().all(|sleep| sleep.poll().is_pending()));
    assert!(driver.timeout().is_some());
    let begin = now();
    wait_for(|| now() - begin > 30 * MS);
    // One is reset to an earlier time, one to a later time. Both times have passed.
    for sleep in [0, 2] {
        sleeps[sleep].get().reset_at(begin + 20 * MS);
        assert!(sleeps[sleep].poll().is_ready(), "{sleep}");
    }
}

/// C103: Jobs, events and wakers run on the thread that calls `run_due`, in the order of deadlines.
#[test]
fn driven_wheel_runs_everything_on_the_loops_thread() {
    let (wheel, driver) = Wheel::builder().name("driven-wheel").driven().unwrap();
    let (events, due) = Events::unbounded(&wheel.scheduler());
    let here = thread::current().id();
    let (sender, ran) = channel();
    let begin = now();
    // The delays of a batch count from one moment.
    let timers = [3, 0, 7, 1].map(|delay| {
        let sender = sender.clone();
        let job = move || {
            assert_eq!(thread::current().id(), here);
            sender.send(delay).unwrap();
        };
        (delay * MS, job)
    });
    wheel.insert_batch(timers).unwrap();
    events.insert(5 * MS, 5).unwrap();
    let mut jobs = 0;
    while jobs < 4 || due.is_empty() {
        jobs += wait_and_turn(&driver);
        #[cfg(target_os = "linux")]
        assert_eq!(threads_named("driven-wheel").len(), 0);
    }
    assert_eq!((jobs, ran.try_iter().collect::<Vec<_>>()), (4, vec![0, 1, 3, 7]));
    assert!(begin.elapsed() >= 7 * MS);
    assert_eq!((driver.timeout(), wheel.is_idle()), (None, true));
}

/// C104: `LoopDriver::timeout` is no longer than the time until the next timer.
#[test]
fn timeout_of_a_loop_ends_before_the_next_timer() {
    let (wheel, driver) = driven();
    assert_eq!(driver.timeout(), None);
    let never = wheel.insert(Duration::MAX, || ());
    assert_eq!(driver.timeout(), None);
    let hour = wheel.insert(HOUR, || ());
    let left = driver.timeout();
    assert!(left.is_some_and(|left| left <= HOUR + MS && left > HOUR - MINUTE), "{left:?}");
    // The wall clock may be set at any time, so the wheel must look at it once a second.
    let noon = wheel.insert(wheel.wall_now() + 2 * HOUR, || ());
    assert!(driver.timeout().is_some_and(|left| left <= Duration::from_secs(1)));
    assert!(wheel.cancel(hour) && wheel.cancel(noon) && wheel.cancel(never));
    wheel.insert(Duration::ZERO, || ());
    let_pass(5 * MS);
    assert_eq!(driver.timeout(), Some(Duration::ZERO));
    assert_eq!((driver.run_due(), driver.run_due()), (1, 0));
    assert_eq!(driver.timeout(), None);
}

/// C105: An insert wakes the loop only if its timer is due before the loop's timeout ends.
#[test]
fn insert_of_another_thread_wakes_the_loop_only_if_earlier() {
    let (wheel, driver) = driven();
    let wakes = unpark_for(&driver);
    let hour = wheel.insert(HOUR, || ());
    assert_eq!(wakes(), 0, "the loop does not wait");
    assert!(driver.timeout().is_some());
    let scheduler = wheel.scheduler();
    let inserts = thread::spawn(move || {
        scheduler.insert(2 * HOUR, || ()).unwrap();
        scheduler.insert(HOUR / 2, || ()).unwrap();
        scheduler.insert(HOUR / 2 + MINUTE, || ()).unwrap();
    });
    inserts.join().unwrap();
    assert_eq!(wakes(), 1);
    assert!(wheel.reset(hour, MINUTE));
    assert_eq!(wakes(), 2, "a reset too");
    driver.run_due();
    wheel.insert(MS, || ());
    assert_eq!(wakes(), 2, "the loop does not wait");
    assert!(driver.timeout().is_some());
    drop(wheel);
    assert_eq!(wakes(), 3, "the end");
    assert_eq!((driver.timeout(), driver.run_due()), (None, 0));
}

/// C106: The waker of a loop may use the key of the insert that calls it.
#[test]
fn waker_of_a_loop_may_use_the_key_of_the_insert() {
    let (wheel, driver) = Wheel::builder().shards(1).driven().unwrap();
    let keyed = Keyed::new(&wheel);
    let (sender, found) = channel();
    let asks: Keyed<u8> = keyed.clone();
    driver.on_earlier(waker(move || sender.send((asks.len(), asks.contains(&1))).unwrap()));
    assert_eq!(driver.timeout(), None);
    // On a thread of its own: if the waker took a lock that is held, it would wait for ever.
    let (sender, ended) = channel();
    thread::spawn(move || {
        keyed.insert(1, HOUR, || ()).unwrap();
        keyed.insert_if_absent(2, HOUR / 2, || ()).unwrap();
        assert!(keyed.reset(&1, HOUR / 3));
        keyed.insert_batch([(1, HOUR / 4, || ())]).unwrap();
        sender.send(()).unwrap();
    });
    assert_eq!(ended.recv_timeout(MINUTE), Ok(()));
    assert_eq!(found.try_iter().collect::<Vec<_>>(), [(1, true), (2, true), (2, true), (2, true)]);
}

/// C106: The waker of a loop may insert, which does not call it without end.
#[test]
fn waker_of_a_loop_may_insert() {
    let (wheel, driver) = driven();
    let (events, _due) = Events::unbounded(&wheel.scheduler());
    let keyed = Keyed::new(&wheel);
    let called = Arc::new(AtomicUsize::new(0));
    let calls = || called.swap(0, Ordering::SeqCst);
    let (scheduler, its_events, its_keys) = (wheel.scheduler(), events.clone(), keyed.clone());
    let counted = Arc::clone(&called);
    driver.on_earlier(waker(move || {
        assert!(counted.fetch_add(1, Ordering::SeqCst) < 100, "it is called by what it inserts");
        scheduler.insert(HOUR, || ()).unwrap();
        its_events.insert(HOUR, 1).unwrap();
        its_keys.insert(1, HOUR, || ()).unwrap();
    }));
    assert_eq!(driver.timeout(), None);
    wheel.insert(2 * HOUR, || ());
    assert!((1..10).contains(&calls()));
    assert!(driver.timeout().is_some());
    keyed.insert(2, HOUR / 2, || ()).unwrap();
    events.insert(HOUR / 3, 2).unwrap();
    assert!((1..10).contains(&calls()));
}

/// C105: An insert wakes the loop also while the wake of an earlier insert is postponed.
#[test]
fn insert_wakes_the_loop_while_an_earlier_wake_is_postponed() {
    let (wheel, driver) = driven();
    let wakes = unpark_for(&driver);
    let (scheduler, (told, inserted), (go, goes)) = (wheel.scheduler(), channel(), channel());
    let key = Compared::calling(move || {
        scheduler.insert(5 * MS, || ()).unwrap();
        told.send(()).unwrap();
        goes.recv().unwrap();
    });
    let keyed = Keyed::new(&wheel);
    keyed.insert(key, HOUR, || ()).unwrap();
    assert!(driver.timeout().is_some());
    let before = wakes();
    thread::scope(|scope| {
        // The insert of the key's `Eq` wakes the loop only when the map of keys is free again.
        scope.spawn(|| keyed.insert(Compared::default(), HOUR, || ()).unwrap());
        inserted.recv().unwrap();
        wheel.insert(7 * MS, || ());
        let woken = wakes();
        go.send(()).unwrap();
        assert!(woken > before);
    });
}

/// C105: A loop that waits for its whole timeout misses no timer.
#[test]
fn loop_that_waits_for_its_whole_timeout_misses_nothing() {
    let (wheel, driver) = driven();
    let _wakes = unpark_for(&driver);
    let count = 500;
    let missing = Arc::new(Mutex::new(BTreeMap::new()));
    let producers: Vec<_> = (0..2_u32)
        .map(|producer| {
            let (scheduler, missing) = (wheel.scheduler(), Arc::clone(&missing));
            thread::spawn(move || {
                for number in 0..count {
                    let (name, inside) = ((producer, number), Arc::clone(&missing));
                    let delay = number * 7 % 13 * MS;
                    inside.lock().unwrap().insert(name, now() + delay);
                    let job = move || {
                        let due = inside.lock().unwrap().remove(&name).unwrap();
                        assert!(now() >= due);
                    };
                    scheduler.insert(delay, job).unwrap();
                    if number % 10 == 0 {
                        let_pass(MS);
                    }
                }
            })
        })
        .collect();
    let mut ran = 0;
    // If a wake-up were lost, this would not end.
    while ran < 2 * count as usize {
        ran += wait_and_turn(&driver);
    }
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    assert!(missing.lock().unwrap().is_empty());
    assert_eq!(wheel.stats().panicked, 0);
}

/// C108: A call of `run_due` returns, also if its jobs insert others.
#[test]
fn run_due_ends_although_its_jobs_insert_others() {
    let (wheel, driver) = driven();
    let driver = Arc::new(driver);
    let (scheduler, inside) = (wheel.scheduler(), Arc::clone(&driver));
    fn again(scheduler: &Scheduler, driver: &Arc<LoopDriver>, left: u32) {
        let (next, inside) = (scheduler.clone(), Arc::clone(driver));
        let job = move || {
            // A call within a call does nothing, and the loop must not wait.
            assert_eq!((inside.run_due(), inside.timeout()), (0, Some(Duration::ZERO)));
            if left > 0 {
                again(&next, &inside, left - 1);
            }
        };
        scheduler.insert(Duration::ZERO, job).unwrap();
    }
    again(&scheduler, &inside, 20);
    let mut turns = 0;
    while !wheel.is_empty() {
        turns += 1;
        wait_and_turn(&driver);
    }
    assert!(turns >= 20, "{turns}");
    assert_eq!(wheel.stats().panicked, 0);
}

/// C108: A job that comes due in a call of `run_due` waits for the next call.
#[test]
fn job_due_within_run_due_waits_for_the_next_call() {
    let (wheel, driver) = driven();
    let scheduler = wheel.scheduler();
    wheel.insert(Duration::ZERO, move || {
        scheduler.insert(Duration::ZERO, || ()).unwrap();
        let_pass(5 * MS);
    });
    let_pass(5 * MS);
    assert_eq!((driver.run_due(), driver.run_due()), (1, 1));
}

/// C108: A job may end its driven wheel.
#[test]
fn job_of_a_driven_wheel_may_end_it() {
    let (wheel, driver) = driven();
    let cell = Arc::new(Mutex::new(Some(wheel)));
    let inside = Arc::clone(&cell);
    let (token, alive) = counted();
    let ends = move || drop(inside.lock().unwrap().take().unwrap().shutdown());
    let guard = cell.lock().unwrap();
    let wheel = guard.as_ref().unwrap();
    wheel.insert(Duration::ZERO, ends);
    wheel.insert(HOUR, move || drop(token));
    assert!(!wheel.wait_idle(), "it would wait for itself");
    drop(guard);
    while driver.timeout().is_some() {
        wait_and_turn(&driver);
    }
    assert_eq!((alive(), driver.run_due()), (0, 0));
}

/// C107: A panic of a job or of the loop's waker is reported and goes no further.
#[test]
fn panic_in_run_due_is_reported_and_spares_the_rest() {
    let (builder, panics) = reporting();
    let (wheel, driver) = builder.driven().unwrap();
    wheel.insert(Duration::ZERO, || panic_any("a job"));
    wheel.insert(MS, || ());
    driver.on_earlier(waker(|| panic_any("a waker")));
    let mut ran = 0;
    while ran < 2 {
        ran += wait_and_turn(&driver);
    }
    wheel.insert(HOUR, || ());
    assert!(driver.timeout().is_some());
    wheel.insert(MINUTE, || ());
    drop(wheel);
    assert_eq!(panics.try_iter().collect::<Vec<_>>(), ["a job", "a waker", "a waker"]);
}

/// C107: The waker of the loop is dropped with the `LoopDriver`, and a panic of that drop is caught.
#[test]
fn loop_driver_that_is_dropped_drops_its_waker() {
    let (builder, panics) = reporting();
    let (wheel, driver) = builder.driven().unwrap();
    let (scheduler, bomb, (kept, wakers)) =
        (wheel.scheduler(), OnDrop(|| panic_any("a waker")), counted());
    driver.on_earlier(waker(move || {
        let _ = (&bomb, &kept);
        assert!(!scheduler.is_idle());
    }));
    let token = Arc::new(());
    let inside = Arc::clone(&token);
    wheel.insert(HOUR, move || drop(inside));
    drop(driver);
    assert_eq!((wakers(), panics.try_iter().count()), (0, 1));
    drop(wheel);
    assert_eq!(Arc::strong_count(&token), 1);
}
