//! How late jobs were: durations, counted by size.
//!
//! Buckets grow with the value (eight to every doubling, as in HdrHistogram), so recording is one
//! addition and a percentile is off by at most an eighth.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use super::Lateness;

/// Values below this have a bucket each.
const EXACT: u64 = 16;
/// From there on, there is this number of buckets for every doubling.
const STEPS: usize = 8;
const BUCKETS: usize = EXACT as usize + (64 - EXACT.ilog2() as usize) * STEPS;

/// Durations, counted by size.
pub(crate) struct Histogram {
    counts: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Histogram { counts, max: AtomicU64::new(0) }
    }

    pub(crate) fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        // A load first: the maximum seldom changes, and a load is shared.
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    pub(crate) fn lateness(&self) -> Lateness {
        let counts: Vec<u64> = self.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let max = self.max.load(Ordering::Relaxed);
        let percentile = |percent: u64| {
            let rank = (total * percent).div_ceil(100).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            Duration::from_nanos(found.map_or(0, |bucket| upper(bucket).min(max)))
        };
        Lateness { p50: percentile(50), p99: percentile(99), max: Duration::from_nanos(max) }
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
    }

    #[test]
    fn percentiles_of_a_known_population() {
        let histogram = Histogram::new();
        assert_eq!(histogram.lateness(), Lateness::default());
        (1..=100).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        let Lateness { p50, p99, max } = histogram.lateness();
        assert!(p50 >= Duration::from_millis(50) && p50 <= Duration::from_millis(57));
        assert!(p99 >= Duration::from_millis(99) && p99 <= max);
        assert_eq!(max, Duration::from_millis(100));
    }
}
