//! What keys promise.

use std::sync::mpsc;

use tickwheel_jobs::{Cancel, InsertErrorKind};

use super::support::*;

/// P14: A key has at most one pending job. `cancel`, `reschedule` and `remaining` by key are about that job.
#[test]
fn key_has_at_most_one_pending_job() {
    on_manual(|jobs, driver, log| {
        let order = jobs.keyed("order-1");
        let first = order.insert(SECOND, close(1)).unwrap();
        order.insert(2 * SECOND, close(2)).unwrap();
        assert_eq!(jobs.get(first).unwrap(), None);
        let refused = order.insert_if_absent(SECOND, close(3)).unwrap_err();
        assert_eq!(*refused.kind(), InsertErrorKind::Occupied);
        assert_eq!(refused.into_inner(), close(3));
        assert_eq!(order.remaining().unwrap(), Some(2 * SECOND));
        order.insert_keeping_time(HOUR, close(4)).unwrap();
        assert_eq!(order.remaining().unwrap(), Some(2 * SECOND));
        assert_eq!(jobs.count().unwrap().pending, 1);
        assert_eq!(driver.advance(2 * SECOND), 1);
        assert_eq!(log.get(), [4]);
        assert_eq!(order.remaining().unwrap(), None);
        order.insert_if_absent(SECOND, close(5)).unwrap();
        assert!(order.reschedule(2 * SECOND).unwrap());
        assert_eq!(driver.advance(SECOND), 0);
        assert!(order.cancel().unwrap());
        assert!(!order.cancel().unwrap());
        assert!(!order.reschedule(SECOND).unwrap());
        assert_eq!(driver.advance(HOUR), 0);
    });
}

/// P14: A claimed job that is replaced under its key never starts.
#[test]
fn replaced_job_never_starts_although_it_is_claimed() {
    on_manual(|jobs, driver, log| {
        let order = jobs.keyed("order-1");
        order.insert(SECOND, close(1)).unwrap();
        driver.advance(SECOND - MS);
        assert_eq!(jobs.stats().in_flight, 1);
        order.insert_if_absent(SECOND, close(2)).unwrap_err();
        order.insert(SECOND, close(3)).unwrap();
        assert_eq!(driver.advance(HOUR), 1);
        assert_eq!(log.get(), [3]);
    });
}

/// P14: A key is free once its job has started, so a handler may insert its successor under the same key.
#[test]
fn key_is_free_once_its_job_has_started() {
    on_each_store(|builder| {
        let (done, at_end) = mpsc::channel();
        let jobs = builder
            .handle(move |job: Close, run| {
                if job.order < 3 {
                    let next = run.client().keyed(run.key().unwrap());
                    next.insert_if_absent(MS, close(job.order + 1))?;
                }
                Ok(done.send(job.order)?)
            })
            .start()
            .unwrap();
        jobs.keyed("chain").insert(MS, close(1)).unwrap();
        // Each starts before the one before has ended, so they end in any order.
        let mut ended: Vec<u64> = (0..3).map(|_| at_end.recv_timeout(LONG).unwrap()).collect();
        ended.sort_unstable();
        assert_eq!(ended, [1, 2, 3]);
        wait_until("all are done", || jobs.count().unwrap().pending == 0);
        jobs.check().unwrap();
    });
}

/// P14: A failed job keeps its key for the retry, unless another job took the key during the run.
#[test]
fn failed_job_keeps_its_key_unless_another_job_took_it() {
    on_each_store(|builder| {
        let (jobs, driver) = builder
            .handle(|job: Close, run| {
                if job.order == 2 {
                    run.client().keyed("b").insert(HOUR, close(3))?;
                }
                Err(std::io::Error::other("no"))?
            })
            .retry(tickwheel_jobs::Retry::fixed(SECOND).max_retries(5))
            .manual()
            .unwrap();
        let one = jobs.keyed("a").insert(SECOND, close(1)).unwrap();
        let two = jobs.keyed("b").insert(SECOND, close(2)).unwrap();
        assert_eq!(driver.advance(SECOND), 2);
        assert_eq!(jobs.get(one).unwrap().unwrap().key.as_deref(), Some("a"));
        assert_eq!(jobs.get(two).unwrap().unwrap().key, None);
        assert_eq!(jobs.keyed("b").remaining().unwrap(), Some(HOUR));
        assert_eq!(jobs.cancel(two).unwrap(), Cancel::Cancelled);
        assert!(jobs.keyed("b").cancel().unwrap());
        jobs.check().unwrap();
    });
}
