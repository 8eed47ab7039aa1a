//! The dashboard as a service: takes requests of any web server, and answers them from threads of its own: one answers
//! what is read, one makes the changes, and one keeps the limit of each answer.
//!
//! Ground rules:
//!
//! - A change may wait for the store, for example for the lock of another program. No read waits for a change.
//! - The threads hold no sender of their own channels. So they end once the last clone of the dashboard is dropped and
//!   the last request is answered.
//! - A request is answered once: by the first of the thread and the limit. A task that is dropped answers that it was.
//! - A panic of the program's code ends its request, and not the thread: of a hook, of a waker, of the drop of a value
//!   in the request's extensions, or of what a panic carries.

use core::convert::Infallible;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Buf;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError, bounded};
use http::request::Parts;
use http::{Method, Request, Response};
use serde_json::Value;
use tower_service::Service;

use super::act::Outcomes;
use super::bulks::Board;
use super::options::{Access, Action, caught};
use super::page::layout;
use super::params::{Params, now};
use super::read::{DashboardSettings, Queue};
use super::request::{
    self, Answer, AnswerPlace, Body, Task, has_one_host, is_json, may_be_forged, no_answer,
    wants_html,
};
use super::respond::Responder;
use super::route::{Act, Form, Read, Route, SettingVerb};
use super::views::Problem;
use tickwheel_jobs::Client;
use tickwheel_jobs::view::{Part, View};

const BODY_BYTES: usize = 64 << 10;
/// The longest body of a request that inserts a job. A form may have three bytes for each byte of the payload.
const INSERT_BYTES: usize = 192 << 10;
const PATH_BYTES: usize = 2 << 10;

/// A dashboard: web pages and JSON about the jobs of one or more queues, as a [`Service`] for any web server that
/// takes one: `nest_service` of axum, hyper-util, tonic, warp.
///
/// It works under any path, whether that is stripped from the requests or not: all links are relative. The path
/// itself has to end with a slash. If the server strips it, the server has to redirect the path without the slash;
/// else the dashboard does, unless the path ends with the name of a page, as `/jobs` does: then the server has to.
///
/// **Every reader may see every job, and none may change any**, until [`Dashboard::access`] says otherwise. Whether
/// a reader has logged in is decided by the server in front of the dashboard, or by `access`.
///
/// The pages need no script and load nothing from elsewhere. A dashboard has three threads of its own, which start with
/// the first request and end with the last clone. The questions run there, so a runtime that polls the service never
/// blocks, and a change that waits for the store holds up no page. The dashboard keeps an answer for a second: many
/// readers of one page cost one question to the store.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use tickwheel_jobs::{Job, Jobs};
/// # #[derive(Serialize, Deserialize)]
/// # struct Mail;
/// # impl Job for Mail { const KIND: &'static str = "mail"; }
/// use tickwheel_jobs_web::{Access, Dashboard};
///
/// # let (jobs, driver) = Jobs::memory().handle(|_: Mail, _| Ok(())).manual()?;
/// let dashboard = Dashboard::new(jobs.client())
///     .title("shop, production")
///     .access(|request| match request.headers.get("x-user") {
///         Some(user) if user == "ann" => Access::Full,
///         Some(_) => Access::ReadOnly,
///         None => Access::Deny,
///     });
/// // axum::Router::new().nest_service("/jobs/", dashboard)
/// # drop((dashboard, jobs, driver));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Dashboard {
    settings: Arc<DashboardSettings>,
    worker: Arc<OnceLock<Option<Worker>>>,
}

impl Dashboard {
    /// Returns a dashboard of the client's queue.
    ///
    /// On a file or a server, give it a client of its own ([`Builder::client`](tickwheel_jobs::Builder::client)): a
    /// question to the client of the runner may cost the runner's dispatcher a turn.
    #[must_use]
    pub fn new(client: Client) -> Dashboard {
        Dashboard::with(DashboardSettings {
            queues: vec![Queue::new(client)],
            title: "tickwheel-jobs".to_owned(),
            access: Arc::new(|_| Access::ReadOnly),
            audit: None,
            redact: None,
            trace_link: None,
        })
    }

    fn with(settings: DashboardSettings) -> Dashboard {
        Dashboard { settings: Arc::new(settings), worker: Arc::default() }
    }

    fn changed(self, change: impl FnOnce(&mut DashboardSettings)) -> Dashboard {
        let mut settings = DashboardSettings::clone(&self.settings);
        change(&mut settings);
        Dashboard::with(settings)
    }

