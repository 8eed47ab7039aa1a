//! The end of a wheel.

use super::*;

/// C114: `shutdown` waits for running jobs, and hands back all others in the order of deadlines.
#[test]
fn shutdown_hands_back_the_jobs_that_never_ran() {
    let wheel = threads(1);
    let release = blocker(&wheel);
    let ended = Arc::new(AtomicBool::new(false));
    let late = wheel.insert(HOUR * 2, || ());
    let soon = wheel.insert(HOUR, || ());
    let never = wheel.insert(Duration::MAX, || ());
    let queued = wheel.insert(Duration::ZERO, {
        let ended = Arc::clone(&ended);
        move || ended.store(true, Ordering::SeqCst)
    });
    wait_for(|| !wheel.is_pending(queued));
    let (scheduler, stopping) = (wheel.scheduler(), wheel);
    let shutdown = thread::spawn(move || stopping.shutdown());
    // When inserts are refused, the shutdown has begun. It waits for the job that is running.
    wait_for(|| {
        scheduler.insert(HOUR, || ()).is_err_and(|e| e.kind() == InsertErrorKind::Shutdown)
    });
    let_pass(MS * 20);
    assert!(!shutdown.is_finished());
    drop(release);
    let unfired = shutdown.join().unwrap();
    let jobs: Vec<_> = unfired.collect();
    let inserted_late = jobs.len() - 4;
    let order: Vec<Handle> = jobs.iter().map(|unfired| unfired.handle).collect();
    assert_eq!((order[0], order[1]), (queued, soon));
    assert_eq!(order[order.len() - 2..], [late, never]);
    assert_eq!(jobs[0].remaining, Duration::ZERO);
    assert!(jobs[1].remaining <= HOUR + MS && jobs[1].remaining > HOUR / 2);
    assert_eq!(jobs[jobs.len() - 1].remaining, Duration::MAX);
    assert_eq!(jobs[jobs.len() - 1].wall, None);
    assert!(jobs.iter().flat_map(|job| job.wall).is_sorted() && jobs[1].wall.is_some());
    assert!(
        !ended.load(Ordering::SeqCst),
        "started after the shutdown, {inserted_late} in between"
    );
    jobs.into_iter().next().unwrap().job.run();
    assert!(ended.load(Ordering::SeqCst));
}

/// C23: A shutdown on a thread of the wheel's pool does not wait for running jobs.
#[test]
fn shutdown_on_a_thread_of_the_pool_does_not_wait() {
    for way in ["in a job", "in a task of the pool", "in an install"] {
        let pool = pool_of(2);
        let wheel = Wheel::builder().pool(Arc::clone(&pool)).build().unwrap();
        let (started, halves) = channel();
        let [begun, over] = [0, 1].map(|_| Arc::new(AtomicBool::new(false)));
        // The job waits for its half, which the other thread has stolen. That thread calls the
        // shutdown on top of the half.
        let (seen, ended) = (Arc::clone(&begun), Arc::clone(&over));
        wheel.insert(Duration::ZERO, move || {
            let wait = || {
                while !seen.load(Ordering::SeqCst) {
                    thread::yield_now()
                }
            };
            let half = || {
                started.send(()).unwrap();
                while !ended.load(Ordering::SeqCst) {
                    rayon::yield_now();
                }
            };
            rayon::join(wait, half);
        });
        halves.recv().unwrap();
        wheel.insert(HOUR, || ());
        let (scheduler, (done, handed_back)) = (wheel.scheduler(), channel());
        let (begun, over) = (Arc::clone(&begun), Arc::clone(&over));
        let shutdown = move || {
            begun.store(true, Ordering::SeqCst);
            let unfired = wheel.shutdown().count();
            over.store(true, Ordering::SeqCst);
            done.send(unfired).unwrap();
        };
        match way {
            "in a job" => drop(scheduler.insert(Duration::ZERO, shutdown).unwrap()),
            "in a task of the pool" => pool.spawn(shutdown),
            _ => drop(thread::spawn(move || pool.install(shutdown))),
        }
        assert_eq!(handed_back.recv_timeout(MINUTE), Ok(1), "{way}");
        assert!(scheduler.insert(HOUR, || ()).is_err());
        // The job that was running goes on to its end.
        wait_for(|| scheduler.stats().in_flight == 0);
    }
}

/// C18: The panic handler is dropped with its wheel, after the last running job.
#[test]
fn panic_handler_is_dropped_with_its_wheel() {
    for end in ENDS {
        let (token, alive) = counted();
        // The handler owns a scheduler of its own wheel.
        let own: Arc<Mutex<Vec<Scheduler>>> = Arc::default();
        let builder = || {
            let (token, known) = (Arc::clone(&token), Arc::clone(&own));
            Wheel::builder().on_panic(move |_| _ = (&token, known.lock().unwrap().len()))
        };
        let wheels = on_each_clock(builder);
        own.lock().unwrap().extend(wheels.iter().map(|(wheel, _)| wheel.scheduler()));
        drop((token, own));
        for (left, (wheel, driver)) in [1, 0].into_iter().zip(wheels) {
            end(wheel);
            drop(driver);
            wait_for(|| alive() == left);
        }
    }
    // While a job runs, its panic is reported, even if the wheel is gone.
    let (builder, panics) = reporting();
    let wheel = builder.threads(1).build().unwrap();
    let (mut wait, gate) = gate();
    wheel.insert(Duration::ZERO, move || {
        wait();
        panic_any("after the wheel");
    });
    gate.has_come();
    drop(wheel);
    drop(gate);
    assert_eq!(panics.recv(), Ok("after the wheel"));
    assert!(panics.recv().is_err(), "and then the handler is dropped");
}

