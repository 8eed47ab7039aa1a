//! Bounds on pending jobs and on jobs in flight, and values that are refused.

use super::*;
use std::error::Error;

/// C54: `try_insert` returns the job if the wheel is full, and freed room can be used at once.
#[test]
fn full_wheel_gives_the_job_back() {
    let (wheel, driver) = Wheel::builder().max_pending(2).manual().unwrap();
    let (token, alive) = counted();
    let first = wheel.insert(MS, || ());
    wheel.try_insert(MS, || ()).unwrap();
    let refused = wheel.try_insert(driver.now(), move || drop(token)).unwrap_err();
    assert_eq!(refused.kind(), InsertErrorKind::Full);
    assert_eq!(refused.to_string(), "the insert was refused: the wheel is full");
    assert_eq!(alive(), 1);
    refused.into_inner()();
    assert_eq!(alive(), 0);
    assert_eq!(wheel.scheduler().insert(MS, || ()).unwrap_err().kind(), InsertErrorKind::Full);
    assert!(wheel.cancel(first));
    wheel.try_insert(MS, || ()).unwrap();
    assert!(wheel.try_insert(MS, || ()).is_err());
    assert_eq!(driver.advance(MS), 2);
    let both = [0, 1].map(|_| wheel.try_insert(HOUR, || ()).unwrap());
    assert!(wheel.take(both[0]).is_some());
    assert!(wheel.try_insert(MS, || ()).is_ok() && wheel.try_insert(MS, || ()).is_err());
}

/// C54: `insert` panics on a full wheel, at the caller's line and with the bound.
#[test]
fn insert_panics_on_a_full_wheel() {
    let (wheel, _driver) = Wheel::builder().max_pending(17).manual().unwrap();
    for _ in 0..17 {
        wheel.insert(MS, || ());
    }
    let (sender, places) = channel();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if thread::current().name() == Some("inserts") {
            let _ = sender.send(panic.location().unwrap().to_string());
        }
        hook(panic);
    }));
    thread::scope(|scope| {
        let insert = || (line!(), catch_unwind(AssertUnwindSafe(|| wheel.insert(MS, || ()))));
        let inserts = thread::Builder::new().name("inserts".into()).spawn_scoped(scope, insert);
        let (line, unwound) = inserts.unwrap().join().unwrap();
        let message = *unwound.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("`Wheel::insert`") && message.contains("17"), "{message}");
        let place = places.recv().unwrap();
        assert!(place.starts_with(&format!("{}:{line}:", file!())), "{place}");
    });
    let _ = std::panic::take_hook();
    assert_eq!(wheel.len(), 17);
    drop(wheel.close());
    let message = *catch_unwind(AssertUnwindSafe(|| wheel.insert(MS, || ())))
        .unwrap_err()
        .downcast::<String>()
        .unwrap();
    assert_eq!(message, "`Wheel::insert`: the wheel is shut down");
}

/// C55: A due job beyond `max_in_flight` waits in the wheel, and can be cancelled.
#[test]
fn jobs_beyond_max_in_flight_wait_in_the_wheel() {
    // More threads than the bound: they do not hold jobs back.
    let wheel = Wheel::builder().threads(4).max_in_flight(2).build().unwrap();
    let first = [blocker(&wheel), blocker(&wheel)];
    let ran = Arc::new(AtomicU64::new(0));
    let [running, most] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let handles: Vec<Handle> = (0..50)
        .map(|_| {
            let (ran, running, most) = (Arc::clone(&ran), Arc::clone(&running), Arc::clone(&most));
            wheel.insert(Duration::ZERO, move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let_pass(MS);
                running.fetch_sub(1, Ordering::SeqCst);
                ran.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    let_pass(MS * 20);
    assert_eq!((wheel.len(), wheel.stats().in_flight), (50, 2));
    assert_eq!(wheel.remaining(handles[0]), Some(Duration::ZERO), "due, and waits");
    assert!(handles[..10].iter().all(|&handle| wheel.cancel(handle)));
    drop(first);
    wait_for(|| ran.load(Ordering::SeqCst) == 40);
    assert!(most.load(Ordering::SeqCst) <= 2);
}

/// C56, C103: Values that make no sense, or exclude each other, are refused in each way to build a wheel, and the error
/// names them.
#[test]
fn values_that_make_no_sense_are_refused_by_name() {
    type Set = fn(Builder) -> Builder;
    let build = |set: Set| set(Wheel::builder()).build().unwrap_err().to_string();
    let manual = |set: Set| set(Wheel::builder()).manual().unwrap_err().to_string();
    let driven = |set: Set| set(Wheel::builder()).driven().unwrap_err().to_string();
    let in_each_way: [(Set, &str); 7] = [
        (|new| new.tick(Duration::ZERO), "tick(0ns): a tick is above zero and below 584 years"),
        (
            |new| new.tick(Duration::from_secs(1 << 60)),
            "tick(1152921504606846976s): a tick is above zero and below 584 years",
        ),
        (|new| new.shards(0), "shards(0): the wheel needs between 1 and 1024"),
        (
            |new| new.shards(Builder::MAX_SHARDS + 1),
            "shards(1025): the wheel needs between 1 and 1024",
        ),
        (|new| new.max_pending(0), "max_pending(0): the wheel could not take any job"),
        (|new| new.max_in_flight(0), "max_in_flight(0): the wheel could not run any job"),
        (|new| new.name("\0"), "name(\"\\0\"): names of threads cannot contain a NUL byte"),
    ];
    for (set, message) in in_each_way {
        assert_eq!([build(set), manual(set), driven(set)], [message; 3]);
    }
    let pool: Set = |new| new.pool(pool_of(1));
    let threads: Set = |new| new.threads(1);
    let refusals = [
        (build(|new| new.threads(0)), "threads(0): the pool needs between 1 and 1024"),
        (
            build(|new| new.threads(Builder::MAX_THREADS + 1)),
            "threads(1025): the pool needs between 1 and 1024",
        ),
        (
            build(|new| new.pool(pool_of(1)).threads(1)),
            "pool and threads exclude each other: choose one",
        ),
        (manual(threads), "manual and threads exclude each other: choose one"),
        (manual(pool), "manual and pool exclude each other: choose one"),
        (driven(threads), "driven and threads exclude each other: choose one"),
        (driven(pool), "driven and pool exclude each other: choose one"),
    ];
    for (refused, message) in refusals {
        assert_eq!(refused, message);
    }
    let error = ConfigError::Ticker(std::io::Error::other("no more threads"));
    assert_eq!(error.to_string(), "the ticker's thread did not start: no more threads");
    assert_eq!(error.source().unwrap().to_string(), "no more threads");
}
