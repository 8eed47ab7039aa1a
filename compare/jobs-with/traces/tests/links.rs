//! The trace of a web request is linked from the run that it caused: a day later, and after a crash. The recipe is
//! that of `docs/traces.md`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio, abort};
use std::sync::OnceLock;
use std::time::Duration;

use jobs_traces::recipe::{capture, resume};
use opentelemetry::trace::{SpanId, SpanKind, Status, TraceContextExt, TraceId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, CallError, Fail, Job, JobId, Jobs, Retry, Run};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

#[path = "../../../../jobs/examples/redis_server/mod.rs"]
mod redis_server;

use redis_server::RedisServer;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The child's variables: the path or the URL of its jobs, and its task.
const STORE: &str = "JOBS_TRACES_STORE";
const SCENE: &str = "JOBS_TRACES_SCENE";

#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: u64,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order";
}

/// Begins to export the spans of this process, and returns them.
fn spans() -> Vec<SpanData> {
    static EXPORTER: OnceLock<(InMemorySpanExporter, SdkTracerProvider)> = OnceLock::new();
    let (exporter, _) = EXPORTER.get_or_init(|| {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::set_global_default(subscriber).unwrap();
        (exporter, provider)
    });
    exporter.get_finished_spans().unwrap()
}

/// Returns the spans of the runs of a job.
fn runs_of(id: JobId) -> Vec<SpanData> {
    let is_its = |span: &SpanData| attribute(span, "job.id") == Some(id.to_string());
    spans().into_iter().filter(is_its).collect()
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.to_string())
}

fn open(store: &str) -> Builder {
    let builder = match store.starts_with("redis:") {
        true => Jobs::redis(store).unwrap().lease(SECOND),
        false => Jobs::open(store).unwrap(),
    };
    builder.trace_context(capture, resume)
}

/// A web request: its trace and its span, and the job that it has inserted.
struct Request {
    trace: TraceId,
    span: SpanId,
    job: JobId,
}

/// The child's task, after which it ends without a shutdown.
#[derive(Clone, Copy, PartialEq)]
enum Scene {
    /// It inserts a job that is due in a day.
    Insert,
    /// It inserts a job that is due, and ends in the handler.
    Run,
}

