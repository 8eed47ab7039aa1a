//! One run of a claimed job: what its handler sees, and what dispatcher and run share.
//!
//! Ground rules:
//!
//! - `stage` decides between a start and a withdrawal: each is one exchange from `Waiting`, so exactly
//!   one of them happens.
//! - Whatever wakes a future runs outside the lock.

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
use crate::values::extra::Extra;
use crate::values::fail::Fail;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A run of a job, as its handler sees it.
#[derive(Clone)]
pub struct Run {
    pub(crate) state: Arc<RunState>,
    pub(crate) dispatcher: Arc<DispatcherHandle>,
    states: States,
}

/// What dispatcher and run share.
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
    /// Until when the claim is counted on, if it is a lease.
    lease: Mutex<Option<Instant>>,
    stage: AtomicU8,
    late_micros: AtomicU64,
    /// When the run started.
    started: OnceLock<Instant>,
    /// Why the run should stop, as a number: see [`Cancellation::of`].
    cancellation: AtomicU8,
    wakers: Mutex<Vec<Waker>>,
}

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const WITHDRAWN: u8 = 2;

impl RunState {
    pub(crate) fn new(claimed: &Claimed, is_async: bool) -> RunState {
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
            lease: Mutex::new(None),
            stage: AtomicU8::new(WAITING),
            late_micros: AtomicU64::new(0),
            started: OnceLock::new(),
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

    /// Returns for how long the run has gone on, if it has started.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        let started = self.started.get().filter(|_| self.has_started())?;
        Some(now.saturating_duration_since(*started))
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

    /// Says whether the claim is not counted on any more.
    pub(crate) fn has_expired(&self, now: Instant) -> bool {
        self.lease().is_some_and(|until| until <= now)
    }

    pub(crate) fn has_started(&self) -> bool {
        self.stage.load(Ordering::Acquire) == STARTED
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.stage.load(Ordering::Acquire) == WAITING
    }

    /// Tells the run to stop, and why; a graver reason takes the place of a lesser one. The futures that
    /// wait for that are yet to be woken, by code of the user's: so not here, where a lock may be held.
    pub(crate) fn tell(&self, why: Cancellation, wakers: &mut Vec<Waker>) {
        let mut waiting = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        self.cancellation.fetch_max(why as u8, Ordering::AcqRel);
        wakers.append(&mut waiting);
    }

    pub(crate) fn is_told(&self) -> bool {
        self.cancellation.load(Ordering::Acquire) > 0
    }
}

/// Why a run should stop.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cancellation {
    /// The program shuts down. The end of the run counts if it comes before the shutdown's limit is over. A
    /// handler that cannot end by then returns [`Fail::interrupted`](crate::Fail::interrupted): another process, or the
    /// next start, runs the job again at once.
    Shutdown = 1,
    /// Somebody has cancelled the job. It is gone when the run has ended, whatever the handler returns.
    Requested = 2,
    /// The claim is not held any more: another process may run the job by now. The end of this run does
    /// not count.
    LeaseLost = 3,
}

impl Cancellation {
    fn of(number: u8) -> Option<Cancellation> {
        let all = [Cancellation::Shutdown, Cancellation::Requested, Cancellation::LeaseLost];
        all.into_iter().find(|why| *why as u8 == number)
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

    /// Returns which try this is, counted from 1. A run whose process ended counts too; one that a drop or
    /// a shutdown did not wait for does not. Nor does one that was [put off](crate::Fail::snooze): the next
    /// run has the same number, and a greater [fence](Run::fence).
    #[must_use]
    #[doc(alias("retry_count", "failures"))]
    pub fn attempt(&self) -> u32 {
        self.state.attempt
    }

    /// Returns what tells this run from earlier ones of the same job.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.state.fence
    }

    /// Returns the job's key, if it has one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.state.key.as_deref()
    }

    /// Returns the time from which on the job was to run.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.state.due.to_system()
    }

    /// Returns how long after its deadline the run started, by the wall clock.
    #[must_use]
    pub fn late(&self) -> Duration {
        Duration::from_micros(self.state.late_micros.load(Ordering::Relaxed))
    }

    /// Returns the value of this type that all handlers share: [`Builder::state`](crate::Builder::state) was
    /// given it. Costs a look into a table.
    ///
    /// # Errors
    ///
    /// If the builder was given none. With `?` the run fails by its policy then, and the error names the type.
    #[doc(alias("data", "extension", "context"))]
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<&T, Fail> {
        self.states.get()
    }

    /// Says whether the run should stop: its job was cancelled, it has lost its lease, or the program
    /// shuts down. A handler that runs for long asks now and then; [`Run::cancellation`] says why.
    #[must_use]
    #[doc(alias("should_stop", "is_lost"))]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation().is_some()
    }

    /// Returns why the run should stop, if it should.
    #[must_use]
    pub fn cancellation(&self) -> Option<Cancellation> {
        // The dispatcher may be waiting for the store just when a lease ends.
        if self.state.has_expired(self.dispatcher.clock.now().instant) {
            return Some(Cancellation::LeaseLost);
        }
        Cancellation::of(self.state.cancellation.load(Ordering::Acquire))
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
        // `tell` sets the reason under the lock, so it sees the waker or is seen here.
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
