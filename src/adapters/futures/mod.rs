//! Futures on a wheel: sleeps, intervals and timeouts, and the future that drives it.
//!
//! They need no runtime: the wheel calls a waker when the time has come. This file holds their verbs, of which a wheel
//! and its schedulers get each from one macro, and their errors.

mod drive;
mod interval;
mod sleep;
mod timeout;

use core::fmt;
use core::future::IntoFuture;
use std::io;
use std::time::{Duration, Instant};

pub use drive::Drive;
pub use interval::{Beat, Interval};
pub use sleep::Sleep;
pub use timeout::Timeout;

use crate::api::scheduler::Scheduler;
use crate::api::wheel::Wheel;
use crate::values::repeat::Repeat;
use crate::values::time::Window;

macro_rules! verbs {
    ($front:ty) => {
        impl $front {
            /// Returns a future that is over once `delay` has passed since this call: never before,
            /// and at most one tick after, plus the time that the ticker and the executor take to
            /// wake. Feature `async`.
            ///
            /// It needs no runtime, and works on every one. It takes no place in the wheel until
            /// its first poll; [`Sleep`] lists its costs. The first sleep of a wheel allocates the
            /// shards of wakers: as many as there are shards of jobs, and as large
            /// ([`Builder::shards`](crate::Builder::shards)). A sleep does not count as a job: not
            /// in [`Wheel::len`], and not under
            /// [`Builder::max_pending`](crate::Builder::max_pending). [`Duration::ZERO`] is over at
            /// the next tick, [`Duration::MAX`] never.
            ///
            /// ```
            /// use std::time::Duration;
            /// use tickwheel::Wheel;
            ///
            /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            /// let wheel = Wheel::new();
            /// wheel.sleep(Duration::from_millis(5)).await;
            /// # });
            /// ```
            #[doc(alias("delay", "timer"))]
            pub fn sleep(&self, delay: Duration) -> Sleep {
                Sleep::after(self.engine().own_waker_shard(), delay, Window::Exact)
            }

            /// Returns a future that is over when the monotonic clock reaches `deadline`. If the
            /// clock has reached it by the first poll, that poll is ready. Feature `async`.
            pub fn sleep_until(&self, deadline: Instant) -> Sleep {
                Sleep::until(self.engine().own_waker_shard(), deadline)
            }

            /// As [`Wheel::sleep`], but may be late by at most `slack`, so that it shares a tick
            /// with other timers ([`When::within`](crate::When::within)). Feature `async`.
            pub fn sleep_within(&self, delay: Duration, slack: Duration) -> Sleep {
                Sleep::after(self.engine().own_waker_shard(), delay, Window::Slack(slack))
            }

            /// Limits a future to `delay`, counted **from its first poll**: it returns the output
            /// of the future, or [`Elapsed`] once the time has passed. Feature `async`.
            ///
            /// The first poll of the inner future does not count: the delay begins when it has
            /// returned. If the future is ready then, this reads no clock and takes no lock. If the
            /// time must count from another moment, use [`Wheel::timeout_at`].
            ///
            /// It borrows the wheel or the scheduler, so that threads do not contend for a reference
            /// count. A task that owns a clone of the scheduler may await it.
            ///
            /// ```
            /// use std::future::{pending, ready};
            /// use std::time::Duration;
            /// use tickwheel::Wheel;
            ///
            /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            /// let wheel = Wheel::new();
            /// let limit = Duration::from_millis(5);
            /// assert_eq!(wheel.timeout(limit, ready("answer")).await, Ok("answer"));
            /// assert!(wheel.timeout(limit, pending::<&str>()).await.is_err());
            /// # });
            /// ```
            pub fn timeout<F: IntoFuture>(
                &self,
                delay: Duration,
                future: F,
            ) -> Timeout<'_, F::IntoFuture> {
                Timeout::after(self.engine(), delay, future.into_future())
            }

            /// Limits a future to the time until `deadline`, as [`Wheel::timeout`] does. Feature
            /// `async`.
            pub fn timeout_at<F: IntoFuture>(
                &self,
                deadline: Instant,
                future: F,
            ) -> Timeout<'_, F::IntoFuture> {
                Timeout::at(self.engine(), deadline, future.into_future())
            }

            /// Returns a stream of beats at a fixed rate that keeps its phase. `repeat` sets the
            /// period, the first beat and the policy for missed periods. Feature `async`.
            ///
            /// If the first beat has a wall-clock time, its instant is estimated now, and does not
            /// follow the wall clock.
            ///
            /// # Errors
            ///
            /// [`ZeroPeriod`]: the period is zero, or there is none ([`Repeat::irregular`]).
            ///
            /// ```
            /// use std::time::Duration;
            /// use tickwheel::{Repeat, Wheel};
            ///
            /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            /// let wheel = Wheel::new();
            /// let mut interval = wheel.interval(Repeat::every(Duration::from_millis(2))).unwrap();
            /// for _ in 0..3 {
            ///     let beat = interval.tick().await.expect("the wheel is there");
            ///     println!("{:?} late, {} missed", beat.late, beat.missed);
            /// }
            /// # });
            /// ```
            pub fn interval(&self, repeat: Repeat) -> Result<Interval, ZeroPeriod> {
                Interval::new(self.engine().own_waker_shard(), repeat)
            }
        }
    };
}

verbs!(Wheel);
verbs!(Scheduler);

/// The wheel ended before the time of a sleep came: the error of
/// [`Sleep::poll_elapsed`](crate::Sleep::poll_elapsed).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WheelGone(());

/// A [`Timeout`] was over before its future was ready: the time has passed, or the
/// wheel ended before that.
///
/// It converts into an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed {
    wheel_gone: bool,
}

/// The period of an interval is zero, or there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZeroPeriod(());

impl Elapsed {
    /// Returns whether the wheel ended before the time had passed.
    #[must_use]
    pub fn wheel_gone(&self) -> bool {
        self.wheel_gone
    }
}

impl fmt::Display for WheelGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the wheel has ended before the time had come")
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wheel_gone {
            true => f.write_str("the wheel has ended before the future was ready"),
            false => f.write_str("the time was over before the future was ready"),
        }
    }
}

impl fmt::Display for ZeroPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an interval needs a period that is not zero")
    }
}

impl std::error::Error for WheelGone {}
impl std::error::Error for ZeroPeriod {}
impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}
