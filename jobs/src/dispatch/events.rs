//! Events: what the program learns about its jobs, beside the answers to its own calls.

use core::cell::Cell;
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::metrics::Metrics;
use super::run_span::RunSpan;
use crate::values::error::StoreError;
use crate::values::id::JobId;

/// An event of the jobs. The function of [`Builder::on_event`](crate::Builder::on_event) receives it after the
/// commit. The function runs on the dispatcher's thread, or on a thread that calls a
/// [`Builder::client`](crate::Builder::client), so it must be short. It may call
/// [`nudge`](crate::Client::nudge) and [`stats`](crate::Client::stats), and may drop or shut down any jobs,
/// without waiting for them. Every other call that asks the store is refused there, with [`StoreError::Other`]
/// (`wait`, `call` and `check` with their own types of error). A panic of the function is
/// caught.
///
/// On a manual clock ([`Builder::manual`](crate::Builder::manual)) there is no such thread: the function runs
/// on the thread that moves the clock or makes a call, and may make any call itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A run failed, and the job is retried.
    Failed {
        /// The job.
        id: JobId,
        /// Its kind.
        kind: String,
        /// The error.
        error: String,
    },
    /// A job has failed and is dead: it is not retried. A job that is dead because its process ended five times causes
    /// no event: [`Client::count`](crate::Client::count) counts it.
    Died {
        /// The job.
        id: JobId,
        /// Its kind.
        kind: String,
        /// The error of its last failure.
        error: String,
    },
    /// A commit failed. Calls that wait for an answer return this error, and the ends of runs are committed
    /// again later. On a server the whole commit is sent again, with an event each time; a call returns the
    /// error once its [call timeout](crate::Builder::call_timeout) is over.
    CommitFailed {
        /// The store's error.
        error: StoreError,
    },
    /// The store's log is larger than 256 MiB, because a reader of the file keeps it from being emptied.
    /// Emitted within a second or so, and again only after the log was small.
    LogGrows {
        /// Its size, in bytes.
        bytes: u64,
    },
    /// A run has lost its lease, because the store was out of reach for too long or the process stood still.
    /// The run is cancelled ([`Run::is_cancelled`](crate::Run::is_cancelled)), its end is not recorded, and its
    /// job runs again, in this process or in another.
    LeaseLost {
        /// The job.
        id: JobId,
    },
    /// A warning about the store, for its operator. Emitted once, at the start.
    Warning {
        /// The warning.
        text: String,
    },
    /// Something in the store cannot be read, because another version or another program wrote it: a schedule,
    /// a job, a job that a statement left, or any value on a server. On a server it is set aside. On a file it stays
    /// where it is and is skipped, and so is a schedule in any store. Everything else goes on. Emitted once in
    /// a process for each; if there are more than 1,024 of them, some are emitted again.
    Unreadable {
        /// Which one: `schedule "nightly"`, `job` with its id, `row 3 of the outbox`, or a field or member with its key:
        /// `"x" in tw:{shop}:turn`.
        what: String,
        /// The error.
        error: StoreError,
    },
    /// The jobs of this process have stopped by themselves. No run starts any more, the runs under way are
    /// cancelled ([`Run::is_cancelled`](crate::Run::is_cancelled)), and every call returns this error. Nothing
    /// is lost: another process, or the next start, runs the jobs.
    Stopped {
        /// The reason.
        error: StoreError,
    },
    /// Jobs that were inserted with [`Durability::Buffered`](crate::Durability::Buffered) are lost, because the
    /// store failed for too long, because a server had no memory for them, or because they came just as the jobs
    /// ended.
    InsertsDropped {
        /// The jobs.
        ids: Vec<JobId>,
    },
}

/// The function that the user gave.
pub(crate) type OnEvent = Box<dyn Fn(Event) + Send + Sync>;

