//! Jobs that repeat.

use super::*;
use tickwheel::{Missed, Next, Repeat, Run};

/// When a job ran, for which deadline, and how many deadlines were dropped before.
type Told = (u64, u64, u64);

/// Repeats a job that sends every run it is told.
fn told(wheel: &Wheel, repeat: Repeat, answer: Next) -> (Handle, Receiver<Run>) {
    let (sender, runs) = channel();
    let handle = wheel.repeat(repeat, move |run| {
        sender.send(run).unwrap();
        answer
    });
    (handle.unwrap(), runs)
}

#[test]
fn a_fixed_rate_keeps_its_phase() {
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
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_the_run() {
    let wheel = threads(1);
    let (sender, ends) = channel();
    let delay = MS * 5;
    let mut last_end = None;
    let repeat = wheel.repeat(Repeat::irregular(), move |run| {
        if let Some(end) = last_end {
            assert!(run.deadline >= end + delay);
            assert!(now() >= end + delay);
        }
        let_pass(MS * 3);
        last_end = Some(now());
        sender.send(()).unwrap();
        Next::After(delay)
    });
    assert!(repeat.is_ok());
    assert_eq!(ends.iter().take(5).count(), 5);
    assert_eq!(wheel.stats().panicked, 0);
}

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

#[test]
fn a_run_never_overlaps_itself() {
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

#[test]
fn the_handle_of_a_repeat_lasts_until_its_last_run() {
    let (wheel, driver) = manual();
    let mut left = 3;
    let (sender, handles) = channel();
    let handle = wheel
        .repeat(Repeat::every(MS * 10), move |run| {
            sender.send(run.handle).unwrap();
            left -= 1;
            if left > 0 { Next::Period } else { Next::Stop }
        })
        .unwrap();
    for run in 1..=3 {
        assert!(wheel.is_pending(handle) && wheel.location(handle).is_some());
        assert_eq!(wheel.remaining(handle), Some(MS * 10));
        assert_eq!(driver.advance(MS * 10), 1, "run {run}");
        assert_eq!(handles.try_recv(), Ok(handle));
    }
    assert!(!wheel.is_pending(handle) && wheel.remaining(handle).is_none());
    assert!(!wheel.cancel(handle) && !wheel.reset(handle, MS) && wheel.take(handle).is_none());
    // Another job has the table entry now.
    let next = wheel.every(MS, || ()).unwrap();
    assert!(next != handle && !wheel.cancel(handle) && wheel.is_pending(next));
}

#[test]
fn a_repeat_can_be_cancelled_at_any_time() {
    // Cancelled from outside, between two runs.
    let (wheel, driver) = manual();
    let (token, alive) = counted();
    let ping = wheel.every(MS, move || drop(Arc::clone(&token))).unwrap();
    assert_eq!(driver.advance(MS * 3), 3);
    assert!(wheel.cancel(ping) && alive() == 0);
    assert_eq!((driver.advance(MS * 3), wheel.len()), (0, 0));
    // Cancelled by itself: this run is the last, whatever it returns.
    let scheduler = wheel.scheduler();
    let suicide = wheel.repeat(Repeat::every(MS), move |run| {
        assert!(scheduler.cancel(run.handle) && !scheduler.cancel(run.handle));
        Next::After(MS)
    });
    assert_eq!(driver.advance(MS * 3), 1);
    assert!(!wheel.is_pending(suicide.unwrap()));
    assert_eq!(wheel.stats().panicked, 0);
    // Cancelled while it runs, and while it waits for a thread of the pool.
    let wheel = threads(1);
    let (token, alive) = counted();
    let (started, starts) = channel();
    let (release, gate) = channel::<()>();
    let running = wheel.repeat(Repeat::irregular(), move |_| {
        let _ = &token;
        started.send(()).unwrap();
        let _ = gate.recv();
        Next::After(Duration::ZERO)
    });
    starts.recv().unwrap();
    let (queued_token, queued_alive) = counted();
    let queued = wheel.repeat(Repeat::irregular(), move |_| {
        let _ = &queued_token;
        unreachable!("it was cancelled before it started")
    });
    wait_for(|| wheel.stats().in_flight == 2);
    for handle in [running.unwrap(), queued.unwrap()] {
        assert!(wheel.is_pending(handle) && wheel.remaining(handle) == Some(Duration::ZERO));
        assert!(wheel.take(handle).is_none(), "nobody can have it back now");
        assert!(wheel.cancel(handle) && !wheel.is_pending(handle));
    }
    drop(release);
    wait_for(|| alive() == 0 && queued_alive() == 0);
    wait_for(|| wheel.stats().in_flight == 0);
    assert_eq!((wheel.len(), wheel.stats().panicked, starts.try_recv().is_err()), (0, 0, true));
}

#[test]
fn a_repeat_that_is_taken_does_not_go_back() {
    let (wheel, driver) = manual();
    let (handle, runs) = told(&wheel, Repeat::every(MS), Next::Period);
    let job = wheel.take(handle).unwrap();
    assert_eq!((driver.advance(MS * 5), wheel.len()), (0, 0));
    job.run();
    assert_eq!(runs.recv().unwrap().handle, handle);
    assert!(runs.recv().is_err(), "ran once, and is gone");
    assert_eq!(wheel.len(), 0);
}

#[test]
fn a_reset_moves_the_next_run_and_the_phase() {
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

#[test]
fn after_a_reset_nothing_was_missed() {
    on_both_clocks(MS, |wheel, time| {
        for from_inside in [false, true] {
            time.pass(MS * 50);
            let (sender, runs) = channel();
            let (scheduler, clock) = (wheel.scheduler(), time.clone());
            let mut reset_at = None;
            // The first run is late by more than four periods. Without the reset, the next run
            // would be told that they were missed.
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

#[test]
fn a_reset_on_the_way_to_the_pool() {
    let wheel = threads(1);
    let (release, starts) = blocker(&wheel);
    starts.recv().unwrap();
    let (later, later_runs) = told(&wheel, Repeat::irregular(), Next::After(HOUR));
    let (sooner, sooner_runs) = told(&wheel, Repeat::irregular(), Next::After(HOUR));
    let (sender, ran) = channel();
    let noon = wheel.insert_at(std::time::SystemTime::UNIX_EPOCH, move || sender.send(()).unwrap());
    wait_for(|| wheel.stats().in_flight == 4);
    assert!(wheel.reset(later, HOUR * 2) && wheel.reset(sooner, Duration::ZERO));
    assert!(wheel.reset(noon, HOUR * 2));
    drop(release);
    // The job that was put off goes back, and has not run.
    wait_for(|| wheel.len() == 3);
    for handle in [later, noon] {
        assert!(wheel.remaining(handle) > Some(HOUR));
    }
    assert!(later_runs.try_recv().is_err() && ran.try_recv().is_err());
    // The other job runs once, and its answer counts.
    assert!(sooner_runs.try_recv().is_ok() && sooner_runs.try_recv().is_err());
    assert!(wheel.remaining(sooner) > Some(HOUR / 2));
}

#[test]
fn the_first_run_is_when_it_was_asked_for() {
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
}

#[test]
fn a_repeat_says_itself_when_it_runs_next() {
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

#[test]
fn a_period_of_zero_is_refused() {
    let (wheel, _driver) = manual();
    let (token, alive) = counted();
    let refused = wheel.every(Duration::ZERO, move || drop(Arc::clone(&token))).unwrap_err();
    assert_eq!(refused.kind(), InsertErrorKind::ZeroPeriod);
    let mut job = refused.into_inner();
    job();
    assert_eq!((alive(), wheel.len()), (1, 0));
    let refused = wheel.repeat(Repeat::every(Duration::ZERO), |_| Next::Stop).unwrap_err();
    assert_eq!(refused.kind(), InsertErrorKind::ZeroPeriod);
    assert!(wheel.every(Duration::from_nanos(1), || ()).is_ok());
    assert!(wheel.every(Duration::MAX, || ()).is_ok());
}

#[test]
fn a_panic_ends_a_repeat_unless_asked_otherwise() {
    let (builder, panics) = reporting();
    let (wheel, driver) = builder.manual().unwrap();
    let (token, alive) = counted();
    let once = wheel.every(MS, move || {
        let _ = &token;
        panic_any("every")
    });
    assert_eq!(driver.advance(MS * 10), 1);
    assert!(!wheel.is_pending(once.unwrap()) && alive() == 0);
    assert_eq!(panics.try_iter().collect::<Vec<_>>(), ["every"]);
    let again = wheel.repeat(Repeat::every(MS).despite_panics(), |_| panic_any("again"));
    assert_eq!(driver.advance(MS * 10), 10);
    assert_eq!(panics.try_iter().collect::<Vec<_>>(), ["again"; 10]);
    assert!(wheel.cancel(again.unwrap()));
    assert_eq!(wheel.stats().panicked, 11);
}

#[test]
fn a_repeat_keeps_its_room_until_its_end() {
    let wheel = Wheel::builder().max_pending(1).threads(1).build().unwrap();
    let (started, starts) = channel();
    let (release, gate) = channel::<()>();
    let repeat = wheel.repeat(Repeat::irregular(), move |_| {
        started.send(()).unwrap();
        let _ = gate.recv();
        Next::After(HOUR)
    });
    starts.recv().unwrap();
    // The job runs, and no job is in the wheel; but this one will come back.
    assert_eq!(wheel.len(), 0);
    assert_eq!(wheel.try_insert(HOUR, || ()).unwrap_err().kind(), InsertErrorKind::Full);
    drop(release);
    wait_for(|| wheel.len() == 1);
    assert!(wheel.try_insert(HOUR, || ()).is_err());
    assert!(wheel.cancel(repeat.unwrap()));
    assert!(wheel.try_insert(HOUR, || ()).is_ok() && wheel.try_insert(HOUR, || ()).is_err());
}

#[test]
fn the_end_of_the_wheel_is_the_end_of_its_repeats() {
    let (wheel, driver) = manual();
    let (handle, _runs) = told(&wheel, Repeat::every(MS * 10), Next::Period);
    driver.advance(MS * 25);
    let unfired: Vec<_> = wheel.shutdown().collect();
    assert_eq!((unfired.len(), unfired[0].handle, unfired[0].remaining), (1, handle, MS * 5));
    // While a shutdown waits, the jobs that it has taken out cannot be cancelled, and the running
    // jobs that it waits for can.
    let wheel = threads(2);
    let scheduler = wheel.scheduler();
    let pending = wheel.every(HOUR, || ()).unwrap();
    let (started, starts) = channel();
    let mut gates = Vec::new();
    let running = [0, 1].map(|_| {
        let (release, gate) = channel::<()>();
        let started = started.clone();
        gates.push(release);
        wheel.repeat(Repeat::irregular(), move |_| {
            started.send(()).unwrap();
            let _ = gate.recv();
            Next::After(HOUR)
        })
    });
    assert_eq!(starts.iter().take(2).count(), 2);
    let end = thread::spawn(|| wheel.shutdown());
    wait_for(|| scheduler.insert(HOUR, || ()).is_err());
    assert!(!scheduler.cancel(pending) && !scheduler.is_pending(pending));
    drop(gates.remove(0));
    wait_for(|| scheduler.stats().in_flight == 1);
    let [back, still_running] = running.map(Result::unwrap);
    assert!(scheduler.cancel(back), "it has come back, and nobody has handed it out");
    drop(gates);
    let unfired: Vec<Handle> = end.join().unwrap().map(|unfired| unfired.handle).collect();
    assert!(unfired.contains(&pending) && unfired.contains(&still_running));
    assert!(!unfired.contains(&back));
    // A job that runs ends its run and comes back too, unless it was cancelled meanwhile, or the
    // wheel is dropped, which does not wait.
    for (cancel, shutdown) in [(false, true), (true, true), (false, false)] {
        let wheel = threads(1);
        let scheduler = wheel.scheduler();
        let (token, alive) = counted();
        let (started, starts) = channel();
        let (release, gate) = channel::<()>();
        let other = scheduler.clone();
        let running = wheel.repeat(Repeat::irregular(), move |run| {
            let _ = &token;
            started.send(()).unwrap();
            let _ = gate.recv();
            assert!(!cancel || other.cancel(run.handle));
            Next::After(HOUR)
        });
        starts.recv().unwrap();
        let end = thread::spawn(move || -> Vec<(Handle, Duration)> {
            match shutdown {
                true => {
                    wheel.shutdown().map(|unfired| (unfired.handle, unfired.remaining)).collect()
                }
                false => Vec::new(),
            }
        });
        wait_for(|| scheduler.insert(HOUR, || ()).is_err());
        if !shutdown {
            end.join().unwrap();
            drop(release);
            wait_for(|| alive() == 0);
            continue;
        }
        drop(release);
        let unfired = end.join().unwrap();
        let running = running.unwrap();
        let found = unfired.iter().find(|&&(handle, _)| handle == running);
        assert_eq!(found.is_some(), !cancel);
        assert!(found.is_none_or(|&(_, remaining)| remaining > HOUR / 2));
        assert_eq!(alive(), 0);
        assert!(!scheduler.is_pending(running));
        let late = scheduler.every(MS, || ()).unwrap_err();
        assert_eq!(late.kind(), InsertErrorKind::Shutdown);
    }
}
