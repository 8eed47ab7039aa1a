//! A run of a claimed job: the view of its handler, and the state that it shares with the dispatcher.
//!
//! Ground rules:
//!
//! - A run either starts or is withdrawn. Each is one exchange of `stage` from `WAITING`, so exactly one of
//!   them happens.
//! - Wakers are called outside the lock.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use super::dispatcher_handle::DispatcherHandle;
use super::states::States;
use crate::store::{Claimed, Fence};
use crate::values::attempt_errors::AttemptErrors;
use crate::values::error::StoreError;
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

/// The state that the dispatcher and a run share.
pub(crate) struct RunState {
    pub(crate) id: JobId,
    pub(crate) kind: Arc<str>,
    pub(crate) due: Millis,
    pub(crate) failures: u32,
    pub(crate) attempt: u32,
    pub(crate) key: Option<String>,
    /// The errors of earlier attempts.
    pub(crate) errors: AttemptErrors,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) fence: Fence,
    /// Its handler takes no thread.
    pub(crate) is_async: bool,
    /// When the lease ends in this process, if the claim is a lease.
    lease: Mutex<Option<Instant>>,
    stage: AtomicU8,
    late_micros: AtomicU64,
    /// When the run started.
    started: OnceLock<Instant>,
    /// Why the run should stop, as a number: see [`Cancellation::of`].
    cancellation: AtomicU8,
    wakers: Mutex<Vec<Waker>>,
    /// How long the run took, in milliseconds, once it has ended.
    took: AtomicU64,
    /// The result that the run has set.
    result: Mutex<Option<Vec<u8>>>,
}

/// The longest result, in bytes of JSON.
const RESULT_BYTES: usize = 64 << 10;

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
            errors: claimed.errors.clone(),
            extra: claimed.extra.clone(),
            fence: claimed.fence,
            is_async,
            lease: Mutex::new(None),
            stage: AtomicU8::new(WAITING),
            late_micros: AtomicU64::new(0),
            started: OnceLock::new(),
            cancellation: AtomicU8::new(0),
            wakers: Mutex::new(Vec::new()),
            took: AtomicU64::new(0),
            result: Mutex::new(None),
        }
    }

    /// Starts the run. Returns `false` if it was withdrawn.
    pub(crate) fn start(&self, late: Duration, now: Instant) -> bool {
        let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.late_micros.store(micros, Ordering::Relaxed);
        let _ = self.started.set(now);
        self.leave_waiting(STARTED)
    }

    /// Returns the age of the run, if it has started.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        let started = self.started.get().filter(|_| self.has_started())?;
        Some(now.saturating_duration_since(*started))
    }

    /// Notes that the run has ended.
    pub(crate) fn set_ended(&self, now: Instant) {
        let took = self.age(now).unwrap_or_default().as_millis();
        self.took.store(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns how long the run took, in milliseconds.
    pub(crate) fn took(&self) -> u64 {
        self.took.load(Ordering::Relaxed)
    }

    /// Returns the result that the run has set.
    pub(crate) fn result(&self) -> Option<Vec<u8>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

/// Why a run should stop.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cancellation {
    /// The program shuts down. The end of the run counts if it comes within the shutdown's limit. A handler
    /// that cannot end by then returns [`Fail::interrupted`](crate::Fail::interrupted): another process, or the
    /// next start, runs the job again at once.
    Shutdown = 1,
    /// The job was cancelled. It is gone when the run has ended, even if the handler fails.
    Requested = 2,
    /// The lease was lost: another process may run the job by now. The end of this run does not count.
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

    /// Returns the value of a header of the job, if it has one of this name: see
    /// [`NewJob::header`](crate::NewJob::header).
    #[must_use]
    #[doc(alias("metadata", "tag", "meta"))]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.state.extra.as_ref()?.headers.get(name).map(String::as_str)
    }

    /// Returns the headers of the job: pairs of a name and a value, in the order of the names.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.state.extra.iter().flat_map(|extra| &extra.headers);
        headers.map(|(name, value)| (&**name, &**value))
    }

    /// Returns the due time of the job.
    #[must_use]
    pub fn due(&self) -> SystemTime {
        self.state.due.to_system()
    }

    /// Sets the result of the run. It is kept with the job if its kind keeps completed jobs
    /// ([`Kind::keep_completed`](crate::Kind::keep_completed)), or if a caller waits for it
    /// ([`Client::call`](crate::Client::call)). If it is set twice, the second one counts. The result of a run
    /// that fails is dropped.
    ///
    /// # Errors
    ///
    /// If the value does not serialize to JSON, or has more than 64 KiB. The earlier result stays then.
    #[doc(alias("return", "output"))]
    pub fn set_result<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Fail> {
        let json = serde_json::to_vec(value).map_err(Fail::retry)?;
        if json.len() > RESULT_BYTES {
            let bytes = json.len();
            let what = "result";
            return Err(Fail::retry(StoreError::TooLong { what, bytes, most: RESULT_BYTES }));
        }
        *self.state.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(json);
        Ok(())
    }

    /// Returns how long after its due time the run started, by the wall clock.
    #[must_use]
    pub fn late(&self) -> Duration {
        Duration::from_micros(self.state.late_micros.load(Ordering::Relaxed))
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

    /// Says whether the run should stop: its job was cancelled, it has lost its lease, or the program shuts
    /// down. A handler that runs for long checks this now and then; [`Run::cancellation`] returns the reason.
    #[must_use]
    #[doc(alias("should_stop", "is_lost"))]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation().is_some()
    }

    /// Returns why the run should stop, if it should.
    #[must_use]
    pub fn cancellation(&self) -> Option<Cancellation> {
        // The dispatcher may be waiting for the store when a lease ends.
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
