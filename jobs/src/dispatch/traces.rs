//! What inserts tell a trace: the context that they capture, and an event each. Feature `tracing`.
//!
//! Ground rules:
//!
//! - A closure of the program that panics harms nothing: the job is inserted without a context, and the run goes on
//!   without a link.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::{Level, Span};

use crate::values::id::JobId;

/// Returns the context of the current trace, as text. It is called on the thread that inserts.
pub(crate) type CaptureTrace = Arc<dyn Fn() -> Option<String> + Send + Sync>;
/// Links a run's span to the context.
pub(crate) type ResumeTrace = Arc<dyn Fn(&Span, &str) + Send + Sync>;

/// The target of every span and event of this crate.
pub(crate) const TARGET: &str = "tickwheel_jobs";
/// The name of the queue that has none.
const DEFAULT_QUEUE: &str = "default";

/// How the jobs of a queue are traced.
#[derive(Clone)]
pub(crate) struct Traces {
    pub(crate) queue: Arc<str>,
    capture: Option<CaptureTrace>,
    pub(super) resume: Option<ResumeTrace>,
}

impl Traces {
    pub(crate) fn new(queue: Option<&str>, context: Option<(CaptureTrace, ResumeTrace)>) -> Traces {
        let queue = queue.unwrap_or(DEFAULT_QUEUE).to_ascii_lowercase();
        let (capture, resume) = context.unzip();
        Traces { queue: queue.into(), capture, resume }
    }

    /// Returns the context of the current trace, if there is one.
    pub(crate) fn capture(&self) -> Option<String> {
        let capture = self.capture.as_ref()?;
        caught(|| capture()).flatten()
    }

    /// Notes that a job was inserted. It is stored, so a subscriber that panics must not unwind from here.
    pub(crate) fn inserted(&self, kind: &str, id: JobId, is_new: bool) {
        caught(|| {
            tracing::event!(
                target: TARGET,
                Level::TRACE,
                job.id = %id,
                job.kind = kind,
                queue = &*self.queue,
                is_new,
                "a job was inserted"
            );
        });
    }

    /// Notes that a batch of jobs was inserted.
    pub(crate) fn inserted_batch(&self, kind: &str, jobs: usize) {
        caught(|| {
            tracing::event!(
                target: TARGET,
                Level::TRACE,
                job.kind = kind,
                queue = &*self.queue,
                jobs,
                "jobs were inserted"
            );
        });
    }
}

/// Calls code of the user's, and catches its panic.
pub(super) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => Some(value),
        Err(panic) => {
            // The payload's drop may panic as well.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            None
        }
    }
}
