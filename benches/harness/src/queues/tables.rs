//! The tables: one for each level, and for a terminal the goals beside the results.

use super::case::{Case, DISK, OURS};
use super::plan::{Contender, Plan, Row};
use crate::results::{Results, Spread};
use crate::table::{self, Better, number};

/// The table of each level, with the name of its markers.
pub(super) fn all<R, C>(plan: &Plan<R, C>, results: &Results<Case>) -> Vec<(String, String)> {
    plan.levels.iter().map(|level| ((*level).to_owned(), of_level(plan, level, results))).collect()
}

/// The tables and the goals as text, for a terminal. The sizes are those of the full run, also after a
/// short one.
pub(super) fn plain<R, C>(plan: &Plan<R, C>, results: &Results<Case>) -> String {
    let levels = all(plan, results).into_iter().map(|(level, text)| format!("{level}\n\n{text}\n"));
    levels.collect::<String>() + &musts(plan, results)
}

/// A group of lines for each row, with a line for each figure. Figures that are zero for every queue are
/// left out.
fn of_level<R, C>(plan: &Plan<R, C>, level: &str, results: &Results<Case>) -> String {
    let measured = results.cases(|case| case.level == level);
    let has = |is: &dyn Fn(&Case) -> bool| measured.iter().any(|&case| is(case));
    let rows: Vec<&Row<R>> =
        plan.rows.iter().filter(|row| has(&|case| case.row == row.name)).collect();
    let Some(first) = rows.first() else { return "Not measured yet.\n".to_owned() };
    let is_shown = |known: &&Contender<C>| has(&|case| case.contender == known.name);
    // The disk is the last column. It is no queue, so it is not the best one.
    let (disk, queues): (Vec<_>, Vec<_>) =
        plan.contenders.iter().filter(is_shown).partition(|known| known.name == DISK);
    let place = results.place(first.name);
    let mut lines = Vec::new();
    for row in rows {
        let mut title = title(row, results.place(row.name), place);
        for (figure, heading) in row.columns {
            let spread = |known: &&Contender<C>| {
                results.spread(&Case::new(row.name, known.name, level), figure)
            };
            let of_queues: Vec<Option<Spread>> = queues.iter().map(spread).collect();
            if of_queues.iter().flatten().all(|spread| spread.min == 0.0 && spread.max == 0.0) {
                continue;
            }
            let of_disk: Vec<Option<Spread>> = disk.iter().map(spread).collect();
            let mut cells = vec![(*heading).to_owned()];
            cells.extend(table::cells(&of_queues, better(figure), number));
            cells.extend(table::cells(&of_disk, None, number));
            lines.push((std::mem::take(&mut title), cells));
        }
    }
    let labels = queues.iter().chain(&disk).map(|contender| label(plan, contender));
    let headings: Vec<String> = [String::new()].into_iter().chain(labels).collect();
    format!(
        "Medians [least, most], the best one of a line in bold; {place}.\n\n{}",
        table::table(&headings, lines)
    )
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

/// The name of a contender with its version.
fn label<R, C>(plan: &Plan<R, C>, contender: &Contender<C>) -> String {
    match contender.package {
        "" => contender.name.to_owned(),
        package if contender.name == OURS => package.to_owned(),
        package => format!("{package} {}", (plan.version_of)(contender).unwrap_or_default()),
    }
}
