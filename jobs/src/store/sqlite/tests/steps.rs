//! Counts, for tests, the steps that SQLite's machine takes for the questions and changes of a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rusqlite::StatementStatus;

use super::plans::statements;
use crate::store::sqlite::Sqlite;
use crate::store::sqlite::sql::Sql;

/// The files whose steps are counted, with the steps since the last look.
static COUNTED: Mutex<BTreeMap<PathBuf, i64>> = Mutex::new(BTreeMap::new());

/// Counts the steps of a file, which has one queue, from now on.
pub(crate) fn count(path: &Path) {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), 0);
}

/// Returns the steps of a file since the last call.
pub(crate) fn take(path: &Path) -> i64 {
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    counted.get_mut(path).map(core::mem::take).unwrap()
}

/// Adds the steps that the statements of a store have taken since the last call.
pub(crate) fn note(store: &Sqlite) {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(conn), Some(steps)) = (&store.conn, counted.get_mut(&store.location.path)) else {
        return;
    };
    let texts =
        TEXTS.get_or_init(|| statements(&Sql::new(None)).into_iter().map(|its| its.text).collect());
    for text in texts {
        // A file without partitions has no table of lanes.
        let Ok(statement) = conn.prepare_cached(text) else { continue };
        *steps += i64::from(statement.reset_status(StatementStatus::VmStep));
    }
}
