//! Time, as values: points of a wheel's time ([`Tick`]), distances ([`Span`]), all roundings between ticks and clock
//! time ([`Scale`]), and when a job runs ([`When`]): after a delay, at an instant, or at a wall-clock time; exactly
//! then, or within a window after it.
//!
//! Ground rules:
//!
//! - A point and a distance never mix: `Tick - Tick` is a [`Span`], `Tick + Tick` does not compile.
//! - Everything saturates. [`Tick::MAX`] means "never".
//! - A deadline rounds **up**, the present rounds **down**. So no job runs early.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;
use std::time::{Instant, SystemTime};

/// A point in wheel time: the number of ticks since the wheel began.
///
/// [`Tick::MAX`] stands for "never": arithmetic saturates there, and the clock of a
/// [`Wheel`](crate::Wheel) does not reach it.
///
/// ```
/// use tickwheel::{Span, Tick};
/// assert_eq!(Tick::new(10) - Tick::new(4), Span::new(6));
/// assert_eq!(Tick::new(10) + Span::new(5), Tick::new(15));
/// assert_eq!(Tick::MAX + Span::new(1), Tick::MAX);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

impl Tick {
    /// The last tick, which stands for "never".
    pub const MAX: Tick = Tick(u64::MAX);

    /// Returns the point `count` ticks after the wheel began.
    #[must_use]
    pub const fn new(count: u64) -> Tick {
        Tick(count)
    }

    /// Returns the number of ticks from the wheel's beginning to this point.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A distance between two [`Tick`]s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Span {
    /// The longest distance.
    pub const MAX: Span = Span(u64::MAX);

    /// Returns a distance of `ticks` ticks.
    #[must_use]
    pub const fn new(ticks: u64) -> Span {
        Span(ticks)
    }

    /// Returns the distance in ticks.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Returns the tick from `first` to `last` whose number can be halved most often, or `first` if
/// `last` lies before it.
///
/// If another timer's window contains the tick chosen here, that timer chooses the same tick,
/// unless its window also contains one that is more aligned. So overlapping windows mostly meet.
pub(crate) fn most_aligned(first: Tick, last: Tick) -> Tick {
    let Some(before) = first.0.checked_sub(1) else { return first };
    if last <= first {
        return first;
    }
    // The highest bit in which `before` and `last` differ. `last` with all lower bits cleared is
    // above `before`, so it lies in the window.
    let bit = (before ^ last.0).ilog2();
    Tick(last.0 >> bit << bit)
}

impl Add<Span> for Tick {
    type Output = Tick;

    /// Returns the point `span` later, or [`Tick::MAX`] if that is past the end.
    fn add(self, span: Span) -> Tick {
        Tick(self.0.saturating_add(span.0))
    }
}

impl Sub for Tick {
    type Output = Span;

    /// Returns how far `earlier` lies before this point, or zero if it does not.
    fn sub(self, earlier: Tick) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Tick::MAX => f.write_str("Tick(MAX)"),
            Tick(count) => write!(f, "Tick({count})"),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({})", self.0)
    }
}

/// A reading of the clock: nanoseconds since the wheel began, 584 years at most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than every reading of a clock.
    pub(crate) const NEVER: Moment = Moment(u64::MAX);

    /// Returns the moment `elapsed` after the wheel began.
    pub(crate) fn after(elapsed: Duration) -> Moment {
        Moment(nanos(elapsed))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub(crate) fn plus(self, delay: Duration) -> Moment {
        Moment(self.0.saturating_add(nanos(delay)))
    }

    #[inline]
    pub(crate) fn plus_a_nanosecond(self) -> Moment {
        Moment(self.0.saturating_add(1))
    }

    pub(crate) fn plus_periods(self, period: Duration, count: u64) -> Moment {
        Moment(self.0.saturating_add(nanos(period).saturating_mul(count)))
    }

    pub(crate) fn minus_a_nanosecond(self) -> Moment {
        Moment(self.0.saturating_sub(1))
    }

    /// Returns the number of whole periods between `earlier` and this moment. `period` is not zero.
    pub(crate) fn periods_since(self, earlier: Moment, period: Duration) -> u64 {
        self.0.saturating_sub(earlier.0) / nanos(period)
    }

    /// Returns the time from `earlier` to this moment, or zero if `earlier` is not earlier.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The length of a tick, and all roundings between moments and ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    tick_nanos: u64,
}

impl Scale {
    /// Returns the scale of this tick, or `None` if `tick` is zero or longer than 584 years.
    pub(crate) fn new(tick: Duration) -> Option<Scale> {
        let tick_nanos = u64::try_from(tick.as_nanos()).ok()?;
        (tick_nanos > 0).then_some(Scale { tick_nanos })
    }

    pub(crate) fn tick(self) -> Duration {
        Duration::from_nanos(self.tick_nanos)
    }

