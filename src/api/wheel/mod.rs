//! The front door, and the owner: when the wheel goes, its threads go. The verbs for repeating
//! jobs, and for many jobs at once, are in files of their own.

mod batch;
mod repeat;

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::scheduler::Scheduler;
use crate::api::unfired::{Unfired, UnfiredJob};
use crate::engine::metrics::Stats;
use crate::engine::threads::Threads;
use crate::engine::verbs::Engine;
use crate::host::unwind::PanicHandler;
use crate::structure::Location;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::Job;
use crate::values::when::When;

/// A timer for hundreds of thousands of timeouts at once: takes a delay and a job, gives back a
/// [`Handle`], and runs the job on a rayon pool once the delay has passed, unless the handle was
/// used before that to cancel it.
///
/// Every verb takes `&self` and may be called from any thread, from a running job, and from the
/// drop of a captured value. A verb for one job costs the same whatever the number of timers: one
/// lock, shared with few, held for some tens of nanoseconds. [`Wheel::len`], [`Wheel::is_empty`]
/// and [`Wheel::stats`] take every shard's lock, one after the other.
///
/// On a full wheel ([`Builder::max_pending`](crate::Builder::max_pending)) `insert` and `insert_at`
/// panic, and their `try_` return an error, as every other insert does.
///
/// # What a wheel promises
///
/// A job never starts before its delay has passed, counted from before the insert was called. It is
/// handed to the pool at most one tick after that, plus the time that the ticker takes to wake, and
/// plus the slack if it was given any. It runs at most once, unless it was asked to repeat. A job
/// that panics is counted and reported, one that blocks holds up its own thread, and so does one that
/// waits inside rayon (hold no lock across such a wait). The order of jobs that are due at one tick
/// is not promised. `docs/guarantees.md` has every promise, each with its
/// test.
///
/// # When it goes
///
/// Dropping a wheel stops the ticker and waits for it, discards what is pending, and does not wait
/// for running jobs; a job that a thread of the pool has just taken may start right after the drop.
/// [`Wheel::shutdown`] waits, and hands back what never ran. A job may drop the wheel it runs on, or
/// shut it down. In the child of a `fork` a wheel has no threads: build it after the fork.
pub struct Wheel {
    engine: Arc<Engine>,
    /// A manual wheel has none.
    threads: Option<Threads>,
    /// The engine only borrows it: see `host/unwind.rs`.
    panic_handler: Option<Arc<PanicHandler>>,
}

impl Wheel {
    pub(crate) fn assemble(
        engine: Arc<Engine>,
        threads: Option<Threads>,
        panic_handler: Option<Arc<PanicHandler>>,
    ) -> Wheel {
        Wheel { engine, threads, panic_handler }
    }

    /// Runs `job` on the pool once `delay` has passed. [`Duration::MAX`] means never; the job can
    /// still be cancelled, reset or taken.
    ///
    /// The delay counts from before the call, and is rounded up to whole ticks; without a delay,
    /// the job is due at the next tick. One allocation, for the closure, and none for a closure
    /// without captures.
    ///
    /// # Panics
    ///
    /// When the wheel is full, which only one with
    /// [`Builder::max_pending`](crate::Builder::max_pending) can be, and with 2^32 jobs pending in
    /// one shard. See [`Wheel::try_insert`].
    #[inline]
    pub fn insert<F>(&self, delay: Duration, job: F) -> Handle
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert(delay, job).unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// Runs `job` on the pool at an [`Instant`](std::time::Instant) or at a wall-clock time, a
    /// [`SystemTime`](std::time::SystemTime). If that is past, the job is due at the next tick.
    /// (After a [`Duration`], too; that is what [`Wheel::insert`] does.)
    ///
    /// An instant is a point on the monotonic clock, which nobody sets. A wall-clock time follows
    /// the wall clock: if that is set forward or back, the job runs sooner or later by as much. It
    /// never runs before the wall clock reads its time, and it is never lost. When the clock is set
    /// past its time, or when the machine slept past it, the job runs within about a second: as
    /// long as any job waits for a wall-clock time, the ticker wakes once a second to look. Changes
    /// of less than 10 ms may be late by as much.
    ///
    /// Such a job costs more than others: two locks instead of one, and a seat in a second table.
    /// Until it starts it is pending, also when it waits for a thread of the pool: it can be
    /// cancelled and reset, and on a bounded wheel it takes room.
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

