//! The views of what runs and stores the jobs: schedules, nodes, the store.

use serde::Serialize;

use super::Time;

/// The schedules.
#[derive(Clone, Serialize)]
pub(crate) struct Schedules {
    pub(crate) now: Time,
    /// At most a hundred, by name.
    pub(crate) rows: Vec<ScheduleRow>,
    /// The value of `after` of the next page, if there is one.
    pub(crate) next: Option<String>,
    pub(crate) is_later_page: bool,
}

#[derive(Clone, Serialize)]
pub(crate) struct ScheduleRow {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// `every 60000 ms`, `cron Europe/Berlin 0 7 * * mon-fri`.
    pub(crate) rule: String,
    /// `every minute`, `by 0 7 * * mon-fri, in Europe/Berlin`.
    pub(crate) in_words: String,
    /// The next five occurrences; one if the rule is unknown to this program. If it is paused: those that would come
    /// if it were resumed now.
    pub(crate) next: Vec<Time>,
    /// The next occurrence is late: no process made it.
    pub(crate) is_missed: bool,
    /// While it is paused, it makes no occurrence.
    pub(crate) is_paused: bool,
}

/// The processes that run the jobs.
#[derive(Clone, Serialize)]
pub(crate) struct Nodes {
    pub(crate) now: Time,
    /// At most a hundred, those that were seen last first.
    pub(crate) rows: Vec<NodeRow>,
    pub(crate) total: u64,
}

#[derive(Clone, Serialize)]
pub(crate) struct NodeRow {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) started: Time,
    pub(crate) seen: Time,
    /// It was not seen for 30 seconds.
    pub(crate) is_quiet: bool,
    pub(crate) threads: Option<u64>,
    pub(crate) in_flight: u64,
    pub(crate) most_runs: u64,
    pub(crate) kinds: Vec<String>,
}

/// The store's report on itself.
#[derive(Clone, Serialize)]
pub(crate) struct Store {
    pub(crate) now: Time,
    /// `file`, `server` or `memory`.
    pub(crate) sort: &'static str,
    /// The path of the file. A server is not named: its URL may have a password.
    pub(crate) path: Option<String>,
    pub(crate) bytes: Option<u64>,
    pub(crate) log_bytes: Option<u64>,
    /// The version of this crate in this process.
    pub(crate) version: &'static str,
    pub(crate) pending: u64,
    pub(crate) running: u64,
    pub(crate) dead: u64,
    pub(crate) schedules: u64,
    /// Of this process: how often its client has committed, waited for the disk, and failed.
    pub(crate) commits: u64,
    pub(crate) syncs: u64,
    pub(crate) failed_commits: u64,
    /// How long the latest question took.
    pub(crate) answered_in_ms: u64,
}
