//! Futures that wait: for a time, again and again, or for another future no longer than a time.
//!
//! They need no runtime: a waker in the wheel is called when the time has come. A wheel and a
//! scheduler have the same verbs, which this file holds.

mod error;
mod interval;
mod shard_ref;
mod sleep;
mod timeout;

use core::future::IntoFuture;
use std::time::{Duration, Instant};

pub use error::{Elapsed, WheelGone, ZeroPeriod};
pub use interval::{Beat, Interval};
pub use sleep::Sleep;
pub use timeout::Timeout;

use crate::api::scheduler::Scheduler;
use crate::api::wheel::Wheel;
use crate::engine::verbs::Engine;
use crate::values::repeat::Repeat;
use crate::values::when::Window;

fn sleep(engine: &Engine, delay: Duration, window: Window) -> Sleep {
    Sleep::after(engine.own_waker_shard(), delay, window)
}

impl Wheel {
    /// Returns a future that is over once `delay` has passed since this call, never before, and at
    /// most one tick after plus what the ticker and the executor take to wake. Feature `async`.
    ///
    /// It needs no runtime, and works on every one. Until it is polled it has no place in the
    /// wheel; then it costs what a [`Sleep`] does. The first sleep of a wheel makes its shards of
    /// wakers, as many as there are of jobs and as large
    /// ([`Builder::shards`](crate::Builder::shards)). It does not count as a job: not in
    /// [`Wheel::len`], and not under [`Builder::max_pending`](crate::Builder::max_pending).
    /// [`Duration::ZERO`] is over at the next tick, [`Duration::MAX`] never.
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
        sleep(self.engine(), delay, Window::Exact)
    }

    /// Returns a future that is over when the monotonic clock reaches `deadline`: at once, if it
    /// has by the first poll. Feature `async`.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(self.engine().own_waker_shard(), deadline)
    }

    /// As [`Wheel::sleep`], and may be late by at most `slack`, so that it shares a tick with other
    /// timers ([`When::within`](crate::When::within)). Feature `async`.
    pub fn sleep_within(&self, delay: Duration, slack: Duration) -> Sleep {
        sleep(self.engine(), delay, Window::Slack(slack))
    }

    /// Limits a future to `delay`, counted **from its first poll**: it returns what the future
    /// returns, or [`Elapsed`] once the time has passed. Feature `async`.
    ///
    /// With a future that is ready at its first poll, it reads no clock and takes no lock. If the
    /// time is to count from another moment, take [`Wheel::timeout_at`].
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
    pub fn timeout<F: IntoFuture>(&self, delay: Duration, future: F) -> Timeout<'_, F::IntoFuture> {
        Timeout::after(self.engine(), delay, future.into_future())
    }

    /// Limits a future to the time until `deadline`, as [`Wheel::timeout`] does. Feature `async`.
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<'_, F::IntoFuture> {
        Timeout::at(self.engine(), deadline, future.into_future())
    }

    /// Returns a stream of beats: at a fixed rate that keeps its phase, with the first beat and the
    /// policy for missed periods of `repeat`. Feature `async`.
    ///
    /// A wall-clock time of the first beat is estimated now, and does not follow the wall clock.
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

impl Scheduler {
    /// Returns a future that is over once `delay` has passed since this call, as
    /// [`Wheel::sleep`] does.
    pub fn sleep(&self, delay: Duration) -> Sleep {
        sleep(self.engine(), delay, Window::Exact)
    }

    /// Returns a future that is over when the monotonic clock reaches `deadline`, as
    /// [`Wheel::sleep_until`] does.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(self.engine().own_waker_shard(), deadline)
    }

    /// As [`Scheduler::sleep`], and may be late by at most `slack`.
    pub fn sleep_within(&self, delay: Duration, slack: Duration) -> Sleep {
        sleep(self.engine(), delay, Window::Slack(slack))
    }

    /// Limits a future to `delay`, counted **from its first poll**, as [`Wheel::timeout`] does. It
    /// borrows the scheduler, so that threads do not meet in a count; a task that owns a clone of
    /// the scheduler may await it.
    pub fn timeout<F: IntoFuture>(&self, delay: Duration, future: F) -> Timeout<'_, F::IntoFuture> {
        Timeout::after(self.engine(), delay, future.into_future())
    }

    /// Limits a future to the time until `deadline`, as [`Wheel::timeout`] does.
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<'_, F::IntoFuture> {
        Timeout::at(self.engine(), deadline, future.into_future())
    }

    /// Returns a stream of beats, as [`Wheel::interval`] does.
    ///
    /// # Errors
    ///
    /// [`ZeroPeriod`], as there.
    pub fn interval(&self, repeat: Repeat) -> Result<Interval, ZeroPeriod> {
        Interval::new(self.engine().own_waker_shard(), repeat)
    }
}
