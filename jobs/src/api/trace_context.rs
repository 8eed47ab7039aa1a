//! The builder's choice for traces: how an insert captures the context of a trace, and how a run resumes it.
//! Feature `tracing`.

use std::sync::Arc;

use tracing::Span;

use super::builder::Builder;

impl Builder {
    /// Sets how the jobs carry the context of a trace from their insert to their runs. With feature `tracing`.
    ///
    /// - **`capture`** is called on the thread that inserts, once for each call, also of a batch, and returns the
    ///   context of the current trace as text: a `traceparent`, and after a line break perhaps a `tracestate`. The
    ///   text travels in the job's headers of these two names. Nothing is captured if it returns `None`. A job that
    ///   has a header `traceparent` already, by [`NewJob::header`](crate::NewJob::header) for example, keeps it.
    ///   If the headers of the job leave no room for the text, it is left out.
    /// - **`resume`** is called at the start of each run of a job that has such headers, before its handler, with the
    ///   span of the run and the same text. It links the span to the context.
    ///
    /// A run may come days after its insert, so its span is the root of a trace of its own, with a link to the other
    /// trace. The headers are stored with the job, so the link survives a crash, and each retry has it. A handler
    /// that inserts a job captures the context of its own run.
    ///
    /// Every process sets this for itself: a [`client`](Builder::client) needs `capture` only, and its `resume` may
    /// do nothing. Occurrences of a schedule carry no context, because the dispatcher inserts them.
    ///
    /// A panic of either function is caught: the job is inserted without a context, or its run goes on without a
    /// link.
    ///
    /// The page `docs/traces.md` has the two functions for OpenTelemetry, and the spans and events of the feature.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Job, Jobs};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Push;
    /// impl Job for Push {
    ///     const KIND: &'static str = "push";
    /// }
    ///
    /// let (jobs, driver) = Jobs::memory()
    ///     .trace_context(
    ///         || Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
    ///         |span, context| println!("{span:?} was caused by {context}"),
    ///     )
    ///     .handle(|_: Push, _| Ok(()))
    ///     .manual()?;
    /// let id = jobs.insert(Duration::ZERO, Push)?;
    /// assert!(jobs.get(id)?.unwrap().headers["traceparent"].starts_with("00-0af7"));
    /// driver.advance(Duration::ZERO);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("opentelemetry", "otel", "traceparent", "propagation", "span"))]
    pub fn trace_context(
        self,
        capture: impl Fn() -> Option<String> + Send + Sync + 'static,
        resume: impl Fn(&Span, &str) + Send + Sync + 'static,
    ) -> Builder {
        Builder { trace_context: Some((Arc::new(capture), Arc::new(resume))), ..self }
    }
}
