//! The door for those who use a wheel that somebody else owns.

use core::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::error::InsertError;
use crate::handle::Handle;
use crate::hierarchy::Location;
use crate::job::Job;
use crate::stats::Stats;

/// Inserts into a [`Wheel`](crate::Wheel) without keeping it alive: for jobs that insert jobs, and
/// for every part of a program that sets timers and does not decide when the wheel ends.
///
/// A clone costs a reference count. Once the wheel is dropped or shut down, inserts give the job
/// back with [`InsertErrorKind::Shutdown`](crate::InsertErrorKind::Shutdown), and every other verb
/// answers as for a stale handle. A scheduler that outlives its wheel keeps some memory, no thread.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Scheduler, Wheel};
///
/// fn tick(scheduler: Scheduler, left: u32) {
///     if left > 0 {
///         let next = scheduler.clone();
///         // The wheel may be gone by now; then the chain ends.
///         let _ = scheduler.insert(Duration::from_secs(1), move || tick(next, left - 1));
///     }
/// }
///
/// let (wheel, driver) = Wheel::builder().manual()?;
/// tick(wheel.scheduler(), 3);
/// assert_eq!(driver.advance(Duration::from_secs(10)), 3);
/// # Ok::<(), tickwheel::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Scheduler {
    engine: Arc<Engine>,
}

impl Scheduler {
    pub(crate) fn new(engine: Arc<Engine>) -> Scheduler {
        Scheduler { engine }
    }

    /// Runs `job` once `delay` has passed, as [`Wheel::insert`](crate::Wheel::insert) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel is full, or gone.
    #[inline]
    pub fn insert<F>(&self, delay: Duration, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert(delay, job)
    }

    /// Runs `job` at `at`, as [`Wheel::insert_at`](crate::Wheel::insert_at) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel is full, or gone.
    pub fn insert_at<F>(&self, at: Instant, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert_at(at, job)
    }

    /// The same as [`Scheduler::insert`], under the name it has on a wheel.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel is full, or gone.
    #[inline]
    pub fn try_insert<F>(&self, delay: Duration, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.insert(delay, job)
    }

    /// The same as [`Scheduler::insert_at`], under the name it has on a wheel.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel is full, or gone.
    pub fn try_insert_at<F>(&self, at: Instant, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.insert_at(at, job)
    }

    /// See [`Wheel::cancel`](crate::Wheel::cancel).
    #[inline]
    pub fn cancel(&self, handle: Handle) -> bool {
        self.engine.cancel(handle)
    }

    /// See [`Wheel::take`](crate::Wheel::take).
    #[inline]
    pub fn take(&self, handle: Handle) -> Option<Job> {
        self.engine.take(handle)
    }

    /// See [`Wheel::reset`](crate::Wheel::reset).
    #[inline]
    pub fn reset(&self, handle: Handle, delay: Duration) -> bool {
        self.engine.reset(handle, delay)
    }

    /// See [`Wheel::reset_at`](crate::Wheel::reset_at).
    pub fn reset_at(&self, handle: Handle, at: Instant) -> bool {
        self.engine.reset_at(handle, at)
    }

    /// See [`Wheel::is_pending`](crate::Wheel::is_pending).
    #[must_use]
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.engine.is_pending(handle)
    }

    /// See [`Wheel::remaining`](crate::Wheel::remaining).
    #[must_use]
    pub fn remaining(&self, handle: Handle) -> Option<Duration> {
        self.engine.remaining(handle)
    }

    /// See [`Wheel::location`](crate::Wheel::location).
    #[must_use]
    pub fn location(&self, handle: Handle) -> Option<Location> {
        self.engine.location(handle)
    }

    /// See [`Wheel::len`](crate::Wheel::len).
    #[must_use]
    pub fn len(&self) -> usize {
        self.engine.len()
    }

    /// See [`Wheel::is_empty`](crate::Wheel::is_empty).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// See [`Wheel::stats`](crate::Wheel::stats).
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("pending", &self.len()).finish_non_exhaustive()
    }
}
