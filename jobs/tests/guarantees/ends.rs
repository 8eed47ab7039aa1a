//! What the end promises.

use std::sync::mpsc;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    InsertErrorKind, Job, JobId, Jobs, Keep, Limit, NewJob, StopReason, StoreError,
};

use super::support::*;

/// P22: A shutdown refuses new jobs, waits for the runs, and releases the other claims. No released job counts as
/// interrupted.
#[test]
fn shutdown_waits_for_runs_and_releases_the_other_claims() {
    let (_folder, path) = file();
    let (jobs, at_start, release) = held(open(&path).threads(1));
    let client = jobs.client();
    for order in 0..10 {
        jobs.insert(MS, close(order)).unwrap();
    }
    at_start.recv_timeout(LONG).unwrap();
    let ending = std::thread::spawn(move || jobs.shutdown());
    wait_until("the jobs are closed", || {
        client.insert(HOUR, close(99)).is_err_and(|refused| {
            assert_eq!(*refused.kind(), InsertErrorKind::Closed);
            true
        })
    });
    release.send(()).unwrap();
    ending.join().unwrap().unwrap();
    assert_eq!(client.cancel(JobId::new()), Err(StoreError::Closed));
    // One has run. The others were claimed, and were never interrupted.
    let (jobs, driver) = open(&path).handle(|_: Close, _| Ok(())).manual().unwrap();
    assert!(jobs.pending().all(|job| job.interruptions == 0));
    assert!(jobs.count().unwrap().pending >= 9);
    driver.advance(SECOND);
    assert!(jobs.pending().all(|job| job.job::<Close>().unwrap().order == 99));
    jobs.check().unwrap();
}

/// P22: With a grace, a shutdown signals the runs once the grace is over, and not before.
#[test]
fn shutdown_signals_runs_only_after_its_grace() {
    for (grace, told) in [(LONG, None), (MS, Some(StopReason::Shutdown))] {
        on_each_store(|builder| {
            let (started, at_start) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            let released = std::sync::Mutex::new(released);
            let (seen, saw) = mpsc::channel();
            let jobs = builder
                .shutdown_grace(grace)
                .handle(move |_: Close, run| {
                    started.send(()).unwrap();
                    if told.is_some() {
                        wait_until("the run is told", || run.is_cancelled());
                    }
                    let _ = released.lock().unwrap().recv();
                    seen.send(run.stop_reason()).unwrap();
                    Ok(())
                })
                .start()
                .unwrap();
            let client = jobs.client();
            jobs.insert(MS, close(1)).unwrap();
            at_start.recv_timeout(LONG).unwrap();
            let ending = std::thread::spawn(move || jobs.shutdown_timeout(2 * LONG));
            wait_until("the jobs are closed", || client.insert(HOUR, close(2)).is_err());
            drop(release);
            ending.join().unwrap().unwrap();
            assert_eq!(saw.recv(), Ok(told));
        });
    }
}

