//! Times, sizes and text of jobs, as output for people; and times as input.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;
use jiff::{RoundMode, SignedDuration, Span, SpanRelativeTo, SpanRound, Timestamp, Unit, Zoned};
use serde::Serialize;
use tickwheel_jobs::view;

/// How far the clock of the store is ahead of this machine's.
static AHEAD: OnceLock<SignedDuration> = OnceLock::new();

/// The zone of printed times, and of times that are read and name no zone. UTC if it is not set.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

pub(crate) fn set_local() -> Result<(), jiff::Error> {
    let zone = TimeZone::try_system()?;
    ZONE.get_or_init(|| zone);
    Ok(())
}

pub(crate) fn zone_name() -> &'static str {
    if ZONE.get().is_some() { "local" } else { "UTC" }
}

pub(crate) fn now() -> SystemTime {
    let ahead = AHEAD.get().copied().unwrap_or_default();
    let now = Timestamp::now();
    now.checked_add(ahead).unwrap_or(now).into()
}

#[cfg(feature = "redis")]
pub(crate) fn set_present(reads: Duration) {
    let ahead = SignedDuration::try_from(reads).unwrap_or(SignedDuration::MAX);
    let ahead = ahead.saturating_sub(Timestamp::now().as_duration());
    AHEAD.get_or_init(|| ahead);
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    At(SystemTime),
    /// A distance from the present of the store, which is known once the store is open.
    FromNow(SignedDuration),
}

impl Moment {
    pub(crate) fn resolve(self) -> SystemTime {
        match self {
            Moment::At(time) => time,
            Moment::FromNow(distance) => {
                let ahead = AHEAD.get().copied().unwrap_or_default();
                let time = Timestamp::now().checked_add(distance.saturating_add(ahead));
                let end = if distance.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
                time.unwrap_or(end).into()
            }
        }
    }
}

/// Reads a time: with an offset or a zone; without one, in the zone that is set; or a distance from the present.
pub(crate) fn time(text: &str) -> Result<Moment, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Moment::At(time.into()));
    }
    if let Ok(time) = text.parse::<Zoned>() {
        return Ok(Moment::At(time.timestamp().into()));
    }
    if let Some(time) = civil_time(text) {
        return Ok(Moment::At(time));
    }
    let wrong =
        || format!("{text:?} is no time: 2026-11-22T10:00:00Z, 2026-11-22, or 2h 30m from now on");
    let distance = text.parse::<Span>().map_err(|_| wrong())?;
    let distance = distance.to_duration(SpanRelativeTo::days_are_24_hours());
    let is_a_time = |distance| Timestamp::now().checked_add(distance).map(|_| distance);
    let distance = distance.and_then(is_a_time);
    distance.map(Moment::FromNow).map_err(|error| format!("{text:?}: {error}"))
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Reads a time in the zone that is set, or a time with an offset that a `Timestamp` cannot hold: that type
/// ends 26 hours before the year 9999 does.
fn civil_time(text: &str) -> Option<SystemTime> {
    let pieces =
        Pieces::parse(text).ok().filter(|pieces| pieces.time_zone_annotation().is_none())?;
    let civil = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    if let Some(zone) = ZONE.get()
        && pieces.offset().is_none()
    {
        return civil.to_zoned(zone.clone()).ok().map(|time| time.timestamp().into());
    }
    let offset = pieces.to_numeric_offset().map_or(0, |offset| offset.seconds());
    let since = civil.duration_since(EPOCH) - SignedDuration::from_secs(offset.into());
    match Duration::try_from(since) {
        Ok(after) => SystemTime::UNIX_EPOCH.checked_add(after),
        Err(_) => SystemTime::UNIX_EPOCH.checked_sub(since.unsigned_abs()),
    }
}

/// Reads a delay. A day has 24 hours.
pub(crate) fn delay(text: &str) -> Result<Duration, String> {
    let span = text.parse::<Span>().map_err(|_| format!("{text:?} is no delay: 5m, 2h 30m, 3d"))?;
    let delay = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let delay = delay.map_err(|error| format!("{text:?}: {error}"))?;
    Duration::try_from(delay).map_err(|_| format!("{text:?} is a delay below zero"))
}

