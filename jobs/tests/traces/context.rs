//! The context of a trace, from the insert to the runs.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tickwheel_jobs::{Builder, Jobs, NewJob, Retry, Run};

use crate::installed;
use crate::recorder::{LONG, SECOND, Task, current, record, run_of, runs_of};

/// The span and the text of a call of `resume`.
type Call = (Option<u64>, String);

/// The calls of `resume`.
#[derive(Clone, Default)]
struct Resumed(Arc<Mutex<Vec<Call>>>);

impl Resumed {
    fn get(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }

    fn texts(&self) -> Vec<String> {
        self.get().into_iter().map(|(_, text)| text).collect()
    }
}

/// Returns a builder that captures the number of the current span, and the list of the contexts that it has resumed.
fn traced(builder: Builder) -> (Builder, Resumed) {
    let resumed = Resumed::default();
    let list = resumed.clone();
    let builder = builder.trace_context(
        || current().map(|span| format!("span-{span}\nstate=of-{span}")),
        move |span, text| {
            let span = span.id().map(|id| id.into_u64());
            list.0.lock().unwrap().push((span, text.to_owned()));
        },
    );
    (builder, resumed)
}

/// Returns the text that is captured in a span.
fn text_in(span: &tracing::Span) -> String {
    let span = span.id().unwrap().into_u64();
    format!("span-{span}\nstate=of-{span}")
}

/// P53: A context is captured with an insert, travels in the headers, and is resumed by each run with the run's span.
/// An insert outside of a trace has none.
#[test]
fn context_of_an_insert_is_resumed_by_each_run() {
    record();
    let folder = tempfile::tempdir().unwrap();
    let on_file = Jobs::open(folder.path().join("jobs.db")).unwrap();
    for builder in [Jobs::memory(), on_file] {
        let (builder, resumed) = traced(builder);
        let (jobs, driver) = builder
            .handle_with(Retry::fixed(SECOND).max_retries(1), |_: Task, _| Err("no")?)
            .manual()
            .unwrap();
        let request = tracing::info_span!("request");
        let id = request.in_scope(|| jobs.insert(Duration::ZERO, Task(1))).unwrap();
        let span = request.id().unwrap().into_u64();
        let headers = jobs.get(id).unwrap().unwrap().headers;
        assert_eq!(headers["traceparent"], format!("span-{span}"));
        assert_eq!(headers["tracestate"], format!("state=of-{span}"));
        let alone = jobs.insert(Duration::ZERO, Task(2)).unwrap();
        assert!(jobs.get(alone).unwrap().unwrap().headers.is_empty());
        driver.advance(2 * SECOND);
        let runs: Vec<_> = runs_of(id).into_iter().map(|run| (run.id, text_in(&request))).collect();
        assert_eq!(runs.len(), 2);
        assert_eq!(resumed.get(), runs);
    }
}

