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
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::link::Link;
use crate::store::words::{Claimed, Fence};
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A run of a job, as its handler sees it.
#[derive(Clone)]
pub struct Run {
    state: Arc<RunState>,
    pub(crate) link: Arc<Link>,
}

/// What dispatcher and run share.
pub(crate) struct RunState {
    pub(crate) id: JobId,
    pub(crate) kind: Arc<str>,
    pub(crate) due: Millis,
    pub(crate) tries: u32,
    pub(crate) attempt: u32,
    pub(crate) key: Option<String>,
    pub(crate) fence: Fence,
    /// Its handler takes no thread.
    pub(crate) is_async: bool,
    /// Until when the claim is counted on, if it is a lease.
    lease: Mutex<Option<Instant>>,
    stage: AtomicU8,
    late_micros: AtomicU64,
    /// When the run started.
    started: OnceLock<Instant>,
    lost: AtomicBool,
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
            tries: claimed.tries,
            attempt: claimed.runs.saturating_add(1),
            key: claimed.key.clone(),
            fence: claimed.fence,
            is_async,
            lease: Mutex::new(None),
            stage: AtomicU8::new(WAITING),
            late_micros: AtomicU64::new(0),
            started: OnceLock::new(),
            lost: AtomicBool::new(false),
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

    /// Tells the run to stop. The futures that wait for that are yet to be woken, by code of the user's:
    /// so not here, where a lock may be held.
    pub(crate) fn tell_lost(&self, wakers: &mut Vec<Waker>) {
        let mut waiting = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        self.lost.store(true, Ordering::Release);
        wakers.append(&mut waiting);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

impl Run {
    pub(crate) fn new(state: Arc<RunState>, link: Arc<Link>) -> Run {
        Run { state, link }
    }

    /// Returns the id of the job: the same in every run of it.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.state.id
    }

    /// Returns the name of the job's kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.state.kind
    }

    /// Returns which try this is, counted from 1. A run whose process ended counts too.
    #[must_use]
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
    pub fn deadline(&self) -> SystemTime {
        self.state.due.to_system()
    }

    /// Returns how long after its deadline the run started, by the wall clock.
    #[must_use]
    pub fn late(&self) -> Duration {
        Duration::from_micros(self.state.late_micros.load(Ordering::Relaxed))
    }

    /// Says whether the run should stop: its job was cancelled, it has lost its lease, or a shutdown
    /// does not wait for it any longer. A handler that runs for long asks now and then.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        // The dispatcher may be waiting for the store just when a lease ends.
        self.state.is_lost() || self.state.has_expired(self.link.clock.now().instant)
    }

    /// Returns a future that is ready once the run should stop. It needs no runtime.
    pub fn lost(&self) -> Lost {
        Lost { state: Arc::clone(&self.state) }
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

/// The future of [`Run::lost`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Lost {
    state: Arc<RunState>,
}

impl Future for Lost {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.state.is_lost() {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let mut wakers = self.state.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        // `tell_lost` sets the flag under the lock, so it sees the waker or is seen here.
        if self.state.is_lost() {
            return Poll::Ready(());
        }
        if !wakers.iter().any(|known| known.will_wake(&waker)) {
            wakers.push(waker);
        }
        Poll::Pending
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").field("id", &self.state.id).finish_non_exhaustive()
    }
}
