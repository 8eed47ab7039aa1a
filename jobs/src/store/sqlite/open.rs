//! Opens, checks and makes a file: with its tables, its settings of SQLite, and the folder of a temporary one.
//!
//! Ground rules:
//!
//! - A foreign file is refused before anything is written to it: a connection that can only read
//!   inspects it. But first SQLite undoes a transaction that a dead process left half written.
//! - A file that is absent is made under another name, filled, put into WAL mode, synced, and then
//!   linked to its own name: at every instant there is no file, or a complete one. So an empty file
//!   was not made here, and is refused like any other damaged file.
//! - Only SQLite opens a descriptor of the file: to close another one would drop the locks of every
//!   connection of this process to the file.
//! - The log and the lock of the runner lie beside the file's real name. So there is one of each,
//!   whichever symbolic link leads to the file.
//! - A setting that a promise needs is set and read back.
//! - A temporary file has a folder of its own, which only this user of the system may open, and whose name cannot be
//!   guessed. It is removed when the last `Location` in it is dropped, since locks and log lie in it too.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use super::callers_transaction::EndedIn;
use super::connection::{
    Identity, LONGEST_WAIT, beside, from_now, identity, set_waiting, sync_folder, waiting_until,
};
use super::schema::{APPLICATION_ID, PAGE_BYTES, PART_INDEX, TABLES, Table, VERSION, store_error};
use super::sql::{FLUSH, Sql};
use super::tables::Tables;
use crate::store::Hurry;
use crate::values::error::{OpenError, StoreError};
use crate::values::id::JobId;

const HAS_TABLES: &str = "SELECT 1 FROM sqlite_schema WHERE name = '{p}meta'";

/// Where a store is, and how to open it.
#[derive(Clone)]
pub(crate) struct Location {
    /// The path as the caller gave it, for errors.
    pub(crate) path: PathBuf,
    /// The absolute path, without symbolic links once the file exists.
    pub(crate) file: PathBuf,
    /// The queue, if it is not the file's default one.
    pub(crate) queue: Option<String>,
    /// The name of a virtual file system, for tests. Only SQLite sees such a file: the operating system has
    /// no file for it, and one connection opens it at a time.
    pub(crate) vfs: Option<String>,
    /// Accept a file that this process may only read.
    pub(crate) only_looks: bool,
    /// The number that identifies the file, once it was opened.
    pub(super) number: Option<i64>,
    /// The longest wait for other connections.
    pub(crate) call_timeout: Duration,
    /// How long dead jobs, and ids that callers chose, are kept.
    pub(crate) keep_dead: Duration,
    /// Count what happens in each minute.
    pub(crate) history: bool,
    /// When the waits of opening and starting end.
    pub(super) start_until: Option<Instant>,
    /// The jobs that transactions of the caller have ended.
    pub(super) ended_in: Arc<EndedIn>,
    /// The folder of a temporary file, removed with its last user.
    _folder: Option<Arc<TemporaryFolder>>,
}

/// The oldest SQLite that loses no commit when two connections meet in a checkpoint.
const OLDEST_SQLITE: i32 = 3_051_003;
/// In a file of at most this many bytes the tables of the queue are checked when it is opened.
const CHECKED_BYTES: u64 = 8 << 20;
/// A path with this many symbolic links is refused, as Linux does.
const MOST_LINKS: usize = 40;

/// Refuses a version of SQLite that may lose commits.
fn refuse_old(number: i32, name: &str) -> Result<(), OpenError> {
    match number < OLDEST_SQLITE {
        true => Err(OpenError::OldSqlite { found: name.to_owned() }),
        false => Ok(()),
    }
}

/// The lock of the process that runs the jobs of a file.
pub(crate) struct RunnerLock {
    file: File,
    pid: u32,
}

impl Drop for RunnerLock {
    fn drop(&mut self) {
        // A child process of the program has a copy of the file until it executes its own program, and the copy would
        // hold the lock. But a child has to leave the lock to its parent.
        if self.pid == std::process::id() {
            let _ = self.file.unlock();
        }
    }
}

impl Location {
    pub(crate) fn new(path: PathBuf, vfs: Option<String>) -> Location {
        let file = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let file = if vfs.is_some() { path.clone() } else { file };
        Location {
            file,
            path,
            queue: None,
            vfs,
            only_looks: false,
            number: None,
            call_timeout: LONGEST_WAIT,
            keep_dead: Duration::MAX,
            history: true,
            start_until: None,
            ended_in: Arc::default(),
            _folder: None,
        }
    }

