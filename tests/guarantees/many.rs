//! Many jobs at once: batches, guards, groups, and slack.

use super::*;
use tickwheel::{Group, Guard, Keyed, Next, Repeat, When};

/// C35: The batch verbs return their results in the order of their arguments.
#[test]
fn batch_returns_results_in_order() {
    let wheel = Wheel::builder().threads(1).shards(3).build().unwrap();
    let own = wheel.insert_batch((0..100).map(|n| (HOUR * n, || ()))).unwrap();
    let elsewhere = thread::scope(|scope| {
        let insert = || wheel.insert_batch((0..100).map(|n| (HOUR * n, || ()))).unwrap();
        scope.spawn(insert).join().unwrap()
    });
    // Handles of two shards, mixed; some are stale, some of another wheel, and one repeats.
    let repeat = wheel.every(HOUR, || ()).unwrap();
    let (other, _driver) = manual();
    let foreign = other.insert(HOUR, || ());
    let mut handles: Vec<Handle> =
        own.iter().zip(&elsewhere).skip(1).flat_map(|(&a, &b)| [a, b]).collect();
    handles.extend([repeat, foreign, handles[7], handles[7]]);
    assert!(wheel.cancel(handles[11]));
    let later: Vec<_> = handles.iter().map(|&handle| (handle, HOUR * 200)).collect();
    let expected: Vec<bool> = (0..handles.len()).map(|n| n != 11 && n != 199).collect();
    assert_eq!(wheel.reset_batch(&later), expected);
    for (handle, done) in handles.iter().zip(expected) {
        let remaining = wheel.remaining(*handle);
        assert!(remaining.is_some_and(|remaining| remaining > HOUR * 199) == done);
    }
    let mut expected: Vec<bool> = (0..handles.len()).map(|n| n != 11 && n != 199).collect();
    expected[200] = false;
    expected[201] = false;
    assert_eq!(wheel.cancel_batch(&handles), expected);
    assert!(other.is_pending(foreign));
    assert_eq!((wheel.cancel_batch(&[]).len(), wheel.reset_batch::<Duration>(&[]).len()), (0, 0));
}

/// C36: `insert_batch` inserts all jobs, or gives every job back.
#[test]
fn batch_insert_is_all_or_nothing() {
    let wheel = Wheel::builder().max_pending(10).threads(1).build().unwrap();
    wheel.insert(HOUR, || ());
    let (token, alive) = counted();
    let job = move |token: &Arc<()>| {
        let token = Arc::clone(token);
        move || drop(token)
    };
    let timers: Vec<_> = (0..10).map(|n| (HOUR * n, job(&token))).collect();
    let refused = wheel.insert_batch(timers).unwrap_err();
    assert_eq!((refused.kind(), wheel.len()), (InsertErrorKind::Full, 1));
    let mut back = refused.into_inner();
    assert!(back.iter().map(|&(delay, _)| delay).eq((0..10).map(|n| HOUR * n)));
    assert_eq!(alive(), 11);
    // With one job less, there is room for all.
    back.pop();
    back[0].0 = HOUR;
    let handles = wheel.insert_batch(back).unwrap();
    assert_eq!((handles.len(), wheel.len()), (9, 10));
    assert!(wheel.try_insert(HOUR, || ()).is_err());
    assert_eq!(wheel.cancel_batch(&handles), [true; 9]);
    assert_eq!(alive(), 1);
    let scheduler = wheel.scheduler();
    drop(wheel);
    let timers: Vec<_> = (0..5).map(|n| (HOUR * n, job(&token))).collect();
    let late = scheduler.insert_batch(timers).unwrap_err();
    assert_eq!((late.kind(), late.into_inner().len()), (InsertErrorKind::Shutdown, 5));
    assert_eq!(alive(), 1);
}

/// C37: A `Guard` cancels its job when it is dropped, unless it was detached. `Guard::reset` moves the job.
#[test]
fn guard_cancels_when_it_is_dropped() {
    let (wheel, driver) = manual();
    let guard = || Guard::new(wheel.scheduler(), wheel.insert(MS, || ()));
    let (dropped, detached, fired) = (guard(), guard(), guard());
    let handle = dropped.handle();
    drop(dropped);
    assert!(!wheel.is_pending(handle) && wheel.len() == 2);
    let kept = detached.detach();
    assert!(wheel.is_pending(kept));
    assert_eq!(driver.advance(MS), 2);
    // A job that has run can neither be moved nor cancelled.
    assert!(!fired.reset(MS));
    drop(fired);
    let idle = guard();
    assert!(idle.reset(driver.wall_now() + MS * 5) && idle.reset(driver.now() + MS * 3));
    assert_eq!((driver.advance(MS * 2), driver.advance(MS)), (0, 1));
    // A repeating job is guarded through all of its runs, and a guard does not keep the wheel
    // alive.
    let ping = Guard::new(wheel.scheduler(), wheel.every(MS, || ()).unwrap());
    assert_eq!(driver.advance(MS * 3), 3);
    drop(ping);
    assert!(wheel.is_empty());
    let late = guard();
    drop(wheel);
    drop(late);
}

