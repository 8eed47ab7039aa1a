//! Runs a claimed job: calls its handler, and says how the run ended.
//!
//! Ground rules:
//!
//! - No lock is held while a handler runs.
//! - Whatever happens to a handler, its end is said exactly once: it returns, it panics, it is dropped
//!   unfinished by its runtime.
//! - A wheel promises no order of timers that are due at one tick, and everything overdue is. So a
//!   timer belongs to no run: whichever fires takes the earliest run. There is a timer for each run,
//!   at the run's time, so a run whose time has come does not wait.

use core::any::Any;
use core::cell::Cell;
use core::cmp::Ordering;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tickwheel::{Scheduler, When};

use super::clock::Clock;
use super::command::RunEnd;
use super::handlers::{Called, Handlers};
use super::link::Link;
use super::machine::Start;
use super::metrics::Metrics;
use super::run::{Run, RunState};
use crate::values::id::JobId;
use crate::values::retry::Fail;
use crate::values::time::Millis;

thread_local! {
    /// A handler runs on this thread.
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Says whether the calling thread is in a handler, which a shutdown must not wait for.
pub(crate) fn in_handler() -> bool {
    IN_HANDLER.get()
}

/// What all runs of a process share.
pub(crate) struct Executor {
    pub(crate) handlers: Handlers,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// The way to the dispatcher, for handlers that insert.
    pub(crate) link: Arc<Link>,
    /// When the jobs were started: what was overdue then is late from then on.
    pub(crate) since: SystemTime,
    /// Holds runs of handlers that block a thread.
    pub(crate) blocking: Lane,
    /// Holds runs of handlers that return at once.
    pub(crate) returning: Lane,
    /// Where the end of a run is told. It must not block for long, and may be called on any thread.
    pub(crate) ended: Box<dyn Fn(JobId, RunEnd) + Send + Sync>,
}

/// Claimed jobs until their time.
pub(crate) struct Lane {
    pub(crate) wheel: Scheduler,
    starts: Mutex<BinaryHeap<Earliest>>,
}

/// A start; the greatest is the one with the earliest deadline, then the lowest id.
struct Earliest(Start);

impl Earliest {
    fn place(&self) -> (Millis, JobId) {
        (self.0.state.due, self.0.state.id)
    }
}

impl Ord for Earliest {
    fn cmp(&self, other: &Earliest) -> Ordering {
        other.place().cmp(&self.place())
    }
}

impl PartialOrd for Earliest {
    fn partial_cmp(&self, other: &Earliest) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Earliest {
    fn eq(&self, other: &Earliest) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Earliest {}

impl Lane {
    pub(crate) fn new(wheel: Scheduler) -> Lane {
        Lane { wheel, starts: Mutex::new(BinaryHeap::new()) }
    }

    /// Adds starts. Each needs a timer that calls [`Executor::run_earliest`].
    pub(crate) fn add(&self, starts: Vec<Start>) {
        let mut held = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend(starts.into_iter().map(Earliest));
    }

    /// Takes the earliest start whose time has come. If none has: the deadline of the earliest one.
    fn take(&self, now: SystemTime) -> Result<Start, Option<Millis>> {
        let mut held = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(earliest) = held.peek() else { return Err(None) };
            let state = &earliest.0.state;
            if state.is_waiting() && state.due.to_system() > now {
                return Err(Some(state.due));
            }
            match held.pop() {
                Some(Earliest(start)) if start.state.is_waiting() => return Ok(start),
                _ => {}
            }
        }
    }
}

impl Executor {
    /// Runs the earliest job, if its time has come. It may not have: the wall clock was set back
    /// since the timer was set.
    pub(crate) fn run_earliest(self: &Arc<Executor>, is_async: bool) {
        let lane = if is_async { &self.returning } else { &self.blocking };
        match lane.take(self.clock.now().wall) {
            Ok(start) => self.run(start),
            Err(None) => {}
            Err(Some(due)) => {
                let executor = Arc::clone(self);
                let again = move || executor.run_earliest(is_async);
                // The wheel is gone only once the dispatcher has ended.
                drop(lane.wheel.insert(When::wall(due.to_system()), again));
            }
        }
    }

    pub(crate) fn is_async(&self, kind: &str) -> bool {
        self.handlers.get(kind).is_some_and(|handler| handler.is_async)
    }

    /// Runs the job, unless it was withdrawn. Its time must have come.
    fn run(self: &Arc<Executor>, start: Start) {
        let Start { state, payload } = start;
        let now = self.clock.now().wall;
        let late = now.duration_since(state.due.to_system()).unwrap_or_default();
        if !state.start(late) {
            return;
        }
        crate::hook::at("in the handler, before");
        self.metrics.started(late.min(now.duration_since(self.since).unwrap_or_default()));
        let Some(handler) = self.handlers.get(&state.kind) else {
            let error = format!("no handler for the kind {:?}", state.kind);
            return self.end(&state, RunEnd::Failed(Fail::by_policy(error)));
        };
        let run = Run::new(Arc::clone(&state), Arc::clone(&self.link));
        let outer = IN_HANDLER.replace(true);
        let called = catch_unwind(AssertUnwindSafe(|| (handler.call)(&payload, run)));
        IN_HANDLER.set(outer);
        crate::hook::at("in the handler, after");
        match called {
            Err(panic) => self.end(&state, RunEnd::Failed(Fail::by_policy(panicked(panic)))),
            Ok(Called::Undecodable(error)) => {
                self.end(&state, RunEnd::Undecodable(error.to_string()));
            }
            Ok(Called::Ended(Ok(()))) => self.end(&state, RunEnd::Done),
            Ok(Called::Ended(Err(fail))) => self.end(&state, RunEnd::Failed(fail)),
            #[cfg(feature = "tokio")]
            Ok(Called::Future(runtime, future)) => self.spawn(state, &runtime, future),
        }
    }

    fn end(&self, state: &RunState, end: RunEnd) {
        match &end {
            RunEnd::Done => Metrics::add(&self.metrics.completed),
            _ => Metrics::add(&self.metrics.failed),
        }
        (self.ended)(state.id, end);
    }

    /// Runs a future on its runtime. A future that the runtime drops has lost its run.
    #[cfg(feature = "tokio")]
    fn spawn(
        self: &Arc<Executor>,
        state: Arc<RunState>,
        runtime: &tokio::runtime::Handle,
        future: core::pin::Pin<Box<dyn Future<Output = Result<(), Fail>> + Send>>,
    ) {
        struct Guard {
            executor: Arc<Executor>,
            state: Arc<RunState>,
            end: Option<RunEnd>,
        }
        impl Drop for Guard {
            fn drop(&mut self) {
                let dropped = || RunEnd::Failed(Fail::by_policy("its runtime dropped it".into()));
                let end = self.end.take().unwrap_or_else(dropped);
                self.executor.end(&self.state, end);
            }
        }
        let guard = Guard { executor: Arc::clone(self), state, end: None };
        let inner = runtime.spawn(future);
        runtime.spawn(async move {
            let mut guard = guard;
            guard.end = Some(match inner.await {
                Ok(Ok(())) => RunEnd::Done,
                Ok(Err(fail)) => RunEnd::Failed(fail),
                Err(error) if error.is_panic() => {
                    RunEnd::Failed(Fail::by_policy(panicked(error.into_panic())))
                }
                Err(_) => return,
            });
        });
    }
}

/// Returns what a panic was called with, as text.
fn panicked(payload: Box<dyn Any + Send>) -> String {
    let text = match payload.downcast_ref::<&'static str>() {
        Some(text) => Some((*text).to_owned()),
        None => payload.downcast_ref::<String>().cloned(),
    };
    // The payload's drop may panic as well.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    match text {
        Some(text) => format!("panicked: {text}"),
        None => "panicked".to_owned(),
    }
}
