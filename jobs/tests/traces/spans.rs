//! The span of each run.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Fail, Job, JobId, Jobs, NewJob, Retry, StoreError};
use tracing::Level;

use crate::recorder::{LONG, SECOND, Task, current, record, run_of, runs_of};
use crate::server::wait_until;

/// P52: The span of a run has the run's properties from its start on, and its outcome at its end.
#[test]
fn span_of_a_run_has_its_fields() {
    record();
    let folder = tempfile::tempdir().unwrap();
    let on_file = Jobs::open(folder.path().join("jobs.db")).unwrap().queue("Mails");
    for (builder, queue) in [(Jobs::memory(), "default"), (on_file, "mails")] {
        let fences = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&fences);
        let handler = move |task: Task, run: &tickwheel_jobs::Run| {
            noted.lock().unwrap().push(run.fence().to_string());
            let span = runs_of(run.id()).pop().unwrap();
            assert_eq!((span.field("outcome"), span.field("error.type")), ("", ""));
            if run.attempt() < 2 { Err(format!("task {}", task.0))? } else { Ok(()) }
        };
        let (jobs, driver) = builder.handle_with(Retry::fixed(SECOND), handler).manual().unwrap();
        let due = driver.wall_now() - 5 * SECOND;
        let id = jobs.insert(due, Task(1)).unwrap();
        driver.advance(2 * SECOND);
        let fences = fences.lock().unwrap().clone();
        let [first, second] = <[_; 2]>::try_from(runs_of(id)).unwrap();
        for (span, attempt, fence, outcome) in
            [(&first, "1", &fences[0], "retried"), (&second, "2", &fences[1], "completed")]
        {
            assert_eq!((span.target, span.level), ("tickwheel_jobs", Level::INFO));
            assert!(span.is_closed);
            for (name, value) in [
                ("job.id", &*id.to_string()),
                ("job.kind", "task"),
                ("queue", queue),
                ("attempt", attempt),
                ("fence", fence),
                ("outcome", outcome),
                ("otel.kind", "consumer"),
                ("otel.name", "process task"),
            ] {
                assert_eq!(span.field(name), value, "{name} of {span:?}");
            }
        }
        let late: u64 = first.field("late_ms").parse().unwrap();
        assert!((4999..=5000).contains(&late), "{late}");
        assert_eq!(second.field("late_ms"), "0");
        assert_eq!(first.field("otel.status_code"), "ERROR");
        assert_eq!(second.field("otel.status_code"), "");
    }
}

/// Says how its run ends.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
enum End {
    Text,
    Io,
    Store,
    Dead,
    Snooze,
    Interrupted,
    Panic,
    TooLong,
    CancelItself,
}

impl Job for End {
    const KIND: &'static str = "end";
}

/// A kind whose payload does not decode.
#[derive(Serialize)]
struct Broken;

impl<'de> Deserialize<'de> for Broken {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Broken, D::Error> {
        Err(serde::de::Error::custom("never"))
    }
}

impl Job for Broken {
    const KIND: &'static str = "broken";
}

fn ending(end: End, run: &tickwheel_jobs::Run) -> Result<(), Fail> {
    match end {
        End::Text => Err("no")?,
        End::Io => Err(std::io::Error::other("no"))?,
        End::Store => Err(Fail::after(SECOND, StoreError::Closed)),
        End::Dead => Err(Fail::dead("no")),
        End::Snooze => Err(Fail::snooze(1000 * SECOND)),
        End::Interrupted => Err(Fail::interrupted()),
        End::Panic => panic!("no"),
        End::TooLong => {
            wait_until("the limit", || run.is_cancelled());
            Err(Fail::interrupted())
        }
        End::CancelItself => {
            let _ = run.client().cancel(run.id())?;
            Err(std::fmt::Error)?
        }
    }
}

/// P52: The span has the outcome of its run, and the type of the error if the handler failed. Only a failed run has the
/// status of an error.
#[test]
fn span_says_how_its_run_ended() {
    record();
    let jobs = Jobs::memory()
        .retry(Retry::fixed(1000 * SECOND))
        .time_limit::<End>(SECOND / 10)
        .handle(ending)
        .handle(|_: Broken, _| Ok(()))
        .start()
        .unwrap();
    let insert = |end| jobs.insert(Duration::ZERO, end).unwrap();
    let failed = |error| (error, "ERROR");
    for (id, outcome, (error, status)) in [
        (insert(End::Text), "retried", failed("_OTHER")),
        (insert(End::Io), "retried", failed("std::io::error::Error")),
        (insert(End::Store), "retried", failed("tickwheel_jobs::values::error::StoreError")),
        (insert(End::Dead), "dead", failed("_OTHER")),
        (insert(End::Snooze), "snoozed", ("", "")),
        (insert(End::Interrupted), "retried", failed("interrupted")),
        (insert(End::Panic), "retried", failed("panic")),
        (insert(End::TooLong), "retried", failed("time_limit")),
        (insert(End::CancelItself), "cancelled", ("core::fmt::Error", "")),
        (jobs.insert(Duration::ZERO, Broken).unwrap(), "dead", failed("undecodable")),
    ] {
        wait_until("the run has ended", || runs_of(id).first().is_some_and(|run| run.is_closed));
        let span = run_of(id);
        let [its_outcome, its_error, its_status] =
            ["outcome", "error.type", "otel.status_code"].map(|name| span.field(name));
        // The standard library may name its types anew.
        let is_type =
            its_error == error || its_error.ends_with("::Error") && error.ends_with("::Error");
        assert!(is_type, "{span:?}");
        assert_eq!((its_outcome, its_status), (outcome, status), "{span:?}");
    }
    jobs.shutdown().unwrap();
}

