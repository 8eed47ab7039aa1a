//! Cron expressions in a time zone: croner finds the times, jiff knows the zones.

use core::fmt;
use core::str::FromStr;

use croner::errors::CronError;
use croner::{CronDateTime, Direction};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::{Missed, Schedule, ScheduleError};
use crate::values::time::Millis;

/// A cron expression in a time zone: five fields (minute, hour, day of the month, month, day of the
/// week), six with seconds in front, or seven with a year behind these. With feature `cron`.
///
/// [croner](https://docs.rs/croner) defines the expression, and what happens when clocks change:
///
/// - When clocks go forward, an occurrence with a fixed time in the hour that does not exist runs at the first
///   moment after it. One with a `*` or a step in its time is left out.
/// - When clocks go back, an occurrence with a fixed time in the hour that exists twice runs once, in the first
///   of the two. One with a `*` or a step runs in both.
/// - When clocks go forward by more than two hours, an occurrence in the gap is left out, except in the last
///   two hours of the gap. (Apia left out a day in 2011.)
/// - No occurrence is found in the year 5000 or later. A schedule without a further occurrence ends: see
///   [`Schedule`].
///
/// The zone is a name of the IANA database ("Europe/Berlin", "UTC"), from the system's copy or, if
/// there is none, from jiff's.
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
    parsed: Box<croner::Cron>,
    zone: TimeZone,
    missed: Missed,
}

/// The most gaps in the times of a zone that one search skips.
const MOST_GAPS: usize = 100;
const SECOND: SignedDuration = SignedDuration::from_secs(1);

impl Cron {
    /// Returns the schedule of an expression in a time zone.
    ///
    /// # Errors
    ///
    /// If the expression is not valid, with the column, or if there is no such zone.
    pub fn new(expression: &str, zone: &str) -> Result<Cron, ScheduleError> {
        let parsed = croner::Cron::from_str(expression).map_err(|error| ScheduleError::Cron {
            expression: expression.to_owned(),
            column: wrong_column(expression),
            reason: error.to_string(),
        })?;
        let found = TimeZone::get(zone).map_err(|_| ScheduleError::Zone(zone.to_owned()))?;
        if zone.contains(char::is_whitespace) {
            return Err(ScheduleError::Zone(zone.to_owned()));
        }
        Ok(Cron {
            expression: expression.trim().to_owned(),
            zone_name: zone.to_owned(),
            parsed: Box::new(parsed),
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
        let ms = self.search(last, Direction::Forward)?;
        (ms <= Millis::MAX.get()).then(|| Millis::clamped(ms))
    }

    /// Returns the last occurrence before `next`.
    pub(crate) fn before(&self, next: Millis) -> Option<Millis> {
        let ms = self.search(next, Direction::Backward)?;
        (ms >= 0).then(|| Millis::clamped(ms))
    }

    fn find<T: CronDateTime>(
        &self,
        from: &T,
        included: bool,
        direction: Direction,
    ) -> Result<T, CronError> {
        match direction {
            Direction::Forward => self.parsed.find_next_occurrence(from, included),
            Direction::Backward => self.parsed.find_previous_occurrence(from, included),
        }
    }

    /// Searches for an occurrence from a time on, that time left out. If the occurrence falls into a gap of
    /// more than two hours, croner returns the same error as if there were no further occurrence. So the search
    /// then asks for the occurrence on a clock without a zone, and goes on behind the gap.
    fn search(&self, from: Millis, direction: Direction) -> Option<i64> {
        let mut from = Timestamp::from_millisecond(from.get()).ok()?.to_zoned(self.zone.clone());
        let mut included = false;
        for _ in 0..MOST_GAPS {
            let found = self.find(&from, included, direction);
            if let Ok(found) = found {
                return Some(found.timestamp().as_millisecond());
            }
            let missing = self.find(&from.datetime(), included, direction).ok()?;
            let missing = self.zone.to_ambiguous_zoned(missing);
            let is_gap = matches!(missing.offset(), AmbiguousOffset::Gap { .. });
            let mut next = missing.earlier().ok()?;
            if is_gap {
                let end = self.zone.following(next.timestamp()).next()?;
                next = end.timestamp().to_zoned(self.zone.clone());
            }
            from = match direction {
                Direction::Forward if is_gap => next,
                Direction::Forward => next.checked_add(SECOND).ok()?,
                Direction::Backward => next.checked_sub(SECOND).ok()?,
            };
            included = true;
        }
        None
    }
}

/// Returns the column of the first field that is wrong by itself: with every other field a `*`, the expression
/// is still refused. Returns 1 if no single field is wrong, and the end of the expression if fields are
/// missing.
fn wrong_column(expression: &str) -> usize {
    let mut fields = Vec::new();
    let mut rest = 0;
    for word in expression.split_whitespace() {
        let start = rest + expression[rest..].find(word).unwrap_or(0);
        fields.push((start, word));
        rest = start + word.len();
    }
    if fields.len() > 7 {
        return fields[7].0 + 1;
    }
    let wrong = (0..fields.len()).find(|&suspect| {
        let alone = |(place, &(_, word))| if place == suspect { word } else { "*" };
        let alone: Vec<&str> = fields.iter().enumerate().map(alone).collect();
        fields.len() >= 5 && croner::Cron::from_str(&alone.join(" ")).is_err()
    });
    let column = |index: usize| expression[..fields[index].0].chars().count() + 1;
    match wrong {
        Some(index) => column(index),
        None if fields.len() < 5 => expression.chars().count() + 1,
        None => 1,
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
