//! The wheel of the whole process, for code that is not passed one.

use core::future::IntoFuture;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::adapters::futures::{Interval, Sleep, Timeout, ZeroPeriod};
use crate::api::wheel::Wheel;
use crate::values::repeat::Repeat;

static WHEEL: OnceLock<Wheel> = OnceLock::new();

/// Returns the wheel of the process. The first use makes it as [`Wheel::new`] does: with a tick of a
/// millisecond, and a pool whose threads start when the first job comes due.
///
/// It is never dropped. [`Wheel::close`] ends it.
///
/// # Panics
///
/// When it has to make the wheel, and the system refuses to start the ticker's thread. The next use tries again. The
/// other functions of this module use the wheel, so they panic then too.
pub fn wheel() -> &'static Wheel {
    WHEEL.get_or_init(Wheel::new)
}

/// Makes this wheel the one of the process: a wheel with options of your own, or a manual one for
/// all tests of a program.
///
/// # Errors
///
/// Returns the wheel if the process has one already, from an earlier call or an earlier use.
pub fn install(wheel: Wheel) -> Result<(), Wheel> {
    WHEEL.set(wheel)
}

/// [`Wheel::sleep`] on the wheel of the process.
pub fn sleep(delay: Duration) -> Sleep {
    wheel().sleep(delay)
}

/// [`Wheel::sleep_until`] on the wheel of the process.
pub fn sleep_until(deadline: Instant) -> Sleep {
    wheel().sleep_until(deadline)
}

/// [`Wheel::sleep_within`] on the wheel of the process.
pub fn sleep_within(delay: Duration, slack: Duration) -> Sleep {
    wheel().sleep_within(delay, slack)
}

/// [`Wheel::timeout`] on the wheel of the process: counts **from the first poll**.
pub fn timeout<F: IntoFuture>(delay: Duration, future: F) -> Timeout<'static, F::IntoFuture> {
    wheel().timeout(delay, future)
}

/// [`Wheel::timeout_at`] on the wheel of the process.
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<'static, F::IntoFuture> {
    wheel().timeout_at(deadline, future)
}

/// [`Wheel::interval`] on the wheel of the process.
///
/// # Errors
///
/// [`ZeroPeriod`], as there.
pub fn interval(repeat: Repeat) -> Result<Interval, ZeroPeriod> {
    wheel().interval(repeat)
}
