//! What is promised of a cancel, a new time and an insert in a transaction of the caller's.

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Cancel, Fail, JobId, NewJob, StoreError};

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
    let builder = open(&path);
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
    // The id of a job that was cancelled is remembered, in a transaction as well.
    let again = || NewJob::new(close(9)).at(HOUR).id(named);
    assert!(!jobs.insert_job(again()).unwrap().is_new);
    let transaction = shop.transaction().unwrap();
    assert!(!jobs.insert_job_in(&transaction, again()).unwrap().is_new);
    transaction.commit().unwrap();
    jobs.check().unwrap();
}

/// P11: A cancel in a transaction of the caller reaches a running job with the commit. A reschedule does not move
/// it.
#[test]
fn cancel_in_a_transaction_reaches_the_run_with_the_commit() {
    let (_folder, path) = file();
    let builder = open(&path);
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
    let jobs = client(&path);
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
    let refused = jobs.insert_job_in(&transaction, NewJob::new(close(4))).unwrap_err();
    assert!(refused.kind().to_string().contains("other.db"), "{refused}");
    assert_eq!(refused.into_inner().into_job(), close(4));
    jobs.check().unwrap();
}
