//! Draws the head: the store and the time, the figures, and why they are old.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::ink::{as_u16, bold, cells, fit_end, put, style};
use crate::top::amounts::{age, symbols};
use crate::top::facts::{facts, title};
use crate::top::figures::Time;
use crate::top::state::State;
use crate::top::tables::Mood;

/// Figures that are older than this are said to be old.
const OLD: Duration = Duration::from_secs(5);

/// Draws the head. Returns the row below.
pub(super) fn head(state: &State, area: Rect, buf: &mut Buffer) -> u16 {
    let mut y = area.y;
    let end = area.right();
    let Some(figures) = &state.figures else {
        put(buf, area.x, y, end, "tickwheel-jobs top", bold());
        return problem(state, None, y + 1, area, buf);
    };
    let mut status = Vec::new();
    if figures.is_paused {
        status.push("PAUSED");
    }
    if state.is_frozen {
        status.push("FROZEN");
    }
    let status = status.join(" ");
    let status_at = end.saturating_sub(as_u16(cells(&status)));
    put(buf, status_at, y, end, &status, style(state, Mood::Warning));
    let mut parts = title(figures);
    let rest: usize = parts[1..].iter().map(|part| cells(part) + 2).sum();
    let left = usize::from(status_at.saturating_sub(area.x)).saturating_sub(rest + 1);
    parts[0] = fit_end(&parts[0], left.max(12));
    let x = put(buf, area.x, y, status_at, &parts[0], bold());
    put(buf, x, y, status_at, &format!("  {}", parts[1..].join("  ")), Style::new());
    y += 1;

    let rates = state.curve.lately();
    let rates =
        rates.unwrap_or((figures.rates.completed_per_second, figures.rates.failed_per_second));
    let mut x = area.x;
    for fact in facts(figures, rates) {
        let width = as_u16(cells(fact.name) + 1 + cells(&fact.value));
        if x > area.x && x + width > end {
            (x, y) = (area.x, y + 1);
        }
        x = put(buf, x, y, end, fact.name, style(state, Mood::Quiet));
        let value = if fact.mood == Mood::Plain { bold() } else { style(state, fact.mood) };
        x = put(buf, x + 1, y, end, &fact.value, value);
        x += 3;
    }
    problem(state, Some(figures.time), y + 1, area, buf)
}

/// Says that the figures are old, and why. Returns the row below.
fn problem(state: &State, read: Option<Time>, y: u16, area: Rect, buf: &mut Buffer) -> u16 {
    let old = read.map(|read| state.now.since(read)).filter(|old| *old > OLD && !state.is_frozen);
    let figures = old.map(|old| format!("these figures are {} old", age(old)));
    let said = match (&state.problem, figures) {
        (Some(problem), Some(figures)) => format!("{}; {figures}", symbols(problem)),
        (Some(problem), None) => symbols(problem),
        (None, Some(figures)) => format!("the store does not answer; {figures}"),
        (None, None) => return y,
    };
    put(buf, area.x, y, area.right(), &said, style(state, Mood::Bad));
    y + 1
}
