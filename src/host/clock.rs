//! Where time comes from: the clocks of the system, or the hand of a [`Driver`](crate::Driver). The
//! only place that reads a clock, and the only origin.
//!
//! Moments count from the origin, on the monotonic clock. An [`Instant`] from before it is the
//! origin; a clock that reads less than it did is taken at its word here and clamped where it
//! matters, by the structure, which never goes back.
//!
//! The wall clock tells the date and the time of day. It may be set whenever somebody likes, so
//! nothing is counted on it: what waits for it looks again (`timebase.rs`).

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::values::time::Moment;

/// Two readings of the clocks that are closer than this are taken for one.
const CLOSE: Duration = Duration::from_millis(1);

/// How often the clocks are read at most for readings that are close. On a machine that is slow at it they
/// never are.
const WALL_READINGS_MAX: usize = 8;

/// Where the wall clock stands against the monotonic one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct WallReading {
    /// What the wall clock would have read at the origin, had it gone as evenly as the other. This moves
    /// when the wall clock is set, and only then.
    at_origin: SystemTime,
}

impl WallReading {
    /// By how much the wall clock was set between this reading and another.
    pub(crate) fn distance(self, other: WallReading) -> Duration {
        let since = self.at_origin.duration_since(other.at_origin);
        since.unwrap_or_else(|error| error.duration())
    }
}

#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// What the wall clock read at the origin.
    wall_origin: SystemTime,
    /// Nanoseconds since the origin, if a hand moves this clock.
    hand: Option<AtomicU64>,
    /// Nanoseconds by which the wall clock was set here, on top of what the system says.
    wall_shift: AtomicI64,
}

impl Clock {
    /// The system's clock. Its origin is now.
    pub(crate) fn monotonic() -> Clock {
        Clock::new(None)
    }

    /// A clock that stands until it is moved. Its origin is now.
    pub(crate) fn manual() -> Clock {
        Clock::new(Some(AtomicU64::new(0)))
    }

    fn new(hand: Option<AtomicU64>) -> Clock {
        let wall_shift = AtomicI64::new(0);
        Clock { origin: read(), wall_origin: read_wall(), hand, wall_shift }
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        match &self.hand {
            None => self.moment(read()),
            Some(hand) => Moment::after(Duration::from_nanos(hand.load(Ordering::Acquire))),
        }
    }

    /// Moves the hand of a manual clock.
    pub(crate) fn set(&self, moment: Moment) {
        if let Some(hand) = &self.hand {
            hand.store(moment.elapsed().as_nanos() as u64, Ordering::Release);
        }
    }

    /// What the wall clock reads.
    pub(crate) fn wall(&self) -> SystemTime {
        shift(self.unshifted_wall(), self.wall_shift.load(Ordering::Acquire))
    }

    /// Sets the wall clock, by 292 years at most. From then on it goes as before.
    pub(crate) fn set_wall(&self, time: SystemTime) {
        let now = self.unshifted_wall();
        let nanos = |by: Duration| i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        let by = match time.duration_since(now) {
            Ok(forward) => nanos(forward),
            Err(back) => -nanos(back.duration()),
        };
        self.wall_shift.store(by, Ordering::Release);
    }

    fn unshifted_wall(&self) -> SystemTime {
        match &self.hand {
            None => read_wall(),
            Some(_) => later(self.wall_origin, self.now().elapsed()),
        }
    }

    /// Reads both clocks, with little time in between.
    pub(crate) fn read_wall_closely(&self) -> WallReading {
        let read = || {
            let before = self.now();
            let reading = self.read_wall();
            (self.now().since(before), reading)
        };
        // A thread that lost the processor in between has read two clocks at two times: it tries again,
        // and takes the closest of a few.
        let (mut apart, mut closest) = read();
        for _ in 1..WALL_READINGS_MAX {
            if apart <= CLOSE {
                break;
            }
            let (next_apart, next) = read();
            if next_apart < apart {
                (apart, closest) = (next_apart, next);
            }
        }
        closest
    }

    /// Reads both clocks: the wall clock first, so that time which passes in between makes every moment
    /// that follows from the reading later, not earlier.
    fn read_wall(&self) -> WallReading {
        let wall = self.wall();
        WallReading { at_origin: earlier(wall, self.now().elapsed()) }
    }

    /// The moment at which the wall clock will read `time`, as it goes now: the present one if that
    /// is past. And the reading of the wall clock that this follows from.
    pub(crate) fn moment_of_wall(&self, time: SystemTime) -> (Moment, WallReading) {
        // In this order, for the reason above.
        let wall = self.wall();
        let now = self.now();
        let left = time.duration_since(wall).unwrap_or_default();
        (now.plus(left), WallReading { at_origin: earlier(wall, now.elapsed()) })
    }

    /// The moment an instant is; the origin if it lies before that.
    pub(crate) fn moment(&self, instant: Instant) -> Moment {
        Moment::after(instant.saturating_duration_since(self.origin))
    }

    /// The instant a moment is. Where the system cannot represent it, some earlier one.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        let mut elapsed = moment.elapsed();
        loop {
            match self.origin.checked_add(elapsed) {
                Some(instant) => return instant,
                None => elapsed /= 2,
            }
        }
    }
}

#[allow(clippy::disallowed_methods)]
fn read() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods)]
fn read_wall() -> SystemTime {
    SystemTime::now()
}

fn shift(time: SystemTime, nanos: i64) -> SystemTime {
    let by = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { earlier(time, by) } else { later(time, by) }
}

/// A wall-clock time that the system cannot represent is the one before the change.
fn later(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_add(by).unwrap_or(time)
}

fn earlier(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_sub(by).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_manual_clock_stands_until_it_is_moved() {
        let clock = Clock::manual();
        assert_eq!(clock.now(), Moment::default());
        clock.set(Moment::after(MS * 5));
        assert_eq!(clock.now(), Moment::after(MS * 5));
        assert_eq!(clock.moment(clock.instant(clock.now())), clock.now());
        assert!(clock.instant(Moment::NEVER) > clock.instant(clock.now()));
    }

    #[test]
    fn the_wall_clock_of_a_manual_clock_goes_with_its_hand_and_can_be_set() {
        let clock = Clock::manual();
        let began = clock.wall();
        let at_origin = |time| WallReading { at_origin: time };
        clock.set(Moment::after(MS * 5));
        assert_eq!((clock.wall(), clock.read_wall_closely()), (began + MS * 5, at_origin(began)));
        assert_eq!(clock.moment_of_wall(began + MS * 7).0, Moment::after(MS * 7));
        clock.set_wall(began + MS * 6);
        let set = at_origin(began + MS);
        assert_eq!((clock.wall(), clock.read_wall_closely()), (began + MS * 6, set));
        assert_eq!(clock.moment_of_wall(began + MS * 7), (Moment::after(MS * 6), set));
        assert_eq!((set.distance(at_origin(began)), at_origin(began).distance(set)), (MS, MS));
        clock.set_wall(began - MS);
        clock.set(Moment::after(MS * 6));
        assert_eq!(clock.wall(), began);
        assert_eq!(clock.moment_of_wall(began - MS * 9).0, Moment::after(MS * 6));
    }

    #[test]
    fn an_instant_before_the_origin_is_the_origin() {
        let before = read();
        let clock = Clock::manual();
        assert_eq!(clock.moment(before), Moment::default());
    }

    #[test]
    fn the_systems_clock_does_not_go_back() {
        let clock = Clock::monotonic();
        let first = clock.now();
        assert!(clock.now() >= first);
        clock.set(Moment::NEVER);
        assert!(clock.now() < Moment::NEVER);
    }
}
