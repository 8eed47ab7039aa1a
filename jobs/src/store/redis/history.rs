//! Reads the history of a queue. `scripts/history.lua` writes it.

use redis::Value;

use super::Redis;
use super::decode::{Fault, array, bytes};
use crate::store::HistoryPart;
use crate::store::history;
use crate::values::time::Millis;

impl Redis {
    pub(super) fn read_history(
        &mut self,
        kind: Option<&str>,
        from: Millis,
        to: Millis,
    ) -> Result<Vec<HistoryPart>, Fault> {
        history::read(kind, (from, to), |fields| self.history_rows(fields))
    }

    fn history_rows(&mut self, fields: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Fault> {
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(self.keys.history()).arg(fields);
        let rows = self.plain(cmd)?;
        let row = |row: &Value| match row {
            Value::Nil => Ok(None),
            row => Ok(Some(bytes(row)?.to_vec())),
        };
        array(&rows)?.iter().map(row).collect()
    }
}
