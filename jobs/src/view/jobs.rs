//! The lists of jobs, by state and filter, a page at a time; and everything about one job.

use core::fmt;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::kinds_and_limits::MOST_GROUPS;
use super::queue::View;
use super::redact::{Content, Part, Redactor, cut};
use super::values::Time;
use crate::api::read::Pages;
use crate::api::request;
use crate::store::{Ending, JobSet, Page, PageKey, PageRequest};
use crate::values::error::StoreError;
use crate::values::fail_and_retry::AttemptError;
use crate::values::group::GroupId;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState, Number};
use crate::values::pending_reason::PendingReason;
use crate::values::time::Millis;

const STEP: usize = 256;
/// The most records that a search reads. A search ends with the page that reaches it.
const MOST_SEARCHED: u64 = 6_000;
/// The most that it reads on a server, where each page of records costs the server milliseconds.
const MOST_SEARCHED_ON_A_SERVER: u64 = 1_000;
/// The most bytes of jobs that a search reads. It ends with the page, of about 1 MiB, that reaches it.
pub(crate) const MOST_BYTES: usize = 8 << 20;
const CELL_CHARS: usize = 200;

/// The jobs of a list, by their state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ListState {
    /// Jobs that wait.
    #[default]
    Pending,
    /// Those of them whose due time has passed.
    Overdue,
    /// Jobs that run, and those that are claimed.
    Running,
    /// Jobs that wait for another attempt.
    Retrying,
    /// Jobs that are dead.
    Dead,
    /// Jobs that have completed, and are kept.
    Completed,
    /// Jobs that have expired, and are kept.
    Expired,
}

/// Which jobs a list has: those of a state for which all of the rest is true.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct JobFilter {
    /// The state.
    pub state: ListState,
    /// Of this kind.
    pub kind: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// With this text in the payload, key, headers, error, result or progress, in their redacted form, or with these
    /// first digits of the id, at least fourteen. Upper and lower case are the same.
    pub text: Option<String>,
    /// With this text in the last error as it is stored.
    pub error: Option<String>,
    /// Of this group of dead jobs: [`DeadGroup::group`](super::DeadGroup::group).
    pub group: Option<JobId>,
    /// A member of this group of jobs.
    pub member_of: Option<GroupId>,
    /// That this process has claimed: [`NodeInfo::name`](crate::NodeInfo::name). Of other lists than
    /// [`ListState::Running`] it is none.
    pub node: Option<String>,
    /// Due at this time or later.
    pub from: Option<SystemTime>,
    /// Due at this time or earlier.
    pub to: Option<SystemTime>,
}

/// A place in a list: that behind a job. It prints as a text without characters that need an escape in a URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    after: Option<PageKey>,
    /// The number of records that a search has read so far.
    searched: u64,
}

/// A page of jobs.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct JobList {
    /// When it was asked for.
    pub now: Time,
    /// The jobs.
    pub rows: Vec<JobRow>,
    /// How many jobs the filter takes, if that is known without reading them.
    pub total: Option<Number>,
    /// How much a search has read, if the filter needs one.
    pub searched: Option<Searched>,
    /// The place at which the next page begins, if there is one.
    pub next: Option<Place>,
    /// The first line of the error of the group that the filter names, if a job of it was found.
    pub error: Option<String>,
}

/// How much a search has read: "searched 10,000 of 1,204,311".
#[derive(Clone, Copy, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Searched {
    /// With this page and those before it.
    pub records: u64,
    /// Of how many, if that is known.
    pub of: Option<u64>,
    /// It stopped at its limit: the next page goes on from there. Else it has reached the end or filled a page.
    pub hit_limit: bool,
}

