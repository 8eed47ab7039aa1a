//! Times of the wall clock, in whole milliseconds, how a [`When`] becomes one, and how one is written (RFC 3339).
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

use super::invalid_input::InvalidInput;
use serde::{Serialize, Serializer};
use tickwheel::{Earliest, When};

/// A time of the wall clock: milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub(crate) struct Millis(i64);

/// The times of both clocks, read at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) wall: SystemTime,
    pub(crate) instant: Instant,
}

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
    pub(crate) fn due(time: SystemTime) -> Result<Millis, InvalidInput> {
        let since = time.duration_since(UNIX_EPOCH).map_err(|_| InvalidInput::Before1970(time))?;
        let ms = since.as_nanos().div_ceil(1_000_000);
        match i64::try_from(ms) {
            Ok(ms) if ms <= Millis::MAX.0 => Ok(Millis(ms)),
            _ => Err(InvalidInput::After9999(time)),
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
    pub(crate) fn resolve(self, when: When, draw: u64) -> Result<Millis, InvalidInput> {
        let after = |delay| {
            let time = self.wall.checked_add(delay).ok_or(InvalidInput::DelayTooLong(delay))?;
            let due = Millis::due(time).map_err(|error| match error {
                InvalidInput::After9999(_) => InvalidInput::DelayTooLong(delay),
                other => other,
            });
            Ok((due?, delay.is_zero()))
        };
        let (due, has_come) = match when.earliest() {
            Earliest::After(delay) => after(delay)?,
            Earliest::At(instant) => after(instant.saturating_duration_since(self.instant))?,
            Earliest::Wall(time) => (Millis::due(time)?, time <= self.wall),
            other => unreachable!("a kind of time that this version does not know: {other:?}"),
        };
        let due = if has_come { due.min(self.millis()) } else { due };
        let leeway = when.leeway();
        if leeway.is_zero() {
            return Ok(due);
        }
        // The check does not depend on `draw`: the same insert is always accepted, or always refused.
        let latest = due.to_system().checked_add(leeway);
        if latest.is_none_or(|latest| Millis::due(latest).is_err()) {
            return Err(InvalidInput::DelayTooLong(leeway));
        }
        let choices = u64::try_from(leeway.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        Ok(due.plus(Duration::from_millis(draw % choices)))
    }
}

/// A time, printed as RFC 3339: `2026-11-22T10:00:00.000Z`.
pub(crate) struct Rfc3339(pub(crate) SystemTime);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = Millis::present(self.0).get();
        let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
        let (year, month, day) = date(days);
        let (seconds, ms) = (of_day / 1000, of_day % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

impl fmt::Debug for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

pub(crate) fn rfc3339<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    Rfc3339(*time).serialize(serializer)
}

/// Serializes a time that may be absent.
pub(crate) fn rfc3339_or_null<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(Rfc3339).serialize(serializer)
}

/// Returns year, month and day of the day with this number, counted from 1970-01-01. The algorithm is
/// `civil_from_days` of Howard Hinnant: years begin in March, so that a leap day is the last day of one.
pub(super) fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // 0 is March
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next_year, month, day)
}

/// A duration in its two largest units: `45 s`, `5 m 3 s`, `2 h`, `7 d`. A part of a second counts as one, but a
/// duration below a second is in milliseconds.
pub(crate) fn in_words(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{} ms", time.as_micros().div_ceil(1000));
    }
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let shown = units.iter().skip_while(|(count, _)| *count == 0).take(2);
    let shown = shown.filter(|(count, _)| *count > 0);
    shown.map(|(count, unit)| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}
