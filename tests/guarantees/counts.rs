//! The counters of a wheel.

use super::*;
use tickwheel::Stats;

/// Checks that every job that was inserted is counted in one place.
#[track_caller]
fn assert_complete(stats: &Stats) {
    let somewhere = stats.pending as u64
        + stats.cancelled
        + stats.in_flight as u64
        + stats.completed
        + stats.discarded;
    assert_eq!(stats.inserted, somewhere, "{stats:?}");
    assert_eq!(stats.start.count, stats.completed + stats.busy_threads as u64);
}

/// C109: `Stats` counts every job in exactly one of its states.
#[test]
fn stats_count_every_job_exactly_once() {
    let wheel = Wheel::builder().threads(1).max_pending(8).build().unwrap();
    let scheduler = wheel.scheduler();
    let release = blocker(&wheel);
    let stats = wheel.stats();
    assert_eq!((stats.busy_threads, stats.in_flight, stats.completed), (1, 1, 0));
    let [cancelled, taken, _pending] = [0; 3].map(|_| wheel.insert(HOUR, || ()));
    assert!(wheel.reset(cancelled, HOUR * 2) && wheel.cancel(cancelled));
    assert!(!wheel.reset(cancelled, HOUR) && wheel.take(taken).is_some());
    let both = wheel.insert_batch([HOUR; 2].map(|delay| (delay, || ()))).unwrap();
    assert_eq!(wheel.reset_batch(&[(both[0], HOUR), (cancelled, HOUR)]), [true, false]);
    let ping = wheel.every(HOUR, || ()).unwrap();
    assert!(wheel.reset(ping, HOUR * 2));
    let queued = wheel.insert(Duration::ZERO, || ());
    wait_for(|| !wheel.is_pending(queued));
    assert!(wheel.insert_batch((0..9).map(|_| (HOUR, || ()))).is_err());
    assert!(wheel.every(Duration::ZERO, || ()).is_err());
    let stats = wheel.stats();
    assert_complete(&stats);
    assert_eq!((stats.pending, stats.in_flight, stats.cancelled), (4, 2, 2));
    assert_eq!((stats.resets, stats.refused, stats.discarded), (3, 10, 0));
    assert!(stats.wakeups >= 1);
    drop(release);
    wait_for(|| wheel.stats().completed == 2);
    assert_complete(&wheel.stats());
    let release = blocker(&wheel);
    let queued = wheel.insert(Duration::ZERO, || ());
    wait_for(|| !wheel.is_pending(queued));
    drop(wheel.shutdown_timeout(Duration::ZERO));
    assert!(scheduler.insert(MS, || ()).is_err());
    let stats = scheduler.stats();
    assert_complete(&stats);
    assert_eq!((stats.pending, stats.in_flight, stats.discarded), (0, 1, 5));
    assert_eq!(stats.refused, 11);
    drop(release);
    wait_for(|| scheduler.stats().in_flight == 0);
    assert_complete(&scheduler.stats());
    assert_eq!((scheduler.stats().completed, scheduler.stats().busy_threads), (3, 0));
}

/// C110: `Stats::busy_threads` never exceeds the threads of the pool.
#[test]
fn busy_threads_never_exceed_the_pool() {
    let wheel = threads(2);
    let scheduler = wheel.scheduler();
    for _ in 0..200 {
        wheel.insert_batch((0..200).map(|_| (Duration::ZERO, || ()))).unwrap();
        let stats = scheduler.stats();
        assert!(stats.busy_threads <= 2 && stats.busy_threads <= stats.in_flight + 2, "{stats:?}");
    }
    assert!(wheel.wait_idle());
    assert_eq!((wheel.stats().busy_threads, wheel.stats().completed), (0, 40_000));
}

