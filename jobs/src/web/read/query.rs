//! Which jobs a list has, and the place in it: read from parameters, and printed as a query.

use crate::store::{Ending, JobSet, PageKey, PageRequest};
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::time::Millis;
use crate::web::frame::encoded;
use crate::web::params::{Params, wrong};
use crate::web::redact::Redactor;
use crate::web::times;
use crate::web::views::Problem;
use crate::web::views::job::Filter;

/// How many places before this one a link remembers.
const MOST_BEFORE: usize = 8;

/// The jobs of a list.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) state: State,
    pub(crate) view: Filter,
    from: Millis,
    pub(crate) to: Millis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Pending,
    Overdue,
    Running,
    Retrying,
    Dead,
    Completed,
}

/// A place in a list: after this job, and after so many records of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) after: Option<PageKey>,
    pub(crate) searched: u64,
}

impl State {
    const ALL: [State; 6] = [
        State::Pending,
        State::Overdue,
        State::Running,
        State::Retrying,
        State::Dead,
        State::Completed,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Overdue => "overdue",
            State::Running => "running",
            State::Retrying => "retrying",
            State::Dead => "dead",
            State::Completed => "completed",
        }
    }

    /// Returns the changes that such jobs allow.
    pub(crate) fn changes(self) -> &'static [&'static str] {
        match self {
            State::Pending | State::Overdue | State::Retrying => &["cancel", "reschedule"],
            State::Running => &["cancel"],
            State::Dead => &["retry", "delete"],
            State::Completed => &[],
        }
    }
}

impl Query {
    pub(crate) fn of(params: &Params, now: Millis) -> Result<Query, Problem> {
        let state = match params.get("state") {
            None => State::Pending,
            Some(word) => {
                let found = State::ALL.into_iter().find(|state| state.word() == word);
                let states = "pending, overdue, running, retrying, dead or completed";
                found.ok_or_else(|| wrong(&format!("state is {states}")))?
            }
        };
        let group = params.get("group").map(str::parse::<JobId>).transpose();
        let group = group.map_err(|_| wrong("group has 32 hexadecimal digits"))?;
        let time = |name: &str| match params.get(name) {
            None => Ok(None),
            Some(text) => {
                let forms = "a time as 2026-11-22T10:00:00Z, or a distance as 2h 30m";
                times::time(text, now).map(Some).ok_or_else(|| wrong(&format!("{name} is {forms}")))
            }
        };
        let (from, to) =
            (time("from")?.unwrap_or(Millis::ZERO), time("to")?.unwrap_or(Millis::MAX));
        let to = if state == State::Overdue { to.min(now) } else { to };
        let view = Filter {
            state: state.word(),
            kind: params.name("kind")?,
            key: params.name("key")?,
            text: params.text("text", 256)?,
            group: group.map(|group| group.to_string()),
            error: None,
            from: params.text("from", 64)?,
            to: params.text("to", 64)?,
        };
        Ok(Query { state, view, from, to })
    }

    /// Returns the parameters of the list.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let Filter { state, kind, key, text, group, from, to, error: _ } = &self.view;
        let mut pairs = vec![("state".to_owned(), (*state).to_owned())];
        let optional = [
            ("kind", kind),
            ("key", key),
            ("text", text),
            ("group", group),
            ("from", from),
            ("to", to),
        ];
        for (name, value) in optional {
            pairs.extend(value.clone().map(|value| (name.to_owned(), value)));
        }
        pairs
    }

    pub(crate) fn to_text(&self) -> String {
        query(&self.pairs())
    }

    /// Says whether each record has to be looked at.
    pub(crate) fn is_search(&self) -> bool {
        let by_key =
            self.view.key.is_some() && matches!(self.state, State::Dead | State::Completed);
        self.view.text.is_some()
            || self.view.group.is_some()
            || self.state == State::Retrying
            || by_key
    }

    /// Returns the request for a page of the store.
    pub(crate) fn page(&self, after: Option<PageKey>, limit: usize) -> PageRequest {
        let set = match self.state {
            State::Dead => JobSet::Ended(Some(Ending::Dead)),
            State::Completed => JobSet::Ended(Some(Ending::Completed)),
            State::Running => JobSet::Claimed,
            _ => JobSet::Alive,
        };
        let (kind, from, to) = (self.view.kind.clone(), self.from, self.to);
        PageRequest { set, kind, from, to, after, limit }
    }

    /// Returns the place of a job in the list.
    pub(crate) fn key(&self, job: &JobInfo) -> PageKey {
        let time = match self.state {
            State::Dead | State::Completed => job.ended.unwrap_or(job.due),
            _ => job.due,
        };
        (Millis::present(time), job.id)
    }

    /// Says whether a job belongs to the list.
    pub(crate) fn takes(&self, job: &JobInfo, redactor: Redactor<'_>) -> bool {
        let state = match self.state {
            State::Pending | State::Overdue => job.state == JobState::Pending,
            State::Retrying => job.state == JobState::Pending && job.failures > 0,
            State::Running => matches!(job.state, JobState::Running | JobState::Claimed),
            State::Dead => job.state == JobState::Dead,
            State::Completed => job.state == JobState::Completed,
        };
        let Filter { kind, key, text, .. } = &self.view;
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let first_line =
            || redactor.first_line(&job.kind, job.error.as_deref().unwrap_or_default());
        state
            && (self.from..=self.to).contains(&Millis::present(job.due))
            && is(kind, Some(&job.kind))
            && is(key, job.key.as_deref())
            && (self.view.group.is_none() || self.takes_group(&job.kind, &first_line()))
            && text.as_ref().is_none_or(|text| redactor.has(job, &text.to_lowercase()))
    }

    /// Says whether a group of dead jobs belongs to the list, by its kind and the first line of its error.
    pub(crate) fn takes_group(&self, kind: &str, error: &str) -> bool {
        let Filter { kind: wanted, group, .. } = &self.view;
        wanted.as_ref().is_none_or(|wanted| wanted == kind)
            && group.as_ref().is_none_or(|wanted| *wanted == group_of(kind, error))
    }

    /// Says whether the list has fewer jobs than those of its state.
    pub(crate) fn has_filter(&self) -> bool {
        self.pairs().len() > 1
    }

    /// Returns a sentence that says which jobs these are. `error` is that of their group.
    pub(crate) fn scope(&self, error: Option<&str>) -> String {
        let Filter { state, kind, key, text, group, from, to, error: _ } = &self.view;
        let mut scope = format!("the {state} jobs");
        if let Some(kind) = kind {
            scope += &format!(" of the kind {kind:?}");
        }
        if let Some(group) = group.as_ref().filter(|_| error.is_none()) {
            scope += &format!(" of the group {group}");
        }
        let mut and = " with";
        let (key, text) = (key.as_deref(), text.as_deref());
        for (name, value) in [("the key", key), ("the error", error), ("the text", text)] {
            if let Some(value) = value {
                scope += &format!("{and} {name} {value:?}");
                and = " and";
            }
        }
        for (name, value) in [("due from", from), ("due until", to)] {
            if let Some(value) = value {
                scope += &format!(", {name} {value}");
            }
        }
        scope
    }
}

