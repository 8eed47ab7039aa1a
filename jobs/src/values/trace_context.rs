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

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn added(text: &str, to: &[(&str, &str)]) -> Headers {
        let mut headers = headers(to);
        TraceContext::new(text.to_owned()).add_to(&mut headers);
        headers
    }

    /// A context is read back from the headers as it was captured, with and without a state.
    #[test]
    fn trace_context_travels_in_two_headers() {
        assert_eq!(added("00-a", &[]), headers(&[(PARENT, "00-a")]));
        assert_eq!(added("00-a\nb=c", &[]), headers(&[(PARENT, "00-a"), (STATE, "b=c")]));
        for text in ["00-a", "00-a\nb=c"] {
            assert_eq!(TraceContext::of(&added(text, &[])).unwrap().text(), text);
        }
        assert!(TraceContext::of(&headers(&[(STATE, "b=c")])).is_none());
    }

    /// A job's own `traceparent` stays as it is, an empty text is no context, and a context without room is left out.
    #[test]
    fn trace_context_yields_to_the_headers_of_a_job() {
        let own = [(PARENT, "00-own")];
        assert_eq!(added("00-a\nb=c", &own), headers(&own));
        assert_eq!(added("", &own[..0]), Headers::new());
        assert_eq!(added("\nb=c", &own[..0]), Headers::new());
        let large = "x".repeat(job::HEADER_BYTES - 20);
        let full = [("other", &*large)];
        assert_eq!(added("00-a", &full), headers(&full));
    }
}
