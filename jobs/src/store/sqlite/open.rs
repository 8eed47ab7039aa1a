//! Opens, checks and makes a file.
//!
//! Ground rules:
//!
//! - A file that is not ours is refused before anything is written to it: it is looked at through a
//!   connection that can only read. But what a dead process has left half written is undone first.
//! - A file that is absent is made under another name, filled, put into WAL mode, synced, and then
//!   linked to its own: at every instant there is no file, or a complete one. So an empty file was
//!   not made here, and is refused like any other that is damaged.
//! - No descriptor of the file is opened but by SQLite: to close one would drop the locks of every
//!   connection of this process to it.
//! - A setting that a promise needs is set and read back.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags, ffi};

use super::files::{beside, sync_folder, wait_for_others};
use super::rows::store_error;
use super::schema::{APPLICATION_ID, PAGE_BYTES, Sql, VERSION};
use super::tables::Tables;
use crate::values::error::{OpenError, StoreError};

/// Where a store is, and how it is opened.
#[derive(Clone)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    /// The queue, if it is not the file's default one.
    pub(crate) queue: Option<String>,
    /// The name of a virtual file system, for tests. The file is then SQLite's alone: no file of the
    /// operating system's belongs to it, and one connection opens it at a time.
    pub(crate) vfs: Option<String>,
}

/// The oldest SQLite that loses no commit when two connections meet in a checkpoint.
const OLDEST_SQLITE: i32 = 3_051_003;
/// How much memory SQLite keeps pages in, in kibibytes.
const CACHE_KIB: i64 = 16 * 1024;
/// How many pages the log has before they are moved to the file.
const CHECKPOINT_PAGES: i64 = 4000;
/// To how many bytes an emptied log is cut.
const LOG_BYTES: i64 = 64 << 20;
/// A file of at most so many bytes is checked as a whole when it is opened.
const CHECKED_BYTES: u64 = 8 << 20;

