//! A run of a claimed job: the view of its handler, and the state that it shares with the dispatcher.
//!
//! Ground rules:
//!
//! - A run either starts or is withdrawn. Each is one exchange of `stage` from `WAITING`, so exactly one of
//!   them happens. In the same way a run that has started either returns or overruns its time limit: one
//!   exchange of `handler`.
//! - A run ends once: the first result that is set counts (`end`). Whoever comes second of the report of the start
//!   and that of the end makes the latter (`reports.rs`).
//! - Wakers are called outside the lock.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::dispatcher_handle::DispatcherHandle;
use super::states::States;
use crate::store::{Claimed, Fence};
use crate::values::cancellation::Cancellation;
use crate::values::extra::Extra;
use crate::values::fail::Fail;
use crate::values::id::JobId;
use crate::values::run_report::Outcome;
use crate::values::time::Millis;

/// A run of a job, as its handler sees it.
#[derive(Clone)]
pub struct Run {
    pub(crate) state: Arc<RunState>,
    pub(crate) dispatcher: Arc<DispatcherHandle>,
    states: States,
}

/// The state that the dispatcher and a run share.
pub(crate) struct RunState {
    pub(crate) id: JobId,
    pub(crate) kind: Arc<str>,
    pub(crate) due: Millis,
    pub(crate) failures: u32,
    pub(crate) attempt: u32,
    pub(crate) key: Option<String>,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) fence: Fence,
    /// Its handler takes no thread.
    pub(crate) is_async: bool,
    /// How long it may take.
    pub(crate) limit: Option<Duration>,
    /// When the lease ends in this process, if the claim is a lease.
    lease: Mutex<Option<Instant>>,
    stage: AtomicU8,
    late_micros: AtomicU64,
    /// When the run started, and how long its handler took.
    started: OnceLock<Instant>,
    took: OnceLock<Duration>,
    handler: AtomicU8,
    over: OnceLock<Over>,
    /// Which of its reports are due or made: bits of [`START_REPORTED`] and [`END_DUE`].
    reports: AtomicU8,
    /// Why the run should stop, as a number: see [`Cancellation::of`].
    cancellation: AtomicU8,
    wakers: Mutex<Vec<Waker>>,
}

/// How a run ended.
pub(crate) struct Over {
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<String>,
    pub(crate) took: Duration,
}

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const WITHDRAWN: u8 = 2;

const UNDER_WAY: u8 = 0;
const RETURNED: u8 = 1;
const OVERRUN: u8 = 2;

const START_REPORTED: u8 = 1;
const END_DUE: u8 = 2;

impl RunState {
    pub(crate) fn new(claimed: &Claimed, is_async: bool, limit: Option<Duration>) -> RunState {
        RunState {
            id: claimed.id,
            kind: Arc::clone(&claimed.kind),
            due: claimed.due,
            failures: claimed.failures,
            attempt: claimed.attempts.saturating_add(1),
            key: claimed.key.clone(),
            extra: claimed.extra.clone(),
            fence: claimed.fence,
            is_async,
            limit,
            lease: Mutex::new(None),
            stage: AtomicU8::new(WAITING),
            late_micros: AtomicU64::new(0),
            started: OnceLock::new(),
            took: OnceLock::new(),
            handler: AtomicU8::new(UNDER_WAY),
            over: OnceLock::new(),
            reports: AtomicU8::new(0),
            cancellation: AtomicU8::new(0),
            wakers: Mutex::new(Vec::new()),
        }
    }

    /// Starts the run. Returns `false` if it was withdrawn.
    pub(crate) fn start(&self, late: Duration, now: Instant) -> bool {
        let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.late_micros.store(micros, Ordering::Relaxed);
        let _ = self.started.set(now);
        self.leave_waiting(STARTED)
    }

    /// Returns when the run started, if it has.
    pub(crate) fn started(&self) -> Option<Instant> {
        self.started.get().copied().filter(|_| self.has_started())
    }

