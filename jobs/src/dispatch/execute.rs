//! Runs claimed jobs, each at its due time or with its batch, in the order of the run queue, and reports how each run
//! ended.
//!
//! Ground rules:
//!
//! - A claimed job waits in the run queue, and a timer of the wheel is set for its due time. The timer of a job that is
//!   due already goes to the pool without the wheel's ticker, which is one change of threads less. A timer that fires
//!   starts the first due job of the queue, which need not be the one that it was set for. There is one, because as many
//!   timers have fired as jobs were due. So runs start in the order of the queue, although the wheel runs the timers of
//!   one tick in any order.
//! - No lock is held while a handler runs or a waker is called.
//! - The end of a handler is reported exactly once: it returns, it panics, or its runtime drops it unfinished.
//! - Each job of a batch has a claim, a start and an end of its own, which are reported and counted one by one. Only
//!   the call of the handler is common to them.
//! - A job that was interrupted before is a batch by itself, and waits for no other. So if it ends the process once
//!   more, it takes no other job of its batch along.
//! - On a manual clock the driver waits until no future is under way. A future leaves once the end of its run is in the
//!   store, so after a wait the store has the effects of that run.

use core::future::poll_fn;
use core::sync::atomic;
use core::task::{Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::SystemTime;

use foldhash::HashSet;

use super::clock::Clock;
use super::command::RunEnd;
use super::dispatcher_handle::{DispatcherHandle, InHandler};
use super::events::{OnRun, is_reported, report_start};
use super::handlers::{BatchCall, BatchSize, CallOne, Called, HandlerCall, Handlers, NotDecoded};
use super::machine::Start;
use super::machine::claims::Capacity;
use super::metrics::Metrics;
#[cfg(feature = "tokio")]
use super::middleware::RunFuture;
use super::questions::OwnClaims;
use super::run::Run;
use super::run_queue::{Added, Batches, Entry, RunQueue};
use super::run_state::{RunState, Slot};
#[cfg(feature = "tokio")]
use super::spans::HeldSpan;
use crate::values::fail_and_retry::{Fail, Fate};
use crate::values::job::may_start;
use crate::values::panics::locked;
use crate::values::time::Millis;

/// Receives the end of a run, and its time.
type OnEnded = Box<dyn Fn(&RunState, RunEnd, Millis) + Send + Sync>;

/// The parts that all runs of a process share.
pub(crate) struct Executor {
    pub(crate) handlers: Handlers,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// The handle to the dispatcher, for handlers that insert.
    pub(crate) dispatcher: Arc<DispatcherHandle>,
    /// When the jobs were started: the lateness of a job that was overdue then counts from here.
    pub(crate) since: SystemTime,
    /// For handlers that block a thread.
    pub(crate) blocking: RunQueue,
    /// For handlers that are futures. Their calls return at once, and need not wait for a thread that others
    /// hold.
    pub(crate) returning: Option<RunQueue>,
    /// The batches that are being collected.
    pub(crate) batches: Batches,
    /// The load of the threads for blocking handlers, if other processes share the jobs.
    pub(crate) capacity: Option<Arc<Capacity>>,
    /// The futures under way, on a manual clock: its driver waits for them.
    #[cfg(feature = "tokio")]
    pub(crate) under_way: Option<Arc<UnderWay>>,
    pub(crate) on_run: Option<OnRun>,
    /// Receives the end of a run. It must not block for long, and may be called on any thread.
    pub(crate) ended: OnEnded,
}

/// Selects a run queue of an executor.
pub(super) type QueueOf = fn(&Executor) -> &RunQueue;

impl Executor {
    /// Takes claimed jobs: each starts at its due time.
    pub(crate) fn arm(self: &Arc<Executor>, starts: Vec<Start>) {
        if starts.is_empty() {
            return;
        }
        if self.returning.is_none() {
            return self.fill(starts, |executor| &executor.blocking);
        }
        let is_async = |start: &Start| {
            self.handlers.get(&start.state.kind).is_some_and(|handler| handler.is_async)
        };
        let (returning, blocking): (Vec<Start>, Vec<Start>) =
            starts.into_iter().partition(is_async);
        self.fill(blocking, |executor| &executor.blocking);
        self.fill(returning, |executor| executor.returning.as_ref().unwrap_or(&executor.blocking));
    }

    fn fill(self: &Arc<Executor>, starts: Vec<Start>, queue: QueueOf) {
        let dues: Vec<Millis> = starts.iter().map(|start| start.state.due).collect();
        queue(self).push(starts);
        if let Some(wheel) = &queue(self).wheel {
            let now = self.clock.now().millis();
            let (due, later): (Vec<Millis>, Vec<Millis>) =
                dues.iter().partition(|due| **due <= now);
            let timer = || {
                let executor = Arc::clone(self);
                move || executor.timer_fired(queue)
            };
            // The wheel refuses timers only once the dispatcher has ended.
            for _ in due {
                drop(wheel.spawn(timer()));
            }
            if !later.is_empty() {
                let timers = later.into_iter().map(|due| (self.clock.when(due), timer()));
                drop(wheel.insert_batch(timers));
            }
        }
    }

    /// Starts the first due job. If none is due, because the wall clock was set back, sets the timer again.
    fn timer_fired(self: &Arc<Executor>, queue: QueueOf) {
        match queue(self).take_due(self.clock.now().millis()) {
            Ok(entry) => self.start(entry, queue),
            Err(None) => {}
            Err(Some(due)) => self.set_timer(due, queue),
        }
    }

    /// Sets a timer for an entry of the queue.
    pub(super) fn set_timer(self: &Arc<Executor>, due: Millis, queue: QueueOf) {
        let executor = Arc::clone(self);
        if let Some(wheel) = &queue(self).wheel {
            drop(wheel.insert(self.clock.when(due), move || executor.timer_fired(queue)));
        }
    }

    /// Starts the first due job. Returns `false` if none is.
    pub(crate) fn run_one_due(self: &Arc<Executor>, now: Millis) -> bool {
        let entry = self.blocking.take_due(now);
        entry.map(|entry| self.start(entry, |executor| &executor.blocking)).is_ok()
    }

    fn start(self: &Arc<Executor>, entry: Entry, queue: QueueOf) {
        let call_of = |kind: &str| self.handlers.get(kind).map(|its| &its.call);
        match entry {
            // The first job of the batch has waited long enough, unless it was complete before.
            Entry::WaitOver(over) => {
                let starts = self.batches.take(&over);
                if let Some(HandlerCall::Batch(_, call)) = call_of(&over.kind) {
                    self.run_batch(starts, call);
                }
            }
            Entry::Job(start) => match call_of(&start.state.kind) {
                None => self.run(start, None),
                Some(HandlerCall::One(call)) => self.run(start, Some(call)),
                Some(HandlerCall::Batch(size, call)) => self.collect(start, *size, call, queue),
            },
        }
    }

    /// Returns the capacity that counts this run, if its handler holds a thread.
    fn capacity_of(&self, state: &RunState) -> Option<&Capacity> {
        self.capacity.as_deref().filter(|_| state.slot == Slot::Thread)
    }

    /// Returns what is known of the claims of this process. `is_shared`: other processes claim jobs too.
    pub(crate) fn own_claims(&self, is_shared: bool) -> OwnClaims {
        let in_flight = self.metrics.in_flight.load(atomic::Ordering::Relaxed) as u64;
        let mut not_started = HashSet::default();
        for queue in [Some(&self.blocking), self.returning.as_ref()].into_iter().flatten() {
            queue.add_waiting(&mut not_started);
        }
        self.batches.add_waiting(&mut not_started);
        OwnClaims { not_started, in_flight: is_shared.then_some(in_flight) }
    }

    /// Begins the run of a job. The job must be due. Returns `false` if the job was withdrawn, its lease has ended, or
    /// it became too old while it waited for a thread.
    pub(super) fn begin(&self, state: &Arc<RunState>) -> bool {
        let present = self.clock.now();
        if state.lease_has_ended(present.instant) {
            // The dispatcher notices that by itself, and frees the slot.
            return false;
        }
        let now = present.wall;
        if !may_start(state.extra.as_deref(), present.millis()) {
            if state.withdraw() {
                (self.ended)(state, RunEnd::Expired, present.millis());
            }
            return false;
        }
        let late = now.duration_since(state.due.to_system()).unwrap_or_default();
        if !state.start(late, present.instant) {
            return false;
        }
        if let Some(capacity) = self.capacity_of(state) {
            capacity.started();
        }
        crate::values::hook::at("in the handler, before");
        let since_start = now.duration_since(self.since).unwrap_or_default();
        self.metrics.started(&state.kind, late.min(since_start));
        if is_reported(self.on_run.as_ref()) {
            let _in_handler = InHandler::of(&self.dispatcher);
            #[cfg(feature = "tracing")]
            self.dispatcher.traces.start(state);
            report_start(state, self.on_run.as_ref());
        }
        true
    }

    pub(super) fn run_of(&self, state: &Arc<RunState>) -> Run {
        let states = self.handlers.states.clone();
        Run::new(Arc::clone(state), Arc::clone(&self.dispatcher), states)
    }

    /// Runs the job, unless it was withdrawn or its lease has ended. It must be due.
    fn run(self: &Arc<Executor>, start: Start, call: Option<&CallOne>) {
        let Start { state, payload, .. } = start;
        if !self.begin(&state) {
            return;
        }
        let Some(call) = call else {
            let error = format!("no handler for the kind {:?}", state.kind);
            return self.end(&state, RunEnd::Failed(Fail::retry(error)));
        };
        let run = self.run_of(&state);
        let middleware = &self.handlers.middleware;
        let called = self.call(|| state.span.in_scope(|| call(&payload, run, middleware)));
        self.called(called, core::slice::from_ref(&state));
    }

    pub(super) fn call(&self, call: impl FnOnce() -> Called) -> std::thread::Result<Called> {
        let in_handler = InHandler::of(&self.dispatcher);
        let called = catch_unwind(AssertUnwindSafe(call));
        drop(in_handler);
        crate::values::hook::at("in the handler, after");
        called
    }

    /// Ends the runs of one call of a handler, or lets its future go on.
    pub(super) fn called(
        self: &Arc<Executor>,
        called: std::thread::Result<Called>,
        states: &[Arc<RunState>],
    ) {
        let end = match called {
            Err(panic) => RunEnd::panicked(panic),
            Ok(Called::Undecodable(error)) => RunEnd::Undecodable(error),
            Ok(Called::Ended(Ok(()))) => RunEnd::Done,
            Ok(Called::Ended(Err(fail))) => RunEnd::Failed(fail),
            #[cfg(feature = "tokio")]
            Ok(Called::Future(future)) => return self.spawn(states.to_vec(), future),
        };
        self.end_all(states, &end);
    }

    fn end_all(&self, states: &[Arc<RunState>], end: &RunEnd) {
        states.iter().for_each(|state| self.end(state, end.clone()));
    }

    pub(super) fn end(&self, state: &RunState, end: RunEnd) {
        let end = state.take_failure().map_or(end, RunEnd::Failed);
        let now = self.clock.latest();
        match &end {
            // The report of this end counts it.
            _ if !state.returns(now.instant) || state.may_end_without_handler() => {}
            RunEnd::Done => Metrics::add(&self.metrics.completed),
            RunEnd::Failed(Fail { fate: Fate::Snooze(_), .. }) => {
                Metrics::add(&self.metrics.snoozed);
            }
            _ => Metrics::add(&self.metrics.failed),
        }
        if let Some(capacity) = self.capacity_of(state) {
            capacity.ended(state.age(now.instant).unwrap_or_default(), now.instant);
        }
        let at = Millis::due(now.wall).unwrap_or(now.millis());
        (self.ended)(state, end, at);
    }

    /// Runs a future on the runtime. If the runtime drops the future, its runs fail.
    #[cfg(feature = "tokio")]
    fn spawn(self: &Arc<Executor>, states: Vec<Arc<RunState>>, future: RunFuture) {
        struct Guard {
            executor: Arc<Executor>,
            states: Vec<Arc<RunState>>,
            end: Option<RunEnd>,
        }
        impl Drop for Guard {
            fn drop(&mut self) {
                let dropped = || RunEnd::Failed(Fail::retry("its runtime dropped it"));
                let end = self.end.take().unwrap_or_else(dropped);
                self.executor.end_all(&self.states, &end);
                if let Some(under_way) = &self.executor.under_way {
                    under_way.leave();
                }
            }
        }
        if let Some(under_way) = &self.under_way {
            under_way.enter();
        }
        // The jobs of a batch have a span each, and their handler is in none of them.
        let is_batched = |kind: &str| self.handlers.get(kind).and_then(|its| its.batch()).is_some();
        let span = match &*states {
            [state] if !is_batched(&state.kind) => state.span.hold(),
            _ => HeldSpan::default(),
        };
        let guard = Guard { executor: Arc::clone(self), states, end: None };
        let Some(runtime) = &self.handlers.runtime else { return };
        let dispatcher = Arc::clone(&self.dispatcher);
        let inner = runtime.spawn(Polled { dispatcher, span, future: Some(future) });
        runtime.spawn(async move {
            let mut guard = guard;
            guard.end = Some(match inner.await {
                Ok(Ok(())) => RunEnd::Done,
                Ok(Err(fail)) => RunEnd::Failed(fail),
                Err(error) if error.is_panic() => RunEnd::panicked(error.into_panic()),
                Err(_) => return,
            });
        });
    }
}

/// A handler's future, in its span. While it is polled or dropped, the thread counts as in the handler.
#[cfg(feature = "tokio")]
struct Polled<F> {
    dispatcher: Arc<DispatcherHandle>,
    span: HeldSpan,
    /// None in the drop.
    future: Option<F>,
}

#[cfg(feature = "tokio")]
impl<F: Future + Unpin> Future for Polled<F> {
    type Output = F::Output;

    fn poll(
        mut self: core::pin::Pin<&mut Self>,
        context: &mut core::task::Context<'_>,
    ) -> core::task::Poll<F::Output> {
        let Polled { dispatcher, span, future: Some(future) } = &mut *self else {
            return core::task::Poll::Pending;
        };
        let _in_handler = InHandler::of(dispatcher);
        span.in_scope(|| core::pin::Pin::new(future).poll(context))
    }
}

#[cfg(feature = "tokio")]
impl<F> Drop for Polled<F> {
    fn drop(&mut self) {
        let _in_handler = InHandler::of(&self.dispatcher);
        let (future, span) = (self.future.take(), core::mem::take(&mut self.span));
        span.in_scope(|| drop(future));
    }
}

impl Executor {
    /// Adds a due job to the batch of its kind, and runs the batch if it is complete.
    pub(super) fn collect(
        self: &Arc<Executor>,
        start: Start,
        size: BatchSize,
        call: &BatchCall,
        queue: QueueOf,
    ) {
        if start.state.was_interrupted {
            return self.run_batch(vec![start], call);
        }
        let now = self.clock.now();
        if !start.state.is_waiting() || start.state.lease_has_ended(now.instant) {
            return;
        }
        match self.batches.add(start, size, now.millis()) {
            Added::Complete(starts) => self.run_batch(starts, call),
            Added::First(over) => {
                let due = over.due;
                queue(self).push_wait(over);
                self.set_timer(due, queue);
            }
            Added::Waits => {}
        }
    }

    /// Runs a batch, without the jobs that were withdrawn and those whose leases have ended.
    fn run_batch(self: &Arc<Executor>, mut starts: Vec<Start>, call: &BatchCall) {
        starts.sort_unstable_by_key(|start| (start.state.due, start.state.id));
        starts.retain(|start| self.begin(&start.state));
        let Some(first) = starts.first().map(|start| Arc::clone(&start.state)) else { return };
        let takes_a_thread = matches!(first.slot, Slot::Batch { .. });
        let capacity = self.capacity.as_deref().filter(|_| takes_a_thread);
        if let Some(capacity) = capacity {
            capacity.batch_started();
        }
        let mut states: Vec<Arc<RunState>> = Vec::with_capacity(starts.len());
        let mut jobs = Vec::with_capacity(starts.len());
        for Start { state, payload, .. } in starts {
            jobs.push((payload, self.run_of(&state)));
            states.push(state);
        }
        let mut not_decoded = Vec::new();
        let called = self.call(|| call(jobs, &mut not_decoded, &self.handlers.middleware));
        for NotDecoded { run, why } in not_decoded {
            states.retain(|state| state.id != run.state.id);
            let end = match why {
                Ok(error) => RunEnd::Undecodable(error),
                Err(panic) => RunEnd::panicked(panic),
            };
            self.end(&run.state, end);
        }
        self.called(called, &states);
        if let Some(capacity) = capacity {
            let now = self.clock.latest().instant;
            capacity.batch_ended(first.age(now).unwrap_or_default(), now);
        }
    }
}

/// Counts the futures under way.
#[derive(Default)]
pub(crate) struct UnderWay {
    inner: Mutex<ExecutorInner>,
    none_left: Condvar,
}

#[derive(Default)]
struct ExecutorInner {
    runs: usize,
    wakers: Vec<Waker>,
}

impl UnderWay {
    #[cfg(feature = "tokio")]
    pub(crate) fn enter(&self) {
        locked(&self.inner).runs += 1;
    }

    /// Removes a future from the count, because the end of its run is in the store.
    #[cfg(feature = "tokio")]
    pub(crate) fn leave(&self) {
        let mut inner = locked(&self.inner);
        inner.runs -= 1;
        if inner.runs > 0 {
            return;
        }
        let wakers = core::mem::take(&mut inner.wakers);
        drop(inner);
        self.none_left.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_any(&self) -> bool {
        locked(&self.inner).runs > 0
    }

    /// Blocks this thread until no future is under way.
    pub(crate) fn wait(&self) {
        let mut inner = locked(&self.inner);
        while inner.runs > 0 {
            inner = self.none_left.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until no future is under way.
    pub(crate) async fn none(&self) {
        poll_fn(|context| {
            let waker = context.waker().clone();
            let mut inner = locked(&self.inner);
            if inner.runs == 0 {
                return Poll::Ready(());
            }
            if !inner.wakers.iter().any(|known| known.will_wake(&waker)) {
                inner.wakers.push(waker);
            }
            Poll::Pending
        })
        .await;
    }
}
