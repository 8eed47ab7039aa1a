//! What the dashboard asks: the queues that the program has chosen, and the lists that parameters name, with the links
//! to their further pages.
//!
//! Ground rules:
//!
//! - A row is from [`tickwheel_jobs::view`], which has read it. Here come the links between pages.
//! - Everything here runs on the dashboard's threads.

use std::sync::Arc;

use tickwheel_jobs::view::{JobFilter, KindFilter, KindPage, ListState, Part, Place, View};
use tickwheel_jobs::{Client, Counts, GroupId, InsertErrorKind, JobId, Step, StoreError};

use super::options::{AccessOf, Audit, Redact};
use super::page::layout::query;
use super::params::{self, Params, wrong};
use super::views::{Filter, Jobs, OverviewPage, Problem, QueueRow};

pub(crate) const MOST_ROWS: usize = 100;
const MOST_KINDS: usize = 200;

#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) name: String,
    /// On the thread of the reads, it waits for no change.
    pub(crate) view: View,
    pub(crate) client: Client,
}

impl Queue {
    pub(crate) fn new(client: Client) -> Queue {
        let view = View::new(client.clone());
        Queue { name: view.queue().unwrap_or("default").to_owned(), view, client }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) queues: &'a [Queue],
    pub(crate) at: usize,
    pub(crate) params: &'a Params,
}

impl<'a> Reader<'a> {
    pub(crate) fn queue(&self) -> &'a Queue {
        &self.queues[self.at]
    }

    pub(crate) fn view(&self) -> &'a View {
        &self.queue().view
    }

    pub(crate) fn client(&self) -> &'a Client {
        &self.queue().client
    }

    pub(crate) fn rows(&self) -> Result<usize, Problem> {
        match self.params.get("limit").map(str::parse) {
            None => Ok(MOST_ROWS),
            Some(Ok(rows @ 1..=MOST_ROWS)) => Ok(rows),
            Some(_) => Err(wrong("limit is a number from 1 to 100")),
        }
    }

    pub(crate) fn overview(&self) -> Result<OverviewPage, Problem> {
        let view = self.view().overview()?;
        let queues = (0..self.queues.len()).map(|at| self.queue_row(at)).collect();
        Ok(OverviewPage { view, queues })
    }

    fn queue_row(&self, at: usize) -> QueueRow {
        let (Queue { name, view, .. }, is_current) = (&self.queues[at], at == self.at);
        let row = QueueRow { name: name.clone(), is_current, ..QueueRow::default() };
        match view.client().count().and_then(|counts| Ok((counts, view.nodes(0)?.alive))) {
            Ok((Counts { pending, overdue, dead, .. }, alive_nodes)) => {
                QueueRow { pending, overdue: Some(overdue), dead, alive_nodes, ..row }
            }
            Err(error) => QueueRow { problem: Some(error.to_string()), ..row },
        }
    }

    /// Reads `text` and `order=name|jobs`. Those with the most jobs are 200 at most, on one page.
    pub(crate) fn kinds(&self) -> Result<tickwheel_jobs::view::Kinds, Problem> {
        let mut filter = KindFilter::default();
        filter.text = self.params.text("text", 256)?;
        filter.by_jobs = match self.params.get("order") {
            None | Some("name") => false,
            Some("jobs") => true,
            Some(_) => return Err(wrong("order is name or jobs")),
        };
        let of_pages = ["after", "limit"].into_iter().find(|it| self.params.get(it).is_some());
        if let Some(name) = of_pages.filter(|_| filter.by_jobs) {
            return Err(wrong(format!("{name} has no meaning beside order=jobs")));
        }
        let most = if filter.by_jobs { usize::MAX } else { self.rows()? };
        Ok(self.view().kinds(&filter, self.params.name("after")?.as_deref(), most)?)
    }

    pub(crate) fn kind(&self) -> Result<KindPage, Problem> {
        Ok(self.view().kind(&self.params.required("kind")?, MOST_ROWS)?)
    }

    /// Returns the id of the job that an action makes. It depends on the id of the form, so two processes that get the
    /// same form make one job.
    pub(crate) fn made_from_form(&self, action: &str) -> Result<Option<JobId>, Problem> {
        let queue = &self.queue().name;
        let named = |once| JobId::named(&format!("{} {queue} {action} {once}", queue.len()));
        Ok(self.params.name("once")?.map(named))
    }

    /// Reads `step=minute|hour`, `steps` and `kind`.
    pub(crate) fn history(&self) -> Result<tickwheel_jobs::view::History, Problem> {
        let (step, most, default) = match self.params.get("step") {
            None | Some("minute") => (Step::Minute, 48 * 60, 60),
            Some("hour") => (Step::Hour, 90 * 24, 48),
            Some(_) => return Err(wrong("step is minute or hour")),
        };
        let steps = match self.params.get("steps").map(str::parse::<usize>) {
            None => default,
            Some(Ok(steps)) if (1..=most).contains(&steps) => steps,
            Some(_) => return Err(wrong(format!("steps is a number from 1 to {most}"))),
        };
        let kind = self.params.name("kind")?;
        Ok(self.view().history(kind.as_deref(), step, steps)?)
    }

    pub(crate) fn jobs(&self) -> Result<Jobs, Problem> {
        let wanted = Query::of(self.params, self)?;
        let places = Places::of(self.params)?;
        let list = self.view().jobs(&wanted.filter, places.here, self.rows()?)?;
        let mut kinds: Vec<String> =
            self.view().client().queue().kinds()?.into_iter().map(|(kind, _)| kind).collect();
        kinds.sort_unstable();
        kinds.truncate(MOST_KINDS);
        let query = query(wanted.texts.pairs());
        Ok(Jobs {
            older: list.next.map(|next| places.older(&wanted, self.params, next)),
            newer: places.newer(&wanted, self.params),
            changes: wanted.filter.state.changes().to_vec(),
            filter: Filter { error: list.error.clone(), ..wanted.texts },
            list,
            query,
            kinds,
        })
    }

    pub(crate) fn whole(&self, id: JobId, part: Part) -> Result<Vec<u8>, Problem> {
        if let Some(bytes) = self.view().whole(id, part)? {
            return Ok(bytes);
        }
        self.view().client().get(id)?.ok_or_else(|| not_found(id))?;
        Err(Problem::not_found(format!("the job {id} has no result")))
    }
}