    /// Decides what each request may do. Without it, every request may read. It is called where the service is
    /// polled, so it must not block.
    #[must_use]
    pub fn access(self, access: impl Fn(&Parts) -> Access + Send + Sync + 'static) -> Dashboard {
        self.changed(|settings| settings.access = Arc::new(access))
    }

    /// Is called after each action, on the dashboard's thread of the changes: once for a change of many jobs, when that
    /// has ended. An action that failed or that changed nothing is reported too.
    #[must_use]
    pub fn audit(self, audit: impl Fn(&Action) + Send + Sync + 'static) -> Dashboard {
        self.changed(|settings| settings.audit = Some(Arc::new(audit)))
    }

    /// Changes parts of jobs before they are shown, by the kind of the job. Pages, JSON, searches, groups of dead
    /// jobs and downloads have the changed form only. Kinds and keys are shown as they are.
    ///
    /// It is called on the dashboard's threads, often: a search calls it for each record. Its result must depend on its
    /// arguments alone. If it panics, that part of that job is hidden, with a mark in its place, and the rest of the
    /// page is shown. `value` may be any JSON, so do not index it: `value["card"]` panics on a list.
    ///
    /// ```
    /// # use tickwheel_jobs::view::Part;
    /// # use tickwheel_jobs_web::Dashboard;
    /// # fn redacted(dashboard: Dashboard) -> Dashboard {
    /// dashboard.redact(|kind, part, value| {
    ///     if kind == "charge" && part == Part::Payload && let Some(card) = value.get_mut("card") {
    ///         *card = "hidden".into();
    ///     }
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn redact(
        self,
        redact: impl Fn(&str, Part, &mut Value) + Send + Sync + 'static,
    ) -> Dashboard {
        self.changed(|settings| settings.redact = Some(Arc::new(redact)))
    }

    /// Links the trace of a job, which its header `traceparent` names: `https://traces.example/{trace_id}`. In the
    /// place of `{trace_id}` come its 32 hexadecimal digits. A template that begins with neither `https://` nor
    /// `http://` has no effect.
    #[must_use]
    pub fn trace_link(self, template: impl Into<String>) -> Dashboard {
        let template = Some(template.into())
            .filter(|link| link.starts_with("https://") || link.starts_with("http://"));
        self.changed(|settings| settings.trace_link = template)
    }

    /// Adds another queue, which a client of its own leads to. Its name is that of the queue; a second queue of the
    /// same name, on another file or server, gets a number behind it.
    #[must_use]
    pub fn queue(self, client: Client) -> Dashboard {
        self.changed(|settings| {
            let mut queue = Queue::new(client);
            let is_taken = |name: &str| settings.queues.iter().any(|queue| queue.name == name);
            let numbered = (2..).map(|number: usize| format!("{}-{number}", queue.name));
            let mut names = core::iter::once(queue.name.clone()).chain(numbered);
            queue.name = names.find(|name| !is_taken(name)).unwrap_or_default();
            settings.queues.push(queue);
        })
    }