/// Reads a rate: a number of jobs and a period. The period may be a unit without a number: `10/s`.
pub(crate) fn rate(text: &str) -> Result<(u32, Duration), String> {
    let wrong = || format!("{text:?} is no rate: 10/1s, 10/s, 600/1h");
    let (jobs, per) = text.split_once('/').ok_or_else(wrong)?;
    let jobs: u32 = jobs.trim().parse().map_err(|_| wrong())?;
    if jobs == 0 {
        return Err("a rate of 0 starts no job: `pause` and `hold` do that".to_owned());
    }
    let per = per.trim();
    let one = if per.starts_with(|c: char| c.is_ascii_alphabetic()) { "1" } else { "" };
    Ok((jobs, delay(&format!("{one}{per}")).map_err(|_| wrong())?))
}

/// Reads a size in B, K, M or G, and returns it in bytes. K is 1024 bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size: 65536, 16M, 1GiB");
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit: u64 = match unit.trim().trim_end_matches("iB") {
        "" | "B" => 1,
        "K" | "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(wrong()),
    };
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(unit));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// Returns the time for people, in UTC or in the zone that is set: `2026-11-22T11:00:00.000+01:00`.
pub(crate) fn shown(time: SystemTime) -> String {
    match (ZONE.get(), Timestamp::try_from(time)) {
        (Some(zone), Ok(time)) => {
            let time = time.to_zoned(zone.clone());
            time.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
        }
        _ => view::Time::from(time).to_string(),
    }
}

/// Returns the distance of a time from the present: `in 2h 5m`, `3s ago`, `now`.
pub(crate) fn relative(time: SystemTime, now: SystemTime) -> String {
    match time.duration_since(now) {
        Ok(ahead) if ahead.as_millis() > 0 => format!("in {}", span(ahead)),
        Ok(_) => "now".to_owned(),
        Err(past) if past.duration().as_millis() > 0 => format!("{} ago", span(past.duration())),
        Err(_) => "now".to_owned(),
    }
}

/// Returns the time for people, with its distance from the present: `2026-11-22T10:00:00.000Z (in 5m)`.
pub(crate) fn dated(time: SystemTime, now: SystemTime) -> String {
    format!("{} ({})", shown(time), relative(time, now))
}

pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// Returns a duration in its two largest units, rounded down: `3d 4h`, `5m 3s`, `1s 250ms`, `7ms`. From 10 s on
/// it has no milliseconds.
pub(crate) fn span(duration: Duration) -> String {
    let smallest = match duration.as_secs() {
        0..10 => Unit::Millisecond,
        10..3600 => Unit::Second,
        3600..86_400 => Unit::Minute,
        _ => Unit::Hour,
    };
    let round = SpanRound::new().largest(Unit::Day).smallest(smallest).mode(RoundMode::Trunc);
    let span = Span::try_from(duration).and_then(|span| span.round(round.days_are_24_hours()));
    span.map_or_else(|_| format!("{}s", duration.as_secs()), |span| format!("{span:#}"))
}

pub(crate) fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..1_048_576 => (1024.0, "KiB"),
        1_048_576..1_073_741_824 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    };
    #[expect(clippy::cast_precision_loss, reason = "one decimal is printed")]
    let size = bytes as f64 / unit;
    format!("{size:.1} {name}")
}

/// Says whether a character steers a terminal, breaks its line, or reverses it: a control character, a separator
/// of lines or paragraphs, or a character that sets the direction of text.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, escape: fn(char) -> String) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if steers(c) { escape(c) } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Returns a value as JSON, in ASCII where a character would steer a terminal.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    // Such a character is inside a JSON string, and has one unit in UTF-16.
    let escape = |c| format!("\\u{:04x}", u32::from(c));
    Ok(escaped(&serde_json::to_string(value)?, escape).into_owned())
}

/// Escapes the characters that steer a terminal, so that the text stays in its line.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_default().to_string())
}

/// Returns the texts in quotation marks, with commas between, or `none`.
pub(crate) fn quoted(texts: &[String]) -> String {
    if texts.is_empty() {
        return "none".to_owned();
    }
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    quoted.join(", ")
}

pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time is read as RFC 3339, as a date, with or without a time of day, or as a delay from now. Other text is
    /// refused.
    #[test]
    fn time_is_read_in_every_form() {
        let read = |text: &str| time(text).unwrap().resolve();
        let at = |text: &str| shown(read(text));
        assert_eq!(at("2026-11-22T10:00:00Z"), "2026-11-22T10:00:00.000Z");
        assert_eq!(at("2026-11-22T11:00:00.5+01:00"), "2026-11-22T10:00:00.500Z");
        assert_eq!(at("2026-11-22T11:00[Europe/Berlin]"), "2026-11-22T10:00:00.000Z");
        assert_eq!(at("2026-11-22"), "2026-11-22T00:00:00.000Z");
        assert_eq!(at("2026-11-22 10:30"), "2026-11-22T10:30:00.000Z");
        assert_eq!(at("9999-12-31"), "9999-12-31T00:00:00.000Z");
        assert_eq!(at("9999-12-31T23:59:59.999Z"), "9999-12-31T23:59:59.999Z");
        assert!(read("1969-07-20") < SystemTime::UNIX_EPOCH);
        let hour = read("1h").duration_since(now()).unwrap();
        assert!(hour > Duration::from_secs(3590) && hour <= Duration::from_secs(3600), "{hour:?}");
        assert!(read("-1h") < now());
        for wrong in ["", "tomorrow", "2026-13-01", "5", "1mo", "99999999d"] {
            assert!(time(wrong).unwrap_err().contains(&format!("{wrong:?}")), "{wrong}");
        }
    }

    /// A delay is read with one unit or several. A number without a unit and a negative delay are refused.
    #[test]
    fn delay_is_read_in_every_form() {
        let seconds = |text: &str| delay(text).unwrap().as_secs();
        assert_eq!(seconds("5m"), 300);
        assert_eq!(seconds("2h 30m"), 9000);
        assert_eq!(seconds("3d"), 3 * 86_400);
        assert_eq!(delay("250ms").unwrap(), Duration::from_millis(250));
        for wrong in ["", "5", "-5m", "soon", "1mo"] {
            assert!(delay(wrong).unwrap_err().contains(&format!("{wrong:?}")), "{wrong}");
        }
    }

    /// A rate has a number and a period, a size a number and a unit. A rate or a size of zero is refused.
    #[test]
    fn rate_and_size_are_read_in_every_form() {
        let seconds = |text: &str| rate(text).map(|(jobs, per)| (jobs, per.as_secs()));
        for text in ["10/60s", "10/1m", "10/m", "10 / minute", "10/min"] {
            assert_eq!(seconds(text), Ok((10, 60)), "{text}");
        }
        assert_eq!(seconds("600/h"), Ok((600, 3600)));
        for wrong in ["", "10", "10/", "/s", "0/1s", "-1/s", "10/.5s", "10/-1s", "1.5/s", "10/5"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            ["7", "7 B", "7K", "2MiB", "1G"].map(size),
            [7, 7, 7168, 2 << 20, 1 << 30].map(Ok)
        );
        for wrong in ["", "0", "M", "1T", "-1", "99999999999999999999", "99999999999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    /// A duration is printed with its two largest units at most.
    #[test]
    fn duration_is_printed_in_two_units() {
        let text = |ms: u64| span(Duration::from_millis(ms));
        assert_eq!(text(7), "7ms");
        assert_eq!(text(1250), "1s 250ms");
        assert_eq!(text(12_999), "12s");
        assert_eq!(span(Duration::MAX), "18446744073709551615s");
        assert_eq!(text(303_000), "5m 3s");
        assert_eq!(text(3_600_000), "1h");
        assert_eq!(text(100 * 3_600_000), "4d 4h");
        let then = now();
        assert_eq!(relative(then + Duration::from_secs(60), then), "in 1m");
        assert_eq!(relative(then, then + Duration::from_secs(60)), "1m ago");
        assert_eq!(relative(then, then), "now");
    }

    /// The command prints the text of a job with its control characters escaped, so that they cannot steer a
    /// terminal.
    #[test]
    fn text_of_a_job_cannot_steer_a_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(plain("größer"), "größer");
        assert_eq!(plain("a\u{202e}b\u{9b}c"), "a\\u{202e}b\\u{9b}c");
        assert_eq!(json(&"a\u{202e}\"\\\u{9b}é").unwrap(), "\"a\\u202e\\\"\\\\\\u009bé\"");
        assert_eq!(cut("größer", 3), "grö…");
        assert_eq!(bytes(1536), "1.5 KiB");
    }
}
