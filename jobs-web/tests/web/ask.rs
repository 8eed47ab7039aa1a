//! Requests to a dashboard, and the jobs that they find.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body::Body as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tickwheel_jobs::view::{KindFilter, View};
use tickwheel_jobs::{Builder, Client, Driver, Fail, Job, JobInfo, Jobs, Keep, Retry};
use tickwheel_jobs_web::{Access, Dashboard};
use tower_service::Service;

use crate::installed;

/// Jobs whose handler does what their text says.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Mail {
    pub(crate) text: String,
}

impl Job for Mail {
    const KIND: &'static str = "mail";
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) card: String,
}

impl Job for Charge {
    const KIND: &'static str = "charge";
}

pub(crate) fn mail(text: &str) -> Mail {
    Mail { text: text.to_owned() }
}

/// Gives the jobs their handlers. A mail whose text begins with "fail" is dead at once, with its text as the error.
pub(crate) fn handled(builder: Builder) -> Builder {
    builder
        .retry(Retry::never())
        .handle(|mail: Mail, run| match mail.text.starts_with("fail") {
            true => Err(Fail::dead(mail.text)),
            false => run.set_result(&serde_json::json!({ "sent": mail.text })),
        })
        .handle(|_: Charge, _| Ok(()))
}

/// Returns jobs in memory, on a manual clock.
pub(crate) fn manual() -> (Jobs, Driver) {
    manual_on(Jobs::memory())
}

/// Returns jobs of a store, on a manual clock.
pub(crate) fn manual_on(builder: Builder) -> (Jobs, Driver) {
    let (jobs, driver) = handled(builder).manual().unwrap();
    jobs.kind::<Mail>().keep_completed(Keep::last(1000)).unwrap();
    (jobs, driver)
}

/// Runs a test in memory, and on a server where one is installed.
pub(crate) fn on_stores(test: impl Fn(&Jobs, &Driver)) {
    let (jobs, driver) = manual();
    test(&jobs, &driver);
    if let Some(server) = installed::server(&[]) {
        let (jobs, driver) = manual_on(Jobs::redis(server.url()).unwrap());
        test(&jobs, &driver);
    }
}

/// Advances the clock by a second, which runs what is due.
pub(crate) fn run_due(driver: &Driver) {
    driver.advance(Duration::from_secs(1));
    driver.wait_idle();
}

/// Returns all that an action may change, in words.
pub(crate) fn everything(jobs: &Jobs) -> String {
    let view = View::new(jobs.client());
    let kinds = view.kinds(&KindFilter::default(), None, 9).unwrap();
    let partitions = view.kind("mail", 9).unwrap().partitions;
    let all: Vec<JobInfo> = jobs.pending().chain(jobs.ended()).collect();
    let (schedules, groups) = (jobs.schedules().list().unwrap(), jobs.groups().unwrap());
    format!("{kinds:?} {partitions:?} {all:?} {schedules:?} {groups:?}")
}

/// Returns a dashboard whose readers may do everything.
pub(crate) fn full(client: Client) -> Dashboard {
    Dashboard::new(client).access(|_| Access::Full)
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the JSON of an answer with status 200.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }
}

pub(crate) fn send(dashboard: &Dashboard, request: Request<String>) -> Answer {
    let (parts, body) = block_on(dashboard.clone().call(request)).unwrap().into_parts();
    let mut body = pin!(body);
    let frame = block_on(std::future::poll_fn(|context| body.as_mut().poll_frame(context)));
    let body = frame.map_or_else(Bytes::new, |frame| frame.unwrap().into_data().unwrap());
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}

/// Sends a request to the threads of a dashboard, and does not wait for the answer.
pub(crate) fn begin(dashboard: &Dashboard, request: Request<String>) -> Called {
    let mut answer = dashboard.clone().call(request);
    assert!(is_pending(&mut answer));
    answer
}

/// A request that was sent.
pub(crate) type Called = <Dashboard as Service<Request<String>>>::Future;

pub(crate) fn is_pending(answer: &mut Called) -> bool {
    answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Request<String> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.to_owned()).unwrap()
}

pub(crate) fn get(dashboard: &Dashboard, path: &str) -> Answer {
    send(dashboard, request(Method::GET, path, &[("host", "shop.example")], ""))
}

/// Posts as a program does.
pub(crate) fn post(dashboard: &Dashboard, path: &str, json: &Value) -> Answer {
    send(dashboard, request_to_post(path, json))
}

pub(crate) fn request_to_post(path: &str, json: &Value) -> Request<String> {
    let headers = [("host", "shop.example"), ("content-type", "application/json")];
    request(Method::POST, path, &headers, &json.to_string())
}

/// Returns a text of each of the rows.
pub(crate) fn texts<'a>(rows: &'a Value, name: &str) -> Vec<&'a str> {
    rows.as_array().unwrap().iter().map(|row| row[name].as_str().unwrap()).collect()
}

/// Returns how many rows a JSON of the dashboard has.
pub(crate) fn rows(dashboard: &Dashboard, path: &str) -> usize {
    get(dashboard, &format!("/api/v1/{path}")).ok()["rows"].as_array().unwrap().len()
}

/// Percent-encodes a value of a query or of a form.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Returns the name of a group of dead jobs, by its error.
pub(crate) fn group(dashboard: &Dashboard, error: &str) -> String {
    let groups = get(dashboard, "/api/v1/dead").ok();
    let found = groups["groups"].as_array().unwrap().iter().find(|group| group["error"] == error);
    found.unwrap_or_else(|| panic!("no group {error:?}"))["group"].as_str().unwrap().to_owned()
}

/// Posts a form as a browser does.
pub(crate) fn submit(dashboard: &Dashboard, path: &str, form: &str) -> Answer {
    let headers = [
        ("host", "shop.example"),
        ("accept", "text/html,application/xhtml+xml"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("sec-fetch-site", "same-origin"),
    ];
    send(dashboard, request(Method::POST, path, &headers, form))
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The lines of an audit.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// Notes each action of a dashboard as a line: its name, its jobs or its scope, how many were changed, the result in a
/// sentence, and the problem if there was one.
pub(crate) fn audited(dashboard: Dashboard) -> (Dashboard, Log) {
    let log = Log::default();
    let its = Arc::clone(&log);
    let dashboard = dashboard.audit(move |it| {
        assert_eq!(it.request().headers["host"], "shop.example");
        let problem = it.problem.iter().map(|problem| format!(" PROBLEM {problem}"));
        let line = format!("{} {} {}: {}", it.name, it.scope, it.changed, it.text);
        its.lock().unwrap().push(line + &problem.collect::<String>());
    });
    (dashboard, log)
}