/// C109: The counters of a snapshot are consistent while the wheel ends.
#[test]
fn counters_are_consistent_while_a_wheel_ends() {
    for _ in 0..20 {
        let wheel = threads(1);
        let release = blocker(&wheel);
        wheel.insert_batch((0..2000).map(|_| (Duration::ZERO, || ()))).unwrap();
        wait_for(|| wheel.is_empty());
        // The queued jobs are discarded one by one, and no other job has ended yet.
        let (scheduler, done) = (wheel.scheduler(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    assert!(scheduler.stats().completed <= 2001);
                }
            });
            drop(wheel);
            done.store(true, Ordering::SeqCst);
        });
        drop(release);
        wait_for(|| scheduler.is_idle());
        assert_complete(&scheduler.stats());
    }
}

/// C16: `on_panic` gets the handle of the job that panicked, in a run or in a drop.
#[test]
fn panic_has_the_handle_of_its_job() {
    use tickwheel::{Group, Keyed};
    let (sender, panics) = channel();
    let builder = Wheel::builder().on_panic(move |panic| {
        sender.send((panic.handle, panic.message().map(str::to_owned))).unwrap();
    });
    let (wheel, driver) = builder.manual().unwrap();
    let (keyed, group) = (Keyed::new(&wheel), Group::new(&wheel));
    let boom = || panic!("number {}", 7);
    keyed.insert("key", MS, boom).unwrap();
    let inserted = [
        wheel.insert(MS, boom),
        wheel.insert(wheel.wall_now() + MS, boom),
        wheel.insert_with(MS, |_| boom).unwrap(),
        wheel.insert_batch([(MS, boom)]).unwrap()[0],
        wheel.every(MS, boom).unwrap(),
        group.insert(MS, boom).unwrap(),
        keyed.handle("key").unwrap(),
    ];
    assert_eq!(driver.advance(MS), 7);
    let told = |receiver: &Receiver<(Option<Handle>, Option<String>)>| {
        let mut handles = Vec::new();
        for (handle, message) in receiver.try_iter() {
            assert_eq!(message.as_deref(), Some("number 7"));
            handles.push(handle.unwrap());
        }
        handles.sort_unstable();
        handles
    };
    let sorted = |mut handles: Vec<Handle>| {
        handles.sort_unstable();
        handles
    };
    assert_eq!(told(&panics), sorted(inserted.to_vec()));
    // Also for a job that panics in its drop: by a cancel, by a batch, and when `Unfired` is dropped.
    let bomb = || OnDrop(|| panic!("number {}", 7));
    let insert = || {
        let bomb = bomb();
        wheel.insert(HOUR, move || drop(bomb))
    };
    let (cancelled, in_batch, unfired) = (insert(), insert(), insert());
    assert!(wheel.cancel(cancelled));
    assert_eq!(wheel.cancel_batch(&[in_batch]), [true]);
    drop(wheel.shutdown());
    assert_eq!(told(&panics), sorted(vec![cancelled, in_batch, unfired]));
}

/// C110: The metrics of a wheel have its counters, each once, and the lateness in two parts.
#[test]
fn metrics_of_a_wheel_are_its_counters() {
    let (wheel, driver) = Wheel::builder().manual().unwrap();
    let [cancelled, ..] = [1, 2, 3, 4].map(|n| wheel.insert(n * MS, || ()));
    assert!(wheel.cancel(cancelled));
    wheel.insert(HOUR, || ());
    driver.advance(2 * MS);
    driver.advance(10 * MS);
    let text = wheel.stats().metrics().to_string();
    for line in [
        "tickwheel_pending 1",
        "tickwheel_in_flight 0",
        "tickwheel_inserted_total 5",
        "tickwheel_cancelled_total 1",
        "tickwheel_fired_total 3",
        "tickwheel_completed_total 3",
        "tickwheel_refused_total 0",
        "tickwheel_lateness_seconds_bucket{part=\"start\",le=\"0.0001\"} 3",
        "tickwheel_lateness_seconds_bucket{part=\"handover\",le=\"+Inf\"} 3",
        "tickwheel_lateness_seconds_count{part=\"handover\"} 3",
    ] {
        assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}\n{text}");
    }
    let names: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    assert!(names.iter().all(|line| text.matches(line).count() == 1), "{text}");
    assert!(!text.contains("NaN") && text.ends_with('\n'));
}
