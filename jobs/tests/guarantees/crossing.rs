//! Calls that cross the end of the jobs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::view::View;
use tickwheel_jobs::{
    Builder, Client, Durability, InsertErrorKind, JobId, JobInfo, Jobs, Limit, Run, Step,
    StoreError,
};

use super::support::*;

fn ever() -> core::ops::Range<SystemTime> {
    SystemTime::UNIX_EPOCH..SystemTime::UNIX_EPOCH + 1_000_000 * HOUR
}

type Verb = fn(&Client) -> Result<(), StoreError>;

/// Every verb that waits for an answer.
const VERBS: [(&str, Verb); 33] = [
    ("insert", |client| inserted(client.insert(HOUR, close(1)).map(drop))),
    ("insert_copy", |client| copied(client.insert_copy(&ONE_JOB, HOUR))),
    ("insert_batch", |client| inserted(client.insert_batch([(HOUR, close(1))]).map(drop))),
    ("cancel", |client| client.cancel(JobId::new()).map(drop)),
    ("reschedule", |client| client.reschedule(JobId::new(), HOUR).map(drop)),
    ("retry", |client| client.retry(JobId::new()).map(drop)),
    ("schedule", |client| client.schedule("night", HOUR, close(1))),
    ("unschedule", |client| client.schedules().remove("night").map(drop)),
    ("pause_schedule", |client| if_there(client.schedules().pause("night"))),
    ("resume_schedule", |client| if_there(client.schedules().resume("night"))),
    ("get", |client| client.get(JobId::new()).map(drop)),
    ("count", |client| client.count().map(drop)),
    ("kinds", |client| client.queue().kinds().map(drop)),
    ("pending", |client| client.pending().next_page().map(drop)),
    ("history", |client| client.queue().history(Step::Hour, ever()).map(drop)),
    ("metrics", |client| client.metrics().map(drop)),
    ("nodes", |client| client.nodes().map(drop)),
    ("dead_by_error", |client| client.dead_by_error(1).map(drop)),
    ("head_start", |client| client.kind_named("other").head_start(HOUR)),
    ("pause", |client| client.kind_named("other").pause()),
    ("kind hold", |client| client.kind_named("other").hold(Duration::from_millis(1))),
    ("resume", |client| client.queue().resume()),
    ("is_paused", |client| client.queue().is_paused().map(drop)),
    ("limit", |client| client.queue().limit(Limit::none())),
    ("limits", |client| client.queue().limits().map(drop)),
    ("hold", |client| client.queue().hold(Duration::from_millis(1))),
    ("schedules", |client| client.schedules().list().map(drop)),
    ("run_schedule", |client| client.schedules().run_once("night", JobId::new()).map(drop)),
    ("by_ids", |client| client.by_ids([JobId::new()]).next_page().map(drop)),
    ("bulk", |client| client.by_ids([JobId::new()]).cancel_all()?.run().map(drop)),
    ("overview", |client| View::new(client.clone()).overview().map(drop)),
    ("flush", Client::flush),
    ("check", |client| match client.check() {
        // A violation is the one error of a check that was made.
        Err(violation) if violation.to_string().contains("shut down") => Err(StoreError::Closed),
        other => {
            other.unwrap();
            Ok(())
        }
    }),
];

/// Another verb may have ended the schedule.
fn if_there(answer: Result<(), StoreError>) -> Result<(), StoreError> {
    match answer {
        Err(StoreError::NoSchedule(_)) => Ok(()),
        other => other,
    }
}

/// A job that was read.
static ONE_JOB: LazyLock<JobInfo> = LazyLock::new(|| {
    let (jobs, _driver) = Jobs::memory().handle(|_: Close, _| Ok(())).manual().unwrap();
    jobs.insert(HOUR, close(1)).unwrap();
    jobs.pending().next().unwrap()
});

fn inserted<E: std::fmt::Debug>(
    answer: Result<(), tickwheel_jobs::InsertError<E>>,
) -> Result<(), StoreError> {
    copied(answer.map_err(|refused| refused.kind().clone()))
}

