//! The three ways to say when.

use std::time::{Duration, Instant, SystemTime};

/// When a job is to run. Every verb that takes an `impl Into<When>` takes a [`Duration`], an
/// [`Instant`] or a [`SystemTime`] as it is.
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
    /// Once so much time has passed on the monotonic clock, from now on. [`Duration::MAX`] means
    /// never.
    After(Duration),
    /// When the monotonic clock is there.
    At(Instant),
    /// When the wall clock reads this. If that is set forward or back meanwhile, the job runs
    /// sooner or later by as much: see [`Wheel::insert_at`](crate::Wheel::insert_at), and
    /// [`Wheel::reset_at`](crate::Wheel::reset_at) for jobs that do not learn to follow it.
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