/// A job in a list.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct JobRow {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// When it is due, or was.
    pub due: Time,
    /// Its key.
    pub key: Option<String>,
    /// How many of its runs have failed.
    pub failures: u32,
    /// The number of its present or next run.
    pub attempt: u32,
    /// How many of its runs ended with their process.
    pub interruptions: u32,
    /// The first line of its last error, cut to 200 characters.
    pub error: Option<String>,
    /// When its process claimed it, if it runs.
    pub claimed: Option<Time>,
    /// When its claim ends unless its process renews it, if it runs and is on a server.
    pub lease_ends: Option<Time>,
    /// The process that has claimed it, if that is known.
    pub node: Option<String>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How long its last run took, if it has completed.
    pub took_ms: Option<u64>,
    /// Its progress as one line of JSON, cut to 200 characters.
    pub progress: Option<String>,
}

/// Everything about a job.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct JobPage {
    /// When it was asked for.
    pub now: Time,
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its state.
    pub state: JobState,
    /// When it is due, or was.
    pub due: Time,
    /// Its key.
    pub key: Option<String>,
    /// Its partition.
    pub partition: Option<String>,
    /// Its group.
    pub group: Option<GroupId>,
    /// How many of its runs have failed.
    pub failures: u32,
    /// The number of its present or next run.
    pub attempt: u32,
    /// How many of its runs ended with their process.
    pub interruptions: u32,
    /// How many retries it has left, if it is alive: by its own policy, else by that of the process that was seen last
    /// among those that run its kind. `None`: no process has said it.
    pub retries_left: Option<u32>,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// The trace of its `traceparent` header: 32 hexadecimal digits.
    pub trace_id: Option<String>,
    /// Its data.
    pub payload: Content,
    /// Its result, if it has completed and its kind keeps results.
    pub result: Option<Content>,
    /// Its latest progress, if a run of it has set one.
    pub progress: Option<Content>,
    /// The last error, in full.
    pub error: Option<String>,
    /// When it expires, if it does.
    pub expires: Option<Time>,
    /// In the order of time.
    pub timeline: Vec<TimelineStep>,
    /// Why it has not started, if it is pending.
    pub waits_for: Vec<PendingReason>,
    /// When its process claimed it, if it runs.
    pub claimed: Option<Time>,
    /// When its claim ends unless its process renews it, if it runs and is on a server.
    pub lease_ends: Option<Time>,
    /// The process that has claimed it, if that is known.
    pub node: Option<String>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How long its last run took, if it has completed.
    pub took_ms: Option<u64>,
    /// The actions that it allows now: of `run_now`, `reschedule`, `cancel`, `retry`, `delete`, `again`. `run_now` is a
    /// `reschedule` to the present, `again` a [`Client::insert_copy`](crate::Client::insert_copy).
    pub actions: Vec<&'static str>,
}

/// A line of the timeline of a job.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct TimelineStep {
    /// `inserted`, `due`, `failed`, `interrupted`, `running`, `claimed`, `completed`, `dead`, `cancelled`, `expired`.
    pub what: &'static str,
    /// When it was, if that is known.
    pub at: Option<Time>,
    /// The number of the run.
    pub attempt: Option<u32>,
    /// The host and process id of the run.
    pub node: Option<String>,
    /// The error of the run.
    pub error: Option<String>,
}

struct Found {
    jobs: Vec<JobInfo>,
    /// The place after the last record that was looked at, unless that was the last of the list.
    next: Option<Place>,
    hit_limit: bool,
    records: u64,
}

impl View {
    /// Returns at most `most` jobs of a list, and at most 6,000, from a place on: [`JobList::next`], or none for the
    /// beginning.
    ///
    /// A filter by text, error, group, member or node reads each record. So does one by key for jobs that run or have
    /// ended, and [`ListState::Retrying`]. Such a search ends early: see [`Searched::hit_limit`].
    pub fn jobs(
        &self,
        filter: &JobFilter,
        from: Option<Place>,
        most: usize,
    ) -> Result<JobList, StoreError> {
        let most = most.clamp(1, MOST_SEARCHED as usize);
        let found = self.find(filter, from.unwrap_or_default(), most)?;
        let searched = match filter.is_search() {
            true => Some(Searched {
                records: found.records,
                of: self.records(filter)?,
                hit_limit: found.hit_limit,
            }),
            false => None,
        };
        let first = found.jobs.first().filter(|_| filter.group.is_some());
        let first_line = |job: &JobInfo| self.redactor.first_line(&job.kind, error_of(job));
        Ok(JobList {
            now: self.now(),
            rows: found.jobs.iter().map(|job| JobRow::of(job, &self.redactor)).collect(),
            total: self.total(filter)?,
            searched,
            next: found.next,
            error: first.map(first_line),
        })
    }

