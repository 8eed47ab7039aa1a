//! Tables in Markdown, made from the figures.

use harness::{table, versions};

use crate::layout::{OURS, TABLES, Table};
use crate::results::{Results, outcome, peers, sizes, suites, verified_peers};
use crate::run::HOME;
use crate::structures;

/// The sizes at which the peers are compared with each other.
const COMPARED: [usize; 2] = [100_000, 1_000_000];

/// Every table that there are figures for, with the name of its markers.
pub(crate) fn all(results: &Results) -> Vec<(String, String)> {
    let measured = TABLES.iter().filter(|table| !columns(table, results).is_empty());
    let mut all: Vec<_> =
        measured.map(|table| (table.name(), table_with_source(table, results))).collect();
    for suite in suites(results) {
        all.push((format!("{suite}-verification"), verification_of(suite, results)));
    }
    if suites(results).contains(&structures::NAME) {
        all.push((format!("{}-ratios", structures::NAME), ratios(results)));
    }
    all
}

/// For the terminal: the same tables.
pub(crate) fn plain(results: &Results) -> String {
    let measured = TABLES.iter().filter(|table| !columns(table, results).is_empty());
    let text =
        |t: &Table| format!("{}: {} {}\n\n{}\n", t.name(), t.title, t.unit, text_of(t, results));
    measured.map(text).collect()
}

/// For the terminal: whether the peers are exact.
pub(crate) fn verification(results: &Results) -> String {
    suites(results)
        .into_iter()
        .map(|suite| format!("{suite}\n\n{}\n", verification_of(suite, results)))
        .collect()
}

fn table_with_source(described: &Table, results: &Results) -> String {
    let Table { suite, work, .. } = described;
    format!(
        "Medians [least, most]{}{}; {}. `--only {suite}/{work}`\n\n{}",
        if described.unit.is_empty() { "" } else { " in " },
        described.unit,
        results.place(suite),
        text_of(described, results)
    )
}

/// A row for each peer, ours first; a column for each size and figure.
fn text_of(described: &Table, results: &Results) -> String {
    let Table { suite, work, delays, .. } = *described;
    let columns = columns(described, results);
    let headings: Vec<String> = columns.iter().map(|column| column.heading.clone()).collect();
    let lines = peers(results, suite, work, delays).into_iter().map(|peer| {
        let cells = columns.iter().map(|column| {
            let spread = results.spread(&described.case(peer, column.size), column.figure);
            table::cell(spread, number, |a, b| number(a) == number(b))
        });
        (label(suite, peer, results), cells.collect())
    });
    table::table(&headings, lines)
}

struct Column {
    size: usize,
    figure: &'static str,
    heading: String,
}

/// All sizes of all figures. A heading names the size if there is one figure, the figure if there is one
/// size, and otherwise both.
fn columns(described: &Table, results: &Results) -> Vec<Column> {
    let sizes = sizes(results, described.suite, described.work, described.delays);
    let figures = described.figures();
    let mut columns = Vec::new();
    for &size in &sizes {
        for &(figure, name) in &figures {
            let heading = match (sizes.len(), figures.len()) {
                (_, 1) => counted(size, described.of),
                (1, _) => name.to_owned(),
                _ => format!("{}, {name}", short(size)),
            };
            columns.push(Column { size, figure, heading });
        }
    }
    columns
}

/// How many times as fast `tickwheel` is as the best peer whose cancel is exact.
fn ratios(results: &Results) -> String {
    let headings = COMPARED.map(|size| format!("{} timers", short(size)));
    let has_ours = |table: &&Table| {
        table.suite == structures::NAME
            && peers(results, table.suite, table.work, table.delays).contains(&OURS)
    };
    let lines = TABLES.iter().filter(has_ours).map(|table| {
        let cells = COMPARED.map(|size| ratio(table, size, results).unwrap_or("-".into()));
        (table.title.to_owned(), cells.to_vec())
    });
    table::table(&headings, lines)
}

fn ratio(table: &Table, size: usize, results: &Results) -> Option<String> {
    let figure = table.figures()[0].0;
    let median = |peer: &str| {
        let case = table.case(peer, size);
        Some(results.spread(&case, figure)?.median)
    };
    let (best, peer) = peers(results, table.suite, table.work, table.delays)
        .into_iter()
        .filter(|peer| *peer != OURS && structures::cancels_exactly(peer))
        .filter_map(|peer| Some((median(peer)?, peer)))
        .min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    Some(format!("{:.2} ({peer}: {})", best / median(OURS)?, number(best)))
}

fn verification_of(suite: &str, results: &Results) -> String {
    let lines = verified_peers(results, suite).into_iter().map(|peer| {
        let outcome = outcome(results, suite, peer).unwrap_or("-").to_owned();
        (label(suite, peer, results), vec![outcome])
    });
    table::table(&["each timer at its tick".to_owned()], lines)
}

/// A peer in bold if it is ours, with a star if it was found not to be exact.
pub(crate) fn label(suite: &str, peer: &str, results: &Results) -> String {
    let version = versions::locked(HOME.as_ref(), package(peer))
        .map_or(String::new(), |version| format!(" {version}"));
    let star = match outcome(results, suite, peer) {
        None | Some("exact") => "",
        Some(_) => " \\*",
    };
    if peer == OURS { format!("**{peer}**{star}") } else { format!("{peer}{version}{star}") }
}

/// The crate behind a peer, where it has another name.
fn package(peer: &str) -> &str {
    match peer {
        "DelayQueue" => "tokio-util",
        "tokio-alt" => "tokio",
        name => name,
    }
}

/// A number with two or three significant digits, and with commas between thousands.
pub(crate) fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1.0 {
        return format!("{value:.2}");
    }
    if value.abs() < 10.0 {
        return format!("{value:.1}");
    }
    table::whole(value)
}

/// A size with what it counts, which is named in the plural.
fn counted(size: usize, of: &str) -> String {
    let of = if size == 1 { of.trim_end_matches('s') } else { of };
    format!("{} {of}", short(size))
}

/// A size as people say it.
pub(crate) fn short(size: usize) -> String {
    match size {
        1_000_000.. if size.is_multiple_of(1_000_000) => format!("{} million", size / 1_000_000),
        1_000.. if size.is_multiple_of(1_000) => format!("{} thousand", size / 1_000),
        _ => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{number, short};

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(0.0), "0.0");
        assert_eq!(number(0.123), "0.12");
        assert_eq!(number(2.345), "2.3");
        assert_eq!(number(23.45), "23");
        assert_eq!(number(999.0), "999");
        assert_eq!(number(1000.0), "1,000");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(-12.0), "-12");
        assert_eq!(short(100_000), "100 thousand");
        assert_eq!(short(10_000_000), "10 million");
        assert_eq!(short(8), "8");
    }
}
