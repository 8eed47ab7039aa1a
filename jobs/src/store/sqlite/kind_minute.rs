//! The latest minute of the history of a kind, as a column of the kind's row.

use crate::store::figures::Figures;
use crate::store::history::MINUTE_MS;
use crate::values::time::Millis;

/// The latest minute in which something happened to a kind, and what. Nearly every commit writes the row of the kind
/// anyway, so the minute lies there until another one begins. Then it moves to the rows of the history.
#[derive(Debug)]
pub(crate) struct KindMinute {
    pub(super) kind: i64,
    pub(super) minute: u32,
    pub(super) figures: Figures,
}

impl KindMinute {
    /// Its column: the minute as four bytes, and the figures.
    pub(super) fn to_column(&self) -> Vec<u8> {
        [&self.minute.to_be_bytes()[..], &self.figures.to_bytes()].concat()
    }

    pub(super) fn of_column(kind: i64, column: &[u8]) -> Option<KindMinute> {
        let (minute, figures) = column.split_first_chunk()?;
        let minute = u32::from_be_bytes(*minute);
        Some(KindMinute { kind, minute, figures: Figures::from_bytes(figures) })
    }

    pub(super) fn begin(&self) -> Millis {
        Millis::clamped(i64::from(self.minute) * MINUTE_MS)
    }
}
