//! Leases: workers that are cut off, stand still or die, and the clocks of machines.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_jobs::{Event, Fail, JobState, Jobs, Run, StopReason};

use crate::proxy::Proxy;
use crate::server::{Server, pause, wait_until};
use crate::support::{Log, MS, Order, noting, now, open};

const LEASE: Duration = Duration::from_millis(1000);

/// What a worker that is cut off has seen.
#[derive(Clone, Default)]
struct Seen {
    started: Arc<AtomicU64>,
    lost: Arc<AtomicBool>,
    release: Arc<AtomicBool>,
    fences: Arc<Mutex<Vec<u64>>>,
    events: Arc<AtomicU64>,
}

/// A node whose handler waits until its lease is reported as lost and the test lets it go on.
fn stuck(proxy: &Proxy, seen: &Seen) -> Jobs {
    let (on, events) = (seen.clone(), Arc::clone(&seen.events));
    let handler = move |_: Order, run: &Run| {
        on.fences.lock().unwrap().push(run.fence().get());
        on.started.fetch_add(1, Ordering::AcqRel);
        while !on.release.load(Ordering::Acquire) {
            if run.is_cancelled() {
                assert_eq!(run.stop_reason(), Some(StopReason::LeaseLost));
                on.lost.store(true, Ordering::Release);
            }
            pause(5 * MS);
        }
        Err(Fail::dead("too late"))
    };
    Jobs::redis(proxy.url())
        .unwrap()
        .lease(LEASE)
        .handle(handler)
        .on_event(move |event| {
            let lost = matches!(event, Event::LeaseLost { .. });
            events.fetch_add(u64::from(lost), Ordering::AcqRel);
        })
        .start()
        .unwrap()
}

/// P83, Redis P9, Redis P10, D14: A job of a node that is cut off runs on another node once its lease has ended. The
/// end of the first run is refused.
#[test]
fn node_that_is_cut_off_loses_its_job_and_its_end_is_refused() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let (seen, log) = (Seen::default(), Log::default());
    let first = stuck(&proxy, &seen);
    let id = first.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it started", || seen.started.load(Ordering::Acquire) == 1);
    let began = now();
    proxy.stall(true);
    let fences = Arc::clone(&seen.fences);
    let noted = log.clone();
    let handler = move |order: Order, run: &Run| {
        fences.lock().unwrap().push(run.fence().get());
        assert_eq!(run.attempt(), 2);
        noted.add(order.0);
        Ok(())
    };
    let second = open(&server).lease(LEASE).handle(handler).start().unwrap();
    wait_until("it ran elsewhere", || log.of(1) == 1);
    let took = began.elapsed();
    println!("elsewhere after {took:?}, with a lease of {LEASE:?}");
    // A second or so more than the lease; the rest is for a loaded machine.
    assert!(took <= LEASE + 8000 * MS, "{took:?}");
    wait_until("the first is told", || seen.lost.load(Ordering::Acquire));
    proxy.stall(false);
    seen.release.store(true, Ordering::Release);
    wait_until("an event says so", || seen.events.load(Ordering::Acquire) > 0);
    wait_until("the slot is free", || first.stats().in_flight == 0);
    // The first run wanted it dead.
    assert_eq!(second.get(id).unwrap(), None);
    assert_eq!(second.count().unwrap().dead, 0);
    assert!(seen.fences.lock().unwrap().is_sorted());
    // Each node has counted its own part.
    assert_eq!((first.stats().leases_lost, first.stats().interruptions), (1, 0));
    assert_eq!((second.stats().leases_lost, second.stats().interruptions), (0, 1));
    second.check().unwrap();
    second.shutdown().unwrap();
    first.shutdown().unwrap();
    assert_eq!(log.of(1), 1);
}

/// P37: The progress of a run that has lost its lease is refused, even if the run sent it before and it arrives late.
/// The run on another node finds the progress that the first run has set before.
#[test]
fn progress_of_a_run_that_lost_its_lease_is_refused() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let stop = Arc::new(AtomicBool::new(false));
    let left: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let handler = |what: &'static str| {
        let (stop, left) = (Arc::clone(&stop), Arc::clone(&left));
        move |_: Order, run: &Run| {
            left.lock().unwrap().push(run.progress()?);
            for n in 0.. {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                run.set_progress(&format!("{what} {n}"))?;
                pause(5 * MS);
            }
            Ok(())
        }
    };
    let first = Jobs::redis(proxy.url()).unwrap().lease(2 * LEASE).handle(handler("first"));
    let first = first.start().unwrap();
    let id = first.insert(Duration::ZERO, Order(1)).unwrap();
    let asker = open(&server).client().unwrap();
    let progress = || {
        let progress = asker.get(id).unwrap().unwrap().progress.unwrap_or_default();
        String::from_utf8(progress).unwrap()
    };
    wait_until("the first says something", || progress().contains("first"));
    // The leases are renewed after 667 ms and 1,333 ms: the next request has the progress of the second second.
    pause(800 * MS);
    proxy.stall(true);
    let second = open(&server).lease(2 * LEASE).handle(handler("second")).start().unwrap();
    wait_until("the second says something", || progress().contains("second"));
    proxy.stall(false);
    let left = left.lock().unwrap().clone();
    assert_eq!(left[0], None);
    assert!(left[1].as_ref().unwrap().contains("first"), "{left:?}");
    // The request that was held arrives now. The first process goes on setting progress.
    let began = now();
    while began.elapsed() < 3000 * MS {
        assert!(progress().contains("second"), "{}", progress());
        pause(2 * MS);
    }
    second.check().unwrap();
    stop.store(true, Ordering::Release);
    wait_until("it is gone", || asker.get(id).unwrap().is_none());
    second.check().unwrap();
    second.shutdown().unwrap();
    first.shutdown().unwrap();
}

/// Redis P17: A job is dead after five of its leases have ended. Each process that claims it is gone before the run
/// starts, and gives nothing back.
#[test]
fn job_is_dead_after_five_leases_have_ended() {
    let server = Server::start();
    let client = open(&server).queue("dead").client().unwrap();
    let id = client.insert(Duration::ZERO, Order(1)).unwrap();
    let mut wall = None;
    let mut found = Vec::new();
    for _ in 0..6 {
        let (jobs, driver) = open(&server)
            .queue("dead")
            .lease(LEASE)
            .handle(|_: Order, _| panic!("a manual clock that is not moved runs nothing"))
            .manual()
            .unwrap();
        let now = wall.unwrap_or_else(|| driver.wall_now()) + 2 * LEASE;
        wall = Some(now);
        // Claims it, and is gone before it starts: nothing is given back.
        driver.set_wall(now);
        found.push(jobs.get(id).unwrap().map(|job| (job.interruptions, job.state)));
        jobs.check().unwrap();
        core::mem::forget((jobs, driver));
    }
    let waits = |interruptions: u32| Some((interruptions, JobState::Pending));
    let dead = Some((5, JobState::Dead));
    assert_eq!(found, [waits(0), waits(1), waits(2), waits(3), waits(4), dead]);
}

/// A lease may be `Duration::MAX`. Its end is beyond every `Instant`: before a fix, the dispatcher ended with a
/// panic.
#[test]
fn lease_may_be_as_long_as_duration_max() {
    let server = Server::start();
    let log = Log::default();
    let jobs = noting(open(&server).lease(Duration::MAX), &log);
    jobs.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it ran", || log.of(1) == 1);
    jobs.shutdown().unwrap();
}
