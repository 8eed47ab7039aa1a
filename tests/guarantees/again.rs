//! Jobs that repeat.

use super::*;
use tickwheel::{Missed, Next, Repeat, Run};

/// Repeats a job that sends the `Run` of each of its runs.
pub(crate) fn told(wheel: &Wheel, repeat: Repeat, answer: Next) -> (Handle, Receiver<Run>) {
    let (sender, runs) = channel();
    let handle = wheel.repeat(repeat, move |run| {
        sender.send(run).unwrap();
        answer
    });
    (handle.unwrap(), runs)
}

/// C26: With a fixed rate, every deadline is a whole number of periods after the first, to the nanosecond.
#[test]
fn fixed_rate_keeps_its_phase() {
    let (wheel, driver) = manual();
    // The period is no multiple of the tick, and a second is no multiple of the period.
    let (period, periods) = (Duration::from_nanos(1_333_333), 1_000_000_u32);
    let begin = driver.now();
    let count = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&count);
    let fixed = wheel.repeat(Repeat::every(period), move |run| {
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(run.deadline, begin + period * u32::try_from(number).unwrap());
        assert!(run.late < MS && run.missed == 0);
        Next::Period
    });
    assert!(fixed.is_ok());
    assert_eq!(driver.advance(period * periods + MS), periods as usize);
    assert_eq!((count.load(Ordering::Relaxed), wheel.stats().panicked), (u64::from(periods), 0));
    // On any clock, but a machine that is late may drop some deadlines.
    on_both_clocks(MS, |wheel, time| {
        let (sender, runs) = channel();
        let repeat = wheel.repeat(Repeat::every(period), move |run| {
            let _ = sender.send(run);
            Next::Period
        });
        time.until(|| wheel.stats().fired >= 50);
        wheel.cancel(repeat.unwrap());
        let runs: Vec<Run> = runs.iter().take(49).collect();
        for pair in runs.windows(2) {
            let periods = u32::try_from(pair[1].missed).unwrap() + 1;
            assert_eq!(pair[1].deadline - pair[0].deadline, period * periods);
        }
    });
}

/// C26: With a fixed delay, the next run is due one delay after the end of the run.
#[test]
fn fixed_delay_counts_from_the_end_of_the_run() {
    on_both_clocks(MS, |wheel, time| {
        let (sender, ends) = channel();
        let (clock, delay) = (time.clone(), MS * 5);
        let mut last_end = None;
        let repeat = wheel.repeat(Repeat::irregular(), move |run| {
            if let Some(end) = last_end {
                assert!(run.deadline >= end + delay);
                assert!(clock.now() >= end + delay);
            }
            let_pass(MS * 3);
            last_end = Some(clock.now());
            let _ = sender.send(());
            Next::After(delay)
        });
        time.until(|| wheel.stats().fired >= 6);
        wheel.cancel(repeat.unwrap());
        assert_eq!(ends.iter().take(5).count(), 5);
    });
}

/// C27: `Missed` decides about missed periods, and `Run::missed` has the number of dropped ones.
#[test]
fn missed_periods_follow_the_policy() {
    let (tick, period) = (MS * 2, MS * 3);
    on_both_clocks(tick, |wheel, time| {
        for policy in [Missed::Burst, Missed::Skip, Missed::Delay] {
            time.pass(MS * 50);
            // The first deadline has passed long ago, so periods are missed. A slow machine misses
            // more.
            let first = time.now() - MS * 40;
            let (sender, runs) = channel();
            let clock = time.clone();
            let repeat = Repeat::every(period).starting(first).missed(policy);
            let handle = wheel.repeat(repeat, move |run| {
                let _ = sender.send((run, clock.now()));
                Next::Period
            });
            let told: Arc<Mutex<Vec<(Run, Instant)>>> = Arc::default();
            time.until(|| {
                told.lock().unwrap().extend(runs.try_iter());
                told.lock().unwrap().len() >= 30
            });
            wheel.cancel(handle.unwrap());
            let told = told.lock().unwrap();
            assert_eq!(told[0].0.deadline, first);
            for pair in told.windows(2) {
                let ((before, ran), (after, _)) = (pair[0], pair[1]);
                let step = after.deadline - before.deadline;
                let dropped = u32::try_from(after.missed).unwrap();
                match policy {
                    Missed::Burst => assert_eq!((step, dropped), (period, 0)),
                    Missed::Skip => assert_eq!(step, period * (dropped + 1)),
                    _ if dropped == 0 => assert_eq!(step, period),
                    _ => assert!(after.deadline >= ran + period),
                }
            }
            if policy != Missed::Burst {
                assert!(told[1].0.missed >= 12, "40 ms are more than 13 periods");
            }
            // Missed deadlines get one run a tick.
            let passed = time.ticks_between(told[0].1, told[29].1);
            assert!(passed >= 28, "30 runs within {passed} ticks");
        }
    });
}

