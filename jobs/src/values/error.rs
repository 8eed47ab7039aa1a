//! The errors: what could not be opened, what the store could not do, and which insert was refused.
//!
//! A refused insert gives back what was handed in.

use core::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::id::JobId;
use super::job::EncodeError;
use super::schedule::ScheduleError;
pub use super::server_problem::ServerProblem;
use super::time::TimeError;

/// Why a store could not be opened, or jobs could not be started. A file that is refused is left
/// untouched.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The file could not be made, opened or read.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: Arc<std::io::Error>,
    },
    /// The file is not a store of jobs: no SQLite database, or that of another application.
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// The file was written by a later version, which this one must not touch.
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of the file's tables.
        version: i64,
        /// The latest version that this one knows.
        known: i64,
    },
    /// The file was written by an earlier version, whose tables this one does not read.
    Older {
        /// The file.
        path: PathBuf,
        /// The version of the file's tables.
        version: i64,
        /// The earliest version that this one knows.
        known: i64,
    },
    /// The file is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// Another process, or another `Jobs` of this one, runs the jobs of this file.
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The SQLite library is older than 3.51.3, which may lose commits (the WAL-reset race).
    OldSqlite {
        /// Its version, as SQLite writes it.
        found: String,
    },
    /// SQLite did not take a setting without which the promises do not hold: the file system cannot
    /// do what it needs, most often.
    Setting {
        /// The file.
        path: PathBuf,
        /// The pragma.
        pragma: &'static str,
        /// What was asked for.
        wanted: String,
        /// What SQLite says it is.
        found: String,
    },
    /// A choice made with the builder that makes no sense: which, and why.
    Config(String),
    /// Two handlers were given for one kind.
    SameKind(String),
    /// There is no handler, so no job could run. A process that only inserts is a
    /// [`client`](crate::Builder::client).
    NoHandlers,
    /// The Redis server cannot be used: which one, and why.
    Server {
        /// Its address.
        server: String,
        /// What is in the way.
        problem: ServerProblem,
    },
    /// The store failed while it was opened.
    Store(StoreError),
    /// The pool for the handlers could not be started.
    Threads(Arc<tickwheel::ConfigError>),
    /// The system refused the dispatcher's thread.
    Dispatcher(Arc<std::io::Error>),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            OpenError::Foreign { path, found } => {
                write!(f, "{} is no store of jobs: {found}", path.display())
            }
            OpenError::Newer { path, version, known } => write!(
                f,
                "{} has tables of version {version}, this program knows up to {known}",
                path.display()
            ),
            OpenError::Older { path, version, known } => write!(
                f,
                "{} has tables of version {version}, this program knows none before {known}",
                path.display()
            ),
            OpenError::Damaged { path, detail } => {
                write!(f, "{} is damaged: {detail}", path.display())
            }
            OpenError::InUse { path } => {
                write!(f, "the jobs of {} are run by someone else already", path.display())
            }
            OpenError::OldSqlite { found } => {
                write!(
                    f,
                    "SQLite {found} may lose commits: at least 3.51.3 is needed, and the feature \
                     `sqlite` of tickwheel-jobs builds one that is"
                )
            }
            OpenError::Setting { path, pragma, wanted, found } => {
                write!(f, "{}: SQLite set {pragma} to {found:?}, not to {wanted:?}", path.display())
            }
            OpenError::Server { server, problem } => write!(f, "{server}: {problem}"),
            OpenError::Config(reason) => f.write_str(reason),
            OpenError::SameKind(kind) => write!(f, "two handlers for the kind {kind:?}"),
            OpenError::NoHandlers => f.write_str("no handler: no job could run"),
            OpenError::Store(error) => write!(f, "the store could not be opened: {error}"),
            OpenError::Threads(error) => write!(f, "the threads could not be started: {error}"),
            OpenError::Dispatcher(error) => {
                write!(f, "the dispatcher's thread could not be started: {error}")
            }
        }
    }
}

impl OpenError {
    /// Returns what it means to a store that was open before.
    #[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            OpenError::Store(error) => error,
            other => StoreError::Io(other.to_string()),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { error, .. } => Some(&**error),
            OpenError::Store(error) => Some(error),
            OpenError::Threads(error) => Some(&**error),
            OpenError::Dispatcher(error) => Some(&**error),
            _ => None,
        }
    }
}

