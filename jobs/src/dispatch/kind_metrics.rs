//! The lateness and the run times of a process, by kind.
//!
//! Ground rules:
//!
//! - The kinds are known when the jobs start, and never change. So a lookup needs no lock, and a record is a few
//!   additions to atomics.
//! - At most [`MOST_KINDS`] kinds have counters of their own, so that their number has a bound. The others share
//!   those of [`OTHER`].

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tickwheel::{Histogram, Lateness};

use crate::values::buckets::Buckets;
use crate::values::history::{MOST_KINDS, OTHER};
use crate::values::run_report::Outcome;

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
    /// How long its runs took, by outcome.
    ended: [Buckets; Outcome::ALL.len()],
}

impl KindStats {
    /// Returns how long the runs with this outcome took. Their number is that of the ends: see
    /// [`Buckets::count`].
    #[must_use]
    pub fn ended(&self, outcome: Outcome) -> &Buckets {
        &self.ended[outcome as usize]
    }
}

/// The counters of all kinds.
#[derive(Default)]
pub(crate) struct KindMetrics {
    places: HashMap<Arc<str>, usize>,
    kinds: Vec<(Arc<str>, OfKind)>,
}

/// The counters of a kind.
#[derive(Default)]
struct OfKind {
    lateness: Histogram,
    lateness_buckets: Counted,
    run_time: Histogram,
    ended: [Counted; Outcome::ALL.len()],
}

/// The counters behind [`Buckets`].
#[derive(Default)]
struct Counted {
    counts: [AtomicU64; Buckets::BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Counted {
    fn record(&self, duration: Duration) {
        self.counts[Buckets::bucket(duration)].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn is_any(&self) -> bool {
        self.counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    fn snapshot(&self) -> Buckets {
        let counts = core::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        Buckets { counts, sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)) }
    }
}

impl KindMetrics {
    /// Makes the counters of these kinds, which are sorted.
    pub(crate) fn new(kinds: &[Arc<str>]) -> KindMetrics {
        let is_own = |kind: &&Arc<str>| kinds.len() <= MOST_KINDS || &***kind != OTHER;
        let mut names: Vec<Arc<str>> =
            kinds.iter().filter(is_own).take(MOST_KINDS).cloned().collect();
        let mut places: HashMap<Arc<str>, usize> =
            names.iter().cloned().enumerate().map(|(at, kind)| (kind, at)).collect();
        if kinds.len() > MOST_KINDS {
            for kind in kinds {
                places.entry(Arc::clone(kind)).or_insert(names.len());
            }
            names.push(Arc::from(OTHER));
        }
        let kinds = names.into_iter().map(|kind| (kind, OfKind::default())).collect();
        KindMetrics { places, kinds }
    }

    fn of(&self, kind: &str) -> Option<&OfKind> {
        self.places.get(kind).map(|at| &self.kinds[*at].1)
    }

    /// Counts the start of a run.
    pub(crate) fn started(&self, kind: &str, late: Duration) {
        if let Some(of_kind) = self.of(kind) {
            of_kind.lateness.record(late);
            of_kind.lateness_buckets.record(late);
        }
    }

    /// Counts the end of a run.
    pub(crate) fn ended(&self, kind: &str, outcome: Outcome, took: Duration) {
        if let Some(of_kind) = self.of(kind) {
            of_kind.run_time.record(took);
            of_kind.ended[outcome as usize].record(took);
        }
    }

    /// Returns the kinds of which a run has started.
    pub(crate) fn snapshot(&self) -> Vec<KindStats> {
        let has_run = |(_, of_kind): &&(Arc<str>, OfKind)| of_kind.lateness_buckets.is_any();
        let snapshot = |(kind, of_kind): &(Arc<str>, OfKind)| KindStats {
            kind: kind.to_string(),
            lateness: of_kind.lateness.lateness(),
            lateness_buckets: of_kind.lateness_buckets.snapshot(),
            run_time: of_kind.run_time.lateness(),
            ended: core::array::from_fn(|at| of_kind.ended[at].snapshot()),
        };
        self.kinds.iter().filter(has_run).map(snapshot).collect()
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

    /// A run is counted under its kind, its outcome, and the exact bounds. A kind without a run is not listed.
    #[test]
    fn run_is_counted_under_its_kind_and_outcome() {
        let metrics = KindMetrics::new(&kinds(["a", "b", "c"].map(str::to_owned)));
        metrics.started("b", 5 * MS);
        metrics.started("b", 7 * MS);
        metrics.ended("b", Outcome::Retried, 2 * MS);
        metrics.ended("b", Outcome::Completed, 3 * MS);
        metrics.started("unknown", MS);
        metrics.ended("unknown", Outcome::Dead, MS);
        let stats = metrics.snapshot();
        let [of_b] = &stats[..] else { panic!("{stats:?}") };
        assert_eq!((&*of_b.kind, of_b.lateness.count, of_b.run_time.count), ("b", 2, 2));
        assert_eq!((of_b.lateness_buckets.sum, of_b.lateness.sum), (12 * MS, 12 * MS));
        assert_eq!(of_b.lateness_buckets.counts[..4], [0, 0, 1, 1]);
        assert_eq!(of_b.ended(Outcome::Retried).counts[..3], [0, 1, 0]);
        for outcome in Outcome::ALL {
            let is_in = [Outcome::Retried, Outcome::Completed].contains(outcome);
            assert_eq!(of_b.ended(*outcome).count(), u64::from(is_in), "{outcome}");
        }
    }

    /// 200 kinds have counters of their own. Of more kinds the first 200 by name have, and the others share
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
