//! The calls that a job may make, and its effect on other jobs, on the wheel's own pool and on a
//! shared one.

use super::*;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// C15: A job runs exactly once, unless it is cancelled or the wheel ends first.
#[test]
fn jobs_run_exactly_once() {
    let wheel = Wheel::builder().tick(Duration::from_micros(200)).build().unwrap();
    let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..20_000).map(|_| AtomicUsize::new(0)).collect());
    thread::scope(|scope| {
        for lane in 0..4 {
            let (wheel, runs) = (&wheel, &runs);
            scope.spawn(move || {
                for n in (lane..runs.len()).step_by(4) {
                    let runs = Arc::clone(runs);
                    let delay = Duration::from_micros((n as u64 * 7919) % 30_000);
                    wheel.insert(delay, move || {
                        runs[n].fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        }
    });
    wait_for(|| wheel.is_empty() && wheel.stats().in_flight == 0);
    let stats = wheel.stats();
    assert_eq!((stats.inserted, stats.fired, stats.cancelled), (20_000, 20_000, 0));
    assert!(runs.iter().all(|runs| runs.load(Ordering::SeqCst) == 1));
}

/// C16: A panic of a job is counted and reported, and affects no other job.
#[test]
fn panic_of_a_job_is_counted_and_reported() {
    let (builder, reports) = reporting();
    let wheel = builder.threads(1).build().unwrap();
    let (sender, receiver) = channel();
    for n in 0..3 {
        let sender = sender.clone();
        wheel.insert(MS * n, || panic_any("in a job"));
        wheel.insert(MS * n, move || sender.send(()).unwrap());
    }
    receiver.iter().take(3).for_each(drop);
    assert_eq!(reports.iter().take(3).collect::<Vec<_>>(), ["in a job"; 3]);
    assert_eq!(wheel.stats().panicked, 3);
}

/// C16: A panic in the drop of a captured value is counted and reported, and affects no other job.
#[test]
fn panic_in_a_drop_is_counted_and_reported() {
    let (builder, reports) = reporting();
    let (wheel, driver) = builder.manual().unwrap();
    let insert = |text: &'static str| {
        let captured = OnDrop(move || panic_any(text));
        wheel.insert(MS, move || drop(captured))
    };
    assert!(wheel.cancel(insert("cancelled")));
    insert("run");
    assert_eq!(driver.advance(MS), 1);
    for text in ["discarded", "discarded"] {
        insert(text);
    }
    let (token, alive) = counted();
    wheel.insert(MS, move || drop(token));
    let scheduler = wheel.scheduler();
    drop(wheel);
    assert_eq!(alive(), 0, "the job after the bad ones");
    let reports: Vec<_> = reports.try_iter().collect();
    assert_eq!(reports, ["cancelled", "run", "discarded", "discarded"]);
    assert_eq!(scheduler.stats().panicked, 4);
}

/// C19: A job that blocks delays no other job while another thread is free.
#[test]
fn blocked_job_delays_its_own_thread_only() {
    let wheel = threads(2);
    let release = blocker(&wheel);
    let (sender, receiver) = channel();
    for n in 0..200 {
        let sender = sender.clone();
        wheel.insert(Duration::from_micros(n * 50), move || sender.send(()).unwrap());
    }
    receiver.iter().take(200).for_each(drop);
    drop(release);
}

/// C21: No other job of the wheel runs on the thread of a job that waits in rayon.
#[test]
fn job_that_waits_in_rayon_keeps_its_thread() {
    for threads in [2, 3] {
        let wheel = Wheel::builder().threads(threads).build().unwrap();
        let (mut wait_at_gate, gate) = gate();
        let lock = Arc::new(Mutex::new(()));
        // The job waits in `join` for a half that another thread has stolen, and holds a lock
        // meanwhile.
        let held = Arc::clone(&lock);
        wheel.insert(Duration::ZERO, move || {
            let _held = held.lock().unwrap();
            let stolen = &AtomicBool::new(false);
            let wait = || {
                while !stolen.load(Ordering::SeqCst) {
                    thread::yield_now()
                }
            };
            let half = move || {
                stolen.store(true, Ordering::SeqCst);
                wait_at_gate();
            };
            rayon::join(wait, half);
        });
        gate.has_come();
        // Other jobs run on a third thread if there is one, whichever thread is asked first.
        let (sender, receiver) = channel();
        for _ in 0..if threads == 3 { 200 } else { 0 } {
            let sender = sender.clone();
            wheel.insert(Duration::ZERO, move || sender.send(()).unwrap());
            receiver.recv_timeout(MINUTE).expect("it had a thread");
        }
        // If this job ran on top of the job that holds the lock, each would wait for the other.
        wheel.insert(Duration::ZERO, move || {
            drop(lock.lock().unwrap());
            sender.send(()).unwrap();
        });
        let_pass(MS * 50);
        assert!(receiver.try_recv().is_err());
        drop(gate);
        assert_eq!(receiver.recv_timeout(MINUTE), Ok(()));
        assert_eq!(wheel.stats().panicked, 0);
    }
}

/// C22: A job may call every verb of its wheel.
#[test]
fn job_may_use_its_wheel() {
    let wheel = Arc::new(threads(2));
    let (sender, receiver) = channel();
    let own = Arc::new(OnceLock::new());
    let victim = wheel.insert(HOUR, || ());
    let moved = wheel.insert(HOUR, {
        let sender = sender.clone();
        move || sender.send("moved").unwrap()
    });
    let handle = wheel.insert(MS * 5, {
        let (wheel, own) = (Arc::clone(&wheel), Arc::clone(&own));
        move || {
            let own = *own.wait();
            assert!(!wheel.is_pending(own) && !wheel.cancel(own) && !wheel.reset(own, MS));
            assert!(wheel.cancel(victim) && wheel.reset(moved, MS));
            let sender = sender.clone();
            let send = sender.clone();
            wheel.insert(MS, move || send.send("inserted").unwrap());
            wheel.spawn(move || sender.send("spawned").unwrap()).unwrap();
            assert!(wheel.stats().in_flight >= 1);
        }
    });
    own.set(handle).unwrap();
    let heard: HashSet<_> = receiver.iter().take(3).collect();
    assert_eq!(heard, HashSet::from(["moved", "inserted", "spawned"]));
    assert_eq!(wheel.stats().panicked, 0);
}

/// C22: The drop of a captured value may call every verb of the wheel.
#[test]
fn drop_may_use_its_wheel() {
    let wheel = threads(1);
    let insert = |delay| {
        let scheduler = wheel.scheduler();
        let captured = OnDrop(move || {
            let _ = scheduler.len();
            let _ = scheduler.spawn(|| ());
            if let Ok(handle) = scheduler.insert(HOUR, || ()) {
                assert!(scheduler.reset(handle, HOUR * 2) && scheduler.cancel(handle));
            }
        });
        wheel.insert(delay, move || drop(captured))
    };
    assert!(wheel.cancel(insert(HOUR)));
    insert(Duration::ZERO);
    wait_for(|| wheel.is_empty() && wheel.stats().in_flight == 0);
    assert_eq!(wheel.stats().panicked, 0);
    insert(HOUR);
    let scheduler = wheel.scheduler();
    drop(wheel);
    assert_eq!(scheduler.stats().panicked, 0);
}

/// Runs `end` on the wheel, in a job of that wheel. Returns when the job has ended.
fn in_its_own_job(end: impl FnOnce(Wheel) + Send + 'static) {
    let own: Arc<Mutex<Option<Wheel>>> = Arc::default();
    let (done, ended) = channel();
    let wheel = threads(1);
    let slot = Arc::clone(&own);
    let (ready, go) = channel::<()>();
    wheel.insert(HOUR, || ());
    wheel.insert(Duration::ZERO, move || {
        go.recv().unwrap();
        end(slot.lock().unwrap().take().unwrap());
        done.send(()).unwrap();
    });
    *own.lock().unwrap() = Some(wheel);
    ready.send(()).unwrap();
    ended.recv().unwrap();
}

/// C22: A job may drop the wheel it runs on.
#[test]
fn job_may_drop_its_wheel() {
    in_its_own_job(drop);
    // The same with a manual wheel.
    let own: Arc<Mutex<Option<Wheel>>> = Arc::default();
    let (wheel, driver) = manual();
    let slot = Arc::clone(&own);
    wheel.insert(MS, move || drop(slot.lock().unwrap().take()));
    wheel.insert(MS * 2, || panic!("the wheel is gone"));
    let scheduler = wheel.scheduler();
    *own.lock().unwrap() = Some(wheel);
    assert_eq!(driver.advance(HOUR), 1);
    assert_eq!(scheduler.stats().panicked, 0);
}

/// C22: A job, or a task that it spawned on the pool, may shut down its wheel.
#[test]
fn job_may_shut_its_wheel_down() {
    in_its_own_job(|wheel| assert_eq!(wheel.shutdown().count(), 1));
    // The job ends. Its thread, the only one, then runs the task that the job spawned.
    let (done, ended) = channel();
    in_its_own_job(|wheel| rayon::spawn(move || done.send(wheel.shutdown().count()).unwrap()));
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(1));
}

/// Starts `breadth` chains of jobs, which end when the flag is set. Each job inserts its successor,
/// and takes long enough that with some thousands of chains some job is always due.
fn flood(scheduler: &Scheduler, stop: &Arc<AtomicBool>, breadth: usize) {
    for _ in 0..breadth {
        let (next, flag) = (scheduler.clone(), Arc::clone(stop));
        if !stop.load(Ordering::SeqCst) {
            let _ = scheduler.insert(Duration::ZERO, move || {
                (0..1000).for_each(|_| std::hint::spin_loop());
                flood(&next, &flag, 1);
            });
        }
    }
}

/// C25: Other tasks of a shared pool run with any number of due jobs.
#[test]
fn shared_pool_runs_other_tasks_too() {
    let (pool, stop) = (pool_of(1), Arc::default());
    let wheel = Wheel::builder().pool(Arc::clone(&pool)).build().unwrap();
    flood(&wheel.scheduler(), &stop, 20_000);
    wait_for(|| wheel.stats().fired > 0);
    assert_eq!(pool.install(|| 6 * 7), 42, "in the middle of the flood");
    stop.store(true, Ordering::SeqCst);
    let _ = wheel.shutdown();
    assert_eq!(pool.install(|| 6 * 7), 42, "after the wheel");
}

/// C25: Two wheels on one pool both make progress.
#[test]
fn pool_serves_two_wheels() {
    let (pool, stop) = (pool_of(1), Arc::default());
    let [one, two] = [0, 1].map(|_| Wheel::builder().pool(Arc::clone(&pool)).build().unwrap());
    flood(&one.scheduler(), &stop, 5_000);
    flood(&two.scheduler(), &stop, 5_000);
    let ended = |wheel: &Wheel| {
        let stats = wheel.stats();
        stats.fired - stats.in_flight as u64
    };
    wait_for(|| ended(&one) > 2_000 && ended(&two) > 2_000);
    assert_eq!(pool.install(|| 6 * 7), 42);
    stop.store(true, Ordering::SeqCst);
}

/// C25: A job that waits in rayon for part of itself makes progress.
#[test]
fn job_that_waits_in_rayon_makes_progress() {
    let (wheel, stop) = (threads(2), Arc::default());
    flood(&wheel.scheduler(), &stop, 5_000);
    let (sender, receiver) = channel();
    for _ in 0..20 {
        let sender = sender.clone();
        wheel.insert(Duration::ZERO, move || {
            let work = || let_pass(MS * 2);
            rayon::join(work, work);
            sender.send(()).unwrap();
        });
    }
    for _ in 0..20 {
        receiver.recv_timeout(Duration::from_secs(60)).expect("buried under other jobs");
    }
    stop.store(true, Ordering::SeqCst);
}

/// C24: The threads of the pool start when the first job comes due.
#[cfg(target_os = "linux")]
#[test]
fn pool_starts_with_the_first_due_job() {
    let wheel = Wheel::builder().threads(2).name("lazypool").build().unwrap();
    let handle = wheel.insert(HOUR, || ());
    wait_for(|| threads_named("lazypool").len() == 1);
    assert!(wheel.cancel(handle));
    let_pass(20 * MS);
    assert_eq!(threads_named("lazypool").len(), 1);
    wheel.insert(MS, || ());
    wheel.wait_idle();
    wait_for(|| threads_named("lazypool").len() == 3);
    drop(wheel.shutdown());
    wait_for(|| threads_named("lazypool").is_empty());
}

/// C17: A verb may be called inside `catch_unwind`: a panic leaves no broken wheel behind. The compiler
/// checks that the types are unwind-safe.
#[test]
fn wheel_may_be_used_inside_catch_unwind() {
    fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    is_unwind_safe::<Wheel>();
    is_unwind_safe::<Scheduler>();
    is_unwind_safe::<Driver>();
    is_unwind_safe::<tickwheel::LoopDriver>();
    is_unwind_safe::<tickwheel::Group>();
    is_unwind_safe::<tickwheel::Guard>();
    is_unwind_safe::<tickwheel::Keyed<String>>();
    is_unwind_safe::<tickwheel::Events<core::cell::Cell<u8>>>();
    #[cfg(feature = "async")]
    {
        is_unwind_safe::<tickwheel::Sleep>();
        is_unwind_safe::<tickwheel::Interval>();
        is_unwind_safe::<tickwheel::EventStream<u8>>();
    }
    let (wheel, driver) = manual();
    assert!(catch_unwind(|| wheel.insert(MS, || ())).is_ok());
    assert!(catch_unwind(|| driver.advance(MS)).is_ok_and(|ran| ran == 1));
}
