//! The counters of a process: runs, commits, lateness and run times, in all and by kind.
//!
//! Ground rules:
//!
//! - The kinds are known when the jobs start, and never change. So a lookup needs no lock, and a record is a few
//!   additions to atomics.
//! - At most [`MOST_KINDS`] kinds have counters of their own, so that their number has a bound. The others share those
//!   of [`OTHER`].
//! - Kinds that are only inserted here are not known before. Each has a counter once it comes, up to the same bound: a
//!   counter that moved to another name would look like a burst to a monitoring system.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use tickwheel::{Histogram, Lateness};

use super::run_state::RunState;
use crate::store::StoreStats;
use crate::values::history::{Buckets, Labels, MOST_KINDS, OTHER};
use crate::values::panics::locked;
use crate::values::run_end::Outcome;

/// The lateness and the run times of a kind in this process since its jobs were started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct KindStats {
    /// The kind. If a process handles more than 200 kinds, `other` has those behind the first 200 by name.
    pub kind: String,
    /// How late its runs started, as in [`Stats::lateness`](crate::Stats::lateness).
    pub lateness: Lateness,
    /// The same durations under fixed bounds.
    pub lateness_buckets: Buckets,
    /// How long its runs took, with every outcome: [`RunReport::took`](crate::RunReport::took).
    pub run_time: Lateness,
    /// See [`KindStats::ended`].
    ended: [Buckets; Outcome::ALL.len()],
    /// Its jobs that were inserted.
    pub(crate) inserted: u64,
}

impl KindStats {
    /// Returns how long the runs with this outcome took. For [`Outcome::Expired`] each job counts as zero, because it
    /// had no run: only the number ([`Buckets::count`]) has a meaning.
    #[must_use]
    pub fn ended(&self, outcome: Outcome) -> &Buckets {
        &self.ended[outcome as usize]
    }

    /// Returns how many runs are under way: they have started, and their end is not in the store.
    pub(crate) fn running(&self) -> u64 {
        let runs = Outcome::ALL.iter().filter(|outcome| **outcome != Outcome::Expired);
        let ended: u64 = runs.map(|outcome| self.ended(*outcome).count()).sum();
        self.lateness_buckets.count().saturating_sub(ended)
    }
}

#[derive(Default)]
pub(crate) struct KindMetrics {
    places: HashMap<Arc<str>, usize>,
    kinds: Vec<(Arc<str>, OfKind)>,
    /// How many jobs of kinds that have no handler here were inserted.
    inserted: Mutex<BTreeMap<Arc<str>, u64>>,
    /// The run of each kind that was the oldest at the last look.
    oldest: Mutex<Vec<Arc<RunState>>>,
}

#[derive(Default)]
struct OfKind {
    lateness: Histogram,
    lateness_buckets: CountedBuckets,
    run_time: Histogram,
    ended: [CountedBuckets; Outcome::ALL.len()],
    inserted: AtomicU64,
}

impl OfKind {
    fn snapshot((kind, of_kind): &(Arc<str>, OfKind)) -> KindStats {
        // The ends are read before the starts, so no run ends that has not started.
        let ended = core::array::from_fn(|at| of_kind.ended[at].snapshot());
        KindStats {
            kind: kind.to_string(),
            lateness: of_kind.lateness.lateness(),
            lateness_buckets: of_kind.lateness_buckets.snapshot(),
            run_time: of_kind.run_time.lateness(),
            ended,
            inserted: of_kind.inserted.load(Ordering::Relaxed),
        }
    }
}

/// The counters behind [`Buckets`].
#[derive(Default)]
pub(super) struct CountedBuckets {
    counts: [AtomicU64; Buckets::BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl CountedBuckets {
    pub(super) fn record(&self, duration: Duration) {
        self.counts[Buckets::bucket(duration)].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let add = |sum: u64| Some(sum.saturating_add(nanos));
        let _ = self.nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub(super) fn snapshot(&self) -> Buckets {
        let counts = core::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        Buckets { counts, sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)) }
    }
}

impl KindMetrics {
    /// Makes the counters of these kinds, which are sorted.
    pub(crate) fn new(kinds: &[Arc<str>]) -> KindMetrics {
        let labels = Labels::of(kinds.iter().map(|kind| &**kind));
        let (mut names, others): (Vec<Arc<str>>, Vec<Arc<str>>) =
            kinds.iter().cloned().partition(|kind| labels.is_own(kind));
        let all = names.iter().chain(&others).cloned().enumerate();
        let places = all.map(|(at, kind)| (kind, at.min(names.len()))).collect();
        if !others.is_empty() {
            names.push(Arc::from(OTHER));
        }
        let kinds = names.into_iter().map(|kind| (kind, OfKind::default())).collect();
        KindMetrics { places, kinds, ..KindMetrics::default() }
    }

    fn of(&self, kind: &str) -> Option<&OfKind> {
        self.places.get(kind).map(|at| &self.kinds[*at].1)
    }

    pub(crate) fn started(&self, kind: &str, late: Duration) {
        if let Some(of_kind) = self.of(kind) {
            of_kind.lateness.record(late);
            of_kind.lateness_buckets.record(late);
        }
    }

    pub(crate) fn ended(&self, kind: &str, outcome: Outcome, took: Duration) {
        if let Some(of_kind) = self.of(kind) {
            of_kind.run_time.record(took);
            of_kind.ended[outcome as usize].record(took);
        }
    }

    pub(crate) fn expired(&self, kind: &str) {
        if let Some(of_kind) = self.of(kind) {
            of_kind.ended[Outcome::Expired as usize].record(Duration::ZERO);
        }
    }

