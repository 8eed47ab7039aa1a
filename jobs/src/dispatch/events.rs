//! What a program is told about its jobs, beside the answers to its own calls.

use core::cell::Cell;
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::metrics::Metrics;
use crate::values::error::StoreError;
use crate::values::id::JobId;

/// Something that happened to jobs, as [`Builder::on_event`](crate::Builder::on_event) is told it,
/// after it is in the store. The function runs on the dispatcher's thread, so it must be short. It may
/// call [`nudge`](crate::Client::nudge) and [`stats`](crate::Client::stats), and drop or shut down any
/// jobs, for which it does not wait. Every other call is refused there with
/// [`StoreError::Other`]. A panic of it is caught.
///
/// On a manual clock ([`Builder::manual`](crate::Builder::manual)) there is no such thread: the function
/// runs on the thread that moves the clock or calls, and its own calls are made as any others.
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
    /// [call timeout](crate::Builder::call_timeout) is at its end.
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
    /// still. It was told ([`Run::is_cancelled`](crate::Run::is_cancelled)), its end is not recorded, and its job
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
    /// schedule, or a job. On a server such a job is set aside; on a file, and if it is a schedule, it
    /// stays where it is and is passed over. Everything else goes on. Told once in a
    /// process; if there are more than 1,024 such things, some are told again.
    Unreadable {
        /// Which one: `schedule "nightly"`, or `job` with its id.
        what: String,
        /// What is wrong with it.
        error: StoreError,
    },
    /// The jobs of this process have ended by themselves. No run starts any more, those under way were
    /// told ([`Run::is_cancelled`](crate::Run::is_cancelled)), and every call is refused with
    /// this error. Nothing is lost: another process, or the next start, runs the jobs.
    Stopped {
        /// Why.
        error: StoreError,
    },
    /// Jobs that were inserted with [`Durability::Buffered`](crate::Durability::Buffered) are lost,
    /// because the store has failed for too long, or because the jobs ended just when they came.
    InsertsDropped {
        /// The jobs.
        ids: Vec<JobId>,
    },
}

/// The function that the user gave.
pub(crate) type OnEvent = Box<dyn Fn(Event) + Send + Sync>;

thread_local! {
    /// A dispatcher's thread is in a function of the user's.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Says whether the calling thread is a dispatcher's, in a function of the user's. It must not wait for
/// jobs: not for its own, and not for others, whose dispatcher may be waiting for these.
pub(crate) fn is_in_hook() -> bool {
    IN_HOOK.get()
}

/// Calls a function of the user's on a dispatcher's thread. A panic of it goes no further.
pub(crate) fn call_hook(hook: impl FnOnce()) {
    let outer = IN_HOOK.replace(true);
    let _ = catch_unwind(AssertUnwindSafe(hook));
    IN_HOOK.set(outer);
}

/// Wakes the futures that wait for the end of a run ([`Run::cancelled`](crate::Run::cancelled)).
pub(crate) fn wake(wakers: Vec<Waker>, threaded: bool) {
    for waker in wakers {
        if threaded {
            call_hook(|| waker.wake());
        } else {
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

/// Counts the event, and calls the user's function with it. A panic of that goes no further.
pub(crate) fn emit(event: Event, metrics: &Metrics, on_event: Option<&OnEvent>, threaded: bool) {
    match &event {
        Event::Died { .. } => metrics.died(),
        Event::CommitFailed { .. } => metrics.commit_failed(),
        Event::Failed { .. }
        | Event::InsertsDropped { .. }
        | Event::LeaseLost { .. }
        | Event::Warning { .. }
        | Event::Unreadable { .. }
        | Event::Stopped { .. }
        | Event::LogGrows { .. } => {}
    }
    match on_event {
        Some(on_event) if threaded => call_hook(|| on_event(event)),
        Some(on_event) => drop(catch_unwind(AssertUnwindSafe(|| on_event(event)))),
        None => {}
    }
}
