//! The snapshot that `stats` returns: counters, and how late jobs were. They are counted in `Tally`
//! (`shard/mod.rs`) and in `DispatchMetrics` (`dispatch/mod.rs`).

mod histogram;

pub(crate) use histogram::Histogram;

use core::time::Duration;

use crate::values::time::Span;

/// A snapshot of a wheel's counters, from [`Wheel::stats`](crate::Wheel::stats).
///
/// `inserted == pending + cancelled + fired`, until the wheel is dropped. A job that comes back
/// counts in `inserted` and in `fired` each time, so a repeating one once for every run; a cancel
/// while it runs, or is on its way to the pool, ends it and counts nowhere. While other threads use
/// the wheel, the counters of one shard agree, and those of several may lie a moment apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that wait for their deadline, or for room in flight.
    pub pending: usize,
    /// Jobs that came due and have not returned: on their way to the pool, queued there, or
    /// running. With [`pending`](Stats::pending), every job is in one of the two until it has
    /// ended.
    pub in_flight: usize,
    /// Jobs taken in since the wheel began.
    pub inserted: u64,
    /// Jobs cancelled or taken back before they came due.
    pub cancelled: u64,
    /// Jobs that came due and left the wheel to be run. A shutdown may still hand them back, and a
    /// drop discard them, before they start.
    pub fired: u64,
    /// Panics stopped: of jobs, of captured values while they were dropped, of the panic handler.
    pub panicked: u64,
    /// How many ticks the ticker was behind the clock when it last had work: zero or one on an idle
    /// machine, however long the wheel was idle before. It grows while the ticker gets no
    /// processor, or while `max_in_flight` holds it up.
    pub ticks_behind: Span,
    /// From the deadline, rounded up to a tick, to the hand-over to the pool.
    pub handover: Lateness,
    /// From the hand-over to the pool to the start of the job.
    pub start: Lateness,
}

/// How late something was, over all jobs so far. Percentiles are rounded up, by at most an eighth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Lateness {
    /// Half of the jobs were no later than this.
    pub p50: Duration,
    /// All but one in a hundred were no later than this.
    pub p99: Duration,
    /// The latest of all, exactly.
    pub max: Duration,
}
