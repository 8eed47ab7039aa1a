//! Asks a store for the figures of `top`.
//!
//! Ground rules:
//!
//! - The number of questions depends on the number of kinds, up to [`MOST_KINDS`], and never on the number of jobs.
//! - A list has one page of [`MOST_ROWS`] jobs. Running jobs are listed if there are at most [`MOST_RUNS`], and so are
//!   limits, since their jobs are counted one by one.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Client, Counts, JobInfo, Step, StoreError};

use super::figures::{
    Figures, Group, GroupRow, KindRow, MOST_ROWS, Minute, Next, Node, Rates, Run, Time,
};
use crate::open::{Place, Sizes};
use crate::queue::LimitRow;
use crate::text::now;

/// The most kinds that have a row: as many as have a history of their own.
const MOST_KINDS: usize = 200;
/// The most running jobs that are listed, and counted by kind.
const MOST_RUNS: u64 = 4096;
/// The most groups of dead jobs that are added up to the dead jobs of each kind.
const MOST_GROUPS: usize = 1000;

const MINUTE: Duration = Duration::from_secs(60);

/// A queue, and its names.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) client: Client,
    pub(crate) store: String,
    pub(crate) queue: Option<String>,
    pub(crate) is_file: bool,
}

impl Source {
    pub(crate) fn new(client: Client, place: &Place) -> Source {
        let is_file = matches!(place.sizes, Sizes::File { .. });
        Source { client, store: place.name.clone(), queue: place.queue.clone(), is_file }
    }

    /// Reads the figures.
    pub(crate) fn figures(&self) -> Result<Figures, StoreError> {
        let client = &self.client;
        let time = Time(now());
        let window = Window::at(time);
        let counts = client.count()?;
        let nodes = client.nodes()?.into_iter().map(|node| Node::of(node, time));
        let mut nodes: Vec<Node> = nodes.collect();
        let runs = self.runs(counts)?;
        let groups = client.dead_by_error(MOST_GROUPS)?;
        let mut groups: Vec<Group> = groups
            .into_iter()
            .map(|group| Group { kind: group.kind, error: group.error, jobs: group.jobs })
            .collect();
        let entries = window.of(|range| client.history(Step::Minute, range))?;
        let mut schedules = client.schedules()?;
        schedules.sort_by_key(|schedule| (schedule.is_paused, schedule.next));
        schedules.truncate(MOST_ROWS);
        let limits = self.limits(counts)?;
        let job_groups = client.groups()?;

        let all = client.kinds()?;
        let all_kinds = all.len();
        let kinds = self.kinds(all, &window, &nodes, &runs, &groups, counts)?;
        groups.truncate(MOST_ROWS);
        let is_there = |node: &&Node| self.is_file || node.was_seen_lately;
        let limit = nodes.iter().filter(is_there).map(|node| node.most_runs).sum();
        nodes.sort_by(|a, b| (&a.host, a.pid, a.started).cmp(&(&b.host, b.pid, b.started)));
        nodes.truncate(MOST_ROWS);
        Ok(Figures {
            time,
            store: self.store.clone(),
            queue: self.queue.clone(),
            is_paused: client.is_paused()?,
            counts,
            limit,
            rates: Rates::of(&entries, window.from, time),
            all_kinds,
            kinds,
            nodes,
            runs: runs.map(|runs| runs.into_iter().take(MOST_ROWS).map(Run::of).collect()),
            dead_by_error: groups,
            next_schedules: schedules.into_iter().map(Next::of).collect(),
            limits,
            groups: job_groups.iter().take(MOST_ROWS).map(GroupRow::of).collect(),
            minutes: entries.iter().map(Minute::of).collect(),
        })
    }

