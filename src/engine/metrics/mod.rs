//! The snapshot that `stats` returns: counters, and the lateness of jobs. `Tally` (`timers.rs`),
//! `DispatchMetrics` (`dispatch/mod.rs`) and the engine (`verbs/mod.rs`) count them.

mod histogram;
mod labels;
mod text;

pub use histogram::{Histogram, Lateness};
pub use text::Metrics;

use core::time::Duration;

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
    /// From the deadline, rounded up to a tick, to the hand-over to the pool.
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
