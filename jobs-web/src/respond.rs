//! Answers the requests of a dashboard, on its threads: makes views, keeps them for a second, does actions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use http::header::ACCEPT;
use serde::Serialize;
use tickwheel_jobs::tickwheel::Metrics;

use super::act::{self, Done, Outcomes};
use super::bulks::{Board, Bulks};
use super::page;
use super::page::layout::{Frame, QueueLink, Said, encoded, query};
use super::params;
use super::params::Params;
use super::read::{DashboardSettings, MOST_ROWS, Reader, not_found};
use super::request::{self, Body, Task};
use super::route::{Act, Form, Read, Route, way_up};
use super::views;
use super::views::Problem;
use tickwheel_jobs::JobId;
use tickwheel_jobs::view;

const KEPT: Duration = Duration::from_secs(1);
const MOST_KEPT: usize = 64;
const MOST_SLOWDOWNS: usize = 4;

#[derive(Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum View {
    Overview(views::OverviewPage),
    Kinds(view::Kinds),
    Kind(Box<view::KindPage>),
    Jobs(views::Jobs),
    Job(Box<views::Job>),
    Dead(view::Dead),
    Groups(view::Groups),
    Schedules(view::Schedules),
    Nodes(view::Nodes),
    Store(view::Store),
    History(view::History),
    Bulks(views::Bulks),
    Bulk(views::Progress),
}

/// The state of a dashboard's thread: that of the reads keeps views, that of the changes has the bulks.
pub(crate) struct Responder {
    settings: Arc<DashboardSettings>,
    board: Arc<Board>,
    kept: HashMap<String, Kept<View>>,
    pub(crate) bulks: Bulks,
    /// Those of both threads.
    outcomes: Arc<Outcomes>,
    /// The slowdowns of each queue, as last read. The key is the place of the queue among those of the dashboard.
    slowed: HashMap<usize, Kept<view::Slowdowns>>,
}

struct Kept<T> {
    at: Instant,
    changes: u64,
    view: T,
}

impl<T> Kept<T> {
    fn is_fresh(&self, now: Instant, board: &Board) -> bool {
        now.duration_since(self.at) < KEPT && self.changes == board.changes()
    }
}

impl Responder {
    pub(crate) fn new(
        settings: Arc<DashboardSettings>,
        board: Arc<Board>,
        outcomes: Arc<Outcomes>,
    ) -> Responder {
        let bulks = Bulks::new(Arc::clone(&settings), Arc::clone(&board));
        let (kept, slowed) = (HashMap::new(), HashMap::new());
        Responder { settings, board, kept, bulks, outcomes, slowed }
    }

    pub(crate) fn work(&mut self) {
        self.board.changed();
        self.bulks.step();
        self.board.changed();
    }

    pub(crate) fn answer(&mut self, task: &Task) -> Response<Body> {
        self.answer_or_problem(task).unwrap_or_else(|problem| match task.wants_html {
            true => {
                let at = queue_of(&self.settings, &task.params).unwrap_or(0);
                // A store that has just failed is not asked again.
                let slowdowns = (problem.status < 500).then(|| self.slowdowns(at));
                let frame = self.frame(task, slowdowns.unwrap_or_default());
                // Nothing on this page changes.
                let frame = Frame { is_live: false, ..frame };
                request::page(problem.status, page::layout::problem_page(&frame, &problem))
            }
            false => request::json(problem.status, &problem),
        })
    }

    /// Returns the slowdowns of a queue, which may be a second old. If the store cannot be read, there are none.
    fn slowdowns(&mut self, at: usize) -> view::Slowdowns {
        let (now, changes) = (params::now(), self.board.changes());
        if let Some(kept) = self.slowed.get(&at).filter(|kept| kept.is_fresh(now, &self.board)) {
            return kept.view.clone();
        }
        let Ok(view) = self.settings.queues[at].view.slowdowns(MOST_SLOWDOWNS) else {
            return view::Slowdowns::default();
        };
        self.slowed.insert(at, Kept { at: now, changes, view: view.clone() });
        view
    }

