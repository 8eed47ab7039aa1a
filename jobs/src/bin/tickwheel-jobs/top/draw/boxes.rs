//! Draws the boxes over the view: the help, and the question before a change.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Widget, Wrap};

use super::ink::{as_u16, style};
use crate::top::keys::HELP;
use crate::top::state::State;
use crate::top::tables::Mood;

pub(super) fn help(state: &State, area: Rect, buf: &mut Buffer) {
    let line = |(keys, does): &(&str, &str)| Line::from(format!("{keys:<11} {does}"));
    let lines: Vec<Line<'_>> = HELP.iter().map(line).collect();
    boxed(state, "Keys", &lines, Style::new(), area, buf);
}

/// Draws lines in a box in the middle.
pub(super) fn boxed(
    state: &State,
    title: &str,
    lines: &[Line<'_>],
    border: Style,
    area: Rect,
    buf: &mut Buffer,
) {
    let widest = lines.iter().map(Line::width).max().unwrap_or(0);
    let width = as_u16(widest + 4).min(area.width).min(76).max(area.width.min(30));
    let text = Paragraph::new(lines.to_vec()).wrap(Wrap { trim: false });
    let inner = usize::from(width.saturating_sub(4)).max(1);
    // Words wrap, so a line may need one row more than its width says.
    let needed: usize = lines.iter().map(|line| line.width().div_ceil(inner).max(1)).sum();
    let wraps = lines.iter().filter(|line| line.width() > inner).count();
    let height = as_u16(needed + wraps + 2).min(area.height);
    let frame = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(frame, buf);
    let block = Block::bordered().title(format!(" {title} ")).border_style(border);
    let inside = block.inner(frame);
    block.render(frame, buf);
    let inside = Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside };
    text.style(style(state, Mood::Plain)).render(inside, buf);
}
