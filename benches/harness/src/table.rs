//! Tables in Markdown.

use crate::results::Spread;

/// A table: numbers on the right, and before them what each line is about.
pub fn table(
    headings: &[String],
    lines: impl IntoIterator<Item = (String, Vec<String>)>,
) -> String {
    let rule = " ---: |".repeat(headings.len());
    let mut text = format!("| | {} |\n| --- |{rule}\n", headings.join(" | "));
    for (label, cells) in lines {
        text += &format!("| {label} | {} |\n", cells.join(" | "));
    }
    text
}

/// A median, and beside it the least and the most unless they look the same.
pub fn cell(
    spread: Option<Spread>,
    number: fn(f64) -> String,
    is_same: fn(f64, f64) -> bool,
) -> String {
    let Some(Spread { median, min, max }) = spread else { return "-".to_owned() };
    if is_same(min, max) {
        return number(median);
    }
    format!("{} [{}, {}]", number(median), number(min), number(max))
}

/// A number without its fraction, and with commas between thousands.
pub fn whole(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with three figures, or with all of its digits before the point.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => return whole(value),
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Spread, cell, number, table, whole};

    #[test]
    fn a_table_has_a_line_for_each() {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let lines = [("one".to_owned(), cells(["1", "2"]))];
        let expected = "| | a | b |\n| --- | ---: | ---: |\n| one | 1 | 2 |\n";
        assert_eq!(table(&cells(["a", "b"]), lines), expected);
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!(whole(1_234_567.4), "1,234,567");
        assert_eq!(whole(999.0), "999");
        assert_eq!(whole(-123.0), "-123");
        let cell = |spread| cell(spread, whole, |a, b| whole(a) == whole(b));
        assert_eq!(cell(Some(Spread { median: 2.0, min: 1.0, max: 3.0 })), "2 [1, 3]");
        assert_eq!(cell(Some(Spread { median: 2.1, min: 2.0, max: 2.2 })), "2");
        assert_eq!(cell(None), "-");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(1_234_567.4), "1,234,567");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(-1500.0), "-1,500");
        assert_eq!(number(100.0), "100");
    }
}