pub(crate) fn not_found(id: JobId) -> Problem {
    let why = "it has ended, was cancelled or deleted, or never was";
    Problem::not_found(format!("there is no job {id}: {why}"))
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let (status, word) = match &error {
            StoreError::Closed | StoreError::Forked | StoreError::Overtaken => (503, "closed"),
            StoreError::Busy => (503, "busy"),
            StoreError::Full => (507, "full"),
            StoreError::KeyTaken { .. } => (409, "key_taken"),
            StoreError::TooManyScopes(_) => (409, "too_many_scopes"),
            StoreError::Invalid(_) => (400, "bad_parameter"),
            StoreError::Unknown => (502, "unknown"),
            _ => (502, "store_failed"),
        };
        Problem::new(status, word, error.to_string())
    }
}

impl From<InsertErrorKind> for Problem {
    fn from(error: InsertErrorKind) -> Problem {
        match error {
            InsertErrorKind::Store(error) => error.into(),
            InsertErrorKind::Invalid(error) => StoreError::Invalid(error).into(),
            InsertErrorKind::Closed => StoreError::Closed.into(),
            InsertErrorKind::Unknown(_) => Problem::new(502, "unknown", error.to_string()),
            _ => Problem::new(409, "not_inserted", error.to_string()),
        }
    }
}

#[derive(Clone)]
pub(crate) struct DashboardSettings {
    pub(crate) queues: Vec<Queue>,
    pub(crate) title: String,
    pub(crate) access: Arc<AccessOf>,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) redact: Option<Arc<Redact>>,
    pub(crate) trace_link: Option<String>,
}

/// The jobs of a list, as parameters name them.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) filter: JobFilter,
    /// The parameters as they came.
    pub(crate) texts: Filter,
}

