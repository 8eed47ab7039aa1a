//! The snapshot that `stats` returns: counters, and the lateness of jobs. `Tally` (`timers.rs`), `DispatchMetrics`
//! (`dispatch/mod.rs`) and the engine (`verbs/mod.rs`) count them.
//!
//! Lateness is a [`Histogram`] of durations, counted by size. Buckets grow with the value (eight to every doubling, as
//! in HdrHistogram), so recording is two additions and a quantile is off by at most an eighth.

mod prometheus;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

pub use prometheus::Metrics;

use crate::values::time::Span;

/// The bounds of the lateness in [`Stats::metrics`], in microseconds.
const BOUNDS_MICROS: [u64; 13] = [
    100, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    10_000_000,
];

/// A snapshot of a wheel's counters, from [`Wheel::stats`](crate::Wheel::stats).
///
/// `inserted == pending + cancelled + in_flight + completed + discarded`, also after the end of the
/// wheel. A job that comes back counts in `inserted` and in `fired` each time: a repeating job once
/// for every run. A cancel of a job that runs, or is on its way to the pool, ends the job but
/// counts nowhere. While other threads use the wheel, the counters of one shard agree; those of
/// several shards may be read a moment apart.
///
/// Counters are sums since the wheel began. [`Stats::since`] returns those of the time between two
/// snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that wait for their deadline, or for room in flight.
    pub pending: usize,
    /// Jobs that came due and have not returned: on their way to the pool, queued there, or
    /// running. With [`pending`](Stats::pending), every job is in one of the two until it has
    /// ended.
    pub in_flight: usize,
    /// Threads that run a job at this moment; perhaps too few while many start and end. Jobs that
    /// are in flight beyond these wait for a thread: if that lasts, the pool needs more threads.
    pub busy_threads: usize,
    /// Jobs inserted.
    pub inserted: u64,
    /// Jobs that an insert refused: the wheel was full or shut down, the period was zero, or the
    /// key had a job.
    pub refused: u64,
    /// Jobs cancelled or taken back before they came due.
    pub cancelled: u64,
    /// Resets of a pending job.
    pub resets: u64,
    /// Jobs that came due and left the wheel to be run: in flight, completed, or among those
    /// discarded.
    pub fired: u64,
    /// Jobs that have run to their end, or to their panic. (A job that was cancelled or put off on
    /// its way to the pool counts once a thread has taken it.)
    pub completed: u64,
    /// Jobs that were pending or queued at the end of the wheel: a shutdown returned them, or a
    /// drop dropped them.
    pub discarded: u64,
    /// Panics caught: of jobs, of wakers, of [`Full::Give`](crate::Full::Give), of the panic
    /// handler; and of captured values, keys and events while they were dropped.
    pub panicked: u64,
    /// Futures that wait: polled, not over, and not dropped. They are no jobs, and are in no other
    /// counter but [`woken`](Stats::woken).
    #[cfg(feature = "async")]
    pub sleeping: usize,
    /// Futures that were woken because their time had come.
    #[cfg(feature = "async")]
    pub woken: u64,
    /// Events that wait for their deadline, or for room in their channel
    /// ([`Events`](crate::Events)). They are no jobs, and are in no counter of jobs.
    pub events_pending: usize,
    /// Events that were sent because their time had come. A receiver may see one before it counts.
    pub events_delivered: u64,
    /// Events that came due while their channel was full, and were given to
    /// [`Full::Give`](crate::Full::Give).
    pub events_given_up: u64,
    /// How many times the ticker woke: because work was due, because an insert was earlier than all
    /// before, to read the wall clock, or because a job made room in flight.
    pub wakeups: u64,
    /// How many ticks the ticker was behind the clock when it last had work: zero or one on an idle
    /// machine, however long the wheel was idle before. It grows while the ticker gets no
    /// processor, or while the ticker waits because `max_in_flight` is reached.
    pub ticks_behind: Span,
    /// From the deadline, rounded up to a tick, to the hand-over to the pool. It is zero for a spawned job.
    pub handover: Lateness,
    /// From the hand-over to the pool to the start of the job. The lateness of one job is the sum
    /// of both; the quantiles of the two do not add up.
    pub start: Lateness,
}

