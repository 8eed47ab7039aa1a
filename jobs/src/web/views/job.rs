//! The views of jobs: a list, one job, the groups of dead jobs.

use serde::Serialize;

use super::{Number, Time};
use crate::values::pending_reason::PendingReason;

/// How many of the digits of an id a list shows: its time and its number within the millisecond, in which the ids of a
/// process differ. The search and the command take them.
pub(crate) const SHOWN_DIGITS: usize = 14;

/// Which jobs a list has: the parameters of `jobs`, for the form of the filter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Filter {
    /// `pending`, `overdue`, `running`, `retrying`, `dead`, `completed`.
    pub(crate) state: &'static str,
    pub(crate) kind: Option<String>,
    pub(crate) key: Option<String>,
    /// The beginning of the id, or in the payload, key, headers, error or result, in their redacted form. Upper and lower case are the same.
    pub(crate) text: Option<String>,
    /// The group of dead jobs: its name in links.
    pub(crate) group: Option<String>,
    /// The first line of the error of the group, if a job of it was found.
    pub(crate) error: Option<String>,
    /// Due from this time on, as the parameter had it.
    pub(crate) from: Option<String>,
    /// Due until this time.
    pub(crate) to: Option<String>,
}

/// A page of jobs.
#[derive(Clone, Serialize)]
pub(crate) struct Jobs {
    pub(crate) now: Time,
    pub(crate) filter: Filter,
    /// At most a hundred.
    pub(crate) rows: Vec<JobRow>,
    /// How many jobs the filter takes, if that is known without reading them.
    pub(crate) total: Option<Number>,
    /// The extent of the search, if the filter needs one.
    pub(crate) searched: Option<Searched>,
    /// The query of the next page (`state=dead&after=..`), if there is one: `jobs?` and this is the link.
    pub(crate) older: Option<String>,
    /// The query of the page before.
    pub(crate) newer: Option<String>,
    /// The filter as a query, without the place in the list.
    pub(crate) query: String,
    /// The changes that these jobs allow, for the bulk: of `cancel`, `reschedule`, `retry`, `delete`.
    pub(crate) changes: Vec<&'static str>,
    /// The kinds of the queue, for completion: at most 200.
    pub(crate) kinds: Vec<String>,
}

/// How much a search has read: "searched 10,000 of 1,204,311".
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Searched {
    /// With this page and those before it.
    pub(crate) records: u64,
    pub(crate) of: Option<u64>,
    /// It stopped at its limit: the next page goes on from there. Else it has reached the end or filled a page.
    pub(crate) hit_limit: bool,
}

/// A job in a list.
#[derive(Clone, Serialize)]
pub(crate) struct JobRow {
    /// 32 hexadecimal digits, which need no escape in a link.
    pub(crate) id: String,
    pub(crate) kind: String,
    /// `pending`, `claimed`, `running`, `dead`, `completed`, `cancelled`.
    pub(crate) state: &'static str,
    pub(crate) due: Time,
    pub(crate) key: Option<String>,
    pub(crate) failures: u32,
    pub(crate) attempt: u32,
    pub(crate) interruptions: u32,
    /// The first line of its last error, cut to 200 characters.
    pub(crate) error: Option<String>,
    /// When its process claimed it, if it runs.
    pub(crate) claimed: Option<Time>,
    pub(crate) ended: Option<Time>,
    pub(crate) took_ms: Option<u64>,
    /// Its progress as one line of JSON, cut to 200 characters.
    pub(crate) progress: Option<String>,
}

/// Everything about a job.
#[derive(Clone, Serialize)]
pub(crate) struct Job {
    pub(crate) now: Time,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) state: &'static str,
    pub(crate) due: Time,
    pub(crate) key: Option<String>,
    pub(crate) partition: Option<String>,
    /// The id of its group.
    pub(crate) group: Option<String>,
    pub(crate) failures: u32,
    pub(crate) attempt: u32,
    pub(crate) interruptions: u32,
    pub(crate) headers: Vec<(String, String)>,
    /// The trace of its `traceparent` header: 32 hexadecimal digits.
    pub(crate) trace_id: Option<String>,
    /// The link to its trace, by the template of the dashboard.
    pub(crate) trace_link: Option<String>,
    pub(crate) payload: Content,
    pub(crate) result: Option<Content>,
    pub(crate) progress: Option<Content>,
    /// The last error, in full.
    pub(crate) error: Option<String>,
    /// In the order of time.
    pub(crate) timeline: Vec<Step>,
    /// Why it has not started, if it is pending.
    pub(crate) waits_for: Vec<PendingReason>,
    /// When its process claimed it, if it runs.
    pub(crate) claimed: Option<Time>,
    /// When its claim ends unless its process renews it, if it runs and is on a server.
    pub(crate) lease_ends: Option<Time>,
    pub(crate) ended: Option<Time>,
    pub(crate) took_ms: Option<u64>,
    /// The actions that it allows now: of `run_now`, `reschedule`, `cancel`, `retry`, `delete`. Empty for a reader
    /// who may change nothing. `run_now` is a `reschedule` without a time.
    pub(crate) actions: Vec<&'static str>,
}

/// A payload, a result or a progress.
#[derive(Clone, Serialize)]
pub(crate) struct Content {
    /// At most 4 KB. JSON is formatted; bytes that are no text are hexadecimal digits.
    pub(crate) text: String,
    /// `json`, `text` or `bytes`.
    pub(crate) format: &'static str,
    /// Its whole size as it is stored.
    pub(crate) bytes: u64,
    pub(crate) is_cut: bool,
    /// Where the whole of it is: `jobs/{id}/payload`, for [`Frame::link`](crate::web::frame::Frame::link).
    pub(crate) download: Option<String>,
}

/// A line of the timeline of a job.
#[derive(Clone, Serialize)]
pub(crate) struct Step {
    /// `inserted`, `due`, `failed`, `interrupted`, `running`, `claimed`, `completed`, `dead`, `cancelled`.
    pub(crate) what: &'static str,
    pub(crate) at: Option<Time>,
    pub(crate) attempt: Option<u32>,
    /// The host and process id of the run.
    pub(crate) node: Option<String>,
    pub(crate) error: Option<String>,
}

/// The dead jobs in groups.
#[derive(Clone, Serialize)]
pub(crate) struct Dead {
    pub(crate) now: Time,
    pub(crate) total: u64,
    /// At most a hundred, those with the most jobs first.
    pub(crate) groups: Vec<Group>,
    /// There are more groups.
    pub(crate) has_more: bool,
}

/// Dead jobs of one kind with one first line of the error.
#[derive(Clone, Serialize)]
pub(crate) struct Group {
    /// Its name as a parameter: a hash of the kind and the error.
    pub(crate) group: String,
    pub(crate) kind: String,
    /// In its redacted form. Groups with the same kind and form are one.
    pub(crate) error: String,
    pub(crate) jobs: u64,
    /// The query of its list: `jobs?` and this is the link. The bulk takes the same parameters as fields.
    pub(crate) query: String,
}