    /// Returns the location of a new temporary file, which is removed with its last user.
    pub(crate) fn temporary() -> Result<Location, OpenError> {
        let folder = Arc::new(TemporaryFolder::new()?);
        let location = Location::new(folder.path().join("jobs.db"), None);
        Ok(Location { _folder: Some(folder), ..location })
    }

    /// Opens the file, makes it if it is absent, and refuses it if it is foreign. From then on this
    /// location means the file by its real path: later changes of links or of the working directory have
    /// no effect.
    pub(crate) fn open(&mut self) -> Result<Connection, OpenError> {
        self.start_until = from_now(self.call_timeout);
        waiting_until(self.start_until, self.call_timeout, &Hurry::default(), || self.open_now())
    }

    fn open_now(&mut self) -> Result<Connection, OpenError> {
        refuse_old(rusqlite::version_number(), rusqlite::version())?;
        if self.vfs.is_none() {
            let found = fs::metadata(&self.file);
            if matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound) {
                self.file = follow(&self.file).map_err(|error| self.io(error))?;
                self.make()?;
            }
            self.file = self.file.canonicalize().map_err(|error| self.io(error))?;
            match found {
                Ok(file) if file.is_dir() => {
                    return Err(self.io(io::Error::from(io::ErrorKind::IsADirectory)));
                }
                Ok(file) => self.inspect(file.len())?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.io(error)),
            }
        }
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, self.vfs.is_some());
        let conn = self.connect(flags)?;
        // Before the first read, SQLite knows only what the operating system allows; then also what the header does.
        let is_read_only = || conn.is_readonly("main").map_err(|error| self.sqlite(error));
        let is_denied = is_read_only()?;
        self.settle(&conn)?;
        if !is_denied && is_read_only()? {
            return Err(self.damaged("its header says that only a later SQLite may write to it"));
        }
        self.prepare_tables(&conn)?;
        let sql = Sql::new(self.queue.as_deref());
        let number = Tables { conn: &conn, sql: &sql }.meta("file");
        self.number = number.map_err(|error| self.refine(error))?;
        Ok(conn)
    }

    /// Opens another connection to the file, without the checks.
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

    /// Moves the log to the file, and begins a new log. After a failed fsync, the operating system may
    /// mark pages as written that never reached the disk: the log reads well, but ends on the disk
    /// where the fsync failed. A commit behind that place would be lost too, so nothing may be appended
    /// to such a log. And its rest on the disk must not be read again, so a first commit to the new log
    /// reaches stable storage before anything else happens. Returns `false` if a connection that reads
    /// prevents it.
    pub(crate) fn renew_log(&self, conn: &mut Connection) -> Result<bool, OpenError> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        // This does not wait for a reader, which may take an hour.
        set_waiting(conn, false).map_err(|error| self.sqlite(error))?;
        let blocked: rusqlite::Result<bool> = conn.query_row(checkpoint, [], |row| row.get(0));
        set_waiting(conn, true).map_err(|error| self.sqlite(error))?;
        if blocked.map_err(|error| self.sqlite(error))? {
            return Ok(false);
        }
        let sql = Sql::new(self.queue.as_deref());
        let flushed = Tables { conn, sql: &sql }.execute(FLUSH, []);
        flushed.map(|_| true).map_err(|error| self.refine(error))
    }

    /// Takes the lock of the process that runs the jobs.
    pub(crate) fn lock_runner(&self) -> Result<Option<RunnerLock>, OpenError> {
        if self.vfs.is_some() {
            return Ok(None);
        }
        let suffix = match &self.queue {
            None => "-runner".to_owned(),
            Some(queue) => format!("-runner-{queue}"),
        };
        let path = beside(&self.file, &suffix);
        let failed = |error| OpenError::Io { path: path.clone(), error: Arc::new(error) };
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(&path);
            let file = file.map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(OpenError::InUse { path: self.path.clone() });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // If a process removed the file between the open and the lock, the lock is on a file without a
            // name, and excludes no other process: try again.
            if identity(file.metadata()) == identity(fs::metadata(&path)) {
                return Ok(Some(RunnerLock { file, pid: std::process::id() }));
            }
        }
    }

    /// Returns the identity of the file under the name, if there is one. A file that was removed and made
    /// again has another identity.
    pub(crate) fn identity(&self) -> Option<Identity> {
        match self.vfs {
            None => identity(fs::metadata(&self.file)),
            Some(_) => Some((0, 0)),
        }
    }

    /// Returns the identity of the log, if there is one.
    pub(super) fn identity_of_log(&self) -> Option<Identity> {
        match self.vfs {
            None => identity(fs::metadata(self.log())),
            Some(_) => None,
        }
    }

    /// Says whether a path leads to this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.identity().is_some_and(|ours| identity(fs::metadata(path)) == Some(ours))
            && path.canonicalize().is_ok_and(|path| path == self.file)
    }

    /// Returns the error for a file that is no longer under its name, or whose log is not.
    pub(crate) fn removed(&self) -> StoreError {
        let path = self.path.display();
        StoreError::Io(format!("{path} or its log was removed, or replaced, since it was opened"))
    }

    pub(crate) fn log(&self) -> PathBuf {
        beside(&self.file, "-wal")
    }

    pub(crate) fn wal_bytes(&self) -> u64 {
        fs::metadata(self.log()).map_or(0, |file| file.len())
    }

    /// Refuses a foreign or damaged file, through a connection that can only read.
    fn inspect(&self, bytes: u64) -> Result<(), OpenError> {
        // SQLite treats a file of one byte as empty, and would overwrite it.
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
        let damage = match bytes <= CHECKED_BYTES {
            true => tables.damage("quick_check").map_err(|error| self.refine(error))?,
            false => None,
        };
        damage.map_or(Ok(()), |report| Err(self.damaged(&report)))
    }

    /// Makes the file: complete, or not at all.
    fn make(&self) -> Result<(), OpenError> {
        // Processes in two containers may have the same process id, so the name is random.
        let n = RandomState::new().hash_one(std::process::id());
        let new = beside(&self.file, &format!("-new-{n:016x}"));
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        fs::metadata(folder).map_err(|error| self.io(error))?;
        let longest = fs::symlink_metadata(beside(&new, "-journal"));
        if let Err(error) = longest
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(self.io(error));
        }
        let remove = || {
            for suffix in ["", "-journal", "-wal", "-shm"] {
                let _ = fs::remove_file(beside(&new, suffix));
            }
        };
        let filled = Location { file: new.clone(), ..self.clone() }.fill();
        crate::values::hook::at("new file: before the link");
        let linked = filled.and_then(|()| match fs::hard_link(&new, &self.file) {
            Ok(()) => sync_folder(&self.file).map_err(|error| self.io(error)),
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(_) => fs::rename(&new, &self.file).map_err(|error| self.io(error)),
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
        // WAL mode comes last: the log is empty then, so the file alone is complete.
        self.set_text(&conn, "journal_mode", "wal")?;
        conn.close().map_err(|(_, error)| self.sqlite(error))
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection, OpenError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = match &self.vfs {
            None => Connection::open_with_flags(&self.file, flags),
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.file, flags, vfs.as_str()),
        };
        let mut conn = opened.map_err(|error| self.sqlite(error))?;
        set_waiting(&mut conn, true).map_err(|error| self.sqlite(error))?;
        conn.set_prepared_statement_cache_capacity(192);
        // Each value would otherwise be a reason to prepare a statement anew: the values of a `LIMIT` and of some
        // comparisons may change its plan. Ours do not depend on them.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .map_err(|error| self.sqlite(error))?;
        Ok(conn)
    }

    pub(super) fn io(&self, error: io::Error) -> OpenError {
        OpenError::Io { path: self.path.clone(), error: Arc::new(error) }
    }

    pub(super) fn damaged(&self, detail: &str) -> OpenError {
        OpenError::Damaged { path: self.path.clone(), detail: detail.to_owned() }
    }

    pub(super) fn sqlite(&self, error: rusqlite::Error) -> OpenError {
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) {
            let found = "no SQLite database".to_owned();
            return OpenError::Foreign { path: self.path.clone(), found };
        }
        self.refine(store_error(error))
    }

    pub(super) fn refine(&self, error: StoreError) -> OpenError {
        match error {
            StoreError::Damaged(detail) => self.damaged(&detail),
            StoreError::Busy => OpenError::InUse { path: self.path.clone() },
            StoreError::Io(error) => self.io(io::Error::other(error)),
            other => OpenError::Store(other),
        }
    }
}