/// P52: A run is the root of a trace of its own, whichever span is current where it starts.
#[test]
fn span_of_a_run_is_a_root() {
    record();
    let (jobs, driver) = Jobs::memory().handle(|_: Task, _| Ok(())).manual().unwrap();
    let id = tracing::info_span!("request").in_scope(|| {
        let id = jobs.insert(Duration::ZERO, Task(1)).unwrap();
        driver.advance(Duration::ZERO);
        id
    });
    assert_eq!(run_of(id).parent, None);
}

/// Returns a builder that notes which span is current in `on_run`.
fn noting(builder: Builder) -> (Builder, Arc<Mutex<Vec<Option<u64>>>>) {
    let noted: Arc<Mutex<Vec<_>>> = Arc::default();
    let seen = Arc::clone(&noted);
    (builder.on_run(move |_| seen.lock().unwrap().push(current())), noted)
}

/// P52: The span is current in the handler, in its middleware and in `on_run`, and nowhere else.
#[test]
fn span_is_current_in_the_handler_and_in_on_run() {
    record();
    let (builder, in_on_run) = noting(Jobs::memory());
    let (sender, seen) = mpsc::channel();
    let around = sender.clone();
    let jobs = builder
        .handle(move |_: Task, _| Ok(sender.send(current())?))
        .middleware(move |_, next| {
            around.send(current())?;
            next.run()
        })
        .start()
        .unwrap();
    let id = jobs.insert(Duration::ZERO, Task(1)).unwrap();
    let around = seen.recv_timeout(LONG).unwrap();
    let seen = seen.recv_timeout(LONG).unwrap();
    jobs.shutdown().unwrap();
    assert_eq!(around, seen);
    assert_eq!(current(), None);
    let span = run_of(id).id;
    assert!(span.is_some());
    assert_eq!((seen, &in_on_run.lock().unwrap()[..]), (span, &[span, span][..]));
}

/// P52: The span of an async handler is current in each poll of it and of its middleware, across awaits and where other
/// handlers run between them; it is current in its drop as well. Nothing of it is left on the threads of the runtime.
#[test]
fn span_of_an_async_handler_is_current_across_awaits() {
    struct Dropped(mpsc::Sender<(u64, Option<u64>)>, u64);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send((self.1, current()));
        }
    }
    record();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let (sender, seen) = mpsc::channel();
    let around = sender.clone();
    let handler = move |task: Task, _: tickwheel_jobs::Run| {
        // The call that makes the future is in the span too.
        let _ = sender.send((task.0, current()));
        let sender = sender.clone();
        async move {
            let _dropped = Dropped(sender.clone(), task.0);
            for _ in 0..10 {
                let _ = sender.send((task.0, current()));
                tokio::time::sleep(Duration::from_micros(100 * task.0)).await;
            }
            Ok(())
        }
    };
    let builder = Jobs::memory().runtime(runtime.handle().clone()).handle_async(handler);
    let builder = builder.middleware_async(move |runs, next| {
        // The key of a run is the number of its task.
        let number = runs[0].key().and_then(|key| key.parse().ok()).unwrap_or_default();
        let dropped = Dropped(around.clone(), number);
        async move {
            let (_dropped, ended) = (dropped, next.run().await);
            tokio::task::yield_now().await;
            ended
        }
    });
    let jobs = builder.start().unwrap();
    let insert = |n: u64| jobs.keyed(&n.to_string()).insert(Duration::ZERO, Task(n)).unwrap();
    let ids: Vec<JobId> = (0..8).map(insert).collect();
    let seen: Vec<_> = (0..8 * 13).map(|_| seen.recv_timeout(LONG).unwrap()).collect();
    jobs.shutdown().unwrap();
    for (n, span) in seen {
        let run = run_of(ids[n as usize]);
        assert_eq!(span, run.id, "of task {n}");
        assert!(run.is_closed && run.field("outcome") == "completed");
    }
    assert_eq!(runtime.block_on(async { tokio::spawn(async { current() }).await }).unwrap(), None);
}

/// P52: The span of a run that a shutdown leaves behind has its outcome at once, and closes when the handler ends.
#[test]
fn span_of_a_run_that_is_left_behind_closes_with_its_handler() {
    record();
    let (started, at_start) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let jobs = Jobs::memory()
        .handle(move |_: Task, run| {
            started.send(run.id())?;
            let _ = released.lock().unwrap().recv();
            Ok(())
        })
        .start()
        .unwrap();
    let id = jobs.insert(Duration::ZERO, Task(1)).unwrap();
    at_start.recv_timeout(LONG).unwrap();
    jobs.shutdown_timeout(Duration::ZERO).unwrap_err();
    let span = run_of(id);
    assert_eq!((span.field("outcome"), span.is_closed), ("interrupted", false));
    drop(release);
    wait_until("the handler has ended", || run_of(id).is_closed);
}

/// P52: A job that does not start has no span: it was cancelled before.
#[test]
fn job_that_does_not_start_has_no_span() {
    record();
    let (jobs, driver) = Jobs::memory().handle(|_: Task, _| Ok(())).manual().unwrap();
    let new = NewJob::new(Task(1)).at(1000 * SECOND);
    let id = jobs.insert_job(new).unwrap().id;
    assert!(jobs.cancel(id).unwrap().is_cancelled());
    driver.advance(2000 * SECOND);
    assert!(runs_of(id).is_empty());
}