/// C116: `shutdown` hands a job that was reset on its way to the pool back with its new time.
#[test]
fn shutdown_has_the_new_time_of_a_job_reset_at_the_pool() {
    let wheel = threads(1);
    let release = blocker(&wheel);
    let soon = wheel.insert(HOUR, || ());
    let again = tickwheel::Repeat::irregular();
    let queued = wheel.repeat(again, |_| tickwheel::Next::Stop).unwrap();
    let dated = wheel.insert(std::time::SystemTime::UNIX_EPOCH, || ());
    wait_for(|| wheel.stats().in_flight == 3);
    assert!(wheel.reset(queued, HOUR * 2) && wheel.reset(dated, HOUR * 3));
    let (scheduler, stopping) = (wheel.scheduler(), wheel);
    let shutdown = thread::spawn(move || stopping.shutdown());
    wait_for(|| scheduler.insert(HOUR, || ()).is_err());
    drop(release);
    let mut unfired: Vec<(Handle, Duration)> =
        shutdown.join().unwrap().map(|unfired| (unfired.handle, unfired.remaining)).collect();
    // Without the jobs that `wait_for` inserted to find out whether the shutdown has begun.
    unfired.retain(|(handle, _)| [soon, queued, dated].contains(handle));
    let order: Vec<Handle> = unfired.iter().map(|&(handle, _)| handle).collect();
    assert_eq!(order, [soon, queued, dated]);
    assert!(unfired[1].1 > HOUR && unfired[2].1 > HOUR * 2);
}

/// C117: An insert after the end of the wheel returns the job.
#[test]
fn insert_after_the_end_gives_the_job_back() {
    for stop in ENDS {
        let wheel = threads(1);
        let scheduler = wheel.scheduler().clone();
        let (held, alive) = counted();
        let pending = scheduler.insert(HOUR, move || drop(held)).unwrap();
        stop(wheel);
        assert_eq!(alive(), 0, "a scheduler keeps no job alive");
        let (token, alive) = counted();
        let refused = scheduler.insert(MS, move || drop(token)).unwrap_err();
        assert_eq!(refused.kind(), InsertErrorKind::Shutdown);
        assert_eq!(format!("{refused:?}"), "InsertError { kind: Shutdown, .. }");
        assert_eq!(alive(), 1);
        drop(refused);
        assert!(scheduler.try_insert(now(), || ()).is_err());
        assert!(!scheduler.cancel(pending) && !scheduler.reset(pending, MS));
        assert!(scheduler.is_empty() && scheduler.take(pending).is_none());
    }
}

/// C117: The drop of a wheel drops pending jobs, and does not wait for running ones.
#[test]
fn drop_discards_and_does_not_wait() {
    let wheel = threads(1);
    let release = blocker(&wheel);
    let (token, alive) = counted();
    for delay in [Duration::ZERO, HOUR, Duration::MAX] {
        let token = Arc::clone(&token);
        let handle = wheel.insert(delay, move || drop(token));
        wait_for(|| !delay.is_zero() || !wheel.is_pending(handle));
    }
    drop(token);
    assert_eq!(alive(), 3);
    drop(wheel);
    assert_eq!(alive(), 0);
    release.closed.send(()).expect("the job is still running");
}

/// C118: None of the wheel's own threads is left after `shutdown`, or after a drop once running jobs have ended.
#[cfg(target_os = "linux")]
#[test]
fn threads_end_with_their_wheel() {
    let build = |name| Wheel::builder().name(name).threads(3).build().unwrap();
    let wheel = build("g-shut");
    let (done, ended) = mpsc::channel();
    wheel.insert(Duration::ZERO, move || done.send(()).unwrap());
    ended.recv().unwrap();
    wait_for(|| threads_named("g-shut").len() == 4);
    let scheduler = wheel.scheduler();
    let _ = wheel.shutdown();
    // The threads were joined. The system takes a moment to remove them from its list.
    wait_for(|| threads_named("g-shut").is_empty());
    let wheel = build("g-drop");
    let release = blocker(&wheel);
    drop(wheel);
    // The ticker was joined, and the job still runs.
    wait_for(|| !threads_named("g-drop-t").iter().any(|status| status.contains("g-drop-ticker")));
    drop(release);
    wait_for(|| threads_named("g-drop").is_empty());
    drop(scheduler);
}

/// C4: All jobs of one tick run, in any order.
#[test]
fn jobs_of_one_tick_all_run_in_some_order() {
    let (wheel, driver) = Wheel::builder().shards(3).manual().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    for n in 0..100 {
        let ran = Arc::clone(&ran);
        wheel.insert(MS * 7, move || ran.lock().unwrap().push(n));
    }
    assert_eq!((driver.advance(MS * 6), driver.advance(MS)), (0, 100));
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_unstable();
    assert_eq!(ran, (0..100).collect::<Vec<_>>());
}