/// Lets another process serve a web request, and crash.
fn crash_after_a_request(store: &str, scene: Scene) -> Request {
    let scene = if scene == Scene::Insert { "insert" } else { "run" };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .envs([(STORE, store), (SCENE, scene)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let lines: Vec<String> = lines.collect();
    assert!(!child.wait().unwrap().success(), "it was to crash");
    let found = lines.iter().find_map(|line| line.split_once("request: "));
    let (_, words) = found.unwrap_or_else(|| panic!("{lines:?}"));
    let [trace, span, job] = <[&str; 3]>::try_from(words.split(' ').collect::<Vec<_>>()).unwrap();
    Request {
        trace: TraceId::from_hex(trace).unwrap(),
        span: SpanId::from_hex(span).unwrap(),
        job: job.parse().unwrap(),
    }
}

/// The other process. In a run of the tests it does nothing.
#[test]
fn child() {
    let Ok(store) = std::env::var(STORE) else { return };
    spans();
    let is_insert = std::env::var(SCENE).unwrap() == "insert";
    let (builder, delay) = (open(&store), if is_insert { DAY } else { Duration::ZERO });
    let request = tracing::info_span!("GET /orders");
    if is_insert {
        let client = builder.client().unwrap();
        request.in_scope(|| tell(client.insert(delay, CloseOrder { order: 1 }).unwrap()));
        abort();
    }
    // The handler waits until the request is known: it may start before the insert returns.
    let (told, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let crash = move |_: CloseOrder, _: &Run| -> Result<(), Fail> {
        let _ = wait.lock().unwrap().recv();
        abort();
    };
    let jobs = builder.handle(crash).start().unwrap();
    request.in_scope(|| tell(jobs.insert(delay, CloseOrder { order: 1 }).unwrap()));
    told.send(()).unwrap();
    loop {
        std::thread::park();
    }
}

/// Returns the request as one line.
fn tell(job: JobId) {
    let context = Span::current().context();
    let context = context.span().span_context().clone();
    println!("request: {} {} {job}", context.trace_id(), context.span_id());
}

/// The run is the root of a trace of its own, and has one link: to the span of the request.
fn is_linked(run: &SpanData, request: &Request) {
    assert_eq!((&*run.name, &run.span_kind), ("process close-order", &SpanKind::Consumer));
    assert_eq!(run.parent_span_id, SpanId::INVALID);
    assert_ne!(run.span_context.trace_id(), request.trace);
    let links: Vec<_> = run.links.iter().map(|link| &link.span_context).collect();
    assert_eq!(links.len(), 1, "{links:?}");
    assert_eq!((links[0].trace_id(), links[0].span_id()), (request.trace, request.span));
}

/// Waits until a job has ended. It may be gone already.
fn ends(jobs: &Jobs, id: JobId) {
    let ended = jobs.wait(id, 60 * SECOND);
    assert!(matches!(ended, Ok(_) | Err(CallError::Gone(_))), "{ended:?}");
}

fn file(folder: &Path) -> String {
    folder.join("shop.db").to_str().unwrap().to_owned()
}

/// P53: On a file: a job that a process inserted before it crashed runs a day later, in another process, with a link to
/// the request that inserted it.
#[test]
fn run_is_linked_to_its_request_a_day_later_after_a_crash_on_a_file() {
    spans();
    let folder = tempfile::tempdir().unwrap();
    let store = file(folder.path());
    let request = crash_after_a_request(&store, Scene::Insert);
    let (jobs, driver) = open(&store).handle(|_: CloseOrder, _| Ok(())).manual().unwrap();
    assert_eq!(driver.advance(DAY - 600 * SECOND), 0);
    assert_eq!(driver.advance(600 * SECOND), 1);
    let [run] = <[_; 1]>::try_from(runs_of(request.job)).unwrap();
    is_linked(&run, &request);
    assert_eq!(attribute(&run, "outcome").as_deref(), Some("completed"));
    jobs.check().unwrap();
}

/// P53: The same on a server. Its clock cannot be set, so the job is rescheduled instead.
#[test]
fn run_is_linked_to_its_request_after_a_crash_on_a_server() {
    spans();
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path()).unwrap();
    let request = crash_after_a_request(&server.url(), Scene::Insert);
    let jobs = open(&server.url()).handle(|_: CloseOrder, _| Ok(())).start().unwrap();
    assert!(jobs.reschedule(request.job, Duration::ZERO).unwrap());
    ends(&jobs, request.job);
    jobs.shutdown().unwrap();
    let [run] = <[_; 1]>::try_from(runs_of(request.job)).unwrap();
    is_linked(&run, &request);
}

/// P53: A job whose process crashed in its first run runs again, on a file and on a server, and that run has the link
/// too.
#[test]
fn run_after_one_that_crashed_is_linked_to_the_request() {
    spans();
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path()).unwrap();
    for store in [file(folder.path()), server.url()] {
        let request = crash_after_a_request(&store, Scene::Run);
        let jobs = open(&store).handle(|_: CloseOrder, _| Ok(())).start().unwrap();
        ends(&jobs, request.job);
        jobs.shutdown().unwrap();
        let [run] = <[_; 1]>::try_from(runs_of(request.job)).unwrap();
        is_linked(&run, &request);
        assert_eq!(attribute(&run, "attempt").as_deref(), Some("2"));
    }
}

/// A failed run has the status of an error, the event of its retry or of its death, and the link in each attempt. A
/// handler that inserts a job is what that job's run is linked to.
#[test]
fn failed_run_has_the_status_of_an_error() {
    spans();
    let (jobs, driver) = Jobs::memory()
        .trace_context(capture, resume)
        .handle_with(Retry::fixed(SECOND).max_retries(1), |_: CloseOrder, _| {
            Err(Fail::retry("no answer"))
        })
        .manual()
        .unwrap();
    let request = tracing::info_span!("GET /orders");
    let job = request.in_scope(|| jobs.insert(SECOND, CloseOrder { order: 1 })).unwrap();
    let context = request.context().span().span_context().clone();
    let request = Request { trace: context.trace_id(), span: context.span_id(), job };
    driver.advance(3 * SECOND);
    let runs = runs_of(job);
    assert_eq!(runs.len(), 2);
    for (run, text) in runs.iter().zip(["a run failed, and its job is retried", "a job is dead"]) {
        is_linked(run, &request);
        assert!(matches!(run.status, Status::Error { .. }), "{:?}", run.status);
        assert_eq!(attribute(run, "error.type").as_deref(), Some("_OTHER"));
        assert!(run.events.iter().any(|event| event.name == text), "{:?}", run.events);
    }
    // An insert outside of a trace captures nothing.
    let alone = jobs.insert(SECOND, CloseOrder { order: 2 }).unwrap();
    assert!(jobs.get(alone).unwrap().unwrap().headers.is_empty());
}

/// The page has the functions that these tests use.
#[test]
fn recipe_is_that_of_the_page() {
    let page = include_str!("../../../../jobs/docs/traces.md");
    let recipe = include_str!("../src/recipe.rs");
    let from = recipe.find("use std::").unwrap();
    assert!(page.contains(recipe[from..].trim_end()), "the page should have:\n{}", &recipe[from..]);
}
