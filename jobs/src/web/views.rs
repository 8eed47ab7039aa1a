//! The views: plain values, from which the pages and the JSON are made.
//!
//! Ground rules:
//!
//! - Every text from a job is redacted before it is put into a view, and escaped by the page that shows it.
//! - A time serializes as RFC 3339. A number that JavaScript would round becomes a string when the JSON is printed, not
//!   here.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::values::pending_reason::PendingReason;
use crate::values::time::{Millis, rfc3339_text};

/// A time. It prints as `2026-11-22T10:00:00.000Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(Millis);

impl Time {
    pub(crate) fn new(time: SystemTime) -> Time {
        Time(Millis::present(time))
    }

    /// Returns the milliseconds since 1970.
    pub(crate) fn ms(self) -> i64 {
        self.0.get()
    }

    /// Returns the milliseconds from `earlier` to this time: below zero if this is the earlier one.
    pub(crate) fn ms_since(self, earlier: Time) -> i64 {
        self.ms() - earlier.ms()
    }
}

impl core::fmt::Display for Time {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&rfc3339_text(self.0.to_system()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The bound of the bucket that a duration falls into, in milliseconds, rounded up. Above every bound it is one more than
/// the last, and its JSON is the text `more than 3600000`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Bound(pub(crate) u64);

impl Bound {
    /// The last bound of the buckets.
    pub(crate) const LAST_MS: u64 = 3_600_000;

    pub(crate) fn of(bound: Duration) -> Bound {
        let ms = u64::try_from(bound.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        Bound(ms.min(Bound::LAST_MS + 1))
    }

    /// Says whether the duration is above every bound.
    pub(crate) fn is_above(self) -> bool {
        self.0 > Bound::LAST_MS
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_above() {
            true => serializer.collect_str(&format_args!("more than {}", Bound::LAST_MS)),
            false => serializer.serialize_u64(self.0),
        }
    }
}

/// How many there are, or at least how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Number {
    pub(crate) count: u64,
    /// False: there are `count` or more.
    pub(crate) is_exact: bool,
}

impl Number {
    /// Says whether `jobs` is not more than this number. A number that is not exact covers every other.
    pub(crate) fn covers(self, jobs: Number) -> bool {
        !self.is_exact || (jobs.is_exact && jobs.count <= self.count)
    }
}

/// As a form sends it: `8`, or `10000+`.
impl core::fmt::Display for Number {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}{}", self.count, if self.is_exact { "" } else { "+" })
    }
}

/// The reason of a refusal or failure, as a page and as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub(crate) status: u16,
    /// A word for programs: `not_found`, `forbidden`, `bad_parameter`, `store_failed`.
    pub(crate) error: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
}

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

/// The counts of a minute, or of an hour.
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
    /// The remedy.
    pub(crate) cure: String,
    /// A page that shows more, for [`Frame::link`](crate::web::page::layout::Frame::link).
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
    /// Where the whole of it is: `jobs/{id}/payload`, for [`Frame::link`](crate::web::page::layout::Frame::link).
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

/// The limits of a queue.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Limits {
    /// At most a hundred: first the queue, then flows, then each partition of a kind, then partitions.
    pub(crate) rows: Vec<LimitRow>,
    /// How many scopes have a limit, are held, or are paused partitions.
    pub(crate) total: u64,
}

/// A scope: its limit, and how far it is reached.
#[derive(Clone, Serialize)]
pub(crate) struct LimitRow {
    /// `queue`, `flow`, `each_partition`, `partition`.
    pub(crate) scope: &'static str,
    pub(crate) flow: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) partition: Option<String>,
    /// Its claimed jobs. Of each partition of a kind: those of the partition with the most.
    pub(crate) running: u64,
    /// How many of its jobs may run at once.
    pub(crate) most_running: Option<u32>,
    /// How many of its jobs may start in `per_ms`.
    pub(crate) rate: Option<u32>,
    pub(crate) per_ms: Option<u64>,
    pub(crate) burst: Option<u32>,
    pub(crate) weight: Option<u32>,
    /// Its overdue jobs. `None`: it is a partition, whose jobs are not counted.
    pub(crate) waiting: Option<Number>,
    /// The queue or the partition is paused.
    pub(crate) is_paused: bool,
    /// When its next job may start, if its rate lets none start now.
    pub(crate) next_start: Option<Time>,
    /// Until when no job of it starts, if it is held.
    pub(crate) held_until: Option<Time>,
}

impl LimitRow {
    /// Says whether as many of its jobs run as may.
    pub(crate) fn is_full(&self) -> bool {
        self.most_running.is_some_and(|most| self.running >= u64::from(most))
    }
}

/// The groups.
#[derive(Clone, Serialize)]
pub(crate) struct Groups {
    pub(crate) now: Time,
    /// At most a hundred, those that were made last first.
    pub(crate) rows: Vec<GroupRow>,
    /// There are older groups.
    pub(crate) has_more: bool,
}

/// A group.
#[derive(Clone, Serialize)]
pub(crate) struct GroupRow {
    /// 32 hexadecimal digits.
    pub(crate) id: String,
    pub(crate) made: Time,
    pub(crate) ended: Option<Time>,
    /// `open`: it takes further members. `sealed`: it waits for its members. `waits_for_the_dead`: only dead members
    /// keep it from its end. `cancelled`, `ended`.
    pub(crate) state: &'static str,
    /// `total` is the sum of the four others.
    pub(crate) total: u64,
    pub(crate) open: u64,
    pub(crate) completed: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
    pub(crate) waits_for_the_dead: bool,
    /// The job that is inserted when the group ends.
    pub(crate) callback: Option<String>,
}

/// The question before an action.
#[derive(Clone, Serialize)]
pub(crate) struct Question {
    /// `retry`, `delete`, `cancel`, `reschedule`, `unschedule`, ..
    pub(crate) action: &'static str,
    /// How many jobs it is about; none if it is about a schedule or a kind.
    pub(crate) jobs: Option<Number>,
    /// How many were confirmed, if that was asked before and there are more by now.
    pub(crate) confirmed: Option<Number>,
    /// The scope, as a sentence: `the dead jobs of the kind mail whose error is "timed out"`.
    pub(crate) scope: String,
    /// It loses jobs.
    pub(crate) loses: bool,
    /// Where its form is posted to, for [`Frame::link`](crate::web::page::layout::Frame::link).
    #[serde(skip)]
    pub(crate) target: String,
    /// The fields that the form sends again, `confirm` among them.
    #[serde(skip)]
    pub(crate) fields: Vec<(String, String)>,
    /// The page to which "no" leads, for the same.
    #[serde(skip)]
    pub(crate) back: String,
}

/// The bulks of this process, the newest first.
#[derive(Clone, Serialize)]
pub(crate) struct Bulks {
    pub(crate) now: Time,
    pub(crate) rows: Vec<Progress>,
}

/// How far a bulk is.
#[derive(Clone, Serialize)]
pub(crate) struct Progress {
    pub(crate) id: u64,
    /// The name of its queue.
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
    /// Where the page goes once it has ended, for [`Frame::link`](crate::web::page::layout::Frame::link).
    #[serde(skip)]
    pub(crate) back: String,
}
