//! The bare loop of `INSERT` and `COMMIT` on SQLite.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, params};

use crate::open::task;
use crate::{Measured, measure};

/// Inserts rows of the same length, with the settings of the crate.
pub(crate) fn bare(
    file: &Path,
    is_synced: bool,
    length: Duration,
) -> Result<Measured, Box<dyn Error>> {
    let connection = Connection::open(file)?;
    let level = if is_synced { "FULL" } else { "NORMAL" };
    connection.execute_batch(&format!(
        "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
         PRAGMA synchronous = {level}; PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000;
         PRAGMA journal_size_limit = 67108864;
         CREATE TABLE job (due INTEGER, id BLOB, payload BLOB, PRIMARY KEY (due, id)) WITHOUT ROWID;"
    ))?;
    let mut insert = connection.prepare("INSERT INTO job VALUES (?, ?, ?)")?;
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut commit = connection.prepare("COMMIT")?;
    measure(length, |number| {
        let payload = serde_json::to_vec(&task(number))?;
        let due = SystemTime::UNIX_EPOCH.elapsed()?.as_millis() as i64 + 3_600_000;
        begin.execute([])?;
        insert.execute(params![due, u128::from(number).to_be_bytes(), payload])?;
        commit.execute([])?;
        Ok(())
    })
}
