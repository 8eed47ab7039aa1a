//! The views: plain values, from which the pages and the JSON are made.
//!
//! Ground rules:
//!
//! - Every text from a job is redacted before it is put into a view, and escaped by the page that shows it.
//! - A time serializes as RFC 3339. A number that JavaScript would round becomes a string when the JSON is
//!   printed, not here.

pub(crate) mod action;
pub(crate) mod job;
pub(crate) mod limits;
pub(crate) mod overview;
pub(crate) mod place;
pub(crate) mod groups;

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::values::time::Millis;
use crate::values::time::rfc3339_text;

/// A time. It prints as `2026-11-22T10:00:00.000Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(Millis);

impl Time {
    pub(crate) fn new(time: SystemTime) -> Time {
        Time(Millis::present(time))
    }

    /// Returns the milliseconds since 1970.
    pub(crate) fn ms(self) -> i64 {
        self.0.get()
    }

    /// Returns the milliseconds from `earlier` to this time: below zero if this is the earlier one.
    pub(crate) fn ms_since(self, earlier: Time) -> i64 {
        self.ms() - earlier.ms()
    }
}

impl core::fmt::Display for Time {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&rfc3339_text(self.0.to_system()))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The bound of the bucket that a duration falls into, in milliseconds, rounded up. Above every bound it is one more than
/// the last, and its JSON is the text `more than 3600000`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Bound(pub(crate) u64);

impl Bound {
    /// The last bound of the buckets.
    pub(crate) const LAST_MS: u64 = 3_600_000;

    pub(crate) fn of(bound: Duration) -> Bound {
        let ms = u64::try_from(bound.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        Bound(ms.min(Bound::LAST_MS + 1))
    }

    /// Says whether the duration is above every bound.
    pub(crate) fn is_above(self) -> bool {
        self.0 > Bound::LAST_MS
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

/// How many there are, or at least how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Number {
    pub(crate) count: u64,
    /// False: there are `count` or more.
    pub(crate) is_exact: bool,
}

impl Number {
    /// Says whether a change of so many jobs is within this number.
    pub(crate) fn covers(self, jobs: Number) -> bool {
        !self.is_exact || (jobs.is_exact && jobs.count <= self.count)
    }
}

/// As a form sends it: `8`, or `10000+`.
impl core::fmt::Display for Number {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}{}", self.count, if self.is_exact { "" } else { "+" })
    }
}

/// The reason of a refusal or failure, as a page and as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub(crate) status: u16,
    /// A word for programs: `not_found`, `forbidden`, `bad_parameter`, `store_failed`.
    pub(crate) error: &'static str,
    /// A sentence for people.
    pub(crate) message: String,
}
