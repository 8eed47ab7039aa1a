//! How many jobs a node claims: as many as its threads can start soon, so that other nodes get the rest.
//!
//! Ground rules:
//!
//! - Only handlers that block a thread are counted. Handlers that are futures start at once:
//!   `Builder::max_async_runs` limits those of each kind (`Machine::rooms`).
//! - A batch holds one thread. Its jobs are not counted here: a node claims as many of each such kind as the
//!   threads take, and one batch more, which is collected meanwhile.
//! - Each free thread gets a job. Beyond that a node claims as many jobs as its threads finish within
//!   [`HORIZON`] at the rate of the latest runs: many if a run takes microseconds, none if it takes a second.
//!   It claims none ahead while every thread is busy and no run has ended for [`HORIZON`].
//! - Where no other node shares the jobs, only jobs with a partition or a rate are bounded so
//!   (`Machine::room_in_lanes`, on a server too, with a shorter time).
//! - This is an estimate. So a claimed job that has not started after [`START_WITHIN`] is given back
//!   (`machine/leases.rs`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How far a node claims ahead.
const HORIZON: Duration = Duration::from_millis(100);
/// A claimed job that has not started after this time is given back.
pub(crate) const START_WITHIN: Duration = Duration::from_secs(1);

/// Counts the runs that hold a thread, and how long they take. The counters are read for an estimate, so no
/// order between them matters.
pub(crate) struct Capacity {
    threads: usize,
    running: AtomicUsize,
    /// How many of the running are batches, whose jobs a kind has a number of its own for.
    batches: AtomicUsize,
    /// The moving average of the time that runs take, in nanoseconds: the latest run weighs an eighth.
    /// [`UNKNOWN`] before a run has ended.
    nanos: AtomicU64,
    origin: Instant,
    /// When the latest run ended, in milliseconds since `origin`.
    ended_at: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Capacity {
    pub(crate) fn new(threads: usize, origin: Instant) -> Capacity {
        Capacity {
            threads,
            running: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            nanos: AtomicU64::new(UNKNOWN),
            origin,
            ended_at: AtomicU64::new(0),
        }
    }

    pub(crate) fn started(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn batch_started(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.started();
    }

    /// Notes that a batch has ended, and the time that it took.
    pub(crate) fn batch_ended(&self, took: Duration, now: Instant) {
        self.batches.fetch_sub(1, Ordering::Relaxed);
        self.ended(took, now);
    }

    /// Notes that a run has ended, and the time that it took.
    pub(crate) fn ended(&self, took: Duration, now: Instant) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.ended_at.store(self.millis(now), Ordering::Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(UNKNOWN - 1);
        let average = match self.nanos.load(Ordering::Relaxed) {
            UNKNOWN => took,
            average => average - average / 8 + took / 8,
        };
        self.nanos.store(average, Ordering::Relaxed);
    }

    /// Notes that a claimed job has waited too long for a thread.
    pub(crate) fn was_too_slow(&self) {
        let waited = START_WITHIN.as_nanos() as u64;
        let average = self.nanos.load(Ordering::Relaxed);
        // Before a run has ended the average is unknown, and nothing is claimed ahead anyway.
        self.nanos.store(average.max(waited), Ordering::Relaxed);
    }

    /// Returns how many more jobs may be claimed now, if this many claimed jobs have not ended.
    pub(crate) fn room(&self, claimed: usize, now: Instant) -> usize {
        let running = self.running.load(Ordering::Relaxed);
        let batches = self.batches.load(Ordering::Relaxed);
        let waiting = claimed.saturating_sub(running.saturating_sub(batches));
        let free = self.threads.saturating_sub(running);
        (free + self.ahead(HORIZON, now)).saturating_sub(waiting)
    }

    /// Returns how many jobs the threads finish within a time, at the rate of the latest runs.
    pub(crate) fn ahead(&self, within: Duration, now: Instant) -> usize {
        let since_end = self.millis(now).saturating_sub(self.ended_at.load(Ordering::Relaxed));
        let are_held = self.running.load(Ordering::Relaxed) >= self.threads;
        if are_held && u128::from(since_end) > HORIZON.as_millis() {
            return 0;
        }
        // None if the average is unknown: that is the largest number.
        let each = within.as_nanos() / u128::from(self.nanos.load(Ordering::Relaxed).max(1));
        usize::try_from(each).unwrap_or(usize::MAX).saturating_mul(self.threads)
    }

    fn millis(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.origin).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn two_threads() -> (Capacity, Instant) {
        let origin = Instant::now();
        (Capacity::new(2, origin), origin)
    }

    /// Before a run has ended, a node claims a job for each free thread.
    #[test]
    fn node_claims_one_job_for_each_free_thread_at_first() {
        let (capacity, now) = two_threads();
        assert_eq!(capacity.room(0, now), 2);
        assert_eq!(capacity.room(1, now), 1);
        capacity.started();
        assert_eq!(capacity.room(1, now), 1);
        assert_eq!(capacity.room(2, now), 0);
    }

    /// Runs that take microseconds are claimed by the thousand.
    #[test]
    fn short_runs_are_claimed_ahead() {
        let (capacity, now) = two_threads();
        capacity.started();
        capacity.ended(20 * Duration::from_micros(1), now);
        assert_eq!(capacity.room(0, now), 2 + 2 * 5000);
    }

    /// If runs take a second, a node claims none ahead, and none at all while every thread is busy.
    #[test]
    fn long_runs_are_not_claimed_ahead() {
        let (capacity, now) = two_threads();
        capacity.started();
        capacity.ended(SECOND, now + SECOND);
        assert_eq!(capacity.room(0, now + SECOND), 2);
        // Short runs first, then both threads are busy.
        let (capacity, now) = two_threads();
        for _ in 0..3 {
            capacity.started();
        }
        capacity.ended(MS, now);
        assert!(capacity.room(2, now + MS) > 100);
        assert_eq!(capacity.room(2, now + SECOND), 0);
    }

    /// The estimate is a moving average, in which the latest run weighs an eighth.
    #[test]
    fn latest_run_weighs_an_eighth() {
        let (capacity, now) = two_threads();
        let room_after = |took: Duration| {
            capacity.started();
            capacity.ended(took, now);
            capacity.room(0, now)
        };
        assert_eq!(room_after(8 * MS), 2 + 2 * (100 / 8));
        // 8 ms less 1 ms, and 2 ms more.
        assert_eq!(room_after(16 * MS), 2 + 2 * (100 / 9));
        // 7.875 ms.
        assert_eq!(room_after(Duration::ZERO), 2 + 2 * 12);
    }

    /// After it gave back a job, a node claims no job ahead: its estimate of its speed was too high.
    #[test]
    fn node_that_was_too_slow_claims_no_more_than_its_threads() {
        let (capacity, now) = two_threads();
        capacity.started();
        capacity.ended(MS, now);
        assert!(capacity.room(0, now) > 2);
        capacity.was_too_slow();
        assert_eq!(capacity.room(0, now), 2);
    }
}
