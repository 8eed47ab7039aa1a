//! Draws the footer: the last message, or else the number of the selected row and the most useful keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::ink::{as_u16, cells, put, style};
use crate::top::amounts::symbols;
use crate::top::figures::MOST_ROWS;
use crate::top::state::{Mode, Opened, State, Tab};
use crate::top::tables::Mood;

/// Draws the message, or the keys.
pub(super) fn footer(state: &State, area: Rect, buf: &mut Buffer) {
    let (x, y, end) = (area.x, area.y, area.right());
    if let Some(jobs) = state.under_way {
        let said = format!("{jobs} jobs changed so far .. Esc stops it");
        put(buf, x, y, end, &said, style(state, Mood::Warning));
        return;
    }
    if let Some(message) = &state.message {
        put(buf, x, y, end, &symbols(message), style(state, Mood::Warning));
        return;
    }
    let rows = counted(state);
    let right = end.saturating_sub(as_u16(cells(&rows)));
    put(buf, right, y, end, &rows, style(state, Mood::Quiet));
    let hints: &[&str] = match (&state.mode, state.opened.last()) {
        (Mode::Filter, _) => &["Enter keep", "Esc remove"],
        (_, Some(Opened::Job { .. })) => {
            &["Esc back", "↑↓ scroll", "R D C change", "? help", "q quit"]
        }
        (_, Some(Opened::List { of, .. })) if of.error.is_some() => {
            &["Enter job", "Esc back", "n more", "/ filter", "R D change", "? help", "q quit"]
        }
        (_, Some(Opened::List { .. })) => &[
            "Enter job",
            "Esc back",
            "←→ state",
            "n more",
            "/ filter",
            "R D C change",
            "? help",
            "q quit",
        ],
        (_, None) if state.tab == Tab::Kinds => {
            &["Enter jobs", "←→ table", "<> sort", "/ filter", "R D C change", "? help", "q quit"]
        }
        _ => {
            &["Enter open", "←→ table", "/ filter", "p freeze", "R D C change", "? help", "q quit"]
        }
    };
    // Whole hints only: the first ones go where there is no room, since the help has them.
    let widths = |hints: &[&str]| hints.iter().map(|hint| cells(hint) + 2).sum::<usize>();
    let room = usize::from(right.saturating_sub(x));
    let from = (0..hints.len()).find(|from| widths(&hints[*from..]) <= room).unwrap_or(hints.len());
    put(buf, x, y, right, &hints[from..].join("  "), style(state, Mood::Quiet));
}

/// Returns the number of the selected row, and how many rows there are.
fn counted(state: &State) -> String {
    let (Some(table), Some(place)) = (state.table(), state.place()) else { return String::new() };
    let rows = table.rows.len();
    if rows == 0 {
        return String::new();
    }
    let more = match (state.opened.last(), &state.figures) {
        (Some(Opened::List { list: Some(list), .. }), _) if list.has_more => "+".to_owned(),
        (None, Some(figures))
            if state.tab == Tab::Kinds && figures.all_kinds > figures.kinds.len() =>
        {
            format!(" of {}", figures.all_kinds)
        }
        (None, Some(_)) if state.tab != Tab::Kinds && rows == MOST_ROWS => "+".to_owned(),
        _ => String::new(),
    };
    format!("{}/{rows}{more}", place.at + 1)
}
