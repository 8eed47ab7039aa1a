//! The errors of this crate: of opening a store, of its operations, of inserts, and of a wait for the end of a job.
//!
//! The error of a refused insert returns the job, or the batch.

use core::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::group::GroupError;
use super::id::JobId;
use super::invalid_input::InvalidInput;

/// Why a Redis server cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerProblem {
    /// No connection, or no answer: the system's message.
    Unreachable(String),
    /// The server rejects the name or the password, or denies a right that the jobs need: its message.
    Denied(String),
    /// The program that answers is no Redis server: its answer.
    NotRedis(String),
    /// Its version is below 6.2.
    TooOld(String),
    /// It takes no writes, because it is a replica.
    ReadOnly,
    /// Its `maxmemory-policy` deletes keys when memory is full. It has to be `noeviction`.
    Evicts(String),
    /// Another version has laid out the keys of the queue in another way, so this version must not change them.
    Layout {
        /// The layout of the queue.
        found: String,
        /// The layout that this version knows.
        known: String,
    },
    /// Any other problem, for example no database of this number, or a server that is still loading: its
    /// message.
    Other(String),
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerProblem::Unreachable(error) => write!(f, "the server cannot be reached: {error}"),
            ServerProblem::Denied(error) => write!(f, "the server denies access: {error}"),
            ServerProblem::NotRedis(found) => write!(f, "no Redis server answers there: {found}"),
            ServerProblem::TooOld(version) => {
                write!(f, "Redis {version} is too old: at least 6.2 is needed")
            }
            ServerProblem::ReadOnly => f.write_str("the server is a replica, and takes no writes"),
            ServerProblem::Evicts(policy) => write!(
                f,
                "maxmemory-policy is {policy}, so the server deletes jobs when its memory is full: \
                 it has to be noeviction"
            ),
            ServerProblem::Layout { found, known } => write!(
                f,
                "the queue has the layout {found}, and this program knows the layout {known}"
            ),
            ServerProblem::Other(error) => f.write_str(error),
        }
    }
}

/// An invariant that does not hold, as [`check`](crate::Client::check) found it: which, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub(crate) String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// Why a store could not be opened, or jobs could not be started. A file that is refused is left untouched.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The file could not be made, opened or read.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: Arc<std::io::Error>,
    },
    /// The file is not a store of jobs: it is no SQLite database, or belongs to another application.
    Foreign {
        /// The file.
        path: PathBuf,
        /// A description of the file.
        found: String,
    },
    /// A later version wrote the file, so this version must not change it.
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of the file's tables.
        version: i64,
        /// The latest version that this crate knows.
        known: i64,
    },
    /// An earlier version wrote the file, and this version does not read its tables.
    Older {
        /// The file.
        path: PathBuf,
        /// The version of the file's tables.
        version: i64,
        /// The earliest version that this crate knows.
        known: i64,
    },
    /// The file is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// A description of the damage.
        detail: String,
    },
    /// Another process, or another `Jobs` of this one, runs the jobs of this file. Or the file was locked for too long.
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The SQLite library is older than 3.51.3, so it may lose commits (the WAL-reset race).
    OldSqlite {
        /// Its version, as SQLite writes it.
        found: String,
    },
    /// SQLite did not take a setting that the promises need. Most often the file system cannot do what it requires.
    Setting {
        /// The file.
        path: PathBuf,
        /// The pragma.
        pragma: &'static str,
        /// The wanted value.
        wanted: String,
        /// The value that SQLite reports.
        found: String,
    },
    /// A choice of the builder is not valid: the text names it and says why.
    Config(String),
    /// The store's URL begins with this scheme, which no store has. The error has no other part of the URL, because a
    /// password may stand there. The scheme is empty if the URL is malformed: even its beginning may be a password.
    UnknownScheme(String),
    /// The program was built without the feature of this crate that the store needs.
    FeatureIsOff {
        /// The scheme of the store's URL; `file` for a path too.
        scheme: String,
        /// The feature.
        feature: &'static str,
    },
    /// Two handlers were given for one kind.
    SameKind(String),
    /// There is no handler. A process that only inserts uses [`Builder::client`](crate::Builder::client).
    NoHandlers,
    /// The Redis server cannot be used.
    Server {
        /// Its address.
        server: String,
        /// The reason.
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
                write!(f, "{} is locked, or someone else runs its jobs", path.display())
            }
            OpenError::OldSqlite { found } => write!(
                f,
                "SQLite {found} may lose commits: at least 3.51.3 is needed, and the feature \
                 `sqlite` of tickwheel-jobs builds one that is"
            ),
            OpenError::Setting { path, pragma, wanted, found } => {
                write!(f, "{}: SQLite set {pragma} to {found:?}, not to {wanted:?}", path.display())
            }
            OpenError::Server { server, problem } => write!(f, "{server}: {problem}"),
            OpenError::Config(reason) => f.write_str(reason),
            OpenError::UnknownScheme(scheme) if scheme.is_empty() => f.write_str(
                "the store looks like a malformed URL (quotes, no scheme, or a password without one): a URL begins \
                 with `redis://`, for example, and a path that has such a name with `./`",
            ),
            OpenError::UnknownScheme(scheme) => write!(
                f,
                "no store has the scheme {scheme:?}: a store is a path, or a URL that begins with `file:`, `redis:`, \
                 `redis-cluster:`, `redis-sentinel:` or `unix:`"
            ),
            OpenError::FeatureIsOff { scheme, feature } => write!(
                f,
                "a store of the scheme {scheme:?} needs the feature `{feature}` of tickwheel-jobs"
            ),
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
    /// Returns the error for a store that was open before, and could not be opened again.
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

