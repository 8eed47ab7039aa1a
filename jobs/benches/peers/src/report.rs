//! The report: tables in a page of `jobs/docs`, between pairs of marker lines, and drawings. The
//! comparison on Redis has this file, too.
//!
//! Ground rules:
//!
//! - Between `<!-- begin NAME -->` and `<!-- end NAME -->` everything is this program's; all else in
//!   the file is left as it is.
//! - A table without markers is an error, after everything else has been written.
//! - Nothing is computed that is not in the file of figures beside the page.

use std::fs;

use crate::musts::MUSTS;
use crate::plan::{CONTENDERS, OURS, REPORT, ROWS, Row, version_of};
use crate::results::{Results, Spread, docs};
use crate::{Fallible, plot};

/// Writes every table and drawing that there are figures for.
pub(crate) fn write(results: &Results) -> Fallible {
    plot::write(results)?;
    let path = docs().join(format!("{REPORT}.md"));
    let at = |error| format!("{}: {error}", path.display());
    let mut text = fs::read_to_string(&path).map_err(at)?;
    let rows = ROWS.iter().map(|row| (row.name, table(row, results)));
    let mut missing = Vec::new();
    for (name, table) in rows.chain([("musts", musts(results))]) {
        match between_markers(&text, name, &table) {
            Some(changed) => text = changed,
            None => missing.push(format!("<!-- begin {name} -->\n<!-- end {name} -->")),
        }
    }
    fs::write(&path, text).map_err(at)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("{} wants these lines:\n{}", path.display(), missing.join("\n")))
}

/// All tables as text, for a run that writes nothing. The sizes in the headings are those of the full
/// run, also after a short one.
pub(crate) fn plain(results: &Results) -> String {
    let measured = ROWS.iter().filter(|row| !results.cases(row.name).is_empty());
    let tables =
        measured.map(|row| format!("{}: {}\n\n{}\n", row.name, row.title, table(row, results)));
    tables.collect::<String>() + &musts(results)
}

fn table(row: &Row, results: &Results) -> String {
    let cases = results.cases(row.name);
    if cases.is_empty() {
        return "Not measured yet.\n".to_owned();
    }
    let sizes: Vec<String> =
        row.sizes.iter().map(|size| format!("{} {}", size.0, size.1)).collect();
    let mut text = format!(
        "Medians [least, most]; {}; {}; `--rows {}`\n\n| |",
        sizes.join(", "),
        results.place(row.name),
        row.name
    );
    let shown = row
        .columns
        .iter()
        .filter(|(figure, _)| cases.iter().any(|case| results.spread(case, figure).is_some()));
    let shown: Vec<_> = shown.collect();
    for (_, heading) in &shown {
        text += &format!(" {heading} |");
    }
    text += "\n| --- |";
    text += &" ---: |".repeat(shown.len());
    text.push('\n');
    for case in &cases {
        text += &format!("| {}, `{}` |", label(&case.contender), case.level);
        for (figure, _) in &shown {
            let value = results.spread(case, figure).map_or_else(|| "-".to_owned(), spread);
            text += &format!(" {value} |");
        }
        text.push('\n');
    }
    text
}

fn musts(results: &Results) -> String {
    let mut text = "| | wanted | reached |\n| --- | --- | --- |\n".to_owned();
    for must in MUSTS {
        let reached = match (must.reached)(results) {
            None => "not measured yet".to_owned(),
            Some(reached) if reached.enough => reached.text,
            Some(reached) => format!("**{}**", reached.text),
        };
        text += &format!("| {} | {} | {reached} |\n", must.row, must.wanted);
    }
    text
}

/// The name of a contender with its version.
pub(crate) fn label(name: &str) -> String {
    let package = CONTENDERS.iter().find(|contender| contender.name == name).map(|c| c.package);
    match package {
        Some("") | None => name.to_owned(),
        Some(package) if name == OURS => format!("**{package}**"),
        Some(package) => format!("{package} {}", version_of(name, package).unwrap_or_default()),
    }
}

fn spread(Spread { median, min, max }: Spread) -> String {
    if min == max {
        return number(median);
    }
    format!("{} [{}, {}]", number(median), number(min), number(max))
}

/// A number with three figures, or with all of its digits before the point.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        let digits = format!("{:.0}", size);
        let mut text = String::new();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place) % 3 == 0 {
                text.push(',');
            }
            text.push(digit);
        }
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    let decimals = match size {
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The text with something new between the markers of a name.
fn between_markers(text: &str, name: &str, new: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let first = text.find(&begin)? + begin.len();
    let last = first + text[first..].find(&end)?;
    Some(format!("{}\n{new}\n{}", &text[..first], &text[last..]))
}

#[cfg(test)]
mod tests {
    use super::{between_markers, number};

    #[test]
    fn only_what_lies_between_the_markers_changes() {
        let text = "before\n<!-- begin a -->\nold\n<!-- end a -->\nafter\n";
        let expected = "before\n<!-- begin a -->\n\nnew\n\n<!-- end a -->\nafter\n";
        let changed = between_markers(text, "a", "new\n").unwrap();
        assert_eq!(changed, expected);
        assert_eq!(between_markers(&changed, "a", "new\n").unwrap(), expected);
        assert_eq!(between_markers("<!-- begin a -->\n", "a", "new"), None);
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
