//! What is promised of a key that is held until its job has ended, and of a job that has several of key, id,
//! policy and transaction.

use std::sync::mpsc;

use tickwheel_jobs::{
    Builder, Cancel, Durability, Fail, GroupError, InsertErrorKind, JobId, JobState, Jobs, NewJob,
    Retry, StoreError, Until,
};

use super::support::*;

/// An order that holds its key until it has ended.
fn held(order: u64) -> NewJob<Close> {
    NewJob::new(close(order)).at(SECOND).key("order-1").unique_until(Until::Ended)
}

/// An order that has the key until it has started.
fn keyed(order: u64) -> NewJob<Close> {
    NewJob::new(close(order)).at(SECOND).key("order-1")
}

/// P14: While a job that holds its key until its end runs, no insert under that key is stored, and each answer
/// names the job. Once the job has ended, the key is free.
#[test]
fn key_that_is_held_takes_no_second_job_while_the_first_runs() {
    on_each_store(|builder| {
        let (jobs, driver) = builder
            .handle(|job: Close, run| {
                if job.order > 1 {
                    return Ok(());
                }
                let client = run.client();
                for new in [held(2), keyed(2), keyed(2).if_absent(), keyed(2).keeping_time()] {
                    let inserted = client.insert_job(new)?;
                    assert_eq!((inserted.id, inserted.is_new), (run.id(), false));
                }
                let refused = client.keyed("order-1").insert(SECOND, close(2)).unwrap_err();
                assert_eq!(*refused.kind(), InsertErrorKind::Occupied);
                assert_eq!(refused.into_inner(), close(2));
                let batch = [(SECOND, close(3)).into(), held(2), (SECOND, close(4)).into()];
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
    on_each_store(|builder| {
        let (jobs, driver) = builder
            .handle(|job: Close, _| match job.order {
                3 => Err(Fail::after(HOUR, "no")),
                _ => Ok(()),
            })
            .manual()
            .unwrap();
        let first = jobs.insert_job(held(1)).unwrap();
        assert!(jobs.insert_job(held(2)).unwrap().is_new);
        assert_eq!(jobs.get(first.id).unwrap(), None);
        driver.advance(SECOND - MS);
        assert_eq!(jobs.stats().in_flight, 1);
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

/// P14: A dead job has no key. Its retry gives the key back to it, or is refused if another job has the key: the
/// error then names the key and that job. This holds for each way to have a key.
#[test]
fn retry_of_a_dead_job_is_refused_if_its_key_is_taken() {
    for until in [Until::Started, Until::Ended] {
        on_each_store(|builder| {
            let (jobs, driver) = builder
                .handle(|job: Close, _| match job.order {
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

/// Runs the body while a job runs that holds its key, and ends its run afterwards.
fn while_it_runs(builder: Builder, body: impl Fn(&Jobs, JobId)) -> Jobs {
    let (started, at_start) = mpsc::channel();
    let (end, at_end) = mpsc::channel::<()>();
    let at_end = std::sync::Mutex::new(at_end);
    let jobs = builder
        .handle(move |job: Close, _| {
            if job.order == 1 {
                started.send(())?;
                at_end.lock().unwrap().recv_timeout(LONG)?;
            }
            Ok(())
        })
        .start()
        .unwrap();
    let first = jobs.insert_job(held(1).at(MS)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    body(&jobs, first.id);
    end.send(()).unwrap();
    wait_until("the run has ended", || jobs.get(first.id).unwrap().is_none());
    jobs
}

/// P14: A running job that is cancelled holds its key until its run has ended.
#[test]
fn key_is_held_until_a_cancelled_run_has_ended() {
    on_each_store(|builder| {
        let jobs = while_it_runs(builder, |jobs, first| {
            assert_eq!(jobs.cancel(first).unwrap(), Cancel::Running);
            assert_eq!(jobs.insert_job(held(2)).unwrap().id, first);
        });
        assert!(jobs.insert_job(held(2)).unwrap().is_new);
        jobs.check().unwrap();
    });
}

/// P14: Another process, and a transaction of the caller, see a held key as the process does that runs the job.
#[test]
fn key_that_is_held_is_seen_by_another_process() {
    let (_folder, path) = file();
    let jobs = while_it_runs(Jobs::open(&path).unwrap(), |jobs, first| {
        let other = Jobs::open(&path).unwrap().client().unwrap();
        let mut shop = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
        let inserted = other.insert_job(keyed(2)).unwrap();
        assert_eq!((inserted.id, inserted.is_new), (first, false));
        let transaction = shop.transaction().unwrap();
        let inserted = jobs.insert_job_in(&transaction, keyed(2)).unwrap();
        assert_eq!((inserted.id, inserted.is_new), (first, false));
        transaction.commit().unwrap();
        other.check().unwrap();
    });
    assert!(jobs.insert_job(keyed(2)).unwrap().is_new);
    jobs.check().unwrap();
}

/// P14: An interrupted job still holds its key. A job that is dead of its interruptions does not.
#[test]
fn key_is_held_over_interruptions_until_the_job_is_dead() {
    let (_folder, path) = file();
    let first = {
        let client = Jobs::open(&path).unwrap().client().unwrap();
        client.insert_job(held(1).at(HOUR)).unwrap().id
    };
    for n in 1..=5 {
        let conn = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
        let claim = "INSERT INTO tickwheel_claim (ids) VALUES (?1)";
        conn.execute(claim, [first.to_u128().to_be_bytes()]).unwrap();
        let client = Jobs::open(&path).unwrap().client().unwrap();
        assert_eq!(client.insert_job(keyed(2)).unwrap().id, first, "as if it ran");
        drop(client);
        // The process that claimed it is gone.
        let builder = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(()));
        let (jobs, driver) = builder.manual().unwrap();
        driver.advance(MS);
        let inserted = jobs.insert_job(keyed(3).if_absent()).unwrap();
        assert_eq!((inserted.id == first, inserted.is_new), (n < 5, n == 5));
        jobs.check().unwrap();
    }
}

/// P14: At `Buffered` an insert under a key waits for its answer, so no job is dropped silently.
#[test]
fn buffered_insert_under_a_key_says_whether_it_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let builder =
        Jobs::open(folder.path().join("jobs.db")).unwrap().durability(Durability::Buffered);
    while_it_runs(builder, |jobs, first| {
        assert_eq!(jobs.insert_job(held(2)).unwrap().id, first);
        let ids = jobs.insert_batch([held(3), NewJob::new(close(4)).at(HOUR)]).unwrap();
        assert_eq!(ids[0], first);
        assert!(jobs.keyed("order-1").insert(SECOND, close(5)).is_err());
        let id = JobId::named("buffered");
        assert!(jobs.insert_job(NewJob::new(close(6)).at(HOUR).id(id)).unwrap().is_new);
        assert!(!jobs.insert_job(NewJob::new(close(6)).at(HOUR).id(id)).unwrap().is_new);
    });
}

/// P14: At `Buffered` a new member of a group waits for its answer too, beyond the first commit of 256 members as well.
#[test]
fn buffered_member_of_a_group_says_whether_it_was_stored() {
    let (_folder, path) = file();
    let builder = Jobs::open(path).unwrap().durability(Durability::Buffered);
    while_it_runs(builder, |jobs, first| {
        let group = jobs.group().open().unwrap();
        let members = (2..302).map(|order| NewJob::new(close(order)).at(HOUR));
        let ids = group.add_all(members.chain([held(302)])).unwrap();
        assert_eq!((ids.len(), ids[300]), (301, first));
        assert!(ids.iter().filter(|id| **id == first).count() == 1);
        group.seal().unwrap();
        let refused = group.add(HOUR, close(303)).unwrap_err();
        let sealed = StoreError::Group(GroupError::Sealed);
        assert_eq!(*refused.kind(), InsertErrorKind::Store(sealed));
    });
}

/// P15: Key, id and policy go together, alone and in a batch. Of several jobs of a batch under one key the last
/// one stays, and a known id is stored once.
#[test]
fn key_id_and_policy_go_together_in_a_batch() {
    on_manual(|jobs, driver, log| {
        let id = JobId::named("order 3");
        let new = |order| NewJob::new(close(order)).at(SECOND).key("order-1").retry(Retry::never());
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
        assert_eq!(log.get(), [3]);
        assert!(!jobs.insert_job(new(8).id(id)).unwrap().is_new);
        assert_eq!(jobs.count().unwrap().pending, 0);
    });
}

/// P6: The policy that was given with a job overrides that of its handler, also when another process runs the
/// job, and after a retry.
#[test]
fn policy_of_a_job_overrides_that_of_its_handler() {
    on_each_store(|builder| {
        let (jobs, driver) = builder
            .handle_with(Retry::never(), |_: Close, _| Err(Fail::after(SECOND, "no")))
            .manual()
            .unwrap();
        let own = NewJob::new(close(1)).at(SECOND).retry(Retry::fixed(HOUR).max_retries(2));
        let own = jobs.insert_job(own).unwrap().id;
        let of_kind = jobs.insert(SECOND, close(2)).unwrap();
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

/// P6: The policy that was given with a job is stored with it. A job without one stores none.
#[test]
fn policy_of_a_job_survives_a_restart() {
    let (_folder, path) = file();
    {
        let (jobs, _driver) =
            Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).manual().unwrap();
        let own = NewJob::new(close(1)).at(SECOND).retry(Retry::fixed(SECOND).max_retries(1));
        jobs.insert_job(own).unwrap();
        jobs.insert(SECOND, close(2)).unwrap();
        jobs.keyed("order-3").insert(SECOND, close(3)).unwrap();
    }
    let conn = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    let count = "SELECT count(*) FROM tickwheel_job WHERE extra IS NOT NULL";
    assert_eq!(conn.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    drop(conn);
    let builder = Jobs::open(&path).unwrap().retry(Retry::never());
    let (jobs, driver) =
        builder.handle(|_: Close, _| Err(Fail::from(StoreError::Full))).manual().unwrap();
    driver.advance(2 * SECOND);
    assert_eq!(jobs.count().unwrap().dead, 3);
    assert_eq!(jobs.stats().started, 4);
}