    /// Returns the last tick that has begun at `moment`: rounds down, and stays below "never".
    pub(crate) fn present(self, moment: Moment) -> Tick {
        Tick((moment.0 / self.tick_nanos).min(u64::MAX - 1))
    }

    /// Returns the first tick that begins at or after `moment`: rounds up, and is "never" past the
    /// end.
    pub(crate) fn deadline(self, moment: Moment) -> Tick {
        match moment {
            Moment::NEVER => Tick::MAX,
            Moment(nanos) => Tick(nanos.div_ceil(self.tick_nanos)),
        }
    }

    /// Returns the moment at which `tick` begins.
    pub(crate) fn begin(self, tick: Tick) -> Moment {
        Moment(tick.0.saturating_mul(self.tick_nanos))
    }
}

fn nanos(duration: Duration) -> u64 {
    // Not `as_nanos`, which would cost every insert 128-bit arithmetic.
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(duration.subsec_nanos()))
}

/// When a job is to run. Every verb that needs a time takes an `impl Into<When>`, so you can pass a
/// [`Duration`], an [`Instant`] or a [`SystemTime`] directly.
///
/// A delay counts from the call; [`Duration::MAX`] means never. A delay of zero, and an instant or
/// a wall-clock time that has passed, are due at the first tick after the present, however long the
/// wheel was idle.
///
/// An **instant** is a point on the monotonic clock, which is never set.
///
/// A job for a **wall-clock time** follows the wall clock: if that is set forward or back, the job
/// runs sooner or later by as much. It never runs before the wall clock reads its time, and it is
/// never lost. If the wall clock is set past its time, or the machine sleeps past it, the job runs
/// within about a second, because the ticker reads the wall clock once a second while any job waits
/// for it. If the wall clock is set by less than 10 ms, a job may be late by as much. Such a job
/// costs one lock more at the insert and one at the start, and an entry in a second table. It is
/// [pending](crate::Wheel::is_pending) until it starts.
///
/// A time may leave the wheel a choice: see [`When::within`] and [`When::jitter`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Keyed, Wheel, When};
/// let (wheel, driver) = Wheel::builder().manual()?;
/// let hour = Duration::from_secs(3600);
/// let orders = Keyed::new(&wheel);
/// orders.insert(1, 72 * hour, || println!("closed, unpaid"))?;
/// orders.insert(2, wheel.now() + 72 * hour, || println!("closed, unpaid"))?;
/// orders.insert(3, wheel.wall_now() + 72 * hour, || println!("closed, unpaid"))?;
/// orders.insert(4, When::after(72 * hour).within(hour), || println!("closed, unpaid"))?;
/// driver.set_wall(wheel.wall_now() + hour); // the clocks go forward
/// assert_eq!(driver.advance(71 * hour), 1); // order 3
/// assert_eq!(driver.advance(2 * hour), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct When {
    earliest: Earliest,
    window: Window,
}

/// The earliest time at which a job may run, as [`When::earliest`] returns it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Earliest {
    /// When this delay has passed on the monotonic clock, counted from the call.
    After(Duration),
    /// When the monotonic clock reaches this instant.
    At(Instant),
    /// When the wall clock reads this time.
    Wall(SystemTime),
}

/// Which tick, from the earliest time on, the job is due at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Window {
    /// The first tick.
    Exact,
    /// A tick that other jobs may share, no later than this after the earliest time.
    Slack(Duration),
    /// A random tick, no later than this after the earliest time.
    Jitter(Duration),
}

impl When {
    /// Returns the time when this delay has passed, counted from the call that takes this `When`.
    /// The same as `When::from(delay)`.
    #[must_use]
    pub const fn after(delay: Duration) -> When {
        When { earliest: Earliest::After(delay), window: Window::Exact }
    }

    /// Returns the time when the monotonic clock reaches this instant. The same as
    /// `When::from(instant)`.
    #[must_use]
    pub const fn at(instant: Instant) -> When {
        When { earliest: Earliest::At(instant), window: Window::Exact }
    }

    /// Returns the time when the wall clock reads `time`. The same as `When::from(time)`.
    #[must_use]
    pub const fn wall(time: SystemTime) -> When {
        When { earliest: Earliest::Wall(time), window: Window::Exact }
    }

    /// Lets the job be late by at most `slack`, so that many jobs share a tick, and the ticker
    /// wakes once for all of them.
    ///
    /// Of the ticks in between, the job takes the one whose number can be halved most often: the
    /// one that other jobs with slack are most likely to take. It may be late by its whole slack
    /// although no other job shares its tick. If no tick begins within the slack, the job is due at
    /// the next one, as without slack. Replaces a [jitter](When::jitter).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Wheel, When};
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let ms = Duration::from_millis(1);
    /// for delay in 900..920 {
    ///     let soon = When::after(delay * ms).within(100 * ms);
    ///     wheel.insert(soon, || println!("cache entry dropped"));
    /// }
    /// assert_eq!(driver.advance(959 * ms), 0);
    /// assert_eq!(driver.advance(ms), 20); // all of them at 960, which is 15 * 64
    /// # Ok::<(), tickwheel::ConfigError>(())
    /// ```
    #[doc(alias("slack", "coalesce", "leeway", "tolerance"))]
    #[must_use]
    pub const fn within(self, slack: Duration) -> When {
        When { window: Window::Slack(slack), ..self }
    }

