//! Waiting for a wheel to be idle, and ending it within a limit.

use super::*;
use std::sync::LazyLock;
use tickwheel::{Group, Keyed, Next, Repeat};

/// C119: `is_idle` means that no job is pending, waits for a thread or runs.
#[test]
fn idle_means_that_nothing_is_pending_and_nothing_runs() {
    let wheel = threads(1);
    assert!(wheel.is_idle() && wheel.scheduler().is_idle());
    let pending = wheel.insert(HOUR, || ());
    assert!(!wheel.is_idle());
    assert!(wheel.cancel(pending) && wheel.is_idle());
    let release = blocker(&wheel);
    assert!(wheel.is_empty() && !wheel.is_idle(), "a job is running");
    let queued = wheel.insert(Duration::ZERO, || ());
    wait_for(|| !wheel.is_pending(queued));
    drop(release);
    assert!(wheel.wait_idle() && wheel.is_idle());
    assert_eq!(wheel.stats().completed, 2);
}

/// C120: `wait_idle` returns when the wheel is idle, for any reason.
#[test]
fn wait_idle_returns_when_the_last_job_has_gone() {
    // The wait ends in every way in which a wheel becomes idle.
    type Way = fn(&Wheel);
    let ways: [(&str, Way); 9] = [
        ("a job that runs", |wheel| {
            wheel.insert(MS * 20, || ());
        }),
        ("a job that inserts jobs", |wheel| {
            let scheduler = wheel.scheduler();
            wheel.insert(MS * 5, move || drop(scheduler.insert(MS * 5, || ())));
        }),
        ("a repeat that ends", |wheel| {
            let mut left = 3;
            let countdown = move |_| {
                left -= 1;
                if left > 0 { Next::Period } else { Next::Stop }
            };
            wheel.repeat(Repeat::every(MS * 5), countdown).unwrap();
        }),
        ("a job that panics", |wheel| {
            wheel.insert(MS * 5, || panic_any("as planned"));
        }),
        ("a cancel", |wheel| in_a_while(wheel, |wheel, job| assert!(wheel.cancel(job)))),
        ("a take", |wheel| in_a_while(wheel, |wheel, job| drop(wheel.take(job).unwrap()))),
        ("a batch", |wheel| {
            in_a_while(wheel, |wheel, job| assert_eq!(wheel.cancel_batch(&[job]), [true]));
        }),
        ("a reset", |wheel| in_a_while(wheel, |wheel, job| assert!(wheel.reset(job, MS)))),
        ("keys and a group", |wheel| {
            let (keyed, group) = (Keyed::new(wheel), Group::new(wheel));
            keyed.insert("key", HOUR, || ()).unwrap();
            group.insert(HOUR, || ()).unwrap();
            thread::spawn(move || {
                let_pass(MS * 10);
                assert_eq!(group.cancel_all() + keyed.cancel_all(), 2);
            });
        }),
    ];
    for (way, begin) in ways {
        let wheel = threads(2);
        begin(&wheel);
        assert!(wheel.wait_idle_timeout(MINUTE), "{way}");
        assert!(wheel.is_idle() && wheel.is_empty() && wheel.stats().in_flight == 0, "{way}");
    }
    // Several waiters, and a wheel that ends while they wait.
    let wheel = Arc::new(threads(1));
    wheel.insert(HOUR, || ());
    let waiters = [(); 3].map(|()| {
        let wheel = Arc::clone(&wheel);
        thread::spawn(move || wheel.wait_idle_timeout(MINUTE))
    });
    let_pass(MS * 5);
    assert_eq!(wheel.close().len(), 1);
    assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
}

/// Inserts a job for later, and has another thread call `see_to` after a while.
fn in_a_while(wheel: &Wheel, see_to: impl FnOnce(&tickwheel::Scheduler, Handle) + Send + 'static) {
    let (scheduler, job) = (wheel.scheduler(), wheel.insert(HOUR, || ()));
    thread::spawn(move || {
        let_pass(MS * 10);
        see_to(&scheduler, job);
    });
}

/// C119: A wheel in which a job is pending at every moment is never idle.
#[test]
fn wheel_that_always_has_a_job_is_never_idle() {
    let wheel = Wheel::builder().threads(1).shards(4).build().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut job = wheel.insert(HOUR, || ());
                while !done.load(Ordering::SeqCst) {
                    let next = wheel.insert(HOUR, || ());
                    assert!(wheel.cancel(job));
                    job = next;
                }
            });
        }
        wait_for(|| wheel.len() >= 2);
        let idle = (0..300_000).filter(|_| wheel.is_idle()).count();
        done.store(true, Ordering::SeqCst);
        assert_eq!(idle, 0);
    });
}

