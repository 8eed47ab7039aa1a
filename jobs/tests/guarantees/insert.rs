//! What an insert promises.

use std::time::SystemTime;

use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Durability, InsertErrorKind, InvalidInput, JobId, JobState, Jobs, NewJob};

use super::support::*;

/// P1, P2: An acknowledged job is there after its process was killed, at `Synced` and at `Written`.
#[test]
fn insert_survives_a_killed_process() {
    for durability in [Durability::Synced, Durability::Written] {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let builder = Jobs::open(folder.path().join("jobs.db")).unwrap().durability(durability);
            builder.handle(|_: Close, _| Ok(())).manual().unwrap()
        };
        let (jobs, driver) = open();
        let id = jobs.insert(HOUR, close(1)).unwrap();
        let due = driver.wall_now() + HOUR;
        // What a killed process leaves: nothing is closed.
        std::mem::forget((jobs, driver));
        let (copied, log) = (folder.path().join("copy.db"), folder.path().join("copy.db-wal"));
        std::fs::copy(folder.path().join("jobs.db"), &copied).unwrap();
        std::fs::copy(folder.path().join("jobs.db-wal"), log).unwrap();
        let builder = Jobs::open(&copied).unwrap();
        let (jobs, _) = builder.handle(|_: Close, _| Ok(())).manual().unwrap();
        let job = jobs.get(id).unwrap().unwrap();
        assert_eq!((job.state, job.due), (JobState::Pending, due));
        assert_eq!(job.job::<Close>().unwrap(), close(1));
        jobs.check().unwrap();
    }
}

/// P3: Every buffered insert is in the file once `flush` has returned.
#[test]
fn buffered_insert_is_stored_once_flush_returns() {
    let folder = tempfile::tempdir().unwrap();
    let builder =
        Jobs::open(folder.path().join("jobs.db")).unwrap().durability(Durability::Buffered);
    let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
    let ids: Vec<JobId> = (0..100).map(|n| jobs.insert(HOUR, close(n)).unwrap()).collect();
    jobs.flush().unwrap();
    let other = Jobs::open(folder.path().join("jobs.db")).unwrap().client().unwrap();
    assert!(ids.iter().all(|id| other.get(*id).unwrap().is_some()));
}

/// P5: An id that is inserted twice is one job, also once that job is done or cancelled.
#[test]
fn id_that_is_inserted_twice_is_one_job() {
    on_manual(|jobs, driver, log| {
        let id = JobId::named("order 1");
        for is_new in [true, false] {
            let inserted = jobs.insert_job(NewJob::new(close(1)).at(SECOND).id(id)).unwrap();
            assert_eq!((inserted.id, inserted.is_new), (id, is_new));
        }
        assert_eq!(jobs.count().unwrap().pending, 1);
        assert_eq!(driver.advance(SECOND), 1);
        // Its job is done, and the id is remembered.
        assert!(!jobs.insert_job(NewJob::new(close(1)).at(SECOND).id(id)).unwrap().is_new);
        assert_eq!(driver.advance(HOUR), 0);
        assert_eq!(log.get(), [1]);
        let cancelled = JobId::new();
        jobs.insert_job(NewJob::new(close(2)).at(SECOND).id(cancelled)).unwrap();
        assert!(jobs.cancel(cancelled).unwrap().is_cancelled());
        jobs.insert_job(NewJob::new(close(2)).at(SECOND).id(cancelled)).unwrap();
        assert_eq!(driver.advance(HOUR), 0);
    });
}

/// P15: A batch with one invalid job stores nothing, and the error gives all jobs back.
#[test]
fn batch_is_all_or_nothing() {
    on_manual(|jobs, driver, log| {
        let at = driver.wall_now() + SECOND;
        let ids = jobs.insert_batch((0..2_000).map(|n| (at, close(n)))).unwrap();
        assert_eq!(ids.len(), 2_000);
        assert!(ids.is_sorted());
        let far = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 40);
        let wrong = vec![(When::wall(at), close(1)), (When::wall(far), close(2))];
        let refused = jobs.insert_batch(wrong).unwrap_err();
        assert_eq!(*refused.kind(), InsertErrorKind::Invalid(InvalidInput::After9999(far)));
        assert_eq!(refused.into_inner().len(), 2);
        let none: Vec<(When, Close)> = Vec::new();
        assert_eq!(jobs.insert_batch(none).unwrap(), []);
        assert_eq!(jobs.count().unwrap().pending, 2_000);
        assert_eq!(driver.advance(SECOND), 2_000);
        assert_eq!(log.get(), (0..2_000).collect::<Vec<_>>());
    });
}

