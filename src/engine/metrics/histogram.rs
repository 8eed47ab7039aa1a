//! The lateness of jobs: durations, counted by size.
//!
//! Buckets grow with the value (eight to every doubling, as in HdrHistogram), so recording is two
//! additions and a quantile is off by at most an eighth.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Values below this have a bucket each.
const EXACT: u64 = 16;
/// From there on, there is this number of buckets for every doubling.
const STEPS: usize = 8;
const BUCKETS: usize = EXACT as usize + (64 - EXACT.ilog2() as usize) * STEPS;

/// The lateness of all jobs so far, or of those between two snapshots
/// ([`Stats::since`](crate::Stats::since)). Quantiles are rounded up, by at most an eighth.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Lateness {
    /// The number of jobs.
    pub count: u64,
    /// The sum of their lateness. It stays at 584 years (2^64 nanoseconds) once it has reached them.
    pub sum: Duration,
    /// Half of the jobs were no later than this.
    pub p50: Duration,
    /// All but one in a hundred were no later than this.
    pub p99: Duration,
    /// The greatest lateness, exactly. Between two snapshots it is rounded up by at most an eighth,
    /// unless it is the greatest of all jobs so far.
    pub max: Duration,
    /// The number of jobs in each bucket. Empty in the default.
    counts: Box<[u64]>,
}

impl Lateness {
    fn new(counts: Box<[u64]>, sum: Duration, max: Duration) -> Lateness {
        let count = counts.iter().sum();
        let zero = Duration::ZERO;
        let mut lateness = Lateness { count, sum, p50: zero, p99: zero, max, counts };
        lateness.p50 = lateness.quantile(0.5);
        lateness.p99 = lateness.quantile(0.99);
        lateness
    }

    /// Returns the lateness that a share `quantile` of the jobs, from 0 to 1, did not exceed: for
    /// `quantile(0.999)`, all jobs but one in a thousand. Zero without jobs.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Duration {
        // 0.07 of a hundred is 7.000000000000001, but means the seventh job.
        let rank = (self.count as f64 * quantile - 1e-6).ceil() as u64;
        let rank = rank.clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(Duration::ZERO, |bucket| Duration::from_nanos(upper(bucket)).min(self.max))
    }

    /// Returns the buckets from the least to the greatest: the longest duration that each counts,
    /// and the number of jobs in it. There are always the same 496 buckets, eight to every
    /// doubling; none without jobs.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// wheel.insert(Duration::ZERO, || ());
    /// driver.advance(Duration::from_secs(1));
    /// let limit = Duration::from_millis(10);
    /// let handover = wheel.stats().handover;
    /// let buckets = handover.buckets().filter(|&(most, _)| most <= limit);
    /// assert_eq!(buckets.map(|(_, jobs)| jobs).sum::<u64>(), 1);
    /// # Ok::<(), tickwheel::ConfigError>(())
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + use<'_> {
        let most = |bucket| Duration::from_nanos(upper(bucket));
        self.counts.iter().enumerate().map(move |(bucket, &count)| (most(bucket), count))
    }

    /// Returns each bound, and the number of jobs in the buckets that end at or below it. The bounds ascend.
    pub(super) fn cumulative(
        &self,
        bounds: impl Iterator<Item = Duration>,
    ) -> impl Iterator<Item = (Duration, u64)> {
        let mut buckets = self.buckets().peekable();
        let mut below = 0;
        bounds.map(move |bound| {
            while let Some((_, jobs)) = buckets.next_if(|(most, _)| *most <= bound) {
                below += jobs;
            }
            (bound, below)
        })
    }

    pub(super) fn since(&self, earlier: &Lateness) -> Lateness {
        let before = |bucket: usize| earlier.counts.get(bucket).copied().unwrap_or_default();
        let less = |(bucket, count): (usize, &u64)| count.saturating_sub(before(bucket));
        let counts: Box<[u64]> = self.counts.iter().enumerate().map(less).collect();
        let last = counts.iter().rposition(|&count| count > 0);
        let max = last.map_or(Duration::ZERO, |last| Duration::from_nanos(upper(last)));
        Lateness::new(counts, self.sum.saturating_sub(earlier.sum), max.min(self.max))
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count)
            .field("sum", &self.sum)
            .field("p50", &self.p50)
            .field("p99", &self.p99)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// Durations, counted by size, for programs and libraries that measure a lateness of their own, as
