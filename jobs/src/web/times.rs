//! The present, and times as parameters: RFC 3339, a date, or a distance from the present.

use std::time::{Duration, Instant};

use crate::dispatch::clock::Clock;
use crate::values::time::Millis;

/// Returns the present. A manual clock has no effect on the dashboard.
pub(crate) fn now() -> Instant {
    Clock::of_system().now().instant
}

/// Reads a time: `2026-11-22T10:00:00Z`, `2026-11-22T10:00` and `2026-11-22` in UTC, or `30s`, `2h 30m`, `-3d`
/// from the present.
pub(crate) fn time(text: &str, now: Millis) -> Option<Millis> {
    absolute(text.trim()).or_else(|| {
        let text = text.trim();
        match text.strip_prefix('-') {
            Some(before) => Some(now.minus(duration(before)?)),
            None => Some(now.plus(duration(text)?)),
        }
    })
}

/// Reads a duration: numbers, each with a unit of `ms`, `s`, `m`, `h`, `d` or `w`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut total: Option<Duration> = None;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return None,
        };
        rest = rest[letters..].trim_start();
        let part = Duration::from_millis(number.checked_mul(unit)?);
        total = Some(total.unwrap_or_default().checked_add(part)?);
    }
    total
}

fn absolute(text: &str) -> Option<Millis> {
    let bytes = text.as_bytes();
    let number = |from: usize, digits: usize| {
        let digits = text.get(from..from + digits)?;
        digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    if !is(4, b"-") || !is(7, b"-") || !(1..=12).contains(&month) {
        return None;
    }
    let next_month = if month < 12 { days(year, month + 1, 1) } else { days(year + 1, 1, 1) };
    if !(1..=next_month - days(year, month, 1)).contains(&day) {
        return None;
    }
    let mut ms = days(year, month, day) * 86_400_000;
    let mut at = 10;
    if at < bytes.len() {
        let (hour, minute) = (number(11, 2)?, number(14, 2)?);
        if !is(10, b"Tt ") || !is(13, b":") || hour > 23 || minute > 59 {
            return None;
        }
        ms += (hour * 60 + minute) * 60_000;
        at = 16;
        if is(at, b":") {
            ms += number(17, 2).filter(|second| *second <= 59)? * 1000;
            at = 19;
            if is(at, b".") {
                let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
                let fraction = format!("{:0<3}", &text[at + 1..at + 1 + digits]);
                ms += fraction.get(..3)?.parse::<i64>().ok().filter(|_| digits > 0)?;
                at += 1 + digits;
            }
        }
        if is(at, b"+-") {
            let (hours, minutes) = (number(at + 1, 2)?, number(at + 4, 2)?);
            if !is(at + 3, b":") || hours > 23 || minutes > 59 {
                return None;
            }
            let offset = (hours * 60 + minutes) * 60_000;
            ms += if bytes[at] == b'+' { -offset } else { offset };
            at += 6;
        } else if is(at, b"Zz") {
            at += 1;
        }
    }
    (at == bytes.len()).then(|| Millis::clamped(ms))
}

/// Returns the number of a day, counted from 1970-01-01. The algorithm is `days_from_civil` of Howard Hinnant.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are read in every form that a form or a program sends, and nothing else is.
    #[test]
    fn times_are_read() {
        let now = Millis::clamped(1_000_000);
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-22T10:00:00.250Z", 1_795_341_600_250),
            ("2026-11-22T11:00:00.25+01:00", 1_795_341_600_250),
            ("2026-11-22T10:00", 1_795_341_600_000),
            ("2000-02-29", 951_782_400_000),
            ("2028-02-29", 1_835_395_200_000),
            ("2026-12-31", 1_798_675_200_000),
            ("9999-12-31T23:59:59.9999Z", 253_402_300_799_999),
            ("30s", 1_030_000),
            ("1m 40s", 1_100_000),
            ("-500s", 500_000),
            ("0s", 1_000_000),
        ];
        for (text, ms) in cases {
            assert_eq!(time(text, now), Some(Millis::clamped(ms)), "{text}");
        }
        let wrong = [
            "",
            "-",
            "now",
            "10",
            "2026",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-01-32",
            "2026-04-31",
            "2027-02-29",
            "2027-02-31",
            "2100-02-29",
            "2026-11-22T10:00:60Z",
            "2026-11-22T24:00",
            "2026-11-22T10",
            "1y",
            "2026-11-22Tzz:00",
            "é",
        ];
        for text in wrong.iter().chain(&[
            "99999999999999999999s",
            "2026-11-22T10:00:00.Z",
            "2026-11-22T10:00:00+1",
        ]) {
            assert_eq!(time(text, now), None, "{text}");
        }
    }
}
