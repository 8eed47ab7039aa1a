//! The metrics of a queue, for a monitoring system: the gauges of the store and of limits, and the counters of this
//! process.
//!
//! Ground rules:
//!
//! - No label has an id, a key, an error or a payload. A label has a kind or the name of a schedule, up to
//!   [`MOST_KINDS`](crate::values::history::MOST_KINDS) of each, so that the number of series has a bound.
//! - A counter stays under its name. So the kinds of a process are those that it handles, and not those that its
//!   store has.
//! - A scope of limits has samples while it has a limit or is held, up to [`MOST_SCOPES_SHOWN`] scopes: the queue, and
//!   flows by name. Partitions are not bounded in number. They are counted, and never a label.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use tickwheel::Metrics;

use super::asynchronous::both;
use super::client::Client;
use super::group::MOST_LISTED;
use super::limits::{Scopes, SeenLimit};
use super::request::{self, Caller};
use crate::dispatch::metrics::KindStats;
use crate::store::{KindGauges, StoredSchedule};
use crate::values::error::StoreError;
use crate::values::history::{Buckets, Labels};
use crate::values::node::NodeInfo;
use crate::values::run_end::Outcome;
use crate::values::setting::QueueSettings;
use crate::values::stored_limits::{self, LimitScope};
use crate::values::time::Millis;

/// The label of the queue that has no name.
const DEFAULT_QUEUE: &str = "default";

both! {
    Client:
    /// Returns the metrics of the queue, for Prometheus or another monitoring system: the store's gauges, and if this
    /// process runs the jobs, its counters. `docs/metrics.md` lists them, with rules for alerts and a dashboard.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Push;
    /// # impl Job for Push { const KIND: &'static str = "push"; }
    /// # let (jobs, driver) = Jobs::memory().handle(|_: Push, _| Ok(())).manual()?;
    /// # let accept = Some("text/plain");
    /// // The answer to a request of `/metrics`, with the value of its header `Accept`:
    /// let (content_type, text) = jobs.metrics()?.for_accept(accept);
    /// # assert!(content_type.starts_with("text/plain"));
    /// # assert!(text.contains("tickwheel_jobs_pending{kind=\"push\",queue=\"default\"} 0\n"));
    /// # drop((jobs, driver));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// It asks the store five questions, and up to two more if there are limits. On a file or a server their cost does
    /// not grow with the number of jobs. If many processes run the jobs of a server, let one of them, or the command
    /// `tickwheel-jobs metrics`, tell the store's gauges, and the others only [`Client::process_metrics`].
    /// [`Metrics::add`] puts several queues, and the program's own metrics, into one text.
    ///
    /// # Errors
    ///
    /// If the store could not be read. [`Client::process_metrics`] needs no store.
    #[doc(alias("prometheus", "openmetrics", "scrape"))]
    pub fn metrics(&self) -> Result<Metrics, StoreError> = |it, caller| {
        let kinds = it.ask(caller, request::gauges()).await?;
        let nodes = it.ask(caller, request::nodes()).await?;
        let mut schedules = it.ask(caller, request::schedules()).await?;
        // A paused schedule makes no job at its time. An alert about that would be wrong.
        let stored = it.ask(caller, request::settings()).await?;
        let settings = QueueSettings::of(&stored);
        schedules.retain(|schedule| !settings.paused_schedules.contains(&schedule.name));
        let mut metrics = Metrics::new();
        it.store_gauges(&mut metrics, &kinds, &nodes, &schedules);
        it.limit_gauges(caller, &mut metrics, &stored, &kinds).await?;
        let groups = it.ask(caller, request::groups(MOST_LISTED)).await?;
        if !groups.is_empty() {
            let open = groups.iter().filter(|group| group.ended.is_none()).count();
            let (labels, help) =
                ([("queue", it.queue_name())], "Groups that are not over, of the last 1000.");
            metrics.gauge("tickwheel_jobs_open_groups", help, &labels, open as f64);
        }
        metrics.add(it.process_metrics());
        Ok(metrics)
    };
}

