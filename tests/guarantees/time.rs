//! The times at which jobs run.

use super::*;
use tickwheel::When;

/// A way to give a job its time: a delay from now, or that far from now on one of the clocks.
type Way = fn(&Wheel, &Time, Duration, Box<dyn FnOnce() + Send>) -> Handle;

/// C1, C2, C39, C40, C50: A job never starts before its time, in whatever way that is given. Its tick is no later than
/// it may be.
#[test]
fn job_is_never_early() {
    fn moved(wheel: &Wheel, handle: Handle, when: impl Into<When>) -> Handle {
        assert!(wheel.reset(handle, when));
        handle
    }
    // Behind the name: how much later than its time the tick of a job may be, and `any` for a time of the wall clock,
    // which may be set at any moment.
    let (tick, any) = (MS, HOUR);
    let ways: [(&str, Duration, Way); 8] = [
        ("a delay", tick, |wheel, _, delay, job| wheel.insert(delay, job)),
        ("an instant", tick, |wheel, time, delay, job| wheel.insert(time.now() + delay, job)),
        ("a slack", 3 * MS, |wheel, _, delay, job| {
            wheel.insert(When::after(delay).within(3 * MS), job)
        }),
        ("a jitter", 15 * MS + tick, |wheel, _, delay, job| {
            wheel.insert(When::after(delay).jitter(15 * MS), job)
        }),
        ("a reset to a delay", tick, |wheel, _, delay, job| {
            moved(wheel, wheel.insert(HOUR, job), delay)
        }),
        ("a reset to an instant", tick, |wheel, time, delay, job| {
            moved(wheel, wheel.insert(HOUR, job), time.now() + delay)
        }),
        ("a wall-clock time", any, |wheel, time, delay, job| {
            wheel.insert(time.wall_now() + delay, job)
        }),
        ("a reset to a wall-clock time", any, |wheel, time, delay, job| {
            moved(wheel, wheel.insert(time.wall_now() + HOUR, job), time.wall_now() + delay)
        }),
    ];
    on_both_clocks(tick, |wheel, time| {
        for (way, late, insert) in ways {
            let (sender, ran) = channel();
            for n in 0..200 {
                let (sender, clock, delay) =
                    (sender.clone(), time.clone(), Duration::from_micros(n * 197));
                let (before, at) = (time.now(), time.wall_now() + delay);
                let job =
                    move || sender.send((clock.now() - before, clock.wall_now() >= at, delay));
                let handle = insert(wheel, time, delay, Box::new(move || job().unwrap()));
                let remaining = wheel.remaining(handle).unwrap_or_default();
                assert!(remaining <= delay + late, "{way}: {remaining:?}, and {delay:?}");
            }
            drop(sender);
            time.until(|| wheel.is_empty());
            let all: Vec<_> = ran.iter().collect();
            assert_eq!(all.len(), 200, "{way}");
            for (waited, by_the_wall, delay) in all {
                let in_time = if late == any { by_the_wall } else { waited >= delay };
                assert!(in_time, "{way}: after {waited:?}, not {delay:?}");
            }
        }
    });
}

/// C3: A delay of zero, or a time that has passed, is due at the next tick.
#[test]
fn job_without_a_delay_is_due_at_the_next_tick() {
    let (wheel, driver) = manual();
    driver.advance(MS * 10);
    wheel.insert(Duration::ZERO, || ());
    wheel.insert(driver.now() - MS * 5, || ());
    wheel.insert(driver.now(), || ());
    assert_eq!(driver.advance(Duration::ZERO), 0);
    assert_eq!(driver.advance(MS), 3);
    // The same in the middle of a tick, and for a job that inserts itself without end.
    fn again(scheduler: Scheduler) {
        let next = scheduler.clone();
        let _ = scheduler.insert(Duration::ZERO, || again(next));
    }
    (0..2).for_each(|_| again(wheel.scheduler()));
    assert_eq!(driver.advance(MS * 5), 10);
}

/// Inserts a job that inserts itself anew for a moment that has passed, until it has run 20 times.
fn insist(scheduler: &Scheduler, time: &Time, past: Past, runs: &Arc<Mutex<Vec<Instant>>>) {
    let (next, clock, again) = (scheduler.clone(), time.clone(), Arc::clone(runs));
    let job = move || {
        again.lock().unwrap().push(clock.now());
        if again.lock().unwrap().len() < 20 {
            insist(&next, &clock, past, &again);
        }
    };
    let inserted = match past {
        Past::Delay => scheduler.insert(Duration::ZERO, job),
        Past::Instant => scheduler.insert(time.now() - MS * 200, job),
        Past::Wall => scheduler.insert(time.wall_now() - MS * 200, job),
        Past::Reset => {
            let handle = scheduler.insert(HOUR, job).unwrap();
            assert!(scheduler.reset(handle, time.now() - MS * 200));
            return;
        }
    };
    inserted.unwrap();
}

/// Ways to set a moment that has passed.
#[derive(Clone, Copy)]
enum Past {
    Delay,
    Instant,
    Wall,
    Reset,
}

