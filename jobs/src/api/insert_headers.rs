//! The headers of the jobs of an insert: those of the builder, of the client and of each job, and the context of
//! the trace.

use super::client::Client;
use crate::values::error::StoreError;
use crate::values::headers::{self, Headers};
#[cfg(feature = "tracing")]
use crate::values::trace_context::TraceContext;

/// The headers of every job of an insert.
pub(super) struct InsertHeaders {
    headers: Headers,
    #[cfg(feature = "tracing")]
    trace: Option<TraceContext<'static>>,
}

impl Client {
    /// Returns the headers of every job that this client inserts now, on the thread that inserts.
    pub(super) fn headers(&self) -> InsertHeaders {
        let mut headers =
            self.dispatcher.capture.as_ref().map(|capture| capture()).unwrap_or_default();
        let own = self.own_headers();
        headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        InsertHeaders {
            headers,
            #[cfg(feature = "tracing")]
            trace: self.dispatcher.traces.capture().map(TraceContext::new),
        }
    }
}

impl InsertHeaders {
    /// Returns all headers of a job that has these ones itself.
    pub(super) fn and(&self, own: &Headers) -> Result<Headers, StoreError> {
        let mut headers = self.headers.clone();
        headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        headers::check(&headers)?;
        #[cfg(feature = "tracing")]
        if let Some(trace) = &self.trace {
            trace.add_to(&mut headers);
        }
        Ok(headers)
    }
}
