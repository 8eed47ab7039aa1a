//! The history of a queue: what happened in each minute or hour, as a program reads it, with durations counted under
//! fixed bounds, as monitoring systems read them.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::time::rfc3339;

/// Durations, counted exactly under the bounds of [`Buckets::BOUNDS`]: a histogram for a monitoring system, whose
/// bounds are the same in every process and version. [`Lateness`](crate::Lateness) has quantiles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Buckets {
    /// How many durations each bucket has. The first bucket has those of at most the first bound, each further
    /// one those above the bound before it, and the last one those above every bound.
    pub counts: [u64; Buckets::BOUNDS.len() + 1],
    /// The sum of all durations. It stays at 584 years once it has reached them.
    pub sum: Duration,
}

impl Buckets {
    /// The bounds, each of which belongs to the bucket below it: from a millisecond to an hour.
    pub const BOUNDS: [Duration; 14] = [
        Duration::from_micros(1_000),
        Duration::from_micros(2_500),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(5),
        Duration::from_secs(30),
        Duration::from_secs(300),
        Duration::from_secs(3600),
    ];

    /// Returns the number of all durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns each bound, and how many durations are at most that long: the buckets of a Prometheus histogram,
    /// without the last one, which is [`Buckets::count`].
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + use<'_> {
        let mut below = 0;
        Buckets::BOUNDS.into_iter().zip(&self.counts).map(move |(bound, count)| {
            below += count;
            (bound, below)
        })
    }

    /// Returns the lowest bound that `in_hundred` of each hundred counted durations do not exceed: [`Duration::MAX`]
    /// above the last bound, `None` without durations. For the command `tickwheel-jobs` and the dashboard.
    #[doc(hidden)]
    #[must_use]
    pub fn bound_of(counts: &[u64], in_hundred: u64) -> Option<Duration> {
        let all: u64 = counts.iter().sum();
        let mut below = 0;
        let mut bounds = counts.iter().zip(Buckets::BOUNDS);
        let found = bounds.find(|(count, _)| {
            below += *count;
            below.saturating_mul(100) >= all.saturating_mul(in_hundred)
        });
        (all > 0).then(|| found.map_or(Duration::MAX, |(_, bound)| bound))
    }

    /// Returns the bucket of a duration.
    pub(crate) fn bucket(duration: Duration) -> usize {
        Buckets::BOUNDS.iter().take_while(|bound| **bound < duration).count()
    }
}

/// How many kinds have figures of their own. So a program that makes up kinds cannot fill a store or a process.
pub(crate) const MOST_KINDS: usize = 200;
/// The name of the further kinds together.
pub(crate) const OTHER: &str = "other";

/// The names that have labels of their own: the first [`MOST_KINDS`] of them.
pub(crate) struct Labels<'a>(Option<BTreeSet<&'a str>>);

impl<'a> Labels<'a> {
    pub(crate) fn of(names: impl Iterator<Item = &'a str>) -> Labels<'a> {
        let names: BTreeSet<&str> = names.collect();
        let are_few = names.len() <= MOST_KINDS;
        // A name that is that of the others is one of them.
        let own = names.into_iter().filter(|name| *name != OTHER).take(MOST_KINDS).collect();
        Labels((!are_few).then_some(own))
    }

    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|own| own.contains(name))
    }

    pub(crate) fn label(&self, name: &'a str) -> &'a str {
        if self.is_own(name) { name } else { OTHER }
    }
}

/// The length of the time that an entry of a history covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Step {
    /// A minute. A queue has these for 48 hours.
    Minute,
    /// An hour. A queue has these for 90 days.
    Hour,
}

impl Step {
    /// Returns the length as a duration.
    #[must_use]
    pub fn length(self) -> Duration {
        match self {
            Step::Minute => Duration::from_secs(60),
            Step::Hour => Duration::from_secs(3600),
        }
    }
}

