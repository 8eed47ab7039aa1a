//! What is promised of a key that is held until its job has ended, on a file. More tests of keys, for every store, are
//! in `tests/scenarios`.

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Durability, GroupError, InsertErrorKind, JobId, NewJob, StoreError, Until};

use super::scenarios::holding;
use super::support::*;

/// An order that holds its key until it has ended.
fn held(order: u64) -> NewJob<Close> {
    NewJob::new(close(order)).at(SECOND).key("order-1").unique_until(Until::Ended)
}

/// An order that has the key until it has started.
fn keyed(order: u64) -> NewJob<Close> {
    NewJob::new(close(order)).at(SECOND).key("order-1")
}

/// P14: An interrupted job still holds its key. A job that is dead of its interruptions does not.
#[test]
fn key_is_held_over_interruptions_until_the_job_is_dead() {
    let (_folder, path) = file();
    let first = {
        let client = client(&path);
        client.insert_job(held(1).at(HOUR)).unwrap().id
    };
    for n in 1..=5 {
        claimed(&path, &[first]);
        let client = client(&path);
        assert_eq!(client.insert_job(keyed(2)).unwrap().id, first, "as if it ran");
        drop(client);
        // The process that claimed it is gone.
        let builder = open(&path).handle(|_: Close, _| Ok(()));
        let (jobs, driver) = builder.manual().unwrap();
        driver.advance(MS);
        let inserted = jobs.insert_job(keyed(3).if_absent()).unwrap();
        assert_eq!((inserted.id == first, inserted.is_new), (n < 5, n == 5));
        jobs.check().unwrap();
    }
}

/// P14: A transaction of the caller sees a held key as the process does that runs the job. At `Buffered` an insert
/// under a key waits for its answer, so no job is dropped silently. So does a new member of a group, beyond the first
/// commit of 256 members as well.
#[test]
fn key_that_is_held_is_seen_by_a_transaction_and_a_buffered_insert() {
    let (_folder, path) = file();
    let (handler, starts, let_go) = holding(|job: &Close| job.order == 1);
    let builder = open(&path).durability(Durability::Buffered);
    let jobs = builder.handle(handler).start().unwrap();
    let first = jobs.insert_job(held(1).at(MS)).unwrap().id;
    starts.recv_timeout(LONG).unwrap();
    let mut shop = Connection::open(&path).unwrap();
    let transaction = shop.transaction().unwrap();
    let inserted = jobs.insert_job_in(&transaction, keyed(2)).unwrap();
    assert_eq!((inserted.id, inserted.is_new), (first, false));
    transaction.commit().unwrap();
    assert_eq!(jobs.insert_job(held(2)).unwrap().id, first);
    let ids = jobs.insert_batch([held(3), NewJob::new(close(4)).at(HOUR)]).unwrap();
    assert_eq!(ids[0], first);
    assert!(jobs.keyed("order-1").insert(SECOND, close(5)).is_err());
    let new = || NewJob::new(close(6)).at(HOUR).id(JobId::named("buffered"));
    assert!(jobs.insert_job(new()).unwrap().is_new && !jobs.insert_job(new()).unwrap().is_new);
    let group = jobs.group().open().unwrap();
    let members = (7..307).map(|order| NewJob::new(close(order)).at(HOUR));
    let ids = group.add_all(members.chain([held(307)])).unwrap();
    assert_eq!((ids.len(), ids.iter().position(|id| *id == first)), (301, Some(300)));
    group.seal().unwrap();
    let refused = group.add(HOUR, close(308)).unwrap_err();
    let sealed = StoreError::Group(GroupError::Sealed);
    assert_eq!(*refused.kind(), InsertErrorKind::Store(sealed));
    let_go.send(()).unwrap();
    wait_until("the run has ended", || jobs.get(first).unwrap().is_none());
    assert!(jobs.insert_job(keyed(2)).unwrap().is_new);
    jobs.check().unwrap();
}
