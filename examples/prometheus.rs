//! The counters of a wheel for Prometheus, by the crate `prometheus-client`: one snapshot of
//! `Wheel::stats` for each scrape.
//!
//! ```sh
//! cargo run --release --example prometheus
//! ```
//!
//! The program runs some jobs and prints what a scrape gets. `WheelCollector` is the part to copy. In a program
//! the route `/metrics` of its web server returns the text, with the content type
//! `application/openmetrics-text; version=1.0.0; charset=utf-8`.
//!
//! What to know before this is copied:
//!
//! - **Counters are sums since the wheel began**, as Prometheus expects: `rate()` makes a rate of them.
//!   `Stats::since` is for programs without Prometheus.
//! - **One snapshot for all metrics of a scrape.** `inserted = pending + cancelled + in_flight +
//!   completed + discarded` holds within a snapshot. A snapshot takes the lock of each shard for a
//!   moment, so scrape every few seconds and not in a loop.
//! - **A job counts as late by the upper end of its bucket.** The wheel has 496 buckets, an eighth wide, and here
//!   they are folded into six: `le="0.001"` has the jobs that were surely no later than a millisecond.
//! - **Alert on `pending`, on `ticks_behind`, and on `start`**: if its lateness grows, jobs wait for a
//!   thread of the pool.
//! - **Names must not repeat.** For several wheels, one collector writes each metric once, with a label
//!   for each wheel (`MetricEncoder::encode_family`).

#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tickwheel::{Lateness, Scheduler, Wheel};

/// The scheduler does not keep the wheel alive. After the end of the wheel it still returns the last
/// counters, so no counter falls back to zero.
#[derive(Debug)]
struct WheelCollector(Scheduler);

impl Collector for WheelCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        for (name, help, value) in [
            ("pending", "Jobs that wait for their deadline", stats.pending as u64),
            ("in_flight", "Jobs with the pool, queued or running", stats.in_flight as u64),
            ("busy_threads", "Threads that run a job", stats.busy_threads as u64),
            ("ticks_behind", "Ticks that the ticker was behind", stats.ticks_behind.get()),
        ] {
            metric(&mut encoder, name, help, &ConstGauge::new(value))?;
        }
        // The crate appends `_total` to these names.
        for (name, help, value) in [
            ("inserted", "Jobs taken in", stats.inserted),
            ("refused", "Jobs that an insert refused", stats.refused),
            ("cancelled", "Jobs cancelled or taken back", stats.cancelled),
            ("resets", "Resets of a pending job", stats.resets),
            ("fired", "Jobs that came due", stats.fired),
            ("completed", "Jobs that have run", stats.completed),
            ("discarded", "Jobs that the end of the wheel found", stats.discarded),
            ("panicked", "Panics stopped", stats.panicked),
            ("wakeups", "Times that the ticker woke", stats.wakeups),
        ] {
            metric(&mut encoder, name, help, &ConstCounter::new(value))?;
        }
        histogram(&mut encoder, "handover", "From the deadline to the pool", &stats.handover)?;
        histogram(&mut encoder, "start", "From the pool to the start of the job", &stats.start)
    }
}

type Encoder<'a> = DescriptorEncoder<'a>;

fn metric(to: &mut Encoder<'_>, name: &str, help: &str, metric: &impl EncodeMetric) -> fmt::Result {
    metric.encode(to.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// The crate appends `_seconds` to the name, and sums the buckets up.
fn histogram(to: &mut Encoder<'_>, name: &str, help: &str, lateness: &Lateness) -> fmt::Result {
    let mut buckets = [0.0001, 0.001, 0.01, 0.1, 1.0, f64::INFINITY].map(|bound| (bound, 0));
    for (most, jobs) in lateness.buckets() {
        let bucket = buckets.partition_point(|&(bound, _)| bound < most.as_secs_f64());
        buckets[bucket].1 += jobs;
    }
    let seconds = Some(&Unit::Seconds);
    let mut metric = to.encode_descriptor(name, help, seconds, MetricType::Histogram)?;
    let (sum, count) = (lateness.sum.as_secs_f64(), lateness.count);
    metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}

fn main() -> fmt::Result {
    let wheel = Wheel::new();
    for delay in 0..100 {
        wheel.insert(Duration::from_millis(delay), || ());
    }
    wheel.wait_idle();
    wheel.insert(Duration::from_secs(3600), || ());

    let mut registry = Registry::with_prefix("tickwheel");
    registry.register_collector(Box::new(WheelCollector(wheel.scheduler())));
    let mut page = String::new();
    text::encode(&mut page, &registry)?;
    print!("{page}");
    for line in ["inserted_total 101", "completed_total 100", "start_seconds_count 100"] {
        assert!(page.contains(&format!("\ntickwheel_{line}\n")), "{line}");
    }
    Ok(())
}