/// C120: `wait_idle` returns when its limit has passed.
#[test]
fn wait_idle_gives_up_when_its_limit_has_passed() {
    let wheel = threads(1);
    wheel.insert(HOUR, || ());
    assert!(!wheel.wait_idle_timeout(Duration::ZERO));
    let began = now();
    assert!(!wheel.wait_idle_timeout(MS * 20));
    assert!(began.elapsed() >= MS * 20);
}

/// C120: On a thread of the pool and on a manual wheel, `wait_idle` does not wait.
#[test]
fn wait_idle_does_not_wait_on_the_pool_or_a_manual_wheel() {
    let wheel = Arc::new(threads(1));
    let (sender, answer) = channel();
    let own = Arc::clone(&wheel);
    wheel.insert(Duration::ZERO, move || sender.send(own.wait_idle()).unwrap());
    assert_eq!(answer.recv_timeout(MINUTE), Ok(false));
    let (wheel, driver) = manual();
    let wheel = Arc::new(wheel);
    let own = Arc::clone(&wheel);
    wheel.insert(MS, move || assert!(!own.wait_idle()));
    assert!(!wheel.wait_idle());
    assert_eq!(driver.advance(MS), 1);
    assert!(wheel.wait_idle() && wheel.stats().panicked == 0);
}

/// C115: `shutdown_timeout` waits no longer than its limit, and running jobs go on.
#[test]
fn shutdown_timeout_leaves_running_jobs_alone() {
    let wheel = threads(2);
    let release = blocker(&wheel);
    let (ended, end) = channel();
    wheel.insert(HOUR, || ());
    let ping = wheel.every(MS, move || ended.send(()).unwrap_or_default()).unwrap();
    end.recv().unwrap();
    assert!(wheel.reset(ping, HOUR));
    wait_for(|| wheel.stats().in_flight == 1);
    let began = now();
    let unfired = wheel.shutdown_timeout(MS * 30);
    assert!(began.elapsed() >= MS * 30 && unfired.still_running() == 1);
    // The repeating job came back, too.
    assert_eq!((unfired.len(), wheel.shutdown_timeout(MINUTE).len()), (2, 0));
    assert!(wheel.try_insert(MS, || ()).is_err());
    drop(unfired);
    // The sender was dropped with the repeating job, so this ends.
    end.iter().for_each(drop);
    // The job that outlasts the limit ends on its own.
    assert!(!wheel.wait_idle_timeout(MS));
    drop(release);
    assert!(wheel.wait_idle_timeout(MINUTE) && wheel.stats().in_flight == 0);
    // A shutdown with nothing to wait for returns at once.
    let wheel = threads(2);
    wheel.insert(Duration::MAX, || ());
    let unfired = wheel.shutdown_timeout(Duration::MAX);
    assert_eq!((unfired.len(), unfired.still_running()), (1, 0));
}

static STATIC: LazyLock<Wheel> = LazyLock::new(Wheel::new);

/// C116: `close` ends a shared wheel, and every job comes back to one of the callers.
#[test]
fn shared_wheel_can_be_closed() {
    STATIC.insert(HOUR, || ());
    assert_eq!(STATIC.close().len(), 1);
    assert_eq!(STATIC.close().len(), 0);
    assert!(STATIC.is_empty() && STATIC.is_idle());
    assert!(Group::new(&STATIC).is_empty() && Keyed::<u8>::new(&Arc::new(threads(1))).is_empty());
    // Many threads may close a wheel: every job comes back to one of them.
    let wheel = Arc::new(threads(2));
    let handles: HashSet<Handle> = (0..100).map(|_| wheel.insert(HOUR, || ())).collect();
    let closers = [(); 4].map(|()| {
        let wheel = Arc::clone(&wheel);
        thread::spawn(move || wheel.close().map(|unfired| unfired.handle).collect::<Vec<_>>())
    });
    let back: Vec<Handle> = closers.into_iter().flat_map(|it| it.join().unwrap()).collect();
    assert_eq!((back.len(), back.into_iter().collect::<HashSet<_>>()), (100, handles));
    let refused = wheel.try_insert(MS, || ()).unwrap_err();
    assert_eq!(refused.kind(), InsertErrorKind::Shutdown);
    // A repeating job that runs comes back to the first caller, which waits for it.
    let wheel = Arc::new(threads(1));
    let (wait, gate) = gate();
    wheel.every(MS, wait).unwrap();
    gate.has_come();
    let first = Arc::clone(&wheel);
    let first = thread::spawn(move || first.close().len());
    let mut others = 0;
    while wheel.try_insert(HOUR, || ()).is_ok() {
        others += 1;
    }
    let second = wheel.close();
    assert_eq!((second.len(), second.still_running(), first.is_finished()), (0, 0, false));
    drop(gate);
    assert_eq!(first.join().unwrap(), others + 1);
}
