//! Numbers, rates and times as short text, and text of jobs without characters that steer a terminal.

use std::time::Duration;

use super::figures::Time;
use crate::text::span;

/// Returns a number in six characters: as it is below 100,000, else with one unit of thousands.
pub(crate) fn short(number: u64) -> String {
    let (unit, name) = match number {
        0..100_000 => return number.to_string(),
        100_000..1_000_000 => return format!("{}k", number / 1000),
        1_000_000..1_000_000_000 => (1_000_000, "M"),
        _ => (1_000_000_000, "G"),
    };
    let hundredths = number / (unit / 100);
    match hundredths {
        0..10_000 => format!("{}.{:02}{name}", hundredths / 100, hundredths % 100),
        _ => format!("{}{name}", hundredths / 100),
    }
}

/// Returns a rate, with `-` for none.
pub(crate) fn rate(rate: f64) -> String {
    if rate > 0.0 { zero_rate(rate) } else { "-".to_owned() }
}

/// Returns a rate, with `0` for none.
pub(crate) fn zero_rate(rate: f64) -> String {
    match rate {
        _ if rate <= 0.0 => "0".to_owned(),
        _ if rate < 0.01 => "<0.01".to_owned(),
        _ if rate < 10.0 => format!("{rate:.2}"),
        _ if rate < 1000.0 => format!("{rate:.1}"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number is printed"
        )]
        _ => short(rate as u64),
    }
}

/// Returns a bound of the buckets of durations.
pub(crate) fn bound(bound: Option<Duration>) -> String {
    match bound {
        None => "-".to_owned(),
        Some(Duration::MAX) => ">1h".to_owned(),
        // The only bound that has a part of a millisecond.
        Some(bound) if bound == Duration::from_micros(2500) => "≤2.5ms".to_owned(),
        Some(bound) => format!("≤{}", span(bound)),
    }
}

/// Returns a duration, from a second on in whole seconds.
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{}ms", age.as_millis()),
        seconds => span(Duration::from_secs(seconds)),
    }
}

/// Returns the distance of a time from the present.
pub(crate) fn distance(time: Time, now: Time) -> String {
    match time > now {
        true => format!("in {}", age(time.since(now))),
        false => format!("{} ago", age(now.since(time))),
    }
}

/// Replaces the characters that steer a terminal, turn round a text, or are not seen by symbols of one cell.
pub(crate) fn symbols(text: &str) -> String {
    let symbol = |c: char| match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        // A variation selector changes how wide the character before it is.
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number fits into six characters, and keeps its first digits.
    #[test]
    fn short_numbers_fit_their_column() {
        let expected = [
            (0, "0"),
            (99_999, "99999"),
            (100_000, "100k"),
            (999_999, "999k"),
            (1_204_311, "1.20M"),
            (99_999_999, "99.99M"),
            (123_456_789, "123M"),
            (7_000_000_000, "7.00G"),
        ];
        for (number, text) in expected {
            assert_eq!(short(number), text);
        }
    }

    /// Every control character, and every character that turns round a text or is not seen, becomes a symbol.
    #[test]
    fn symbols_replace_what_steers_a_terminal() {
        assert_eq!(symbols("a\u{1b}[31m\n\0\u{7f}"), "a␛[31m␊␀␡");
        assert_eq!(symbols("\u{9b}\u{85}\u{202e}\u{2066}\u{200f}\u{feff}\u{2028}"), "�������");
        assert_eq!(symbols("grüße 東京 ok"), "grüße 東京 ok");
    }

    /// A rate has as many digits as fit.
    #[test]
    fn rates_have_as_many_digits_as_fit() {
        let rates = [0.0, 0.001, 0.25, 12.34, 999.94, 1234.5, 250_000.0].map(zero_rate);
        assert_eq!(rates, ["0", "<0.01", "0.25", "12.3", "999.9", "1234", "250k"]);
    }
}
