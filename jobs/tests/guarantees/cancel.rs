//! What cancel and reset promise.

use std::sync::mpsc;

use tickwheel_jobs::{Cancel, Cancellation, Fail, JobId, Jobs};

use super::support::*;

#[test]
fn what_is_cancelled_never_starts() {
    on_manual(|jobs, driver, log| {
        let ids = jobs.insert_batch((0..100).map(|n| (SECOND, close(n)))).unwrap();
        assert_eq!(jobs.cancel(ids[7]).unwrap(), Cancel::Cancelled);
        assert_eq!(jobs.cancel(ids[7]).unwrap(), Cancel::Gone);
        assert_eq!(jobs.cancel(JobId::new()).unwrap(), Cancel::Gone);
        assert_eq!(driver.advance(HOUR), 99);
        assert!(!log.get().contains(&7));
        assert_eq!(jobs.cancel(ids[8]).unwrap(), Cancel::Gone);
    });
}

#[test]
fn a_claimed_job_that_has_not_started_is_cancelled_and_moved() {
    on_manual(|jobs, driver, log| {
        let one = jobs.insert(SECOND, close(1)).unwrap();
        let two = jobs.insert(SECOND, close(2)).unwrap();
        jobs.insert(SECOND, close(3)).unwrap();
        // All three are claimed from 50 ms before their time on.
        assert_eq!(driver.advance(SECOND - MS), 0);
        assert_eq!(jobs.stats().in_flight, 3);
        assert_eq!(jobs.cancel(one).unwrap(), Cancel::Cancelled);
        assert!(jobs.reschedule(two, HOUR).unwrap());
        assert_eq!(driver.advance(MS), 1);
        assert_eq!(driver.advance(HOUR), 1);
        assert_eq!(log.get(), [3, 2]);
    });
}

#[test]
fn a_run_that_is_cancelled_is_told_and_not_tried_again() {
    on_each_store(|builder| {
        let (started, at_start) = mpsc::channel();
        let jobs = builder
            .handle(move |_: Close, run| {
                started.send(run.id()).unwrap();
                wait_until("the run is told", || run.is_cancelled());
                Err(Fail::after(MS, "stopped"))
            })
            .start()
            .unwrap();
        let id = jobs.insert(MS, close(1)).unwrap();
        assert_eq!(at_start.recv_timeout(LONG), Ok(id));
        assert!(!jobs.reschedule(id, HOUR).unwrap());
        assert_eq!(jobs.cancel(id).unwrap(), Cancel::Running);
        wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
        assert_eq!(jobs.stats().started, 1);
        jobs.check().unwrap();
    });
}

#[test]
fn a_cancel_of_another_process_reaches_the_run() {
    let folder = Folder::new();
    let path = folder.file("jobs.db");
    let (started, at_start) = mpsc::channel();
    let jobs = Jobs::open(&path)
        .unwrap()
        .handle(move |_: Close, run| {
            started.send(run.id()).unwrap();
            wait_until("the run is told", || run.is_cancelled());
            Err(Fail::after(MS, "stopped"))
        })
        .start()
        .unwrap();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let id = client.insert(MS, close(1)).unwrap();
    assert_eq!(at_start.recv_timeout(LONG), Ok(id));
    assert_eq!(client.cancel(id).unwrap(), Cancel::Running);
    assert!(!client.reschedule(id, HOUR).unwrap());
    wait_until("the job is gone", || client.get(id).unwrap().is_none());
    jobs.check().unwrap();
}

/// The dispatcher looked at what other processes had done when nothing came for a while. So callers
/// who asked something every few milliseconds kept it from ever seeing such a cancel.
#[test]
fn a_cancel_of_another_process_reaches_the_run_while_callers_never_pause() {
    let folder = Folder::new();
    let path = folder.file("jobs.db");
    let (started, at_start) = mpsc::channel();
    let (told, was_told) = mpsc::channel();
    let jobs = Jobs::open(&path)
        .unwrap()
        .handle(move |_: Close, run| {
            started.send(run.id()).unwrap();
            wait_until("the run is told", || run.is_cancelled());
            told.send(run.cancellation()).unwrap();
            Err(Fail::interrupted())
        })
        .start()
        .unwrap();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let id = jobs.insert(MS, close(1)).unwrap();
    assert_eq!(at_start.recv_timeout(LONG), Ok(id));
    assert_eq!(client.cancel(id).unwrap(), Cancel::Running);
    wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
    assert_eq!(was_told.try_recv(), Ok(Some(Cancellation::Requested)));
}

#[test]
fn a_reset_moves_a_job_both_ways() {
    on_manual(|jobs, driver, log| {
        let id = jobs.insert(SECOND, close(1)).unwrap();
        assert!(jobs.reschedule(id, HOUR).unwrap());
        assert_eq!(driver.advance(SECOND), 0);
        assert!(jobs.reschedule(id, driver.now() + SECOND).unwrap());
        assert!(jobs.reschedule(id, driver.wall_now() + 2 * SECOND).unwrap());
        assert_eq!(driver.advance(2 * SECOND - MS), 0);
        assert_eq!(driver.advance(MS), 1);
        assert!(!jobs.reschedule(id, HOUR).unwrap());
        assert_eq!(log.get(), [1]);
    });
}