    fn answer_or_problem(&mut self, task: &Task) -> Result<Response<Body>, Problem> {
        let settings = Arc::clone(&self.settings);
        let (queues, params) = (&settings.queues, &task.params);
        let reader = Reader { queues, at: queue_of(&settings, params)?, params };
        match &task.route {
            Route::Read(read, form) => {
                let mut view = self.view(&reader, read)?;
                if let View::Job(job) = &mut view
                    && !task.may_change
                {
                    job.job.actions.clear();
                }
                match form {
                    Form::Page => {
                        let slowdowns = self.slowdowns(reader.at);
                        Ok(page_of(&self.frame(task, slowdowns), &view))
                    }
                    Form::Json => Ok(request::json(200, &view)),
                }
            }
            Route::Download(id, part) => {
                let bytes = reader.whole(*id, *part)?;
                Ok(request::attachment(&format!("{id}.txt"), bytes))
            }
            Route::Act(act) => {
                let form = act::form(act, &task.params)?;
                if let Some((said, done)) = form.and_then(|form| self.outcomes.taken(form)) {
                    return Ok(self.done(task, act, &done, &said));
                }
                self.board.changed();
                let mut said = String::new();
                let remember = |done: &Done| said = self.outcomes.add(form, done.clone());
                let done = act::act(&reader, &mut self.bulks, task, act, remember);
                self.board.changed();
                Ok(self.done(task, act, &done?, &said))
            }
            Route::Health => Ok(health(&settings)),
            Route::Metrics => metrics(&settings, task),
            Route::NotFound(_) | Route::Asset(_) | Route::NoSlash(_) => {
                Err(Problem::not_found("there is no such page"))
            }
        }
    }

    fn done(&mut self, task: &Task, act: &Act, done: &Done, said: &str) -> Response<Body> {
        if !task.wants_html {
            return match done {
                Done::Question(question) => {
                    let status = if question.confirmed.is_some() { 409 } else { 200 };
                    request::json(status, question)
                }
                Done::Started(progress) => request::json(202, progress),
                Done::Changed(changed) => request::json(200, changed),
            };
        }
        let at = queue_of(&self.settings, &task.params).unwrap_or(0);
        let slowdowns = matches!(done, Done::Question(_)).then(|| self.slowdowns(at));
        let frame = self.frame(task, slowdowns.unwrap_or_default());
        match done {
            Done::Question(question) => {
                request::page(200, page::actions::question_page(&frame, question))
            }
            Done::Started(progress) => {
                request::redirect(303, &frame.link(&format!("bulk/{}", progress.id)))
            }
            Done::Changed(_) => {
                let back = act::back_of(&task.params, act);
                let and = if back.contains('?') { "&" } else { "?" };
                // An empty link would be the action itself.
                request::redirect(303, &frame.link(&format!("{back}{and}said={said}")))
            }
        }
    }

    /// Returns a view, which may be up to a second old.
    fn view(&mut self, reader: &Reader<'_>, read: &Read) -> Result<View, Problem> {
        match read {
            Read::Bulks => return Ok(View::Bulks(self.board.list(reader.view().now()))),
            Read::Bulk(id) => return self.board.find(*id).map(View::Bulk),
            _ => {}
        }
        let key = format!("{} {read:?} {:?}", reader.at, reader.params);
        let now = params::now();
        if let Some(kept) = self.kept.get(&key).filter(|kept| kept.is_fresh(now, &self.board)) {
            return Ok(kept.view.clone());
        }
        let changes = self.board.changes();
        let view = match read {
            Read::Overview => View::Overview(reader.overview()?),
            Read::Kinds => View::Kinds(reader.kinds()?),
            Read::Kind => View::Kind(Box::new(reader.kind()?)),
            Read::Jobs => View::Jobs(reader.jobs()?),
            Read::Job(id) => View::Job(Box::new(self.job(reader, *id)?)),
            Read::Dead => View::Dead(reader.view().dead(reader.rows()?)?),
            Read::Groups => View::Groups(reader.view().groups(reader.rows()?)?),
            Read::Schedules => {
                let after = reader.params.name("after")?;
                View::Schedules(reader.view().schedules(after.as_deref(), reader.rows()?)?)
            }
            Read::Nodes => View::Nodes(reader.view().nodes(MOST_ROWS)?),
            Read::Store => View::Store(reader.view().store()?),
            Read::History => View::History(reader.history()?),
            Read::Bulks | Read::Bulk(_) => unreachable!("answered above"),
        };
        self.kept.retain(|_, kept| kept.is_fresh(now, &self.board));
        if self.kept.len() < MOST_KEPT {
            self.kept.insert(key, Kept { at: now, changes, view: view.clone() });
        }
        Ok(view)
    }

    fn job(&self, reader: &Reader<'_>, id: JobId) -> Result<views::Job, Problem> {
        let job = reader.view().job(id)?.ok_or_else(|| not_found(id))?;
        let link = job.trace_id.as_ref().zip(self.settings.trace_link.as_ref());
        let trace_link = link.map(|(id, template)| template.replace("{trace_id}", id));
        Ok(views::Job { job, trace_link })
    }

