//! The clock of a server, told by the monotonic clock of this process.
//!
//! Ground rules:
//!
//! - A reply that bears the server's time was made between the moment its request was sent and the
//!   moment it came: so each one bounds the offset from both sides. The estimate is the middle; a
//!   deadline that is to come counts from the upper bound, so that no error makes it early.
//! - The narrowest bounds are kept. They widen with their age, because two clocks drift; bounds that
//!   contradict the kept ones replace them, because somebody has set the server's clock. Those of
//!   another server say nothing of this one.
//! - What was heard long ago says little: the clocks have drifted, or somebody has set the server's. Who
//!   computes a deadline asks for the time first if nothing was heard for [`FRESH`].
//! - Neither the wall clock of this process nor a change of it has any effect.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is known about the clock of a server.
#[derive(Debug)]
pub(crate) struct ServerTime {
    origin: Instant,
    /// Microseconds since 1970 by the server's clock when this one read `origin`.
    offset: AtomicI64,
    /// When the last reply came, in microseconds after `origin`.
    heard: AtomicI64,
    kept: Mutex<Option<Bounds>>,
}

/// Between which values the offset lies, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    offset: i64,
    error: i64,
    since: Instant,
}

/// How fast two clocks may drift apart, in millionths: ten times what a bad crystal does.
const DRIFT: u128 = 1000;

/// A deadline may be computed for so long after a reply: the bounds are wider by two milliseconds then. A
/// process that runs jobs looks each second.
const FRESH: Duration = Duration::from_secs(2);

impl ServerTime {
    pub(crate) fn new(origin: Instant) -> ServerTime {
        let heard = AtomicI64::new(i64::MIN);
        ServerTime { origin, offset: AtomicI64::new(0), heard, kept: Mutex::new(None) }
    }

    /// Says whether the server was not heard for so long that it should be asked for its time.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        let now = micros(now.saturating_duration_since(self.origin));
        now.saturating_sub(self.heard.load(Ordering::Relaxed)) > micros(FRESH)
    }

    /// Learns from a reply: when its request was sent, when it came, and the server's time in it, in
    /// microseconds since 1970.
    pub(crate) fn learn(&self, sent: Instant, came: Instant, server_micros: i64) {
        self.heard.store(micros(came.saturating_duration_since(self.origin)), Ordering::Relaxed);
        let trip = micros(came.saturating_duration_since(sent));
        let middle = micros(sent.saturating_duration_since(self.origin)) + trip / 2;
        let found = Bounds { offset: server_micros - middle, error: trip / 2 + 1, since: came };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none_or(|kept| found.replaces(kept)) {
            *kept = Some(found);
            self.offset.store(found.offset, Ordering::Relaxed);
        }
    }

    /// Forgets the bounds: the next reply is another server's. Until it comes, the estimate stands.
    pub(crate) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns what the server's clock reads when the monotonic clock reads `now`.
    pub(crate) fn at(&self, now: Instant) -> SystemTime {
        let passed = micros(now.saturating_duration_since(self.origin));
        let reads = self.offset.load(Ordering::Relaxed).saturating_add(passed);
        UNIX_EPOCH + Duration::from_micros(u64::try_from(reads).unwrap_or(0))
    }

    /// Returns the latest that the server's clock may read then.
    pub(crate) fn latest_at(&self, now: Instant) -> SystemTime {
        let kept = *self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let error = kept.map_or(0, |kept| kept.error_at(now));
        self.at(now) + Duration::from_micros(u64::try_from(error).unwrap_or(0))
    }
}

impl Bounds {
    /// By how much the estimate may be wrong at a time, in microseconds.
    fn error_at(self, now: Instant) -> i64 {
        let age = now.saturating_duration_since(self.since).as_micros();
        let drifted = i64::try_from(age * DRIFT / 1_000_000).unwrap_or(i64::MAX / 4);
        self.error.saturating_add(drifted)
    }

    fn replaces(self, kept: Bounds) -> bool {
        let error = kept.error_at(self.since);
        self.error <= error || (self.offset - kept.offset).abs() > self.error + error
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn origin() -> Instant {
        Instant::now()
    }

    fn reads(time: &ServerTime, now: Instant) -> u128 {
        time.at(now).duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
    }

    #[test]
    fn the_narrowest_bounds_are_kept() {
        let start = origin();
        let time = ServerTime::new(start);
        time.learn(start, start + 10 * MS, 1_000_000_000);
        assert_eq!(reads(&time, start + 5 * MS), 1_000_000_000);
        time.learn(start + 20 * MS, start + 22 * MS, 1_000_017_000);
        assert_eq!(reads(&time, start + 21 * MS), 1_000_017_000);
        // A reply that was held up says less.
        time.learn(start + 30 * MS, start + 90 * MS, 1_000_030_000);
        assert_eq!(reads(&time, start + 31 * MS), 1_000_027_000);
    }

    #[test]
    fn the_latest_that_a_clock_may_read_is_never_behind_it() {
        let start = origin();
        for behind in 0..=10 {
            let time = ServerTime::new(start);
            // The reply was made at once, or at the last moment, or between.
            let server = |passed: i64| 1_000_000_000 + passed * 1000;
            time.learn(start, start + 10 * MS, server(behind));
            let (latest, read) = (time.latest_at(start + 20 * MS), server(20));
            let latest = latest.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
            assert!((read..=read + 11_000).contains(&latest), "{latest}, not {read}");
        }
    }

    #[test]
    fn the_clock_of_another_server_is_believed_at_once() {
        let start = origin();
        let time = ServerTime::new(start);
        time.learn(start, start + MS, 1_000_000_000);
        time.forget();
        // Its bounds are wider, and they overlap those of the server before.
        time.learn(start + 10 * MS, start + 18 * MS, 1_000_010_000);
        assert_eq!(reads(&time, start + 14 * MS), 1_000_010_000);
    }

    /// After a day without a call the bounds are 86 s wide, and the server's clock may have been set.
    #[test]
    fn a_server_that_was_not_heard_for_seconds_is_asked_again() {
        let start = origin();
        let time = ServerTime::new(start);
        assert!(time.is_stale(start));
        time.learn(start, start + MS, 1_000_000_000);
        assert!(!time.is_stale(start + 1000 * MS));
        assert!(time.is_stale(start + 3000 * MS));
        // A reply that was held up is one all the same.
        time.learn(start + 3000 * MS, start + 3900 * MS, 1_003_000_000);
        assert!(!time.is_stale(start + 4000 * MS));
    }

    #[test]
    fn a_clock_that_was_set_is_believed() {
        let start = origin();
        let time = ServerTime::new(start);
        time.learn(start, start + MS, 1_000_000_000);
        time.learn(start + 10 * MS, start + 13 * MS, 500_000_000);
        assert_eq!(reads(&time, start + 11 * MS), 499_999_500);
    }
}
