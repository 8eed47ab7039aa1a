//! The handlers, by the name of their kind.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::run::Run;
use crate::store::words::NAME_BYTES;
use crate::values::error::OpenError;
use crate::values::job::DecodeError;
use crate::values::retry::{Fail, Retry};

/// What a call of a handler led to.
pub(crate) enum Called {
    Ended(Result<(), Fail>),
    Undecodable(DecodeError),
    #[cfg(feature = "tokio")]
    Future(
        tokio::runtime::Handle,
        core::pin::Pin<Box<dyn Future<Output = Result<(), Fail>> + Send>>,
    ),
}

/// From a payload and a run to what came of it.
pub(crate) type Call = Box<dyn Fn(&[u8], Run) -> Called + Send + Sync>;

/// A handler, and how its jobs are tried again.
pub(crate) struct Handler {
    pub(crate) call: Call,
    /// None: as the builder says for all.
    pub(crate) retry: Option<Retry>,
    /// The call returns at once, so it need not wait for a thread that other handlers hold.
    pub(crate) is_async: bool,
}

/// The handlers of a process.
#[derive(Default)]
pub(crate) struct Handlers {
    by_kind: HashMap<Arc<str>, Handler>,
    wrong: Option<OpenError>,
}

impl Handlers {
    pub(crate) fn add(&mut self, kind: &'static str, handler: Handler) {
        if kind.is_empty() || kind.len() > NAME_BYTES {
            let reason = format!("the name {kind:?} of a kind has not 1 to {NAME_BYTES} bytes");
            self.wrong.get_or_insert(OpenError::Config(reason));
        }
        if self.by_kind.insert(Arc::from(kind), handler).is_some() {
            self.wrong.get_or_insert(OpenError::SameKind(kind.to_owned()));
        }
    }

    /// Returns the handlers, if all of them make sense.
    pub(crate) fn checked(self) -> Result<Handlers, OpenError> {
        match self.wrong {
            Some(error) => Err(error),
            None if self.by_kind.is_empty() => Err(OpenError::NoHandlers),
            None => Ok(self),
        }
    }

    pub(crate) fn get(&self, kind: &str) -> Option<&Handler> {
        self.by_kind.get(kind)
    }

    pub(crate) fn kinds(&self) -> Vec<Arc<str>> {
        let mut kinds: Vec<Arc<str>> = self.by_kind.keys().cloned().collect();
        kinds.sort_unstable();
        kinds
    }

    pub(crate) fn any_async(&self) -> bool {
        self.by_kind.values().any(|handler| handler.is_async)
    }

    /// Returns the kinds whose handlers take no thread.
    pub(crate) fn async_kinds(&self) -> HashSet<Arc<str>> {
        let is_async = |(_, handler): &(&Arc<str>, &Handler)| handler.is_async;
        self.by_kind.iter().filter(is_async).map(|(kind, _)| Arc::clone(kind)).collect()
    }

    /// Returns how jobs of each kind are tried again.
    pub(crate) fn policies(&self, default: Retry) -> HashMap<Arc<str>, Retry> {
        let policy = |(kind, handler): (&Arc<str>, &Handler)| {
            (Arc::clone(kind), handler.retry.unwrap_or(default))
        };
        self.by_kind.iter().map(policy).collect()
    }
}