/// Why an operation of the store failed. The operation has changed nothing, unless the variant says otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The jobs were shut down, or dropped.
    Closed,
    /// This process is a fork of the one that opened the store. SQLite does not survive a fork.
    Forked,
    /// Another process runs the jobs of the file by now, because the lock of the runner, a file beside it, was
    /// removed. These jobs write nothing any more: shut them down, and start them again.
    Overtaken,
    /// The disk is full, or the server has used all the memory that it may use.
    Full,
    /// The call reached its limit ([`Builder::call_timeout`](crate::Builder::call_timeout)) before the store was
    /// free: another transaction holds the write lock of the file, or earlier calls wait for a silent server.
    ///
    /// If that transaction is open on the calling thread, the call waits for it in vain: use `insert_in`, or commit
    /// first. `insert_in` itself waits for the busy timeout of its connection.
    Busy,
    /// The caller's transaction has read before it wrote, and another connection has written since, so SQLite refuses
    /// its writes (`SQLITE_BUSY_SNAPSHOT`). Roll it back, and begin it as `IMMEDIATE`.
    BusySnapshot,
    /// Reading or writing failed: the system's message.
    Io(String),
    /// The file is damaged: SQLite's message.
    Damaged(String),
    /// A dead job cannot be retried, because another job has its key. The job stays dead.
    KeyTaken {
        /// The key.
        key: String,
        /// The job that has it.
        by: JobId,
    },
    /// An argument is not valid.
    Invalid(InvalidInput),
    /// A group was not inserted or changed.
    Group(GroupError),
    /// The queue has this many scopes with a limit, a hold or a paused partition, and takes no more.
    TooManyScopes(usize),
    /// The run has ended: in a transaction, because its handler has returned, or because it has overrun its time limit.
    /// So it takes no follow-up any more, and cannot end in a transaction.
    RunEnded,
    /// The run has lost its claim, so it cannot end in a transaction: another process runs the jobs of the file now, or
    /// a shutdown did not wait for the run.
    ClaimLost,
    /// No schedule has this name.
    NoSchedule(String),
    /// It is not known whether the change took effect: the answer was lost.
    Unknown,
    /// The limit of a shutdown passed while this many runs were under way. Their jobs run again.
    StillRunning(usize),
    /// The change was made to the first jobs of a batch and not to the others: the first jobs are stored, or cancelled.
    Incomplete {
        /// The number of these first jobs.
        done: usize,
        /// The error that stopped the batch. After [`StoreError::Unknown`] the next 256 jobs may be changed too.
        error: Box<StoreError>,
    },
    /// Any other error of the store: its message.
    Other(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Closed => f.write_str("the jobs are shut down"),
            StoreError::Forked => f.write_str("the process was forked since the store was opened"),
            StoreError::Overtaken => f.write_str("another process runs the jobs of this file now"),
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
            StoreError::KeyTaken { key, by } => {
                write!(f, "the job stays dead: its key {key:?} belongs to the job {by} now")
            }
            StoreError::Invalid(error) => error.fmt(f),
            StoreError::Group(error) => error.fmt(f),
            StoreError::TooManyScopes(scopes) => {
                write!(f, "{scopes} scopes of the queue have a limit, and no more may have one")
            }
            StoreError::RunEnded => f.write_str("the run has ended before"),
            StoreError::ClaimLost => f.write_str("the run has lost its claim"),
            StoreError::NoSchedule(name) => write!(f, "there is no schedule {name:?}"),
            StoreError::Unknown => f.write_str("it is not known whether the change took effect"),
            StoreError::StillRunning(runs) => {
                write!(f, "the shutdown did not wait for {runs} runs that are under way")
            }
            StoreError::Incomplete { done, error } => {
                write!(f, "the change was made to the first {done} jobs only: {error}")
            }
            StoreError::Other(error) => write!(f, "the store failed: {error}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<InvalidInput> for StoreError {
    fn from(error: InvalidInput) -> StoreError {
        StoreError::Invalid(error)
    }
}

/// Why an insert was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InsertErrorKind {
    /// The jobs were shut down, or dropped.
    Closed,
    /// The key has a pending job already, or one that runs and holds its key until its end
    /// ([`Until::Ended`](crate::Until::Ended)).
    Occupied,
    /// The job, its time or its key is not valid.
    Invalid(InvalidInput),
    /// The store refused the job and has stored nothing of it; of a batch, see [`StoreError::Incomplete`].
    Store(StoreError),
    /// The answer was lost: the job is in the store once, or not at all. To insert it again
    /// [under this id](crate::NewJob::id) is safe. Of a batch this is the first id of the part in doubt.
    Unknown(JobId),
}

