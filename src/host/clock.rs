//! Where time comes from: the clocks of the system, or the hand of a [`Driver`](crate::Driver). The
//! only place that reads a clock, and the only origin.
//!
//! Moments count from the origin, on the monotonic clock. An [`Instant`] from before it is the
//! origin; a clock that reads less than it did is taken at its word here and clamped where it
//! matters, by the structure, which never goes back.
//!
//! The wall clock tells the date and the time of day. It may be set whenever somebody likes, so
//! nothing is counted on it: who waits for it asks again (`timebase.rs`).

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::values::time::Moment;

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

    /// Whether time stands while jobs run.
    #[inline]
    pub(crate) fn is_manual(&self) -> bool {
        self.hand.is_some()
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

    /// What the wall clock would have read at the origin, had it gone as evenly as the other: it
    /// moves when the wall clock is set.
    pub(crate) fn wall_at_origin(&self) -> SystemTime {
        loop {
            let (before, wall, after) = (self.now(), self.wall(), self.now());
            // Whoever lost the processor in between has read two clocks at two times.
            if after.since(before) <= Duration::from_millis(1) {
                return earlier(wall, after.elapsed());
            }
        }
    }

    /// The moment at which the wall clock will read `time`, as it goes now: the present one if that
    /// is past.
    pub(crate) fn moment_of_wall(&self, time: SystemTime) -> Moment {
        // In this order: time that passes between the two makes it later, not earlier.
        let left = time.duration_since(self.wall()).unwrap_or_default();
        self.now().plus(left)
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
        clock.set(Moment::after(MS * 5));
        assert_eq!((clock.wall(), clock.wall_at_origin()), (began + MS * 5, began));
        assert_eq!(clock.moment_of_wall(began + MS * 7), Moment::after(MS * 7));
        clock.set_wall(began + MS * 6);
        assert_eq!((clock.wall(), clock.wall_at_origin()), (began + MS * 6, began + MS));
        assert_eq!(clock.moment_of_wall(began + MS * 7), Moment::after(MS * 6));
        clock.set_wall(began - MS);
        clock.set(Moment::after(MS * 6));
        assert_eq!(clock.wall(), began);
        assert_eq!(clock.moment_of_wall(began - MS * 9), Moment::after(MS * 6));
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
