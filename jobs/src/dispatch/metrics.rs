//! What is counted while jobs run.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::store::words::Facts;
use crate::values::info::Lateness;

/// What has happened since the jobs were started, in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that are claimed: they run, or are about to.
    pub in_flight: usize,
    /// Runs that have started.
    pub started: u64,
    /// Runs that ended well.
    pub completed: u64,
    /// Runs that failed, panics included.
    pub failed: u64,
    /// Runs that put their job off, with [`Fail::snooze`](crate::Fail::snooze).
    pub snoozed: u64,
    /// Jobs that died here.
    pub died: u64,
    /// Commits that changed something.
    pub commits: u64,
    /// Those of them that waited for the disk.
    pub syncs: u64,
    /// Commits that failed.
    pub failed_commits: u64,
    /// The size of the store's log, in bytes.
    pub wal_bytes: u64,
    /// How late runs started.
    pub lateness: Lateness,
    /// The longest step of the dispatcher: how long it worked, in a commit or between two, without looking
    /// at what has come meanwhile. Waits for the disk, for a server and for another program's transaction
    /// count. Zero in a process that runs no jobs, and on a manual clock.
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
    longest_step_nanos: AtomicU64,
}

impl Metrics {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn started(&self, late: Duration) {
        Metrics::add(&self.started);
        self.lateness.add(late);
    }

    pub(crate) fn died(&self) {
        Metrics::add(&self.died);
    }

    pub(crate) fn commit_failed(&self) {
        Metrics::add(&self.failed_commits);
    }

    /// The dispatcher has made a step that took so long. It alone calls this.
    pub(crate) fn stepped(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if nanos > self.longest_step_nanos.load(Ordering::Relaxed) {
            self.longest_step_nanos.store(nanos, Ordering::Relaxed);
        }
    }

    pub(crate) fn keep(&self, facts: Facts) {
        self.commits.store(facts.commits, Ordering::Relaxed);
        self.syncs.store(facts.syncs, Ordering::Relaxed);
        self.wal_bytes.store(facts.wal_bytes, Ordering::Relaxed);
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
            lateness: self.lateness.snapshot(),
            longest_step: Duration::from_nanos(read(&self.longest_step_nanos)),
        }
    }
}

/// How many buckets a doubling has.
const PER_DOUBLING: u32 = 8;
const BUCKETS: usize = 40 * PER_DOUBLING as usize;

/// Counts durations in buckets whose width is an eighth of a power of two, in microseconds.
struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    max_micros: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: [const { AtomicU64::new(0) }; BUCKETS], max_micros: AtomicU64::new(0) }
    }
}

impl Histogram {
    fn add(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.max_micros.fetch_max(micros, Ordering::Relaxed);
        Metrics::add(&self.buckets[bucket(micros)]);
    }

    fn snapshot(&self) -> Lateness {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts: Vec<u64> = self.buckets.iter().map(read).collect();
        let count: u64 = counts.iter().sum();
        let max = Duration::from_micros(read(&self.max_micros));
        let quantile = |hundredths: u64| {
            let wanted = (count * hundredths).div_ceil(100);
            let mut seen = 0;
            for (index, bucket) in counts.iter().enumerate() {
                seen += bucket;
                if seen >= wanted {
                    return Duration::from_micros(upper_bound(index)).min(max);
                }
            }
            max
        };
        Lateness { count, p50: quantile(50), p99: quantile(99), max }
    }
}

/// Returns the bucket of a number: exact below 16, and within an eighth above.
fn bucket(micros: u64) -> usize {
    if micros < u64::from(2 * PER_DOUBLING) {
        return micros as usize;
    }
    let doublings = micros.ilog2() - PER_DOUBLING.ilog2();
    let index = u64::from(doublings * PER_DOUBLING) + (micros >> doublings);
    usize::try_from(index).unwrap_or(usize::MAX).min(BUCKETS - 1)
}

/// Returns the greatest number of a bucket.
fn upper_bound(index: usize) -> u64 {
    let per_doubling = PER_DOUBLING as usize;
    if index < 2 * per_doubling {
        return index as u64;
    }
    let doublings = index / per_doubling - 1;
    let within = (index % per_doubling + per_doubling) as u64;
    ((within + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_lies_in_its_bucket() {
        for micros in (0..5_000).chain([1 << 20, (1 << 30) + 12_345, 1 << 39]) {
            let index = bucket(micros);
            assert!(micros <= upper_bound(index), "{micros}");
            assert!(index == 0 || micros > upper_bound(index - 1), "{micros}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
