//! Makes the lists of jobs, by state and filter, a page at a time, the view of one job, and the list of the groups.
//! Which jobs a list has, and the place in it, is read from parameters, and printed as a query.

use crate::store::{Ending, JobSet, Page, PageKey, PageRequest};
use crate::values::fail_and_retry::AttemptError;
use crate::values::group::GroupInfo;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::time::Millis;
use crate::web::options::{Part, Redactor, cut};
use crate::web::page::layout::encoded;
use crate::web::params::{self, Params, wrong};
use crate::web::read::{MOST_BYTES, MOST_GROUPS, MOST_ROWS, Reader};
use crate::web::route::Whole;
use crate::web::views::{
    Dead, Filter, Group, GroupRow, Groups, Job, JobRow, Jobs, Number, Problem, Searched, Step, Time,
};

/// How many jobs the store is asked for at once.
const STEP: usize = 256;
/// How many records a page looks at if no search was asked for: jobs that are claimed lie among pending ones.
const MOST_KINDS: usize = 200;
/// The most characters of an error or a progress in a row.
const CELL_CHARS: usize = 200;

/// The part of a list that was read.
struct Found {
    jobs: Vec<JobInfo>,
    /// The place after the last record that was looked at, unless that was the last of the list.
    next: Option<Place>,
    hit_limit: bool,
    records: u64,
}

pub(crate) fn jobs(reader: &Reader<'_>) -> Result<Jobs, Problem> {
    let (now, rows) = (reader.now(), reader.rows()?);
    let wanted = Query::of(reader.params, now)?;
    let place = Place::of(reader.params)?;
    let found = find(reader, &wanted, place, rows)?;
    let total = total(reader, &wanted)?;
    let older = match found.next {
        Some(next) => Some(place.older(&wanted, reader.params, next)?),
        None => None,
    };
    let searched = wanted.is_search().then_some(Searched {
        records: found.records,
        of: records(reader, &wanted)?,
        hit_limit: found.hit_limit,
    });
    let row = |job: &JobInfo| row(job, reader.redactor);
    let first = found.jobs.first().filter(|_| wanted.view.group.is_some());
    let error = first
        .map(|job| reader.redactor.first_line(&job.kind, job.error.as_deref().unwrap_or_default()));
    Ok(Jobs {
        now: Time::new(now.to_system()),
        rows: found.jobs.iter().map(row).collect(),
        total,
        searched,
        older,
        newer: place.newer(&wanted, reader.params)?,
        query: wanted.to_text(),
        changes: wanted.state.changes().to_vec(),
        kinds: {
            let mut kinds = reader.client().kinds()?;
            kinds.sort_unstable();
            kinds.into_iter().take(MOST_KINDS).map(|(kind, _)| kind).collect()
        },
        filter: Filter { error, ..wanted.view },
    })
}

/// Reads the list from a place on, until `rows` jobs are found or the limit of a search is reached.
fn find(reader: &Reader<'_>, wanted: &Query, place: Place, rows: usize) -> Result<Found, Problem> {
    let mut found =
        Found { jobs: Vec::new(), next: None, hit_limit: false, records: place.searched };
    let takes = |job: &JobInfo| wanted.takes(job, reader.redactor);
    let is_alive = !matches!(wanted.state, State::Dead | State::Completed);
    if let Some(key) = wanted.view.key.as_ref().filter(|_| is_alive) {
        found.jobs.extend(reader.client().keyed(key).get()?.filter(takes));
        return Ok(found);
    }
    let (mut after, mut bytes, mut records) = (place.after, 0, 0);
    loop {
        let limit = if wanted.is_search() { STEP } else { rows + 1 };
        let Page { jobs, next } = reader.client().page(wanted.page(after, limit))?;
        for job in jobs {
            if found.jobs.len() == rows {
                found.next = after.map(|after| Place {
                    after: Some(after),
                    searched: if wanted.is_search() { found.records } else { 0 },
                });
                return Ok(found);
            }
            after = Some(wanted.key(&job));
            bytes += job.bytes();
            records += 1;
            found.records = found.records.saturating_add(1);
            if takes(&job) {
                found.jobs.push(job);
            }
            if wanted.is_search() && bytes >= MOST_BYTES {
                found.hit_limit = true;
                found.next = Some(Place { after, searched: found.records });
                return Ok(found);
            }
        }
        let Some(next) = next else { return Ok(found) };
        after = Some(next);
        if records >= reader.most_searched() || bytes >= MOST_BYTES {
            found.hit_limit = true;
            found.next = Some(Place { after, searched: found.records });
            return Ok(found);
        }
    }
}

/// Returns how many jobs the list has, if that is known.
fn total(reader: &Reader<'_>, wanted: &Query) -> Result<Option<Number>, Problem> {
    let view = &wanted.view;
    let by_time = view.from.is_some() || view.to.is_some();
    if wanted.is_search() || by_time || view.key.is_some() || view.kind.is_some() {
        return Ok(None);
    }
    let counts = reader.client().count()?;
    let exact = |count| Some(Number { count, is_exact: true });
    Ok(match wanted.state {
        State::Pending => exact(counts.pending),
        State::Overdue => {
            Some(Number { count: counts.overdue.count, is_exact: counts.overdue.is_exact })
        }
        State::Running => exact(counts.running + counts.claimed),
        State::Dead => exact(counts.dead),
        State::Retrying | State::Completed => None,
    })
}