impl Stats {
    /// Returns the counters and the lateness of the time between an earlier snapshot of the same
    /// wheel and this one. The gauges (`pending`, `in_flight`, `busy_threads`, `sleeping`,
    /// `events_pending`, `ticks_behind`) are those of this snapshot.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let second = Duration::from_secs(1);
    /// wheel.insert(second, || ());
    /// driver.advance(second);
    /// let noon = wheel.stats();
    /// wheel.insert(second, || ());
    /// wheel.insert(second, || ());
    /// let since_noon = wheel.stats().since(&noon);
    /// assert_eq!((since_noon.inserted, since_noon.completed), (2, 0));
    /// # Ok::<(), tickwheel::ConfigError>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Stats) -> Stats {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        Stats {
            inserted: less(self.inserted, earlier.inserted),
            refused: less(self.refused, earlier.refused),
            cancelled: less(self.cancelled, earlier.cancelled),
            resets: less(self.resets, earlier.resets),
            fired: less(self.fired, earlier.fired),
            completed: less(self.completed, earlier.completed),
            discarded: less(self.discarded, earlier.discarded),
            panicked: less(self.panicked, earlier.panicked),
            #[cfg(feature = "async")]
            woken: less(self.woken, earlier.woken),
            events_delivered: less(self.events_delivered, earlier.events_delivered),
            events_given_up: less(self.events_given_up, earlier.events_given_up),
            wakeups: less(self.wakeups, earlier.wakeups),
            handover: self.handover.since(&earlier.handover),
            start: self.start.since(&earlier.start),
            ..*self
        }
    }
    /// Returns the snapshot as metrics for Prometheus or another monitoring system. Each metric of
    /// the text has its meaning as its help.
    ///
    /// ```
    /// # use tickwheel::Wheel;
    /// let wheel = Wheel::new();
    /// println!("{}", wheel.stats().metrics());
    /// ```
    ///
    /// The counters are sums since the wheel began, as Prometheus expects. The labels tell nothing
    /// of the wheel: see [`Metrics::with_label`] and [`Metrics::add`] for a program with several. A
    /// job counts as late by the upper end of its bucket, so `le="0.001"` has the jobs that were
    /// surely no later than a millisecond. A snapshot takes the lock of each shard for a moment.
    ///
    /// Alert if `tickwheel_ticks_behind` or `tickwheel_lateness_seconds` grows: of the part
    /// `handover`, the ticker gets no processor or has no room in flight; of the part `start`, jobs
    /// wait for a thread of the pool.
    #[must_use]
    #[doc(alias("prometheus", "openmetrics"))]
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::new();
        let mut gauge = |name, help, value: f64| metrics.gauge(name, help, &[], value);
        gauge("tickwheel_pending", "Jobs that wait for their deadline.", self.pending as f64);
        let help = "Jobs that came due and have not returned.";
        gauge("tickwheel_in_flight", help, self.in_flight as f64);
        gauge("tickwheel_busy_threads", "Threads that run a job.", self.busy_threads as f64);
        let help = "Ticks that the ticker was behind the clock when it last had work.";
        gauge("tickwheel_ticks_behind", help, self.ticks_behind.get() as f64);
        let help = "Events that wait for their deadline, or for room in their channel.";
        gauge("tickwheel_events_pending", help, self.events_pending as f64);
        #[cfg(feature = "async")]
        gauge("tickwheel_sleeping", "Futures that wait.", self.sleeping as f64);
        let mut counter = |name, help, value| metrics.counter(name, help, &[], value);
        counter("tickwheel_inserted_total", "Jobs that were inserted.", self.inserted);
        counter("tickwheel_refused_total", "Jobs that an insert refused.", self.refused);
        let help = "Jobs that were cancelled or taken back before they came due.";
        counter("tickwheel_cancelled_total", help, self.cancelled);
        counter("tickwheel_resets_total", "Resets of a pending job.", self.resets);
        counter("tickwheel_fired_total", "Jobs that came due.", self.fired);
        counter("tickwheel_completed_total", "Jobs that have run.", self.completed);
        let help = "Jobs that were pending or queued at the end of the wheel.";
        counter("tickwheel_discarded_total", help, self.discarded);
        counter("tickwheel_panicked_total", "Panics that were caught.", self.panicked);
        let help = "Events that were sent because their time had come.";
        counter("tickwheel_events_delivered_total", help, self.events_delivered);
        let help = "Events that came due while their channel was full, and were given up.";
        counter("tickwheel_events_given_up_total", help, self.events_given_up);
        #[cfg(feature = "async")]
        counter("tickwheel_woken_total", "Futures whose time had come.", self.woken);
        counter("tickwheel_wakeups_total", "How many times the ticker woke.", self.wakeups);
        let name = "tickwheel_lateness_seconds";
        let help = "How late jobs were: from the deadline to the hand-over to the pool, and from there to the start.";
        for (part, of) in [("handover", &self.handover), ("start", &self.start)] {
            let bounds = BOUNDS_MICROS.into_iter().map(Duration::from_micros);
            let buckets = of.cumulative(bounds);
            metrics.histogram(name, help, &[("part", part)], buckets, (of.sum, of.count));
        }
        metrics
    }
}

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
    fn cumulative(
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

    fn since(&self, earlier: &Lateness) -> Lateness {
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
/// It takes 4 KB. Recording takes two additions, and no lock.
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
            assert_eq!(super::bucket(upper), bucket);
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

    /// C110: `since` of the whole snapshot subtracts each counter, and leaves each gauge as it is.
    #[test]
    fn since_subtracts_counters_and_leaves_gauges() {
        let lateness = |ms: u32| {
            let histogram = Histogram::new();
            (0..ms).for_each(|_| histogram.record(MS));
            histogram.lateness()
        };
        // Each field has a number of its own, `factor` times.
        let stats = |factor: u64| Stats {
            pending: factor as usize,
            in_flight: 2 * factor as usize,
            busy_threads: 3 * factor as usize,
            inserted: 4 * factor,
            refused: 5 * factor,
            cancelled: 6 * factor,
            resets: 7 * factor,
            fired: 8 * factor,
            completed: 9 * factor,
            discarded: 10 * factor,
            panicked: 11 * factor,
            #[cfg(feature = "async")]
            sleeping: 12 * factor as usize,
            #[cfg(feature = "async")]
            woken: 13 * factor,
            events_pending: 14 * factor as usize,
            events_delivered: 15 * factor,
            events_given_up: 16 * factor,
            wakeups: 17 * factor,
            ticks_behind: Span::new(18 * factor),
            handover: lateness(19 * factor as u32),
            start: lateness(20 * factor as u32),
        };
        let (earlier, later) = (stats(1), stats(3));
        let expected = Stats {
            pending: later.pending,
            in_flight: later.in_flight,
            busy_threads: later.busy_threads,
            #[cfg(feature = "async")]
            sleeping: later.sleeping,
            events_pending: later.events_pending,
            ticks_behind: later.ticks_behind,
            ..stats(2)
        };
        let since = later.since(&earlier);
        assert_eq!((since.inserted, since.handover.count, since.start.count), (8, 38, 40));
        assert_eq!(since, expected);
    }

    /// C110: `since` has the jobs that were recorded between two snapshots, and no others.
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
