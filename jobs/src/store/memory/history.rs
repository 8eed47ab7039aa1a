//! The history of the store in memory.

use std::collections::BTreeMap;

use super::Memory;
use crate::store::HistoryPart;
use crate::store::figures::Figure;
use crate::store::history::{self, Rows};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

impl Rows for BTreeMap<Vec<u8>, Vec<u8>> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(BTreeMap::get(self, key).cloned())
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StoreError> {
        self.insert(key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        BTreeMap::remove(self, key);
        Ok(())
    }
}

impl Memory {
    /// Counts an event of a job that is alive.
    pub(super) fn note(&mut self, id: JobId, figure: Figure) {
        if let Some(record) = self.alive.get(&id) {
            self.noted.note(&record.kind, figure);
        }
    }

    /// Writes what was counted since the last call.
    pub(super) fn write_history(&mut self, now: Millis) -> Result<(), StoreError> {
        for (kind, figures) in self.noted.take() {
            history::add(&mut self.history, &kind, now, &figures)?;
        }
        Ok(())
    }

    pub(super) fn read_history(
        &self,
        kind: Option<&str>,
        from: Millis,
        to: Millis,
    ) -> Vec<HistoryPart> {
        let get =
            |keys: &[Vec<u8>]| Ok(keys.iter().map(|key| self.history.get(key).cloned()).collect());
        let Ok(parts) = history::read::<core::convert::Infallible>(kind, (from, to), get);
        parts
    }
}