/// C38: The drop of a `Group` cancels its jobs, unless it was detached.
#[test]
fn group_that_is_dropped_cancels_unless_detached() {
    let (wheel, driver) = manual();
    let (token, alive) = counted();
    let [dropped, detached] = [0, 1].map(|_| Group::new(wheel.scheduler()));
    for group in [&dropped, &detached] {
        let token = Arc::clone(&token);
        group.insert(MS, move || drop(token)).unwrap();
    }
    drop(dropped);
    assert_eq!((wheel.len(), alive()), (1, 2));
    detached.detach();
    assert_eq!((driver.advance(MS), alive()), (1, 1));
}

/// C38: A group keeps nothing of jobs that have run or were cancelled.
#[test]
fn group_keeps_nothing_of_past_jobs() {
    let (wheel, driver) = manual();
    // A running job is no longer in the group.
    let group = Arc::new(Group::new(wheel.scheduler()));
    let (own, (sender, seen)) = (Arc::clone(&group), channel());
    group.insert(MS, move || sender.send(own.len()).unwrap()).unwrap();
    assert_eq!((driver.advance(MS), seen.recv()), (1, Ok(0)));
    // A refused job does not become a member, and a job that the end of the wheel drops does not
    // stay one.
    assert!(group.repeat(Repeat::every(Duration::ZERO), |_| Next::Stop).is_err());
    group.insert(HOUR, || ()).unwrap();
    assert_eq!(group.len(), 1);
    drop(wheel);
    assert!(group.is_empty());
    let late = group.insert(MS, || ()).unwrap_err();
    assert_eq!((late.kind(), group.len()), (InsertErrorKind::Shutdown, 0));
}

/// C38: Of a cancel of a group and the fire of its job, exactly one happens, on any threads.
#[test]
fn group_may_be_used_by_many_threads() {
    let wheel = Wheel::builder().tick(Duration::from_micros(1)).threads(2).build().unwrap();
    let group = Group::new(wheel.scheduler());
    let (ran, cancelled) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for n in 0..5_000 {
                    let ran = Arc::clone(&ran);
                    let job = move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                    };
                    group.insert(Duration::from_nanos(n % 7 * 1000), job).unwrap();
                    if n % 100 == 0 {
                        cancelled.fetch_add(group.cancel_all(), Ordering::SeqCst);
                    }
                }
            });
        }
    });
    wait_for(|| group.is_empty() && wheel.stats().in_flight == 0);
    assert_eq!(ran.load(Ordering::SeqCst) + cancelled.load(Ordering::SeqCst), 15_000);
    assert_eq!(wheel.stats().panicked, 0);
}

/// C39: With slack, a job runs at or after its delay, and at a tick within the slack if there is one.
#[test]
fn slack_is_kept_and_no_job_is_early() {
    let nanosecond = Duration::from_nanos(1);
    for micros in [10, 70, 1000] {
        let tick = Duration::from_micros(micros);
        let (wheel, driver) = Wheel::builder().tick(tick).manual().unwrap();
        for n in 0..2000_u32 {
            let (delay, slack) = (MS * (n % 37) / 3, MS * (n % 11) / 7);
            wheel.insert(When::after(delay).within(slack), || ());
            assert_eq!(driver.advance(delay.saturating_sub(nanosecond)), 0, "{delay:?} {slack:?}");
            // If no tick lies within the slack, the job is due at the next one.
            let latest = slack.max(tick) + nanosecond;
            assert_eq!(driver.advance(latest), 1, "{delay:?} {slack:?}");
        }
        wheel.insert(When::after(Duration::MAX).within(Duration::MAX), || ());
        assert_eq!((driver.advance(HOUR * 1000), wheel.len()), (0, 1));
    }
}

