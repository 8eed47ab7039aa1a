//! The handlers, by kind.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::run::Run;
use super::states::States;
use crate::store::NAME_BYTES;
use crate::values::error::OpenError;
use crate::values::fail::Fail;
use crate::values::job::DecodeError;
use crate::values::retry::Retry;

/// The result of a call of a handler.
pub(crate) enum Called {
    Ended(Result<(), Fail>),
    Undecodable(DecodeError),
    #[cfg(feature = "tokio")]
    Future(core::pin::Pin<Box<dyn Future<Output = Result<(), Fail>> + Send>>),
}

/// A handler, as a function of a payload and a run.
pub(crate) type Call = Box<dyn Fn(&[u8], Run) -> Called + Send + Sync>;

/// A handler, and the retry policy of its jobs.
pub(crate) struct Handler {
    pub(crate) call: Call,
    /// None: the policy of the builder.
    pub(crate) retry: Option<Retry>,
    /// The call returns at once, so it need not wait for a thread that other handlers hold.
    pub(crate) is_async: bool,
}

/// The handlers of a process.
#[derive(Default)]
pub(crate) struct Handlers {
    by_kind: HashMap<Arc<str>, Handler>,
    wrong: Option<OpenError>,
    /// The values that they share.
    pub(crate) states: States,
    /// The runtime of the handlers that are futures.
    #[cfg(feature = "tokio")]
    pub(crate) runtime: Option<tokio::runtime::Handle>,
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

    pub(crate) fn add_state<T: Send + Sync + 'static>(&mut self, value: T) {
        if !self.states.add(value) {
            let name = core::any::type_name::<T>();
            let reason = format!("state: there are two values of the type {name}");
            self.wrong.get_or_insert(OpenError::Config(reason));
        }
    }

    /// Returns the handlers, if all of them are valid. If no runtime was set, handlers that are futures get
    /// that of the caller.
    pub(crate) fn checked(mut self) -> Result<Handlers, OpenError> {
        if let Some(error) = self.wrong.take() {
            return Err(error);
        }
        if self.by_kind.is_empty() {
            return Err(OpenError::NoHandlers);
        }
        #[cfg(feature = "tokio")]
        if self.any_async() && self.runtime.is_none() {
            let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
                let reason = "handle_async: there is no tokio runtime here; start the jobs inside of one, \
                              or hand one in with Builder::runtime";
                OpenError::Config(reason.to_owned())
            })?;
            self.runtime = Some(runtime);
        }
        Ok(self)
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

    /// Returns the retry policy of each kind.
    pub(crate) fn policies(&self, default: Retry) -> HashMap<Arc<str>, Retry> {
        let policy = |(kind, handler): (&Arc<str>, &Handler)| {
            (Arc::clone(kind), handler.retry.unwrap_or(default))
        };
        self.by_kind.iter().map(policy).collect()
    }
}
