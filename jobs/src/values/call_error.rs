//! The error of a caller that waits for the end of a job.

use core::fmt;

use super::error::{InsertErrorKind, StoreError};
use super::id::JobId;

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
    /// The job has ended and its end was not kept, or there was no such job.
    Gone(JobId),
    /// The limit is over. The job goes on.
    TimedOut(JobId),
    /// The job has completed, and its result is of another type.
    Result(JobId, String),
    /// The call came from a handler on the only thread that could run the job, or from [`Run::next`](crate::Run::next),
    /// so it would wait for itself. Nothing was inserted.
    Refused,
    /// The store could not be read. The job may go on.
    Store(StoreError),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Insert(error) => write!(f, "the job was not inserted: {error}"),
            CallError::Dead(id, error) => write!(f, "job {id} is dead: {error}"),
            CallError::Cancelled(id) => write!(f, "job {id} was cancelled"),
            CallError::Gone(id) => {
                write!(f, "job {id} has ended and was not kept, or never existed")
            }
            CallError::TimedOut(id) => write!(f, "job {id} has not ended within the limit"),
            CallError::Result(id, error) => write!(f, "the result of job {id}: {error}"),
            CallError::Refused => {
                f.write_str("a handler called a job that only its own thread could run")
            }
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
