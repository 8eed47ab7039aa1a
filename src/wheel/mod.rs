//! The front door, and the owner: when the wheel goes, its threads go. The verbs for repeating jobs, and
//! for many jobs at once, are in files of their own.

mod batch;
mod repeat;

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::InsertError;
use crate::handle::Handle;
use crate::hierarchy::Location;
use crate::job::Job;
use crate::scheduler::Scheduler;
use crate::staff::Staff;
use crate::stats::Stats;
use crate::unfired::{Unfired, UnfiredJob};
use crate::when::When;

/// A timer for hundreds of thousands of timeouts at once: takes a delay and a job, gives back a
/// [`Handle`], and runs the job on a rayon pool once the delay has passed, unless the handle was
/// used before that to cancel it.
///
/// Every verb takes `&self` and may be called from any thread, from a running job, and from the
/// drop of a captured value. All but [`Wheel::len`] and [`Wheel::stats`] cost the same whatever the
/// number of timers: one lock, shared with few, held for some tens of nanoseconds.
///
/// # What a wheel promises
///
/// A job never starts before its delay has passed, counted from before the insert was called. It is
/// handed to the pool at most one tick after that, plus the time that the ticker takes to wake. It
/// runs at most once. A job that panics is counted and reported, one that blocks holds up its own
/// thread. The order of jobs that are due at one tick is not promised. `docs/guarantees.md` has every
/// promise, each with its test.
///
/// # When it goes
///
/// Dropping a wheel stops the ticker and waits for it, discards what is pending, and does not wait
/// for running jobs. [`Wheel::shutdown`] does, and hands back what never ran. A job may drop the
/// wheel it runs on, or shut it down.
pub struct Wheel {
    engine: Arc<Engine>,
    /// A manual wheel has none.
    staff: Option<Staff>,
}

impl Wheel {
    pub(crate) fn assemble(engine: Arc<Engine>, staff: Option<Staff>) -> Wheel {
        Wheel { engine, staff }
    }

    /// Runs `job` on the pool once `delay` has passed. [`Duration::MAX`] means never; the job can
    /// still be cancelled, reset or taken.
    ///
    /// The delay counts from before the call, and is rounded up to whole ticks; without a delay, the
    /// job is due at the next tick. One allocation, for the closure, and none for a closure without
    /// captures.
    ///
    /// # Panics
    ///
    /// When the wheel is full, which only one with [`Builder::max_pending`](crate::Builder::max_pending)
    /// can be, and with 2^32 jobs pending in one shard. See [`Wheel::try_insert`].
    #[inline]
    pub fn insert<F>(&self, delay: Duration, job: F) -> Handle
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert(delay, job).unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// Runs `job` on the pool at an [`Instant`](std::time::Instant) or at a time of day
    /// ([`SystemTime`](std::time::SystemTime)). If that is past, the job is due at the next tick.
    ///
    /// An instant is a point on the monotonic clock, which nobody sets. A time of day follows the wall
    /// clock: should that be set forward or back, the job runs sooner or later by as much, and at once
    /// if its time was jumped over. It never runs before the wall clock reads its time, and is never
    /// lost. That the clock was set forward, or that the machine slept, is noticed within a second.
    /// While any job waits for a time of day, the ticker wakes once a second to look.
    ///
    /// Such a job costs more than others (its handle is kept in a second table), and until its first
    /// instruction it can be cancelled, also when it is on its way to the pool: see
    /// [`Wheel::cancel`].
    ///
    /// # Panics
    ///
    /// As [`Wheel::insert`].
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tickwheel::Wheel;
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let hour = Duration::from_secs(3600);
    /// wheel.insert_at(driver.wall_now() + 3 * hour, || println!("it is three hours later"));
    /// driver.set_wall(driver.wall_now() + hour); // the clocks go forward
    /// assert_eq!(driver.advance(2 * hour), 1);
    /// # Ok::<(), tickwheel::ConfigError>(())
    /// ```
    pub fn insert_at<F>(&self, when: impl Into<When>, job: F) -> Handle
    where
        F: FnOnce() + Send + 'static,
    {
        self.try_insert_at(when, job).unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// As [`Wheel::insert`], and gives the job back when the wheel is full.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: there are
    /// [`Builder::max_pending`](crate::Builder::max_pending) jobs pending.
    #[inline]
    pub fn try_insert<F>(&self, delay: Duration, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert(delay, job)
    }

    /// As [`Wheel::insert_at`], and gives the job back when the wheel is full.
    ///
    /// # Errors
    ///
    /// As [`Wheel::try_insert`].
    pub fn try_insert_at<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert_when(when.into(), job)
    }

