//! What a program is told about its jobs, beside the answers to its own calls.

use crate::values::error::StoreError;
use crate::values::id::JobId;

/// Something that happened to jobs, as [`Builder::on_event`](crate::Builder::on_event) is told it,
/// after it is in the store. The function runs on the dispatcher's thread, so it must be short.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A run failed, and the job is tried again.
    Failed {
        /// The job.
        id: JobId,
        /// The name of its kind.
        kind: String,
        /// Why it failed.
        error: String,
    },
    /// A job is not tried again.
    Died {
        /// The job.
        id: JobId,
        /// The name of its kind.
        kind: String,
        /// Why it failed last.
        error: String,
    },
    /// A commit failed. What had an answer was refused with this error, and what runs had brought is
    /// tried again.
    CommitFailed {
        /// What the store said.
        error: StoreError,
    },
    /// Jobs that were inserted with [`Durability::Buffered`](crate::Durability::Buffered) are lost,
    /// because the store has failed for too long.
    Lost {
        /// The jobs.
        ids: Vec<JobId>,
    },
}

/// The function that the user gave.
pub(crate) type OnEvent = Box<dyn Fn(Event) + Send + Sync>;
