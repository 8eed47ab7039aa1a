//! Other connections to the file: a reader that sits, a writer at the end.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Durability, Jobs, Run};

use super::files::{file, start};
use crate::disk::task::{Plan, Task};

/// The log grows while a transaction reads, and is cut after that transaction. The jobs run meanwhile.
#[test]
fn log_grows_during_a_long_read_and_is_cut_after_it() {
    const JOBS: u64 = 20_000;
    let (folder, path) = file();
    let ran = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ran);
    let (jobs, driver) = Jobs::open(&path)
        .and_then(|builder| {
            let builder = builder.durability(Durability::Written);
            let count = move |_: Task, _: &Run| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            builder.handle(count).manual()
        })
        .expect("a new file");
    jobs.insert(Duration::ZERO, Task::new(0, Plan::Succeed)).expect("an insert");
    driver.advance(Duration::from_millis(10));

    let reader = Connection::open(&path).expect("the file");
    reader.execute_batch("BEGIN").expect("a transaction");
    let seen = || -> i64 {
        let count = "SELECT count(*) FROM tickwheel_job";
        reader.query_row(count, [], |row| row.get(0)).expect("a count")
    };
    let at_first = seen();
    for from in (0..JOBS).step_by(1_000) {
        let batch = (from..from + 1_000).map(|n| (Duration::ZERO, Task::new(n, Plan::Succeed)));
        jobs.insert_batch(batch).expect("a reader is in nobody's way");
        driver.advance(Duration::from_millis(10));
    }
    driver.advance(Duration::from_secs(1));
    assert_eq!(ran.load(Ordering::Relaxed), JOBS + 1);
    assert_eq!(seen(), at_first, "a transaction sees one moment");
    let log = || fs::metadata(folder.path().join("jobs.db-wal")).expect("the log").len();
    let grown = log();
    assert!(grown > 16 << 20, "the reader holds the log: {grown}");
    assert_eq!(jobs.stats().wal_bytes, grown, "the size of the log is told");

    reader.execute_batch("COMMIT").expect("the end of the transaction");
    // The log is used again from its beginning, and cut when that happens.
    for n in 0..20 {
        let batch = (0..500).map(|_| (Duration::ZERO, Task::new(n, Plan::Succeed)));
        jobs.insert_batch(batch).expect("a batch");
        driver.advance(Duration::from_millis(100));
    }
    let shrunk = log();
    assert!(shrunk <= (64 << 20).min(grown), "the log is not cut: {grown}, then {shrunk}");
    jobs.check().expect("the store is in order");
    jobs.shutdown().expect("the disk works");
    let left = fs::metadata(folder.path().join("jobs.db-wal")).map_or(0, |file| file.len());
    assert!(left <= shrunk, "the log at the end has {left} bytes");
}

/// P22: A shutdown waits for the runs, and for no other connection that reads or writes the file. It waited 10
/// seconds for a reader.
#[test]
fn shutdown_waits_for_no_reader_and_no_writer() {
    for begin in ["BEGIN", "BEGIN IMMEDIATE"] {
        let (_folder, path) = file();
        let builder = Jobs::open(&path).expect("a new file").durability(Durability::Written);
        let jobs = builder.handle(|_: Task, _: &Run| Ok(())).start().expect("the jobs start");
        let later = Duration::from_secs(3600);
        jobs.insert(later, Task::new(1, Plan::Succeed)).expect("an insert");
        let other = Connection::open(&path).expect("the file");
        other.execute_batch(begin).expect("a transaction");
        let count = "SELECT count(*) FROM tickwheel_job";
        let _: i64 = other.query_row(count, [], |row| row.get(0)).expect("a count");
        let (ended, at_end) = std::sync::mpsc::channel();
        let ends = std::thread::spawn(move || ended.send(jobs.shutdown()));
        let closed = at_end.recv_timeout(Duration::from_secs(8)).expect("nothing is waited for");
        closed.expect("the disk works");
        ends.join().expect("the thread ends").expect("it was received");
        other.execute_batch("COMMIT").expect("the end of the transaction");
        let (jobs, _driver) = start(&path).expect("the file is free again");
        assert_eq!(jobs.count().expect("the jobs are counted").pending, 1);
    }
}
