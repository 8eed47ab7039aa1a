//! The tables: one for each row, and one with the goals beside the results.

use super::case::{Case, OURS};
use super::plan::{Plan, Row};
use crate::results::Results;
use crate::table::{self, number};

/// Every table, with the name of its markers.
pub(super) fn all<R, C>(plan: &Plan<R, C>, results: &Results<Case>) -> Vec<(String, String)> {
    let rows = plan.rows.iter().map(|row| (row.name.to_owned(), of_row(plan, row, results)));
    rows.chain([("musts".to_owned(), musts(plan, results))]).collect()
}

/// The tables of the measured rows as text, for a terminal. The sizes in the headings are those of the
/// full run, also after a short one.
pub(super) fn plain<R, C>(plan: &Plan<R, C>, results: &Results<Case>) -> String {
    let measured = plan.rows.iter().filter(|row| !results.of_row(row.name).is_empty());
    let text =
        |row: &Row<R>| format!("{}: {}\n\n{}\n", row.name, row.title, of_row(plan, row, results));
    measured.map(text).collect::<String>() + &musts(plan, results)
}

fn of_row<R, C>(plan: &Plan<R, C>, row: &Row<R>, results: &Results<Case>) -> String {
    let cases = results.of_row(row.name);
    if cases.is_empty() {
        return "Not measured yet.\n".to_owned();
    }
    let sizes: Vec<String> =
        row.sizes.iter().map(|size| format!("{} {}", size.0, size.1)).collect();
    let is_shown = |figure: &str| cases.iter().any(|case| results.spread(case, figure).is_some());
    let shown: Vec<_> = row.columns.iter().filter(|(figure, _)| is_shown(figure)).collect();
    let headings: Vec<String> = shown.iter().map(|(_, heading)| (*heading).to_owned()).collect();
    let lines = cases.iter().map(|case| {
        let cell = |figure| {
            table::cell(results.spread(case, figure), number, |a, b| number(a) == number(b))
        };
        let cells = shown.iter().map(|(figure, _)| cell(figure)).collect();
        (format!("{}, `{}`", label(plan, &case.contender), case.level), cells)
    });
    format!(
        "Medians [least, most]; {}; {}; `--rows {}`\n\n{}",
        sizes.join(", "),
        results.place(row.name),
        row.name,
        table::table(&headings, lines)
    )
}

fn musts<R, C>(plan: &Plan<R, C>, results: &Results<Case>) -> String {
    let mut text = "| | wanted | reached |\n| --- | --- | --- |\n".to_owned();
    for must in plan.musts {
        let reached = match (must.2)(results) {
            None => "not measured yet".to_owned(),
            Some(reached) if reached.enough => reached.text,
            Some(reached) => format!("**{}**", reached.text),
        };
        text += &format!("| {} | {} | {reached} |\n", must.0, must.1);
    }
    text
}

/// The name of a contender with its version.
fn label<R, C>(plan: &Plan<R, C>, name: &str) -> String {
    let Some(contender) = plan.contender(name) else { return name.to_owned() };
    match contender.package {
        "" => name.to_owned(),
        package if name == OURS => format!("**{package}**"),
        package => format!("{package} {}", (plan.version_of)(contender).unwrap_or_default()),
    }
}