    /// Returns the jobs that run, those that have been due for the longest first.
    fn runs(&self, counts: Counts) -> Result<Option<Vec<JobInfo>>, StoreError> {
        match counts.claimed + counts.running {
            0 => Ok(Some(Vec::new())),
            1..=MOST_RUNS => {
                let mut runs = self.client.running().next_page()?;
                runs.sort_by_key(|job| (job.due, job.id));
                Ok(Some(runs))
            }
            _ => Ok(None),
        }
    }

    /// Returns the limits, those first that let no job start now.
    fn limits(&self, counts: Counts) -> Result<Option<Vec<LimitRow>>, StoreError> {
        if counts.claimed + counts.running > MOST_RUNS {
            return Ok(None);
        }
        let limits = self.client.limits()?;
        let mut limits: Vec<LimitRow> = limits.iter().map(LimitRow::of).collect();
        limits.sort_by_key(|limit| !limit.is_reached);
        limits.truncate(MOST_ROWS);
        Ok(Some(limits))
    }

    fn kinds(
        &self,
        mut all: Vec<(String, u64)>,
        window: &Window,
        nodes: &[Node],
        runs: &Option<Vec<JobInfo>>,
        groups: &[Group],
        counts: Counts,
    ) -> Result<Vec<KindRow>, StoreError> {
        let mut dead: HashMap<&str, u64> = HashMap::new();
        for group in groups {
            *dead.entry(&group.kind).or_default() += group.jobs;
        }
        let dead_is_exact = groups.len() < MOST_GROUPS;
        let dead_of = |kind: &str| dead.get(kind).copied().unwrap_or(0);
        all.sort_by(|(a, jobs), (b, others)| {
            (others + dead_of(b)).cmp(&(jobs + dead_of(a))).then_with(|| a.cmp(b))
        });
        all.truncate(MOST_KINDS);
        let row = |(kind, jobs): (String, u64)| {
            let of_kind = self.client.kind_named(&kind);
            let entries = window.of(|range| of_kind.history(Step::Minute, range))?;
            let running = runs.as_ref().map(|runs| {
                let runs = runs.iter().filter(|job| job.kind == kind).count();
                u64::try_from(runs).unwrap_or(u64::MAX)
            });
            let has_node = nodes
                .iter()
                .any(|node| (self.is_file || node.was_seen_lately) && node.kinds.contains(&kind));
            Ok(KindRow {
                is_paused: of_kind.is_paused()?,
                has_node,
                pending: jobs.saturating_sub(running.unwrap_or(0)),
                running,
                dead: dead_of(&kind),
                dead_is_exact,
                oldest_overdue: self.oldest_overdue(&kind, window.now, counts)?,
                rates: Rates::of(&entries, window.from, window.now),
                kind,
            })
        };
        all.into_iter().map(row).collect()
    }

    /// Returns how long ago the oldest pending job of a kind became due. It reads one job.
    fn oldest_overdue(
        &self,
        kind: &str,
        now: Time,
        counts: Counts,
    ) -> Result<Option<Duration>, StoreError> {
        if counts.oldest_overdue.is_none() {
            return Ok(None);
        }
        let due = self.client.pending().kind_named(kind).between(SystemTime::UNIX_EPOCH, now.0);
        let page = due.from_one_job_on().next_page()?;
        Ok(page.first().map(|job| now.since(Time(job.due))))
    }
}

/// The minutes of a reading.
struct Window {
    /// When the minute before the present one began.
    from: Time,
    now: Time,
}

impl Window {
    fn at(now: Time) -> Window {
        let since = now.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let minute = Duration::from_secs(since.as_secs() / 60 * 60);
        Window { from: Time(SystemTime::UNIX_EPOCH + minute.saturating_sub(MINUTE)), now }
    }

    /// Calls `read` with the range of the last three minutes: the curve is about two of them.
    fn of<T>(
        &self,
        read: impl FnOnce(core::ops::Range<SystemTime>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // The clock of the store may be a little ahead of this process.
        read(self.from.0 - MINUTE..self.now.0 + MINUTE)
    }
}
