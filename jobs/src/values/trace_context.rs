//! The context of a trace: its text, and the headers in which it travels with a job. Feature `tracing`.

use std::borrow::Cow;

use super::job::{self, Headers};

/// The headers of W3C's Trace Context.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// The context of a trace, as text: a line for `traceparent`, and perhaps one for `tracestate`.
pub(crate) struct TraceContext<'a>(Cow<'a, str>);

impl<'a> TraceContext<'a> {
    pub(crate) fn new(text: String) -> TraceContext<'a> {
        TraceContext(Cow::Owned(text))
    }

    /// Returns the context in which a job was inserted, if its headers have one.
    pub(crate) fn of(headers: &'a Headers) -> Option<TraceContext<'a>> {
        let parent = headers.get(PARENT)?;
        Some(TraceContext(match headers.get(STATE) {
            Some(state) => Cow::Owned(format!("{parent}\n{state}")),
            None => Cow::Borrowed(parent),
        }))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Adds the context to the headers of a job. A `traceparent` that they have already stays, and so do headers
    /// that leave no room: a trace is no reason to refuse a job.
    pub(crate) fn add_to(&self, headers: &mut Headers) {
        let (parent, state) = self.0.split_once('\n').unwrap_or((&self.0, ""));
        if parent.is_empty() || headers.contains_key(PARENT) {
            return;
        }
        let before = headers.clone();
        headers.insert(PARENT.to_owned(), parent.to_owned());
        if !state.is_empty() {
            headers.entry(STATE.to_owned()).or_insert_with(|| state.to_owned());
        }
        if job::check_headers(headers).is_err() {
            *headers = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty text is no context, and neither is a state without a parent.
    #[test]
    fn trace_context_has_a_parent() {
        let mut headers = Headers::new();
        for text in ["", "\nb=c"] {
            TraceContext::new(text.to_owned()).add_to(&mut headers);
        }
        assert_eq!(headers, Headers::new());
        headers.insert(STATE.to_owned(), "b=c".to_owned());
        assert!(TraceContext::of(&headers).is_none());
    }
}