/// C28: A run never overlaps the run before, however long it takes.
#[test]
fn run_never_overlaps_the_run_before() {
    let wheel = threads(4);
    let (running, overlaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (sender, runs) = channel();
    for policy in [Missed::Burst, Missed::Skip, Missed::Delay] {
        let (running, overlaps) = (Arc::clone(&running), Arc::clone(&overlaps));
        let sender = sender.clone();
        let handle = wheel.repeat(Repeat::every(MS).missed(policy), move |_| {
            overlaps.fetch_or(running.swap(true, Ordering::SeqCst), Ordering::SeqCst);
            let_pass(MS * 3);
            running.store(false, Ordering::SeqCst);
            // The receiver is gone if the test has seen enough.
            let _ = sender.send(());
            Next::Period
        });
        assert_eq!(runs.iter().take(8).count(), 8);
        wheel.cancel(handle.unwrap());
        wait_for(|| wheel.stats().in_flight == 0);
    }
    assert!(!overlaps.load(Ordering::SeqCst));
}

/// C31: A reset moves the next run and the phase. During a run it wins over the returned `Next`, except `Stop`.
#[test]
fn reset_moves_the_next_run_and_the_phase() {
    let (wheel, driver) = manual();
    let begin = driver.now();
    let (handle, runs) = told(&wheel, Repeat::every(MS * 10), Next::Period);
    driver.advance(MS * 12);
    assert!(wheel.reset(handle, MS * 20));
    driver.advance(MS * 45);
    let at: Vec<_> = runs.try_iter().map(|run| (run.deadline - begin).as_millis()).collect();
    assert_eq!(at, [10, 32, 42, 52]);
    // The run after a reset has missed nothing, however late the one before was.
    let late = Repeat::every(MS * 10).starting(driver.now() - MS * 45);
    let (handle, runs) = told(&wheel, late, Next::Period);
    assert!(wheel.reset(handle, MS * 20));
    driver.advance(MS * 20);
    assert_eq!(runs.try_iter().map(|run| run.missed).collect::<Vec<_>>(), [0]);
    // A reset from inside a run counts too, and overrides the answer.
    let scheduler = wheel.scheduler();
    let (sender, runs) = channel();
    let reset = wheel.repeat(Repeat::every(MS * 10), move |run| {
        sender.send(run.deadline).unwrap();
        assert!(scheduler.reset(run.handle, MS * 3));
        Next::Period
    });
    assert!(reset.is_ok());
    driver.advance(MS * 20);
    let at: Vec<Instant> = runs.try_iter().collect();
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] == MS * 3) && at.len() == 4);
}

/// C31: A job that is reset while it waits for a thread does not run before its new time.
#[test]
fn reset_on_the_way_to_the_pool_delays_the_run() {
    let wheel = threads(1);
    let release = blocker(&wheel);
    let (later, later_runs) = told(&wheel, Repeat::irregular(), Next::After(HOUR));
    let (sooner, sooner_runs) = told(&wheel, Repeat::irregular(), Next::After(HOUR));
    let (sender, ran) = channel();
    let noon = wheel.insert(std::time::SystemTime::UNIX_EPOCH, move || sender.send(()).unwrap());
    wait_for(|| wheel.stats().in_flight == 4);
    assert!(wheel.reset(later, HOUR * 2) && wheel.reset(sooner, Duration::ZERO));
    assert!(wheel.reset(noon, HOUR * 2));
    drop(release);
    // The job that was reset to later goes back into the wheel, and has not run.
    wait_for(|| wheel.len() == 3);
    for handle in [later, noon] {
        assert!(wheel.remaining(handle) > Some(HOUR));
    }
    assert!(later_runs.try_recv().is_err() && ran.try_recv().is_err());
    // The other job runs once, and its answer counts.
    assert!(sooner_runs.try_recv().is_ok() && sooner_runs.try_recv().is_err());
    assert!(wheel.remaining(sooner) > Some(HOUR / 2));
}

/// C32: The first run is after one period, or at the time that the caller gave.
#[test]
fn first_run_is_at_the_given_time() {
    on_both_clocks(MS, |wheel, time| {
        // The deadline of the first run is this far from the time of the call.
        let assert_first = |delay: Duration, repeat: &dyn Fn() -> Repeat| {
            let before = time.now();
            let (handle, runs) = told(wheel, repeat(), Next::Stop);
            let after = time.now();
            time.until(|| !wheel.is_pending(handle));
            let deadline = runs.recv().unwrap().deadline;
            assert!(deadline >= before + delay && deadline <= after + delay, "{delay:?}");
        };
        let every = || Repeat::every(MS * 10);
        assert_first(MS * 10, &every);
        assert_first(Duration::ZERO, &|| every().starting(Duration::ZERO));
        assert_first(MS * 7, &|| every().starting(MS * 7));
        assert_first(MS * 15, &|| every().starting(time.now() + MS * 15));
        assert_first(Duration::ZERO, &Repeat::irregular);
    });
    let (wheel, driver) = manual();
    let at = driver.wall_now() + MS * 5;
    let (_, runs) = told(&wheel, Repeat::every(MS * 10).starting(at), Next::Stop);
    assert_eq!((driver.advance(MS * 4), driver.advance(MS), runs.try_iter().count()), (0, 1, 1));
}

/// C33: A run may choose the time of the next run, or end the repetition.
#[test]
fn run_may_choose_the_time_of_the_next() {
    let (wheel, driver) = manual();
    let (begin, noon) = (driver.now(), driver.wall_now());
    let answers = [
        Next::Period,
        Next::After(MS * 7),
        Next::At(begin + MS * 40),
        Next::Period,
        Next::Wall(noon + MS * 70),
        Next::Period,
        Next::Stop,
    ];
    let mut left = answers.into_iter();
    let (sender, runs) = channel();
    let repeat = wheel.repeat(Repeat::every(MS * 10), move |run| {
        sender.send((run.deadline - begin).as_millis()).unwrap();
        left.next().unwrap()
    });
    assert!(repeat.is_ok());
    driver.advance(MS * 200);
    assert_eq!(runs.iter().collect::<Vec<_>>(), [10, 20, 27, 40, 50, 70, 80]);
    // Without a period, `Next::Period` means `Next::Stop`.
    told(&wheel, Repeat::irregular(), Next::Period);
    assert_eq!((driver.advance(MS * 10), wheel.len()), (1, 0));
}
