//! The settings of SQLite that the promises need: each is set and read back.

use std::io;

use rusqlite::Connection;

use super::open::Location;
use super::schema::{APPLICATION_ID, PAGE_BYTES};
use crate::values::error::OpenError;

/// The memory for SQLite's page cache, in kibibytes.
const CACHE_KIB: i64 = 16 * 1024;
/// At this number of pages a commit moves the log to the file.
const CHECKPOINT_PAGES: i64 = 4000;
/// An emptied log is cut to this number of bytes.
const LOG_BYTES: i64 = 64 << 20;

impl Location {
    /// Sets what can be set only while a file has no tables.
    pub(super) fn settle_new(&self, conn: &Connection) -> Result<(), OpenError> {
        self.set(conn, "page_size", &PAGE_BYTES.to_string(), PAGE_BYTES)?;
        self.set(conn, "auto_vacuum", "INCREMENTAL", 2)?;
        self.set(conn, "application_id", &APPLICATION_ID.to_string(), APPLICATION_ID)
    }

    /// Sets the settings that the promises need, and reads each back.
    pub(super) fn settle(&self, conn: &Connection) -> Result<(), OpenError> {
        if self.vfs.is_some() {
            self.set_text(conn, "locking_mode", "exclusive")?;
            if self.pragma::<i64>(conn, "page_count")? == 0 {
                self.settle_new(conn)?;
            }
        }
        if conn.is_readonly("main").map_err(|error| self.sqlite(error))? {
            let denied = self.io(io::Error::from(io::ErrorKind::PermissionDenied));
            return if self.only_looks { Ok(()) } else { Err(denied) };
        }
        // With a mapped file, a full disk raises a signal. It should be an error.
        self.set(conn, "mmap_size", "0", 0).or_else(|error| match error {
            OpenError::Setting { found, .. } if found == "nothing" => Ok(()),
            other => Err(other),
        })?;
        self.set_text(conn, "journal_mode", "wal")?;
        self.set(conn, "synchronous", "FULL", 2)?;
        self.set(conn, "cache_size", &(-CACHE_KIB).to_string(), -CACHE_KIB)?;
        let pages = CHECKPOINT_PAGES.to_string();
        self.set(conn, "wal_autocheckpoint", &pages, CHECKPOINT_PAGES)?;
        self.set(conn, "journal_size_limit", &LOG_BYTES.to_string(), LOG_BYTES)?;
        if cfg!(target_vendor = "apple") {
            self.set(conn, "fullfsync", "ON", 1)?;
            self.set(conn, "checkpoint_fullfsync", "ON", 1)?;
        }
        Ok(())
    }

    fn set(
        &self,
        conn: &Connection,
        pragma: &'static str,
        value: &str,
        wanted: i64,
    ) -> Result<(), OpenError> {
        conn.execute_batch(&format!("PRAGMA {pragma} = {value}"))
            .map_err(|error| self.sqlite(error))?;
        let found: Option<i64> = match conn.pragma_query_value(None, pragma, |row| row.get(0)) {
            Ok(found) => Some(found),
            Err(rusqlite::Error::QueryReturnedNoRows) => None,
            Err(error) => return Err(self.sqlite(error)),
        };
        if found == Some(wanted) {
            return Ok(());
        }
        let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
        Err(OpenError::Setting { path: self.path.clone(), pragma, wanted: value.to_owned(), found })
    }

    pub(super) fn set_text(
        &self,
        conn: &Connection,
        pragma: &'static str,
        wanted: &str,
    ) -> Result<(), OpenError> {
        let set = format!("PRAGMA {pragma} = {wanted}");
        // The statement must run to its end: SQLite commits the setting only after it has returned the row.
        let answer = conn.prepare(&set).and_then(|mut set| {
            let mut rows = set.query([])?;
            let answer: String = match rows.next()? {
                Some(row) => row.get(0)?,
                None => return Err(rusqlite::Error::QueryReturnedNoRows),
            };
            while rows.next()?.is_some() {}
            Ok(answer)
        });
        let answer = answer.map_err(|error| self.sqlite(error))?;
        let found: String = self.pragma(conn, pragma)?;
        if answer.eq_ignore_ascii_case(wanted) && found.eq_ignore_ascii_case(wanted) {
            return Ok(());
        }
        let wanted = wanted.to_owned();
        Err(OpenError::Setting { path: self.path.clone(), pragma, wanted, found })
    }

    pub(super) fn pragma<T: rusqlite::types::FromSql>(
        &self,
        conn: &Connection,
        name: &str,
    ) -> Result<T, OpenError> {
        conn.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| self.sqlite(error))
    }
}
