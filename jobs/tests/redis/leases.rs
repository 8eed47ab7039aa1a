//! Leases: workers that are cut off, stand still or die, and the clocks of machines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_jobs::{Fail, JobState, Jobs, Run, StopReason};

use crate::proxy::Proxy;
use crate::server::{Server, pause, wait_until};
use crate::support::{Events, Gate, Log, MS, Order, noting, now, open};

const LEASE: Duration = Duration::from_millis(1000);

/// P83, Redis P9, Redis P10, D14: A job of a node that is cut off runs on another node once its lease has ended. The
/// end of the first run is refused.
#[test]
fn node_that_is_cut_off_loses_its_job_and_its_end_is_refused() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let (log, events, told, gate) =
        (Log::default(), Events::default(), Gate::default(), Gate::default());
    let fences: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (its_fences, its_told, its_gate) = (Arc::clone(&fences), told.clone(), gate.clone());
    // The run waits until it learns that its lease is lost. Then the test lets it go on.
    let stuck = move |_: Order, run: &Run| -> Result<(), Fail> {
        its_fences.lock().unwrap().push(run.fence().get());
        wait_until("its lease is lost", || run.is_cancelled());
        assert_eq!(run.stop_reason(), Some(StopReason::LeaseLost));
        its_told.open();
        its_gate.wait();
        Err(Fail::dead("too late"))
    };
    let builder = events.of(Jobs::redis(proxy.url()).unwrap()).lease(LEASE);
    let first = builder.handle(stuck).start().unwrap();
    let id = first.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it started", || fences.lock().unwrap().len() == 1);
    let began = now();
    proxy.stall(true);
    let (its_fences, noted) = (Arc::clone(&fences), log.clone());
    let handler = move |order: Order, run: &Run| {
        its_fences.lock().unwrap().push(run.fence().get());
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
    told.wait();
    proxy.stall(false);
    gate.open();
    wait_until("an event says so", || events.leases_lost() > 0);
    wait_until("the slot is free", || first.stats().in_flight == 0);
    // The first run wanted it dead.
    assert_eq!(second.get(id).unwrap(), None);
    assert_eq!(second.count().unwrap().dead, 0);
    assert!(fences.lock().unwrap().is_sorted());
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
    let gate = Gate::default();
    let left: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let handler = |what: &'static str| {
        let (gate, left) = (gate.clone(), Arc::clone(&left));
        move |_: Order, run: &Run| {
            left.lock().unwrap().push(run.progress()?);
            for n in 0.. {
                if gate.is_open() {
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
    gate.open();
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
