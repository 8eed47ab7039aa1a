//! What is promised of a cancel, a new time and an insert in a transaction of the caller's.

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Cancel, Fail, JobId, Jobs, NewJob, Retry, StoreError};

use super::support::*;

fn note(log: &Log, job: &Close) -> Result<(), Fail> {
    log.add(job.order);
    Ok(())
}

/// P70: A cancel and a reschedule in a transaction of the caller take effect with its commit. A rollback undoes
/// them.
#[test]
fn cancel_in_a_transaction_takes_effect_with_the_commit() {
    let (_folder, path) = file();
    let log = Log::default();
    let noted = log.clone();
    let builder = Jobs::open(&path).unwrap();
    let (jobs, driver) = builder.handle(move |job: Close, _| note(&noted, &job)).manual().unwrap();
    let mut shop = Connection::open(&path).unwrap();
    let ids: Vec<JobId> = (0..4).map(|n| jobs.insert(HOUR, close(n)).unwrap()).collect();
    let named =
        jobs.insert_job(NewJob::new(close(9)).at(HOUR).id(JobId::named("order 9"))).unwrap().id;

    let transaction = shop.transaction().unwrap();
    assert_eq!(jobs.cancel_in(&transaction, ids[0]).unwrap(), Cancel::Cancelled);
    assert!(jobs.reschedule_in(&transaction, ids[1], SECOND).unwrap());
    transaction.rollback().unwrap();
    assert_eq!(jobs.count().unwrap().pending, 5);
    jobs.check().unwrap();

    let transaction = shop.transaction().unwrap();
    assert_eq!(jobs.cancel_in(&transaction, ids[0]).unwrap(), Cancel::Cancelled);
    assert_eq!(jobs.cancel_in(&transaction, ids[0]).unwrap(), Cancel::Gone);
    assert_eq!(jobs.cancel_in(&transaction, named).unwrap(), Cancel::Cancelled);
    assert!(jobs.reschedule_in(&transaction, ids[1], SECOND).unwrap());
    assert!(jobs.reschedule_in(&transaction, ids[2], 2 * HOUR).unwrap());
    assert!(!jobs.reschedule_in(&transaction, JobId::new(), HOUR).unwrap());
    transaction.commit().unwrap();
    jobs.check().unwrap();
    jobs.nudge();
    assert_eq!(driver.advance(SECOND), 1);
    assert_eq!(driver.advance(HOUR), 1);
    assert_eq!(driver.advance(HOUR), 1);
    assert_eq!(log.get(), [1, 3, 2]);
    // The id of a job that was cancelled is remembered.
    assert!(!jobs.insert_job(NewJob::new(close(9)).at(HOUR).id(named)).unwrap().is_new);
    jobs.check().unwrap();
}

/// P11: A cancel in a transaction of the caller reaches a running job with the commit. A reschedule does not move
/// it.
#[test]
fn cancel_in_a_transaction_reaches_the_run_with_the_commit() {
    let (_folder, path) = file();
    let builder = Jobs::open(&path).unwrap();
    let (jobs, at_start) = ending_when_told(builder);
    let id = jobs.insert(MS, close(1)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    let mut shop = Connection::open(&path).unwrap();
    let transaction = shop.transaction().unwrap();
    assert!(!jobs.reschedule_in(&transaction, id, HOUR).unwrap());
    assert_eq!(jobs.cancel_in(&transaction, id).unwrap(), Cancel::Running);
    transaction.commit().unwrap();
    jobs.nudge();
    wait_until("it is gone, and not tried again", || jobs.get(id).unwrap().is_none());
    jobs.check().unwrap();
}

/// P70: The first statement of each verb writes. So a commit of another connection in between does not make SQLite
/// refuse the transaction.
#[test]
fn cancel_in_a_deferred_transaction_begins_with_its_write() {
    let (folder, path) = file();
    let jobs = Jobs::open(&path).unwrap().client().unwrap();
    let id = jobs.insert(HOUR, close(1)).unwrap();
    let mut shop = Connection::open(&path).unwrap();
    for n in 0..3 {
        let transaction = shop.transaction().unwrap();
        jobs.insert(HOUR, close(2)).unwrap();
        match n {
            0 => assert!(jobs.reschedule_in(&transaction, id, 2 * HOUR).unwrap()),
            1 => assert!(jobs.insert_job_in(&transaction, NewJob::new(close(3))).unwrap().is_new),
            _ => assert!(jobs.cancel_in(&transaction, id).unwrap().is_cancelled()),
        }
        transaction.commit().unwrap();
    }
    let mut elsewhere = Connection::open(folder.path().join("other.db")).unwrap();
    let transaction = elsewhere.transaction().unwrap();
    assert!(matches!(jobs.cancel_in(&transaction, id), Err(StoreError::Other(_))));
    assert!(matches!(jobs.reschedule_in(&transaction, id, HOUR), Err(StoreError::Other(_))));
    assert!(jobs.insert_job_in(&transaction, NewJob::new(close(4))).is_err());
    jobs.check().unwrap();
}

/// P70: Key, id and policy go with a job into a transaction of the caller.
#[test]
fn key_id_and_policy_go_into_a_transaction_of_the_caller() {
    let (_folder, path) = file();
    let builder = Jobs::open(&path).unwrap().retry(Retry::never());
    let failing = builder.handle(|_: Close, _| Err(std::io::Error::other("no"))?);
    let (jobs, driver) = failing.manual().unwrap();
    let mut shop = Connection::open(&path).unwrap();
    let id = JobId::named("order 1");
    let replaced = jobs.keyed("order-1").insert(HOUR, close(1)).unwrap();
    let new = || {
        let new = NewJob::new(close(2)).at(HOUR).key("order-1").id(id);
        new.retry(Retry::fixed(HOUR).max_retries(1))
    };
    for is_new in [true, false] {
        let transaction = shop.transaction().unwrap();
        let inserted = jobs.insert_job_in(&transaction, new()).unwrap();
        assert_eq!((inserted.id, inserted.is_new), (id, is_new));
        transaction.commit().unwrap();
        jobs.check().unwrap();
    }
    assert_eq!(jobs.get(replaced).unwrap(), None);
    assert_eq!(jobs.count().unwrap().pending, 1);
    jobs.nudge();
    assert_eq!(driver.advance(HOUR), 1);
    assert_eq!(driver.advance(HOUR), 1);
    assert_eq!(jobs.count().unwrap().dead, 1);
    jobs.check().unwrap();
}
