//! What the end promises.

use std::sync::mpsc;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Cancel, Fail, InsertErrorKind, Job, JobState, Jobs, Keep, Limit, OpenError, StopReason,
    StoreError,
};

use super::support::*;

/// P22: A shutdown refuses new jobs, waits for the runs, and releases the other claims. No released job counts as
/// interrupted.
#[test]
fn shutdown_waits_for_runs_and_releases_the_other_claims() {
    let (_folder, path) = file();
    let (jobs, at_start, release) = held(Jobs::open(&path).unwrap().threads(1));
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
    assert_eq!(client.cancel(tickwheel_jobs::JobId::new()), Err(StoreError::Closed));
    // One has run. The others were claimed, and were never interrupted.
    let (jobs, driver) = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).manual().unwrap();
    assert!(jobs.pending().all(|job| job.interruptions == 0));
    assert!(jobs.count().unwrap().pending >= 9);
    driver.advance(SECOND);
    assert!(jobs.pending().all(|job| job.job::<Close>().unwrap().order == 99));
    jobs.check().unwrap();
}

/// P22: A shutdown that reaches its limit returns the number of runs that are still under way.
#[test]
fn shutdown_does_not_wait_longer_than_its_limit() {
    on_each_store(|builder| {
        let (jobs, at_start, release) = held(builder);
        jobs.insert(MS, close(1)).unwrap();
        at_start.recv_timeout(LONG).unwrap();
        assert_eq!(jobs.shutdown_timeout(MS), Err(StoreError::StillRunning(1)));
        drop(release);
    });
}

/// P22: A shutdown signals the runs at its start. The result of a run that ends then is recorded.
#[test]
fn shutdown_signals_runs_at_its_start_and_records_their_ends() {
    let (_folder, path) = file();
    let (started, at_start) = mpsc::channel();
    let jobs = Jobs::open(&path)
        .unwrap()
        .handle(move |job: Close, run| {
            started.send(()).unwrap();
            wait_until("the run is told", || run.is_cancelled());
            assert_eq!(run.stop_reason(), Some(StopReason::Shutdown));
            if job.order == 1 { Ok(()) } else { Err(Fail::interrupted()) }
        })
        .threads(2)
        .start()
        .unwrap();
    jobs.insert_batch([(MS, close(1)), (MS, close(2))]).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    jobs.shutdown_timeout(LONG).unwrap();
    // The one that ended is gone; the other one is pending as it was.
    let left: Vec<_> = Jobs::open(&path).unwrap().client().unwrap().pending().collect();
    let left: Vec<_> = left.iter().map(|job| (job.failures, job.interruptions)).collect();
    assert_eq!(left, [(0, 0)]);
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
    let (jobs, at_start, release) = held(Jobs::open(&path).unwrap());
    let id = jobs.insert(MS, close(1)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    drop(jobs);
    let (jobs, driver) = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).manual().unwrap();
    assert_eq!(jobs.get(id).unwrap().unwrap().interruptions, 0);
    assert_eq!(driver.advance(SECOND), 1);
    drop(release);
    jobs.check().unwrap();
}

/// P22: A handler may drop the jobs or shut them down.
#[test]
fn jobs_may_be_shut_down_or_dropped_in_a_handler() {
    for by_drop in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let owner = std::sync::Arc::new(std::sync::Mutex::new(None::<Jobs>));
        let owned = std::sync::Arc::clone(&owner);
        let (done, at_end) = mpsc::channel();
        let jobs = Jobs::open(folder.path().join("jobs.db"))
            .unwrap()
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

/// P10, P20: Each queue of a file has one runner at a time: a second start is refused by name.
#[test]
fn queue_of_a_file_has_one_runner_at_a_time() {
    let (_folder, path) = file();
    let builder = || Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(()));
    let jobs = builder().start().unwrap();
    assert!(matches!(builder().start(), Err(OpenError::InUse { path: named }) if named == path));
    assert!(builder().queue("other").start().is_ok());
    jobs.shutdown().unwrap();
    builder().start().unwrap();
}

/// P67: Queues of one file share no key, no id and no run.
#[test]
fn queues_of_a_file_know_nothing_of_each_other() {
    let (_folder, path) = file();
    let open = |queue| {
        let log = Log::default();
        let noted = log.clone();
        let (jobs, driver) = Jobs::open(&path)
            .unwrap()
            .queue(queue)
            .handle(move |job: Close, _| {
                noted.add(job.order);
                Ok(())
            })
            .manual()
            .unwrap();
        (jobs, driver, log)
    };
    let (shop, shop_driver, shop_log) = open("shop");
    let (mail, mail_driver, mail_log) = open("mail");
    let id = shop.keyed("a").insert(SECOND, close(1)).unwrap();
    mail.keyed("a").insert(SECOND, close(2)).unwrap();
    assert_eq!(mail.cancel(id).unwrap(), Cancel::Gone);
    assert_eq!(shop.get(id).unwrap().unwrap().state, JobState::Pending);
    assert_eq!((shop_driver.advance(HOUR), mail_driver.advance(HOUR)), (1, 1));
    assert_eq!((shop_log.get(), mail_log.get()), (vec![1], vec![2]));
    shop.check().unwrap();
    mail.check().unwrap();
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
/// made.
#[test]
fn queues_of_any_names_share_a_file() {
    let mut names = [
        "ended",
        "orders",
        "orders_ended",
        "orders_ended_kind",
        "orders_grp",
        "orders_",
        "orders__",
        "_orders",
        "_",
        "__",
        "grp",
        "ended_list",
        "remembered",
        "meta",
        "job",
        "job__job",
        "JOB_part",
        "sqlite_x",
        "tickwheel_",
        "0",
        "dead_by_error",
        "Outbox",
    ];
    for _ in 0..2 {
        let (_folder, path) = file();
        let open = |name: Option<&str>| {
            let builder = Jobs::open(&path).unwrap();
            let builder = match name {
                Some(name) => builder.queue(name),
                None => builder,
            };
            builder.handle(|_: Delivery, _| Ok(())).manual().unwrap()
        };
        let all = || names.iter().copied().map(Some).chain([None]);
        let queues: Vec<_> = all().map(|name| (name, open(name))).collect();
        // The index of jobs with a partition is made with the first of them.
        for (_, (jobs, _)) in &queues {
            let kind = jobs.kind::<Delivery>();
            kind.keep_completed(Keep::last(9)).unwrap();
            kind.limit(Limit::none().rate(5, SECOND)).unwrap();
            jobs.group().add(SECOND, Delivery).then(Delivery).insert().unwrap();
        }
        for (name, (jobs, driver)) in queues {
            assert_eq!((driver.advance(HOUR), jobs.ended().count()), (2, 2), "{name:?}");
            jobs.check().unwrap_or_else(|wrong| panic!("{name:?}: {wrong}"));
            jobs.shutdown().unwrap();
        }
        all().for_each(|name| assert_eq!(open(name).0.ended().count(), 2, "{name:?}"));
        names.reverse();
    }
}

/// A shutdown keeps its limit while another program holds the lock of the file: the end of the last run is
/// not recorded then, and its job runs again.
#[test]
fn shutdown_keeps_its_limit_while_another_program_has_the_lock() {
    let (_folder, path) = file();
    let (jobs, at_start, release) = held(Jobs::open(&path).unwrap());
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
    let (jobs, _driver) = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).manual().unwrap();
    assert_eq!(jobs.count().unwrap().pending, 1);
    jobs.check().unwrap();
}