impl Client {
    /// Returns the counters of this process, without a question to the store. There are none in a process that runs no
    /// jobs.
    #[must_use]
    pub fn process_metrics(&self) -> Metrics {
        let mut metrics = Metrics::new();
        if self.dispatcher.metrics.about.runs_jobs {
            self.jobs_here(&mut metrics);
            self.commits_here(&mut metrics);
        }
        metrics
    }

    pub(super) fn queue_name(&self) -> &str {
        self.dispatcher.metrics.about.queue.as_deref().unwrap_or(DEFAULT_QUEUE)
    }

    fn store_gauges(
        &self,
        metrics: &mut Metrics,
        kinds: &[KindGauges],
        nodes: &[NodeInfo],
        schedules: &[StoredSchedule],
    ) {
        let now = self.dispatcher.clock.latest().wall;
        let is_there = |node: &&NodeInfo| node.is_there(self.dispatcher.shared, now);
        let nodes: Vec<&NodeInfo> = nodes.iter().filter(is_there).collect();
        let handled: BTreeSet<&str> =
            nodes.iter().flat_map(|node| &node.kinds).map(String::as_str).collect();
        let is_handled = |kind| handled.contains(kind) || self.dispatcher.handles(kind);
        let labels = Labels::of(kinds.iter().map(|of| &*of.kind));
        // The gauges under each label, and how many of the pending jobs have no handler.
        let mut by_label = BTreeMap::<&str, (KindGauges, u64)>::new();
        for of in kinds {
            let (sum, unhandled) = by_label.entry(labels.label(&of.kind)).or_default();
            sum.pending += of.pending;
            sum.claimed += of.claimed;
            sum.dead += of.dead;
            sum.overdue += of.overdue;
            sum.oldest_overdue = sum.oldest_overdue.max(of.oldest_overdue);
            *unhandled += if is_handled(&of.kind) { 0 } else { of.pending };
        }
        let queue = self.queue_name();
        let mut gauge = |name, help, of: &dyn Fn(&KindGauges, u64) -> f64| {
            for (kind, (gauges, unhandled)) in &by_label {
                let labels = [("queue", queue), ("kind", *kind)];
                metrics.gauge(name, help, &labels, of(gauges, *unhandled));
            }
        };
        let help = "Jobs that wait, for their time or for a free slot.";
        gauge("tickwheel_jobs_pending", help, &|of, _| of.pending as f64);
        let help = "Pending jobs whose time has passed. At most 10000 are counted.";
        gauge("tickwheel_jobs_overdue", help, &|of, _| of.overdue as f64);
        let help = "How long the time of the oldest overdue job has passed.";
        let oldest = |of: &KindGauges, _| of.oldest_overdue.unwrap_or_default().as_secs_f64();
        gauge("tickwheel_jobs_oldest_overdue_seconds", help, &oldest);
        let help = "Jobs that a process has claimed: they run, or start soon.";
        gauge("tickwheel_jobs_claimed", help, &|of, _| of.claimed as f64);
        gauge("tickwheel_jobs_dead", "Dead jobs.", &|of, _| of.dead as f64);
        let help = "Pending jobs of kinds that no process handles.";
        gauge("tickwheel_jobs_unhandled", help, &|_, unhandled| unhandled as f64);
        let help = "Processes that run the jobs.";
        metrics.gauge("tickwheel_jobs_nodes", help, &[("queue", queue)], nodes.len() as f64);
        let mut next = BTreeMap::<&str, SystemTime>::new();
        let labels = Labels::of(schedules.iter().map(|schedule| &*schedule.name));
        for schedule in schedules {
            let its = schedule.next.to_system();
            let next = next.entry(labels.label(&schedule.name)).or_insert(its);
            *next = its.min(*next);
        }
        for (name, next) in next {
            let help = "When the next occurrence of a schedule is due, in seconds since 1970.";
            let labels = [("queue", queue), ("name", name)];
            let next = next.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let metric = "tickwheel_jobs_schedule_next_timestamp_seconds";
            metrics.gauge(metric, help, &labels, next.as_secs_f64());
        }
    }

