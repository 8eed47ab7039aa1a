//! The connection, which is opened again after an error, and the transactions on it.
//!
//! Ground rules:
//!
//! - An error of reading or writing closes the connection. The next batch opens it again. A failed
//!   fsync is never tried again on the same descriptor.
//! - This process writes nothing to a file that is no longer under its name, and nothing after another
//!   process has started to run the jobs.

use std::time::Duration;

use rusqlite::Connection;

use super::rows::store_error;
use super::tables::Tables;
use super::{Sqlite, State};
use crate::store::ApplyError;
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// What a transaction may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    fn begin(self) -> &'static str {
        match self {
            Access::Read => "BEGIN",
            Access::Write => "BEGIN IMMEDIATE",
        }
    }
}

/// The shortest time between two comparisons of the file with its name.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);

impl Sqlite {
    /// Returns the connection, opened again if an error closed it.
    pub(super) fn connect(&mut self) -> Result<&Connection, StoreError> {
        if std::process::id() != self.pid {
            return Err(StoreError::Forked);
        }
        if self.state.overtaken {
            return Err(StoreError::Overtaken);
        }
        if self.removed {
            return Err(self.location.removed());
        }
        if self.conn.is_none() {
            if self.location.identity() != self.identity {
                return Err(self.location.removed());
            }
            let conn = self.location.reopen()?;
            self.log = None;
            self.state.forget_the_file();
            self.syncs = true;
            self.conn = Some(conn);
        }
        self.conn.as_ref().ok_or(StoreError::Closed)
    }

    /// Compares the file and the log under their names with those that were opened, at most once a second. A file or a log
    /// that was removed would go on taking commits, which no other process could read.
    pub(super) fn compare_file(&mut self, now: Millis) {
        if now.since(self.compared) >= COMPARE_INTERVAL || now < self.compared {
            self.compared = now;
            self.removed = !self.is_in_place();
        }
    }

    /// Says whether the file and the log are under their names. SQLite removes a log only with its last connection, so the
    /// log that this connection has found stays.
    pub(super) fn is_in_place(&mut self) -> bool {
        let log = self.location.identity_of_log();
        if self.conn.is_some() && self.log.is_none() {
            self.log = log;
        }
        let is_log_in_place = self.conn.is_none() || self.log == log;
        is_log_in_place && self.location.identity() == self.identity
    }

    /// Sets whether commits wait for the disk.
    fn set_synced(&mut self, synced: bool) -> Result<(), StoreError> {
        if self.syncs != synced {
            let level = if synced { "FULL" } else { "NORMAL" };
            let conn = self.connect()?;
            conn.pragma_update(None, "synchronous", level).map_err(store_error)?;
            self.syncs = synced;
        }
        Ok(())
    }

    /// Undoes the state after an error, and closes the connection if it can no longer be trusted.
    pub(super) fn after(&mut self, error: &StoreError) {
        self.state.undo();
        if matches!(error, StoreError::Io(_) | StoreError::Damaged(_))
            && let Some(conn) = self.conn.take()
        {
            drop(conn);
        }
    }

    /// Runs `body` in a transaction. One that only reads does not wait for writers. `body` also returns whether
    /// it changed anything.
    pub(super) fn transact<T>(
        &mut self,
        access: Access,
        synced: bool,
        body: impl FnOnce(Tables<'_>, &mut State) -> Result<(T, bool), StoreError>,
    ) -> Result<T, ApplyError> {
        self.connect()?;
        self.set_synced(synced)?;
        let Some(conn) = &self.conn else { return Err(StoreError::Closed.into()) };
        let tables = Tables { conn, sql: &self.sql };
        let begun = tables.execute(access.begin(), []);
        let done = begun.and_then(|_| {
            self.state.begin(tables)?;
            let (value, changed) = body(tables, &mut self.state)?;
            self.state.write_counts(tables)?;
            Ok((value, changed))
        });
        let (value, changed) = match done {
            Ok(done) => done,
            Err(error) => {
                // This fails if SQLite has rolled back by itself. Then nothing is left to do.
                let _ = tables.execute("ROLLBACK", []);
                self.after(&error);
                return Err(error.into());
            }
        };
        match tables.execute("COMMIT", []) {
            Ok(_) => {
                self.behind |= changed;
                self.stats.commits += u64::from(changed);
                self.stats.syncs += u64::from(changed && synced);
                self.state.accept();
                Ok(value)
            }
            Err(error) => {
                let _ = tables.execute("ROLLBACK", []);
                let unknown = matches!(error, StoreError::Io(_));
                self.after(&error);
                Err(ApplyError { error, unknown, again: false })
            }
        }
    }
}