    /// Returns the age of the run, if it has started.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.started()?))
    }

    /// Returns how long the handler took, once it has ended.
    pub(crate) fn took(&self) -> Option<Duration> {
        self.took.get().copied()
    }

    /// Notes that the handler has ended. Returns `false` if the run has overrun its time limit before.
    pub(crate) fn returns(&self, now: Instant) -> bool {
        let _ = self.took.set(self.age(now).unwrap_or_default());
        self.leave_under_way(RETURNED)
    }

    /// Ends the run before its handler. Returns `false` if the handler has ended.
    pub(crate) fn overruns(&self) -> bool {
        self.leave_under_way(OVERRUN)
    }

    fn leave_under_way(&self, handler: u8) -> bool {
        let exchanged =
            self.handler.compare_exchange(UNDER_WAY, handler, Ordering::AcqRel, Ordering::Acquire);
        exchanged.is_ok()
    }

    /// Says whether its handler has not ended, or not begun, and it has not overrun its limit.
    pub(crate) fn is_under_way(&self) -> bool {
        self.handler.load(Ordering::Acquire) == UNDER_WAY
    }

    pub(crate) fn has_overrun(&self) -> bool {
        self.handler.load(Ordering::Acquire) == OVERRUN
    }

    /// Sets the result of the run. Returns `false` if it has one already, or the run has not started.
    pub(crate) fn end(&self, outcome: Outcome, error: Option<String>, now: Instant) -> bool {
        let Some(age) = self.age(now) else { return false };
        let took = self.took().unwrap_or(age);
        self.over.set(Over { outcome, error, took }).is_ok()
    }

    pub(crate) fn over(&self) -> Option<&Over> {
        self.over.get()
    }

    /// Notes that the start was reported. Returns whether the end is due to be reported after it.
    pub(crate) fn start_was_reported(&self) -> bool {
        self.reports.fetch_or(START_REPORTED, Ordering::AcqRel) & END_DUE != 0
    }

    /// Notes that the end is to be reported. Returns whether the start was reported before: else the end waits
    /// for that.
    pub(crate) fn end_is_due(&self) -> bool {
        self.reports.fetch_or(END_DUE, Ordering::AcqRel) & START_REPORTED != 0
    }

    /// Makes sure that the run never starts. Returns `false` if it has started, or was withdrawn
    /// before.
    pub(crate) fn withdraw(&self) -> bool {
        self.leave_waiting(WITHDRAWN)
    }

    fn leave_waiting(&self, stage: u8) -> bool {
        self.stage.compare_exchange(WAITING, stage, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn set_lease(&self, until: Instant) {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    pub(crate) fn lease(&self) -> Option<Instant> {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the lease has ended in this process.
    pub(crate) fn has_expired(&self, now: Instant) -> bool {
        self.lease().is_some_and(|until| until <= now)
    }

    /// Says whether the run has reached its time limit.
    fn is_over_limit(&self, now: Instant) -> bool {
        self.limit.is_some_and(|limit| self.age(now).is_some_and(|age| age >= limit))
    }

    /// Returns how long after its due time the run started.
    pub(crate) fn late(&self) -> Duration {
        Duration::from_micros(self.late_micros.load(Ordering::Relaxed))
    }

    pub(crate) fn has_started(&self) -> bool {
        self.stage.load(Ordering::Acquire) == STARTED
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.stage.load(Ordering::Acquire) == WAITING
    }

    /// Cancels the run; a graver reason replaces a lesser one. Moves the wakers of waiting futures to `wakers`.
    /// They are code of the user's, so the caller wakes them where it holds no lock.
    pub(crate) fn tell(&self, why: Cancellation, wakers: &mut Vec<Waker>) {
        let mut waiting = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        self.cancellation.fetch_max(why as u8, Ordering::AcqRel);
        wakers.append(&mut waiting);
    }

    pub(crate) fn is_told(&self) -> bool {
        self.cancellation.load(Ordering::Acquire) > 0
    }
}

impl Run {
    pub(crate) fn new(
        state: Arc<RunState>,
        dispatcher: Arc<DispatcherHandle>,
        states: States,
    ) -> Run {
        Run { state, dispatcher, states }
    }

    /// Returns the id of the job: the same in every run of it.
    #[must_use]
    #[doc(alias("job_id", "idempotency_key"))]
    pub fn id(&self) -> JobId {
        self.state.id
    }

    /// Returns the name of the job's kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.state.kind
    }

    /// Returns the number of this attempt, counted from 1. A run whose process ended counts too. A run that a
    /// drop or a shutdown did not wait for does not count, nor does one that was
    /// [snoozed](crate::Fail::snooze): the next run has the same number, and a greater [fence](Run::fence).
    #[must_use]
    #[doc(alias("retry_count", "failures"))]
    pub fn attempt(&self) -> u32 {
        self.state.attempt
    }

    /// Returns the fence of this run, which is greater than those of earlier runs of the job.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.state.fence
    }

    /// Returns the job's key, if it has one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.state.key.as_deref()
    }

    /// Returns the due time of the job.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.state.due.to_system()
    }

    /// Returns how long after its due time the run started, by the wall clock.
    #[must_use]
    pub fn late(&self) -> Duration {
        self.state.late()
    }

    /// Returns the value of this type that all handlers share: see [`Builder::state`](crate::Builder::state).
    /// Costs a lookup in a table.
    ///
    /// # Errors
    ///
    /// If the builder was given no such value. With `?` the run then fails, and its error names the type.
    #[doc(alias("data", "extension", "context"))]
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T, Fail> {
        self.states.get()
    }

    /// Says whether the run should stop: its job was cancelled, it has reached its time limit, it has lost its
    /// lease, or the program shuts down. A handler that runs for long checks this now and then;
    /// [`Run::cancellation`] returns the reason.
    #[must_use]
    #[doc(alias("should_stop", "is_lost"))]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation().is_some()
    }

    /// Returns why the run should stop, if it should. Of several reasons it is the last one of those that
    /// [`Cancellation`] lists.
    #[must_use]
    pub fn cancellation(&self) -> Option<Cancellation> {
        // The dispatcher may be waiting for the store when a lease ends or a time limit is reached.
        let now = self.dispatcher.clock.now().instant;
        let lost = self.state.has_expired(now).then_some(Cancellation::LeaseLost);
        let over = self.state.is_over_limit(now).then_some(Cancellation::TimeLimit);
        let told = Cancellation::of(self.state.cancellation.load(Ordering::Acquire));
        told.max(over).max(lost)
    }

    /// Returns a future that is ready once the run should stop. It needs no runtime.
    #[doc(alias("cancellation_token", "lost"))]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { state: Arc::clone(&self.state) }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("id", &self.state.id)
            .field("kind", &self.state.kind)
            .field("attempt", &self.state.attempt)
            .finish_non_exhaustive()
    }
}

/// The future of [`Run::cancelled`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Cancelled {
    state: Arc<RunState>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.state.is_told() {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let mut wakers = self.state.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        // `tell` sets the reason under this lock: it sees the waker, or the reason is seen here.
        if self.state.is_told() {
            return Poll::Ready(());
        }
        if !wakers.iter().any(|known| known.will_wake(&waker)) {
            wakers.push(waker);
        }
        Poll::Pending
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").field("id", &self.state.id).finish_non_exhaustive()
    }
}
