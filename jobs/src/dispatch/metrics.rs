//! The counters of a process: runs, commits, lateness.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tickwheel::{Histogram, Lateness};

use super::kind_metrics::{Counted, KindMetrics, KindStats};
use crate::store::StoreStats;
use crate::values::history::Buckets;

/// The counters of this process since its jobs were started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Claimed jobs: they run, or start soon.
    pub in_flight: usize,
    /// Runs that have started.
    pub started: u64,
    /// Runs whose handlers returned `Ok`. If a run had lost its lease, its job runs again all the same:
    /// [`KindStats::ended`] has the runs as they counted.
    pub completed: u64,
    /// Runs that failed: also by a panic, by a payload that does not decode, or by
    /// [`Fail::interrupted`](crate::Fail::interrupted).
    pub failed: u64,
    /// Runs that ended with [`Fail::snooze`](crate::Fail::snooze).
    pub snoozed: u64,
    /// Jobs that died of a failure in this process. Those that died of interruptions are not among them.
    pub died: u64,
    /// Claimed jobs that this process found without the process that had claimed them: on a file at its start, on a
    /// server once their leases were over. Each of them runs again, or is dead.
    pub interruptions: u64,
    /// Runs of this process that lost their lease.
    pub leases_lost: u64,
    /// Commits that changed something.
    pub commits: u64,
    /// Commits that waited for the disk.
    pub syncs: u64,
    /// Commits that failed.
    pub failed_commits: u64,
    /// How long the steps of the dispatcher took that committed a change. Zero on a manual clock.
    pub commit_time: Buckets,
    /// The size of the store's log, in bytes.
    pub wal_bytes: u64,
    /// How late runs started: the time from a job's due time to the start of its handler. For a job that was
    /// overdue when the process started, the time counts from that start.
    pub lateness: Lateness,
    /// The lateness and the run times of each kind of which a run has started, in the order of their names.
    pub kinds: Vec<KindStats>,
    /// The longest step of the dispatcher: the longest time, in a commit or between two, in which it took no
    /// new commands. It includes waits for the disk, for a server and for another program's transaction. Zero
    /// in a process that runs no jobs, and on a manual clock.
    pub longest_step: Duration,
}

/// The counters behind [`Stats`]. Nothing but a snapshot reads them.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) in_flight: AtomicUsize,
    pub(crate) started: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) snoozed: AtomicU64,
    died: AtomicU64,
    failed_commits: AtomicU64,
    commits: AtomicU64,
    syncs: AtomicU64,
    interruptions: AtomicU64,
    leases_lost: AtomicU64,
    commit_time: Counted,
    lateness: Histogram,
    pub(crate) kinds: KindMetrics,
    longest_step_nanos: AtomicU64,
    pub(crate) about: About,
}

/// Facts about a process that do not change while it has its jobs, for its metrics.
#[derive(Default)]
pub(crate) struct About {
    /// The queue, if it is not the default one.
    pub(crate) queue: Option<String>,
    /// The kind of its store: `memory`, `file` or `redis`.
    pub(crate) store: &'static str,
    pub(crate) runs_jobs: bool,
    /// How many runs the process can have under way at once.
    pub(crate) most_runs: usize,
}

impl Metrics {
    /// Makes the counters of a process that handles these kinds, which are sorted.
    pub(crate) fn of(kinds: &[Arc<str>], about: About) -> Metrics {
        Metrics { kinds: KindMetrics::new(kinds), about, ..Metrics::default() }
    }

    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn started(&self, kind: &str, late: Duration) {
        Metrics::add(&self.started);
        self.lateness.record(late);
        self.kinds.started(kind, late);
    }

    pub(crate) fn died(&self) {
        Metrics::add(&self.died);
    }

    pub(crate) fn commit_failed(&self) {
        Metrics::add(&self.failed_commits);
    }

    pub(crate) fn lease_lost(&self) {
        Metrics::add(&self.leases_lost);
    }

    /// Notes the time that a step of the dispatcher, or of a caller in its place, took.
    pub(crate) fn stepped(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if nanos > self.longest_step_nanos.load(Ordering::Relaxed) {
            self.longest_step_nanos.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// Takes the counters of the store after a step. `took` says how long the step took: it is asked only after a
    /// commit. Only the thread that makes the steps calls this.
    pub(crate) fn set_store_stats(&self, stats: StoreStats, took: impl FnOnce() -> Duration) {
        if self.commits.swap(stats.commits, Ordering::Relaxed) != stats.commits {
            self.commit_time.record(took());
        }
        self.interruptions.store(stats.interruptions, Ordering::Relaxed);
        self.syncs.store(stats.syncs, Ordering::Relaxed);
    }

    /// Returns the counters. `wal_bytes`: the present size of the store's log.
    pub(crate) fn snapshot(&self, wal_bytes: u64) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            started: read(&self.started),
            completed: read(&self.completed),
            failed: read(&self.failed),
            snoozed: read(&self.snoozed),
            died: read(&self.died),
            interruptions: read(&self.interruptions),
            leases_lost: read(&self.leases_lost),
            commits: read(&self.commits),
            syncs: read(&self.syncs),
            failed_commits: read(&self.failed_commits),
            commit_time: self.commit_time.snapshot(),
            wal_bytes,
            lateness: self.lateness.lateness(),
            kinds: self.kinds.snapshot(),
            longest_step: Duration::from_nanos(read(&self.longest_step_nanos)),
        }
    }
}