    /// Reads the list from a place on, until `most` jobs are found or the limit of a search is reached.
    fn find(&self, filter: &JobFilter, place: Place, most: usize) -> Result<Found, StoreError> {
        let mut found =
            Found { jobs: Vec::new(), next: None, hit_limit: false, records: place.searched };
        let (is_search, now) = (filter.is_search(), self.present());
        let takes = |job: &JobInfo| filter.takes(job, &self.redactor, now);
        if let Some(key) = filter.pending_key() {
            found.jobs.extend(self.client.keyed(key).get()?.filter(takes));
            return Ok(found);
        }
        let (mut after, mut bytes, mut records) = (place.after, 0, 0);
        'pages: loop {
            let limit = if is_search { STEP } else { most + 1 };
            let Page { jobs, next } = self.page(filter, after, limit)?;
            for job in jobs {
                if found.jobs.len() == most {
                    let searched = if is_search { found.records } else { 0 };
                    found.next = after.map(|after| Place { after: Some(after), searched });
                    return Ok(found);
                }
                after = Some(filter.place_of(&job));
                bytes += job.bytes();
                records += 1;
                found.records = found.records.saturating_add(1);
                if takes(&job) {
                    found.jobs.push(job);
                }
                if is_search && bytes >= MOST_BYTES {
                    break 'pages;
                }
            }
            let Some(next) = next else { return Ok(found) };
            after = Some(next);
            if records >= self.most_searched() || bytes >= MOST_BYTES {
                break;
            }
        }
        found.hit_limit = true;
        found.next = Some(Place { after, searched: found.records });
        Ok(found)
    }

    fn page(
        &self,
        filter: &JobFilter,
        after: Option<PageKey>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let (set, kind) = (filter.state.set(), filter.kind.clone());
        let (from, to) = filter.times(self.present());
        let page = PageRequest { set, kind, from, to, after, limit };
        self.client.answer_of(request::page(page))
    }

    fn most_searched(&self) -> u64 {
        if self.is_on_server() { MOST_SEARCHED_ON_A_SERVER } else { MOST_SEARCHED }
    }

    fn total(&self, filter: &JobFilter) -> Result<Option<Number>, StoreError> {
        if filter.is_set() {
            return Ok(None);
        }
        let counts = self.client.count()?;
        let exact = |count| Some(Number::exactly(count));
        Ok(match filter.state {
            ListState::Pending => exact(counts.pending),
            ListState::Overdue => Some(counts.overdue),
            ListState::Running => exact(counts.running + counts.claimed),
            ListState::Dead => exact(counts.dead),
            ListState::Retrying | ListState::Completed | ListState::Expired => None,
        })
    }

    /// Returns how many records a search has to read at most, if that is known.
    fn records(&self, filter: &JobFilter) -> Result<Option<u64>, StoreError> {
        if filter.kind.is_some() {
            return Ok(None);
        }
        let counts = self.client.count()?;
        Ok(match filter.state {
            ListState::Pending | ListState::Retrying => {
                Some(counts.pending + counts.claimed + counts.running)
            }
            ListState::Dead => Some(counts.dead),
            ListState::Overdue | ListState::Running | ListState::Completed | ListState::Expired => {
                None
            }
        })
    }

    /// Returns how many jobs a list has: at least, if it would have to be read further than a search is.
    pub fn count(&self, filter: &JobFilter) -> Result<Number, StoreError> {
        let is_of_groups = filter.state == ListState::Dead && !filter.is_more_than_a_group();
        if is_of_groups && !filter.is_set() {
            return Ok(Number::exactly(self.client.count()?.dead));
        }
        if is_of_groups {
            let groups = self.client.dead_by_error(MOST_GROUPS)?;
            let takes = |kind: &str, error: &str| {
                filter.takes_group(kind, &self.redactor.first_line(kind, error))
            };
            let jobs = groups.iter().filter(|group| takes(&group.kind, &group.error));
            let count = jobs.map(|group| group.jobs).sum();
            return Ok(Number { count, is_exact: groups.len() < MOST_GROUPS });
        }
        let now = self.present();
        if let Some(key) = filter.pending_key() {
            let job = self.client.keyed(key).get()?;
            let takes = job.is_some_and(|job| filter.takes(&job, &self.redactor, now));
            return Ok(Number::exactly(takes.into()));
        }
        let (mut after, mut count, mut records, mut bytes) = (None, 0, 0, 0);
        loop {
            let Page { jobs, next } = self.page(filter, after, STEP)?;
            records += jobs.len() as u64;
            bytes += jobs.iter().map(JobInfo::bytes).sum::<usize>();
            count +=
                jobs.iter().filter(|job| filter.takes(job, &self.redactor, now)).count() as u64;
            after = next;
            if after.is_none() || records >= self.most_searched() || bytes >= MOST_BYTES {
                return Ok(Number { count, is_exact: after.is_none() });
            }
        }
    }

    /// Returns each job of a list in turn, as it is stored, without redaction: for a change of them
    /// ([`Pages::cancel_all`] and so on), or to read them in a program.
    #[must_use]
    pub fn matching(&self, filter: &JobFilter) -> Pages {
        let (its, redactor, now) = (filter.clone(), self.redactor.clone(), self.present());
        let mut pages = Pages::new(self.own.clone(), filter.state.set());
        pages.kind.clone_from(&filter.kind);
        pages.key = filter.pending_key().map(str::to_owned);
        (pages.from, pages.to) = filter.times(now);
        pages.only(move |job| its.takes(job, &redactor, now))
    }

    /// Returns everything about a job. The beginning of a payload, a result or a progress is in it.
    pub fn job(&self, id: JobId) -> Result<Option<JobPage>, StoreError> {
        let Some(job) = self.client.get(id)? else { return Ok(None) };
        let redactor = &self.redactor;
        let content = |part, bytes: &Vec<u8>| redactor.content(&job.kind, part, bytes);
        let headers = redactor.headers(&job);
        let reasons = self.client.why_of(core::slice::from_ref(&job))?;
        let waits_for = reasons.into_iter().next().unwrap_or_default();
        Ok(Some(JobPage {
            now: self.now(),
            id,
            kind: job.kind.clone(),
            state: job.state,
            due: job.due.into(),
            key: job.key.clone(),
            partition: job.partition.clone(),
            group: job.group,
            failures: job.failures,
            attempt: job.attempt,
            interruptions: job.interruptions,
            retries_left: self.retries_left(&job)?,
            trace_id: trace_id(&headers),
            headers,
            payload: content(Part::Payload, &job.payload),
            result: job.result.as_ref().map(|result| content(Part::Result, result)),
            progress: job.progress.as_ref().map(|it| content(Part::Progress, it)),
            error: job.error.as_ref().map(|error| redactor.error(&job.kind, error)),
            expires: job.expires.map(Time::from),
            timeline: timeline(&job, redactor),
            waits_for,
            claimed: job.claimed.map(Time::from),
            lease_ends: job.lease_ends.map(Time::from),
            node: job.node.clone(),
            ended: job.ended.map(Time::from),
            took_ms: job.took.map(|took| took.as_millis() as u64),
            actions: actions(job.state).to_vec(),
        }))
    }

    fn retries_left(&self, job: &JobInfo) -> Result<Option<u32>, StoreError> {
        if job.ended.is_some() {
            return Ok(None);
        }
        let most = match job.retry {
            Some(retry) => Some(retry.most()),
            None => {
                let nodes = self.client.nodes()?.into_iter();
                let its =
                    nodes.filter_map(|node| Some((node.seen, *node.max_retries.get(&job.kind)?)));
                its.max().map(|(_, most)| most)
            }
        };
        Ok(most.map(|most| most.saturating_sub(job.failures)))
    }

    /// Returns a whole part of a job: its payload, result or progress. It is in its redacted form. A redacted part
    /// whose bytes are no text is returned as hexadecimal digits. Returns `None` if the store has no such job, or the
    /// job has no such part. Headers and errors are in [`JobPage`].
    pub fn whole(&self, id: JobId, part: Part) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(job) = self.client.get(id)? else { return Ok(None) };
        let bytes = match part {
            Part::Payload => Some(job.payload),
            Part::Result => job.result,
            Part::Progress => job.progress,
            Part::Headers | Part::Error => None,
        };
        Ok(bytes.map(|bytes| self.redactor.whole(&job.kind, part, bytes)))
    }
}

