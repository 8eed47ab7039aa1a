//! What keys promise, and a job that has several of key, id and policy, for every store.

use tickwheel_jobs::{
    Cancel, Fail, InsertErrorKind, JobId, JobState, NewJob, Retry, StoreError, Until,
};

use super::{HOUR, LONG, MS, Mail, SECOND, asker, holding, mailing};
use crate::support::{on_stores, wait_until};

/// An order that holds its key until it has ended.
fn held(order: u64) -> NewJob<Mail> {
    keyed(order).unique_until(Until::Ended)
}

/// An order that has the key until it has started.
fn keyed(order: u64) -> NewJob<Mail> {
    NewJob::new(Mail(order)).at(SECOND).key("order-1")
}

/// P14: A key has at most one pending job. `cancel`, `reschedule` and `remaining` by key are about that job.
#[test]
fn key_has_at_most_one_pending_job() {
    on_stores(|store| {
        let (jobs, driver, ran) = mailing(store.open());
        let order = jobs.keyed("order-1");
        let first = order.insert(SECOND, Mail(1)).unwrap();
        order.insert(2 * SECOND, Mail(2)).unwrap();
        assert_eq!(jobs.get(first).unwrap(), None);
        let refused = order.insert_if_absent(SECOND, Mail(3)).unwrap_err();
        assert_eq!(*refused.kind(), InsertErrorKind::Occupied);
        assert_eq!(refused.into_inner(), Mail(3));
        assert_eq!(order.remaining().unwrap(), Some(2 * SECOND));
        order.insert_keeping_time(HOUR, Mail(4)).unwrap();
        assert_eq!(order.remaining().unwrap(), Some(2 * SECOND));
        assert_eq!(jobs.count().unwrap().pending, 1);
        assert_eq!(driver.advance(2 * SECOND), 1);
        assert_eq!(ran.get(), [4]);
        assert_eq!(order.remaining().unwrap(), None);
        order.insert_if_absent(SECOND, Mail(5)).unwrap();
        assert!(order.reschedule(2 * SECOND).unwrap());
        assert_eq!(driver.advance(SECOND), 0);
        assert!(order.cancel().unwrap());
        assert!(!order.cancel().unwrap());
        assert!(!order.reschedule(SECOND).unwrap());
        assert_eq!(driver.advance(HOUR), 0);
    });
}

/// P14: A failed job keeps its key for the retry, unless another job took the key during the run.
#[test]
fn failed_job_keeps_its_key_unless_another_job_took_it() {
    on_stores(|store| {
        let (jobs, driver) = store
            .open()
            .handle(|job: Mail, run| {
                if job.0 == 2 {
                    run.client().keyed("b").insert(HOUR, Mail(3))?;
                }
                Err(std::io::Error::other("no"))?
            })
            .retry(Retry::fixed(SECOND).max_retries(5))
            .manual()
            .unwrap();
        let one = jobs.keyed("a").insert(SECOND, Mail(1)).unwrap();
        let two = jobs.keyed("b").insert(SECOND, Mail(2)).unwrap();
        assert_eq!(driver.advance(SECOND), 2);
        assert_eq!(jobs.get(one).unwrap().unwrap().key.as_deref(), Some("a"));
        assert_eq!(jobs.get(two).unwrap().unwrap().key, None);
        assert_eq!(jobs.keyed("b").remaining().unwrap(), Some(HOUR));
        assert_eq!(jobs.cancel(two).unwrap(), Cancel::Cancelled);
        assert!(jobs.keyed("b").cancel().unwrap());
        jobs.check().unwrap();
    });
}

