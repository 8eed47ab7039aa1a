//! The errors of futures on a wheel.

use core::fmt;
use std::io;

/// The wheel ended before the time of a sleep came: the error of
/// [`Sleep::poll_elapsed`](crate::Sleep::poll_elapsed).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WheelGone(pub(super) ());

/// A [`Timeout`](crate::Timeout) was over before its future was ready: the time has passed, or the
/// wheel ended before that.
///
/// It converts into an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed {
    pub(super) wheel_gone: bool,
}

/// The period of an interval is zero, or there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZeroPeriod(pub(super) ());

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
