//! Operations in a transaction of the caller, on the caller's connection; and which claimed jobs such a transaction has
//! ended, or may still end.
//!
//! Ground rules of `end_in`, which ends a run there:
//!
//! - It does what the end of a completed run does, by the same function, `State::finish`. So the effects of the handler
//!   in this transaction, the end of its run and the run's follow-ups are one commit.
//! - It changes no claim. The runner has the claim in its memory, and ends it once the handler has returned. Until then
//!   an entry of [`EndedIn`] says that the claimed job may have no row.
//! - The transaction of an entry may be open, committed or rolled back. The row of the job tells which: if the job
//!   has no row by the end of the claim, the run has completed: the result of the handler has no effect, and nothing
//!   is counted again. If the job has a row, the transaction was rolled back, and the result of the handler counts
//!   (`State::has_ended_in`).
//! - An entry is made while the caller's transaction has the write lock. So if a connection has the lock later and
//!   finds the job in the file, the transaction was rolled back, and the entry is removed. Otherwise the entry stays
//!   until the commit that ends the claim.
//! - A crash after the commit leaves a claim of a job without a row. That is no interruption (`run_ends.rs`), so the
//!   job does not run again, and nothing is lost.
//! - The claim must be held: the process of the run is still the one that runs the jobs of the file, the file has the
//!   claim, and the run is under way. `end_in` looks that up after its first statement, which is a write: from then on
//!   no other connection ends the claim.

#[cfg(unix)]
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashSet;
use rusqlite::Transaction;
use rusqlite::types::ValueRef;

use super::State;
use super::claim::{HeldClaim, starts_of};
use super::open::Location;
use super::schema::{KindCounts, kind_row, store_error};
use super::sql::{SETTINGS, Sql};
use super::tables::Tables;
use crate::store::{Answer, Fence, Finish, Op};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::invalid_input::InvalidInput;
use crate::values::job::Extra;
use crate::values::panics::locked;
use crate::values::setting::{Keep, QueueSettings};
use crate::values::time::Millis;

/// The jobs whose runs have called `Run::end_in`, and whose claims are held.
#[derive(Default)]
pub(crate) struct EndedIn {
    ids: Mutex<HashSet<JobId>>,
    /// Almost always `false`: then no lock is taken.
    is_any: AtomicBool,
}

impl EndedIn {
    pub(super) fn add(&self, id: JobId) {
        let mut ids = locked(&self.ids);
        ids.insert(id);
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn has(&self, id: JobId) -> bool {
        self.is_any.load(Ordering::Acquire) && locked(&self.ids).contains(&id)
    }

    /// Forgets these jobs, because their claims have ended, or a transaction was rolled back.
    pub(super) fn forget(&self, ended: impl Iterator<Item = JobId>) {
        if self.is_any.load(Ordering::Acquire) {
            let mut ids = locked(&self.ids);
            for id in ended {
                ids.remove(&id);
            }
            self.is_any.store(!ids.is_empty(), Ordering::Release);
        }
    }
}

/// Ends a run of the claim with this fence, as one that has completed. `end` gets how many completed jobs of the kind
/// are kept. It returns the end of the run, if the run is still under way.
pub(crate) fn end_in(
    file: &Option<Location>,
    transaction: &Transaction<'_>,
    (id, fence): (JobId, Fence),
    end: impl FnOnce(Option<Keep>) -> Option<Finish>,
    now: Millis,
) -> Result<(), StoreError> {
    let Some(location) = file else { return Err(InvalidInput::NoFile.into()) };
    if let Some(path) = other_path(location, transaction)? {
        return Err(InvalidInput::OtherFile { path }.into());
    }
    let sql = Sql::new(location.queue.as_deref());
    let tables = Tables { conn: transaction, sql: &sql };
    write_nothing(tables)?;
    let mut state = State::new(location, false);
    state.begin(tables)?;
    if starts_of(fence) != tables.starts()? || !tables.claims()?.iter().any(|(its, _)| *its == id) {
        return Err(StoreError::ClaimLost);
    }
    let place = tables.find(&state.kinds, id)?;
    let job = place.map(|place| Ok::<_, StoreError>((place, tables.job(place)?))).transpose()?;
    // A job that has ended may stay in the row of its claim.
    let Some((place, Some(job))) = job else { return Err(StoreError::RunEnded) };
    let keep = keep_of(tables, &kind_row(&state.kinds, place.kind)?.name)?;
    let Some(finish) = end(keep) else { return Err(StoreError::RunEnded) };
    state.file_outbox(tables, now)?;
    location.ended_in.add(id);
    let extra = Extra::read(job.extra.as_deref()).ok().flatten();
    state.claims.held.insert(id, HeldClaim::of(place, &job, extra.as_deref()));
    state.finish(tables, &finish, now)?;
    state.write_rest(tables, now)
}

/// Returns how many completed jobs of a kind are kept.
fn keep_of(tables: Tables<'_>, kind: &str) -> Result<Option<Keep>, StoreError> {
    let stored: Vec<(String, String)> =
        tables.all(SETTINGS, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(QueueSettings::of(&stored).keeps.remove(kind))
}

/// A number that no kind has.
const NO_KIND: i64 = -1;

/// Applies an operation as a process that does not run the jobs, in a transaction whose first statement is a write. It
/// files the rows of the outbox first, as every transaction does: so the later of two jobs keeps their key.
pub(crate) fn apply_in(
    file: &Option<Location>,
    transaction: &Transaction<'_>,
    op: &Op,
    now: Millis,
) -> Result<Answer, StoreError> {
    let location = location_of(file, transaction)?;
    let sql = Sql::new(location.queue.as_deref());
    let tables = Tables { conn: transaction, sql: &sql };
    match op {
        Op::Insert(new) => tables.add_kind(&new.kind)?,
        _ => write_nothing(tables)?,
    }
    let mut state = State::new(location, false);
    state.begin(tables)?;
    state.file_outbox(tables, now)?;
    let answer = state.apply(tables, op, now)?;
    state.write_rest(tables, now)?;
    Ok(answer)
}

/// Runs a write that changes nothing, as the first statement. If it were a read, SQLite would refuse the write that
/// follows whenever another connection has written in between.
fn write_nothing(tables: Tables<'_>) -> Result<(), StoreError> {
    tables.add_counts(NO_KIND, KindCounts::default(), None)
}

/// Returns the location of the jobs, if the transaction is on the same file.
fn location_of<'a>(
    file: &'a Option<Location>,
    transaction: &Transaction<'_>,
) -> Result<&'a Location, StoreError> {
    let Some(location) = file else {
        return Err(StoreError::Other("these jobs are not on a file".to_owned()));
    };
    match other_path(location, transaction)? {
        None => Ok(location),
        Some(path) => Err(StoreError::Other(format!(
            "the transaction is on {path}, the jobs are on {}",
            location.path.display()
        ))),
    }
}

/// Returns where the transaction is, if that is not the file of the jobs.
fn other_path(
    location: &Location,
    transaction: &Transaction<'_>,
) -> Result<Option<String>, StoreError> {
    if location.vfs.is_some() {
        return Ok(None);
    }
    let path = path_of(transaction)?;
    if path.as_ref().is_some_and(|path| location.is_at(path)) {
        return Ok(None);
    }
    Ok(Some(path.map_or("no file".to_owned(), |path| path.display().to_string())))
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
