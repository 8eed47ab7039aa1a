//! The figures that `top` shows: one reading of a queue, as values without a store behind them.
//!
//! Ground rules:
//!
//! - Each field of the JSON of `top --json` is a field here. `jobs/docs/command.md` lists them.
//! - Text is kept as the store has it. The page and the screen replace characters when they print it.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use tickwheel_jobs::{
    Buckets, Counts, GroupInfo, HistoryEntry, JobInfo, JobState, NodeInfo, ScheduleInfo,
};

use crate::queue;
use crate::queue::{LimitRow, bound_of_99};
use crate::text::utc;

/// The most rows of each list.
pub(crate) const MOST_ROWS: usize = 100;

/// One reading of a queue.
#[derive(Clone, Default, Serialize, Debug)]
pub(crate) struct Figures {
    #[serde(serialize_with = "as_utc")]
    pub(crate) time: Time,
    pub(crate) store: String,
    pub(crate) queue: Option<String>,
    pub(crate) is_paused: bool,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// How many runs the nodes can have under way at once, together.
    #[serde(rename = "running_limit")]
    pub(crate) limit: usize,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    /// How many kinds the store has had. `kinds` has those with the most jobs.
    pub(crate) all_kinds: usize,
    pub(crate) kinds: Vec<KindRow>,
    pub(crate) nodes: Vec<Node>,
    /// `None`: more jobs run than are listed.
    pub(crate) runs: Option<Vec<Run>>,
    pub(crate) dead_by_error: Vec<Group>,
    pub(crate) next_schedules: Vec<Next>,
    /// Those that let no job start come first. `None`: more jobs run than are counted by scope.
    pub(crate) limits: Option<Vec<LimitRow>>,
    /// Those that were made last.
    pub(crate) groups: Vec<GroupRow>,
    /// The figures of each of the last minutes, for the rates between two readings.
    #[serde(skip)]
    pub(crate) minutes: Vec<Minute>,
}

/// A time that has a default, so that a test can leave it out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Time(pub(crate) SystemTime);

impl Default for Time {
    fn default() -> Time {
        Time(SystemTime::UNIX_EPOCH)
    }
}

impl Time {
    /// Returns how long ago an earlier time was.
    pub(crate) fn since(self, earlier: Time) -> Duration {
        self.0.duration_since(earlier.0).unwrap_or_default()
    }
}

fn as_utc<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc(time.0))
}

fn as_utc_or_none<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| utc(time.0)).serialize(serializer)
}

fn as_ms<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let ms = span.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    ms.serialize(serializer)
}

/// Writes a bound as milliseconds, and a duration above every bound as an hour and a millisecond.
fn as_bound_ms<S: Serializer>(bound: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    let above = Duration::from_millis(3_600_001);
    bound.map(|bound| bound.min(above).as_secs_f64() * 1000.0).serialize(to)
}

/// The runs that ended in the present minute and in the one before it. The present minute ends with the reading.
#[derive(Clone, Default, PartialEq, Serialize, Debug)]
pub(crate) struct Rates {
    /// The length of both minutes, in seconds.
    #[serde(rename = "rate_seconds")]
    pub(crate) seconds: f64,
    pub(crate) completed: u64,
    /// Runs after which a job was retried or dead.
    pub(crate) failed: u64,
    pub(crate) completed_per_second: f64,
    pub(crate) failed_per_second: f64,
    /// 99 of 100 runs began at most this late: one of the bounds of [`Buckets`], or the longest duration.
    #[serde(rename = "late_p99_ms", serialize_with = "as_bound_ms")]
    pub(crate) late: Option<Duration>,
    #[serde(rename = "took_p99_ms", serialize_with = "as_bound_ms")]
    pub(crate) took: Option<Duration>,
}

/// How many runs ended in a minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Minute {
    pub(crate) begin: Time,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

impl Minute {
    pub(crate) fn of(entry: &HistoryEntry) -> Minute {
        let failed = entry.retried + entry.dead;
        Minute { begin: Time(entry.begin), completed: entry.completed, failed }
    }
}

impl Rates {
    /// Returns the rates at `now`, of entries that began at `from` or later.
    pub(crate) fn of(entries: &[HistoryEntry], from: Time, now: Time) -> Rates {
        let (mut late, mut took) = ([0; BUCKETS], [0; BUCKETS]);
        let (mut completed, mut failed) = (0, 0);
        for entry in entries.iter().filter(|entry| Time(entry.begin) >= from) {
            let minute = Minute::of(entry);
            completed += minute.completed;
            failed += minute.failed;
            late.iter_mut().zip(entry.lateness).for_each(|(sum, count)| *sum += count);
            took.iter_mut().zip(entry.run_time).for_each(|(sum, count)| *sum += count);
        }
        let seconds = now.since(from).as_secs_f64().max(1.0);
        Rates {
            seconds,
            completed,
            failed,
            completed_per_second: per_second(completed, seconds),
            failed_per_second: per_second(failed, seconds),
            late: bound_of_99(&late),
            took: bound_of_99(&took),
        }
    }
}

const BUCKETS: usize = Buckets::BOUNDS.len() + 1;

