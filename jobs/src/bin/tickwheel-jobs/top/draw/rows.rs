//! Draws the rows of a table.
//!
//! Ground rules:
//!
//! - Where not all columns have room, those that matter least go first.
//! - Where not all rows have room, the page with the selected row is drawn.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::ink::{as_u16, cells, empty, fit, put, style};
use crate::top::amounts::{short, symbols};
use crate::top::state::{Opened, State, Tab};
use crate::top::tables::{Column, Mood, Table, Width};

/// Draws a table with the selected row. Where not all rows have room, it shows the page with that row.
pub(super) fn rows(state: &State, table: &Table, area: Rect, buf: &mut Buffer) {
    if table.rows.is_empty() {
        return empty(state, &nothing(state), area, buf);
    }
    let columns = columns(table.columns, usize::from(area.width));
    let is_sorted = state.opened.is_empty() && state.tab == Tab::Kinds;
    let arrow = |at: usize| match (is_sorted && at == state.sort.0, state.sort.1) {
        (false, _) => "",
        (true, true) => "↓",
        (true, false) => "↑",
    };
    let head = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| format!("{}{}", arrow(at), column.title));
    let head: Vec<String> = head.collect();
    line(&head, table.columns, &columns, area, buf, style(state, Mood::Quiet));
    let room = usize::from(area.height.saturating_sub(1));
    if room == 0 {
        return;
    }
    let selected = state.place().map_or(0, |place| place.at);
    let first = selected / room * room;
    let page = table.rows.iter().enumerate().skip(first).take(room);
    for ((at, row), y) in page.zip(area.y + 1..) {
        let mut style = style(state, row.mood);
        if at == selected {
            style = style.add_modifier(Modifier::REVERSED);
            buf.set_style(Rect { y, height: 1, ..area }, style);
        }
        line(&row.cells, table.columns, &columns, Rect { y, height: 1, ..area }, buf, style);
    }
}

/// Draws the cells of a row.
fn line(
    texts: &[String],
    columns: &[Column],
    widths: &[(usize, usize)],
    area: Rect,
    buf: &mut Buffer,
    style: Style,
) {
    let mut x = area.x;
    for (at, width) in widths {
        let text = fit(&texts[*at], *width);
        let blank = if columns[*at].is_right { width.saturating_sub(cells(&text)) } else { 0 };
        let end = (x + as_u16(*width)).min(area.right());
        put(buf, x + as_u16(blank), area.y, end, &text, style);
        x = end + 1;
    }
}

/// Returns the columns that have room, each with its width.
fn columns(columns: &[Column], width: usize) -> Vec<(usize, usize)> {
    let least = |column: &Column| match column.width {
        Width::Fixed(width) | Width::Share(width) => width,
    };
    let mut taken: Vec<usize> = (0..columns.len()).collect();
    loop {
        let needed: usize = taken.iter().map(|at| least(&columns[*at]) + 1).sum::<usize>() - 1;
        let spare = taken.iter().copied().filter(|at| columns[*at].spare > 0);
        let next = spare.max_by_key(|at| columns[*at].spare);
        match next.filter(|_| needed > width) {
            Some(next) => taken.retain(|at| *at != next),
            None => {
                let shares =
                    taken.iter().filter(|at| matches!(columns[**at].width, Width::Share(_)));
                let shares = shares.count().max(1);
                let left = width.saturating_sub(needed);
                let mut nth = 0;
                let of = |at: usize| match columns[at].width {
                    Width::Fixed(width) => (at, width),
                    Width::Share(least) => {
                        nth += 1;
                        (at, least + left / shares + usize::from(nth <= left % shares))
                    }
                };
                return taken.into_iter().map(of).collect();
            }
        }
    }
}

/// Says why a table has no rows.
fn nothing(state: &State) -> String {
    if let Some(place) = state.place()
        && !place.filter.is_empty()
    {
        return format!("no row has \"{}\": Esc shows all", symbols(&place.filter));
    }
    match state.opened.last() {
        Some(Opened::List { list: None, .. }) => "asking the store ..".to_owned(),
        Some(Opened::List { of, list: Some(list), .. }) => match (list.note, of.set.name()) {
            (Some(note), _) => format!("none: {note}"),
            (None, "completed") => "none that is kept".to_owned(),
            (None, set) => format!("no {set} jobs"),
        },
        _ => match state.tab {
            Tab::Kinds => "no kinds: no job was ever inserted".to_owned(),
            Tab::Nodes => "no nodes: no process runs the jobs of this queue".to_owned(),
            Tab::Running => match &state.figures {
                Some(figures) if figures.runs.is_none() => {
                    let running = short(figures.counts.claimed + figures.counts.running);
                    format!("{running} jobs run: too many to list")
                }
                _ => "nothing runs".to_owned(),
            },
            Tab::Dead => "no dead jobs".to_owned(),
            Tab::Schedules => "no schedules".to_owned(),
            Tab::Limits => match &state.figures {
                Some(figures) if figures.limits.is_none() => {
                    let running = short(figures.counts.claimed + figures.counts.running);
                    format!("{running} jobs run: too many to count them by limit")
                }
                _ => "no limits".to_owned(),
            },
            Tab::Groups => "no groups".to_owned(),
        },
    }
}