impl ListState {
    /// Every state.
    pub const ALL: [ListState; 7] = [
        ListState::Pending,
        ListState::Overdue,
        ListState::Running,
        ListState::Retrying,
        ListState::Dead,
        ListState::Completed,
        ListState::Expired,
    ];

    /// Returns the word for it: `pending`, `overdue`, `running`, `retrying`, `dead`, `completed`, `expired`.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.properties().0
    }

    /// Returns the changes that a page offers for such jobs: of `cancel`, `reschedule`, `retry`, `delete`.
    #[must_use]
    pub fn changes(self) -> &'static [&'static str] {
        self.properties().1
    }

    fn set(self) -> JobSet {
        self.properties().2
    }

    /// Returns its word, the changes of its jobs, and the set of the store that has them.
    fn properties(self) -> (&'static str, &'static [&'static str], JobSet) {
        match self {
            ListState::Pending => ("pending", &["cancel", "reschedule"], JobSet::Alive),
            ListState::Overdue => ("overdue", &["cancel", "reschedule"], JobSet::Alive),
            ListState::Running => ("running", &["cancel"], JobSet::Claimed),
            ListState::Retrying => ("retrying", &["cancel", "reschedule"], JobSet::Alive),
            ListState::Dead => ("dead", &["retry", "delete"], JobSet::Ended(Some(Ending::Dead))),
            ListState::Completed => ("completed", &[], JobSet::Ended(Some(Ending::Completed))),
            ListState::Expired => ("expired", &[], JobSet::Ended(Some(Ending::Expired))),
        }
    }
}

