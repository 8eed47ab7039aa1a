//! A cancel that another process asked for is kept in the file until the run ends. It ends with that
//! run: it is obeyed by the end, and reaches no later job.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tickwheel_jobs::{Cancel, Client, Driver, Fail, JobId, Jobs, NewJob};

use super::support::*;

/// Jobs on a manual clock. The handler of `Close` cancels its own job through a client, as another
/// process would, and each run fails for good.
fn cancelled_from_elsewhere(path: &Path) -> (Jobs, Driver, Client, Log) {
    let elsewhere = Arc::new(OnceLock::<Client>::new());
    let (inside, log) = (Arc::clone(&elsewhere), Log::default());
    let noted = log.clone();
    let builder = open(path);
    let (jobs, driver) = builder
        .handle(move |job: Close, run| {
            noted.add(job.order);
            if job.order == 1 {
                assert_eq!(inside.get().unwrap().cancel(run.id()).unwrap(), Cancel::Running);
            }
            Err(Fail::dead("no"))
        })
        .manual()
        .unwrap();
    let client = client(path);
    elsewhere.set(client.clone()).unwrap();
    (jobs, driver, client, log)
}

/// P11: A cancel that returns `Running` prevents a retry, also one without a delay. The process that runs the jobs
/// read such cancels once a second, so a run that failed sooner was retried.
#[test]
fn cancel_by_another_process_prevents_a_retry_without_delay() {
    let (_folder, path) = file();
    let client = client(&path);
    let elsewhere = client.clone();
    let jobs = open(&path)
        .handle(move |_: Close, run| {
            // In a second run the answer is that there is nothing to cancel, or the run cancels again.
            let _ = elsewhere.cancel(run.id());
            Err(Fail::after(std::time::Duration::ZERO, "stopped"))
        })
        .start()
        .unwrap();
    for order in 1..=10 {
        let id = jobs.insert(MS, close(order)).unwrap();
        wait_until("the job is gone", || client.get(id).unwrap().is_none());
        assert_eq!(jobs.stats().started, order);
    }
    jobs.check().unwrap();
    client.check().unwrap();
}

/// P11: A cancelled job whose run fails for good is deleted, and not dead. It became dead, and the row of its
/// cancel stayed: once an operator had retried the job, the next poll deleted it before it ran.
#[test]
fn cancel_by_another_process_removes_a_job_that_fails_for_good() {
    let (_folder, path) = file();
    let (jobs, driver, client, log) = cancelled_from_elsewhere(&path);
    let cancelled = jobs.insert(MS, close(1)).unwrap();
    let dead = jobs.insert(MS, close(2)).unwrap();
    driver.advance(SECOND / 2);
    assert_eq!(client.get(cancelled).unwrap(), None);
    assert!(!client.retry(cancelled).unwrap());
    assert!(client.retry(dead).unwrap());
    jobs.check().unwrap();
    client.check().unwrap();
    driver.advance(10 * SECOND);
    assert_eq!(log.get(), [1, 2, 2]);
    assert_eq!(jobs.stats().died, 2);
}

/// P11: An insert that is acknowledged runs. The row of an old cancel stayed, and deleted a job that was inserted
/// under the same id after that id was forgotten.
#[test]
fn id_of_a_cancelled_job_can_be_used_again_once_it_is_forgotten() {
    let (_folder, path) = file();
    let (jobs, driver, client, log) = cancelled_from_elsewhere(&path);
    let id = JobId::named("order 7");
    jobs.insert_job(NewJob::new(close(1)).at(MS).id(id)).unwrap();
    driver.advance(SECOND);
    assert_eq!(log.get(), [1]);
    driver.advance(24 * HOUR * 60);
    jobs.insert_job(NewJob::new(close(2)).at(HOUR).id(id)).unwrap();
    // The client goes by the clock of the system, 60 days ago: this job is due at once.
    client.insert(HOUR, close(3)).unwrap();
    driver.advance(2 * HOUR);
    assert_eq!(log.get(), [1, 3, 2]);
    jobs.check().unwrap();
}

/// P11: `check` reports a cancel request that names no claimed job. The process that runs the jobs drops it at the
/// next poll.
#[test]
fn cancel_request_without_a_claim_is_reported_and_dropped() {
    let (_folder, path) = file();
    let jobs = open(&path).handle(|_: Close, _| Ok(())).start().unwrap();
    let id = jobs.insert(HOUR, close(1)).unwrap();
    jobs.check().unwrap();
    let client = client(&path);
    let other = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    let ask = "INSERT INTO tickwheel_cancel_requested VALUES (?1)";
    other.execute(ask, [id.to_u128().to_be_bytes()]).unwrap();
    let rows = || -> i64 {
        other
            .query_row("SELECT count(*) FROM tickwheel_cancel_requested", [], |row| row.get(0))
            .unwrap()
    };
    // The runner may have looked already.
    let found = client.check();
    assert!(rows() == 0 || found.is_err_and(|found| found.to_string().starts_with("F9")));
    wait_until("the row is dropped", || rows() == 0);
    client.check().unwrap();
    assert!(jobs.get(id).unwrap().is_some());
}

/// `check` of the process that runs the jobs compares its claims with those in the file, also while it reads
/// through another connection.
#[test]
fn check_finds_a_claim_that_is_not_in_the_file() {
    let (_folder, path) = file();
    let (jobs, _at_start, release) = held(open(&path));
    jobs.insert(std::time::Duration::ZERO, close(1)).unwrap();
    wait_until("it runs", || jobs.count().unwrap().running == 1);
    jobs.check().unwrap();
    let other = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    other.execute("DELETE FROM tickwheel_claim", []).unwrap();
    let found = jobs.check().unwrap_err().to_string();
    assert!(found.starts_with("F8"), "{found}");
    drop(release);
}