fn copied<T>(answer: Result<T, InsertErrorKind>) -> Result<(), StoreError> {
    match answer {
        Ok(_) => Ok(()),
        Err(InsertErrorKind::Closed) => Err(StoreError::Closed),
        Err(InsertErrorKind::Unknown(_)) => Err(StoreError::Unknown),
        Err(other) => panic!("{other}"),
    }
}

/// Calls every verb again and again until it is refused. Sends the name of each that has ended.
fn callers(client: &Client, ended: &mpsc::Sender<&'static str>) -> Vec<JoinHandle<()>> {
    let caller = |(name, verb): (&'static str, Verb)| {
        let (client, ended) = (client.clone(), ended.clone());
        thread::spawn(move || {
            let refused = loop {
                if let Err(refused) = verb(&client) {
                    break refused;
                }
            };
            assert_eq!(refused, StoreError::Closed, "{name}");
            ended.send(name).unwrap();
        })
    };
    VERBS.map(caller).into()
}

fn all_calls_end(builder: Builder, end: fn(Jobs)) {
    let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
    let (sender, ended) = mpsc::channel();
    let callers = callers(&jobs.client(), &sender);
    drop(sender);
    jobs.insert(MS, close(2)).map(drop).unwrap_or_else(|refused| panic!("{refused}"));
    end(jobs);
    let mut missing: Vec<&str> = VERBS.iter().map(|(name, _)| *name).collect();
    loop {
        match ended.recv_timeout(LONG) {
            Ok(name) => missing.retain(|other| *other != name),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("these calls never ended: {missing:?}"),
        }
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

const ROUNDS: usize = 12;

/// P22: Every call that is made while the jobs shut down or are dropped ends: with its answer, or with
/// [`StoreError::Closed`].
#[test]
fn calls_that_cross_the_end_of_the_jobs_end() {
    for durability in [Durability::Written, Durability::Buffered] {
        for _ in 0..ROUNDS {
            on_each_store(|builder| {
                all_calls_end(builder.durability(durability), |jobs| jobs.shutdown().unwrap());
            });
            on_each_store(|builder| all_calls_end(builder.durability(durability), drop));
        }
    }
}

/// What a handler has captured. Its drop takes a moment.
struct Captured(Arc<AtomicBool>);

impl Drop for Captured {
    fn drop(&mut self) {
        pause(5 * MS);
        self.0.store(true, Ordering::Release);
    }
}

/// On a manual clock every caller makes steps, so the last step of the jobs may be another thread's. Both
/// ends wait for it all the same: when they return, the handlers are dropped.
#[test]
fn shutdown_and_drop_wait_for_the_step_of_another_thread() {
    for round in 0..60 {
        on_each_store(|builder| {
            let dropped = Arc::<AtomicBool>::default();
            let captured = Captured(Arc::clone(&dropped));
            let handler = move |_: Close, _: &Run| {
                let _ = &captured;
                Ok(())
            };
            let (jobs, driver) = builder.handle(handler).manual().unwrap();
            // Claimed and not started: the step that gives it back is not the one that begins the end.
            jobs.insert(20 * MS, close(1)).unwrap();
            driver.advance(Duration::ZERO);
            let callers: Vec<_> = (0..3)
                .map(|_| {
                    let client = jobs.client();
                    thread::spawn(move || while client.count().is_ok() {})
                })
                .collect();
            match round % 2 {
                0 => jobs.shutdown().unwrap(),
                _ => drop(jobs),
            }
            assert!(dropped.load(Ordering::Acquire), "round {round}");
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        });
    }
}

/// P22: A shutdown stores every job that was inserted before it, also one that is not acknowledged yet.
#[test]
fn shutdown_overtakes_no_buffered_insert() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = folder.path().join(format!("{round}.db"));
        let builder = Jobs::open(&path).unwrap().durability(Durability::Buffered);
        let jobs = builder.handle(|_: Close, _| Ok(())).start().unwrap();
        for order in 0..3000 {
            jobs.insert(HOUR, close(order)).unwrap();
        }
        jobs.shutdown().unwrap();
        let client = Jobs::open(&path).unwrap().client().unwrap();
        assert_eq!(client.count().unwrap().pending, 3000);
    }
}