/// C39: Timers choose a tick within their slack that many others choose.
#[test]
fn slack_lets_timers_share_a_tick() {
    let ticks = |tenths: u32| {
        let (wheel, driver) = manual();
        let (sender, ticks) = channel();
        for n in 0..10_000_u32 {
            // From one second to eleven, in no order.
            let delay = MS * (1000 + n.wrapping_mul(7919) % 10_000);
            let sender = sender.clone();
            let job = move || sender.send(()).unwrap();
            wheel.insert(When::after(delay).within(delay * tenths / 10), job);
        }
        let mut with_work = 0;
        for _ in 0..13_000 {
            driver.advance(MS);
            with_work += usize::from(ticks.try_iter().count() > 0);
        }
        assert!(wheel.is_empty());
        with_work
    };
    let (without, with) = (ticks(0), ticks(1));
    assert_eq!(without, 10_000);
    assert!(with < without / 100, "{with} wake-ups");
}

/// C40: On a manual clock the jitter is the same in every run, and spread over the window.
#[test]
fn jitter_is_random_and_the_same_in_every_run() {
    let draw = || {
        let (wheel, _driver) = manual();
        let insert = |_| wheel.insert(When::after(HOUR).jitter(HOUR), || ());
        (0..20).map(insert).map(|job| wheel.remaining(job)).collect::<Vec<_>>()
    };
    assert_eq!(draw(), draw());
    assert!(draw().into_iter().collect::<HashSet<_>>().len() > 10);
}

/// C41: Slack and jitter work with every way to give a time.
#[test]
fn window_works_with_every_way_to_give_a_time() {
    let windows: [fn(Duration) -> When; 2] =
        [|delay| When::after(delay).within(MS * 100), |delay| When::after(delay).jitter(MS * 100)];
    for window in windows {
        let (wheel, driver) = manual();
        let (keyed, group) = (Keyed::new(&wheel), Group::new(&wheel));
        let early = [0; 3].map(|_| wheel.insert(MS, || ()));
        for n in 0..50 {
            wheel.insert(window(MS * 900), || ());
            keyed.insert(n, window(MS * 900), || ()).unwrap();
            group.insert(window(MS * 900), || ()).unwrap();
        }
        wheel.insert_batch((0..50).map(|_| (window(MS * 900), || ()))).unwrap();
        assert!(wheel.reset(early[0], window(MS * 900)));
        assert_eq!(
            wheel.reset_batch(
                &early[1..].iter().map(|&job| (job, window(MS * 900))).collect::<Vec<_>>()
            ),
            [true; 2]
        );
        let at_wall = driver.wall_now() + MS * 900;
        wheel.insert(When::wall(at_wall).within(MS * 100), || ());
        assert_eq!(driver.advance(MS * 899), 0, "one is early");
        let in_time = driver.advance(MS * 101);
        assert_eq!((in_time, wheel.len()), (50 * 4 + 3 + 1, 0));
    }
}

/// C41: The slack or jitter of a repeating job moves its runs, and not its phase.
#[test]
fn window_leaves_the_phase_of_a_repeating_job_alone() {
    let (wheel, driver) = manual();
    let runs: Arc<Mutex<Vec<(tickwheel::Run, Instant)>>> = Arc::default();
    let (driver, told) = (Arc::new(driver), Arc::clone(&runs));
    let (period, most) = (MS * 100, MS * 50);
    let (clock, began) = (Arc::clone(&driver), driver.now());
    let handle = wheel
        .repeat(Repeat::every(period).jitter(most), move |run| {
            told.lock().unwrap().push((run, clock.now()));
            Next::Period
        })
        .unwrap();
    driver.advance(period * 100 + most);
    assert!(wheel.cancel(handle));
    let runs = runs.lock().unwrap();
    for ((run, at), n) in runs.iter().zip(1..) {
        assert_eq!((run.deadline, run.missed), (began + period * n, 0));
        assert!(
            *at >= run.deadline && *at <= run.deadline + most && run.late == *at - run.deadline
        );
    }
    let late: HashSet<Duration> = runs.iter().map(|(run, _)| run.late).collect();
    assert!(runs.len() == 100 && late.len() > 10, "{late:?}");
    // The result of a run may have a window of its own.
    let (wheel, driver) = manual();
    let at = When::after(MS * 60).within(MS * 10);
    wheel.repeat(Repeat::irregular(), move |_| Next::When(at)).unwrap();
    assert_eq!((driver.advance(MS), driver.advance(MS * 62), driver.advance(MS)), (1, 0, 1));
    // A result without a window has that of the repeat: tick 8 of 1 to 10, and then tick 72 of 68 to 78.
    let (wheel, driver) = manual();
    wheel.repeat(Repeat::irregular().within(MS * 10), |_| Next::After(MS * 60)).unwrap();
    assert_eq!((driver.advance(MS * 8), driver.advance(MS * 63), driver.advance(MS)), (1, 0, 1));
    // With slack, the runs of many jobs share a tick.
    let (wheel, driver) = manual();
    for n in 0..10 {
        let repeat = Repeat::every(period).starting(MS * (60 + n)).within(most);
        wheel.repeat(repeat, |_| Next::Period).unwrap();
    }
    assert_eq!((driver.advance(MS * 63), driver.advance(MS), driver.advance(MS * 5)), (0, 5, 0));
}

