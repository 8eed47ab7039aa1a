//! Tables in Markdown, made from the figures: one for each suite.

use harness::results::{Spread, distinct};
use harness::table::{self, Better};
use harness::versions;

use crate::layout::{OURS, TABLES, Table};
use crate::results::{Results, outcome, peers, sizes, suites, verified_peers};
use crate::run::HOME;
use crate::structures;

/// The tables of the page, with the names of their markers: those of whole suites.
pub(crate) fn of_page(results: &Results) -> Vec<(String, String)> {
    all(results).into_iter().filter(|(part, _)| !part.contains('/')).collect()
}

/// Every table that there are figures for, with its part.
fn all(results: &Results) -> Vec<(String, String)> {
    let measured: Vec<&Table> =
        TABLES.iter().filter(|table| !columns(table, results).is_empty()).collect();
    let with_works = |part: &'static str| {
        let works = measured.iter().copied().filter(|table| table.part() == part);
        (part.to_owned(), table_with_source(part, &works.collect::<Vec<_>>(), results))
    };
    distinct(measured.iter().map(|table| table.part())).into_iter().map(with_works).collect()
}

/// For the terminal: every table.
pub(crate) fn plain(results: &Results) -> String {
    all(results).into_iter().map(|(part, text)| format!("{part}\n\n{text}\n")).collect()
}

/// For the terminal: whether the peers are exact.
pub(crate) fn verification(results: &Results) -> String {
    let mut text = String::new();
    for suite in suites(results) {
        for peer in verified_peers(results, suite) {
            let outcome = outcome(results, suite, peer).unwrap_or("-");
            text += &format!("{suite}: {}: {outcome}\n", label(suite, peer, results));
        }
    }
    text
}

fn table_with_source(part: &str, works: &[&Table], results: &Results) -> String {
    format!(
        "Medians [least, most], the best one of a line in bold; {}. `--only {part}`\n\n{}",
        results.place(works[0].suite),
        text_of(works, results)
    )
}

/// A line for each size and figure of the works; a column for each peer, ours first.
fn text_of(works: &[&Table], results: &Results) -> String {
    let suite = works[0].suite;
    let peers_of = |work: &&Table| peers(results, work.suite, work.work, work.delays);
    let peers = distinct(works.iter().flat_map(peers_of));
    let labels = peers.iter().map(|peer| label(suite, peer, results));
    let headings: Vec<String> = [String::new()].into_iter().chain(labels).collect();
    let mut lines = Vec::new();
    let outcomes: Vec<_> = peers.iter().map(|peer| outcome(results, suite, peer)).collect();
    if outcomes.iter().any(Option::is_some) {
        let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap_or("-").to_owned());
        let cells = [String::new()].into_iter().chain(outcomes).collect();
        lines.push(("each timer at its tick".to_owned(), cells));
    }
    for work in works {
        let mut title = title(work);
        for column in columns(work, results) {
            let spread = |peer: &&str| results.spread(&work.case(peer, column.size), column.figure);
            let spreads: Vec<Option<Spread>> = peers.iter().map(spread).collect();
            let mut cells = vec![column.heading];
            cells.extend(table::cells(&spreads, Some(better(work)), number));
            lines.push((std::mem::take(&mut title), cells));
        }
    }
    table::table(&headings, lines)
}

fn title(work: &Table) -> String {
    match work.unit {
        "" => format!("`{}`: {}", work.work, work.title),
        unit => format!("`{}`: {}, {unit}", work.work, work.title),
    }
}

/// A rate is the better the more it is, any other figure the less it is.
fn better(work: &Table) -> Better {
    if work.unit.ends_with("a second") { Better::More } else { Better::Less }
}

/// A figure at a size, which has a line.
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

/// A peer with its version, with a star if it was found not to be exact, and with a dagger if it is a
/// structure whose cancel searches, or leaves something behind.
pub(crate) fn label(suite: &str, peer: &str, results: &Results) -> String {
    let version = versions::locked(HOME.as_ref(), package(peer))
        .map_or(String::new(), |version| format!(" {version}"));
    let mark = match outcome(results, suite, peer) {
        Some("exact") if suite == structures::NAME && !structures::cancels_exactly(peer) => " †",
        None | Some("exact") => "",
        Some(_) => " \\*",
    };
    // In a page the rest of `Mutex<BinaryHeap>` would be a tag.
    let name = peer.replace('<', "\\<");
    if peer == OURS { format!("{name}{mark}") } else { format!("{name}{version}{mark}") }
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
