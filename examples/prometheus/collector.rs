//! The part to copy: a collector that turns one snapshot of a wheel's counters into metrics.

use std::fmt;
use std::iter;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tickwheel::{Lateness, Scheduler, Wheel};

/// The upper bounds of the buckets; one without a bound follows.
const BOUNDS: [Duration; 5] = [
    Duration::from_micros(100),
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
];

/// Returns a registry with the metrics of `wheel`, whose names begin with `tickwheel_`.
pub(crate) fn registry(wheel: &Wheel) -> Registry {
    let mut registry = Registry::with_prefix("tickwheel");
    registry.register_collector(Box::new(WheelCollector { wheel: wheel.scheduler() }));
    registry
}

/// A scheduler does not keep the wheel alive. After the end of the wheel it still returns the last
/// counters, so no counter falls back to zero as long as the process runs.
#[derive(Debug)]
struct WheelCollector {
    wheel: Scheduler,
}

impl Collector for WheelCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // One snapshot, so that all metrics of a scrape belong together, and add up.
        let stats = self.wheel.stats();
        let mut page = Page { encoder };

        page.gauge("pending", "Jobs that wait for their deadline.", stats.pending as u64)?;
        page.gauge("in_flight", "Jobs with the pool: queued or running.", stats.in_flight as u64)?;
        page.gauge("busy_threads", "Threads that run a job.", stats.busy_threads as u64)?;
        page.gauge(
            "ticks_behind",
            "Ticks by which the ticker was behind when it last had work.",
            stats.ticks_behind.get(),
        )?;

        page.counter("inserted", "Jobs taken in.", stats.inserted)?;
        page.counter("refused", "Jobs that an insert refused.", stats.refused)?;
        page.counter("cancelled", "Jobs cancelled or taken back.", stats.cancelled)?;
        page.counter("resets", "Resets of a pending job.", stats.resets)?;
        page.counter("fired", "Jobs that came due.", stats.fired)?;
        page.counter("completed", "Jobs that have run.", stats.completed)?;
        page.counter("discarded", "Jobs that the end of the wheel found.", stats.discarded)?;
        page.counter("panicked", "Panics stopped.", stats.panicked)?;
        page.counter("wakeups", "Times that the ticker woke.", stats.wakeups)?;

        page.histogram("handover", "From the deadline to the hand-over.", &stats.handover)?;
        page.histogram("start", "From the hand-over to the start of the job.", &stats.start)
    }
}

/// The answer to a scrape, while it is written.
struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Page<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.metric(name, help, &ConstGauge::new(value))
    }

    /// The crate appends `_total` to the name.
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.metric(name, help, &ConstCounter::new(value))
    }

    fn metric(&mut self, name: &str, help: &str, metric: &impl EncodeMetric) -> fmt::Result {
        metric.encode(self.encoder.encode_descriptor(name, help, None, metric.metric_type())?)
    }

    /// The crate appends `_seconds` to the name, and sums the buckets up.
    fn histogram(&mut self, name: &str, help: &str, lateness: &Lateness) -> fmt::Result {
        let seconds = Some(&Unit::Seconds);
        let mut metric =
            self.encoder.encode_descriptor(name, help, seconds, MetricType::Histogram)?;
        let buckets = fold(lateness.buckets());
        let sum = lateness.sum.as_secs_f64();
        metric.encode_histogram::<NoLabelSet>(sum, lateness.count, &buckets, None)
    }
}

/// Returns how many jobs belong to each of [`BOUNDS`], in seconds, and to none of them. A bucket of
/// the wheel that lies across a bound counts for the next one.
fn fold(buckets: impl Iterator<Item = (Duration, u64)>) -> Vec<(f64, u64)> {
    let bounds = BOUNDS.iter().map(Duration::as_secs_f64).chain(iter::once(f64::INFINITY));
    let mut folded: Vec<(f64, u64)> = bounds.map(|bound| (bound, 0)).collect();
    for (most, jobs) in buckets {
        folded[BOUNDS.partition_point(|&bound| bound < most)].1 += jobs;
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_for_the_first_bound_that_is_not_below_it() {
        let nanosecond = Duration::from_nanos(1);
        let buckets = [
            (Duration::ZERO, 1),
            (BOUNDS[0], 2),
            (BOUNDS[0] + nanosecond, 4),
            (BOUNDS[1], 8),
            (BOUNDS[4], 16),
            (BOUNDS[4] + nanosecond, 32),
            (Duration::from_nanos(u64::MAX), 64),
        ];
        let jobs: Vec<u64> = fold(buckets.into_iter()).into_iter().map(|(_, jobs)| jobs).collect();
        assert_eq!(jobs, [3, 12, 0, 0, 16, 96]);
    }

    #[test]
    fn without_jobs_every_bucket_is_there_and_empty() {
        let folded = fold(Lateness::default().buckets());
        let bounds = [0.0001, 0.001, 0.01, 0.1, 1.0, f64::INFINITY];
        assert_eq!(folded, bounds.map(|bound| (bound, 0)));
    }
}