    /// Sets the title of every page.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Dashboard {
        self.changed(|settings| settings.title = title.into())
    }

    async fn answer<B: http_body::Body>(self, parts: Parts, body: B) -> Response<Body> {
        let is_head = parts.method == Method::HEAD;
        let route = match parts.uri.path() {
            path if path.len() <= PATH_BYTES => Route::of(path),
            _ => Route::NotFound(Form::Page),
        };
        let wants_html = wants_html(&parts, &route);
        let answer = self.ask(parts, body, route, wants_html).await;
        let answer = answer.unwrap_or_else(|problem| self.tell(&problem, wants_html));
        if is_head { request::head(answer) } else { answer }
    }

    /// Tells a problem. Its page says no more than the title: the reader may have no right to know a queue.
    fn tell(&self, problem: &Problem, wants_html: bool) -> Response<Body> {
        if !wants_html {
            return request::json(problem.status, problem);
        }
        let html = layout::bare_problem_page(&self.settings.title, problem);
        request::page(problem.status, html)
    }

    async fn ask<B: http_body::Body>(
        &self,
        parts: Parts,
        body: B,
        route: Route,
        wants_html: bool,
    ) -> Answer {
        if !has_one_host(&parts) {
            return Err(Problem::new(400, "bad_host", "the request names several hosts"));
        }
        let access = (self.settings.access)(&parts);
        if access == Access::Deny {
            return Err(Problem::new(403, "denied", "this dashboard is not for you"));
        }
        if parts.uri.path().len() > PATH_BYTES {
            let message = format!("a path has at most {PATH_BYTES} bytes");
            return Err(Problem::new(414, "path_too_long", message));
        }
        let changes = match (&parts.method, matches!(route, Route::Act(_))) {
            (&Method::GET | &Method::HEAD, false) => false,
            (&Method::POST, true) => true,
            (_, is_action) => {
                let allowed = if is_action { "POST" } else { "GET, HEAD" };
                let message = format!("this place allows {allowed}");
                let problem = Problem::new(405, "method_not_allowed", message);
                return Ok(request::allowing(self.tell(&problem, wants_html), allowed));
            }
        };
        let (known, query) = (route.parameters(), parts.uri.query().unwrap_or_default());
        let query = match &route {
            // The redirect takes the query along.
            Route::NoSlash(_) => Params::default(),
            Route::Read(Read::Jobs | Read::Kinds, _) => Params::of_query(query)?.of_fields()?,
            _ => Params::of_query(query)?,
        };
        let params = if changes {
            if access != Access::Full {
                let message = "this request may read, and change nothing";
                return Err(Problem::new(403, "read_only", message));
            }
            if may_be_forged(&parts) {
                let message = "the request may be forged: it comes from another site, or it is of a program \
                     and its body is not declared to be JSON";
                return Err(Problem::new(403, "cross_origin", message));
            }
            let most = match &route {
                Route::Act(Act::Setting(SettingVerb::Insert)) => INSERT_BYTES,
                _ => BODY_BYTES,
            };
            let body = read(body, most).await?;
            let of_body = match is_json(&parts) {
                true => Params::of_json(&body, known),
                false => Params::of_form(&body),
            };
            let of_body = match &route {
                Route::Act(Act::Setting(_)) if !is_json(&parts) => of_body?.of_fields()?,
                _ => of_body?,
            };
            of_body.and(query)
        } else {
            query
        };
        let params = params.known(known)?;
        if let Route::NoSlash(last) = &route {
            let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            // A dot and a slash before it: the segment may have a colon.
            return Ok(request::redirect(307, &format!("./{last}/{query}")));
        }
        if let Route::Asset(name) = &route {
            return super::request::find(name).ok_or_else(not_found);
        }
        if let Route::NotFound(Form::Json) = &route {
            return Err(not_found());
        }
        let worker = self.worker.get_or_init(|| Worker::start(Arc::clone(&self.settings)));
        let Some(worker) = worker else {
            return Err(Problem::new(503, "no_thread", "the system refuses a thread"));
        };
        let reply = AnswerPlace::default();
        let may_change = access == Access::Full;
        let (request, place) = (Arc::new(parts), reply.clone());
        worker.send(Task { request, route, params, may_change, wants_html, reply: place })?;
        reply.await
    }
}

impl<B> Service<Request<B>> for Dashboard
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let dashboard = self.clone();
        Box::pin(async move { Ok(dashboard.answer(parts, body).await) })
    }
}

impl core::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let queues: Vec<&str> = self.settings.queues.iter().map(|queue| &*queue.name).collect();
        f.debug_struct("Dashboard")
            .field("title", &self.settings.title)
            .field("queues", &queues)
            .finish_non_exhaustive()
    }
}

fn not_found() -> Problem {
    Problem::not_found("there is no such place")
}