/// P9, P22: A drop of the jobs waits for no run. A job whose run was under way stays pending and runs again.
#[test]
fn drop_of_the_jobs_loses_nothing_and_waits_for_no_run() {
    let (_folder, path) = file();
    let (jobs, at_start, release) = held(open(&path));
    let id = jobs.insert(MS, close(1)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    drop(jobs);
    let (jobs, driver) = open(&path).handle(|_: Close, _| Ok(())).manual().unwrap();
    assert_eq!(jobs.get(id).unwrap().unwrap().interruptions, 0);
    assert_eq!(driver.advance(SECOND), 1);
    drop(release);
    jobs.check().unwrap();
}

/// P22: A handler may drop the jobs or shut them down.
#[test]
fn jobs_may_be_shut_down_or_dropped_in_a_handler() {
    for by_drop in [true, false] {
        let (_folder, path) = file();
        let owner = std::sync::Arc::new(std::sync::Mutex::new(None::<Jobs>));
        let owned = std::sync::Arc::clone(&owner);
        let (done, at_end) = mpsc::channel();
        let jobs = open(&path)
            .handle(move |_: Close, _| {
                wait_until("the owner is there", || owned.lock().unwrap().is_some());
                let jobs = owned.lock().unwrap().take().unwrap();
                if by_drop {
                    drop(jobs)
                } else {
                    drop(jobs.shutdown())
                }
                Ok(done.send(())?)
            })
            .start()
            .unwrap();
        jobs.insert(MS, close(1)).unwrap();
        *owner.lock().unwrap() = Some(jobs);
        at_end.recv_timeout(LONG).unwrap();
    }
}

/// A job with a partition.
#[derive(Serialize, Deserialize)]
struct Delivery;

impl Job for Delivery {
    const KIND: &'static str = "delivery";

    fn partition(&self) -> Option<String> {
        Some("acme".to_owned())
    }
}

/// P67: Each queue of a file has tables and indexes of its own, with any name, and in any order in which the queues are
/// made. They share no key, no id and no run.
#[test]
fn queues_of_any_names_share_a_file() {
    let names = "ended orders orders_ended orders_ended_kind orders_grp orders_ orders__ _orders _ \
                 __ grp ended_list remembered meta job job__job JOB_part sqlite_x tickwheel_ 0 \
                 dead_by_error Outbox";
    let mut names: Vec<&str> = names.split(' ').collect();
    for _ in 0..2 {
        let (_folder, path) = file();
        let open = |name: Option<&str>| {
            let builder = open(&path);
            let builder = match name {
                Some(name) => builder.queue(name),
                None => builder,
            };
            builder.handle(|_: Delivery, _| Ok(())).manual().unwrap()
        };
        let all = || names.iter().copied().map(Some).chain([None]);
        let queues: Vec<_> = all().map(|name| (name, open(name))).collect();
        // The index of jobs with a partition is made with the first of them.
        for (name, (jobs, _)) in &queues {
            let kind = jobs.kind::<Delivery>();
            kind.keep_completed(Keep::last(9)).unwrap();
            kind.limit(Limit::none().rate(5, SECOND)).unwrap();
            jobs.group().add(SECOND, Delivery).then(Delivery).insert().unwrap();
            let new = NewJob::new(Delivery).at(SECOND).key("a").id(JobId::named("one"));
            assert!(jobs.insert_job(new.if_absent()).unwrap().is_new, "{name:?}");
        }
        for (name, (jobs, driver)) in queues {
            assert_eq!((driver.advance(HOUR), jobs.ended().count()), (3, 3), "{name:?}");
            jobs.check().unwrap_or_else(|wrong| panic!("{name:?}: {wrong}"));
            jobs.shutdown().unwrap();
        }
        all().for_each(|name| assert_eq!(open(name).0.ended().count(), 3, "{name:?}"));
        names.reverse();
    }
}

/// A shutdown keeps its limit while another program holds the lock of the file: the end of the last run is
/// not recorded then, and its job runs again.
#[test]
fn shutdown_keeps_its_limit_while_another_program_has_the_lock() {
    let (_folder, path) = file();
    let (jobs, at_start, release) = held(open(&path));
    jobs.insert(MS, close(1)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    let other = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    release.send(()).unwrap();
    wait_until("the run has ended", || jobs.stats().completed == 1);
    let (ended, at_end) = mpsc::channel();
    std::thread::spawn(move || ended.send(jobs.shutdown_timeout(MS)));
    // The wait for a lock was 10 s, three times.
    let closed = at_end.recv_timeout(8 * SECOND).expect("the shutdown keeps its limit");
    assert_eq!(closed, Err(StoreError::Busy));
    other.execute_batch("COMMIT").unwrap();
    let (jobs, _driver) = open(&path).handle(|_: Close, _| Ok(())).manual().unwrap();
    assert_eq!(jobs.count().unwrap().pending, 1);
    jobs.check().unwrap();
}
