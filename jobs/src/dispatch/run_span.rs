//! The span of a run, which a subscriber of the crate `tracing` receives: nothing without the feature `tracing`.
//!
//! Ground rules:
//!
//! - A run has its span from just before its start is reported until its end is reported. The handler holds the
//!   span too, so the span closes once both have ended.
//! - A subscriber is code of the user's: it is called where its panic is caught, and outside of every lock.
//!   Only a clone of a span is made under the lock of its place; subscribers count clones, and call no layer for them.

#[cfg(feature = "tracing")]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "tracing")]
use tracing::Span;

/// The place of a run's span, which clones share. The default is the span of no run.
#[derive(Clone, Default)]
pub(crate) struct RunSpan {
    #[cfg(feature = "tracing")]
    place: Option<Arc<Mutex<Option<Span>>>>,
}

impl RunSpan {
    /// Says whether this program has spans.
    pub(crate) const EXISTS: bool = cfg!(feature = "tracing");

    /// Returns the place of the span of a run that has not started.
    pub(crate) fn empty() -> RunSpan {
        RunSpan {
            #[cfg(feature = "tracing")]
            place: Some(Arc::default()),
        }
    }

    /// Calls a function in the span.
    pub(crate) fn in_scope<T>(&self, call: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        let _entered = self.get().entered();
        call()
    }

    /// Puts a future into the span: each poll of it, and its drop.
    #[cfg(feature = "tokio")]
    pub(crate) fn around<F: Future + Send + Unpin>(
        &self,
        future: F,
    ) -> impl Future<Output = F::Output> + Send + Unpin + use<F> {
        #[cfg(feature = "tracing")]
        let future = tracing::Instrument::instrument(future, self.get());
        future
    }
}

#[cfg(feature = "tracing")]
impl RunSpan {
    pub(crate) fn set(&self, span: Span) {
        self.replace(Some(span));
    }

    /// Returns the span: a disabled one before the start of the run, and after its end.
    pub(crate) fn get(&self) -> Span {
        let place = self.place.as_ref();
        let lock = place.map(|place| place.lock().unwrap_or_else(PoisonError::into_inner));
        lock.and_then(|span| span.clone()).unwrap_or_else(Span::none)
    }

    /// Takes the span, at the end of the run.
    pub(crate) fn take(&self) -> Span {
        self.replace(None).unwrap_or_else(Span::none)
    }

    fn replace(&self, span: Option<Span>) -> Option<Span> {
        let place = self.place.as_ref()?;
        core::mem::replace(&mut *place.lock().unwrap_or_else(PoisonError::into_inner), span)
    }
}