    /// Runs `job` once `delay` has passed, and no later than `slack` after that: at whichever tick
    /// in between it is most likely to share with others, so that the ticker wakes once for many.
    ///
    /// That is the tick whose number can be halved most often, so jobs meet without looking for
    /// each other. One that is alone may be late by its whole slack, too. If no tick begins within
    /// the slack, it is the next, as without slack. A reset gives an exact time: the slack is not
    /// kept.
    ///
    /// # Errors
    ///
    /// As [`Wheel::try_insert`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let ms = Duration::from_millis(1);
    /// for delay in 900..920 {
    ///     wheel.insert_within(delay * ms, 100 * ms, || println!("cache entry dropped"))?;
    /// }
    /// assert_eq!(driver.advance(959 * ms), 0);
    /// assert_eq!(driver.advance(ms), 20); // all of them at 960, which is 15 * 64
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Cancels a job. `true` means that it will never run, and that it is dropped already, its
    /// memory included. `false` means that nothing was changed: it has been handed to the pool, or
    /// has run, or was cancelled before, or is not of this wheel.
    ///
    /// The job is dropped on the calling thread; should a captured value panic then, that is
    /// counted and reported as a job's panic is. A cancel does not wait for anything: a job that
    /// runs goes on.
    ///
    /// Two kinds of jobs can be cancelled for longer: a repeating one also while it runs, even by
    /// itself, and one for a wall-clock time until it starts. For them `true` means that no further
    /// run starts; and one that is with the pool at that moment is dropped there, once the pool has
    /// come to it, or when its run has ended.
    #[inline]
    pub fn cancel(&self, handle: Handle) -> bool {
        self.engine.cancel(handle)
    }

    /// Cancels a job and gives it back; `None` where [`Wheel::cancel`] answers `false`. And also
    /// for a repeating job, or one for a wall-clock time, that is with the pool: that one is left
    /// alone.
    #[inline]
    pub fn take(&self, handle: Handle) -> Option<Job> {
        self.engine.take(handle)
    }

    /// Gives a pending job a new delay, counted from now; whether it was still pending.
    ///
    /// To a later time this is one store: push back an idle timeout with every packet that arrives.
    ///
    /// Of a repeating job this moves the next run, and the phase with it, and leaves the period as
    /// it is. If a run is under way, it moves the one that follows, unless that run answers
    /// [`Next::Stop`](crate::Next::Stop).
    #[inline]
    pub fn reset(&self, handle: Handle, delay: Duration) -> bool {
        self.engine.reset(handle, delay)
    }

    /// Gives a pending job a new time, as for [`Wheel::insert_at`]; whether it was still pending.
    ///
    /// A job that was inserted for a delay or an instant, and does not repeat, is moved to the
    /// instant at which the wall clock would read a wall-clock time if nobody set it; it does not
    /// follow.
    pub fn reset_at(&self, handle: Handle, when: impl Into<When>) -> bool {
        self.engine.reset_when(handle, when.into())
    }

    /// Whether a cancel would succeed: the job is in the wheel, not handed to the pool, not
    /// cancelled. A repeating job is pending until its last run has ended, and one for a wall-clock
    /// time until it starts.
    #[must_use]
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.engine.is_pending(handle)
    }

    /// How long it is until a pending job is due, rounded up to a tick: zero when it is due, and
    /// still waits to be handed over or is with the pool; [`Duration::MAX`] when it never will be.
    /// `None` when it is not pending.
    #[must_use]
    pub fn remaining(&self, handle: Handle) -> Option<Duration> {
        self.engine.remaining(handle)
    }

    /// Where on the rings a pending job lies: for drawings, and for the curious.
    #[must_use]
    pub fn location(&self, handle: Handle) -> Option<Location> {
        self.engine.location(handle)
    }

    /// How many jobs lie in the wheel. One that is with the pool is not counted, also if it is
    /// pending ([`Wheel::is_pending`]): a repeating job between its start and its return.
    ///
    /// Takes every shard's lock, one after the other.
    #[must_use]
    pub fn len(&self) -> usize {
        self.engine.len()
    }

    /// Whether no job lies in the wheel. Costs what [`Wheel::len`] does.
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
    /// ended and the wheel's threads are gone, and hands back every job that never ran, and every
    /// repeating job that would run again.
    ///
    /// Waits as long as the jobs that are running take. **On a thread of the wheel's pool it waits for
    /// nobody**: in a job, in another task of the pool, and in an `install`. What lies below the caller
    /// on that thread's stack may be what a running job waits for, so to wait for the job could be to
    /// wait for ever. There, running jobs go on as after a drop, and those of them that repeat do not
    /// come back.
    ///
    /// A job that waits for some other thread which calls `shutdown`, by joining it or inside another
    /// pool's `install`, waits for ever, as the shutdown waits for it.
    ///
    /// A pool that was handed to the builder goes on. The jobs of a manual wheel run inside of
    /// [`Driver::advance`](crate::Driver::advance): one that another thread is running at that
    /// moment is not waited for, and does not come back if it repeats.
    pub fn shutdown(mut self) -> Unfired {
        let mut unstarted = self.engine.stop();
        let handed_over = self.threads.take().map(Threads::stop_and_join);
        unstarted.extend(self.engine.finish_shutdown(handed_over.into_iter().flatten()));
        unstarted.sort_by_key(|&(_, deadline, _)| deadline);
        let timebase = self.engine.timebase();
        let jobs = unstarted.into_iter().map(|(handle, deadline, job)| UnfiredJob {
            handle,
            remaining: timebase.until(deadline),
            job,
        });
        Unfired::new(jobs.collect(), Arc::clone(&self.engine), self.panic_handler.take())
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        let pending = self.engine.stop();
        let handed_over = self.threads.take().map(Threads::stop);
        let others = self.engine.finish_shutdown(handed_over.into_iter().flatten());
        pending.into_iter().chain(others).for_each(|(.., job)| self.engine.discard(job));
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("pending", &self.len()).finish_non_exhaustive()
    }
}
