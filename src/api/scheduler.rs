//! The scheduler: the verbs of a wheel, for code that does not own it.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::metrics::Stats;
use crate::engine::verbs::Engine;
use crate::structure::Location;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::Job;
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::when::When;

/// Inserts into a [`Wheel`](crate::Wheel) without keeping it alive: for jobs that insert jobs, and
/// for every part of a program that sets timers and does not decide when the wheel ends.
///
/// A clone costs a reference count. Once the wheel is dropped or shut down, inserts give the job
/// back with [`InsertErrorKind::Shutdown`](crate::InsertErrorKind::Shutdown), and every other verb
/// does what it does with a stale handle. A scheduler that outlives its wheel keeps some memory and
/// no thread.
///
/// A verb costs what the verb of the same name costs on a [`Wheel`](crate::Wheel). No insert
/// panics for want of room: it returns an [`InsertError`] of the kind
/// [`InsertErrorKind::Full`](crate::InsertErrorKind::Full).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Scheduler, Wheel};
///
/// const DAY: Duration = Duration::from_secs(24 * 3600);
///
/// fn place_order(scheduler: &Scheduler, number: u32) {
///     let later = scheduler.clone();
///     // Should the wheel be gone by then, the job comes back with the error, and is dropped here.
///     let _ = scheduler.insert(DAY, move || {
///         println!("order {number} is not paid yet");
///         let _ = later.insert(2 * DAY, move || println!("order {number} closed"));
///     });
/// }
///
/// let (wheel, driver) = Wheel::builder().manual()?;
/// place_order(&wheel.scheduler(), 1001);
/// assert_eq!(driver.advance(DAY), 1);
/// assert_eq!(driver.advance(2 * DAY), 1);
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

    /// Returns the engine, for the adapters.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Runs `job` once `delay` has passed, as [`Wheel::insert`](crate::Wheel::insert) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel or the calling thread's shard is full, or the wheel
    /// is gone.
    #[inline]
    pub fn insert<F>(&self, delay: Duration, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert(delay, job)
    }

    /// Runs `job` at an instant or a wall-clock time, as
    /// [`Wheel::insert_at`](crate::Wheel::insert_at) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel or the calling thread's shard is full, or the wheel
    /// is gone.
    pub fn insert_at<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert_when(when.into(), job)
    }

    /// The same as [`Scheduler::insert`], under the name it has on a wheel.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel or the calling thread's shard is full, or the wheel
    /// is gone.
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
    /// [`InsertError`] with the job: the wheel or the calling thread's shard is full, or the wheel
    /// is gone.
    pub fn try_insert_at<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.insert_at(when, job)
    }

    /// Runs `job` once every `period`, as [`Wheel::every`](crate::Wheel::every) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the period is zero, the wheel or the calling thread's shard is
    /// full, or the wheel is gone.
    pub fn every<F>(&self, period: Duration, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.engine.every(period, job)
    }

    /// Runs `job` again and again, as [`Wheel::repeat`](crate::Wheel::repeat) does.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::every`].
    pub fn repeat<F>(&self, repeat: Repeat, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnMut(Run) -> Next + Send + 'static,
    {
        self.engine.repeat(repeat, job)
    }

    /// Runs `job` within `slack` after `delay`, as
    /// [`Wheel::insert_within`](crate::Wheel::insert_within) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel or the calling thread's shard is full, or the wheel
    /// is gone.
    pub fn insert_within<F>(
        &self,
        delay: Duration,
        slack: Duration,
        job: F,
    ) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert_within(delay, slack, job)
    }

    /// Inserts many jobs at once, as [`Wheel::insert_batch`](crate::Wheel::insert_batch) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the whole batch: the wheel or the calling thread's shard has no room
    /// for all of it, or the wheel is gone.
    pub fn insert_batch<F>(
        &self,
        timers: impl IntoIterator<Item = (Duration, F)>,
    ) -> Result<Vec<Handle>, InsertError<Vec<(Duration, F)>>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert_batch(timers.into_iter().collect())
    }

    /// Cancels many jobs at once, as [`Wheel::cancel_batch`](crate::Wheel::cancel_batch) does.
    pub fn cancel_batch(&self, handles: &[Handle]) -> Vec<bool> {
        self.engine.cancel_batch(handles)
    }

    /// Gives many jobs new delays, as [`Wheel::reset_batch`](crate::Wheel::reset_batch) does.
    pub fn reset_batch(&self, timers: &[(Handle, Duration)]) -> Vec<bool> {
        self.engine.reset_batch(timers)
    }

    /// Cancels a job, as [`Wheel::cancel`](crate::Wheel::cancel) does.
    #[inline]
    pub fn cancel(&self, handle: Handle) -> bool {
        self.engine.cancel(handle)
    }

    /// Cancels a job and gives it back, as [`Wheel::take`](crate::Wheel::take) does.
    #[inline]
    pub fn take(&self, handle: Handle) -> Option<Job> {
        self.engine.take(handle)
    }

    /// Gives a pending job a new delay, as [`Wheel::reset`](crate::Wheel::reset) does.
    #[inline]
    pub fn reset(&self, handle: Handle, delay: Duration) -> bool {
        self.engine.reset(handle, delay)
    }

    /// Gives a pending job a new time, as [`Wheel::reset_at`](crate::Wheel::reset_at) does.
    pub fn reset_at(&self, handle: Handle, when: impl Into<When>) -> bool {
        self.engine.reset_when(handle, when.into())
    }

    /// Returns whether a job is pending, as [`Wheel::is_pending`](crate::Wheel::is_pending) does.
    #[must_use]
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.engine.is_pending(handle)
    }

    /// Returns the time until a job is due, as [`Wheel::remaining`](crate::Wheel::remaining) does.
    #[must_use]
    pub fn remaining(&self, handle: Handle) -> Option<Duration> {
        self.engine.remaining(handle)
    }

    /// Returns where a job lies, as [`Wheel::location`](crate::Wheel::location) does.
    #[must_use]
    pub fn location(&self, handle: Handle) -> Option<Location> {
        self.engine.location(handle)
    }

    /// Returns the number of jobs in the wheel, as [`Wheel::len`](crate::Wheel::len) does.
    #[must_use]
    pub fn len(&self) -> usize {
        self.engine.len()
    }

    /// Returns whether no job is in the wheel, as [`Wheel::is_empty`](crate::Wheel::is_empty) does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counters, as [`Wheel::stats`](crate::Wheel::stats) does.
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
