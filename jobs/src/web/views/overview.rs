//! The views of the whole queue: the overview, the kinds, the history.

use serde::Serialize;

use super::limits::{LimitRow, Limits};
use super::{Bound, Number, Time};

/// The first page.
#[derive(Clone, Serialize)]
pub(crate) struct Overview {
    pub(crate) now: Time,
    pub(crate) is_paused: bool,
    pub(crate) pending: u64,
    pub(crate) overdue: Number,
    pub(crate) oldest_overdue_ms: Option<u64>,
    /// Claimed jobs included, of every process.
    pub(crate) running: u64,
    /// How many runs the nodes that were seen lately can have under way at once.
    pub(crate) capacity: u64,
    pub(crate) dead: u64,
    pub(crate) schedules: u64,
    /// Of the last full minute.
    pub(crate) completed_per_minute: u64,
    /// Runs that failed, retried or not, in the last full minute.
    pub(crate) failed_per_minute: u64,
    /// Of the last sixty minutes: the bound of the bucket that the 99th of a hundred starts falls into.
    pub(crate) p99_late_ms: Option<Bound>,
    /// Sixty minutes, the oldest first, without gaps. The last one is not over yet.
    pub(crate) minutes: Vec<Minute>,
    pub(crate) queues: Vec<QueueRow>,
    pub(crate) warnings: Vec<Warning>,
}

/// What happened in a minute, or in an hour.
#[derive(Clone, Serialize)]
pub(crate) struct Minute {
    pub(crate) begin: Time,
    pub(crate) inserted: u64,
    pub(crate) completed: u64,
    /// Runs that failed: retried ones and dead ones.
    pub(crate) failed: u64,
    pub(crate) retried: u64,
    pub(crate) dead: u64,
    pub(crate) snoozed: u64,
    pub(crate) cancelled: u64,
    pub(crate) interrupted: u64,
    /// The bounds of the buckets into which the half and the 99th of a hundred starts fall: how late they were.
    pub(crate) p50_late_ms: Option<Bound>,
    pub(crate) p99_late_ms: Option<Bound>,
    /// The same of how long the runs took.
    pub(crate) p50_run_ms: Option<Bound>,
    pub(crate) p99_run_ms: Option<Bound>,
}

/// The history as JSON.
#[derive(Clone, Serialize)]
pub(crate) struct History {
    pub(crate) now: Time,
    /// `minute` or `hour`.
    pub(crate) step: &'static str,
    pub(crate) kind: Option<String>,
    /// The oldest first, without gaps.
    pub(crate) entries: Vec<Minute>,
}

/// A queue of the dashboard.
#[derive(Clone, Serialize)]
pub(crate) struct QueueRow {
    pub(crate) name: String,
    /// It is the one that the page shows.
    pub(crate) is_current: bool,
    /// Why it could not be read; the numbers are zero then.
    pub(crate) problem: Option<String>,
    pub(crate) pending: u64,
    pub(crate) overdue: Option<Number>,
    pub(crate) dead: u64,
    /// The nodes that were seen lately.
    pub(crate) nodes: u64,
}

/// Something that an operator should look at.
#[derive(Clone, Serialize)]
pub(crate) struct Warning {
    /// A word for programs: `no_node`, `no_handler`, `overdue`, `paused`, `log_grows`, `dead`, `lost_claims`.
    pub(crate) what: &'static str,
    pub(crate) text: String,
    /// What helps.
    pub(crate) cure: String,
    /// A page that shows more, for [`Frame::link`](crate::web::frame::Frame::link).
    pub(crate) link: Option<String>,
}

/// The kinds.
#[derive(Clone, Serialize)]
pub(crate) struct Kinds {
    pub(crate) now: Time,
    /// The queue is paused.
    pub(crate) is_paused: bool,
    /// At most a hundred, by name.
    pub(crate) rows: Vec<KindRow>,
    /// How many kinds there are.
    pub(crate) total: u64,
    /// The value of `after` of the next page, if there is one.
    pub(crate) next: Option<String>,
    /// This is not the first page.
    pub(crate) is_later_page: bool,
    /// The limits of the whole queue.
    pub(crate) limits: Limits,
}

/// A kind.
#[derive(Clone, Serialize)]
pub(crate) struct KindRow {
    pub(crate) name: String,
    /// Jobs that have not ended, those that run included.
    pub(crate) pending: u64,
    pub(crate) running: u64,
    /// How long ago its earliest pending job was due, if that has passed.
    pub(crate) oldest_overdue_ms: Option<u64>,
    /// When its earliest pending job is due.
    pub(crate) next_due: Option<Time>,
    /// Of the groups of dead jobs: exact unless there are very many groups.
    pub(crate) dead: Number,
    /// It is paused by itself.
    pub(crate) is_paused: bool,
    /// A process that handles it was seen lately.
    pub(crate) has_node: bool,
    /// In the last sixty minutes.
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    /// Of the last full minute.
    pub(crate) completed_per_minute: u64,
    /// Of a hundred runs of the last hour, if there was one.
    pub(crate) failures_in_hundred: Option<f64>,
    pub(crate) p50_late_ms: Option<Bound>,
    pub(crate) p99_late_ms: Option<Bound>,
    pub(crate) p50_run_ms: Option<Bound>,
    pub(crate) p99_run_ms: Option<Bound>,
    /// Completed runs of each of the last sixty minutes, the oldest first.
    pub(crate) sparkline: Vec<u64>,
    pub(crate) head_start_ms: Option<u64>,
    /// How many completed jobs are kept, in words.
    pub(crate) keeps: Option<String>,
    /// The limit of its flow, and that of each of its partitions: those that there are.
    pub(crate) limits: Vec<LimitRow>,
}
