//! Draws the curve of the rate, with four dots of braille in the height of a row.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::ink::{put, style};
use crate::top::amounts::zero_rate;
use crate::top::curve::Sample;
use crate::top::state::State;
use crate::top::tables::Mood;

pub(super) const ROWS: u16 = 3;
/// The columns of the labels.
const LABEL: u16 = 9;

/// Draws the rate of the last two minutes. Failures make it red.
pub(super) fn curve(state: &State, area: Rect, buf: &mut Buffer) {
    let (x, end) = (area.x + LABEL, area.right());
    let columns = end.saturating_sub(x);
    let samples = state.curve.points(usize::from(columns) * 2);
    let total = |sample: &Sample| sample.completed + sample.failed;
    let peak = samples.iter().flatten().map(total).fold(0.0, f64::max);
    let labels = [format!("{}/s", zero_rate(peak)), "2 min".to_owned(), "0".to_owned()];
    for (label, y) in labels.iter().zip(area.y..) {
        put(buf, area.x, y, x, &format!("{label:>7}"), style(state, Mood::Quiet));
    }
    let dots = usize::from(ROWS) * 4;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of dots"
    )]
    let height = |sample: &Option<Sample>| match sample {
        None => 0,
        Some(_) if peak <= 0.0 => 1,
        Some(sample) => ((total(sample) / peak * dots as f64).ceil() as usize).clamp(1, dots),
    };
    for (pair, x) in samples.chunks(2).zip(x..end) {
        let has_failed = pair.iter().flatten().any(|sample| sample.failed > 0.0);
        let is_idle = pair.iter().flatten().all(|sample| total(sample) <= 0.0);
        let mood = match (has_failed, is_idle) {
            (true, _) => Mood::Bad,
            (_, true) => Mood::Quiet,
            _ => Mood::Good,
        };
        for (row, y) in (area.y..area.bottom()).enumerate() {
            let below = dots - 4 * (row + 1);
            let filled = |sample: &Option<Sample>| height(sample).saturating_sub(below).min(4);
            let left = [0, 0x40, 0x44, 0x46, 0x47][filled(&pair[0])];
            let right = [0, 0x80, 0xa0, 0xb0, 0xb8][pair.get(1).map_or(0, filled)];
            if let Some(braille) =
                char::from_u32(0x2800 + left + right).filter(|_| left + right > 0)
            {
                put(buf, x, y, end, &braille.to_string(), style(state, mood));
            }
        }
    }
}