    /// Makes the job late by a random time of at most `most`, so that jobs that were inserted
    /// together do not run together: the retries of many clients, say. Each tick in between is as
    /// likely as any other. Replaces a [slack](When::within).
    ///
    /// On a manual wheel the random times are the same in every run of the program.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Wheel, When};
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let ms = Duration::from_millis(1);
    /// for _ in 0..100 {
    ///     wheel.insert(When::after(100 * ms).jitter(100 * ms), || println!("connect again"));
    /// }
    /// assert_eq!(driver.advance(99 * ms), 0);
    /// assert!((20..80).contains(&driver.advance(51 * ms)));
    /// driver.advance(50 * ms);
    /// assert!(wheel.is_empty());
    /// # Ok::<(), tickwheel::ConfigError>(())
    /// ```
    #[doc(alias("random", "spread", "thundering herd"))]
    #[must_use]
    pub const fn jitter(self, most: Duration) -> When {
        When { window: Window::Jitter(most), ..self }
    }

    /// Returns the earliest time at which the job may run.
    #[must_use]
    pub const fn earliest(self) -> Earliest {
        self.earliest
    }

    /// Returns how much later than the earliest time the job may be due: its slack or its jitter,
    /// and zero without either.
    #[must_use]
    pub const fn leeway(self) -> Duration {
        match self.window {
            Window::Exact => Duration::ZERO,
            Window::Slack(leeway) | Window::Jitter(leeway) => leeway,
        }
    }

    pub(crate) const fn window(self) -> Window {
        self.window
    }

    pub(crate) const fn with_window(self, window: Window) -> When {
        When { window, ..self }
    }
}

impl From<Duration> for When {
    #[inline]
    fn from(delay: Duration) -> When {
        When::after(delay)
    }
}

impl From<Instant> for When {
    #[inline]
    fn from(instant: Instant) -> When {
        When::at(instant)
    }
}

impl From<SystemTime> for When {
    #[inline]
    fn from(time: SystemTime) -> When {
        When::wall(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn scale() -> Scale {
        Scale::new(MS).unwrap()
    }

    /// A delay that would overflow is never due, but the present stays before `Tick::MAX`.
    #[test]
    fn delay_of_the_maximum_is_never_and_the_present_is_not() {
        let never = Moment::after(MS).plus(Duration::MAX);
        assert_eq!(never, Moment::NEVER);
        assert_eq!(scale().deadline(never), Tick::MAX);
        let finest = Scale::new(Duration::from_nanos(1)).unwrap();
        assert_eq!(finest.present(Moment::NEVER), Tick::new(u64::MAX - 1));
        assert_eq!(scale().begin(Tick::MAX), Moment::NEVER);
        // The nanoseconds of this many seconds would wrap to a small number without saturation.
        assert_eq!(Moment::after(Duration::from_secs(1 << 55)), Moment::NEVER);
    }

    /// A tick is at least one nanosecond and at most `u64::MAX` nanoseconds.
    #[test]
    fn scale_needs_a_tick_that_can_be_counted() {
        assert!(Scale::new(Duration::ZERO).is_none());
        assert!(Scale::new(Duration::MAX).is_none());
        assert!(Scale::new(Duration::from_secs(3600)).is_some());
        assert!(Scale::new(Duration::from_nanos(u64::MAX)).is_some());
        assert!(Scale::new(Duration::from_nanos(u64::MAX) + Duration::from_nanos(1)).is_none());
    }

    /// `most_aligned` returns the tick of a range that is divisible by the highest power of two.
    #[test]
    fn most_aligned_tick_is_found() {
        let halvings = |tick: u64| if tick == 0 { u64::BITS } else { tick.trailing_zeros() };
        for first in 0..130 {
            for last in first..140 {
                let most_aligned = (first..=last).max_by_key(|&tick| halvings(tick)).unwrap();
                assert_eq!(super::most_aligned(Tick(first), Tick(last)), Tick(most_aligned));
            }
            assert_eq!(super::most_aligned(Tick(first), Tick(first / 2)), Tick(first));
        }
        assert_eq!(super::most_aligned(Tick(3), Tick::MAX), Tick(1 << 63));
        assert_eq!(super::most_aligned(Tick::MAX, Tick::MAX), Tick::MAX);
    }

    /// `Debug` prints `Tick::MAX` by its name.
    #[test]
    fn debug_names_never() {
        assert_eq!(format!("{:?} {:?}", Tick::MAX, Tick::new(3)), "Tick(MAX) Tick(3)");
        assert_eq!(format!("{:?}", Span::new(4)), "Span(4)");
    }
}