    /// Returns the frame of the page that a request leads to: that of the first queue, if its own does not exist.
    fn frame(&self, task: &Task, slowdowns: view::Slowdowns) -> Frame {
        let queues = &self.settings.queues;
        let found = queue_of(&self.settings, &task.params).ok();
        let at = found.unwrap_or(0);
        let (root, tab, path) = match &task.route {
            Route::Read(read, Form::Page) => (way_up(&read.path()), tab(read), read.path()),
            Route::Read(read, Form::Json) => (way_up(""), tab(read), read.path()),
            Route::Act(act) => (way_up(&act::target(act)), None, act::default_back(act)),
            Route::Download(..) => ("../../".to_owned(), Some(Read::Jobs), "jobs".to_owned()),
            _ => (way_up(""), None, String::new()),
        };
        let is_read = matches!(task.route, Route::Read(..));
        let said = task.params.get("said").filter(|_| is_read);
        let is_kept = |(it, _): &(String, String)| is_read && it != "queue" && it != "said";
        let pairs: Vec<(String, String)> = task.params.pairs().filter(is_kept).collect();
        let query = query(pairs.iter().map(|(name, value)| (&**name, &**value)));
        let and = if query.is_empty() { "" } else { "?" };
        let link = |number: usize, name: &str| match number {
            0 => root.clone(),
            _ => format!("{root}?queue={}", encoded(name)),
        };
        let names = request::names();
        Frame {
            title: self.settings.title.clone(),
            tab,
            queue: queues[at].name.clone(),
            queues: queues
                .iter()
                .enumerate()
                .map(|(number, queue)| QueueLink {
                    name: queue.name.clone(),
                    is_current: found == Some(number),
                    link: link(number, &queue.name),
                })
                .collect(),
            root: root.clone(),
            may_change: task.may_change,
            form: act::new_id(),
            slowdowns,
            said: said
                .and_then(|said| self.outcomes.said(said))
                .map(|did| Said { text: did.text, job: did.job.map(|id| format!("jobs/{id}")) }),
            here: format!("{path}{and}{query}"),
            style: names.style.clone(),
            script: names.script.clone(),
            now: queues[at].view.now(),
            is_live: is_read,
        }
    }
}

fn tab(read: &Read) -> Option<Read> {
    match read {
        Read::History => Some(Read::Overview),
        Read::Kind => Some(Read::Kinds),
        Read::Job(_) => Some(Read::Jobs),
        Read::Bulks | Read::Bulk(_) => None,
        other => Some(other.clone()),
    }
}

fn queue_of(settings: &DashboardSettings, params: &Params) -> Result<usize, Problem> {
    let Some(name) = params.get("queue") else { return Ok(0) };
    let found = settings.queues.iter().position(|queue| queue.name == name);
    found.ok_or_else(|| Problem::new(404, "no_queue", "the dashboard has no queue of this name"))
}

fn metrics(settings: &DashboardSettings, task: &Task) -> Result<Response<Body>, Problem> {
    let mut all = Metrics::new();
    for queue in &settings.queues {
        all.add(queue.client.metrics()?);
    }
    let accept = task.request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let (content_type, text) = all.for_accept(accept);
    Ok(request::answer(200, content_type, text))
}

fn health(settings: &DashboardSettings) -> Response<Body> {
    for queue in &settings.queues {
        if let Err(error) = queue.view.client().queue().is_paused() {
            let text = format!("the queue {}: {error}\n", queue.name);
            return request::answer(503, "text/plain; charset=utf-8", text);
        }
    }
    request::answer(200, "text/plain; charset=utf-8", "ok\n")
}

fn page_of(frame: &Frame, view: &View) -> Response<Body> {
    let html = match view {
        View::Overview(view) => page::overview::page(frame, view),
        View::Kinds(view) => page::kinds_and_limits::page(frame, view),
        View::Kind(view) => page::kind::page(frame, view),
        View::Jobs(view) => page::jobs::jobs_page(frame, view),
        View::Job(view) => page::jobs::job_page(frame, view),
        View::Dead(view) => page::jobs::dead_page(frame, view),
        View::Groups(view) => page::groups::page(frame, view),
        View::Schedules(view) => page::nodes_and_schedules::schedules_page(frame, view),
        View::Nodes(view) => page::nodes_and_schedules::nodes_page(frame, view),
        View::Store(view) => page::nodes_and_schedules::store_page(frame, view),
        View::Bulks(view) => page::actions::bulks_page(frame, view),
        View::Bulk(view) => page::actions::progress_page(frame, view),
        // No path leads to it as a page.
        View::History(view) => return request::json(200, view),
    };
    request::page(200, html)
}
