//! The scheduler: the verbs of a wheel, for code that does not own it.

use core::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::engine::metrics::Stats;
use crate::engine::verbs::Engine;
use crate::structure::Location;
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Job, Task};
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::when::When;

/// Inserts into a [`Wheel`](crate::Wheel) without keeping it alive: for jobs that insert jobs, and
/// for every part of a program that sets timers and does not decide when the wheel ends.
///
/// A clone costs a reference count. Once the wheel is dropped or shut down, inserts give the job
/// back with [`InsertErrorKind::Shutdown`], and every other verb behaves as with a stale handle. A
/// scheduler that outlives its wheel keeps some memory and no thread.
///
/// A verb costs as much as the verb of the same name on a [`Wheel`](crate::Wheel). No insert
/// panics: if the wheel is full, it returns an [`InsertError`] of the kind
/// [`InsertErrorKind::Full`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Scheduler, Wheel};
///
/// const DAY: Duration = Duration::from_secs(24 * 3600);
///
/// fn place_order(scheduler: &Scheduler, number: u32) {
///     let later = scheduler.clone();
///     // If the wheel is gone by then, the error gives the job back, and it is dropped here.
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

    /// Runs `job` after a delay, at an instant, or at a wall-clock time, as
    /// [`Wheel::insert`](crate::Wheel::insert) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel or the calling thread's shard is full, or the wheel
    /// is gone.
    #[doc(alias(
        "timeout",
        "set_timeout",
        "sleep",
        "delay",
        "schedule",
        "after",
        "insert_at",
        "ttl"
    ))]
    #[inline]
    pub fn insert<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: Task + Send + 'static,
    {
        self.engine.insert(when.into(), job)
    }

    /// The same as [`Scheduler::insert`], under the name it has on a wheel.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::insert`].
    #[inline]
    pub fn try_insert<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: Task + Send + 'static,
    {
        self.insert(when, job)
    }

    /// Inserts a job that knows its own handle, as
    /// [`Wheel::insert_with`](crate::Wheel::insert_with) does.
    ///
    /// # Errors
    ///
    /// [`InsertErrorKind`]: the wheel is full or gone, and `make` was not called; or the wheel ended
    /// during the call, and the job was dropped.
    pub fn insert_with<F>(
        &self,
        when: impl Into<When>,
        make: impl FnOnce(Handle) -> F,
    ) -> Result<Handle, InsertErrorKind>
    where
        F: Task + Send + 'static,
    {
        self.engine.insert_with(when.into(), make)
    }

    /// Runs `job` once every `period`, as [`Wheel::every`](crate::Wheel::every) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the period is zero, the wheel or the calling thread's shard is
    /// full, or the wheel is gone.
    #[doc(alias("interval", "set_interval", "periodic"))]
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
    #[doc(alias("retry", "backoff", "cron"))]
    pub fn repeat<F>(&self, repeat: Repeat, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnMut(Run) -> Next + Send + 'static,
    {
        self.engine.repeat(repeat, job)
    }

    /// Inserts many jobs at once, as [`Wheel::insert_batch`](crate::Wheel::insert_batch) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the whole batch: the wheel or the calling thread's shard has no room
    /// for all of it, or the wheel is gone.
    pub fn insert_batch<W, F>(
        &self,
        timers: impl IntoIterator<Item = (W, F)>,
    ) -> Result<Vec<Handle>, InsertError<Vec<(W, F)>>>
    where
        W: Into<When> + Copy,
        F: Task + Send + 'static,
    {
        self.engine.insert_batch(timers.into_iter().collect())
    }

    /// Cancels many jobs at once, as [`Wheel::cancel_batch`](crate::Wheel::cancel_batch) does.
    pub fn cancel_batch(&self, handles: &[Handle]) -> Vec<bool> {
        self.engine.cancel_batch(handles)
    }

    /// Gives many jobs new times, as [`Wheel::reset_batch`](crate::Wheel::reset_batch) does.
    pub fn reset_batch<W>(&self, timers: &[(Handle, W)]) -> Vec<bool>
    where
        W: Into<When> + Copy,
    {
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

    /// Gives a pending job a new time, as [`Wheel::reset`](crate::Wheel::reset) does.
    #[doc(alias("reset_at", "reschedule", "extend", "touch", "pause", "refresh"))]
    #[inline]
    pub fn reset(&self, handle: Handle, when: impl Into<When>) -> bool {
        self.engine.reset(handle, when.into())
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

    /// Returns whether no job is pending or in flight, as
    /// [`Wheel::is_idle`](crate::Wheel::is_idle) does.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }

    /// Returns the reading of the wheel's clock, as [`Wheel::now`](crate::Wheel::now) does.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.timebase().now()
    }

    /// Returns the reading of the wheel's wall clock, as
    /// [`Wheel::wall_now`](crate::Wheel::wall_now) does.
    #[must_use]
    pub fn wall_now(&self) -> SystemTime {
        self.engine.timebase().clock().wall()
    }

    /// Returns the length of a tick, as [`Wheel::tick`](crate::Wheel::tick) does.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.engine.timebase().scale().tick()
    }

    /// Returns the counters, as [`Wheel::stats`](crate::Wheel::stats) does.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }
}

impl From<&Scheduler> for Scheduler {
    fn from(scheduler: &Scheduler) -> Scheduler {
        scheduler.clone()
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("pending", &self.len()).finish_non_exhaustive()
    }
}