impl Query {
    pub(crate) fn of(params: &Params, reader: &Reader<'_>) -> Result<Query, Problem> {
        let state = match params.get("state") {
            None => ListState::Pending,
            Some(word) => {
                let found = ListState::ALL.into_iter().find(|state| state.word() == word);
                let states = "pending, overdue, running, retrying, dead, completed or expired";
                found.ok_or_else(|| wrong(format!("state is {states}")))?
            }
        };
        let group = params.get("group").map(str::parse::<JobId>).transpose();
        let group = group.map_err(|_| wrong("group has 32 hexadecimal digits"))?;
        let member = params.get("member").map(str::parse::<GroupId>).transpose();
        let member = member.map_err(|_| wrong("member has 32 hexadecimal digits"))?;
        let now = reader.view().now();
        let time = |name: &str| match params.get(name) {
            None => Ok(None),
            Some(text) => {
                let forms = "a time as 2026-11-22T10:00:00Z, or a distance as 2h 30m";
                let time = params::time(text, now.to_system());
                time.map(Some).ok_or_else(|| wrong(format!("{name} is {forms}")))
            }
        };
        let mut filter = JobFilter::new(state);
        filter.kind = params.name("kind")?;
        filter.key = params.name("key")?;
        filter.text = params.text("text", 256)?;
        filter.group = group;
        filter.member_of = member;
        filter.node = params.name("node")?;
        if filter.node.is_some() && state != ListState::Running {
            return Err(wrong("node has a meaning beside state=running alone"));
        }
        (filter.from, filter.to) = (time("from")?, time("to")?);
        let texts = Filter {
            state: state.word(),
            kind: filter.kind.clone(),
            key: filter.key.clone(),
            text: filter.text.clone(),
            group: group.map(|group| group.to_string()),
            error: None,
            member: member.map(|group| group.to_string()),
            node: filter.node.clone(),
            from: params.text("from", 64)?,
            to: params.text("to", 64)?,
        };
        Ok(Query { filter, texts })
    }
}

/// How many places before this one a link remembers.
const MOST_BEFORE: usize = 8;

/// The place of a page in its list, and those of the pages before it.
struct Places {
    here: Option<Place>,
    before: Vec<Place>,
}

impl Places {
    fn of(params: &Params) -> Result<Places, Problem> {
        let before = match params.get("before") {
            None => Vec::new(),
            Some(text) => {
                let places = text.split('_').take(MOST_BEFORE).map(Place::parse).collect();
                let places: Option<Vec<Place>> = places;
                places.ok_or_else(|| wrong("before is no list of places"))?
            }
        };
        let here = params.get("after").map(|text| {
            let place = Place::parse(text).filter(|place| !place.is_first());
            place.ok_or_else(|| wrong("after is no place of this list"))
        });
        Ok(Places { here: here.transpose()?, before })
    }

    /// Returns the query of the page that begins at `next`.
    fn older(&self, query_of: &Query, params: &Params, next: Place) -> String {
        let mut before = self.before.clone();
        before.push(self.here.unwrap_or_default());
        let first = before.len().saturating_sub(MOST_BEFORE);
        link(query_of, params, next, &before[first..])
    }

    fn newer(&self, query_of: &Query, params: &Params) -> Option<String> {
        self.here?;
        let (place, before) = match self.before.split_last() {
            Some((place, before)) => (*place, before),
            None => (Place::default(), &[][..]),
        };
        Some(link(query_of, params, place, before))
    }
}

fn link(query_of: &Query, params: &Params, place: Place, before: &[Place]) -> String {
    let mut pairs = query_of.texts.pairs();
    pairs.extend(params.get("limit").map(|limit| ("limit", limit)));
    let after = place.to_string();
    let before = before.iter().map(Place::to_string).collect::<Vec<_>>().join("_");
    if !place.is_first() {
        pairs.push(("after", &after));
        pairs.extend(Some(("before", &*before)).filter(|_| !before.is_empty()));
    }
    query(pairs)
}
