//! Draws the state of the view of `top`.
//!
//! Ground rules:
//!
//! - Control characters of a text from a store are replaced by `symbols`, here or earlier.
//! - If the screen is too small, the curve goes first, and then columns.
//!
//! | file | draws |
//! | --- | --- |
//! | `ink.rs` | text: styles, and how many cells it takes |
//! | `head.rs` | the store, the time and the figures |
//! | `rate.rs` | the curve of the rate |
//! | `rows.rs` | the rows of a table |
//! | `footer.rs` | the last row |
//! | `boxes.rs` | the help and questions |

mod ink;
mod head;
mod rate;
mod rows;
mod footer;
mod boxes;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget, Wrap};

use super::amounts::symbols;
use super::state::{Mode, Opened, State, Tab};
use super::tables::Mood;
#[cfg(test)]
pub(super) use ink::cells;
use ink::{empty, put, style};

/// A screen with fewer rows has no curve.
const LEAST_ROWS_WITH_CURVE: u16 = 16;

/// Draws the state.
pub(crate) fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buf = frame.buffer_mut();
    let mut y = head::head(state, area, buf);
    if area.height >= LEAST_ROWS_WITH_CURVE {
        rate::curve(state, Rect { y, height: rate::ROWS, ..area }, buf);
        y += rate::ROWS;
    }
    // The last row is the footer's.
    let end = area.bottom().saturating_sub(1);
    if y < end {
        tabs(state, Rect { y, height: 1, ..area }, buf);
        y += 1;
    }
    if y < end {
        let body = Rect { y, height: end - y, ..area };
        match state.opened.last() {
            Some(Opened::Job { page, scroll, .. }) => {
                let lines = page.as_ref().map(|page| page.job.as_ref().map(|job| &*job.1));
                job(state, lines, *scroll, body, buf);
            }
            _ => match state.table() {
                Some(table) => rows::rows(state, &table, body, buf),
                None => empty(state, "asking the store ..", body, buf),
            },
        }
    }
    if area.height > 1 {
        footer::footer(state, Rect { y: end, height: 1, ..area }, buf);
    }
    match &state.mode {
        Mode::Help => boxes::help(state, area, buf),
        Mode::Confirm(change) => {
            let lines =
                [change.question(), String::new(), "y: yes    any other key: no".to_owned()];
            boxes::boxed(
                state,
                "Sure?",
                &lines.map(Line::from),
                style(state, Mood::Bad),
                area,
                buf,
            );
        }
        Mode::Normal | Mode::Filter => {}
    }
}

/// Draws the names of the tables, or the name of the opened list or job.
fn tabs(state: &State, area: Rect, buf: &mut Buffer) {
    let (y, end) = (area.y, area.right());
    let mut x = area.x;
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    match state.opened.last() {
        None => {
            for (number, tab) in (1..).zip(Tab::ALL) {
                let name = format!(" {number} {} ", tab.name());
                let chosen = if tab == state.tab { reversed } else { Style::new() };
                x = put(buf, x, y, end, &name, chosen);
            }
        }
        Some(Opened::List { of, page, .. }) => {
            let kind = symbols(&of.kind);
            let error = of.error.as_ref().map(|error| format!(": {}", symbols(error)));
            let page = if *page == 0 { String::new() } else { format!(", page {}", page + 1) };
            let title =
                format!(" {} jobs of {kind}{page}{} ", of.set.name(), error.unwrap_or_default());
            x = put(buf, x, y, end, &title, reversed);
        }
        Some(Opened::Job { id, .. }) => {
            x = put(buf, x, y, end, &format!(" Job {id} "), reversed);
        }
    }
    let Some(place) = state.place() else { return };
    if state.mode == Mode::Filter || !place.filter.is_empty() {
        let cursor = if state.mode == Mode::Filter { "▏" } else { "" };
        let filter = format!("  /{}{cursor}", symbols(&place.filter));
        put(buf, x, y, end, &filter, style(state, Mood::Warning));
    }
}

/// Draws everything about a job.
fn job(
    state: &State,
    lines: Option<Option<&[String]>>,
    scroll: usize,
    area: Rect,
    buf: &mut Buffer,
) {
    match lines {
        None => empty(state, "asking the store ..", area, buf),
        Some(None) => {
            let said =
                "there is no such job any more: it has completed, or was cancelled or deleted";
            empty(state, said, area, buf);
        }
        Some(Some(lines)) => {
            let lines: Vec<Line<'_>> =
                lines.iter().skip(scroll).map(|line| Line::from(&**line)).collect();
            Paragraph::new(lines).wrap(Wrap { trim: false }).render(area, buf);
        }
    }
}