/// P15: Each job of a batch runs at its own due time.
#[test]
fn batch_runs_each_job_at_its_own_due_time() {
    on_manual(|jobs, driver, log| {
        jobs.insert_batch([(3 * SECOND, close(3)), (SECOND, close(1)), (2 * SECOND, close(2))])
            .unwrap();
        for n in 1..=3 {
            assert_eq!(driver.advance(SECOND - MS), 0);
            assert_eq!(driver.advance(MS), 1);
            assert_eq!(log.get().last(), Some(&n));
        }
    });
}

/// P70: A job that is inserted in a transaction of the caller is there with its commit, and is not after a
/// rollback. A transaction of another file is refused.
#[test]
fn insert_in_a_transaction_takes_effect_with_the_commit() {
    let (folder, path) = file();
    let mut shop = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    let (jobs, receiver) = closing(Jobs::open(&path).unwrap());
    let transaction = shop.transaction().unwrap();
    transaction.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    let id = jobs.insert_in(&transaction, HOUR, close(1)).unwrap();
    drop(transaction); // rolled back
    assert_eq!(jobs.get(id).unwrap(), None);
    let transaction = shop.transaction().unwrap();
    let id = jobs.insert_in(&transaction, MS, close(2)).unwrap();
    transaction.commit().unwrap();
    jobs.nudge();
    assert_eq!(receiver.recv_timeout(LONG), Ok(2));
    wait_until("the job is done", || jobs.get(id).unwrap().is_none());
    jobs.check().unwrap();

    let mut other =
        tickwheel_jobs::rusqlite::Connection::open(folder.path().join("other.db")).unwrap();
    let transaction = other.transaction().unwrap();
    let refused = jobs.insert_in(&transaction, MS, close(3)).unwrap_err();
    assert!(refused.kind().to_string().contains("other.db"), "{refused}");
    assert_eq!(refused.into_inner(), close(3));
}

/// P67: A job that another process inserts is found by the next poll, and can be cancelled from here.
#[test]
fn insert_by_another_process_is_found_within_about_a_second() {
    let (_folder, path) = file();
    let (jobs, receiver) = closing(Jobs::open(&path).unwrap());
    let client = Jobs::open(&path).unwrap().client().unwrap();
    client.insert(MS, close(7)).unwrap();
    assert_eq!(receiver.recv_timeout(LONG), Ok(7));
    let id = client.insert(HOUR, close(8)).unwrap();
    assert!(jobs.cancel(id).unwrap().is_cancelled());
    client.check().unwrap();
}

/// A jitter spreads the due times over its whole window, and never beyond it.
#[test]
fn jitter_spreads_due_times_over_its_window() {
    on_manual(|jobs, driver, _| {
        let at = driver.wall_now() + HOUR;
        let due = |when: When| {
            let id = jobs.insert(when, close(1)).unwrap();
            jobs.get(id).unwrap().unwrap().due
        };
        let drawn: Vec<_> = (0..200).map(|_| due(When::wall(at).jitter(100 * MS))).collect();
        assert!(drawn.iter().all(|due| (at..=at + 100 * MS).contains(due)));
        let early = drawn.iter().filter(|due| **due < at + 50 * MS).count();
        assert!((40..=160).contains(&early), "{early} of 200 in the first half");
    });
}

/// P72: A long call timeout holds on a file too: an insert waits for a transaction of another connection that takes
/// longer than the ten seconds of the default.
#[test]
fn long_call_timeout_outlasts_a_long_transaction() {
    let (_folder, path) = file();
    let client = Jobs::open(&path).unwrap().call_timeout(LONG).client().unwrap();
    let other = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let insert = std::thread::spawn(move || client.insert(HOUR, close(1)).map(drop));
    pause(11 * SECOND);
    assert!(!insert.is_finished());
    other.execute_batch("COMMIT").unwrap();
    insert.join().unwrap().unwrap();
}