thread_local! {
    /// Whether this thread is a dispatcher's that is in a function of the user's.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Says whether the calling thread is a dispatcher's, in a function of the user's. Such a thread must not wait
/// for its own jobs, nor for other jobs, whose dispatcher may be waiting for these.
pub(crate) fn is_in_hook() -> bool {
    IN_HOOK.get()
}

/// Calls a function of the user's on a dispatcher's thread. Catches its panic.
pub(crate) fn call_hook(hook: impl FnOnce()) {
    let outer = IN_HOOK.replace(true);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(hook)) {
        // The payload's drop may panic as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    }
    IN_HOOK.set(outer);
}

/// Calls code of the user's, and catches its panic. `threaded`: on a dispatcher's thread.
pub(crate) fn call_user(threaded: bool, code: impl FnOnce()) {
    if threaded {
        call_hook(code);
    } else if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        // The payload's drop may panic as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    }
}

/// Calls wakers, which are code of the user's, and catches their panics. `threaded`: on a dispatcher's thread.
pub(crate) fn wake(wakers: Vec<Waker>, threaded: bool) {
    for waker in wakers {
        if threaded {
            call_hook(|| waker.wake());
        } else {
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

/// Emits an event that belongs to no run: see [`emit_of_run`].
pub(crate) fn emit(event: Event, metrics: &Metrics, on_event: Option<&OnEvent>, threaded: bool) {
    emit_of_run(&RunSpan::default(), event, metrics, on_event, threaded);
}

/// Counts the event, traces it, and calls the user's function with it. Catches its panic. `threaded`: on a
/// dispatcher's thread.
pub(crate) fn emit_of_run(
    _span: &RunSpan,
    event: Event,
    metrics: &Metrics,
    on_event: Option<&OnEvent>,
    threaded: bool,
) {
    match &event {
        Event::Died { .. } => metrics.died(),
        Event::CommitFailed { .. } => metrics.commit_failed(),
        Event::LeaseLost { .. } => metrics.lease_lost(),
        Event::Failed { .. }
        | Event::InsertsDropped { .. }
        | Event::Warning { .. }
        | Event::Unreadable { .. }
        | Event::Stopped { .. }
        | Event::LogGrows { .. } => {}
    }
    #[cfg(feature = "tracing")]
    call_user(threaded, || _span.hold().tell(|span| event.trace(span)));
    if let Some(on_event) = on_event {
        call_user(threaded, || on_event(event));
    }
}

#[cfg(feature = "tracing")]
impl Event {
    /// Hands the event to the program's subscriber, as one of this span.
    fn trace(&self, span: &tracing::Span) {
        use super::traces::TARGET;
        use tracing::{Level, event};
        match self {
            Event::Failed { id, kind, error } => event!(
                target: TARGET, parent: span, Level::INFO, job.id = %id, job.kind = kind, error,
                "a run failed, and its job is retried"
            ),
            Event::Died { id, kind, error } => event!(
                target: TARGET, parent: span, Level::ERROR, job.id = %id, job.kind = kind, error,
                "a job is dead"
            ),
            Event::LeaseLost { id } => event!(
                target: TARGET, parent: span, Level::WARN, job.id = %id,
                "a run has lost its lease, and its job runs again"
            ),
            Event::CommitFailed { error } => {
                event!(target: TARGET, Level::WARN, %error, "a commit failed");
            }
            Event::LogGrows { bytes } => {
                event!(target: TARGET, Level::WARN, bytes, "the store's log grows");
            }
            Event::Warning { text } => event!(target: TARGET, Level::WARN, "{text}"),
            Event::Unreadable { what, error } => event!(
                target: TARGET, Level::WARN, what, %error, "something in the store cannot be read"
            ),
            Event::Stopped { error } => {
                event!(target: TARGET, Level::ERROR, %error, "the jobs have stopped");
            }
            Event::InsertsDropped { ids } => event!(
                target: TARGET, Level::ERROR, jobs = ids.len(), "buffered inserts are lost"
            ),
        }
    }
}
