//! The schedules, the processes, and the store.

use serde::Serialize;

use super::overview::is_missed;
use super::queue::View;
use super::values::Time;
use crate::api::request;
use crate::dispatch::clock::Clock;
use crate::store::StoredSchedule;
use crate::values::error::StoreError;
use crate::values::schedule::Rule;
use crate::values::time::Millis;

const NEXT: usize = 5;

/// Schedules of a queue.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Schedules {
    /// When they were asked for.
    pub now: Time,
    /// A row for each, by name.
    pub rows: Vec<ScheduleRow>,
    /// The schedule after which the next page begins, if there is one.
    pub next: Option<String>,
}

/// A schedule.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct ScheduleRow {
    /// Its name.
    pub name: String,
    /// The kind of its jobs.
    pub kind: String,
    /// `every 60000 ms`, `cron Europe/Berlin 0 7 * * mon-fri`.
    pub rule: String,
    /// `every minute`, `at the times of 0 7 * * mon-fri, in Europe/Berlin`.
    pub in_words: String,
    /// The next five occurrences; one if the rule is unknown to this program. If it is paused: those that would come
    /// if it were resumed now.
    pub next: Vec<Time>,
    /// The next occurrence is late: no process made it.
    pub is_missed: bool,
    /// While it is paused, it makes no occurrence.
    pub is_paused: bool,
}

/// The processes that run the jobs.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Nodes {
    /// When they were asked for.
    pub now: Time,
    /// A row for each, those that were seen last first.
    pub rows: Vec<NodeRow>,
    /// How many there are.
    pub total: u64,
    /// How many of them count as alive: on a server those that were seen within 30 seconds, else all.
    pub alive: u64,
}

/// A process that runs jobs.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct NodeRow {
    /// The name of its machine.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// Its version of this crate.
    pub version: String,
    /// When it was opened.
    pub started: Time,
    /// When it last changed the store. An idle process does so every ten seconds on a server, and not at all on a file.
    pub seen: Time,
    /// It was not seen for 30 seconds.
    pub is_quiet: bool,
    /// Its threads, if it was given a number.
    pub threads: Option<u64>,
    /// The jobs that it has claimed.
    pub in_flight: u64,
    /// How many runs it can have under way at once.
    pub most_runs: u64,
    /// The kinds that it handles.
    pub kinds: Vec<String>,
}

/// The store's report on itself.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Store {
    /// When it was asked for.
    pub now: Time,
    /// `file`, `server` or `memory`.
    pub sort: &'static str,
    /// The path of the file. A server is not named: its URL may have a password.
    pub path: Option<String>,
    /// The size of the file.
    pub bytes: Option<u64>,
    /// The size of its log.
    pub log_bytes: Option<u64>,
    /// The version of this crate in this process.
    pub version: &'static str,
    /// Jobs that wait.
    pub pending: u64,
    /// Jobs that run, and those that are claimed.
    pub running: u64,
    /// Jobs that are dead.
    pub dead: u64,
    /// Schedules.
    pub schedules: u64,
    /// Of this process: how often its client has committed.
    pub commits: u64,
    /// Of this process: how often its client has waited for the disk.
    pub syncs: u64,
    /// Of this process: how many commits of its client have failed.
    pub failed_commits: u64,
    /// How long this question took.
    pub answered_in_ms: u64,
}

impl View {
    /// Returns at most `most` schedules by name, from the one behind `after` on.
    pub fn schedules(&self, after: Option<&str>, most: usize) -> Result<Schedules, StoreError> {
        let now = self.present();
        let mut all = self.stored_schedules()?;
        let paused =
            crate::values::setting::QueueSettings::of(&self.stored_settings()?).paused_schedules;
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let begin = all.partition_point(|it| after.is_some_and(|after| *it.name <= *after));
        let shown = &all[begin..all.len().min(begin.saturating_add(most))];
        let is_last = begin + shown.len() == all.len();
        let row = |it: &StoredSchedule| ScheduleRow::of(it, paused.contains(&it.name), now);
        Ok(Schedules {
            now: Time(now),
            rows: shown.iter().map(row).collect(),
            next: if is_last { None } else { shown.last().map(|schedule| schedule.name.clone()) },
        })
    }

    pub(super) fn stored_schedules(&self) -> Result<Vec<StoredSchedule>, StoreError> {
        self.client.answer_of(request::schedules())
    }

