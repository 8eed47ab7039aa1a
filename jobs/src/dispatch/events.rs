//! What a program is told about its jobs, beside the answers to its own calls.

use core::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::metrics::Metrics;
use crate::values::error::StoreError;
use crate::values::id::JobId;

/// Something that happened to jobs, as [`Builder::on_event`](crate::Builder::on_event) is told it,
/// after it is in the store. The function runs on the dispatcher's thread, so it must be
/// short, and a question to the jobs is refused there. A panic of it is caught.
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
    /// tried again. On a server all of it is tried again, and told of each time, until a caller's
    /// [patience](crate::Builder::patience) is at its end.
    CommitFailed {
        /// What the store said.
        error: StoreError,
    },
    /// The store's log is large, because somebody who reads the file keeps it from being emptied.
    /// Told once, until it is small again.
    LogGrows {
        /// Its size, in bytes.
        bytes: u64,
    },
    /// A run has lost its lease, because the store was out of reach for too long or the process stood
    /// still. It was told ([`Run::is_lost`](crate::Run::is_lost)), its end is not recorded, and its job
    /// runs again, here or elsewhere.
    LeaseLost {
        /// The job.
        id: JobId,
    },
    /// Something about the store that its operator should know. Told once, at the start.
    Warning {
        /// What it is.
        text: String,
    },
    /// Something in the store cannot be read, because another version or another program wrote it: a
    /// schedule, or a job. It was set aside, and everything else goes on. Told once in a process.
    Unreadable {
        /// Which one: `schedule "nightly"`, or `job` with its id.
        what: String,
        /// What is wrong with it.
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

thread_local! {
    /// The dispatcher's thread is in the user's function.
    static IN_EVENT: Cell<bool> = const { Cell::new(false) };
}

/// Says whether the calling thread is the dispatcher's, which cannot wait for itself.
pub(crate) fn dispatcher_is_busy() -> bool {
    IN_EVENT.get()
}

/// Counts the event, and calls the user's function with it. A panic of that goes no further.
pub(crate) fn tell(event: Event, metrics: &Metrics, on_event: Option<&OnEvent>, threaded: bool) {
    match &event {
        Event::Died { .. } => metrics.died(),
        Event::CommitFailed { .. } => metrics.commit_failed(),
        Event::Failed { .. }
        | Event::Lost { .. }
        | Event::LeaseLost { .. }
        | Event::Warning { .. }
        | Event::Unreadable { .. }
        | Event::LogGrows { .. } => {}
    }
    if let Some(on_event) = on_event {
        IN_EVENT.set(threaded);
        let _ = catch_unwind(AssertUnwindSafe(|| on_event(event)));
        IN_EVENT.set(false);
    }
}
