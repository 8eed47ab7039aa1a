//! The events.

use std::sync::mpsc;
use std::time::Duration;

use tickwheel_jobs::{Fail, Jobs, NewJob, Retry};
use tracing::Level;

use crate::installed;
use crate::recorder::{LONG, Noted, SECOND, Task, events, events_of, record, run_of, runs_of};
use crate::server::wait_until;

fn levels(events: &[Noted]) -> Vec<(Level, &str)> {
    events.iter().map(|event| (event.level, event.field("message"))).collect()
}

const INSERTED: (Level, &str) = (Level::TRACE, "a job was inserted");
const RETRIED: (Level, &str) = (Level::INFO, "a run failed, and its job is retried");
const DEAD: (Level, &str) = (Level::ERROR, "a job is dead");
const LEASE_LOST: (Level, &str) = (Level::WARN, "a run has lost its lease, and its job runs again");

/// P52: Each insert is an event of its caller's span: of a job with its id, of a batch with its number of jobs. So is
/// an insert in a transaction.
#[test]
fn insert_is_traced() {
    record();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let builder = Jobs::open(&path).unwrap().queue("traced");
    let (jobs, _driver) = builder.handle(|_: Task, _| Ok(())).manual().unwrap();
    let span = tracing::info_span!("request");
    let id = span.in_scope(|| jobs.insert(SECOND, Task(1))).unwrap();
    let [event] = <[_; 1]>::try_from(events_of(id)).unwrap();
    assert_eq!(levels(std::slice::from_ref(&event)), [INSERTED]);
    assert_eq!(event.id, span.id().map(|id| id.into_u64()));
    assert_eq!((event.target, event.field("queue")), ("tickwheel_jobs", "traced"));
    assert_eq!((event.field("job.kind"), event.field("is_new")), ("task", "true"));
    // The id is known.
    jobs.insert_job(NewJob::new(Task(1)).id(id)).unwrap();
    assert_eq!(events_of(id).pop().unwrap().field("is_new"), "false");
    jobs.insert_batch((0..3).map(|n| (SECOND, Task(n)))).unwrap();
    let batch = |event: &Noted| event.field("queue") == "traced" && event.field("jobs") == "3";
    assert_eq!(levels(&events(batch)), [(Level::TRACE, "jobs were inserted")]);
    let mut shop = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    let transaction = shop.transaction().unwrap();
    let id = jobs.insert_in(&transaction, SECOND, Task(1)).unwrap();
    assert_eq!(levels(&events_of(id)), [INSERTED]);
}

/// P52: A retry and the death of a job are events in the span of the run that failed, with its error.
#[test]
fn retry_and_death_are_events_of_the_run() {
    record();
    let (jobs, driver) = Jobs::memory()
        .handle_with(Retry::fixed(SECOND).max_retries(1), |_: Task, _| Err("no answer")?)
        .manual()
        .unwrap();
    let id = jobs.insert(Duration::ZERO, Task(1)).unwrap();
    driver.advance(2 * SECOND);
    let events = events_of(id);
    assert_eq!(levels(&events), [INSERTED, RETRIED, DEAD]);
    let spans: Vec<_> = runs_of(id).into_iter().map(|run| run.id).collect();
    assert_eq!([events[1].id, events[2].id], spans[..]);
    for event in &events[1..] {
        assert_eq!((event.field("error"), event.field("job.kind")), ("no answer", "task"));
    }
}

/// P52: A commit that fails is a warning.
#[test]
fn failed_commit_is_traced() {
    record();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let jobs = Jobs::open(&path).unwrap().call_timeout(SECOND / 5);
    let jobs = jobs.handle(|_: Task, _| Ok(())).start().unwrap();
    let mut other = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    let immediate = tickwheel_jobs::rusqlite::TransactionBehavior::Immediate;
    let transaction = other.transaction_with_behavior(immediate).unwrap();
    jobs.insert(SECOND, Task(1)).unwrap_err();
    let failed = |event: &Noted| event.field("message") == "a commit failed";
    wait_until("a warning", || !events(failed).is_empty());
    let events = events(failed);
    assert_eq!(events[0].level, Level::WARN);
    assert!(!events[0].field("error").is_empty());
    drop(transaction);
    jobs.shutdown().unwrap();
}

/// P52: A lost lease is a warning in the span of its run, which then has the outcome `interrupted`.
#[test]
fn lost_lease_is_an_event_of_its_run() {
    record();
    let Some(mut server) = installed::server(&[]) else { return };
    let (started, at_start) = mpsc::channel();
    let jobs = Jobs::redis(server.url())
        .unwrap()
        .lease(SECOND)
        .handle(move |_: Task, run| {
            started.send(run.id())?;
            wait_until("the lease is lost", || run.is_cancelled());
            Err(Fail::interrupted())
        })
        .start()
        .unwrap();
    let id = jobs.insert(Duration::ZERO, Task(1)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    server.kill();
    wait_until("the span has closed", || run_of(id).is_closed);
    let events = events_of(id);
    assert_eq!(levels(&events), [INSERTED, LEASE_LOST]);
    let span = run_of(id);
    assert_eq!((span.id, span.field("outcome")), (events[1].id, "interrupted"));
    assert_eq!(span.field("otel.status_code"), "");
    let _ = jobs.shutdown_timeout(Duration::ZERO);
}
