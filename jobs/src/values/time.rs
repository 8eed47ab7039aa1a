//! Times of the wall clock, in whole milliseconds, and how a [`When`] becomes one.
//!
//! Ground rules:
//!
//! - A due time rounds up to a millisecond and the present rounds down, so no job is early. A due time that has
//!   come already is not rounded up: a job cannot start before its insert anyway.
//! - A time lies between 1970 and the end of 9999. If a caller asks for a time outside of this range, the error
//!   names that time; the time is never moved into the range. The wait of a failed run has no caller, so it
//!   ends with the year 9999 ([`Millis::plus`]).
//! - The clock is passed in. No function here reads one.

use core::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tickwheel::{Earliest, When};

/// A time of the wall clock: milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Millis(i64);

/// The times of both clocks, read at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) wall: SystemTime,
    pub(crate) instant: Instant,
}

/// A time that a job cannot have: before 1970, or after the year 9999.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimeError {
    /// The wall-clock time lies before 1970.
    Before1970(SystemTime),
    /// The wall-clock time lies after the year 9999.
    After9999(SystemTime),
    /// The delay ends after the year 9999, or the window of a [`When`] does; or a head start is longer than ten years
    /// ([`Kind::head_start`](crate::Kind::head_start)).
    TooLong(Duration),
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeError::Before1970(time) => {
                let before = UNIX_EPOCH.duration_since(*time).unwrap_or_default();
                write!(f, "a job cannot be due {before:?} before 1970")
            }
            TimeError::After9999(time) => {
                let after = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                write!(f, "a job cannot be due {after:?} after 1970, which is past the year 9999")
            }
            TimeError::TooLong(delay) => {
                write!(
                    f,
                    "{delay:?} is too long: a delay ends with the year 9999 at the latest, and a head start has ten \
                     years at most"
                )
            }
        }
    }
}

impl std::error::Error for TimeError {}

impl Millis {
    pub(crate) const ZERO: Millis = Millis(0);
    /// The last millisecond of the year 9999.
    pub(crate) const MAX: Millis = Millis(253_402_300_799_999);

    /// Returns the time, moved into the range if it lies outside of it.
    pub(crate) fn clamped(ms: i64) -> Millis {
        Millis(ms.clamp(0, Millis::MAX.0))
    }

    pub(crate) const fn get(self) -> i64 {
        self.0
    }

    /// Returns the time of the wall clock, rounded down, and moved into the range: a clock may read any time.
    pub(crate) fn present(wall: SystemTime) -> Millis {
        let ms = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Millis::clamped(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// Returns the first whole millisecond at or after `time`.
    pub(crate) fn due(time: SystemTime) -> Result<Millis, TimeError> {
        let since = time.duration_since(UNIX_EPOCH).map_err(|_| TimeError::Before1970(time))?;
        let ms = since.as_nanos().div_ceil(1_000_000);
        match i64::try_from(ms) {
            Ok(ms) if ms <= Millis::MAX.0 => Ok(Millis(ms)),
            _ => Err(TimeError::After9999(time)),
        }
    }

    pub(crate) fn plus(self, by: Duration) -> Millis {
        let by = i64::try_from(by.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
        Millis::clamped(self.0.saturating_add(by))
    }

    pub(crate) fn minus(self, by: Duration) -> Millis {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        Millis::clamped(self.0.saturating_sub(by))
    }

    /// Returns the distance from `earlier` to this time, or zero if `earlier` is not earlier.
    pub(crate) fn since(self, earlier: Millis) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    pub(crate) fn to_system(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.0).unwrap_or(0))
    }
}

impl Now {
    pub(crate) fn millis(self) -> Millis {
        Millis::present(self.wall)
    }

    /// Returns the due time that `when` means now. `draw` is a random number: it chooses the place in the
    /// window of `when`.
    pub(crate) fn resolve(self, when: When, draw: u64) -> Result<Millis, TimeError> {
        let delay = match when.earliest() {
            Earliest::After(delay) => Ok(delay),
            Earliest::At(instant) => Ok(instant.saturating_duration_since(self.instant)),
            Earliest::Wall(time) => Err(time),
            other => unreachable!("a kind of time that this version does not know: {other:?}"),
        };
        let due = match delay {
            Ok(delay) => {
                let time = self.wall.checked_add(delay).ok_or(TimeError::TooLong(delay))?;
                Millis::due(time).map_err(|error| match error {
                    TimeError::After9999(_) => TimeError::TooLong(delay),
                    other => other,
                })?
            }
            Err(time) => Millis::due(time)?,
        };
        let has_come = match delay {
            Ok(delay) => delay.is_zero(),
            Err(time) => time <= self.wall,
        };
        let due = if has_come { due.min(self.millis()) } else { due };
        let leeway = when.leeway();
        if leeway.is_zero() {
            return Ok(due);
        }
        // The check does not depend on `draw`: the same insert is always accepted, or always refused.
        let latest = due.to_system().checked_add(leeway);
        if latest.is_none_or(|latest| Millis::due(latest).is_err()) {
            return Err(TimeError::TooLong(leeway));
        }
        let choices = u64::try_from(leeway.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        Ok(due.plus(Duration::from_millis(draw % choices)))
    }
}