    /// Runs `job` once `delay` has passed, and no later than `slack` after that: on whichever tick in
    /// between it is most likely to share with others, so that the ticker wakes once for many.
    ///
    /// That is the tick whose number can be halved most often: jobs that could share a tick mostly do,
    /// whatever their delays, and without looking for each other. A slack shorter than a tick changes
    /// nothing. Both together are rounded up by less than a tick, as any delay.
    ///
    /// # Panics
    ///
    /// As [`Wheel::insert`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let ms = Duration::from_millis(1);
    /// for delay in 900..920 {
    ///     wheel.insert_within(delay * ms, 100 * ms, || println!("cache entry dropped"));
    /// }
    /// assert_eq!(driver.advance(959 * ms), 0);
    /// assert_eq!(driver.advance(ms), 20); // all of them at 960, which is 15 * 64
    /// # Ok::<(), tickwheel::ConfigError>(())
    /// ```
    pub fn insert_within<F>(&self, delay: Duration, slack: Duration, job: F) -> Handle
    where
        F: FnOnce() + Send + 'static,
    {
        self.try_insert_within(delay, slack, job).unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// As [`Wheel::insert_within`], and gives the job back when the wheel is full.
    ///
    /// # Errors
    ///
    /// As [`Wheel::try_insert`].
    pub fn try_insert_within<F>(
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

    /// Cancels a job. `true` means that it will never run, and that it is dropped already, its
    /// memory included. `false` means that nothing was changed: it has been handed to the pool, or
    /// has run, or was cancelled before, or is not of this wheel.
    ///
    /// The job is dropped on the calling thread; should a captured value panic then, that is counted
    /// and reported as a job's panic is.
    ///
    /// A repeating job, and one that waits for a time of day, can be cancelled longer: a repeating one
    /// also while it runs, from inside too, the other until it starts. `true` then means that no
    /// further run starts; if it is in the hands of the pool, it is dropped there, at the end of its
    /// run at the latest.
    #[inline]
    pub fn cancel(&self, handle: Handle) -> bool {
        self.engine.cancel(handle)
    }

    /// Cancels a job and gives it back; `None` where [`Wheel::cancel`] answers `false`, and for a
    /// repeating job that is in the hands of the pool: it goes on.
    #[inline]
    pub fn take(&self, handle: Handle) -> Option<Job> {
        self.engine.take(handle)
    }

    /// Gives a pending job a new delay, counted from now; whether it was still pending.
    ///
    /// To a later time this is one store: push back an idle timeout with every packet that arrives.
    ///
    /// Of a repeating job this moves the next run, and the phase with it; if a run is under way, the
    /// one that follows, unless that run answers [`Next::Stop`].
    #[inline]
    pub fn reset(&self, handle: Handle, delay: Duration) -> bool {
        self.engine.reset(handle, delay)
    }

    /// Gives a pending job a new time, as for [`Wheel::insert_at`]; whether it was still pending.
    ///
    /// A job that was inserted with a delay or an instant does not learn to follow the wall clock: a
    /// time of day means to it the instant at which the clock, as it goes now, will read that.
    pub fn reset_at(&self, handle: Handle, when: impl Into<When>) -> bool {
        self.engine.reset_when(handle, when.into())
    }

    /// Whether the job is in the wheel: not handed to the pool, not cancelled. A repeating job is
    /// pending until its last run has ended, and one that waits for a time of day until it starts.
    #[must_use]
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.engine.is_pending(handle)
    }

    /// How long it is until a pending job is due, rounded up to a tick: zero when it is due and
    /// waits to be handed over, or is repeating and in the hands of the pool; [`Duration::MAX`] when
    /// it never will be. `None` when it is not pending.
    #[must_use]
    pub fn remaining(&self, handle: Handle) -> Option<Duration> {
        self.engine.remaining(handle)
    }

    /// Where on the rings a pending job lies: for drawings, and for the curious.
    #[must_use]
    pub fn location(&self, handle: Handle) -> Option<Location> {
        self.engine.location(handle)
    }

    /// How many jobs are pending. Takes every shard's lock, one after the other.
    #[must_use]
    pub fn len(&self) -> usize {
        self.engine.len()
    }

    /// Whether no job is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters and lateness so far; a [`Scheduler`] still tells them when the wheel is gone. Takes
    /// every shard's lock, one after the other, and some microseconds for the percentiles.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// A way to use the wheel that does not keep it alive.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        Scheduler::new(Arc::clone(&self.engine))
    }

    /// Stops the wheel: takes no more jobs, starts no more jobs, waits until running ones have
    /// ended and the wheel's threads are gone, and hands back every job that never ran.
    ///
    /// Waits as long as the jobs that are running take. Called by a job of this wheel, it does not
    /// wait for that job, nor for the threads. That goes for the job itself, and for what it spawned;
    /// where the job waits for the caller, as it does for both halves of a `rayon::join` and for
    /// another pool's `install`, the two wait for each other for ever.
    ///
    /// A pool that was handed to the builder goes on. The jobs of a manual wheel run inside of
    /// [`Driver::advance`](crate::Driver::advance): one that another thread is running at that moment
    /// is not waited for.
    pub fn shutdown(mut self) -> Unfired {
        let mut unstarted = self.engine.stop();
        let handed_over = self.staff.take().map(Staff::dismiss_and_wait);
        unstarted.extend(self.engine.end(handed_over.into_iter().flatten()));
        unstarted.sort_by_key(|&(_, deadline, _)| deadline);
        let timing = self.engine.timing();
        let jobs = unstarted.into_iter().map(|(handle, deadline, job)| UnfiredJob {
            handle,
            remaining: timing.until(deadline),
            job,
        });
        Unfired::new(jobs.collect(), Arc::clone(&self.engine))
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        let pending = self.engine.stop();
        let handed_over = self.staff.take().map(Staff::dismiss);
        let others = self.engine.end(handed_over.into_iter().flatten());
        pending.into_iter().chain(others).for_each(|(.., job)| self.engine.discard(job));
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("pending", &self.len()).finish_non_exhaustive()
    }
}