/// P53: Every form of an insert carries the context: also in a batch, under a key, in a future, in a transaction of the
/// caller's, as a statement, and from a client in a process that runs no jobs. An occurrence of a schedule has none.
#[test]
fn context_is_captured_by_every_form_of_an_insert() {
    record();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let (builder, resumed) = traced(Jobs::open(&path).unwrap());
    let (jobs, driver) = builder.handle(|_: Task, _| Ok(())).manual().unwrap();
    let (elsewhere, never) = traced(Jobs::open(&path).unwrap());
    let elsewhere = elsewhere.client().unwrap();
    let request = tracing::info_span!("request");
    let mut shop = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    request.in_scope(|| {
        jobs.insert(SECOND, Task(1)).unwrap();
        jobs.insert_job(NewJob::new(Task(2)).at(SECOND).header("other", "1")).unwrap();
        jobs.insert_batch([(SECOND, Task(3)), (SECOND, Task(4))]).unwrap();
        jobs.keyed("five").insert(SECOND, Task(5)).unwrap();
        jobs.client().with_header("tenant", "acme").insert(SECOND, Task(6)).unwrap();
        elsewhere.insert(SECOND, Task(7)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(jobs.asynchronous().insert(SECOND, Task(8))).unwrap();
        runtime.block_on(elsewhere.asynchronous().insert(SECOND, Task(9))).unwrap();
        let transaction = shop.transaction().unwrap();
        jobs.insert_in(&transaction, SECOND, Task(10)).unwrap();
        let statement = jobs.statement((SECOND, Task(11))).unwrap();
        transaction.execute(statement.sql(), [statement.parameter()]).unwrap();
        transaction.commit().unwrap();
        jobs.schedule("daily", SECOND, Task(12)).unwrap();
    });
    jobs.nudge();
    elsewhere.nudge();
    driver.advance(3 * SECOND / 2);
    assert_eq!(jobs.stats().completed, 12);
    assert_eq!(resumed.texts(), vec![text_in(&request); 11]);
    assert!(never.get().is_empty());
}

/// P53: A `traceparent` that a job has by its own headers is the one that is resumed. A context for which the headers
/// of a job leave no room is left out, and the job is stored.
#[test]
fn context_yields_to_the_headers_of_a_job() {
    record();
    let (builder, resumed) = traced(Jobs::memory());
    let (jobs, driver) = builder.handle(|_: Task, _| Ok(())).manual().unwrap();
    tracing::info_span!("request").in_scope(|| {
        let own = NewJob::new(Task(1)).header("traceparent", "its own");
        jobs.insert_job(own.at(SECOND)).unwrap();
        let full = NewJob::new(Task(2)).header("large", "x".repeat(4080));
        let id = jobs.insert_job(full.at(SECOND)).unwrap().id;
        assert_eq!(jobs.get(id).unwrap().unwrap().headers.len(), 1);
    });
    driver.advance(SECOND);
    assert_eq!(resumed.texts(), ["its own"]);
}

/// P53: A handler that inserts a job captures the context of its own run. If it is a future, it does so after an await
/// too.
#[test]
fn insert_in_a_handler_captures_the_context_of_its_run() {
    record();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for is_future in [false, true] {
        let (builder, resumed) = traced(Jobs::memory());
        let (ended, ends) = mpsc::channel();
        let builder = match is_future {
            false => builder.handle(move |task: Task, run| {
                if task.0 == 1 {
                    run.client().insert(Duration::ZERO, Task(2))?;
                }
                Ok(ended.send(run.id())?)
            }),
            true => builder.runtime(runtime.handle().clone()).handle_async(
                move |task: Task, run: Run| {
                    let ended = ended.clone();
                    async move {
                        tokio::task::yield_now().await;
                        if task.0 == 1 {
                            run.client().asynchronous().insert(Duration::ZERO, Task(2)).await?;
                        }
                        Ok(ended.send(run.id())?)
                    }
                },
            ),
        };
        let jobs = builder.start().unwrap();
        let first = jobs.insert(Duration::ZERO, Task(1)).unwrap();
        for _ in 0..2 {
            ends.recv_timeout(LONG).unwrap();
        }
        jobs.shutdown().unwrap();
        let span = run_of(first).id.unwrap();
        assert_eq!(resumed.texts(), [format!("span-{span}\nstate=of-{span}")]);
    }
}

/// P53: A context travels through a server, from a client to the process that runs the job.
#[test]
fn context_travels_through_a_server() {
    record();
    let Some(server) = installed::server(&[]) else { return };
    let (client, _) = traced(Jobs::redis(server.url()).unwrap());
    let client = client.client().unwrap();
    let request = tracing::info_span!("request");
    let id = request.in_scope(|| client.insert(Duration::ZERO, Task(1))).unwrap();
    let (builder, resumed) = traced(Jobs::redis(server.url()).unwrap());
    let jobs = builder.handle(|_: Task, _| Ok(())).start().unwrap();
    crate::server::wait_until("it ran", || jobs.stats().completed == 1);
    jobs.shutdown().unwrap();
    assert_eq!(resumed.get(), [(run_of(id).id, text_in(&request))]);
}