/// P14: While a job that holds its key until its end runs, no insert under that key is stored, and each answer
/// names the job. Once the job has ended, the key is free.
#[test]
fn key_that_is_held_takes_no_second_job_while_the_first_runs() {
    on_stores(|store| {
        let (jobs, driver) = store
            .open()
            .handle(|job: Mail, run| {
                if job.0 > 1 {
                    return Ok(());
                }
                let client = run.client();
                for new in [held(2), keyed(2), keyed(2).if_absent(), keyed(2).keeping_time()] {
                    let inserted = client.insert_job(new)?;
                    assert_eq!((inserted.id, inserted.is_new), (run.id(), false));
                }
                let refused = client.keyed("order-1").insert(SECOND, Mail(2)).unwrap_err();
                assert_eq!(*refused.kind(), InsertErrorKind::Occupied);
                assert_eq!(refused.into_inner(), Mail(2));
                let batch = [(SECOND, Mail(3)).into(), held(2), (SECOND, Mail(4)).into()];
                let ids = client.insert_batch(batch)?;
                assert_eq!(ids[1], run.id());
                assert_eq!(client.count()?.pending, 2);
                Ok(())
            })
            .manual()
            .unwrap();
        let first = jobs.insert_job(held(1)).unwrap();
        assert!(first.is_new);
        assert_eq!(driver.advance(SECOND), 1);
        assert_eq!(jobs.get(first.id).unwrap(), None, "the handler has seen what it should");
        assert!(jobs.insert_job(held(5)).unwrap().is_new, "the key is free");
        assert_eq!(driver.advance(SECOND), 3);
        jobs.check().unwrap();
    });
}

/// P14: A job that has not started is replaced under its key, also if it holds the key until its end, is claimed
/// already, or waits for a retry.
#[test]
fn pending_job_is_replaced_although_it_holds_its_key() {
    on_stores(|store| {
        let (jobs, driver) = store
            .open()
            .handle(|job: Mail, _| match job.0 {
                3 => Err(Fail::after(HOUR, "no")),
                _ => Ok(()),
            })
            .manual()
            .unwrap();
        let first = jobs.insert_job(held(1)).unwrap();
        assert!(jobs.insert_job(held(2)).unwrap().is_new);
        assert_eq!(jobs.get(first.id).unwrap(), None);
        driver.advance(SECOND - MS);
        assert_eq!(jobs.stats().in_flight, usize::from(store.claims_ahead));
        jobs.keyed("order-1").insert_if_absent(SECOND, Mail(5)).unwrap_err();
        let third = jobs.insert_job(held(3).at(MS)).unwrap();
        assert!(third.is_new, "a claimed job that has not started is pending");
        assert_eq!(driver.advance(MS), 1);
        // Between its tries it has its key.
        let left = jobs.insert_job(keyed(4).if_absent()).unwrap();
        assert_eq!((left.id, left.is_new), (third.id, false));
        assert_eq!(jobs.get(third.id).unwrap().unwrap().key.as_deref(), Some("order-1"));
        assert!(jobs.insert_job(keyed(4)).unwrap().is_new);
        assert_eq!(jobs.get(third.id).unwrap(), None);
        assert_eq!(jobs.count().unwrap().pending, 1);
        jobs.check().unwrap();
    });
}

/// P14, Redis P14: A dead job has no key. Its retry gives the key back to it, or is refused if another job has the key:
/// the error then names the key and that job. This holds for each way to have a key.
#[test]
fn retry_of_a_dead_job_is_refused_if_its_key_is_taken() {
    for until in [Until::Started, Until::Ended] {
        on_stores(|store| {
            let (jobs, driver) = store
                .open()
                .handle(|job: Mail, _| match job.0 {
                    1 => Err(Fail::dead("no")),
                    _ => Ok(()),
                })
                .manual()
                .unwrap();
            let dead = jobs.insert_job(keyed(1).unique_until(until)).unwrap().id;
            driver.advance(SECOND);
            assert_eq!(jobs.get(dead).unwrap().unwrap().state, JobState::Dead);
            let other = jobs.insert_job(held(2)).unwrap();
            assert!(other.is_new, "dead counts as ended");
            let taken = StoreError::KeyTaken { key: "order-1".to_owned(), by: other.id };
            assert_eq!(jobs.retry(dead).unwrap_err(), taken);
            assert!(taken.to_string().contains("order-1"), "{taken}");
            assert_eq!(jobs.get(dead).unwrap().unwrap().state, JobState::Dead);
            jobs.check().unwrap();
            assert!(jobs.cancel(other.id).unwrap().is_cancelled());
            assert!(jobs.retry(dead).unwrap());
            let alive = jobs.get(dead).unwrap().unwrap();
            assert_eq!((alive.state, alive.key.as_deref()), (JobState::Pending, Some("order-1")));
            jobs.check().unwrap();
        });
    }
}

