//! The history of a queue on a file: rows of bytes, as `store/history.rs` makes them, and the latest minute of a kind
//! as a column of the kind's row.

use super::State;
use super::schema::kind_row;
use super::tables::Tables;
use crate::store::HistoryPart;
use crate::store::history::{self, Figures, MINUTE_MS, Rows};
use crate::values::error::StoreError;
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

impl Rows for Tables<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.one("SELECT value FROM {p}history WHERE key = ?1", [key], |row| row.get(0))
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO {p}history VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE \
             SET value = excluded.value",
            [key, value],
        )
        .map(drop)
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.execute("DELETE FROM {p}history WHERE key = ?1", [key]).map(drop)
    }
}

/// Returns the latest minute of each kind, and the name of the kind.
fn minutes(tables: Tables<'_>) -> Result<Vec<(String, KindMinute)>, StoreError> {
    let rows =
        tables.all("SELECT n, name, minute FROM {p}kind WHERE minute IS NOT NULL", [], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?))
        })?;
    let minute = |(kind, name, column): (i64, String, Vec<u8>)| {
        KindMinute::of_column(kind, &column).map(|minute| (name, minute))
    };
    Ok(rows.into_iter().filter_map(minute).collect())
}

impl State {
    /// Reads the latest minutes again, since another connection may have changed them.
    pub(super) fn read_minutes(&mut self, tables: Tables<'_>) -> Result<(), StoreError> {
        self.minutes = minutes(tables)?.into_iter().map(|(_, minute)| minute).collect();
        Ok(())
    }

    /// Writes what was counted in this transaction.
    pub(super) fn write_history(
        &mut self,
        mut tables: Tables<'_>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let minute = u32::try_from(now.get().max(0) / MINUTE_MS).unwrap_or(u32::MAX);
        for (kind, figures) in self.noted.take() {
            let known = self.minutes.iter().position(|known| known.kind == kind);
            let at = known.unwrap_or_else(|| {
                self.minutes.push(KindMinute { kind, minute, figures: Figures::default() });
                self.minutes.len() - 1
            });
            let latest = &mut self.minutes[at];
            if latest.minute != minute {
                let name = &kind_row(&self.kinds, kind)?.name;
                history::add(&mut tables, name, latest.begin(), &latest.figures)?;
                *latest = KindMinute { kind, minute, figures: Figures::default() };
            }
            latest.figures.merge(&figures);
            // The counts of the kind are in the same row.
            let changed = self.deltas.iter().position(|(of, _)| *of == kind);
            let by = changed.map(|at| self.deltas.swap_remove(at).1).unwrap_or_default();
            tables.add_counts(kind, by, Some(&latest.to_column()))?;
            self.has_counted(kind, by);
        }
        Ok(())
    }
}

pub(super) fn read_history(
    mut tables: Tables<'_>,
    kind: Option<&str>,
    from: Millis,
    to: Millis,
) -> Result<Vec<HistoryPart>, StoreError> {
    let get = |keys: &[Vec<u8>]| keys.iter().map(|key| tables.get(key)).collect();
    let mut parts = history::read(kind, (from, to), get)?;
    for (name, minute) in minutes(tables)? {
        let is_wanted = match kind {
            None => true,
            Some(kind) => history::listed_as(&mut tables, &name)? == kind,
        };
        if is_wanted && (from..to).contains(&minute.begin()) {
            parts.push((minute.begin(), false, minute.figures));
        }
    }
    parts.sort_by_key(|(begin, ..)| *begin);
    Ok(parts)
}