    /// Adds what this process has done with jobs.
    fn jobs_here(&self, metrics: &mut Metrics) {
        let (of, queue) = (&self.dispatcher.metrics, self.queue_name());
        let longest = of.kinds.longest(self.dispatcher.clock.now().instant);
        for (kind, jobs) in of.kinds.inserted_elsewhere() {
            metrics.counter(INSERTED.0, INSERTED.1, &[("queue", queue), ("kind", &kind)], jobs);
        }
        for kind in of.kinds.all() {
            let labels = [("queue", queue), ("kind", &*kind.kind)];
            metrics.counter(INSERTED.0, INSERTED.1, &labels, kind.inserted);
            let started = kind.lateness_buckets.count();
            metrics.counter("tickwheel_jobs_started_total", "Runs that started.", &labels, started);
            let help = "Runs whose handler has started, and whose end is not in the store.";
            metrics.gauge("tickwheel_jobs_running", help, &labels, kind.running() as f64);
            let help = "For how long the oldest run has been under way, looked at once a second.";
            let its = longest.iter().filter(|(name, _)| *name == kind.kind).map(|(_, age)| *age);
            let longest = its.max().unwrap_or_default();
            let name = "tickwheel_jobs_longest_run_seconds";
            metrics.gauge(name, help, &labels, longest.as_secs_f64());
            let help = "How long after its due time a run started.";
            let name = "tickwheel_jobs_start_lateness_seconds";
            histogram(metrics, (name, help), &labels, &kind.lateness_buckets);
            ends(metrics, queue, &kind);
        }
        let help = "How many runs can be under way at once.";
        let most_runs = of.about.most_runs as f64;
        metrics.gauge("tickwheel_jobs_running_limit", help, &[("queue", queue)], most_runs);
    }

    /// Adds the work of the store for this process.
    fn commits_here(&self, metrics: &mut Metrics) {
        let (stats, queue) = (self.stats(), self.queue_name());
        let labels = [("queue", queue)];
        let mut counter = |name, help, value| metrics.counter(name, help, &labels, value);
        let help = "Claimed jobs that were found without the process that had claimed them.";
        counter("tickwheel_jobs_interruptions_total", help, stats.interruptions);
        let help = "Runs that lost their lease.";
        counter("tickwheel_jobs_leases_lost_total", help, stats.leases_lost);
        let help = "Commits that changed something.";
        counter("tickwheel_jobs_store_commits_total", help, stats.commits);
        let help = "Commits that failed.";
        counter("tickwheel_jobs_store_failed_commits_total", help, stats.failed_commits);
        let help = "Commits that waited for the disk.";
        counter("tickwheel_jobs_store_syncs_total", help, stats.syncs);
        let help = "How long the dispatcher's steps took that committed a change.";
        let name = "tickwheel_jobs_store_commit_duration_seconds";
        histogram(metrics, (name, help), &labels, &stats.commit_time);
        let (name, help) = ("tickwheel_jobs_store_log_bytes", "The size of the store's log.");
        metrics.gauge(name, help, &labels, stats.wal_bytes as f64);
        let (name, help) = ("tickwheel_jobs_build_info", "The version, and the kind of store.");
        let store = self.dispatcher.metrics.about.store;
        let version = env!("CARGO_PKG_VERSION");
        let labels = [("queue", queue), ("version", version), ("store", store)];
        metrics.gauge(name, help, &labels, 1.0);
    }

