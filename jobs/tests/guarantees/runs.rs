//! What runs promise: never early, in order, tried again, dead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};

use tickwheel_jobs::{Event, Fail, JobState, Jobs, Retry};

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

/// P7: On a manual clock a run starts at its due time, and not a millisecond before.
#[test]
fn run_never_starts_early_on_a_manual_clock() {
    on_manual(|jobs, driver, log| {
        for n in 1..=20 {
            jobs.insert(n * SECOND, close(n.into())).unwrap();
        }
        for n in 1..=20 {
            assert_eq!(driver.advance(SECOND - MS), 0);
            assert_eq!(driver.advance(MS), 1);
            assert_eq!(log.get().len(), n);
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

/// P6: A failed job is retried after the delays of its policy, and is dead after the last retry. A retry by hand
/// begins anew.
#[test]
fn failed_job_is_retried_by_its_policy_and_then_dead() {
    on_each_store(|builder| {
        let attempts = Log::default();
        let noted = attempts.clone();
        let (jobs, driver) = builder
            .handle_with(Retry::exponential(SECOND).max_retries(3), move |_: Close, run| {
                noted.add(run.attempt().into());
                Err(std::io::Error::other("no answer"))?
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
        assert_eq!(driver.advance(HOUR), 0);
        assert!(jobs.retry(id).unwrap());
        assert!(!jobs.retry(id).unwrap());
        assert_eq!(driver.advance(MS), 1);
        assert_eq!(jobs.get(id).unwrap().unwrap().failures, 1);
        jobs.check().unwrap();
    });
}

/// A failure decides whether its job is retried, when, or dead. A panic and an interruption without a cancel
/// are retried by the policy.
#[test]
fn failure_decides_whether_its_job_is_retried_or_dead() {
    on_each_store(|builder| {
        let (jobs, driver) = builder
            .handle_with(Retry::fixed(SECOND).max_retries(1), |job: Close, _| match job.order {
                1 => Err(Fail::dead("never")),
                2 => Err(Fail::after(HOUR, "later")),
                3 => panic!("a defect of {}", job.order),
                _ => Err(Fail::interrupted()),
            })
            .manual()
            .unwrap();
        let ids: Vec<_> = (1..=4).map(|order| jobs.insert(SECOND, close(order)).unwrap()).collect();
        assert_eq!(driver.advance(SECOND), 4);
        let state = |n: usize| {
            let job = jobs.get(ids[n - 1]).unwrap().unwrap();
            (job.state, job.error.unwrap())
        };
        assert_eq!(state(1), (JobState::Dead, "never".to_owned()));
        assert_eq!(state(2), (JobState::Pending, "later".to_owned()));
        assert_eq!(state(3), (JobState::Pending, "panicked: a defect of 3".to_owned()));
        assert_eq!(driver.advance(HOUR - MS), 2); // 3, and 4, which was not told to stop
        assert_eq!(state(3).0, JobState::Dead);
        assert_eq!(state(2).0, JobState::Pending);
        assert_eq!(driver.advance(MS), 1);
        assert_eq!(jobs.count().unwrap().dead, 4);
        assert!(jobs.delete(ids[0]).unwrap());
        assert!(!jobs.delete(ids[0]).unwrap());
        assert_eq!(jobs.get(ids[0]).unwrap(), None);
        jobs.check().unwrap();
    });
}

/// P19: A job of a kind without a handler waits, is listed by `unhandled`, and runs once a handler is there.
#[test]
fn kind_without_a_handler_waits_and_is_listed() {
    let (_folder, path) = file();
    let (jobs, driver) = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).manual().unwrap();
    let push = jobs.insert(SECOND, Push { to: "Ada".to_owned() }).unwrap();
    jobs.insert(SECOND, close(1)).unwrap();
    assert_eq!(driver.advance(HOUR), 1);
    assert_eq!(jobs.unhandled().unwrap(), [("push".to_owned(), 1)]);
    assert_eq!(jobs.pending().kind::<Push>().count(), 1);
    jobs.shutdown().unwrap();
    let (jobs, driver) = Jobs::open(&path).unwrap().handle(|_: Push, _| Ok(())).manual().unwrap();
    assert_eq!(driver.advance(HOUR), 1);
    assert_eq!(jobs.get(push).unwrap(), None);
    assert_eq!(jobs.unhandled().unwrap(), []);
}

/// P19: A job whose payload does not decode is dead, and keeps its bytes.
#[test]
fn payload_that_does_not_decode_is_dead_with_its_bytes() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Changed {
        order: String,
    }
    impl tickwheel_jobs::Job for Changed {
        const KIND: &'static str = "close-order";
    }
    let (_folder, path) = file();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let id = client.insert(MS, close(7)).unwrap();
    let (jobs, driver) =
        Jobs::open(&path).unwrap().handle(|_: Changed, _| Ok(())).manual().unwrap();
    driver.advance(HOUR);
    let job = jobs.get(id).unwrap().unwrap();
    assert_eq!((job.state, job.payload.as_slice()), (JobState::Dead, &br#"{"order":7}"#[..]));
    assert!(job.error.unwrap().contains("does not decode"));
    jobs.check().unwrap();
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

/// P9: The fences of the runs of a job ascend, also over restarts.
#[test]
fn fences_of_a_job_ascend_through_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let fences = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..3 {
        let noted = Arc::clone(&fences);
        let (jobs, driver) = Jobs::open(folder.path().join("jobs.db"))
            .unwrap()
            .handle(move |_: Close, run| {
                noted.lock().unwrap().push(run.fence());
                Err(Fail::after(SECOND, "again"))
            })
            .manual()
            .unwrap();
        if fences.lock().unwrap().is_empty() {
            jobs.insert(SECOND, close(1)).unwrap();
        }
        driver.advance(20 * SECOND);
        jobs.shutdown().unwrap();
    }
    let fences = fences.lock().unwrap();
    assert!(fences.len() >= 6);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

/// `on_event` receives each failure and each death, with the error.
#[test]
fn events_tell_what_failed_and_died() {
    on_each_store(|builder| {
        let events = Arc::new(Mutex::new(HashMap::new()));
        let noted = Arc::clone(&events);
        let (jobs, driver) = builder
            .handle_with(Retry::fixed(SECOND).max_retries(1), |_: Close, _| {
                Err(std::io::Error::other("no"))?
            })
            .on_event(move |event| {
                let name = match event {
                    Event::Failed { error, .. } => format!("failed: {error}"),
                    Event::Died { error, kind, .. } => format!("{kind} died: {error}"),
                    other => format!("{other:?}"),
                };
                *noted.lock().unwrap().entry(name).or_insert(0) += 1;
            })
            .manual()
            .unwrap();
        jobs.insert(SECOND, close(1)).unwrap();
        driver.advance(HOUR);
        let events = events.lock().unwrap();
        assert_eq!(events.get("failed: no"), Some(&1));
        assert_eq!(events.get("close-order died: no"), Some(&1));
        assert_eq!(jobs.stats().died, 1);
    });
}

/// P16, P18: One thread starts overdue jobs in the order of due time.
#[test]
fn overdue_jobs_start_in_order_on_one_thread() {
    let (_folder, path) = file();
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let start = std::time::UNIX_EPOCH + HOUR;
    let mut times: Vec<u64> = (0..3000).collect();
    times.sort_by_key(|n| n * 7919 % 3000);
    client
        .insert_batch(times.iter().map(|n| (start + u32::try_from(n / 2).unwrap() * MS, close(*n))))
        .unwrap();
    let log = Log::default();
    let noted = log.clone();
    let jobs = Jobs::open(&path)
        .unwrap()
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

/// P17: A job that ends its process five times is dead. Its neighbours, which were claimed with it at first, are
/// not.
#[test]
fn job_that_ends_its_process_five_times_is_dead() {
    // What a process leaves that ends inside a handler: the file as it is then.
    let folder = tempfile::tempdir().unwrap();
    let mut path = folder.path().join("jobs-0.db");
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let id = client.insert(MS, close(1)).unwrap();
    let neighbours = client.insert_batch((2..50).map(|n| (MS, close(n)))).unwrap();
    drop(client);
    for crash in 1..=5 {
        let next = folder.path().join(format!("jobs-{crash}.db"));
        let (from, to) = (path.clone(), next.clone());
        let (jobs, driver) = Jobs::open(&path)
            .unwrap()
            .handle(move |job: Close, run| {
                if job.order == 1 {
                    assert_eq!(run.attempt(), crash);
                    std::fs::copy(&from, &to)?;
                    std::fs::copy(from.with_extension("db-wal"), to.with_extension("db-wal"))?;
                }
                Ok(())
            })
            .manual()
            .unwrap();
        driver.advance(HOUR);
        drop(jobs);
        path = next;
    }
    let (jobs, driver) = Jobs::open(&path).unwrap().handle(|_: Close, _| Ok(())).manual().unwrap();
    let job = jobs.get(id).unwrap().unwrap();
    assert_eq!((job.state, job.interruptions), (JobState::Dead, 5));
    assert!(job.error.unwrap().contains("ended 5 times"));
    // Its neighbours were claimed with it at first, and are not held to blame.
    for id in neighbours {
        assert!(jobs.get(id).unwrap().is_none_or(|job| job.state == JobState::Pending));
    }
    driver.advance(HOUR);
    assert_eq!(jobs.count().unwrap().pending, 0);
    jobs.check().unwrap();
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