    /// Returns at most `most` processes that run the jobs of the queue, those that were seen last first.
    pub fn nodes(&self, most: usize) -> Result<Nodes, StoreError> {
        let now = self.present();
        let mut nodes = self.client.nodes()?;
        nodes.sort_by_key(|node| core::cmp::Reverse(node.seen));
        let total = nodes.len() as u64;
        let alive = nodes.iter().filter(|node| self.is_there(node)).count() as u64;
        let row = |node: crate::values::node::NodeInfo| NodeRow {
            is_quiet: !node.was_seen_lately(now.to_system()),
            host: node.host,
            pid: node.pid,
            version: node.version,
            started: node.started.into(),
            seen: node.seen.into(),
            threads: node.threads.map(|threads| threads as u64),
            in_flight: node.in_flight as u64,
            most_runs: node.most_runs as u64,
            kinds: node.kinds,
        };
        let rows = nodes.into_iter().take(most).map(row).collect();
        Ok(Nodes { now: Time(now), rows, total, alive })
    }

    /// Returns what the store says of itself.
    pub fn store(&self) -> Result<Store, StoreError> {
        let asked = Clock::of_system().now().instant;
        let counts = self.client.count()?;
        let took = Clock::of_system().now().instant.duration_since(asked);
        let stats = self.own.stats();
        #[cfg(feature = "sqlite-unbundled")]
        let path = self.client.file();
        #[cfg(not(feature = "sqlite-unbundled"))]
        let path: Option<&std::path::Path> = None;
        let size = |path: &std::path::Path| std::fs::metadata(path).ok().map(|file| file.len());
        let log = path.map(|path| {
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            std::path::PathBuf::from(log)
        });
        Ok(Store {
            now: self.now(),
            sort: match (path, self.is_on_server()) {
                (_, true) => "server",
                (Some(_), false) => "file",
                (None, false) => "memory",
            },
            path: path.map(|path| path.display().to_string()),
            bytes: path.and_then(size),
            log_bytes: log.as_deref().and_then(size),
            version: env!("CARGO_PKG_VERSION"),
            pending: counts.pending,
            running: counts.running + counts.claimed,
            dead: counts.dead,
            schedules: counts.schedules,
            commits: stats.commits,
            syncs: stats.syncs,
            failed_commits: stats.failed_commits,
            answered_in_ms: took.as_millis() as u64,
        })
    }
}

impl ScheduleRow {
    fn of(schedule: &StoredSchedule, is_paused: bool, now: Millis) -> ScheduleRow {
        let rule = &schedule.schedule.rule;
        let first = match is_paused {
            true => rule.skip_to(schedule.next, now),
            false => Some(schedule.next),
        };
        let mut next: Vec<Millis> = first.into_iter().collect();
        while let Some(time) =
            next.last().and_then(|last| rule.after(*last)).filter(|_| next.len() < NEXT)
        {
            next.push(time);
        }
        ScheduleRow {
            name: schedule.name.clone(),
            kind: schedule.kind.clone(),
            rule: schedule.rule_text.clone(),
            in_words: in_words(schedule),
            next: next.into_iter().map(Time).collect(),
            is_missed: is_missed(schedule, is_paused, now),
            is_paused,
        }
    }
}

fn in_words(schedule: &StoredSchedule) -> String {
    let rule = match &schedule.schedule.rule {
        Rule::Every(ms) => every(*ms),
        #[cfg(feature = "cron")]
        Rule::Cron(cron) => {
            format!("at the times of {}, in {}", cron.expression, cron.zone_name)
        }
        Rule::Unknown => schedule.rule_text.clone(),
    };
    if schedule.schedule.without_overlap { format!("{rule}, without overlap") } else { rule }
}

fn every(ms: u64) -> String {
    let units = [
        (604_800_000, "week"),
        (86_400_000, "day"),
        (3_600_000, "hour"),
        (60_000, "minute"),
        (1_000, "second"),
        (1, "millisecond"),
    ];
    let unit = units.into_iter().find(|(length, _)| ms > 0 && ms.is_multiple_of(*length));
    let (length, name) = unit.unwrap_or((1, "millisecond"));
    match ms / length {
        1 => format!("every {name}"),
        many => format!("every {many} {name}s"),
    }
}
