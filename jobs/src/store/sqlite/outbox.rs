//! Operations in a transaction of the caller, on the caller's connection.

#[cfg(unix)]
use std::ffi::OsStr;
use std::path::PathBuf;

use rusqlite::Transaction;
use rusqlite::types::ValueRef;

use super::State;
use super::open::Location;
use super::rows::{KindCounts, store_error};
use super::sql::Sql;
use super::tables::Tables;
use crate::store::{Answer, Inserted, NewJob, Op};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::Cancel;
use crate::values::time::Millis;

/// Inserts the job. The dispatcher sees it at its next poll.
pub(crate) fn insert_in(
    file: &Option<Location>,
    transaction: &Transaction<'_>,
    new: NewJob,
    now: Millis,
) -> Result<Inserted, StoreError> {
    let location = location_of(file, transaction)?;
    let sql = Sql::new(location.queue.as_deref());
    let tables = Tables { conn: transaction, sql: &sql };
    tables.add_kind(&new.kind)?;
    match change(tables, &Op::Insert(new), location, now)? {
        Answer::Inserted(inserted) => Ok(inserted),
        other => Err(strange(&other)),
    }
}

/// Cancels a job. If it is claimed, the cancel is requested of the process that runs it.
pub(crate) fn cancel_in(
    file: &Option<Location>,
    transaction: &Transaction<'_>,
    id: JobId,
    now: Millis,
) -> Result<Cancel, StoreError> {
    match write_in(file, transaction, &Op::Cancel(id), now)? {
        Answer::Cancelled(cancel) => Ok(cancel),
        other => Err(strange(&other)),
    }
}

/// Gives a job that is not claimed another due time.
pub(crate) fn reschedule_in(
    file: &Option<Location>,
    transaction: &Transaction<'_>,
    id: JobId,
    due: Millis,
    now: Millis,
) -> Result<bool, StoreError> {
    match write_in(file, transaction, &Op::Reschedule(id, due), now)? {
        Answer::Changed(changed) => Ok(changed),
        other => Err(strange(&other)),
    }
}

/// A number that no kind has.
const NO_KIND: i64 = -1;

fn write_in(
    file: &Option<Location>,
    transaction: &Transaction<'_>,
    op: &Op,
    now: Millis,
) -> Result<Answer, StoreError> {
    let location = location_of(file, transaction)?;
    let sql = Sql::new(location.queue.as_deref());
    let tables = Tables { conn: transaction, sql: &sql };
    // The first statement is a write that changes nothing. If it were a read, SQLite would refuse the
    // write that follows whenever another connection has written in between.
    tables.add_counts(NO_KIND, KindCounts::default())?;
    change(tables, op, location, now)
}

/// Applies an operation as a process that does not run the jobs, in a transaction whose first statement was a
/// write. It files the rows of the outbox first, as every transaction does: so the later of two jobs keeps
/// their key.
fn change(
    tables: Tables<'_>,
    op: &Op,
    location: &Location,
    now: Millis,
) -> Result<Answer, StoreError> {
    let mut state = State::new(false, location.keep_dead, location.history);
    state.begin(tables)?;
    state.file_outbox(tables, now)?;
    let answer = state.apply(tables, op, now)?;
    state.write_counts(tables)?;
    state.write_history(tables, now)?;
    Ok(answer)
}

fn strange(answer: &Answer) -> StoreError {
    StoreError::Other(format!("the store gave a strange answer: {answer:?}"))
}

/// Returns the location of the jobs, if the transaction is on the same file.
fn location_of<'a>(
    file: &'a Option<Location>,
    transaction: &Transaction<'_>,
) -> Result<&'a Location, StoreError> {
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
    Ok(location)
}

/// Returns the path of the transaction's file. Only a path that is not UTF-8 needs a statement, which begins the
/// transaction with a read: then SQLite refuses the write that follows if another connection has written in
/// between.
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

    /// An insert in a transaction of the caller is not refused because another connection has written in between.
    /// `path_of` reads nothing, so the first statement is the write.
    #[test]
    fn transaction_path_is_found_without_a_read() {
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
