//! An insert in a transaction of the caller's, on the caller's connection.

use std::path::Path;

use rusqlite::Transaction;

use super::open::Location;
use super::rows::{hour_of, kind_row};
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
    let path = transaction.path().filter(|path| !path.is_empty());
    if location.vfs.is_none() && !path.is_some_and(|path| same_file(path, &location.path)) {
        let path = path.unwrap_or("no file");
        return Err(StoreError::Other(format!(
            "the transaction is on {path}, the jobs are on {}",
            location.path.display()
        )));
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

fn same_file(one: &str, other: &Path) -> bool {
    match (Path::new(one).canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