/// Counts of the events of a minute or an hour, of all jobs of a queue or of those of one kind.
/// [`Queue::history`](crate::Queue::history) returns them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// When the minute or the hour began.
    #[serde(serialize_with = "rfc3339")]
    pub begin: SystemTime,
    /// Jobs that were inserted. Occurrences of schedules are among them, and jobs whose id was known are not.
    pub inserted: u64,
    /// Runs that ended well.
    pub completed: u64,
    /// Runs that failed, and whose jobs were retried later.
    pub retried: u64,
    /// Runs that were snoozed.
    pub snoozed: u64,
    /// Runs after which their jobs were dead.
    pub dead: u64,
    /// Jobs that were cancelled or replaced before they ran, and runs that failed after a cancel.
    pub cancelled: u64,
    /// Runs whose process ended, and runs that ended with [`Fail::interrupted`](crate::Fail::interrupted).
    pub interrupted: u64,
    /// Jobs that have expired: see [`NewJob::expires`](crate::NewJob::expires). No run of them is counted.
    pub expired: u64,
    /// How late the runs started that ended in this time: as many in each bucket, under the bounds of
    /// [`Buckets::BOUNDS`]. Interrupted runs are not among them.
    pub lateness: [u64; Buckets::BOUNDS.len() + 1],
    /// How long these runs took, under the same bounds.
    pub run_time: [u64; Buckets::BOUNDS.len() + 1],
}

impl HistoryEntry {
    /// Returns an entry without figures.
    pub(crate) fn at(begin: SystemTime) -> HistoryEntry {
        HistoryEntry {
            begin,
            inserted: 0,
            completed: 0,
            retried: 0,
            snoozed: 0,
            dead: 0,
            cancelled: 0,
            interrupted: 0,
            expired: 0,
            lateness: [0; Buckets::BOUNDS.len() + 1],
            run_time: [0; Buckets::BOUNDS.len() + 1],
        }
    }

    /// Returns the number of runs that ended, of which each is in one bucket of `lateness` and one of `run_time`.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.run_time.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P87: A duration that equals a bound is in the bucket below the bound, and a longer one is not.
    #[test]
    fn bucket_has_its_bound_and_nothing_longer() {
        let nano = Duration::from_nanos(1);
        for (at, bound) in Buckets::BOUNDS.into_iter().enumerate() {
            assert_eq!(Buckets::bucket(bound), at);
            assert_eq!(Buckets::bucket(bound - nano), at);
            assert_eq!(Buckets::bucket(bound + nano), at + 1);
        }
        assert_eq!((Buckets::bucket(Duration::ZERO), Buckets::bucket(Duration::MAX)), (0, 14));
    }

    /// A quantile is a bound of its bucket, and more than every bound if it is in the last one.
    #[test]
    fn quantile_above_every_bound_is_told_from_the_last_bound() {
        let mut counts = [0; Buckets::BOUNDS.len() + 1];
        assert_eq!(Buckets::bound_of(&counts, 99), None);
        counts[0] = 99;
        counts[13] = 1;
        assert_eq!(Buckets::bound_of(&counts, 99), Some(Duration::from_millis(1)));
        counts[13] = 2;
        assert_eq!(Buckets::bound_of(&counts, 99), Some(Duration::from_secs(3600)));
        counts[14] = 3;
        assert_eq!(Buckets::bound_of(&counts, 99), Some(Duration::MAX));
        assert_eq!(Buckets::bound_of(&counts, 50), Some(Duration::from_millis(1)));
    }

    /// P87: The cumulative counts end with the number of durations that no bound is too short for.
    #[test]
    fn cumulative_counts_grow_from_bound_to_bound() {
        let mut buckets = Buckets::default();
        for (at, count) in buckets.counts.iter_mut().enumerate() {
            *count = at as u64;
        }
        let found: Vec<u64> = buckets.cumulative().map(|(_, count)| count).collect();
        assert_eq!(found, [0, 1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91]);
        assert_eq!(buckets.count(), 105);
        assert!(buckets.cumulative().map(|(bound, _)| bound).eq(Buckets::BOUNDS));
    }
}
