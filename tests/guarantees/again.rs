//! Jobs that repeat.

use super::*;
use tickwheel::{Missed, Next, Repeat, Run};

/// The time of a run, its deadline, and the number of deadlines that were dropped before it.
type Told = (u64, u64, u64);

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
    // Now is 100, and the first deadline was 65: the deadlines 75, 85 and 95 were missed too.
    let expected: [(Missed, [Told; 6]); 3] = [
        (
            Missed::Burst,
            [(101, 65, 0), (102, 75, 0), (103, 85, 0), (104, 95, 0), (105, 105, 0), (115, 115, 0)],
        ),
        (
            Missed::Skip,
            [
                (101, 65, 0),
                (105, 105, 3),
                (115, 115, 0),
                (125, 125, 0),
                (135, 135, 0),
                (145, 145, 0),
            ],
        ),
        (
            Missed::Delay,
            [
                (101, 65, 0),
                (111, 111, 3),
                (121, 121, 0),
                (131, 131, 0),
                (141, 141, 0),
                (151, 151, 0),
            ],
        ),
    ];
    for (policy, expected) in expected {
        let (wheel, driver) = manual();
        let begin = driver.now();
        driver.advance(MS * 100);
        let repeat = Repeat::every(MS * 10).starting(begin + MS * 65).missed(policy);
        let (_, runs) = told(&wheel, repeat, Next::Period);
        driver.advance(MS * 60);
        let ticks = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
        let told: Vec<Told> = runs
            .try_iter()
            .take(6)
            .map(|run| {
                let deadline = run.deadline - begin;
                (ticks(deadline + run.late), ticks(deadline), run.missed)
            })
            .collect();
        assert_eq!(told, expected, "{policy:?}");
    }
}

/// C27: The policies for missed periods hold on every clock.
#[test]
fn missed_periods_follow_the_policy_on_any_clock() {
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

/// C31: The run after a reset has missed nothing.
#[test]
fn reset_makes_the_next_run_miss_nothing() {
    on_both_clocks(MS, |wheel, time| {
        for from_inside in [false, true] {
            time.pass(MS * 50);
            let (sender, runs) = channel();
            let (scheduler, clock) = (wheel.scheduler(), time.clone());
            let mut reset_at = None;
            // The first run is late by more than four periods. Without the reset, the next run
            // would report them as missed.
            let late = Repeat::every(MS * 10).starting(time.now() - MS * 45);
            let handle = wheel.repeat(late, move |run| {
                if from_inside && reset_at.is_none() {
                    reset_at = Some(clock.now());
                    assert!(scheduler.reset(run.handle, MS * 20));
                }
                let _ = sender.send((run, reset_at));
                Next::Period
            });
            let handle = handle.unwrap();
            let told: Mutex<Vec<(Run, Option<Instant>)>> = Mutex::default();
            let runs_told = || {
                told.lock().unwrap().extend(runs.try_iter());
                told.lock().unwrap().len()
            };
            time.until(|| runs_told() > 0);
            let from_outside = time.now();
            assert!(from_inside || wheel.reset(handle, MS * 20));
            // Runs that were on their way before the reset are not checked.
            let after_reset = |run: &Run, reset_at: Option<Instant>| {
                run.deadline >= reset_at.unwrap_or(from_outside) + MS * 20
            };
            time.until(|| {
                runs_told();
                told.lock().unwrap().iter().any(|(run, reset_at)| after_reset(run, *reset_at))
            });
            wheel.cancel(handle);
            let told = told.lock().unwrap();
            let first = told.iter().find(|(run, reset_at)| after_reset(run, *reset_at));
            assert_eq!(first.map(|(run, _)| run.missed), Some(0), "from inside: {from_inside}");
        }
    });
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
    let (wheel, driver) = manual();
    let begin = driver.now();
    let first = |repeat: Repeat| {
        let (handle, runs) = told(&wheel, repeat, Next::Period);
        driver.advance(MS * 30);
        wheel.cancel(handle);
        runs.try_iter().next().map(|run| run.deadline - begin)
    };
    assert_eq!(first(Repeat::every(MS * 10)), Some(MS * 10));
    assert_eq!(first(Repeat::every(MS * 10).starting(Duration::ZERO)), Some(MS * 30));
    assert_eq!(first(Repeat::every(MS * 10).starting(MS * 7)), Some(MS * 67));
    assert_eq!(first(Repeat::every(MS * 10).starting(begin + MS * 95)), Some(MS * 95));
    assert_eq!(first(Repeat::every(MS * 10).starting(driver.wall_now() + MS * 5)), Some(MS * 125));
    assert_eq!(first(Repeat::irregular()), Some(MS * 150));
    on_both_clocks(MS, |wheel, time| {
        let first = |repeat: Repeat| {
            let before = time.now();
            let (handle, runs) = told(wheel, repeat, Next::Stop);
            let after = time.now();
            time.until(|| !wheel.is_pending(handle));
            (before, runs.recv().unwrap().deadline, after)
        };
        for delay in [Duration::ZERO, MS * 7] {
            let (before, deadline, after) = first(Repeat::every(MS * 10).starting(delay));
            assert!(deadline >= before + delay && deadline <= after + delay);
        }
        let (before, deadline, after) = first(Repeat::every(MS * 10));
        assert!(deadline >= before + MS * 10 && deadline <= after + MS * 10);
        let at = time.now() + MS * 15;
        assert_eq!(first(Repeat::every(MS * 10).starting(at)).1, at);
    });
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
    on_both_clocks(MS, |wheel, time| {
        let (sender, runs) = channel();
        let (clock, at) = (time.clone(), time.now() + MS * 30);
        let mut left = [Next::After(MS * 7), Next::At(at), Next::Stop].into_iter();
        let repeat = wheel.repeat(Repeat::every(MS * 10), move |run| {
            let _ = sender.send((run.deadline, clock.now()));
            left.next().unwrap()
        });
        let handle = repeat.unwrap();
        time.until(|| !wheel.is_pending(handle));
        let runs: Vec<(Instant, Instant)> = runs.iter().collect();
        assert_eq!((runs.len(), runs[2].0), (3, at));
        assert!(runs[1].0 >= runs[0].1 + MS * 7);
    });
}
