//! Times, and bounds of durations, as rows have them.

use core::fmt;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::values::history::Buckets;
use crate::values::time::{Millis, Rfc3339};

/// A time, in whole milliseconds. It prints as `2026-11-22T10:00:00.000Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub(super) Millis);

impl Time {
    /// Returns the time as the standard library has it.
    #[must_use]
    pub fn to_system(self) -> SystemTime {
        self.0.to_system()
    }

    /// Returns the milliseconds since 1970.
    #[must_use]
    pub fn ms(self) -> i64 {
        self.0.get()
    }

    /// Returns the milliseconds from `earlier` to this time: below zero if this is the earlier one.
    #[must_use]
    pub fn ms_since(self, earlier: Time) -> i64 {
        self.ms() - earlier.ms()
    }

    /// Returns the distance from `earlier` to this time, or zero if this is the earlier one.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        self.0.since(earlier.0)
    }
}

/// The beginning of 1970.
impl Default for Time {
    fn default() -> Time {
        Time(Millis::ZERO)
    }
}

/// Rounds down to a millisecond. A time before 1970 becomes 1970, and one after 9999 the last of that year.
impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Time {
        Time(Millis::present(time))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rfc3339(self.to_system()).fmt(f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The bound of the bucket that a duration falls into ([`Buckets::BOUNDS`]), in milliseconds, rounded up. Above every
/// bound its JSON is the text `more than 3600000`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bound(u64);

impl Bound {
    /// The last bound of the buckets: an hour.
    pub const LAST_MS: u64 = 3_600_000;

    /// Returns the bound of a duration in milliseconds.
    #[must_use]
    pub fn from_ms(ms: u64) -> Bound {
        Bound(ms.min(Bound::LAST_MS + 1))
    }

    /// Returns the bound under which `in_hundred` of a hundred counted durations are.
    pub(super) fn of(counts: &[u64], in_hundred: u64) -> Option<Bound> {
        let bound = Buckets::bound_of(counts, in_hundred)?;
        Some(Bound::from_ms(u64::try_from(bound.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)))
    }

    /// Says whether the duration is above every bound.
    #[must_use]
    pub fn is_above(self) -> bool {
        self.0 > Bound::LAST_MS
    }

    /// Returns the milliseconds. Above every bound they are one more than the last.
    #[must_use]
    pub fn ms(self) -> u64 {
        self.0
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_above() {
            true => serializer.collect_str(&format_args!("more than {}", Bound::LAST_MS)),
            false => serializer.serialize_u64(self.0),
        }
    }
}