impl JobFilter {
    /// Returns the filter that takes all jobs of a state.
    #[must_use]
    pub fn new(state: ListState) -> JobFilter {
        JobFilter { state, ..JobFilter::default() }
    }

    /// Says whether the list has fewer jobs than those of its state.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.kind.is_some() || self.group.is_some() || self.is_more_than_a_group()
    }

    fn is_more_than_a_group(&self) -> bool {
        self.needs_records() || self.from.is_some() || self.to.is_some()
    }

    /// Says whether only the record of a job tells that the list has it, other than by its group of dead jobs.
    fn needs_records(&self) -> bool {
        let texts = [&self.key, &self.text, &self.error, &self.node];
        texts.into_iter().any(Option::is_some) || self.member_of.is_some()
    }

    /// Says whether each record has to be looked at.
    fn is_search(&self) -> bool {
        let is_of_some = self.group.is_some() || self.state == ListState::Retrying;
        self.pending_key().is_none() && (self.needs_records() || is_of_some)
    }

    /// Returns the key, if the list has the pending job of the key at most: the store finds that one by its key.
    fn pending_key(&self) -> Option<&str> {
        self.key.as_deref().filter(|_| self.state.set() == JobSet::Alive)
    }

    fn times(&self, now: Millis) -> (Millis, Millis) {
        let from = self
            .from
            .map_or(Millis::ZERO, |from| Millis::due(from).unwrap_or(Millis::present(from)));
        let to = self.to.map_or(Millis::MAX, Millis::present);
        (from, if self.state == ListState::Overdue { to.min(now) } else { to })
    }

    fn place_of(&self, job: &JobInfo) -> PageKey {
        let ended = job.ended.filter(|_| matches!(self.state.set(), JobSet::Ended(_)));
        (Millis::present(ended.unwrap_or(job.due)), job.id)
    }

    fn takes(&self, job: &JobInfo, redactor: &Redactor, now: Millis) -> bool {
        let state = match self.state.set() {
            JobSet::Alive if self.state == ListState::Retrying && job.failures == 0 => false,
            JobSet::Alive => job.state == JobState::Pending,
            JobSet::Claimed => matches!(job.state, JobState::Running | JobState::Claimed),
            JobSet::Ended(ending) => ending.is_some_and(|ending| job.state == ending.state()),
        };
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let due = Millis::present(job.due);
        let (from, to) = self.times(now);
        let first_line = || redactor.first_line(&job.kind, error_of(job));
        state
            && (from..=to).contains(&due)
            && is(&self.kind, Some(&job.kind))
            && is(&self.key, job.key.as_deref())
            && self.error.as_ref().is_none_or(|text| error_of(job).contains(text))
            && is(&self.node, job.node.as_deref())
            && self.member_of.is_none_or(|group| job.group == Some(group))
            && (self.group.is_none() || self.takes_group(&job.kind, &first_line()))
            && self.text.as_ref().is_none_or(|text| redactor.has(job, &text.to_lowercase()))
    }

    fn takes_group(&self, kind: &str, error: &str) -> bool {
        self.kind.as_ref().is_none_or(|wanted| wanted == kind)
            && self.group.is_none_or(|wanted| wanted == group_of(kind, error))
    }
}