/// Returns how many records a search has to read at most, if that is known.
fn records(reader: &Reader<'_>, wanted: &Query) -> Result<Option<u64>, Problem> {
    if !wanted.is_search() || wanted.view.kind.is_some() {
        return Ok(None);
    }
    let counts = reader.client().count()?;
    Ok(match wanted.state {
        State::Pending | State::Retrying => Some(counts.pending + counts.claimed + counts.running),
        State::Dead => Some(counts.dead),
        State::Overdue | State::Running | State::Completed => None,
    })
}

pub(crate) fn row(job: &JobInfo, redactor: Redactor<'_>) -> JobRow {
    let progress =
        |bytes: &Vec<u8>| cut(&redactor.line(&job.kind, Part::Progress, bytes), CELL_CHARS).0;
    let error = |error: &String| cut(&redactor.first_line(&job.kind, error), CELL_CHARS).0;
    JobRow {
        id: job.id.to_string(),
        kind: job.kind.clone(),
        state: job.state.word(),
        due: Time::new(job.due),
        key: job.key.clone(),
        failures: job.failures,
        attempt: job.attempt,
        interruptions: job.interruptions,
        error: job.error.as_ref().map(error),
        claimed: job.claimed.map(Time::new),
        ended: job.ended.map(Time::new),
        took_ms: job.took.map(|took| took.as_millis() as u64),
        progress: job.progress.as_ref().map(progress),
    }
}

/// Makes the groups of the dead jobs.
pub(crate) fn dead(reader: &Reader<'_>) -> Result<Dead, Problem> {
    let (client, rows) = (reader.client(), reader.rows()?);
    let stored = client.dead_by_error(MOST_GROUPS)?;
    let is_whole = stored.len() < MOST_GROUPS;
    let mut groups: Vec<Group> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for group in stored {
        let error = reader.redactor.first_line(&group.kind, &group.error);
        let at = *places.entry((group.kind.clone(), error.clone())).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(there) => there.jobs += group.jobs,
            None => {
                let name = group_of(&group.kind, &error);
                let (kind, jobs) = (group.kind, group.jobs);
                let pairs = [("state", "dead"), ("kind", &kind), ("group", &name)];
                let query = query(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
                groups.push(Group { group: name, kind, error, jobs, query });
            }
        }
    }
    groups.sort_by_key(|group| core::cmp::Reverse(group.jobs));
    let has_more = !is_whole || groups.len() > rows;
    groups.truncate(rows.min(MOST_ROWS));
    let (now, total) = (Time::new(reader.now().to_system()), client.count()?.dead);
    Ok(Dead { now, total, groups, has_more })
}

pub(crate) fn not_found(id: JobId) -> Problem {
    let message =
        format!("there is no job {id}: it has ended, was cancelled or deleted, or never was");
    Problem { status: 404, error: "not_found", message }
}

pub(crate) fn job(reader: &Reader<'_>, id: JobId) -> Result<Job, Problem> {
    let job = reader.client().get(id)?.ok_or_else(|| not_found(id))?;
    let redactor = reader.redactor;
    let content = |part, bytes: &Vec<u8>, name: Option<&str>| {
        let download = name.map(|name| format!("jobs/{id}/{name}"));
        redactor.content(&job.kind, part, bytes, download)
    };
    let headers = redactor.headers(&job);
    let trace_id = trace_id(&headers);
    let trace_link = trace_id.as_ref().zip(reader.trace_link);
    let trace_link = trace_link.map(|(id, template)| template.replace("{trace_id}", id));
    let waits_for = reader.client().why_of(core::slice::from_ref(&job))?.pop().unwrap_or_default();
    Ok(Job {
        now: Time::new(reader.now().to_system()),
        id: id.to_string(),
        kind: job.kind.clone(),
        state: job.state.word(),
        due: Time::new(job.due),
        key: job.key.clone(),
        partition: job.partition.clone(),
        group: job.group.map(|group| group.to_string()),
        failures: job.failures,
        attempt: job.attempt,
        interruptions: job.interruptions,
        headers,
        trace_id,
        trace_link,
        payload: content(Part::Payload, &job.payload, Some("payload")),
        result: job.result.as_ref().map(|result| content(Part::Result, result, Some("result"))),
        progress: job.progress.as_ref().map(|it| content(Part::Progress, it, None)),
        error: job.error.as_ref().map(|error| redactor.error(&job.kind, error)),
        timeline: timeline(reader, &job),
        waits_for,
        claimed: job.claimed.map(Time::new),
        lease_ends: job.lease_ends.map(Time::new),
        ended: job.ended.map(Time::new),
        took_ms: job.took.map(|took| took.as_millis() as u64),
        actions: actions(job.state).to_vec(),
    })
}

