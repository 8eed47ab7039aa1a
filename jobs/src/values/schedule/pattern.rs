//! Cron expressions on a clock without a time zone: croner reads them, and this file finds the dates and times that
//! they match.
//!
//! Ground rules:
//!
//! - A search ends soon, also if nothing matches. Years have one of 14 calendars, by leap day and first weekday. A
//!   calendar that has no match is searched once. So a search looks at 16 years of days at most.
//! - An expression has at most [`MOST_BYTES`], because croner needs thousands of steps for five of them.

use core::ops::RangeInclusive;
use core::str::FromStr;

pub(super) use croner::Direction;
use croner::Weekday;
use jiff::civil::{Date, DateTime};

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