    /// Adds the gauges of the limits. Without a limit no question is asked.
    pub(super) async fn limit_gauges(
        &self,
        caller: Caller,
        metrics: &mut Metrics,
        stored: &[(String, String)],
        kinds: &[KindGauges],
    ) -> Result<(), StoreError> {
        let queue = self.queue_name();
        let mut scopes = self.scopes_in(stored);
        let of_partitions = partitions(stored, &scopes);
        let mut many = 0;
        scopes.retain(|scope, _| {
            many += usize::from(!scope.has_turns());
            !scope.has_turns() && many <= MOST_SCOPES_SHOWN
        });
        let now = self.dispatcher.clock.now().millis();
        let seen = self.seen_limits(caller, stored, scopes, kinds).await?;
        let mut gauge = |name, help, of: &dyn Fn(&SeenLimit) -> Option<f64>| {
            for seen in &seen {
                let (scope, flow) = match &seen.info.scope {
                    LimitScope::Flow(flow) => ("flow", &**flow),
                    _ => ("queue", ""),
                };
                if let Some(value) = of(seen) {
                    let labels = [("queue", queue), ("scope", scope), ("flow", flow)];
                    metrics.gauge(name, help, &labels, value);
                }
            }
        };
        let help = "Claimed jobs of a scope that has a limit or is held.";
        gauge("tickwheel_jobs_limit_claimed", help, &|seen| Some(seen.info.running as f64));
        let help = "How many jobs of the scope may run at once.";
        let most = |seen: &SeenLimit| seen.info.limit.most_running().map(f64::from);
        gauge("tickwheel_jobs_limit_most_claimed", help, &most);
        let help = "Pending jobs of the scope whose time has passed. At most 10000 are counted.";
        gauge("tickwheel_jobs_limit_waiting", help, &|seen| {
            seen.waiting.map(|jobs| jobs.count as f64)
        });
        let left = |until| seconds_until(until, now);
        let help = "Seconds until the rate of the scope lets the next job start.";
        let next = |seen: &SeenLimit| seen.info.limit.tokens().map(|_| left(seen.info.next_start));
        gauge("tickwheel_jobs_limit_next_start_seconds", help, &next);
        let help = "Seconds until the hold of the scope ends, or 0.";
        let held = |seen: &SeenLimit| Some(left(seen.info.held_until));
        gauge("tickwheel_jobs_limit_held_seconds", help, &held);
        if let Some((limited, paused)) = of_partitions {
            let (labels, help) = ([("queue", queue)], "Partitions with a limit of their own.");
            metrics.gauge("tickwheel_jobs_limited_partitions", help, &labels, limited as f64);
            let help = "Partitions that are paused.";
            metrics.gauge("tickwheel_jobs_paused_partitions", help, &labels, paused as f64);
        }
        Ok(())
    }
}

const INSERTED: (&str, &str) = ("tickwheel_jobs_inserted_total", "Jobs that were inserted.");

/// Adds the ends of the runs of a kind.
fn ends(metrics: &mut Metrics, queue: &str, kind: &KindStats) {
    for outcome in Outcome::ALL {
        let is_expired = *outcome == Outcome::Expired;
        let (ended, outcome) = (kind.ended(*outcome), outcome.to_string());
        let labels = [("queue", queue), ("kind", &*kind.kind), ("outcome", &*outcome)];
        let help = "Runs that ended, and jobs that expired, by outcome.";
        metrics.counter("tickwheel_jobs_ended_total", help, &labels, ended.count());
        // Sixteen more series for each outcome: so only for outcomes that occurred.
        if ended.count() > 0 && !is_expired {
            let (name, help) = ("tickwheel_jobs_run_duration_seconds", "How long runs took.");
            histogram(metrics, (name, help), &labels, ended);
        }
    }
}

fn histogram(
    metrics: &mut Metrics,
    (name, help): (&'static str, &'static str),
    labels: &[(&'static str, &str)],
    of: &Buckets,
) {
    let whole: (Duration, u64) = (of.sum, of.count());
    metrics.histogram(name, help, labels, of.cumulative(), whole);
}

/// The most scopes with samples.
const MOST_SCOPES_SHOWN: usize = 100;

/// Returns how many partitions have a limit of their own, and how many are paused, if any scope of partitions is
/// stored.
fn partitions(stored: &[(String, String)], scopes: &Scopes) -> Option<(usize, usize)> {
    let is_partition = |scope: &LimitScope| matches!(scope, LimitScope::Partition { .. });
    let limited = scopes.iter().filter(|(its, limit)| !limit.is_none() && is_partition(its));
    let paused = stored.iter().filter(|(name, _)| stored_limits::pause_in(name).is_some()).count();
    let has_any = scopes.keys().any(LimitScope::has_turns);
    has_any.then(|| (limited.count(), paused))
}

/// Returns how long it is until a time, or zero if it has passed or there is none.
fn seconds_until(until: Option<SystemTime>, now: Millis) -> f64 {
    let left = until.and_then(|until| until.duration_since(now.to_system()).ok());
    left.unwrap_or_default().as_secs_f64()
}
