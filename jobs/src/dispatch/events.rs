//! What the program learns beside the answers to its own calls: events of its jobs, and a report of each start and each
//! end of a run, for its function, the run's span and the counters.
//!
//! Ground rules:
//!
//! - The end of a run is reported after its start, and once. It may come while the start is being reported, on another
//!   thread: then the thread of the start reports the end as well.
//! - The function of the reports runs outside of every lock. A panic of it ends there.
//! - The span of a run, its link to the trace that inserted the job and its record of the end exist with the feature
//!   `tracing` only.

use core::cell::Cell;
use core::task::Waker;
use std::sync::Arc;

#[cfg(feature = "tracing")]
use tracing::field::{Empty, Value, display};

use super::metrics::Metrics;
#[cfg(feature = "tracing")]
use super::run_state::Over;
use super::run_state::RunState;
use super::spans::RunSpan;
#[cfg(feature = "tracing")]
use super::spans::{TARGET, Traces};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::panics::caught;
use crate::values::run_end::{Outcome, RunReport};
#[cfg(feature = "tracing")]
use crate::values::trace_context::TraceContext;

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
    /// A job has expired ([`NewJob::expires`](crate::NewJob::expires)), and does not start any more.
    Expired {
        /// The job.
        id: JobId,
        /// Its kind.
        kind: String,
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
        /// Which one: `schedule "nightly"`, `job` with its id, `row 3 of the outbox`, or a field or member with its
        /// key: `"x" in tw:{shop}:turn`.
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
    /// A schedule without overlap ([`Schedule::without_overlap`](crate::Schedule::without_overlap)) has skipped
    /// occurrences, because an earlier one has not ended.
    OccurrencesSkipped {
        /// The name of the schedule.
        schedule: String,
        /// The number of skipped occurrences.
        occurrences: usize,
        /// The occurrence that has not ended.
        by: JobId,
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
    caught(hook);
    IN_HOOK.set(outer);
}

/// Calls code of the user's, and catches its panic. `threaded`: on a dispatcher's thread.
pub(crate) fn call_user(threaded: bool, code: impl FnOnce()) {
    if threaded {
        call_hook(code);
    } else {
        caught(code);
    }
}

/// Calls wakers, which are code of the user's, and catches their panics. `threaded`: on a dispatcher's thread.
pub(crate) fn wake(wakers: Vec<Waker>, threaded: bool) {
    for waker in wakers {
        call_user(threaded, || waker.wake());
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
        Event::Died { .. } => Metrics::add(&metrics.died),
        Event::Expired { kind, .. } => {
            Metrics::add(&metrics.expired);
            metrics.kinds.expired(kind);
        }
        Event::CommitFailed { .. } => Metrics::add(&metrics.failed_commits),
        Event::LeaseLost { .. } => Metrics::add(&metrics.leases_lost),
        Event::Failed { .. }
        | Event::InsertsDropped { .. }
        | Event::OccurrencesSkipped { .. }
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
            Event::Expired { id, kind } => event!(
                target: TARGET, Level::WARN, job.id = %id, job.kind = kind,
                "a job has expired, and does not run"
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
            Event::OccurrencesSkipped { schedule, occurrences, by } => event!(
                target: TARGET, Level::INFO, schedule, occurrences, job.id = %by,
                "occurrences were skipped, because one of their schedule has not ended"
            ),
            Event::InsertsDropped { ids } => event!(
                target: TARGET, Level::ERROR, jobs = ids.len(), "buffered inserts are lost"
            ),
        }
    }
}

/// The function that the user gave.
pub(crate) type OnRun = Arc<dyn Fn(&RunReport) + Send + Sync>;

/// Reports the start of a run, on the thread that is about to call its handler. A program with spans reports it
/// without a function too, because the span is then there for the end.
pub(crate) fn report_start(run: &RunState, on_run: Option<&OnRun>) {
    if let Some(on_run) = on_run {
        call(on_run, &report(run), &run.span, false);
    }
    if run.start_was_reported() {
        call_with_end(run, on_run, false);
    }
}

/// Counts the end of a run, and reports it. `threaded`: on a dispatcher's thread.
pub(crate) fn report_end(
    run: &RunState,
    metrics: &Metrics,
    on_run: Option<&OnRun>,
    threaded: bool,
) {
    let Some(over) = run.over() else { return };
    metrics.kinds.ended(&run.kind, over.outcome, over.took);
    if run.may_end_without_handler() {
        // The end of its handler was not counted.
        Metrics::add(match over.outcome {
            Outcome::Completed => &metrics.completed,
            Outcome::Snoozed => &metrics.snoozed,
            _ => &metrics.failed,
        });
    }
    if is_reported(on_run) && run.end_is_due() {
        call_with_end(run, on_run, threaded);
    }
}

/// Says whether anything learns of the starts and ends of runs.
pub(crate) fn is_reported(on_run: Option<&OnRun>) -> bool {
    on_run.is_some() || RunSpan::EXISTS
}

fn call_with_end(run: &RunState, on_run: Option<&OnRun>, threaded: bool) {
    let Some(over) = run.over() else { return };
    if let Some(on_run) = on_run {
        let (outcome, error) = (Some(over.outcome), over.error.as_ref());
        let (took, error) = (Some(over.took), error.map(|error| error.text.clone()));
        call(on_run, &RunReport { took, outcome, error, ..report(run) }, &run.span, threaded);
    }
    #[cfg(feature = "tracing")]
    call_user(threaded, || end(run, over));
}

/// Returns the report of the start.
fn report(run: &RunState) -> RunReport {
    RunReport {
        id: run.id,
        kind: run.kind.to_string(),
        key: run.key.clone(),
        attempt: run.attempt,
        fence: run.fence,
        due: run.due.to_system(),
        late: run.late(),
        took: None,
        outcome: None,
        error: None,
    }
}

fn call(on_run: &OnRun, report: &RunReport, span: &RunSpan, threaded: bool) {
    call_user(threaded, || span.in_scope(|| on_run(report)));
}

#[cfg(feature = "tracing")]
impl Traces {
    /// Makes the span of a run that is about to start, and links it to the trace that inserted the job.
    pub(crate) fn start(&self, run: &RunState) {
        let span = caught(|| {
            tracing::info_span!(
                target: TARGET,
                // A run may come days after its insert: it is the root of a trace of its own.
                parent: None,
                "process",
                job.id = %run.id,
                job.kind = &*run.kind,
                queue = &*self.queue,
                attempt = run.attempt,
                fence = run.fence.get(),
                late_ms = u64::try_from(run.late().as_millis()).unwrap_or(u64::MAX),
                outcome = Empty,
                "otel.kind" = "consumer",
                "otel.name" = display(format_args!("process {}", run.kind)),
                "otel.status_code" = Empty,
                "error.type" = Empty,
            )
        });
        let Some(span) = span else { return };
        run.span.set(span);
        let Some(resume) = &self.resume else { return };
        if let Some(context) = run.extra.as_ref().and_then(|extra| TraceContext::of(&extra.headers))
        {
            run.span.hold().tell(|span| resume(span, context.text()));
        }
    }
}

#[cfg(feature = "tracing")]
/// Records how a run ended, and lets go of its span.
fn end(run: &RunState, over: &Over) {
    let ended = run.span.take();
    let record = |field: &str, value: &dyn Value| {
        ended.tell(|span| {
            span.record(field, value);
        });
    };
    record("outcome", &display(over.outcome));
    if let Some(error) = &over.error {
        record("error.type", &error.of_type.name());
        if over.outcome != Outcome::Cancelled {
            record("otel.status_code", &"ERROR");
        }
    }
}
