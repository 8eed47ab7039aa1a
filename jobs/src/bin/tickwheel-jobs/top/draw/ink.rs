//! Styles, and text that is cut to the cells it has.
//!
//! Ground rules:
//!
//! - A text is written only within its own width and inside the screen.
//! - Without colors the same things are said by words and by bold, dim and reversed text.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use crate::top::state::State;
use crate::top::tables::Mood;

pub(super) fn style(state: &State, mood: Mood) -> Style {
    let style = Style::new();
    let colored = |color: Color| if state.has_color { style.fg(color) } else { style };
    match mood {
        Mood::Plain => style,
        Mood::Quiet => style.add_modifier(Modifier::DIM),
        Mood::Good => colored(Color::Green),
        Mood::Warning => colored(Color::Yellow).add_modifier(Modifier::BOLD),
        Mood::Bad => colored(Color::Red).add_modifier(Modifier::BOLD),
    }
}

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Returns how many cells a text takes.
pub(crate) fn cells(text: &str) -> usize {
    Line::from(text).width()
}

/// Returns the text, cut to a width. `…` stands for the rest.
pub(super) fn fit(text: &str, width: usize) -> String {
    // A cell may have a character with many marks on it. They are cut off as well.
    let mut cut: String = text.chars().take(2 * width + 2).collect();
    if cells(&cut) <= width && cut.len() == text.len() {
        return cut;
    }
    while cells(&cut) + 1 > width && cut.pop().is_some() {}
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// Returns the end of the text, cut to a width.
pub(super) fn fit_end(text: &str, width: usize) -> String {
    let turned = |text: &str| text.chars().rev().collect::<String>();
    turned(&fit(&turned(text), width))
}

/// Writes a text into a row. Returns the column behind it.
pub(super) fn put(buf: &mut Buffer, x: u16, y: u16, end: u16, text: &str, style: Style) -> u16 {
    let width = usize::from(end.saturating_sub(x));
    if width == 0 || y >= buf.area.bottom() {
        return x;
    }
    buf.set_stringn(x, y, fit(text, width), width, style).0
}

pub(super) fn as_u16(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}

pub(super) fn empty(state: &State, said: &str, area: Rect, buf: &mut Buffer) {
    let y = area.y + area.height.saturating_sub(1).min(1);
    put(buf, area.x + 1, y, area.right(), said, style(state, Mood::Quiet));
}
