//! The connection, which is opened again after an error: the transactions on it, the waits for those of other
//! connections, and the files beside the database that it watches.
//!
//! Ground rules:
//!
//! - An error of reading or writing closes the connection. The next batch opens it again. A failed
//!   fsync is never tried again on the same descriptor.
//! - This process writes nothing to a file that is no longer under its name, and nothing after another
//!   process has started to run the jobs.

use std::cell::RefCell;
#[cfg(unix)]
use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::schema::store_error;
use super::tables::Tables;
use super::{Sqlite, State};
use crate::store::{ApplyError, Hurry};
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// The longest wait of a transaction for one of another connection, if no caller waits for an answer.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How many times a wait tries again after [`BUSY_EAGER_WAIT`]. Later it tries after [`BUSY_WAIT`].
const BUSY_EAGER_TRIES: i32 = 1_000;
const BUSY_EAGER_WAIT: Duration = Duration::from_micros(100);
const BUSY_WAIT: Duration = Duration::from_millis(1);
/// The longest wait of a question for the transaction of another connection.
const BRIEF_WAIT: Duration = Duration::from_millis(100);

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The identity of a file: its device and its inode number.
pub(super) type Identity = (u64, u64);

/// Returns the identity of a file, if it is there.
#[cfg(unix)]
pub(super) fn identity(file: io::Result<Metadata>) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    file.ok().map(|file| (file.dev(), file.ino()))
}

/// Returns one identity for all files, if the file is there: outside Unix this code cannot tell files apart.
#[cfg(not(unix))]
pub(super) fn identity(file: io::Result<Metadata>) -> Option<Identity> {
    file.ok().map(|_| (0, 0))
}

/// Puts the name of a new file on stable storage.
#[cfg(unix)]
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    // A file system that cannot sync a folder need not do so.
    match folder.sync_all() {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}

/// Does nothing: outside Unix a folder cannot be opened as a file, and the file system looks after names itself.
#[cfg(not(unix))]
pub(super) fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// How long a thread waits for transactions of other connections.
#[derive(Clone)]
struct Wait {
    /// When every wait ends.
    until: Option<Instant>,
    /// The longest time of one wait.
    longest: Duration,
    hurry: Hurry,
    /// When the present wait began.
    since: Option<Instant>,
}

impl Default for Wait {
    fn default() -> Wait {
        Wait { until: None, longest: LONGEST_WAIT, hurry: Hurry::default(), since: None }
    }
}

thread_local! {
    static WAIT: RefCell<Wait> = RefCell::default();
}

/// Runs `body`. Its waits for other connections end at `until`, each after `longest`, and all of them when
/// `hurry` says so. SQLite passes the busy handler only a count, so the limits stand in a thread local.
pub(super) fn waiting_until<T>(
    until: Option<Instant>,
    longest: Duration,
    hurry: &Hurry,
    body: impl FnOnce() -> T,
) -> T {
    let before = WAIT.replace(Wait { until, longest, hurry: hurry.clone(), since: None });
    let done = body();
    WAIT.set(before);
    done
}

/// Runs `body`. Each of its waits for other connections ends after [`BRIEF_WAIT`].
pub(super) fn waiting_briefly<T>(body: impl FnOnce() -> T) -> T {
    let Wait { until, hurry, .. } = WAIT.with_borrow(Clone::clone);
    waiting_until(until, BRIEF_WAIT, &hurry, body)
}

/// Sets whether a connection waits for the transactions of others. It takes `&mut` because later versions of
/// rusqlite require that.
pub(super) fn set_waiting(conn: &mut Connection, waits: bool) -> rusqlite::Result<()> {
    let handler: fn(i32) -> bool = wait_for_others;
    conn.busy_handler(waits.then_some(handler))
}

/// Returns the end of a call that begins now.
#[expect(clippy::disallowed_methods, reason = "a wait for other connections is one of real time")]
pub(super) fn from_now(call_timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(call_timeout)
}

/// Waits for a transaction of another connection. Returns `false` once the limits of [`waiting_until`] are
/// reached. SQLite's own handler sleeps for up to 100 ms at a time: a process that inserts in a loop takes the
/// lock many times meanwhile, and could block the process that runs the jobs for seconds.
#[expect(clippy::disallowed_methods, reason = "nobody tells the end of a foreign transaction")]
fn wait_for_others(tries: i32) -> bool {
    let now = Instant::now();
    let is_over = WAIT.with_borrow_mut(|wait| {
        let since = match wait.since {
            Some(since) if tries > 0 => since,
            _ => *wait.since.insert(now),
        };
        wait.until.is_some_and(|until| until <= now)
            || now.saturating_duration_since(since) >= wait.longest
            || wait.hurry.is_over(now)
    });
    if !is_over {
        std::thread::sleep(if tries < BUSY_EAGER_TRIES { BUSY_EAGER_WAIT } else { BUSY_WAIT });
    }
    !is_over
}

/// Whether a transaction only reads, or may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Read,
    Write,
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
            self.state.data_version = None;
            self.syncs = true;
            self.conn = Some(conn);
        }
        self.conn.as_ref().ok_or(StoreError::Closed)
    }

    /// Compares the file and the log under their names with those that were opened, at most once a second. A file or a
    /// log that was removed would go on taking commits, which no other process could read.
    pub(super) fn compare_file(&mut self, now: Millis) {
        if now.since(self.compared) >= COMPARE_INTERVAL || now < self.compared {
            self.compared = now;
            self.removed = !self.is_in_place();
        }
    }

    /// Says whether the file and the log are under their names. SQLite removes a log only with its last connection, so
    /// the log that this connection has found stays.
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
        if matches!(error, StoreError::Io(_) | StoreError::Damaged(_)) {
            self.conn = None;
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
        let mut is_committing = false;
        let begin = if access == Access::Write { "BEGIN IMMEDIATE" } else { "BEGIN" };
        let done = tables.execute(begin, []).and_then(|_| {
            self.state.begin(tables)?;
            let done = body(tables, &mut self.state)?;
            self.state.write_counts(tables)?;
            is_committing = true;
            tables.execute("COMMIT", []).map(|_| done)
        });
        match done {
            Ok((value, changed)) => {
                self.behind |= changed;
                self.stats.commits += u64::from(changed);
                self.stats.syncs += u64::from(changed && synced);
                self.state.accept();
                Ok(value)
            }
            Err(error) => {
                // This fails if SQLite has rolled back by itself. Then nothing is left to do.
                let _ = tables.execute("ROLLBACK", []);
                let unknown = is_committing && matches!(error, StoreError::Io(_));
                self.after(&error);
                Err(ApplyError { error, unknown, again: false })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch waits for a transaction of another connection until its callers stop waiting, and no longer.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the handler reads the clock")]
    fn wait_for_other_connections_ends_at_its_limit() {
        let now = Instant::now();
        assert!(wait_for_others(0));
        let (calm, hurry) = (Hurry::default(), Hurry::default());
        hurry.by(now);
        let later = Some(now + Duration::from_secs(3600));
        let hour = Duration::from_secs(3600);
        assert!(!waiting_until(Some(now), hour, &calm, || wait_for_others(0)));
        assert!(waiting_until(later, hour, &calm, || wait_for_others(0)));
        assert!(!waiting_until(later, hour, &hurry, || wait_for_others(0)));
        assert!(!waiting_until(later, Duration::ZERO, &calm, || wait_for_others(0)));
        assert!(wait_for_others(0), "the limit is the batch's alone");
    }
}
