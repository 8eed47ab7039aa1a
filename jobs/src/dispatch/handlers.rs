//! The handlers, by kind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use super::middleware::Middleware;
#[cfg(feature = "tokio")]
use super::middleware::RunFuture;
use super::run::{Run, States};
use crate::store::NAME_BYTES;
use crate::values::error::OpenError;
use crate::values::fail_and_retry::{Fail, Retry};
use crate::values::invalid_input::InvalidInput;
use crate::values::job::Job;

pub(crate) enum Called {
    Ended(Result<(), Fail>),
    Undecodable(String),
    #[cfg(feature = "tokio")]
    Future(RunFuture),
}

/// A handler, as a function of payloads and runs.
pub(crate) enum HandlerCall {
    One(CallOne),
    Batch(BatchSize, BatchCall),
}

/// A handler of single jobs.
pub(crate) type CallOne = Box<dyn Fn(&[u8], Run, &Middleware) -> Called + Send + Sync>;

/// A handler of batches. It notes the jobs that it could not decode.
pub(crate) type BatchCall =
    Box<dyn Fn(Undecoded, &mut Vec<NotDecoded>, &Middleware) -> Called + Send + Sync>;

/// The payloads and runs of a batch.
pub(crate) type Undecoded = Vec<(Vec<u8>, Run)>;

/// A job of a batch whose payload did not decode, and why.
pub(crate) struct NotDecoded {
    pub(crate) run: Run,
    /// The error, or the panic of the function that decodes.
    pub(crate) why: std::thread::Result<String>,
}

/// How many jobs a batch has, and how long its first job waits for the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSize {
    pub(crate) most: usize,
    pub(crate) wait: Duration,
}

impl HandlerCall {
    /// Decodes the job of each call.
    pub(crate) fn one<J: Job>(
        handler: impl Fn((J, Run), &Middleware) -> Called + Send + Sync + 'static,
    ) -> HandlerCall {
        HandlerCall::One(Box::new(move |payload, run, middleware| match J::decode(payload) {
            Ok(job) => handler((job, run), middleware),
            Err(error) => Called::Undecodable(undecodable(&*error)),
        }))
    }

    /// Decodes the jobs of each batch. A batch of which none decodes is not handled.
    pub(crate) fn batch<J: Job>(
        size: BatchSize,
        handler: impl Fn(Vec<(J, Run)>, &Middleware) -> Called + Send + Sync + 'static,
    ) -> HandlerCall {
        let call = move |jobs: Undecoded, not: &mut Vec<NotDecoded>, middleware: &Middleware| {
            let jobs = decoded::<J>(jobs, not);
            if jobs.is_empty() { Called::Ended(Ok(())) } else { handler(jobs, middleware) }
        };
        HandlerCall::Batch(size, Box::new(call))
    }
}

fn undecodable(error: &(dyn core::error::Error + Send + Sync)) -> String {
    InvalidInput::Decode(error.to_string()).to_string()
}

/// Decodes the payloads of a batch. A payload that does not decode concerns no other job of the batch, so it is noted
/// and left out; a panic as well.
fn decoded<J: Job>(jobs: Undecoded, not: &mut Vec<NotDecoded>) -> Vec<(J, Run)> {
    let mut decoded = Vec::with_capacity(jobs.len());
    for (payload, run) in jobs {
        match catch_unwind(AssertUnwindSafe(|| J::decode(&payload))) {
            Ok(Ok(job)) => decoded.push((job, run)),
            Ok(Err(error)) => not.push(NotDecoded { run, why: Ok(undecodable(&*error)) }),
            Err(panic) => not.push(NotDecoded { run, why: Err(panic) }),
        }
    }
    decoded
}

/// A handler, and the retry policy of its jobs.
pub(crate) struct Handler {
    pub(crate) call: HandlerCall,
    /// None: the policy of the builder.
    pub(crate) retry: Option<Retry>,
    /// The flow of the kind: see [`Job::FLOW`].
    pub(crate) flow: &'static str,
    /// See [`Job::EXPIRES`].
    pub(crate) expires: Option<Duration>,
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
    pub(crate) middleware: Middleware,
    /// The runtime of the handlers that are futures.
    #[cfg(feature = "tokio")]
    pub(crate) runtime: Option<tokio::runtime::Handle>,
}

impl Handler {
    pub(crate) fn batch(&self) -> Option<BatchSize> {
        match &self.call {
            HandlerCall::One(_) => None,
            HandlerCall::Batch(size, _) => Some(*size),
        }
    }
}

impl Handlers {
    pub(crate) fn add(&mut self, kind: &'static str, handler: Handler) {
        let flow = handler.flow;
        let names = [
            (kind, format!("the name {kind:?} of a kind")),
            (flow, format!("the flow {flow:?} of the kind {kind:?}")),
        ];
        for (name, what) in names {
            if name.is_empty() || name.len() > NAME_BYTES {
                let reason = format!("{what} has not 1 to {NAME_BYTES} bytes");
                self.wrong.get_or_insert(OpenError::Config(reason));
            }
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
        self.check_middleware()?;
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

    /// Refuses a handler that would run without middleware because only handlers of the other form have it.
    fn check_middleware(&self) -> Result<(), OpenError> {
        let missing = |(kind, handler): (&Arc<str>, &Handler)| {
            let missing = self.middleware.missing(handler.is_async)?;
            let form = if handler.is_async { "future" } else { "function" };
            Some(format!(
                "the handler of the kind {kind:?} is a {form}, and would run without middleware: \
                 add it with Builder::{missing}"
            ))
        };
        self.all().find_map(missing).map_or(Ok(()), |reason| Err(OpenError::Config(reason)))
    }

    pub(crate) fn get(&self, kind: &str) -> Option<&Handler> {
        self.by_kind.get(kind)
    }

    pub(crate) fn kinds(&self) -> Vec<Arc<str>> {
        let mut kinds: Vec<Arc<str>> = self.by_kind.keys().cloned().collect();
        kinds.sort_unstable();
        kinds
    }

    pub(crate) fn kinds_on_threads(&self) -> Vec<Arc<str>> {
        let on_threads = self.all().filter(|(_, handler)| !handler.is_async);
        on_threads.map(|(kind, _)| Arc::clone(kind)).collect()
    }

    pub(crate) fn any_async(&self) -> bool {
        self.by_kind.values().any(|handler| handler.is_async)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<str>, &Handler)> {
        self.by_kind.iter()
    }

    /// Returns a value for each kind that has one.
    fn of_kinds<T>(&self, value: impl Fn(&Handler) -> Option<T>) -> HashMap<Arc<str>, T> {
        self.all().filter_map(|(kind, handler)| Some((Arc::clone(kind), value(handler)?))).collect()
    }

    pub(crate) fn flows(&self) -> HashMap<Arc<str>, &'static str> {
        self.of_kinds(|handler| Some(handler.flow))
    }

    /// Returns, for each kind whose jobs expire, how long after their due time they expire.
    pub(crate) fn expiries(&self) -> HashMap<Arc<str>, Duration> {
        self.of_kinds(|handler| handler.expires)
    }

    pub(crate) fn policies(&self, default: Retry) -> HashMap<Arc<str>, Retry> {
        self.of_kinds(|handler| Some(handler.retry.unwrap_or(default)))
    }
}
