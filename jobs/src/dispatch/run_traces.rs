//! The span of each run, from its start to its end, and the link to the trace that inserted the job. Feature
//! `tracing`.

use tracing::field::{Empty, Value, display};

use super::run_state::{Over, RunState};
use super::traces::{TARGET, Traces, caught};
use crate::values::run_end::Outcome;
use crate::values::trace_context::TraceContext;

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

/// Records how a run ended, and lets go of its span.
pub(super) fn end(run: &RunState, over: &Over) {
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