impl fmt::Display for InsertErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InsertErrorKind::Closed => f.write_str("the jobs are shut down"),
            InsertErrorKind::Occupied => f.write_str("another job has the key"),
            InsertErrorKind::Invalid(error) => error.fmt(f),
            InsertErrorKind::Store(error) => error.fmt(f),
            InsertErrorKind::Unknown(id) => {
                write!(f, "it is not known whether the job {id} was stored")
            }
        }
    }
}

impl std::error::Error for InsertErrorKind {}

impl From<InvalidInput> for InsertErrorKind {
    fn from(error: InvalidInput) -> InsertErrorKind {
        InsertErrorKind::Invalid(error)
    }
}

impl From<StoreError> for InsertErrorKind {
    fn from(error: StoreError) -> InsertErrorKind {
        match error {
            StoreError::Closed => InsertErrorKind::Closed,
            StoreError::Invalid(error) => InsertErrorKind::Invalid(error),
            other => InsertErrorKind::Store(other),
        }
    }
}

/// An insert that was refused. [`InsertError::into_inner`] returns the job, or the batch. The error is `Send` and
/// `Sync` for every job, so `?` converts it to a boxed error.
pub struct InsertError<J> {
    kind: InsertErrorKind,
    /// Never locked: the mutex only makes the error `Sync` for every job that is `Send`. The box keeps the error
    /// small.
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

    /// Returns the refused job, or batch.
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

impl From<StoreError> for Violation {
    fn from(error: StoreError) -> Violation {
        Violation(format!("the store could not be read: {error}"))
    }
}

/// Why a wait for a job has no result: see [`Client::wait`](crate::Client::wait) and
/// [`Client::call`](crate::Client::call).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The job was not inserted.
    Insert(InsertErrorKind),
    /// The job is dead, with this error. It stays in the store.
    Dead(JobId, String),
    /// The job was cancelled.
    Cancelled(JobId),
    /// The job became too old to start, or to start again: see [`NewJob::expires`](crate::NewJob::expires).
    Expired(JobId),
    /// The job has ended and its end was not kept, or there was no such job.
    Gone(JobId),
    /// The limit is over. The job goes on.
    TimedOut(JobId),
    /// The job has completed, and its result is of another type.
    Result(JobId, String),
    /// The call or the wait came from a handler or a hook on the only thread that could run the job or move its clock,
    /// or from [`Run::next`](crate::Run::next). It would wait for itself. A call has inserted nothing.
    Refused,
    /// On a manual clock ([`Builder::manual`](crate::Builder::manual)): no driver has moved the clock for
    /// [`Builder::call_timeout`](crate::Builder::call_timeout) of real time. Or a driver has waited for a handler for a
    /// hundred times as long. The job goes on when the clock moves.
    ClockStands(JobId),
    /// The store could not be read. The job may go on.
    Store(StoreError),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Insert(error) => write!(f, "the job was not inserted: {error}"),
            CallError::Dead(id, error) => write!(f, "job {id} is dead: {error}"),
            CallError::Cancelled(id) => write!(f, "job {id} was cancelled"),
            CallError::Expired(id) => write!(f, "job {id} became too old to start"),
            CallError::Gone(id) => {
                write!(f, "job {id} has ended and was not kept, or never existed")
            }
            CallError::TimedOut(id) => write!(f, "job {id} has not ended within the limit"),
            CallError::Result(id, error) => write!(f, "the result of job {id}: {error}"),
            CallError::Refused => {
                f.write_str("a handler waited for a job that only its own thread could run")
            }
            CallError::ClockStands(id) => write!(
                f,
                "job {id} has not ended, and no driver moves the manual clock: call or wait on another thread"
            ),
            CallError::Store(error) => write!(f, "the store: {error}"),
        }
    }
}

impl std::error::Error for CallError {}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> CallError {
        CallError::Store(error)
    }
}