/// Follows symbolic links, the last of which may lead to an absent file. Returns the path of that file.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            // The path is no link, or absent.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Says whether a process died in the middle of a transaction and left a rollback journal or an
/// unrecovered log. A connection that can only read cannot open such a file. One that may write can:
/// SQLite undoes the transaction then. An application's file that is not in WAL mode yet may be in this
/// state.
fn is_cut_off(conn: &Connection) -> bool {
    let read = conn.pragma_query_value(None, "schema_version", |_| Ok(()));
    let error = read.err().and_then(|error| error.sqlite_error().map(|error| error.extended_code));
    matches!(error, Some(ffi::SQLITE_READONLY_ROLLBACK | ffi::SQLITE_READONLY_RECOVERY))
}

/// A folder that is removed when this is dropped.
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes a folder where the system keeps temporary files.
    pub(crate) fn new() -> Result<TemporaryFolder, OpenError> {
        let path = std::env::temp_dir().join(format!("tickwheel-jobs-{}", JobId::new()));
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&path) {
            Ok(()) => Ok(TemporaryFolder(path)),
            Err(error) => Err(OpenError::Io { path, error: Arc::new(error) }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // If this fails, the system removes its old temporary files some day.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Location {
    /// Makes the tables of this queue if the file has none, and refuses those of a later version.
    pub(super) fn prepare_tables(&self, conn: &Connection) -> Result<(), OpenError> {
        let sql = Sql::new(self.queue.as_deref());
        let tables = Tables { conn, sql: &sql };
        if self.version(tables)?.is_some() {
            return Ok(());
        }
        let made = tables.execute("BEGIN IMMEDIATE", []).and_then(|_| {
            // Another process may have made them meanwhile.
            if !tables.has(HAS_TABLES, [])? {
                tables.make(TABLES)?;
            }
            crate::values::hook::at("schema: before the commit");
            tables.execute("COMMIT", []).map(drop)
        });
        made.map_err(|error| self.refine(error))
    }

    /// Refuses a file whose tables differ from those that this version makes: SQLite trusts the text of
    /// their definitions. A file without jobs of partitions has no index of them.
    fn compare_schema(&self, tables: Tables<'_>) -> Result<(), OpenError> {
        let found = tables.all(
            "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'index') \
             AND sql IS NOT NULL AND substr(name, 1, length('{p}')) = '{p}'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        );
        let found: HashMap<String, String> =
            found.map_err(|error| self.refine(error))?.into_iter().collect();
        for (name, made, is_optional) in tables.sql.definitions() {
            let found = found.get(&name);
            if found != Some(&made) && !(is_optional && found.is_none()) {
                return Err(self.damaged(&format!("{name} is not what version {VERSION} makes")));
            }
        }
        Ok(())
    }

    /// Returns the version of this queue's tables, or none if the file has none.
    pub(super) fn version(&self, tables: Tables<'_>) -> Result<Option<i64>, OpenError> {
        let refine = |error| self.refine(error);
        if !tables.has(HAS_TABLES, []).map_err(refine)? {
            return Ok(None);
        }
        let version = tables.meta("version").map_err(refine)?;
        match version {
            Some(VERSION) => self.compare_schema(tables).map(|()| version),
            Some(version) if version > VERSION => {
                Err(OpenError::Newer { path: self.path.clone(), version, known: VERSION })
            }
            Some(version) if (1..VERSION).contains(&version) => {
                Err(OpenError::Older { path: self.path.clone(), version, known: VERSION })
            }
            _ => Err(self.damaged(&format!("its tables have the version {version:?}"))),
        }
    }
}

impl Sql {
    /// Returns each table and each index: its name, the text that makes it, and whether a file may be without it.
    fn definitions(&self) -> impl Iterator<Item = (String, String, bool)> {
        [(TABLES, false), (PART_INDEX, true)].into_iter().flat_map(|(texts, is_optional)| {
            let texts = self.complete(texts, Table::Job);
            let texts = texts.split(';').map(str::trim).filter(|text| text.starts_with("CREATE"));
            let named = |text: &str| {
                let name = text.split_whitespace().nth(2).unwrap_or_default();
                (name.to_owned(), text.to_owned(), is_optional)
            };
            texts.map(named).collect::<Vec<_>>()
        })
    }
}

impl Tables<'_> {
    /// Returns what a check of SQLite's finds in the tables of the queue, if it finds anything. The tables of an
    /// application in the same file are not checked: they may need a collation or a function that this process does not
    /// know, or have rows that break a constraint.
    pub(super) fn damage(&self, check: &str) -> Result<Option<String>, StoreError> {
        if !self.has(HAS_TABLES, [])? {
            return Ok(None);
        }
        let definitions = self.sql.definitions();
        for (name, ..) in definitions.filter(|(_, made, _)| made.starts_with("CREATE TABLE")) {
            let check = format!("PRAGMA {check}('{name}')");
            let report: String =
                self.conn.query_row(&check, [], |row| row.get(0)).map_err(store_error)?;
            if report != "ok" {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// P76: Every SQLite before 3.51.3 is refused by its name, and no later one.
    #[test]
    fn sqlite_that_may_lose_commits_is_refused() {
        let refused = refuse_old(3_051_002, "3.51.2").unwrap_err();
        assert!(refused.to_string().contains("3.51.2"), "{refused}");
        assert!(matches!(refused, OpenError::OldSqlite { .. }));
        assert!(refuse_old(3_051_003, "3.51.3").is_ok());
    }
}
