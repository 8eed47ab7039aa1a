//! What cancel and reset promise.

use std::sync::mpsc;

use tickwheel_jobs::{Cancel, Fail, JobId, Jobs, StopReason};

use super::support::*;

/// P11: A job that is cancelled before its run starts never starts.
#[test]
fn cancelled_job_never_starts() {
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

/// P12: A claimed job can be cancelled and rescheduled until its run starts.
#[test]
fn claimed_job_can_be_cancelled_and_moved_until_it_starts() {
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

/// P11, P13: A cancel of a running job sets `Run::is_cancelled`, and the job is not retried.
#[test]
fn cancel_of_a_run_reaches_it_and_prevents_a_retry() {
    on_each_store(|builder| {
        let (jobs, at_start) = ending_when_told(builder);
        let id = jobs.insert(MS, close(1)).unwrap();
        assert_eq!(at_start.recv_timeout(LONG), Ok(id));
        assert!(!jobs.reschedule(id, HOUR).unwrap());
        assert_eq!(jobs.cancel(id).unwrap(), Cancel::Running);
        wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
        assert_eq!(jobs.stats().started, 1);
        jobs.check().unwrap();
    });
}

/// P11: A cancel by another process reaches the run while callers never pause. The dispatcher polled only when no
/// call had come for a while, so calls every few milliseconds kept it from polling.
#[test]
fn cancel_by_another_process_reaches_the_run_of_busy_callers() {
    let (_folder, path) = file();
    let (started, at_start) = mpsc::channel();
    let (told, was_told) = mpsc::channel();
    let jobs = Jobs::open(&path)
        .unwrap()
        .handle(move |_: Close, run| {
            started.send(run.id()).unwrap();
            wait_until("the run is told", || run.is_cancelled());
            told.send(run.stop_reason()).unwrap();
            Err(Fail::interrupted())
        })
        .start()
        .unwrap();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let id = jobs.insert(MS, close(1)).unwrap();
    assert_eq!(at_start.recv_timeout(LONG), Ok(id));
    assert_eq!(client.cancel(id).unwrap(), Cancel::Running);
    wait_until("the job is gone", || jobs.get(id).unwrap().is_none());
    assert_eq!(was_told.try_recv(), Ok(Some(StopReason::Requested)));
}

/// P13: A reschedule moves a pending job to a later or to an earlier due time.
#[test]
fn reschedule_moves_a_job_earlier_and_later() {
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
