//! What the pages and the JSON have beside the rows of [`tickwheel_jobs::view`]: links, filters as they were typed,
//! questions, the results of actions, the progress of changes, problems.

use serde::Serialize;

use tickwheel_jobs::JobId;
use tickwheel_jobs::view::{JobList, JobPage, Number, Overview, Time};

/// The reason of a refusal or failure, as a page and as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// A word for programs: `not_found`, `forbidden`, `bad_parameter`, `store_failed`.
    pub(crate) error: &'static str,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(status: u16, error: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, error, message: message.into() }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(404, "not_found", message)
    }
}

#[derive(Clone, Serialize)]
pub(crate) struct OverviewPage {
    #[serde(flatten)]
    pub(crate) view: Overview,
    pub(crate) queues: Vec<QueueRow>,
}

#[derive(Clone, Default, Serialize)]
pub(crate) struct QueueRow {
    pub(crate) name: String,
    /// It is the one that the page shows.
    pub(crate) is_current: bool,
    /// Why it could not be read; the numbers are zero then.
    pub(crate) problem: Option<String>,
    pub(crate) pending: u64,
    pub(crate) overdue: Option<Number>,
    pub(crate) dead: u64,
    /// The nodes that count as alive.
    pub(crate) alive_nodes: u64,
}

/// Which jobs a list has: the parameters of `jobs`, for the form of the filter.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub(crate) struct Filter {
    /// `pending`, `overdue`, `running`, `retrying`, `dead`, `completed`, `expired`.
    pub(crate) state: &'static str,
    pub(crate) kind: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) text: Option<String>,
    /// The group of dead jobs: its name in links.
    pub(crate) group: Option<String>,
    /// The first line of the error of the group, if a job of it was found.
    pub(crate) error: Option<String>,
    /// The group whose members these are.
    pub(crate) member: Option<String>,
    /// The node that has claimed them.
    pub(crate) node: Option<String>,
    /// Due from this time on, as the parameter had it.
    pub(crate) from: Option<String>,
    /// Due until this time.
    pub(crate) to: Option<String>,
}

impl Filter {
    pub(crate) const NAMES: [&str; 9] =
        ["state", "kind", "key", "text", "group", "member", "node", "from", "to"];

    pub(crate) fn pairs(&self) -> Vec<(&'static str, &str)> {
        let Filter { state, kind, key, text, group, member, node, from, to, error: _ } = self;
        let optional = [kind, key, text, group, member, node, from, to].map(Option::as_deref);
        let values = [Some(*state)].into_iter().chain(optional);
        Filter::NAMES.into_iter().zip(values).filter_map(|(name, it)| Some((name, it?))).collect()
    }
}

#[derive(Clone, Serialize)]
pub(crate) struct Jobs {
    #[serde(flatten)]
    pub(crate) list: JobList,
    pub(crate) filter: Filter,
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

#[derive(Clone, Serialize)]
pub(crate) struct Job {
    #[serde(flatten)]
    pub(crate) job: JobPage,
    pub(crate) trace_link: Option<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct Question {
    /// `retry`, `delete`, `cancel`, `reschedule`, `unschedule`, ..
    pub(crate) action: &'static str,
    /// How many jobs it is about; none if the question is about no number of jobs.
    pub(crate) jobs: Option<Number>,
    /// How many were confirmed, if that was asked before and there are more by now.
    pub(crate) confirmed: Option<Number>,
    pub(crate) scope: String,
    pub(crate) loses: bool,
    pub(crate) note: Option<String>,
    /// Where its form is posted to, for [`Frame::link`](crate::page::layout::Frame::link).
    #[serde(skip)]
    pub(crate) target: String,
    /// The fields that the form sends again, `confirm` among them.
    #[serde(skip)]
    pub(crate) fields: Vec<(String, String)>,
    /// The page to which "no" leads, for the same.
    #[serde(skip)]
    pub(crate) back: String,
}

#[derive(Clone, Serialize)]
pub(crate) struct Did {
    /// `done`; of a cancel of a job that runs, `asked_to_stop`.
    pub(crate) result: &'static str,
    pub(crate) text: String,
    /// The job that was made, or asked to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobId>,
    /// How many jobs, kinds, queues, scopes, schedules or groups were changed.
    #[serde(skip)]
    pub(crate) changed: u64,
}

impl Did {
    pub(crate) fn all(text: String, changed: u64) -> Did {
        Did { result: "done", text, job: None, changed }
    }
}

/// The bulks of this process, the newest first.
#[derive(Clone, Serialize)]
pub(crate) struct Bulks {
    pub(crate) now: Time,
    pub(crate) rows: Vec<Progress>,
}

#[derive(Clone, Default, Serialize)]
pub(crate) struct Progress {
    pub(crate) id: u64,
    pub(crate) queue: String,
    pub(crate) action: &'static str,
    pub(crate) scope: String,
    pub(crate) started: Time,
    pub(crate) ended: Option<Time>,
    /// `running`, `done`, `stopped`, `failed`.
    pub(crate) state: &'static str,
    /// How many jobs it was thought to be about.
    pub(crate) of: Number,
    pub(crate) seen: u64,
    pub(crate) changed: u64,
    pub(crate) asked_to_stop: u64,
    pub(crate) passed_over: u64,
    /// Why it failed, or why it was ended early.
    pub(crate) problem: Option<String>,
    /// Where the page goes once it has ended, for [`Frame::link`](crate::page::layout::Frame::link).
    #[serde(skip)]
    pub(crate) back: String,
}