async fn read<B: http_body::Body>(body: B, most: usize) -> Result<Vec<u8>, Problem> {
    let too_long = || {
        let message = format!("a body has at most {most} bytes");
        Problem::new(413, "body_too_long", message)
    };
    let mut body = pin!(body);
    if body.size_hint().lower() > most as u64 {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    loop {
        let frame = core::future::poll_fn(|context| body.as_mut().poll_frame(context)).await;
        let Some(frame) = frame else { return Ok(bytes) };
        let Ok(frame) = frame else {
            return Err(Problem::new(400, "bad_body", "the body ended early"));
        };
        let Ok(mut data) = frame.into_data() else { continue };
        if bytes.len() + data.remaining() > most {
            return Err(too_long());
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            bytes.extend_from_slice(chunk);
            let read = chunk.len();
            data.advance(read);
        }
    }
}

const WAITING: usize = 256;
const LIMIT: Duration = Duration::from_secs(20);
/// The limit of the answer whether the store answers.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);

pub(crate) struct Worker {
    reads: Sender<Task>,
    changes: Sender<Task>,
    limits: Sender<(Instant, AnswerPlace)>,
}

impl Worker {
    /// Starts the threads, unless the system refuses one.
    pub(crate) fn start(settings: Arc<DashboardSettings>) -> Option<Worker> {
        let (limits, limits_out) = bounded(4 * WAITING);
        let (board, outcomes) = (Arc::new(Board::default()), Arc::new(Outcomes::default()));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let answers = |name: &str, only_reads: bool| {
            let (tasks, tasks_out) = bounded(WAITING);
            let (settings, board) = (Arc::clone(&settings), Arc::clone(&board));
            let outcomes = Arc::clone(&outcomes);
            let run = move || {
                let own = on_thread(&settings, only_reads);
                drop(settings);
                run(&mut Responder::new(own, board, outcomes), &tasks_out);
            };
            thread(name).spawn(run).ok().map(|_| tasks)
        };
        let reads = answers("tickwheel-web", true)?;
        let changes = answers("tickwheel-web-change", false)?;
        thread("tickwheel-web-limit").spawn(move || keep_limits(&limits_out)).ok()?;
        Some(Worker { reads, changes, limits })
    }

    pub(crate) fn send(&self, task: Task) -> Result<(), Problem> {
        let limit = if task.route == Route::Health { HEALTH_LIMIT } else { LIMIT };
        // Without room for the limit, the request has none.
        drop(self.limits.try_send((now() + limit, task.reply.clone())));
        // The metrics are those of the program's client, which may wait for a change.
        let tasks = match task.route {
            Route::Act(_) | Route::Metrics => &self.changes,
            _ => &self.reads,
        };
        match tasks.try_send(task) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => {
                task.reply.forget();
                Err(Problem::new(503, "busy", "too many requests wait already"))
            }
        }
    }
}

/// Returns the settings for a thread. The questions of the one that only reads wait for no change. It has no audit, so a
/// program that waits for the drop of its audit does not wait for a search.
fn on_thread(settings: &DashboardSettings, only_reads: bool) -> Arc<DashboardSettings> {
    let mut settings = settings.clone();
    if only_reads {
        settings.audit = None;
    }
    for queue in &mut settings.queues {
        let view = View::new(queue.client.clone());
        let view = if only_reads { view.apart() } else { view };
        queue.view = match settings.redact.clone() {
            Some(redact) => view.redact(move |kind, part, value| redact(kind, part, value)),
            None => view,
        };
    }
    Arc::new(settings)
}

/// Answers requests. Between two of them, makes a step of the changes that are under way.
fn run(responder: &mut Responder, tasks: &Receiver<Task>) {
    loop {
        let task = match responder.bulks.are_under_way() {
            true => tasks.try_recv(),
            false => tasks.recv().map_err(|_| TryRecvError::Disconnected),
        };
        match task {
            Ok(task) => drop(caught(|| answer(responder, task))),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
        if responder.bulks.are_under_way() && caught(|| responder.work()).is_none() {
            caught(|| responder.bulks.fail());
        }
    }
    while caught(|| responder.bulks.end()).is_none() {}
}

fn answer(responder: &mut Responder, task: Task) {
    if task.reply.is_over() {
        return;
    }
    let answer = caught(|| responder.answer(&task));
    task.reply.set(|| {
        let failed = || Problem::new(500, "failed", "the program has failed on this request");
        answer.ok_or_else(failed)
    });
}

/// Answers the requests that the other thread has not answered in time.
fn keep_limits(limits: &Receiver<(Instant, AnswerPlace)>) {
    let mut waiting: BTreeMap<(Instant, u64), AnswerPlace> = BTreeMap::new();
    let mut number = 0;
    loop {
        let next = waiting.first_key_value().map(|((at, _), _)| *at);
        let received = match next {
            Some(at) => limits.recv_deadline(at),
            None => limits.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok((at, reply)) => {
                number += 1;
                waiting.retain(|_, reply| !reply.is_over());
                waiting.insert((at, number), reply);
            }
            Err(RecvTimeoutError::Timeout) => {
                let now = now();
                while let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= now) {
                    first.remove().set(|| Err(no_answer("the store did not answer in time")));
                }
            }
            // The dashboard is gone, and with it every request.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
}
