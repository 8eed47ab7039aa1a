//! The table of the figures, and for a terminal the goals beside the results.

use super::case::{Case, DISK, OURS};
use super::plan::{Contender, Plan, Row};
use crate::results::{Results, Spread};
use crate::table::{self, Better, number};

/// The table of the page, with the name of its markers. The rows of the long run are only printed.
pub(super) fn all<R, C>(plan: &Plan<R, C>, results: &Results<Case>) -> Vec<(String, String)> {
    vec![("figures".to_owned(), of_rows(plan, results, |row| !row.long))]
}

/// The table and the goals as text, for a terminal. The sizes are those of the full run, also after a
/// short one.
pub(super) fn plain<R, C>(plan: &Plan<R, C>, results: &Results<Case>) -> String {
    format!("{}\n{}", of_rows(plan, results, |_| true), musts(plan, results))
}

/// Columns of the table, whose figures can be compared.
struct Columns<C: 'static> {
    level: &'static str,
    contenders: Vec<&'static Contender<C>>,
}

/// A group of lines for each row, with a line for each figure. Figures that are zero for every contender
/// are left out.
fn of_rows<R, C>(
    plan: &Plan<R, C>,
    results: &Results<Case>,
    is_shown: fn(&Row<R>) -> bool,
) -> String {
    let is_measured = |row: &&Row<R>| is_shown(row) && !results.of_row(row.name).is_empty();
    let rows: Vec<&Row<R>> = plan.rows.iter().filter(is_measured).collect();
    let Some(first) = rows.first() else { return "Not measured yet.\n".to_owned() };
    let place = results.place(first.name);
    let groups = columns(plan, &rows, results);
    let mut lines = Vec::new();
    for row in rows {
        let mut title = title(row, results.place(row.name), place);
        for (figure, heading) in row.columns {
            let of_group = |group: &Columns<C>| -> Vec<Option<Spread>> {
                let case = |known: &&Contender<C>| Case::new(row.name, known.name, group.level);
                let spread = |known| results.spread(&case(known), figure);
                group.contenders.iter().map(spread).collect()
            };
            let spreads: Vec<_> = groups.iter().map(of_group).collect();
            let is_zero = |spread: &Spread| spread.min == 0.0 && spread.max == 0.0;
            if spreads.iter().flatten().flatten().all(is_zero) {
                continue;
            }
            let mut cells = vec![(*heading).to_owned()];
            for of_group in &spreads {
                cells.extend(table::cells(of_group, better(figure), number));
            }
            lines.push((std::mem::take(&mut title), cells));
        }
    }
    let mut headings = vec![String::new()];
    for group in &groups {
        headings.extend(group.contenders.iter().map(|known| label(plan, known, group.level)));
    }
    format!(
        "Medians [least, most], the best one of a line in bold; {place}.\n\n{}",
        table::table(&headings, lines)
    )
}

/// For each level the queues that were measured, and then the disk. It is no queue, so it is not the best
/// one of a line.
fn columns<R, C>(plan: &Plan<R, C>, rows: &[&Row<R>], results: &Results<Case>) -> Vec<Columns<C>> {
    let mut groups = Vec::new();
    for &level in plan.levels {
        let is_measured = |known: &&Contender<C>| {
            let case = |row: &&Row<R>| Case::new(row.name, known.name, level);
            rows.iter().any(|row| !results.figures(&case(row)).is_empty())
        };
        let (disk, queues): (Vec<_>, Vec<_>) =
            plan.contenders.iter().filter(is_measured).partition(|known| known.name == DISK);
        groups.extend([queues, disk].map(|contenders| Columns { level, contenders }));
    }
    groups
}

/// What a row measures, with its sizes, and where it was measured if that was elsewhere or on another day.
fn title<R>(row: &Row<R>, place: &str, usual: &str) -> String {
    let mut title = format!("`{}`: {}", row.name, row.title);
    let sizes = row.sizes.iter().map(|size| format!("{} {}", size.0, size.1));
    let usual: Vec<&str> = usual.split("; ").collect();
    let differs = place.split("; ").filter(|part| !usual.contains(part)).map(str::to_owned);
    for part in sizes.chain(differs) {
        title += &format!("; {part}");
    }
    title
}

/// Which figures of a name are better; none for a figure that only describes the measurement.
fn better(figure: &str) -> Option<Better> {
    match figure {
        "jobs_per_s" | "plain_per_s" => Some(Better::More),
        "jobs" | "needed_mb" | "sync_us" => None,
        _ => Some(Better::Less),
    }
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

/// The name of a contender with its version, and its level if there are several.
fn label<R, C>(plan: &Plan<R, C>, contender: &Contender<C>, level: &str) -> String {
    let name = match contender.package {
        "" => contender.name.to_owned(),
        package if contender.name == OURS => package.to_owned(),
        package => format!("{package} {}", (plan.version_of)(contender).unwrap_or_default()),
    };
    if plan.levels.len() == 1 { name } else { format!("{name}, `{level}`") }
}