/// P14, Redis P14: A job that runs and is cancelled holds its key until its run has ended, for every process.
#[test]
fn key_is_held_until_a_cancelled_run_has_ended() {
    on_stores(|store| {
        let (handler, starts, let_go) = holding(|mail: &Mail| mail.0 == 1);
        let jobs = store.open().handle(handler).start().unwrap();
        let first = jobs.insert_job(held(1).at(MS)).unwrap().id;
        starts.recv_timeout(LONG).unwrap();
        assert_eq!(jobs.cancel(first).unwrap(), Cancel::Running);
        let other = asker(store, &jobs);
        for client in [&other, &jobs.client()] {
            for new in [held(2), keyed(2)] {
                let inserted = client.insert_job(new).unwrap();
                assert_eq!((inserted.id, inserted.is_new), (first, false));
            }
        }
        other.check().unwrap();
        let_go.send(()).unwrap();
        wait_until("the run has ended", || jobs.get(first).unwrap().is_none());
        assert!(other.insert_job(held(2)).unwrap().is_new);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}

/// P15: Key, id and policy go together, alone and in a batch. Of several jobs of a batch under one key the last
/// one stays, and a known id is stored once.
#[test]
fn key_id_and_policy_go_together_in_a_batch() {
    on_stores(|store| {
        let (jobs, driver, ran) = mailing(store.open());
        let id = JobId::named("order 3");
        let new = |order| NewJob::new(Mail(order)).at(SECOND).key("order-1").retry(Retry::never());
        let ids = jobs.insert_batch([new(1), new(2), new(3).id(id)]).unwrap();
        assert_eq!((ids.len(), ids[2]), (3, id));
        assert_eq!(jobs.get(ids[0]).unwrap(), None);
        assert_eq!(jobs.count().unwrap().pending, 1);
        // Known, so nothing is replaced.
        assert!(!jobs.insert_job(new(4).id(id)).unwrap().is_new);
        let ids = jobs.insert_batch([new(4).id(id), new(5).if_absent()]).unwrap();
        assert_eq!(ids, [id, id]);
        assert_eq!(jobs.keyed("order-1").get().unwrap().map(|job| job.id), Some(id));
        let wrong = jobs.insert_batch([new(6), new(7).key("")]).unwrap_err();
        assert_eq!(wrong.into_inner().len(), 2);
        assert_eq!(driver.advance(HOUR), 1);
        assert_eq!(ran.get(), [3]);
        assert!(!jobs.insert_job(new(8).id(id)).unwrap().is_new);
        assert_eq!(jobs.count().unwrap().pending, 0);
    });
}

/// P6: The policy that was given with a job overrides that of its handler, also when another process runs the
/// job, and after a retry.
#[test]
fn policy_of_a_job_overrides_that_of_its_handler() {
    on_stores(|store| {
        let (jobs, driver) = store
            .open()
            .handle_with(Retry::never(), |_: Mail, _| Err(Fail::after(SECOND, "no")))
            .manual()
            .unwrap();
        let own = NewJob::new(Mail(1)).at(MS).retry(Retry::fixed(HOUR).max_retries(2));
        // Another process inserts it.
        let own = asker(store, &jobs).insert_job(own).unwrap().id;
        let of_kind = jobs.insert(SECOND, Mail(2)).unwrap();
        assert_eq!(driver.advance(SECOND), 2);
        assert_eq!(jobs.get(of_kind).unwrap().unwrap().state, JobState::Dead);
        for _ in 0..2 {
            for _ in 0..2 {
                assert_eq!(jobs.get(own).unwrap().unwrap().state, JobState::Pending);
                assert_eq!(driver.advance(SECOND), 1);
            }
            assert_eq!(jobs.get(own).unwrap().unwrap().state, JobState::Dead);
            assert!(jobs.retry(own).unwrap());
            assert_eq!(driver.advance(MS), 1);
        }
        jobs.check().unwrap();
    });
}