/// Returns a rate, rounded to thousandths.
#[expect(clippy::cast_precision_loss, reason = "a rate is rounded in any case")]
pub(crate) fn per_second(events: u64, seconds: f64) -> f64 {
    (events as f64 / seconds * 1000.0).round() / 1000.0
}

/// A kind, with its share of the figures.
#[derive(Clone, Default, Serialize, Debug)]
pub(crate) struct KindRow {
    pub(crate) kind: String,
    pub(crate) is_paused: bool,
    /// A process that handles the kind is there.
    pub(crate) has_node: bool,
    pub(crate) pending: u64,
    /// `None`: more jobs run than are counted by kind.
    pub(crate) running: Option<u64>,
    pub(crate) dead: u64,
    /// `dead` has all of them: the kind has none in the groups that were not read.
    pub(crate) dead_is_exact: bool,
    #[serde(rename = "oldest_overdue_ms", serialize_with = "as_ms")]
    pub(crate) oldest_overdue: Option<Duration>,
    #[serde(flatten)]
    pub(crate) rates: Rates,
}

/// A process that runs jobs.
#[derive(Clone, Default, Serialize, Debug)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) threads: Option<usize>,
    pub(crate) in_flight: usize,
    pub(crate) most_runs: usize,
    #[serde(serialize_with = "as_utc")]
    pub(crate) started: Time,
    #[serde(serialize_with = "as_utc")]
    pub(crate) seen: Time,
    /// It was seen in the last 30 seconds. On a file an idle process is not.
    pub(crate) was_seen_lately: bool,
    pub(crate) kinds: Vec<String>,
}

impl Node {
    pub(crate) fn of(node: NodeInfo, now: Time) -> Node {
        Node {
            was_seen_lately: node.was_seen_lately(now.0),
            host: node.host,
            pid: node.pid,
            version: node.version,
            threads: node.threads,
            in_flight: node.in_flight,
            most_runs: node.most_runs,
            started: Time(node.started),
            seen: Time(node.seen),
            kinds: node.kinds,
        }
    }
}

/// A job that runs.
#[derive(Clone, Default, Serialize, Debug)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) attempt: u32,
    #[serde(serialize_with = "as_utc")]
    pub(crate) due: Time,
    #[serde(serialize_with = "as_utc_or_none")]
    pub(crate) claimed: Option<Time>,
    /// Only on a server.
    #[serde(serialize_with = "as_utc_or_none")]
    pub(crate) lease_ends: Option<Time>,
    pub(crate) progress: Option<String>,
}

impl Run {
    pub(crate) fn of(job: JobInfo) -> Run {
        Run {
            id: job.id.to_string(),
            kind: job.kind,
            key: job.key,
            attempt: job.attempt,
            due: Time(job.due),
            claimed: job.claimed.map(Time),
            lease_ends: job.lease_ends.map(Time),
            progress: job.progress.map(|json| String::from_utf8_lossy(&json).into_owned()),
        }
    }
}

/// Dead jobs of a kind whose errors have the same first line.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Debug)]
pub(crate) struct Group {
    pub(crate) kind: String,
    pub(crate) error: String,
    pub(crate) jobs: u64,
}

/// A schedule, and its next occurrence.
#[derive(Clone, Default, Serialize, Debug)]
pub(crate) struct Next {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) rule: String,
    #[serde(serialize_with = "as_utc")]
    pub(crate) next: Time,
    pub(crate) is_paused: bool,
}

impl Next {
    pub(crate) fn of(schedule: ScheduleInfo) -> Next {
        let ScheduleInfo { name, kind, rule, next, is_paused, .. } = schedule;
        Next { name, kind, rule, next: Time(next), is_paused }
    }
}

/// Jobs that were inserted together, and whose end is one event.
#[derive(Clone, Default, Serialize, Debug)]
pub(crate) struct GroupRow {
    pub(crate) id: String,
    #[serde(serialize_with = "as_utc")]
    pub(crate) made: Time,
    pub(crate) state: &'static str,
    pub(crate) total: u64,
    pub(crate) open: u64,
    pub(crate) completed: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
}

impl GroupRow {
    pub(crate) fn of(group: &GroupInfo) -> GroupRow {
        GroupRow {
            id: group.id.to_string(),
            made: Time(group.made),
            state: if group.ended.is_some() { "ended" } else { queue::state(group) },
            total: group.total,
            open: group.open,
            completed: group.completed,
            dead: group.dead,
            cancelled: group.cancelled,
        }
    }
}

/// A job in a list.
#[derive(Clone, Default, Debug)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) state: String,
    pub(crate) is_dead: bool,
    pub(crate) has_ended: bool,
    pub(crate) key: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) failures: u32,
    pub(crate) due: Time,
    pub(crate) ended: Option<Time>,
}

impl Listed {
    pub(crate) fn of(job: &JobInfo) -> Listed {
        Listed {
            id: job.id.to_string(),
            kind: job.kind.clone(),
            state: job.state.to_string(),
            is_dead: job.state == JobState::Dead,
            has_ended: job.ended.is_some(),
            key: job.key.clone(),
            error: job.error.clone(),
            failures: job.failures,
            due: Time(job.due),
            ended: job.ended.map(Time),
        }
    }
}