impl Location {
    /// Opens the file, makes it if it is absent, and refuses it if it is not ours.
    pub(crate) fn open(&self) -> Result<Connection, OpenError> {
        let found = rusqlite::version_number();
        if found < OLDEST_SQLITE {
            return Err(OpenError::OldSqlite { found: rusqlite::version().to_owned() });
        }
        if self.vfs.is_none() {
            match fs::metadata(&self.path) {
                Ok(file) if file.is_dir() => {
                    return Err(self.io(io::Error::from(io::ErrorKind::IsADirectory)));
                }
                Ok(file) => self.inspect(file.len())?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.make()?,
                Err(error) => return Err(self.io(error)),
            }
        }
        let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | self.create_flag())?;
        self.settle(&conn)?;
        self.prepare_tables(&conn)?;
        Ok(conn)
    }

    /// Opens the file once more, as it was opened before.
    pub(crate) fn open_again(&self) -> Result<Connection, OpenError> {
        let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        self.settle(&conn)?;
        Ok(conn)
    }

    /// Opens the file again, after an error.
    pub(crate) fn reopen(&self) -> Result<Connection, StoreError> {
        let reopened = || {
            let mut conn = self.open_again()?;
            match self.renew_log(&mut conn)? {
                true => Ok(conn),
                false => Err(OpenError::Store(StoreError::Busy)),
            }
        };
        reopened().map_err(OpenError::into_store_error)
    }

    /// Moves the log to the file, and begins another one. After an fsync that failed, a system may
    /// take what it never wrote for written: the log reads well, and ends on the disk where the
    /// fsync failed. A commit behind that place would be lost with it, so nothing is appended to such
    /// a log; and what is left of it on the disk must not be read again, so the first commit of the
    /// new log is on stable storage before anything else happens. Returns `false` if a connection that
    /// reads is in the way.
    pub(crate) fn renew_log(&self, conn: &mut Connection) -> Result<bool, OpenError> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        // Not for a reader, which may sit for an hour.
        conn.busy_handler(None::<fn(i32) -> bool>).map_err(|error| self.sqlite(error))?;
        let blocked: rusqlite::Result<bool> = conn.query_row(checkpoint, [], |row| row.get(0));
        conn.busy_handler(Some(wait_for_others)).map_err(|error| self.sqlite(error))?;
        if blocked.map_err(|error| self.sqlite(error))? {
            return Ok(false);
        }
        let sql = Sql::new(self.queue.as_deref());
        let flushed = Tables { conn, sql: &sql }.execute(&sql.flush, []);
        flushed.map(|_| true).map_err(|error| self.refine(error))
    }

    /// Takes the lock of the process that runs the jobs.
    pub(crate) fn lock_runner(&self) -> Result<Option<File>, OpenError> {
        if self.vfs.is_some() {
            return Ok(None);
        }
        let suffix = match &self.queue {
            None => "-runner".to_owned(),
            Some(queue) => format!("-runner-{queue}"),
        };
        let path = beside(&self.path, &suffix);
        let failed = |error| OpenError::Io { path: path.clone(), error: Arc::new(error) };
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: self.path.clone() }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Returns the size of the log.
    pub(crate) fn wal_bytes(&self) -> u64 {
        fs::metadata(beside(&self.path, "-wal")).map_or(0, |file| file.len())
    }

    /// Refuses a file that is not ours, through a connection that can only read.
    fn inspect(&self, bytes: u64) -> Result<(), OpenError> {
        // SQLite takes a file of one byte for an empty one, and would begin anew.
        if bytes <= 1 {
            return Err(self.damaged("the file is empty"));
        }
        let mut conn = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if is_cut_off(&conn) {
            conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        }
        let application: i64 = self.pragma(&conn, "application_id")?;
        if application != 0 && application != APPLICATION_ID {
            let found = format!("an SQLite database with the application id {application:#x}");
            return Err(OpenError::Foreign { path: self.path.clone(), found });
        }
        let sql = Sql::new(self.queue.as_deref());
        let tables = Tables { conn: &conn, sql: &sql };
        self.version(tables)?;
        if bytes <= CHECKED_BYTES {
            let report: String = self.pragma(&conn, "quick_check")?;
            if report != "ok" {
                return Err(self.damaged(&report));
            }
        }
        Ok(())
    }

    /// Makes the file: complete, or not at all.
    fn make(&self) -> Result<(), OpenError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let new = beside(&self.path, &format!("-new-{}-{n}", std::process::id()));
        let remove = || {
            for suffix in ["", "-journal", "-wal", "-shm"] {
                let _ = fs::remove_file(beside(&new, suffix));
            }
        };
        remove();
        let filled = Location { path: new.clone(), ..self.clone() }.fill();
        let linked = filled.map_err(|error| match error {
            OpenError::Io { error, .. } => OpenError::Io { path: self.path.clone(), error },
            other => other,
        });
        crate::values::hook::at("new file: before the link");
        let linked = linked.and_then(|()| match fs::hard_link(&new, &self.path) {
            Ok(()) => sync_folder(&self.path).map_err(|error| self.io(error)),
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(_) => fs::rename(&new, &self.path).map_err(|error| self.io(error)),
        });
        crate::values::hook::at("new file: after the link");
        remove();
        linked
    }

    fn fill(&self) -> Result<(), OpenError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let conn = self.connect(flags)?;
        self.settle_new(&conn)?;
        self.prepare_tables(&conn)?;
        // Last: the log is empty then, so the file alone is complete.
        self.set_text(&conn, "journal_mode", "wal")?;
        conn.close().map_err(|(_, error)| self.sqlite(error))
    }

    /// The settings that only a file without tables takes.
    fn settle_new(&self, conn: &Connection) -> Result<(), OpenError> {
        self.set(conn, "page_size", &PAGE_BYTES.to_string(), PAGE_BYTES)?;
        self.set(conn, "auto_vacuum", "INCREMENTAL", 2)?;
        self.set(conn, "application_id", &APPLICATION_ID.to_string(), APPLICATION_ID)
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection, OpenError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = match &self.vfs {
            None => std::path::absolute(&self.path)
                .map_err(|error| self.io(error))
                .map(|path| Connection::open_with_flags(path, flags))?,
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs.as_str()),
        };
        let mut conn = opened.map_err(|error| self.sqlite(error))?;
        conn.busy_handler(Some(wait_for_others)).map_err(|error| self.sqlite(error))?;
        conn.set_prepared_statement_cache_capacity(128);
        Ok(conn)
    }

    fn create_flag(&self) -> OpenFlags {
        match self.vfs {
            None => OpenFlags::empty(),
            Some(_) => OpenFlags::SQLITE_OPEN_CREATE,
        }
    }

    /// Sets what the promises need, and reads it back.
    fn settle(&self, conn: &Connection) -> Result<(), OpenError> {
        if self.vfs.is_some() {
            self.set_text(conn, "locking_mode", "exclusive")?;
            if self.pragma::<i64>(conn, "page_count")? == 0 {
                self.settle_new(conn)?;
            }
        }
        let read_only = conn.is_readonly("main").map_err(|error| self.sqlite(error))?;
        if read_only {
            return Err(self.io(io::Error::from(io::ErrorKind::PermissionDenied)));
        }
        // A file that is mapped raises a signal where a full disk should be an error.
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

    /// Makes the tables of this queue if the file has none, and refuses those of a later version.
    fn prepare_tables(&self, conn: &Connection) -> Result<(), OpenError> {
        let sql = Sql::new(self.queue.as_deref());
        let tables = Tables { conn, sql: &sql };
        if self.version(tables)?.is_some() {
            return Ok(());
        }
        let made = tables.execute("BEGIN IMMEDIATE", []).and_then(|_| {
            // Another process may have made them since.
            let none = tables.one(&sql.has_tables, [], |row| row.get::<_, i64>(0))? == Some(0);
            if none {
                conn.execute_batch(&sql.tables).map_err(store_error)?;
            }
            crate::values::hook::at("schema: before the commit");
            tables.execute("COMMIT", []).map(drop)
        });
        made.map_err(|error| self.refine(error))
    }

    /// Refuses a file whose tables are not what this version makes: SQLite trusts their text.
    fn compare_schema(&self, tables: Tables<'_>) -> Result<(), OpenError> {
        let statements = tables.sql.tables.split(';').map(str::trim);
        for made in statements.filter(|text| text.starts_with("CREATE")) {
            let name = made.split_whitespace().nth(2).unwrap_or_default();
            let found = tables.one(&tables.sql.text_of, [name], |row| row.get::<_, String>(0));
            if found.map_err(|error| self.refine(error))?.as_deref() != Some(made) {
                return Err(self.damaged(&format!("{name} is not what version {VERSION} makes")));
            }
        }
        Ok(())
    }

    /// Returns the version of this queue's tables, or none if the file has none.
    fn version(&self, tables: Tables<'_>) -> Result<Option<i64>, OpenError> {
        let refine = |error| self.refine(error);
        let present = tables.one(&tables.sql.has_tables, [], |row| row.get::<_, i64>(0));
        if present.map_err(refine)? == Some(0) {
            return Ok(None);
        }
        let version = tables.one(&tables.sql.version, [], |row| row.get(0)).map_err(refine)?;
        match version {
            Some(VERSION) => self.compare_schema(tables).map(|()| version),
            Some(version) if version > VERSION => {
                Err(OpenError::Newer { path: self.path.clone(), version, known: VERSION })
            }
            _ => Err(self.damaged(&format!("its tables have the version {version:?}"))),
        }
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

    fn set_text(
        &self,
        conn: &Connection,
        pragma: &'static str,
        wanted: &str,
    ) -> Result<(), OpenError> {
        let set = format!("PRAGMA {pragma} = {wanted}");
        // To its end: what the setting writes is committed after its row was returned.
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

    fn pragma<T: rusqlite::types::FromSql>(
        &self,
        conn: &Connection,
        name: &str,
    ) -> Result<T, OpenError> {
        conn.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| self.sqlite(error))
    }

    fn io(&self, error: io::Error) -> OpenError {
        OpenError::Io { path: self.path.clone(), error: Arc::new(error) }
    }

    fn damaged(&self, detail: &str) -> OpenError {
        OpenError::Damaged { path: self.path.clone(), detail: detail.to_owned() }
    }

    fn sqlite(&self, error: rusqlite::Error) -> OpenError {
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) {
            let found = "no SQLite database".to_owned();
            return OpenError::Foreign { path: self.path.clone(), found };
        }
        self.refine(store_error(error))
    }

    fn refine(&self, error: StoreError) -> OpenError {
        match error {
            StoreError::Damaged(detail) => self.damaged(&detail),
            StoreError::Busy => OpenError::InUse { path: self.path.clone() },
            StoreError::Io(error) => self.io(io::Error::other(error)),
            other => OpenError::Store(other),
        }
    }
}

/// Says whether a process died in the middle of a transaction and left a rollback journal, so that
/// nobody can read the file before somebody has written to it. An application's file that is not in
/// WAL mode yet may be left so, and SQLite undoes such a transaction for any reader that may write.
fn is_cut_off(conn: &Connection) -> bool {
    let read = conn.pragma_query_value(None, "schema_version", |_| Ok(()));
    let error = read.err().and_then(|error| error.sqlite_error().map(|error| error.extended_code));
    matches!(error, Some(ffi::SQLITE_READONLY_ROLLBACK | ffi::SQLITE_READONLY_RECOVERY))
}