/// Says which jobs these are: `the dead jobs of the kind "mail" with the key "7"`.
impl fmt::Display for JobFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} jobs", self.state.word())?;
        if let Some(kind) = &self.kind {
            write!(f, " of the kind {kind:?}")?;
        }
        if let Some(group) = &self.group {
            write!(f, " of the group {group}")?;
        }
        if let Some(group) = &self.member_of {
            write!(f, " that are members of {group}")?;
        }
        if let Some(node) = &self.node {
            write!(f, " on the node {node:?}")?;
        }
        let mut and = " with";
        for (name, text) in
            [("key", &self.key), ("text", &self.text), ("text in the error:", &self.error)]
        {
            if let Some(text) = text {
                write!(f, "{and} the {name} {text:?}")?;
                and = " and";
            }
        }
        for (name, time) in [("from", self.from), ("until", self.to)] {
            if let Some(time) = time {
                write!(f, ", due {name} {}", Time::from(time))?;
            }
        }
        Ok(())
    }
}

/// `1795341600250.0193..07`, with `.10000` behind it if a search has read 10,000 records.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((at, id)) = self.after else { return f.write_str("0") };
        write!(f, "{}.{id}", at.get())?;
        if self.searched > 0 {
            write!(f, ".{}", self.searched)?;
        }
        Ok(())
    }
}

impl Place {
    /// Reads a place as it prints.
    #[must_use]
    pub fn parse(text: &str) -> Option<Place> {
        if text == "0" {
            return Some(Place::default());
        }
        let mut parts = text.split('.');
        let ms: i64 = parts.next()?.parse().ok()?;
        let id: JobId = parts.next()?.parse().ok()?;
        let searched = parts.next().map_or(Some(0), |searched| searched.parse().ok())?;
        let is_whole = parts.next().is_none() && Millis::clamped(ms).get() == ms;
        is_whole.then_some(Place { after: Some((Millis::clamped(ms), id)), searched })
    }