impl Place {
    /// Reads a place as it is printed: `1795341600250.00..07` or with `.10000` behind it.
    fn parse(text: &str) -> Option<Place> {
        let mut parts = text.split('.');
        let ms: i64 = parts.next()?.parse().ok()?;
        let id: JobId = parts.next()?.parse().ok()?;
        let searched = parts.next().map_or(Some(0), |searched| searched.parse().ok())?;
        let is_whole = parts.next().is_none() && Millis::clamped(ms).get() == ms;
        is_whole.then_some(Place { after: Some((Millis::clamped(ms), id)), searched })
    }

    fn print(self) -> Option<String> {
        let (at, id) = self.after?;
        let searched =
            if self.searched > 0 { format!(".{}", self.searched) } else { String::new() };
        Some(format!("{}.{id}{searched}", at.get()))
    }

    pub(crate) fn of(params: &Params) -> Result<Place, Problem> {
        Place::before(params)?;
        match params.get("after") {
            None => Ok(Place::default()),
            Some(text) => Place::parse(text).ok_or_else(|| wrong("after is no place of this list")),
        }
    }

    /// Returns the places before this one that the request remembers.
    fn before(params: &Params) -> Result<Vec<Place>, Problem> {
        let Some(text) = params.get("before") else { return Ok(Vec::new()) };
        let place = |text: &str| match text {
            "0" => Some(Place::default()),
            other => Place::parse(other),
        };
        let places: Option<Vec<Place>> = text.split('_').take(MOST_BEFORE).map(place).collect();
        places.ok_or_else(|| wrong("before is no list of places"))
    }

    /// Returns the query of the page that begins at `next`.
    pub(crate) fn older(
        self,
        query_of: &Query,
        params: &Params,
        next: Place,
    ) -> Result<String, Problem> {
        let mut before = Place::before(params)?;
        before.push(self);
        let first = before.len().saturating_sub(MOST_BEFORE);
        Ok(link(query_of, params, next, &before[first..]))
    }

    /// Returns the query of the page before this one, if this is not the first.
    pub(crate) fn newer(
        self,
        query_of: &Query,
        params: &Params,
    ) -> Result<Option<String>, Problem> {
        if self.after.is_none() {
            return Ok(None);
        }
        let mut before = Place::before(params)?;
        let place = before.pop().unwrap_or_default();
        Ok(Some(link(query_of, params, place, &before)))
    }
}

fn link(query_of: &Query, params: &Params, place: Place, before: &[Place]) -> String {
    let mut pairs = query_of.pairs();
    pairs.extend(params.get("limit").map(|limit| ("limit".to_owned(), limit.to_owned())));
    pairs.extend(place.print().map(|place| ("after".to_owned(), place)));
    if !before.is_empty() && place.after.is_some() {
        let text = |place: &Place| place.print().unwrap_or_else(|| "0".to_owned());
        let before: Vec<String> = before.iter().map(text).collect();
        pairs.push(("before".to_owned(), before.join("_")));
    }
    query(&pairs)
}

/// Returns the name of a group of dead jobs, for a link: a hash of the kind and the first line of the error, which may be
/// empty or long.
pub(crate) fn group_of(kind: &str, error: &str) -> String {
    JobId::named(&format!("{} {kind}{error}", kind.len())).to_string()
}

/// Prints parameters as a query.
pub(crate) fn query(pairs: &[(String, String)]) -> String {
    let pair = |(name, value): &(String, String)| format!("{name}={}", encoded(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}