/// Returns the actions that a job allows.
fn actions(state: JobState) -> &'static [&'static str] {
    match state {
        JobState::Pending => &["run_now", "reschedule", "cancel"],
        JobState::Claimed | JobState::Running => &["cancel"],
        JobState::Dead => &["retry", "delete"],
        JobState::Completed | JobState::Cancelled => &[],
    }
}

/// Returns the trace of a `traceparent` header, in its redacted form: `00-<32 digits>-<16 digits>-01`.
fn trace_id(headers: &[(String, String)]) -> Option<String> {
    let (_, parent) = headers.iter().find(|(name, _)| name == "traceparent")?;
    let mut parts = parent.split('-');
    let (version, trace_id) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_trace =
        version.len() == 2 && is_hex(version) && trace_id.len() == 32 && is_hex(trace_id);
    (is_trace && trace_id.bytes().any(|byte| byte != b'0')).then(|| trace_id.to_ascii_lowercase())
}

/// Returns what happened to a job, in the order of time, as far as the store remembers it.
fn timeline(reader: &Reader<'_>, job: &JobInfo) -> Vec<Step> {
    let step = |what, at| Step { what, at, attempt: None, node: None, error: None };
    let failure = |error: &AttemptError| {
        let node = Some(error.node.clone()).filter(|node| !node.is_empty());
        Step {
            what: if node.is_none() { "interrupted" } else { "failed" },
            at: Some(Time::new(error.at)),
            attempt: Some(error.attempt),
            node,
            error: Some(reader.redactor.error(&job.kind, &error.error)),
        }
    };
    let mut errors: Vec<&AttemptError> = job.errors.iter().collect();
    errors.sort_by_key(|error| error.attempt);
    // The due time is that of the latest attempt, and comes before its failure, also in the same millisecond.
    let earlier = errors.partition_point(|error| error.attempt < job.attempt);
    let inserted = job.inserted().map(|at| step("inserted", Some(Time::new(at))));
    let mut steps: Vec<Step> = inserted.into_iter().collect();
    steps.extend(errors[..earlier].iter().map(|error| failure(error)));
    steps.push(step("due", Some(Time::new(job.due))));
    steps.extend(errors[earlier..].iter().map(|error| failure(error)));
    let attempt = Some(job.attempt);
    match job.state {
        JobState::Running | JobState::Claimed => {
            let claimed = job.claimed.map(Time::new);
            steps.push(Step { attempt, ..step(job.state.word(), claimed) });
        }
        JobState::Completed | JobState::Dead | JobState::Cancelled => {
            let ended = job.ended.map(Time::new);
            steps.push(Step { attempt, ..step(job.state.word(), ended) });
        }
        JobState::Pending => {}
    }
    // The insert comes first, also of a job that was due before. A step without a time comes last. The end
    // comes after the failure of the same millisecond.
    steps.sort_by_key(|step| (step.what != "inserted", step.at.is_none(), step.at));
    steps
}

/// Returns the whole of a payload or a result.
pub(crate) fn whole(reader: &Reader<'_>, id: JobId, what: Whole) -> Result<Vec<u8>, Problem> {
    let job = reader.client().get(id)?.ok_or_else(|| not_found(id))?;
    let (part, bytes) = match what {
        Whole::Payload => (Part::Payload, Some(job.payload)),
        Whole::Result => (Part::Result, job.result),
    };
    let bytes = bytes.ok_or_else(|| Problem {
        status: 404,
        error: "not_found",
        message: format!("the job {id} has no result"),
    })?;
    Ok(reader.redactor.whole(&job.kind, part, bytes))
}

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

/// A place in a list: the job before it, and the number of records that a search has read.
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
                params::time(text, now)
                    .map(Some)
                    .ok_or_else(|| wrong(&format!("{name} is {forms}")))
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

/// Lists the groups that were made last.
pub(crate) fn groups(reader: &Reader<'_>) -> Result<Groups, Problem> {
    let rows = reader.rows()?;
    // One more tells whether there are more.
    let mut found = reader.client().latest_groups(rows + 1)?;
    let has_more = found.len() > rows;
    found.truncate(rows);
    Ok(Groups {
        now: Time::new(reader.now().to_system()),
        rows: found.iter().map(group_row).collect(),
        has_more,
    })
}

fn group_row(group: &GroupInfo) -> GroupRow {
    GroupRow {
        id: group.id.to_string(),
        made: Time::new(group.made),
        ended: group.ended.map(Time::new),
        state: match group {
            GroupInfo { ended: Some(_), .. } => "ended",
            GroupInfo { is_cancelled: true, .. } => "cancelled",
            GroupInfo { is_sealed: false, .. } => "open",
            GroupInfo { open: 0, waits_for_the_dead: true, .. } => "waits_for_the_dead",
            _ => "sealed",
        },
        total: group.total,
        open: group.open,
        completed: group.completed,
        dead: group.dead,
        cancelled: group.cancelled,
        waits_for_the_dead: group.waits_for_the_dead,
        callback: group.callback.map(|id| id.to_string()),
    }
}