    /// Says whether it is the beginning of the list.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.after.is_none()
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JobRow {
    pub(crate) fn of(job: &JobInfo, redactor: &Redactor) -> JobRow {
        let progress =
            |bytes: &Vec<u8>| cut(&redactor.line(&job.kind, Part::Progress, bytes), CELL_CHARS).0;
        let error = |error: &String| cut(&redactor.first_line(&job.kind, error), CELL_CHARS).0;
        JobRow {
            id: job.id,
            kind: job.kind.clone(),
            state: job.state,
            due: job.due.into(),
            key: job.key.clone(),
            failures: job.failures,
            attempt: job.attempt,
            interruptions: job.interruptions,
            error: job.error.as_ref().map(error),
            claimed: job.claimed.map(Time::from),
            lease_ends: job.lease_ends.map(Time::from),
            node: job.node.clone(),
            ended: job.ended.map(Time::from),
            took_ms: job.took.map(|took| took.as_millis() as u64),
            progress: job.progress.as_ref().map(progress),
        }
    }
}

fn error_of(job: &JobInfo) -> &str {
    job.error.as_deref().unwrap_or_default()
}

/// Returns the name of a group of dead jobs: a hash of the kind and the first line of the error, which may be empty or
/// long.
pub(super) fn group_of(kind: &str, error: &str) -> JobId {
    JobId::named(&format!("{} {kind}{error}", kind.len()))
}

/// Returns the actions that a page offers for a job.
fn actions(state: JobState) -> &'static [&'static str] {
    match state {
        JobState::Pending => &["run_now", "reschedule", "cancel"],
        JobState::Claimed | JobState::Running => &["cancel"],
        JobState::Dead => &["retry", "delete"],
        JobState::Completed | JobState::Cancelled | JobState::Expired => &["again"],
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
fn timeline(job: &JobInfo, redactor: &Redactor) -> Vec<TimelineStep> {
    let step = |what, at: Option<SystemTime>| TimelineStep {
        what,
        at: at.map(Time::from),
        ..TimelineStep::default()
    };
    let failure = |error: &AttemptError| {
        let node = Some(error.node.clone()).filter(|node| !node.is_empty());
        TimelineStep {
            what: if node.is_none() { "interrupted" } else { "failed" },
            at: Some(error.at.into()),
            attempt: Some(error.attempt),
            node,
            error: Some(redactor.error(&job.kind, &error.error)),
        }
    };
    let mut errors: Vec<&AttemptError> = job.errors.iter().collect();
    errors.sort_by_key(|error| error.attempt);
    // The due time is that of the latest attempt, and comes before its failure, also in the same millisecond.
    let earlier = errors.partition_point(|error| error.attempt < job.attempt);
    let inserted = job.inserted().map(|at| step("inserted", Some(at)));
    let mut steps: Vec<TimelineStep> = inserted.into_iter().collect();
    steps.extend(errors[..earlier].iter().map(|error| failure(error)));
    steps.push(step("due", Some(job.due)));
    steps.extend(errors[earlier..].iter().map(|error| failure(error)));
    let attempt = Some(job.attempt);
    match job.state {
        JobState::Running | JobState::Claimed => {
            let node = job.node.clone();
            steps.push(TimelineStep { attempt, node, ..step(job.state.word(), job.claimed) });
        }
        JobState::Completed | JobState::Dead | JobState::Cancelled | JobState::Expired => {
            steps.push(TimelineStep { attempt, ..step(job.state.word(), job.ended) });
        }
        JobState::Pending => {}
    }
    // The insert comes first, also of a job that was due before. A step without a time comes last. The end
    // comes after the failure of the same millisecond.
    steps.sort_by_key(|step| (step.what != "inserted", step.at.is_none(), step.at));
    steps
}
