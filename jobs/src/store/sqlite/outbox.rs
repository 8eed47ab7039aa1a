//! An insert in a transaction of the caller's, on the caller's connection.

#[cfg(unix)]
use std::ffi::OsStr;
use std::path::PathBuf;

use rusqlite::Transaction;
use rusqlite::types::ValueRef;

use super::open::Location;
use super::rows::{hour_of, kind_row, store_error};
use super::schema::Sql;
use super::tables::Tables;
use crate::store::words::NewJob;
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// Inserts the job. Nothing is known to the dispatcher until it looks.
pub(crate) fn insert_in(
    file: &Option<Location>,
    transaction: &Transaction<'_>,
    new: NewJob,
    now: Millis,
) -> Result<(), StoreError> {
    let Some(location) = file else {
        return Err(StoreError::Other("these jobs are not on a file".to_owned()));
    };
    if location.vfs.is_none() {
        let path = path_of(transaction)?;
        if !path.as_ref().is_some_and(|path| location.is_at(path)) {
            let path = path.map_or("no file".to_owned(), |path| path.display().to_string());
            return Err(StoreError::Other(format!(
                "the transaction is on {path}, the jobs are on {}",
                location.path.display()
            )));
        }
    }
    let sql = Sql::new(location.queue.as_deref());
    let tables = Tables { conn: transaction, sql: &sql };
    tables.add_kind(&new.kind)?;
    let kinds = tables.kinds()?;
    let number = kinds.iter().find(|kind| *kind.name == *new.kind).map_or(-1, |kind| kind.n);
    let kind = kind_row(&kinds, number)?;
    let is_claimed = |id| Ok(tables.claimed_ids()?.contains(&id));
    let hour = tables.hour()?;
    let is_later = |_, due| Ok(hour_of(due) > hour);
    tables.insert(&kinds, kind, &new, is_claimed, is_later, now)?;
    tables.add_jobs(kind.n, 1)
}

/// Returns the path of the transaction's file. Only for one that is no UTF-8 a statement is needed: it would
/// begin the transaction with a read, and SQLite refuses the write that follows if another connection has
/// written in between.
fn path_of(transaction: &Transaction<'_>) -> Result<Option<PathBuf>, StoreError> {
    if let Some(path) = transaction.path().filter(|path| !path.is_empty()) {
        return Ok(Some(PathBuf::from(path)));
    }
    let of_main = "SELECT file FROM pragma_database_list WHERE name = 'main'";
    let path = transaction.query_row(of_main, [], |row| Ok(path_from(row.get_ref(0)?)));
    path.map_err(store_error)
}

fn path_from(value: ValueRef<'_>) -> Option<PathBuf> {
    let (ValueRef::Text(bytes) | ValueRef::Blob(bytes)) = value else { return None };
    if bytes.is_empty() {
        return None;
    }
    #[cfg(unix)]
    return Some(std::os::unix::ffi::OsStrExt::from_bytes(bytes)).map(|path: &OsStr| path.into());
    #[cfg(not(unix))]
    return core::str::from_utf8(bytes).ok().map(PathBuf::from);
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, TransactionState};

    use super::*;

    /// Promise: an insert in a transaction of the caller's is not refused because another connection has
    /// written in between. The path is found without a read, so the first statement is the write.
    #[test]
    fn the_path_of_a_transaction_is_found_without_a_read() {
        let name = format!("tickwheel-jobs-outbox-{}.db", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut conn = Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
        let transaction = conn.transaction().unwrap();
        let found = path_of(&transaction).unwrap().unwrap();
        assert_eq!(found.file_name(), path.file_name());
        let state = transaction.transaction_state(None::<&str>).unwrap();
        assert_eq!(state, TransactionState::None);
        drop(transaction);
        drop(conn);
        std::fs::remove_file(&path).unwrap();
    }
}
