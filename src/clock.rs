//! Where time comes from: the monotonic clock of the system, or the hand of a
//! [`Driver`](crate::Driver). The only place that reads a clock, and the only origin.
//!
//! Moments count from the origin. An [`Instant`] from before it is the origin; a clock that reads
//! less than it did is taken at its word here and clamped where it matters, by the structure, which
//! never goes back.

use core::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::time::Moment;

#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// Nanoseconds since the origin, if a hand moves this clock.
    hand: Option<AtomicU64>,
}

impl Clock {
    /// The system's clock. Its origin is now.
    pub(crate) fn monotonic() -> Clock {
        Clock { origin: read(), hand: None }
    }

    /// A clock that stands until it is moved. Its origin is now.
    pub(crate) fn manual() -> Clock {
        Clock { origin: read(), hand: Some(AtomicU64::new(0)) }
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