/// Why the store could not do what it was asked. Nothing has changed then, but where a variant says
/// otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The jobs were shut down, or dropped.
    Closed,
    /// The process was forked since the store was opened. SQLite does not survive that.
    Forked,
    /// Another process runs the jobs of the file since: the lock of the runner, a file beside it, was
    /// removed. Nothing is written here any more. Shut these jobs down, and start anew.
    Overtaken,
    /// The disk is full, or the memory that the server may use.
    Full,
    /// The time of the call was over before the store was free
    /// ([`Builder::call_timeout`](crate::Builder::call_timeout)): another transaction holds the write lock of the
    /// file, or calls before this one wait for a server that does not answer.
    ///
    /// If that transaction is open on the calling thread, the call waits for it in vain: use `insert_in`,
    /// or commit first. `insert_in` itself waits as long as the busy timeout of its connection says.
    Busy,
    /// The caller's transaction has read before it wrote, and another connection has written since, so
    /// SQLite refuses its writes (`SQLITE_BUSY_SNAPSHOT`). Roll it back, and begin it as `IMMEDIATE`.
    BusySnapshot,
    /// Reading or writing failed: what the system said.
    Io(String),
    /// The file is damaged: what SQLite said.
    Damaged(String),
    /// A name, key or payload is longer than the store takes; or a name or key is empty.
    TooLong {
        /// What is too long: "key", "name", "payload".
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The longest one that the store takes.
        most: usize,
    },
    /// A dead job was to be retried, and another job has its key. The job stays dead.
    KeyTaken {
        /// The key.
        key: String,
        /// The job that has it.
        by: JobId,
    },
    /// A time lies outside of what the store takes.
    Time(TimeError),
    /// A payload could not be made.
    Encode(EncodeError),
    /// A schedule makes no sense.
    Schedule(ScheduleError),
    /// It is not known whether the change took effect: the answer was lost.
    Unknown,
    /// The limit of a shutdown passed while this many runs were under way. Their jobs run again.
    StillRunning(usize),
    /// Of a batch, the first jobs are stored and the others are not.
    Incomplete {
        /// How many of them are stored.
        stored: usize,
        /// Why the others are not.
        error: Box<StoreError>,
    },
    /// Anything else that the store said.
    Other(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Closed => f.write_str("the jobs are shut down"),
            StoreError::Forked => f.write_str("the process was forked since the store was opened"),
            StoreError::Overtaken => {
                f.write_str("another process runs the jobs of this file by now")
            }
            StoreError::Full => f.write_str("the store is full"),
            StoreError::Busy => f.write_str(
                "the store was not free in time: another transaction holds the write lock of the \
                 file, or a server does not answer; if that transaction is the caller's own, \
                 insert in it with insert_in, or commit it first",
            ),
            StoreError::BusySnapshot => f.write_str(
                "the transaction has read before it wrote, and another connection has written \
                 since: roll it back, and begin it as IMMEDIATE",
            ),
            StoreError::Io(error) => write!(f, "the store could not read or write: {error}"),
            StoreError::Damaged(detail) => write!(f, "the store is damaged: {detail}"),
            StoreError::TooLong { what, bytes: 0, .. } => write!(f, "a {what} cannot be empty"),
            StoreError::TooLong { what, bytes, most } => {
                write!(f, "a {what} of {bytes} bytes is too long: the store takes {most}")
            }
            StoreError::KeyTaken { key, by } => {
                write!(f, "the job stays dead: its key {key:?} belongs to the job {by} now")
            }
            StoreError::Time(error) => error.fmt(f),
            StoreError::Encode(error) => error.fmt(f),
            StoreError::Schedule(error) => error.fmt(f),
            StoreError::Unknown => f.write_str("it is not known whether the change took effect"),
            StoreError::StillRunning(runs) => {
                write!(f, "the shutdown did not wait for {runs} runs that are under way")
            }
            StoreError::Incomplete { stored, error } => {
                write!(f, "only the first {stored} jobs are stored: {error}")
            }
            StoreError::Other(error) => write!(f, "the store failed: {error}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// Why an insert was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InsertErrorKind {
    /// The jobs were shut down, or dropped.
    Closed,
    /// The key has a pending job already, or one that runs and holds its key until its end
    /// ([`Until::Ended`](crate::Until::Ended)).
    Occupied,
    /// The time lies before 1970, or past the year 9999.
    Time(TimeError),
    /// The job does not encode.
    Encode(EncodeError),
    /// The store could not take it, and has nothing of it.
    Store(StoreError),
    /// The answer was lost: the job is in the store once, or not at all. To insert it again
    /// [under this id](crate::Client::insert_with_id) is safe. For a batch this is the first id.
    Unknown(JobId),
}

impl fmt::Display for InsertErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InsertErrorKind::Closed => f.write_str("the jobs are shut down"),
            InsertErrorKind::Occupied => f.write_str("another job has the key"),
            InsertErrorKind::Time(error) => error.fmt(f),
            InsertErrorKind::Encode(error) => error.fmt(f),
            InsertErrorKind::Store(error) => error.fmt(f),
            InsertErrorKind::Unknown(id) => {
                write!(f, "it is not known whether the job {id} was stored")
            }
        }
    }
}

impl std::error::Error for InsertErrorKind {}

impl From<StoreError> for InsertErrorKind {
    fn from(error: StoreError) -> InsertErrorKind {
        match error {
            StoreError::Closed => InsertErrorKind::Closed,
            StoreError::Time(error) => InsertErrorKind::Time(error),
            StoreError::Encode(error) => InsertErrorKind::Encode(error),
            other => InsertErrorKind::Store(other),
        }
    }
}

/// An insert that was refused. [`InsertError::into_inner`] returns what was handed in: the job, or
/// the batch. It is `Send` and `Sync` for every job, so `?` turns it into a boxed error.
pub struct InsertError<J> {
    kind: InsertErrorKind,
    /// Nobody locks it: the mutex makes the error `Sync` for every job that is `Send`. The box keeps the
    /// error small.
    job: Mutex<Box<J>>,
}

impl<J> InsertError<J> {
    pub(crate) fn new(kind: impl Into<InsertErrorKind>, job: J) -> InsertError<J> {
        InsertError { kind: kind.into(), job: Mutex::new(Box::new(job)) }
    }

    /// Returns why the insert was refused.
    pub fn kind(&self) -> &InsertErrorKind {
        &self.kind
    }

    /// Returns what was handed in.
    pub fn into_inner(self) -> J {
        *self.job.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> From<InsertError<J>> for InsertErrorKind {
    /// Drops the refused job, so that `?` works in a function that has no use for it.
    fn from(refused: InsertError<J>) -> InsertErrorKind {
        refused.kind
    }
}

impl<J> fmt::Debug for InsertError<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InsertError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<J> fmt::Display for InsertError<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the insert was refused: {}", self.kind)
    }
}

impl<J> std::error::Error for InsertError<J> {}

/// What [`check`](crate::Client::check) found wrong: the invariant that does not hold, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub(crate) String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

impl From<StoreError> for Violation {
    fn from(error: StoreError) -> Violation {
        Violation(format!("the store could not be read: {error}"))
    }
}