    pub(crate) fn inserted(&self, kind: &Arc<str>, jobs: u64) {
        if let Some(of_kind) = self.of(kind) {
            of_kind.inserted.fetch_add(jobs, Ordering::Relaxed);
            return;
        }
        let mut inserted = locked(&self.inserted);
        let has_room = inserted.contains_key(kind) || inserted.len() < MOST_KINDS;
        let kind = if has_room { Arc::clone(kind) } else { Arc::from(OTHER) };
        *inserted.entry(kind).or_default() += jobs;
    }

    /// Returns how many jobs were inserted of each kind that has no handler here.
    pub(crate) fn inserted_elsewhere(&self) -> Vec<(String, u64)> {
        locked(&self.inserted).iter().map(|(kind, jobs)| (kind.to_string(), *jobs)).collect()
    }

    /// Notes the oldest run of each kind, of those that have started. Returns those of the last look.
    pub(crate) fn replace_oldest(&self, runs: Vec<Arc<RunState>>) -> Vec<Arc<RunState>> {
        core::mem::replace(&mut *locked(&self.oldest), runs)
    }

    /// Returns each kind with the age of its oldest run. A run that has ended since the last look is left out: those
    /// that started after it were under way for no longer than the time between two looks.
    pub(crate) fn longest(&self, now: Instant) -> Vec<(String, Duration)> {
        let oldest = locked(&self.oldest);
        let under_way = oldest.iter().filter(|run| run.over().is_none() && run.took().is_none());
        under_way.filter_map(|run| Some((self.label(&run.kind), run.age(now)?))).collect()
    }

    /// Returns the name under which a handled kind is counted.
    fn label(&self, kind: &str) -> String {
        let place = self.places.get(kind).and_then(|at| self.kinds.get(*at));
        place.map_or(OTHER, |(name, _)| name).to_owned()
    }

    /// Returns the kinds of which a run has started or a job has expired.
    pub(crate) fn snapshot(&self) -> Vec<KindStats> {
        let expired = |kind: &KindStats| kind.ended(Outcome::Expired).count();
        let is_any = |kind: &KindStats| kind.lateness_buckets.count() + expired(kind) > 0;
        self.all().into_iter().filter(is_any).collect()
    }

    /// Returns all kinds that have handlers here.
    pub(crate) fn all(&self) -> Vec<KindStats> {
        self.kinds.iter().map(OfKind::snapshot).collect()
    }
}

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
    /// Jobs that this process has found expired: see [`NewJob::expires`](crate::NewJob::expires).
    pub expired: u64,
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
    /// The lateness and the run times of each kind of which a run has started or a job has expired, in the order of
    /// their names.
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
    pub(crate) died: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) failed_commits: AtomicU64,
    commits: AtomicU64,
    syncs: AtomicU64,
    interruptions: AtomicU64,
    pub(crate) leases_lost: AtomicU64,
    commit_time: CountedBuckets,
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

    /// Notes the time that a step of the dispatcher, or of a caller in its place, took.
    pub(crate) fn stepped(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if nanos > self.longest_step_nanos.load(Ordering::Relaxed) {
            self.longest_step_nanos.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// Counts a step: the counters of the store after it, and the inserted jobs of each kind. `took` says how long the
    /// step took: it is asked only after a commit. Only the thread that makes the steps calls this.
    pub(crate) fn count_step(
        &self,
        stats: StoreStats,
        inserted: &[(Arc<str>, u64)],
        took: impl FnOnce() -> Duration,
    ) {
        if self.commits.swap(stats.commits, Ordering::Relaxed) != stats.commits {
            self.commit_time.record(took());
        }
        self.interruptions.store(stats.interruptions, Ordering::Relaxed);
        self.syncs.store(stats.syncs, Ordering::Relaxed);
        inserted.iter().for_each(|(kind, jobs)| self.kinds.inserted(kind, *jobs));
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
            expired: read(&self.expired),
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn kinds(names: impl IntoIterator<Item = String>) -> Vec<Arc<str>> {
        let mut kinds: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
        kinds.sort_unstable();
        kinds
    }

    fn found(metrics: &KindMetrics) -> Vec<(String, u64)> {
        metrics.snapshot().into_iter().map(|of| (of.kind, of.lateness.count)).collect()
    }

    /// The sum under the exact bounds stays at its maximum.
    #[test]
    fn sum_stays_at_its_maximum() {
        let counted = CountedBuckets::default();
        for _ in 0..3 {
            counted.record(Duration::from_secs(1 << 34));
        }
        assert_eq!(counted.snapshot().sum, Duration::from_nanos(u64::MAX));
    }

    /// P84, P87: 200 kinds have counters of their own. Of more kinds the first 200 by name have, and the others share
    /// those of `other`, a kind of that name too.
    #[test]
    fn kinds_behind_the_first_200_are_counted_as_other() {
        let numbered = |many: usize| (0..many).map(|n| format!("kind-{n:03}"));
        let exactly = kinds(numbered(MOST_KINDS - 1).chain([OTHER.to_owned()]));
        let metrics = KindMetrics::new(&exactly);
        exactly.iter().for_each(|kind| metrics.started(kind, MS));
        assert!(found(&metrics).iter().all(|(_, count)| *count == 1));
        assert_eq!(found(&metrics).len(), MOST_KINDS);

        let more = kinds(numbered(MOST_KINDS + 7).chain([OTHER.to_owned()]));
        let metrics = KindMetrics::new(&more);
        more.iter().for_each(|kind| metrics.started(kind, MS));
        let mut listed = found(&metrics);
        assert_eq!(listed.pop(), Some((OTHER.to_owned(), 8)));
        assert_eq!(listed.len(), MOST_KINDS);
        assert!(listed.iter().all(|(kind, count)| &**kind < "kind-200" && *count == 1));
    }
}
