//! The figures of `top` as a page of text, and as JSON.

use std::io::{self, Write};

use super::facts::{facts, title};
use super::figures::Figures;
use super::tables::{self, Column, Table};
use crate::text::{cut, json};

/// The most characters of a cell.
const CELL_CHARS: usize = 60;
/// The most rows of a table.
const PAGE_ROWS: usize = 20;

/// Prints the figures, as one JSON object in a line.
pub(crate) fn print_json(figures: &Figures, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", json(figures)?)
}

/// Prints the figures for people. A list without entries is left out.
pub(crate) fn print(figures: &Figures, out: &mut impl Write) -> io::Result<()> {
    let paused = if figures.is_paused { "  PAUSED" } else { "" };
    writeln!(out, "{}{paused}", title(figures).join("  "))?;
    let rates = (figures.rates.completed_per_second, figures.rates.failed_per_second);
    let facts = facts(figures, rates);
    let facts: Vec<String> =
        facts.iter().map(|fact| format!("{} {}", fact.name, fact.value)).collect();
    writeln!(out, "{}", facts.join("  "))?;
    // The most pending jobs first.
    table("kinds", &tables::kinds(figures, 1, true), figures.all_kinds, out)?;
    table("nodes", &tables::nodes(figures), figures.nodes.len(), out)?;
    let running = figures.counts.claimed + figures.counts.running;
    let running = usize::try_from(running).unwrap_or(usize::MAX);
    match &figures.runs {
        Some(runs) => table("running", &tables::runs(figures), running.max(runs.len()), out)?,
        None => writeln!(out, "\nrunning\n{running} jobs run: too many to list")?,
    }
    table("dead by error", &tables::groups(figures), figures.dead_by_error.len(), out)?;
    table("schedules", &tables::schedules(figures), figures.next_schedules.len(), out)?;
    match &figures.limits {
        Some(limits) => table("limits", &tables::limits(figures), limits.len(), out)?,
        None => writeln!(out, "\nlimits\n{running} jobs run: too many to count them by limit")?,
    }
    table("groups", &tables::job_groups(figures), figures.groups.len(), out)
}

/// Prints the first rows of a table, of `all` that there are.
fn table(name: &str, table: &Table, all: usize, out: &mut impl Write) -> io::Result<()> {
    if table.rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{name}")?;
    let head = table.columns.iter().map(|column| column.title.to_owned()).collect();
    let rows = table.rows.iter().take(PAGE_ROWS).map(|row| {
        row.cells.iter().map(|cell| cut(cell, CELL_CHARS).into_owned()).collect::<Vec<String>>()
    });
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).zip(table.columns);
        let cells = cells.map(|((cell, width), Column { is_right, .. })| match is_right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    if all >= rows.len() {
        writeln!(out, "({} of {all})", rows.len() - 1)?;
    }
    Ok(())
}
