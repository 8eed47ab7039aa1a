//! The spans of runs and the events of inserts, which a subscriber of the crate `tracing` receives: nothing without the
//! feature `tracing`.
//!
//! Ground rules:
//!
//! - A run has its span from just before its start is reported until its end is reported. The handler holds the span
//!   too, so the span closes once both have ended.
//! - A subscriber is code of the user's. It is called outside of every lock, and each call of it is caught by itself: a
//!   panic in the drop of a span, while another panic unwinds, would end the process. So what is under the lock of a
//!   place is an `Arc`, and not the span.
//! - A closure of the program that panics harms nothing: the job is inserted without a context, and the run goes on
//!   without a link.

#[cfg(feature = "tracing")]
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
#[cfg(feature = "tracing")]
use std::sync::{Arc, Mutex};

#[cfg(feature = "tracing")]
use tracing::{Level, Span};

#[cfg(feature = "tracing")]
use crate::values::id::JobId;
#[cfg(feature = "tracing")]
use crate::values::panics::{caught, locked};

#[cfg(feature = "tracing")]
/// Returns the context of the current trace, as text. It is called on the thread that inserts.
pub(crate) type CaptureTrace = Arc<dyn Fn() -> Option<String> + Send + Sync>;
#[cfg(feature = "tracing")]
/// Links a run's span to the context.
pub(crate) type ResumeTrace = Arc<dyn Fn(&Span, &str) + Send + Sync>;

#[cfg(feature = "tracing")]
pub(crate) const TARGET: &str = "tickwheel_jobs";
#[cfg(feature = "tracing")]
const DEFAULT_QUEUE: &str = "default";

#[cfg(feature = "tracing")]
/// How the jobs of a queue are traced.
#[derive(Clone)]
pub(crate) struct Traces {
    pub(crate) queue: Arc<str>,
    capture: Option<CaptureTrace>,
    pub(super) resume: Option<ResumeTrace>,
}

#[cfg(feature = "tracing")]
impl Traces {
    pub(crate) fn new(queue: Option<&str>, context: Option<(CaptureTrace, ResumeTrace)>) -> Traces {
        let queue = queue.unwrap_or(DEFAULT_QUEUE).to_ascii_lowercase();
        let (capture, resume) = context.unzip();
        Traces { queue: queue.into(), capture, resume }
    }

    pub(crate) fn capture(&self) -> Option<String> {
        let capture = self.capture.as_ref()?;
        caught(|| capture()).flatten()
    }

    /// Notes that a job was inserted. It is stored, so a subscriber that panics must not unwind from here.
    pub(crate) fn inserted(&self, kind: &str, id: JobId, is_new: bool) {
        caught(|| {
            tracing::event!(
                target: TARGET, Level::TRACE, job.id = %id, job.kind = kind, queue = &*self.queue,
                is_new, "a job was inserted"
            );
        });
    }

    /// Notes that a batch of jobs was inserted.
    pub(crate) fn inserted_batch(&self, kind: &str, jobs: usize) {
        caught(|| {
            tracing::event!(
                target: TARGET, Level::TRACE, job.kind = kind, queue = &*self.queue, jobs,
                "jobs were inserted"
            );
        });
    }
}

/// The place of a run's span, which clones share. The default is the span of no run.
#[derive(Clone, Default)]
pub(crate) struct RunSpan {
    #[cfg(feature = "tracing")]
    place: Option<Arc<Mutex<HeldSpan>>>,
}

/// A run's span, which closes once every holder has dropped it. The default is no span.
#[derive(Clone, Default)]
pub(crate) struct HeldSpan {
    #[cfg(feature = "tracing")]
    span: Option<Arc<Span>>,
}

impl RunSpan {
    pub(crate) const EXISTS: bool = cfg!(feature = "tracing");

    /// Returns the place of the span of a run that has not started.
    pub(crate) fn empty() -> RunSpan {
        RunSpan {
            #[cfg(feature = "tracing")]
            place: Some(Arc::default()),
        }
    }

    /// Returns the span: none before the start of the run, and after its end.
    pub(crate) fn hold(&self) -> HeldSpan {
        #[cfg(feature = "tracing")]
        if let Some(place) = &self.place {
            return locked(place).clone();
        }
        HeldSpan::default()
    }

    pub(crate) fn in_scope<T>(&self, call: impl FnOnce() -> T) -> T {
        self.hold().in_scope(call)
    }
}

impl HeldSpan {
    /// Calls a function in the span. If the subscriber panics, the function is called all the same.
    pub(crate) fn in_scope<T>(&self, call: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        if let Some(span) = &self.span {
            let entered = caught(|| span.enter());
            let called = catch_unwind(AssertUnwindSafe(call));
            caught(|| drop(entered));
            return called.unwrap_or_else(|panic| resume_unwind(panic));
        }
        call()
    }
}

#[cfg(feature = "tracing")]
impl RunSpan {
    pub(crate) fn set(&self, span: Span) {
        drop(self.replace(HeldSpan { span: Some(Arc::new(span)) }));
    }

    pub(crate) fn take(&self) -> HeldSpan {
        self.replace(HeldSpan::default())
    }

    fn replace(&self, span: HeldSpan) -> HeldSpan {
        match &self.place {
            Some(place) => core::mem::replace(&mut *locked(place), span),
            None => HeldSpan::default(),
        }
    }
}

#[cfg(feature = "tracing")]
impl HeldSpan {
    /// Calls a function of the subscriber with the span: with a disabled one if there is none.
    pub(crate) fn tell(&self, call: impl FnOnce(&Span)) {
        caught(|| call(self.span.as_deref().unwrap_or(&Span::none())));
    }
}

#[cfg(feature = "tracing")]
impl Drop for HeldSpan {
    fn drop(&mut self) {
        let span = self.span.take();
        caught(|| drop(span));
    }
}
