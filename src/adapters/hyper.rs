//! The timer of hyper: the sleeps of a wheel behind hyper's trait `Timer`, in the boxes that it asks for. hyper reads
//! the clock of the wheel, so a manual wheel moves hyper's time too.

use core::pin::Pin;
use std::time::{Duration, Instant};

use hyper::rt;

use super::futures::Sleep;
use crate::api::scheduler::Scheduler;

/// Gives the timeouts of [`hyper`](https://docs.rs/hyper/1) to a wheel: a [`hyper::rt::Timer`].
/// Feature `hyper`.
///
/// hyper has no clock of its own. To set a timeout (`header_read_timeout`, `keep_alive_interval`,
/// `pool_idle_timeout`), a program gives a timer to the builder of a server or client; the builders
/// of `hyper-util` take the same trait. It works on any thread and on any runtime.
///
/// ```
/// use std::time::Duration;
/// use hyper::rt::Timer;
/// use tickwheel::{HyperTimer, Wheel};
///
/// let wheel = Wheel::new();
/// let timer = HyperTimer::new(&wheel);
/// // As in http1::Builder::new().timer(timer).header_read_timeout(Duration::from_secs(10)).
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// timer.sleep(Duration::from_millis(5)).await;
/// # });
/// ```
///
/// # Costs
///
/// The trait requires a box for each sleep, so each costs one allocation more than a [`Sleep`]. A
/// reset reuses the box, and costs what [`Sleep::reset_at`] does.
///
/// # The end of the wheel
///
/// The trait has no errors. After the end of the wheel, a sleep whose time had not come never ends,
/// and hyper's timeouts have no effect. So let the wheel live as long as the server, or use the
/// wheel of the process ([`global::wheel`](crate::global::wheel)). The timer does not keep the wheel
/// alive.
///
/// The design is hyper's own: [`hyper::rt::Timer`] states what a timer must do.
#[derive(Clone, Debug)]
pub struct HyperTimer {
    scheduler: Scheduler,
}

impl HyperTimer {
    /// Returns a timer of this wheel.
    #[must_use]
    pub fn new(wheel: impl Into<Scheduler>) -> HyperTimer {
        HyperTimer { scheduler: wheel.into() }
    }
}

impl rt::Timer for HyperTimer {
    /// [`Scheduler::sleep`], in a box.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.scheduler.sleep(duration))
    }

    /// [`Scheduler::sleep_until`], in a box.
    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.scheduler.sleep_until(deadline))
    }

    /// [`Scheduler::now`].
    fn now(&self) -> Instant {
        self.scheduler.now()
    }

    /// [`Sleep::reset_at`], in the same box. A sleep of another kind of timer is replaced by a new
    /// one of this wheel. A [`Sleep`] of another wheel stays on that wheel and follows its clock.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.get_mut().reset_at(new_deadline),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

impl rt::Sleep for Sleep {}