/// C3: A job that inserts itself again and again for a past moment runs once a tick.
#[test]
fn job_that_inserts_itself_for_the_past_runs_once_a_tick() {
    let tick = MS * 2;
    on_both_clocks(tick, |wheel, time| {
        for past in [Past::Delay, Past::Instant, Past::Wall, Past::Reset] {
            // The wheel was idle: the structure's time must not lag behind the clock.
            time.pass(MS * 100);
            let runs = Arc::default();
            insist(&wheel.scheduler(), time, past, &runs);
            time.until(|| runs.lock().unwrap().len() == 20);
            let runs = runs.lock().unwrap();
            let passed = time.ticks_between(runs[0], runs[19]);
            assert!(passed >= 18, "20 runs within {passed} ticks");
        }
    });
}

/// C7: The time that the wheel was idle does not count as lateness.
#[test]
fn idle_time_makes_no_job_late() {
    on_both_clocks(MS, |wheel, time| {
        time.pass(MS * 300);
        let (sender, receiver) = channel();
        let (clock, before) = (time.clone(), time.now());
        let job = move || sender.send(clock.now()).unwrap();
        wheel.insert(before - MS * 200, job);
        time.until(|| wheel.stats().fired == 1);
        let waited = receiver.recv().unwrap() - before;
        // On a slow machine too, the job was not due before it was inserted.
        let stats = wheel.stats();
        assert!(stats.handover.max <= waited, "{:?}, but {waited:?}", stats.handover.max);
        assert!(MS * u32::try_from(stats.ticks_behind.get()).unwrap() <= waited);
    });
}

/// C5: `Duration::MAX` means never. Such a job can be cancelled, reset and taken.
#[test]
fn delay_of_the_maximum_is_never_due() {
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
    on_both_clocks(MS, |wheel, time| {
        let [cancelled, reset, taken] = [0, 1, 2].map(|_| wheel.insert(Duration::MAX, || ()));
        time.pass(MS * 20);
        assert_eq!(wheel.remaining(reset), Some(Duration::MAX));
        assert!(wheel.cancel(cancelled) && wheel.take(taken).is_some());
        assert!(wheel.reset(reset, MS));
        time.until(|| wheel.stats().fired == 1);
    });
}

/// C4: After a stall, jobs are handed over in the order of their deadlines.
#[test]
fn stall_is_caught_up_in_the_order_of_deadlines() {
    // One job at a time; the first blocks all others until they are long due.
    let wheel = Wheel::builder().threads(1).max_in_flight(1).shards(4).build().unwrap();
    let release = blocker(&wheel);
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for lane in 0..4 {
            let (wheel, sender) = (&wheel, sender.clone());
            scope.spawn(move || {
                for n in 0..10 {
                    let (sender, delay) = (sender.clone(), (n * 7 + lane * 3) % 11 * 3 + 2);
                    let at = wheel.insert(MS * delay as u32, || ());
                    // The order is checked by deadline, not by delay: two inserts with the same
                    // delay may be due at two ticks.
                    let due = now() + wheel.remaining(at).unwrap();
                    wheel.cancel(at);
                    wheel.insert(due, move || sender.send(due).unwrap());
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
}

/// C6: A clock that steps back makes no job early and loses none.
#[test]
fn clock_that_steps_back_makes_no_job_early() {
    // The system's monotonic clock does not step back, so this test passes times to the structure.
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

/// C8: No thread of the wheel wakes until a timer is due or moves to an inner ring.
#[cfg(target_os = "linux")]
#[test]
fn ticker_sleeps_while_nothing_is_due() {
    let wheel = Wheel::builder().name("g-idle").threads(2).build().unwrap();
    for n in 0..100_000 {
        wheel.insert(HOUR + MS * n, || ());
    }
    // A busy machine does not switch to a sleeping thread either. First let the threads fall asleep.
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

/// Returns how often the threads whose names begin with `name` were switched to, in all.
#[cfg(target_os = "linux")]
fn switches(name: &str) -> u64 {
    let count = |status: &str| -> u64 {
        let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
        lines.map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    threads_named(name).iter().map(|status| count(status)).sum()
}

/// C9: `Driver::advance_to_next` moves the clock to the next timer and no further. If a job calls it, the outer call moves
/// the clock.
#[test]
fn driver_advances_to_the_next_timer() {
    let (wheel, driver) = manual();
    wheel.insert(Duration::MAX, || ());
    let (begin, driver) = (driver.now(), Arc::new(driver));
    assert_eq!((driver.advance_to_next(), driver.now()), (None, begin));
    let (inner, scheduler) = (Arc::clone(&driver), wheel.scheduler());
    wheel.insert(MS, move || {
        scheduler.insert(HOUR, || ()).unwrap();
        assert_eq!(inner.advance_to_next(), Some(begin + MS + HOUR));
        assert_eq!(inner.now(), begin + MS);
    });
    assert_eq!(driver.advance_to_next(), Some(begin + MS + HOUR));
    assert_eq!((wheel.stats().completed, wheel.stats().panicked), (2, 0));
}
