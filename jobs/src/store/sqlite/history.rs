//! The history of a queue on a file: rows of bytes, as `store/history.rs` makes them.

use super::State;
use super::rows::kind_row;
use super::tables::Tables;
use crate::store::HistoryPart;
use crate::store::history::{self, Rows};
use crate::values::error::StoreError;
use crate::values::time::Millis;

impl Rows for Tables<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.one(&self.sql.history, [key], |row| row.get(0))
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StoreError> {
        self.execute(&self.sql.put_history, [key, value]).map(drop)
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.execute(&self.sql.drop_history, [key]).map(drop)
    }
}

impl State {
    /// Writes what was counted in this transaction.
    pub(super) fn write_history(
        &mut self,
        mut tables: Tables<'_>,
        now: Millis,
    ) -> Result<(), StoreError> {
        for (kind, figures) in self.noted.take() {
            let name = &kind_row(&self.kinds, kind)?.name;
            history::add(&mut tables, name, now, &figures)?;
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
    history::read(kind, (from, to), |keys| keys.iter().map(|key| tables.get(key)).collect())
}
