//! What runs promise: never early, in order, tried again, dead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};

use tickwheel_jobs::{Event, Fail, JobState, Retry};

use super::support::*;

/// P7: A run never starts before its due time.
#[test]
#[expect(clippy::disallowed_methods, reason = "the real clock is the subject")]
fn run_never_starts_before_its_due_time() {
    on_each_store(|builder| {
        let (started, starts) = mpsc::channel();
        let jobs = builder
            .handle(move |_: Close, run| {
                let now = std::time::SystemTime::now();
                Ok(started.send((run.id(), run.due(), now, run.late()))?)
            })
            .start()
            .unwrap();
        let now = std::time::SystemTime::now;
        let asked: HashMap<_, _> = (0..200)
            .map(|n| (now() + n * MS, jobs.insert(n * MS, close(0)).unwrap()))
            .map(|(earliest, id)| (id, earliest))
            .collect();
        for _ in 0..200 {
            let (id, due, now, late) = starts.recv_timeout(LONG).unwrap();
            assert!(now >= asked[&id], "{:?} early", asked[&id].duration_since(now));
            // Only what was to start at once may have a deadline in the millisecond that had begun.
            assert!(due + MS > asked[&id]);
            assert!(now >= due, "{:?} early", due.duration_since(now));
            assert!(late <= now.duration_since(due).unwrap());
        }
    });
}

/// P16: Jobs start in the order of due time, and of insertion where the due times are equal.
#[test]
fn jobs_start_in_the_order_of_due_time_then_of_insertion() {
    on_manual(|jobs, driver, log| {
        let at = driver.wall_now() + SECOND;
        jobs.insert(at + MS, close(3)).unwrap();
        jobs.insert(at, close(1)).unwrap();
        jobs.insert(at, close(2)).unwrap();
        driver.advance(HOUR);
        assert_eq!(log.get(), [1, 2, 3]);
    });
}

/// P8: A wall clock that is set moves every run with it, also that of a claimed job.
#[test]
fn wall_clock_that_is_set_moves_the_runs() {
    on_manual(|jobs, driver, log| {
        jobs.insert(2 * HOUR, close(1)).unwrap();
        driver.set_wall(driver.wall_now() + HOUR);
        assert_eq!(driver.advance(HOUR - MS), 0);
        assert_eq!(driver.advance(MS), 1);
        jobs.insert(HOUR, close(2)).unwrap();
        driver.set_wall(driver.wall_now() - HOUR);
        assert_eq!(driver.advance(2 * HOUR - MS), 0);
        assert_eq!(driver.advance(MS), 1);
        // A claimed job as well.
        jobs.insert(SECOND, close(3)).unwrap();
        driver.advance(SECOND - MS);
        driver.set_wall(driver.wall_now() - HOUR);
        assert_eq!(driver.advance(HOUR), 0);
        assert_eq!(jobs.stats().in_flight, 1);
        assert_eq!(driver.advance(MS), 1);
        driver.set_wall(std::time::UNIX_EPOCH);
        jobs.insert(SECOND, close(4)).unwrap();
        assert_eq!(driver.advance(SECOND), 1);
        assert_eq!(log.get(), [1, 2, 3, 4]);
    });
}

