//! When a job runs: after a delay, at an instant, or at a wall-clock time.

use std::time::{Duration, Instant, SystemTime};

/// When a job is to run. Every verb that takes an `impl Into<When>` takes a [`Duration`], an
/// [`Instant`] or a [`SystemTime`] as it is.
///
/// A delay of zero, and an instant or a wall-clock time that has passed, are due at the first tick
/// after the present, however long the wheel was idle.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickwheel::{Keyed, Wheel};
/// let wheel = Wheel::new();
/// let orders = Keyed::new(wheel.scheduler());
/// let hours = Duration::from_secs(3600);
/// orders.insert("order 1", 72 * hours, || println!("closed, unpaid"))?;
/// orders.insert("order 2", SystemTime::now() + 72 * hours, || println!("closed, unpaid"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum When {
    /// When this delay has passed on the monotonic clock, counted from the call.
    /// [`Duration::MAX`] means never.
    After(Duration),
    /// When the monotonic clock reaches this instant.
    At(Instant),
    /// When the wall clock reads this time. If the wall clock is set forward or back meanwhile, the
    /// job runs sooner or later by as much: see [`Wheel::insert_at`](crate::Wheel::insert_at). A
    /// one-shot job that is reset to a wall-clock time does not follow the wall clock: see
    /// [`Wheel::reset_at`](crate::Wheel::reset_at).
    Wall(SystemTime),
}

impl From<Duration> for When {
    fn from(delay: Duration) -> When {
        When::After(delay)
    }
}

impl From<Instant> for When {
    fn from(instant: Instant) -> When {
        When::At(instant)
    }
}

impl From<SystemTime> for When {
    fn from(time: SystemTime) -> When {
        When::Wall(time)
    }
}
