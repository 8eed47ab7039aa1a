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

/// Which of two figures is the better one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    More,
    Less,
}

/// The cells of a line. The best median is bold if there are two, and so is each that looks like it.
pub fn cells(
    spreads: &[Option<Spread>],
    better: Option<Better>,
    number: fn(f64) -> String,
) -> Vec<String> {
    let medians: Vec<f64> = spreads.iter().flatten().map(|spread| spread.median).collect();
    let best = match better {
        Some(Better::More) => medians.iter().copied().reduce(f64::max),
        Some(Better::Less) => medians.iter().copied().reduce(f64::min),
        None => None,
    };
    let best = best.filter(|_| medians.len() > 1).map(number);
    let cell = |spread: &Option<Spread>| {
        let median = spread.map(|spread| number(spread.median));
        let text = cell(*spread, number);
        match median.filter(|median| best.as_ref() == Some(median)) {
            Some(median) => text.replacen(&median, &format!("**{median}**"), 1),
            None => text,
        }
    };
    spreads.iter().map(cell).collect()
}

/// A median, and beside it the least and the most unless they look the same.
fn cell(spread: Option<Spread>, number: fn(f64) -> String) -> String {
    let Some(Spread { median, min, max }) = spread else { return "-".to_owned() };
    if number(min) == number(max) {
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
    use super::{Better, Spread, cell, cells, number, table, whole};

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
        let cell = |spread| cell(spread, whole);
        assert_eq!(cell(Some(Spread { median: 2.0, min: 1.0, max: 3.0 })), "2 [1, 3]");
        assert_eq!(cell(Some(Spread { median: 2.1, min: 2.0, max: 2.2 })), "2");
        assert_eq!(cell(None), "-");
    }

    #[test]
    fn best_median_is_bold() {
        let spread = |median| Some(Spread { median, min: median, max: 9.0 });
        let spreads = [spread(2.0), None, spread(1.2), spread(1.4)];
        let bold = |better, spreads: &[Option<Spread>]| cells(spreads, better, whole).join("; ");
        let expected = "2 [2, 9]; -; **1** [1, 9]; **1** [1, 9]";
        assert_eq!(bold(Some(Better::Less), &spreads[..]), expected);
        let expected = "**2** [2, 9]; -; 1 [1, 9]; 1 [1, 9]";
        assert_eq!(bold(Some(Better::More), &spreads[..]), expected);
        assert_eq!(bold(None, &spreads[..1]), "2 [2, 9]");
        assert_eq!(bold(Some(Better::More), &spreads[..2]), "2 [2, 9]; -");
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