/// P6: A failed job is retried after the delays of its policy, and is dead after the last retry. An event tells of each
/// failure and of the death. A retry by hand begins anew.
#[test]
fn failed_job_is_retried_by_its_policy_and_then_dead() {
    on_each_store(|builder| {
        let (attempts, events) = (Log::default(), Arc::<Mutex<Vec<String>>>::default());
        let (noted, told) = (attempts.clone(), Arc::clone(&events));
        let (jobs, driver) = builder
            .handle_with(Retry::exponential(SECOND).max_retries(3), move |_: Close, run| {
                noted.add(run.attempt().into());
                Err(std::io::Error::other("no answer"))?
            })
            .on_event(move |event| {
                let (what, error) = match event {
                    Event::Failed { error, .. } => ("it".to_owned(), error),
                    Event::Died { error, kind, .. } => (kind, error),
                    other => panic!("{other:?}"),
                };
                told.lock().unwrap().push(format!("{what}: {error}"));
            })
            .manual()
            .unwrap();
        let id = jobs.insert(SECOND, close(1)).unwrap();
        assert_eq!(driver.advance(SECOND), 1);
        // Waits of 1, 2 and 4 seconds, each up to a quarter longer.
        for wait in [SECOND, 2 * SECOND, 4 * SECOND] {
            let job = jobs.get(id).unwrap().unwrap();
            assert_eq!(job.state, JobState::Pending);
            let from_now = job.due.duration_since(driver.wall_now()).unwrap();
            assert!((wait..=wait + wait / 4).contains(&from_now), "{from_now:?}");
            assert_eq!(driver.advance(from_now - MS), 0);
            assert_eq!(driver.advance(MS), 1);
        }
        let job = jobs.get(id).unwrap().unwrap();
        assert_eq!((job.state, job.failures), (JobState::Dead, 4));
        assert_eq!(job.error.as_deref(), Some("no answer"));
        assert_eq!(attempts.get(), [1, 2, 3, 4]);
        let failed = "it: no answer";
        let all = [failed, failed, failed, "close-order: no answer"];
        assert_eq!(*events.lock().unwrap(), all);
        assert_eq!(driver.advance(HOUR), 0);
        assert!(jobs.retry(id).unwrap());
        assert!(!jobs.retry(id).unwrap());
        assert_eq!(driver.advance(MS), 1);
        assert_eq!(jobs.get(id).unwrap().unwrap().failures, 1);
        jobs.check().unwrap();
    });
}

/// P21: A dead job stays for `keep_dead`, and is deleted then.
#[test]
fn dead_jobs_stay_for_keep_dead() {
    on_each_store(|builder| {
        let (jobs, driver) =
            builder.handle(|_: Close, _| Err(Fail::dead("no"))).keep_dead(HOUR).manual().unwrap();
        let id = jobs.insert(SECOND, close(1)).unwrap();
        let pending = jobs.insert(100 * HOUR, close(2)).unwrap();
        driver.advance(HOUR);
        assert_eq!(jobs.get(id).unwrap().unwrap().state, JobState::Dead);
        driver.advance(HOUR);
        assert_eq!(jobs.get(id).unwrap(), None);
        assert!(jobs.get(pending).unwrap().is_some());
        jobs.check().unwrap();
    });
}

/// P16, P18: One thread starts overdue jobs in the order of due time.
#[test]
fn overdue_jobs_start_in_order_on_one_thread() {
    let (_folder, path) = file();
    let client = client(&path);
    let start = std::time::UNIX_EPOCH + HOUR;
    let mut times: Vec<u64> = (0..3000).collect();
    times.sort_by_key(|n| n * 7919 % 3000);
    client
        .insert_batch(times.iter().map(|n| (start + u32::try_from(n / 2).unwrap() * MS, close(*n))))
        .unwrap();
    let log = Log::default();
    let noted = log.clone();
    let jobs = open(&path)
        .threads(1)
        .handle(move |job: Close, _| {
            noted.add(job.order / 2);
            Ok(())
        })
        .start()
        .unwrap();
    wait_until("all have run", || log.get().len() == 3000);
    assert!(log.get().is_sorted());
    drop(jobs);
}

/// A retry never starts before its delay is over.
#[test]
#[expect(clippy::disallowed_methods, reason = "the real clock is the subject")]
fn retry_starts_no_sooner_than_its_delay() {
    on_each_store(|builder| {
        let (started, starts) = mpsc::channel();
        let jobs = builder
            .handle_with(Retry::fixed(3 * MS).max_retries(20), move |_: Close, _| {
                started.send(std::time::SystemTime::now())?;
                Err(std::io::Error::other("no"))?
            })
            .start()
            .unwrap();
        jobs.insert(MS, close(1)).unwrap();
        let times: Vec<_> = (0..21).map(|_| starts.recv_timeout(LONG).unwrap()).collect();
        for pair in times.windows(2) {
            assert!(pair[1].duration_since(pair[0]).unwrap() >= 3 * MS, "{pair:?}");
        }
    });
}
