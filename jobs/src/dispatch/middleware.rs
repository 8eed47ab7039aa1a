//! Middleware: functions of the program round each run, of which the innermost calls the handler.
//!
//! Ground rules:
//!
//! - The first middleware of a builder is the outermost. Each one calls the next one, or the handler, at most once. Its
//!   value is then the end of the runs for the middleware outside of it.
//! - The payload is decoded before the first middleware. So a middleware sees no run whose handler cannot be called.
//! - No code here catches a panic. A panic of a handler passes through each middleware as through any caller. The
//!   executor catches a panic that passes through the outermost.
//! - Without middleware a call of a handler costs one look at an empty list.
//! - The function of a handler that is a future is called when the future inside of the innermost middleware is polled.
//!   So it is not called if a middleware ends the run by itself.

use core::fmt;
#[cfg(feature = "tokio")]
use core::pin::Pin;
#[cfg(feature = "tokio")]
use std::sync::Arc;

use super::run::Run;
use crate::values::fail_and_retry::Fail;
use crate::values::run_end::StopReason;

/// A middleware of handlers that are functions.
type Around = Box<dyn Fn(&[Run], Next<'_>) -> Result<(), Fail> + Send + Sync>;

/// A middleware of handlers that are futures.
#[cfg(feature = "tokio")]
type AroundAsync = Arc<dyn Fn(Vec<Run>, NextAsync) -> RunFuture + Send + Sync>;

/// The future of a handler or of a middleware.
#[cfg(feature = "tokio")]
pub(crate) type RunFuture = Pin<Box<dyn Future<Output = Result<(), Fail>> + Send>>;

/// The arguments of a handler.
pub(crate) trait Arguments {
    /// Returns the runs that one call of the handler serves.
    fn runs(&self) -> Vec<Run>;
}

impl<J> Arguments for (J, Run) {
    fn runs(&self) -> Vec<Run> {
        vec![self.1.clone()]
    }
}

impl<J> Arguments for Vec<(J, Run)> {
    fn runs(&self) -> Vec<Run> {
        self.iter().map(|(_, run)| run.clone()).collect()
    }
}

/// The middleware of a process, the outermost first.
#[derive(Default)]
pub(crate) struct Middleware {
    functions: Vec<Around>,
    #[cfg(feature = "tokio")]
    futures: Arc<Vec<AroundAsync>>,
}

impl Middleware {
    pub(crate) fn add(
        &mut self,
        middleware: impl Fn(&[Run], Next<'_>) -> Result<(), Fail> + Send + Sync + 'static,
    ) {
        self.functions.push(Box::new(middleware));
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn add_async<Fut: Future<Output = Result<(), Fail>> + Send + 'static>(
        &mut self,
        middleware: impl Fn(Vec<Run>, NextAsync) -> Fut + Send + Sync + 'static,
    ) {
        let boxed = move |runs, next| -> RunFuture { Box::pin(middleware(runs, next)) };
        Arc::make_mut(&mut self.futures).push(Arc::new(boxed));
    }

    /// Returns the name of the missing method, if a handler of this form would run without middleware because only the
    /// other form has it.
    pub(crate) fn missing(&self, is_async: bool) -> Option<&'static str> {
        #[cfg(feature = "tokio")]
        let any_async = !self.futures.is_empty();
        #[cfg(not(feature = "tokio"))]
        let any_async = false;
        match (self.functions.is_empty(), any_async) {
            (true, true) if !is_async => Some("middleware"),
            (false, false) if is_async => Some("middleware_async"),
            _ => None,
        }
    }

    /// Calls a handler that is a function.
    pub(crate) fn call<A: Arguments>(
        &self,
        arguments: A,
        handler: impl FnOnce(A) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        if self.functions.is_empty() {
            return handler(arguments);
        }
        let runs = arguments.runs();
        let handler = Box::new(|| handler(arguments));
        Next { rest: &self.functions, runs: &runs, handler }.run()
    }

    /// Returns the future of a handler, with its middleware.
    #[cfg(feature = "tokio")]
    pub(crate) fn future<A, Fut>(
        &self,
        arguments: A,
        handler: &Arc<impl Fn(A) -> Fut + Send + Sync + 'static>,
    ) -> RunFuture
    where
        A: Arguments + Send + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        if self.futures.is_empty() {
            return Box::pin(handler(arguments));
        }
        let (runs, handler) = (arguments.runs(), Arc::clone(handler));
        let handler = Box::new(move || -> RunFuture { Box::pin(handler(arguments)) });
        Box::pin(NextAsync { all: Arc::clone(&self.futures), at: 0, runs, handler }.run())
    }
}

/// Refuses to call a handler whose runs are over. A middleware may have kept its `next`, have taken long, or have ended
/// its run in a transaction. By then the job may have another run, and another process may have its claim.
fn check_under_way(runs: &[Run]) -> Result<(), Fail> {
    let is_under_way = |run: &Run| {
        let state = &run.state;
        let is_over =
            !state.is_under_way() || state.may_end_without_handler() || state.over().is_some();
        !is_over && run.stop_reason() != Some(StopReason::LeaseLost)
    };
    if runs.iter().any(is_under_way) { Ok(()) } else { Err(Fail::retry("its run is over")) }
}

/// The part inside of a [middleware](crate::Builder::middleware): the next middleware, or the handler.
pub struct Next<'a> {
    rest: &'a [Around],
    runs: &'a [Run],
    handler: Box<dyn FnOnce() -> Result<(), Fail> + 'a>,
}

impl Next<'_> {
    /// Calls the next middleware, or the handler, and returns its value, which says how the run has ended so far. A
    /// panic of the handler passes through this call.
    ///
    /// # Errors
    ///
    /// The error of the handler, or of a middleware inside. If the runs are over, this call returns an error, and
    /// calls no handler. Runs are over once the grace after their time limit or their lease has ended, once a shutdown
    /// waits for them no longer, or once a transaction has ended them.
    #[doc(alias("call", "yield", "proceed"))]
    pub fn run(self) -> Result<(), Fail> {
        check_under_way(self.runs)?;
        match self.rest.split_first() {
            Some((first, rest)) => first(self.runs, Next { rest, ..self }),
            None => (self.handler)(),
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("runs", &self.runs).finish_non_exhaustive()
    }
}

/// The part inside of a [middleware of futures](crate::Builder::middleware_async): the next middleware, or the handler.
/// With feature `tokio`.
#[cfg(feature = "tokio")]
pub struct NextAsync {
    all: Arc<Vec<AroundAsync>>,
    at: usize,
    runs: Vec<Run>,
    handler: Box<dyn FnOnce() -> RunFuture + Send>,
}

#[cfg(feature = "tokio")]
impl NextAsync {
    /// Runs the next middleware, or the handler, and returns its value, which says how the run has ended so far. The
    /// handler is called once the future is polled. A drop of this future drops the future of the handler.
    ///
    /// # Errors
    ///
    /// The error of the handler, or of a middleware inside. If the runs are over before the first poll, as for
    /// [`Next::run`], this call returns an error, and calls no handler.
    #[doc(alias("call", "proceed"))]
    pub async fn run(self) -> Result<(), Fail> {
        check_under_way(&self.runs)?;
        let inside = match self.all.get(self.at).cloned() {
            Some(next) => next(self.runs.clone(), NextAsync { at: self.at + 1, ..self }),
            None => (self.handler)(),
        };
        inside.await
    }
}

#[cfg(feature = "tokio")]
impl fmt::Debug for NextAsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextAsync").field("runs", &self.runs).finish_non_exhaustive()
    }
}
