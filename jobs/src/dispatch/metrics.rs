//! The counters of a process: runs, commits, lateness.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tickwheel::{Histogram, Lateness};

use super::kind_metrics::{KindMetrics, KindStats};
use crate::store::StoreStats;

/// The counters of this process since its jobs were started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Claimed jobs: they run, or start soon.
    pub in_flight: usize,
    /// Runs that have started.
    pub started: u64,
    /// Runs that completed.
    pub completed: u64,
    /// Runs that failed: also by a panic, or by a payload that does not decode.
    pub failed: u64,
    /// Runs that ended with [`Fail::snooze`](crate::Fail::snooze).
    pub snoozed: u64,
    /// Jobs that died in this process.
    pub died: u64,
    /// Commits that changed something.
    pub commits: u64,
    /// Commits that waited for the disk.
    pub syncs: u64,
    /// Commits that failed.
    pub failed_commits: u64,
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
    wal_bytes: AtomicU64,
    lateness: Histogram,
    pub(crate) kinds: KindMetrics,
    longest_step_nanos: AtomicU64,
}

impl Metrics {
    /// Makes the counters of a process that handles these kinds, which are sorted.
    pub(crate) fn of(kinds: &[Arc<str>]) -> Metrics {
        Metrics { kinds: KindMetrics::new(kinds), ..Metrics::default() }
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

    /// Notes the time that a step of the dispatcher took. Only the dispatcher's thread calls this.
    pub(crate) fn stepped(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if nanos > self.longest_step_nanos.load(Ordering::Relaxed) {
            self.longest_step_nanos.store(nanos, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_store_stats(&self, stats: StoreStats) {
        self.commits.store(stats.commits, Ordering::Relaxed);
        self.syncs.store(stats.syncs, Ordering::Relaxed);
        self.wal_bytes.store(stats.wal_bytes, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            started: read(&self.started),
            completed: read(&self.completed),
            failed: read(&self.failed),
            snoozed: read(&self.snoozed),
            died: read(&self.died),
            commits: read(&self.commits),
            syncs: read(&self.syncs),
            failed_commits: read(&self.failed_commits),
            wal_bytes: read(&self.wal_bytes),
            lateness: self.lateness.lateness(),
            kinds: self.kinds.snapshot(),
            longest_step: Duration::from_nanos(read(&self.longest_step_nanos)),
        }
    }
}
