//! The two functions of `Builder::trace_context` for OpenTelemetry, as `docs/traces.md` has them.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

pub fn capture() -> Option<String> {
    let mut headers = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut headers);
    headers.remove("traceparent")
}

pub fn resume(span: &Span, context: &str) {
    let headers = HashMap::from([("traceparent".to_owned(), context.to_owned())]);
    let cause = TraceContextPropagator::new().extract(&headers);
    span.add_link(cause.span().span_context().clone());
}
