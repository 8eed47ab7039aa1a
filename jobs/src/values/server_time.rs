//! An estimate of a server's clock, read by the monotonic clock of this process.
//!
//! Ground rules:
//!
//! - The server writes its time into a reply after the request was sent and before the reply comes. So each
//!   reply bounds the offset from both sides. The estimate is the middle of the bounds. A new due time counts
//!   from the upper bound, so that no error makes it early.
//! - The narrowest bounds are kept. They widen with their age, because two clocks drift. Bounds that contradict
//!   the kept ones replace them, because the server's clock was set. The bounds of one server do not hold for
//!   another.
//! - Old bounds are of little use: the clocks have drifted, or the server's clock was set. So before a caller
//!   computes a due time, it asks the server for its time if the last reply is older than [`FRESH`].
//! - The wall clock of this process has no effect, nor has a change of it.

use super::panics::locked;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The bounds of a server's clock.
#[derive(Debug)]
pub(crate) struct ServerTime {
    origin: Instant,
    /// Microseconds since 1970 by the server's clock when the monotonic clock of this process read `origin`.
    offset: AtomicI64,
    /// When the last reply came, in microseconds after `origin`.
    heard: AtomicI64,
    kept: Mutex<Option<Bounds>>,
}

/// The offset lies between `offset - error` and `offset + error`, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    offset: i64,
    error: i64,
    since: Instant,
}

/// How fast two clocks may drift apart, in millionths: ten times the drift of a bad crystal.
const DRIFT: u128 = 1000;

/// A due time may be computed this long after a reply: the bounds are then wider by two milliseconds. A process
/// that runs jobs polls each second, so its bounds are fresh.
const FRESH: Duration = Duration::from_secs(2);

impl ServerTime {
    pub(crate) fn new(origin: Instant) -> ServerTime {
        let heard = AtomicI64::new(i64::MIN);
        ServerTime { origin, offset: AtomicI64::new(0), heard, kept: Mutex::new(None) }
    }

    /// Says whether the last reply is older than [`FRESH`], so that the server should be asked for its time.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        let now = micros(now.saturating_duration_since(self.origin));
        now.saturating_sub(self.heard.load(Ordering::Relaxed)) > micros(FRESH)
    }

    /// Updates the bounds from a reply: when its request was sent, when it came, and the server's time in it,
    /// in microseconds since 1970.
    pub(crate) fn learn(&self, sent: Instant, came: Instant, server_micros: i64) {
        self.heard.store(micros(came.saturating_duration_since(self.origin)), Ordering::Relaxed);
        let trip = micros(came.saturating_duration_since(sent));
        let middle = micros(sent.saturating_duration_since(self.origin)) + trip / 2;
        let found = Bounds { offset: server_micros - middle, error: trip / 2 + 1, since: came };
        let mut kept = locked(&self.kept);
        if kept.is_none_or(|kept| found.replaces(kept)) {
            *kept = Some(found);
            self.offset.store(found.offset, Ordering::Relaxed);
        }
    }

    /// Forgets the bounds: the next reply is another server's. Until it comes, the estimate stands.
    pub(crate) fn forget(&self) {
        *locked(&self.kept) = None;
    }

    /// Returns the estimated time of the server's clock when the monotonic clock reads `now`.
    pub(crate) fn at(&self, now: Instant) -> SystemTime {
        let passed = micros(now.saturating_duration_since(self.origin));
        let reads = self.offset.load(Ordering::Relaxed).saturating_add(passed);
        UNIX_EPOCH + Duration::from_micros(u64::try_from(reads).unwrap_or(0))
    }

    /// Returns the latest time that the server's clock may read then.
    pub(crate) fn latest_at(&self, now: Instant) -> SystemTime {
        let kept = *locked(&self.kept);
        let error = kept.map_or(0, |kept| kept.error_at(now));
        self.at(now) + Duration::from_micros(u64::try_from(error).unwrap_or(0))
    }
}

impl Bounds {
    /// Returns the largest error of the estimate at `now`, in microseconds.
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

    /// The estimate follows the reply with the narrowest bounds. A reply that was delayed does not change it.
    #[test]
    fn server_time_keeps_the_narrowest_bounds() {
        let start = origin();
        let time = ServerTime::new(start);
        time.learn(start, start + 10 * MS, 1_000_000_000);
        assert_eq!(reads(&time, start + 5 * MS), 1_000_000_000);
        time.learn(start + 20 * MS, start + 22 * MS, 1_000_017_000);
        assert_eq!(reads(&time, start + 21 * MS), 1_000_017_000);
        // A delayed reply has wider bounds.
        time.learn(start + 30 * MS, start + 90 * MS, 1_000_030_000);
        assert_eq!(reads(&time, start + 31 * MS), 1_000_027_000);
    }

    /// `latest_at` is never behind the server's clock, at whichever moment of the round trip the server read it.
    #[test]
    fn server_time_latest_is_never_behind_the_clock() {
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

    /// After `forget`, the estimate follows the next reply, also if its bounds are wider.
    #[test]
    fn server_time_of_another_server_is_believed_at_once() {
        let start = origin();
        let time = ServerTime::new(start);
        time.learn(start, start + MS, 1_000_000_000);
        time.forget();
        // Its bounds are wider, and they overlap those of the server before.
        time.learn(start + 10 * MS, start + 18 * MS, 1_000_010_000);
        assert_eq!(reads(&time, start + 14 * MS), 1_000_010_000);
    }

    /// The estimate is stale two seconds after the last reply. After a day without a call the bounds are 86 s
    /// wide, and the server's clock may have been set.
    #[test]
    fn server_time_goes_stale_after_two_seconds_of_silence() {
        let start = origin();
        let time = ServerTime::new(start);
        assert!(time.is_stale(start));
        time.learn(start, start + MS, 1_000_000_000);
        assert!(!time.is_stale(start + 1000 * MS));
        assert!(time.is_stale(start + 3000 * MS));
        // A delayed reply counts as well.
        time.learn(start + 3000 * MS, start + 3900 * MS, 1_003_000_000);
        assert!(!time.is_stale(start + 4000 * MS));
    }

    /// A reply that contradicts the kept bounds replaces them: the server's clock was set.
    #[test]
    fn server_time_follows_a_clock_that_was_set() {
        let start = origin();
        let time = ServerTime::new(start);
        time.learn(start, start + MS, 1_000_000_000);
        time.learn(start + 10 * MS, start + 13 * MS, 500_000_000);
        assert_eq!(reads(&time, start + 11 * MS), 499_999_500);
    }
}