/// `tickwheel-jobs` does. Any number of threads may record. [`Histogram::lateness`] returns a
/// snapshot.
///
/// It takes 4 KB. Recording takes two additions, and no lock. The sum stays at 584 years once it has reached them.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Histogram;
/// let histogram = Histogram::new();
/// (1..=100).for_each(|ms| histogram.record(Duration::from_millis(ms)));
/// assert_eq!(histogram.lateness().max, Duration::from_millis(100));
/// ```
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Histogram {
    /// Returns an empty histogram.
    #[must_use]
    pub fn new() -> Histogram {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Histogram { counts, sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }

    /// Counts a duration. One of more than 584 years counts as 584 years.
    pub fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        // Not even 65,536 threads that add at once reach the maximum from here. The exact way is slower.
        let is_far = nanos < 1 << 47 && self.sum.load(Ordering::Relaxed) < 1 << 63;
        match is_far {
            true => drop(self.sum.fetch_add(nanos, Ordering::Relaxed)),
            false => {
                let add = |sum: u64| Some(sum.saturating_add(nanos));
                let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            }
        }
        // A load first: the maximum seldom changes, and a load is shared.
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// Returns how many durations were recorded.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Returns a snapshot of the durations recorded so far. While other threads record, count and
    /// sum may differ by the durations of that moment.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let nanos = |of: &AtomicU64| Duration::from_nanos(of.load(Ordering::Relaxed));
        Lateness::new(counts, nanos(&self.sum), nanos(&self.max))
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Histogram").field(&self.lateness()).finish()
    }
}

fn bucket(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let doubling = value.ilog2();
    let step = (value >> (doubling - STEPS.ilog2())) as usize - STEPS;
    EXACT as usize + (doubling - EXACT.ilog2()) as usize * STEPS + step
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(EXACT as usize) else { return bucket as u64 };
    let (doubling, step) = (above / STEPS, (above % STEPS) as u64);
    let width = 1_u64 << (doubling + (EXACT.ilog2() - STEPS.ilog2()) as usize);
    (width * (STEPS as u64 + step)).saturating_add(width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The buckets cover all values without a gap, and the bound of each exceeds its values by an
    /// eighth at most.
    #[test]
    fn buckets_follow_each_other_and_are_an_eighth_wide() {
        for value in (0..100_000).chain([u64::MAX - 1, u64::MAX, 1 << 63, (1 << 40) + 12345]) {
            let bucket = bucket(value);
            let upper = upper(bucket);
            assert!(value <= upper && upper - value <= value / 8, "{value} {upper}");
            assert!(bucket < BUCKETS);
            if upper < u64::MAX {
                assert_eq!(super::bucket(upper + 1), bucket + 1);
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(BUCKETS, 496, "the docs of `buckets` say so");
    }

    /// Returns whether `found` is `exact`, rounded up by at most an eighth.
    fn is_about(found: Duration, exact: Duration) -> bool {
        found >= exact && found <= exact + exact / 8
    }

    /// A quantile exceeds the exact one by an eighth at most; sum, count and maximum are exact.
    #[test]
    fn quantiles_are_exact_to_an_eighth() {
        let histogram = Histogram::new();
        let none = histogram.lateness();
        assert_eq!((none.count, none.sum, none.max), (0, Duration::ZERO, Duration::ZERO));
        assert_eq!(none.quantile(1.0), Duration::ZERO);
        (1..=100).for_each(|ms| histogram.record(ms * MS));
        let all = histogram.lateness();
        assert!(is_about(all.p50, 50 * MS) && is_about(all.p99, 99 * MS));
        assert_eq!((all.count, all.sum, all.max), (100, 5050 * MS, 100 * MS));
        for percent in 1..=100 {
            assert!(is_about(all.quantile(f64::from(percent) / 100.0), percent * MS), "{percent}");
        }
        assert!(is_about(all.quantile(0.0), MS) && is_about(all.quantile(-1.0), MS));
        assert_eq!([all.quantile(1.0), all.quantile(7.0)], [100 * MS; 2]);
    }

    /// C110: The sum stays at its maximum: a `_sum` that went backwards would look like a restart.
    #[test]
    fn sum_stays_at_its_maximum() {
        for step in [1 << 46, 1 << 62, u64::MAX - 1, u64::MAX] {
            let histogram = Histogram::new();
            let mut sum = 0_u64;
            while sum < u64::MAX {
                histogram.record(Duration::from_nanos(step));
                sum = sum.saturating_add(step);
                assert_eq!(histogram.sum.load(Ordering::Relaxed), sum);
            }
            histogram.record(Duration::MAX);
            assert_eq!(histogram.lateness().sum, Duration::from_nanos(u64::MAX));
        }
    }

    /// `since` has the jobs that were recorded between two snapshots, and no others.
    #[test]
    fn window_has_the_jobs_between_two_snapshots() {
        let histogram = Histogram::new();
        (1..=100).for_each(|ms| histogram.record(ms * MS));
        let earlier = histogram.lateness();
        (1..=10).for_each(|ms| histogram.record(ms * MS));
        let window = histogram.lateness().since(&earlier);
        assert_eq!((window.count, window.sum), (10, 55 * MS));
        assert!(is_about(window.p50, 5 * MS) && is_about(window.max, 10 * MS));
        assert_eq!(window.buckets().map(|(_, count)| count).sum::<u64>(), 10);
        assert_eq!(histogram.lateness().since(&Lateness::default()), histogram.lateness());
        let empty = histogram.lateness().since(&histogram.lateness());
        assert_eq!((empty.count, empty.max, empty.p99), (0, Duration::ZERO, Duration::ZERO));
    }
}