/// C36: A group takes batches, all or nothing, and jobs that repeat.
#[test]
fn a_group_takes_batches_and_repeats() {
    let (wheel, driver) = Wheel::builder().max_pending(12).manual().unwrap();
    let group = Group::new(&wheel);
    let handles = group.insert_batch((0..10).map(|_| (HOUR, || ()))).unwrap();
    let ping = group.every(MS, || ()).unwrap();
    assert!(handles.iter().all(|&handle| wheel.is_pending(handle)) && wheel.is_pending(ping));
    assert!(group.scheduler().reset(ping, MS) && group.scheduler().now() == driver.now());
    assert_eq!((group.len(), driver.advance(MS * 3)), (11, 3));
    let at_wall = (wheel.wall_now() + HOUR, || ());
    assert_eq!(group.insert_batch([at_wall]).unwrap().len(), 1);
    // A batch that is refused leaves no member behind.
    let refused = group.insert_batch((0..3).map(|_| (HOUR, || ()))).unwrap_err();
    assert_eq!((refused.kind(), refused.into_inner().len()), (InsertErrorKind::Full, 3));
    assert_eq!((group.len(), group.cancel_all(), wheel.len(), group.len()), (12, 12, 0, 0));
}

/// C36: A batch that unwinds leaves no job behind and keeps no room.
#[test]
fn batch_that_unwinds_leaves_nothing_behind() {
    #[derive(Clone, Copy)]
    struct Time(u64);
    impl From<Time> for When {
        fn from(Time(count): Time) -> When {
            if count == 0 { panic_any("no such time") } else { When::after(MS * count as u32) }
        }
    }
    let (wheel, driver) = Wheel::builder().max_pending(3).manual().unwrap();
    let (keyed, group) = (Keyed::new(&wheel), Group::new(&wheel));
    let times = || [Time(1), Time(0), Time(2)];
    for _ in 0..3 {
        let one_shot = || drop(wheel.insert_batch(times().map(|time| (time, || ()))));
        let jobs =
            || drop(wheel.insert_batch(times().map(|time| (time, tickwheel::Job::new(|| ())))));
        let keys = || drop(keyed.insert_batch(times().map(|time| (time.0, time, || ()))));
        let grouped = || drop(group.insert_batch(times().map(|time| (time, || ()))));
        let ways: [&dyn Fn(); 4] = [&one_shot, &jobs, &keys, &grouped];
        for way in ways {
            assert!(catch_unwind(AssertUnwindSafe(way)).is_err());
            assert_eq!((wheel.len(), keyed.len(), group.len()), (0, 0, 0));
        }
    }
    // The same for a key whose `Hash` panics, but the keys before it stay inserted.
    #[derive(PartialEq, Eq)]
    struct Key(u64);
    impl std::hash::Hash for Key {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            if self.0 == 0 { panic_any("no such key") } else { state.write_u64(self.0) }
        }
    }
    let keyed = Keyed::new(&wheel);
    let keys = || drop(keyed.insert_batch([1, 0, 2].map(|key| (Key(key), HOUR, || ()))));
    assert!(catch_unwind(AssertUnwindSafe(keys)).is_err());
    assert_eq!((keyed.len(), keyed.cancel_all()), (1, 1));
    assert!(wheel.insert_batch([Time(1); 3].map(|time| (time, || ()))).is_ok());
    assert_eq!(driver.advance(MS), 3);
}

/// C35: All delays of a batch count from one moment, also if the times take long to make.
#[test]
fn delays_of_a_batch_count_from_one_moment() {
    #[derive(Clone, Copy)]
    struct Slow;
    impl From<Slow> for When {
        fn from(_: Slow) -> When {
            let_pass(3 * MS);
            HOUR.into()
        }
    }
    let wheel = threads(1);
    let handles = wheel.insert_batch([0, 1].map(|_| (Slow, || ()))).unwrap();
    // Time goes on between the two questions, so the second answer is less, unless that job is due later.
    let [first, second] = [0, 1].map(|n| wheel.remaining(handles[n]));
    assert!(second <= first, "{first:?}, {second:?}");
}
