//! When a job runs: after a delay, at an instant, or at a wall-clock time; exactly then, or within
//! a window after it.

use std::time::{Duration, Instant, SystemTime};

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
/// pending until it starts, also while it waits for a thread of the pool: until then it can be
/// cancelled and reset, and on a bounded wheel it takes room.
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
