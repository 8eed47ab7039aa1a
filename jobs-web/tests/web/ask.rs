//! Requests to a dashboard, and the jobs that they find.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body::{Body as _, Frame};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tickwheel_jobs::{Builder, Client, Driver, Fail, Job, Jobs, Keep, Retry};
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

/// The body of a request.
pub(crate) struct Sent(pub(crate) Option<Bytes>);

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

pub(crate) fn send(dashboard: &Dashboard, request: Request<Sent>) -> Answer {
    let mut service = dashboard.clone();
    let answer = block_on(service.call(request)).unwrap();
    let (parts, body) = answer.into_parts();
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    let next = |context: &mut Context<'_>| body.as_mut().poll_frame(context);
    let mut next = next;
    while let Some(frame) = block_on(std::future::poll_fn(&mut next)) {
        bytes.extend(frame.unwrap().into_data().unwrap());
    }
    Answer { status: parts.status.as_u16(), headers: parts.headers, body: bytes.into() }
}

pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Request<Sent> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = (!body.is_empty()).then(|| Bytes::from(body.to_owned()));
    request.body(Sent(body)).unwrap()
}

pub(crate) fn get(dashboard: &Dashboard, path: &str) -> Answer {
    send(dashboard, request(Method::GET, path, &[("host", "shop.example")], ""))
}

/// Posts as a program does.
pub(crate) fn post(dashboard: &Dashboard, path: &str, json: &Value) -> Answer {
    send(dashboard, request_to_post(path, json))
}

pub(crate) fn request_to_post(path: &str, json: &Value) -> Request<Sent> {
    let headers = [("host", "shop.example"), ("content-type", "application/json")];
    request(Method::POST, path, &headers, &json.to_string())
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

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
