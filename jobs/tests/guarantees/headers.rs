//! The headers of jobs, and the errors of their last attempts.

use std::sync::mpsc;
use std::time::UNIX_EPOCH;

use tickwheel_jobs::{Fail, InsertErrorKind, InvalidInput, JobState, NewJob, Retry};

use super::support::*;

/// P49: A header is readable in each run and in lists, also after a failure and when the job is dead. A header of the
/// job replaces one of the client, and that one replaces one of the builder.
#[test]
fn headers_reach_runs_and_lists() {
    on_each_store(|builder| {
        let (seen, runs) = mpsc::channel();
        let (jobs, driver) = builder
            .headers(|| {
                [("from".to_owned(), "builder".to_owned()), ("b".to_owned(), "1".to_owned())]
            })
            .handle_with(Retry::fixed(SECOND).max_retries(1), move |_: Close, run| {
                let all: Vec<(String, String)> =
                    run.headers().map(|(name, value)| (name.into(), value.into())).collect();
                let from = run.header("from").map(str::to_owned);
                let _ = seen.send((from, run.header("x").is_some(), all.len()));
                Err(Fail::retry("no"))
            })
            .manual()
            .unwrap();
        let client = jobs.client().with_header("from", "client").with_header("c", "2");
        let by_client = client.insert(SECOND, close(1)).unwrap();
        let new = NewJob::new(close(2)).at(SECOND).header("from", "job");
        let by_job = client.insert_job(new).unwrap().id;
        let by_builder = jobs.insert_batch([(SECOND, close(3))]).unwrap()[0];
        for (id, from, many) in
            [(by_client, "client", 3), (by_job, "job", 3), (by_builder, "builder", 2)]
        {
            let headers = jobs.get(id).unwrap().unwrap().headers;
            assert_eq!((&*headers["from"], headers.len()), (from, many));
        }
        driver.advance(SECOND);
        driver.advance(SECOND);
        let mut runs: Vec<_> = runs.try_iter().collect();
        runs.sort();
        let run = |from: &str, many| (Some(from.to_owned()), false, many);
        let twice = [run("builder", 2), run("client", 3), run("job", 3)];
        let expected: Vec<_> = twice.into_iter().flat_map(|run| [run.clone(), run]).collect();
        assert_eq!(runs, expected);
        let dead: Vec<_> = jobs.dead().collect();
        assert_eq!(dead.len(), 3);
        assert!(dead.iter().all(|job| job.headers["b"] == "1"));
        jobs.check().unwrap();
    });
}

/// P49: Headers of more than 4 KiB are refused with the job, and nothing is stored.
#[test]
fn headers_that_are_too_long_are_refused() {
    on_each_store(|builder| {
        let (jobs, _driver) = builder.handle(|_: Close, _| Ok(())).manual().unwrap();
        let megabyte = "x".repeat(1 << 20);
        for (name, value) in [("n", &*megabyte), (&*megabyte, ""), ("", "empty name")] {
            let new = NewJob::new(close(7)).header(name, value);
            let refused = jobs.insert_job(new).unwrap_err();
            let kind = refused.kind().clone();
            assert!(
                matches!(kind, InsertErrorKind::Invalid(InvalidInput::TooLong { .. })),
                "{kind:?}"
            );
            assert_eq!(*refused.into_inner().job(), close(7));
            let in_batch = NewJob::new(close(8)).header(name, value);
            let refused = jobs.insert_batch([NewJob::new(close(7)), in_batch]).unwrap_err();
            assert_eq!(refused.into_inner().len(), 2);
        }
        assert_eq!(jobs.count().unwrap().pending, 0);
    });
}

/// P49: The last five failed attempts are kept, each with its time, number, node and text. They stay when the job is
/// dead, and when it is retried by hand.
#[test]
fn errors_of_the_last_five_attempts_are_kept() {
    on_each_store(|builder| {
        let (jobs, driver) = builder
            .handle_with(Retry::fixed(SECOND).max_retries(6), |_: Close, run| {
                Err(Fail::retry(format!("no {}", run.attempt())))
            })
            .manual()
            .unwrap();
        let id = jobs.insert(SECOND, close(1)).unwrap();
        assert_eq!(jobs.get(id).unwrap().unwrap().errors, []);
        for _ in 0..8 {
            driver.advance(SECOND);
        }
        let check = |job: tickwheel_jobs::JobInfo| {
            let attempts: Vec<u32> = job.errors.iter().map(|error| error.attempt).collect();
            assert_eq!(attempts, [7, 6, 5, 4, 3]);
            let texts: Vec<&str> = job.errors.iter().map(|error| &*error.error).collect();
            assert_eq!(texts, ["no 7", "no 6", "no 5", "no 4", "no 3"]);
            assert_eq!(job.error.as_deref(), Some("no 7"));
            let pid = format!("/{}", std::process::id());
            assert!(job.errors.iter().all(|error| error.node.ends_with(&pid)));
            let times: Vec<_> = job.errors.iter().map(|error| error.at).collect();
            assert!(times.is_sorted_by(|newer, older| *newer >= *older + SECOND), "{times:?}");
            assert!(times[4] > UNIX_EPOCH);
            job.state
        };
        assert_eq!(check(jobs.get(id).unwrap().unwrap()), JobState::Dead);
        assert!(jobs.retry(id).unwrap());
        assert_eq!(check(jobs.get(id).unwrap().unwrap()), JobState::Pending);
        jobs.check().unwrap();
    });
}
