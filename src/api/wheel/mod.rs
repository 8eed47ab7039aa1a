//! The wheel's owner: it has every verb, and when it is dropped its threads end. The verbs for
//! repeating jobs and for many jobs at once have files of their own.

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

/// A timer for hundreds of thousands of timeouts at once: takes a delay and a job, returns a
/// [`Handle`], and runs the job on a rayon pool once the delay has passed, unless the handle was
/// used before that to cancel it.
///
/// Every verb takes `&self` and may be called from any thread, from a running job, and from the
/// drop of a captured value. A verb for one job costs the same for any number of timers: one lock,
/// shared with few threads, held for some tens of nanoseconds. [`Wheel::len`], [`Wheel::is_empty`]
/// and [`Wheel::stats`] take every shard's lock, one after the other.
///
/// On a full wheel ([`InsertErrorKind::Full`](crate::InsertErrorKind::Full)) `insert` and
/// `insert_at` panic. `try_insert`, `try_insert_at` and every other insert return an error.
///
/// # What a wheel promises
///
/// A job never starts before its delay has passed, counted from the call of the insert. The wheel
/// reads the clock before it takes a lock. ([`Keyed`](crate::Keyed) and [`Group`](crate::Group)
/// take their own lock first, and their delays count from after that; a job is never early all the
/// same.)
///
/// A job is handed to the pool at most one tick after its delay has passed, plus the time that the
/// ticker takes to wake, plus its slack if it has any; beyond
/// [`Builder::max_in_flight`](crate::Builder::max_in_flight) it waits for room first. It runs at
/// most once, unless it repeats. A job that panics is counted and reported. A job that blocks holds
/// up its own thread alone, and so does a job that waits inside rayon (hold no lock across such a
/// wait). The order of jobs that are due at one tick is not promised. `docs/guarantees.md` lists
/// every promise with its test.
///
/// # The end of a wheel
///
/// Dropping a wheel stops the ticker and waits for it, and discards the jobs that are pending or
/// wait for a thread of the pool. It does not wait for running jobs; a job that a thread of the
/// pool has just taken may start right after the drop. [`Wheel::shutdown`] waits, and hands back
/// the jobs that never ran. A job may drop the wheel it runs on, or shut it down. In the child of a
/// `fork` a wheel has no threads: build it after the fork.
pub struct Wheel {
    engine: Arc<Engine>,
    /// `None` for a manual wheel.
    threads: Option<Threads>,
    /// Not owned by the engine: see `host/unwind.rs`.
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
    /// The delay counts from the call, and its end is rounded up to a tick. A delay of zero is due
    /// at the first tick after the present, however long the wheel was idle. An insert costs one
    /// lock and one allocation for the closure, none for a closure without captures.
    ///
    /// # Panics
    ///
    /// When the wheel has [`Builder::max_pending`](crate::Builder::max_pending) pending jobs, or
    /// the calling thread's shard holds 2^32 - 1 jobs. [`Wheel::try_insert`] returns an error
    /// instead.
    #[inline]
    pub fn insert<F>(&self, delay: Duration, job: F) -> Handle
    where
        F: FnOnce() + Send + 'static,
    {
        self.engine.insert(delay, job).unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// Runs `job` on the pool at an [`Instant`](std::time::Instant) or at a wall-clock time, a
    /// [`SystemTime`](std::time::SystemTime). If that has passed, the job is due at the first tick
    /// after the present, however long the wheel was idle. (It takes a [`Duration`] too, as
    /// [`Wheel::insert`] does.)
    ///
    /// An instant is a point on the monotonic clock, which nobody sets. A job for a wall-clock time
    /// follows the wall clock: if that is set forward or back, the job runs sooner or later by as
    /// much. It never runs before the wall clock reads its time, and it is never lost. If the wall
    /// clock is set past its time, or the machine sleeps past it, the job runs within about a
    /// second, because the ticker looks at the wall clock once a second while any job waits for it.
    /// If the wall clock is set by less than 10 ms, a job may be late by as much.
    ///
    /// A job for a wall-clock time costs two locks instead of one, and an entry in a second table.
    /// It is pending until it starts, also while it waits for a thread of the pool: until then it
    /// can be cancelled and reset, and on a bounded wheel it takes room.
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
    /// [`InsertError`] with the job, of the kind
    /// [`InsertErrorKind::Full`](crate::InsertErrorKind::Full): the wheel has
    /// [`Builder::max_pending`](crate::Builder::max_pending) pending jobs, or the calling thread's
    /// shard holds 2^32 - 1 jobs.
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

    /// Runs `job` once `delay` has passed, and at most `slack` later. Of the ticks in between it
    /// takes the one that other jobs with slack are most likely to take, so that the ticker wakes
    /// once for many jobs.
    ///
    /// That is the tick whose number can be halved most often. A job may be late by its whole slack
    /// although no other job shares its tick. If no tick begins within the slack, the job is due at
    /// the next one, as without slack. A reset gives the job an exact time, without slack. The cost
    /// is that of [`Wheel::insert`].
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

    /// Cancels a job. Returns `true` if the job was pending: it will never run, and it is dropped
    /// already, its memory freed. Returns `false` if nothing was changed: the job was handed to the
    /// pool, has run, was cancelled before, or belongs to another wheel.
    ///
    /// The job is dropped on the calling thread. If a captured value panics then, the panic is
    /// counted and reported as a job's panic is. A cancel waits for no job: a running job goes on.
    ///
    /// Two kinds of jobs can be cancelled for longer: a repeating job also while it waits for a
    /// thread of the pool and while it runs, even by itself; and a job for a wall-clock time until
    /// it starts. For these, `true` means that no further run starts. If the job is with the pool
    /// at that moment, it is dropped there: when a thread comes to it, or when its run has ended.
    #[inline]
    pub fn cancel(&self, handle: Handle) -> bool {
        self.engine.cancel(handle)
    }

    /// Cancels a job and gives it back. Returns `None` if the job is not in the wheel: where
    /// [`Wheel::cancel`] returns `false`, and also if a repeating job or a job for a wall-clock
    /// time is with the pool. Such a job is left as it is, and can still be cancelled.
    ///
    /// A one-shot job that was handed to the pool cannot be taken back. It runs, unless a shutdown
    /// hands it back or a drop of the wheel discards it before it starts.
    #[inline]
    pub fn take(&self, handle: Handle) -> Option<Job> {
        self.engine.take(handle)
    }

    /// Gives a pending job a new delay, counted from the call. Returns whether the job was pending.
    ///
    /// A reset to a later time costs one lock and one store, so an idle timeout can be pushed back
    /// with every packet. A reset to an earlier time moves the job to another slot.
    ///
    /// A reset of a repeating job moves the next run, and the phase with it; the period stays.
    /// During a run it moves the run that follows, unless the run under way returns
    /// [`Next::Stop`](crate::Next::Stop).
    #[inline]
    pub fn reset(&self, handle: Handle, delay: Duration) -> bool {
        self.engine.reset(handle, delay)
    }

    /// Gives a pending job a new time, as for [`Wheel::insert_at`]. Returns whether the job was
    /// pending.
    ///
    /// A job that was inserted for a delay or an instant, and does not repeat, does not follow the
    /// wall clock after a reset to a wall-clock time. It is due at the instant at which the wall
    /// clock reads that time if nobody sets it.
    pub fn reset_at(&self, handle: Handle, when: impl Into<When>) -> bool {
        self.engine.reset_when(handle, when.into())
    }

    /// Returns whether the job is pending: in the wheel, not handed to the pool, not cancelled. A
    /// cancel would then succeed. A repeating job is pending until its last run has ended, and a
    /// job for a wall-clock time until it starts.
    #[must_use]
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.engine.is_pending(handle)
    }

    /// Returns the time until a pending job is due, rounded up to a tick: zero if it is due, and
    /// waits to be handed over or is with the pool; [`Duration::MAX`] if it is never due. Returns
    /// `None` if it is not pending.
    #[must_use]
    pub fn remaining(&self, handle: Handle) -> Option<Duration> {
        self.engine.remaining(handle)
    }

    /// Returns where on the rings a pending job lies, for drawings and diagnosis. Returns `None` if
    /// it is not in the wheel.
    #[must_use]
    pub fn location(&self, handle: Handle) -> Option<Location> {
        self.engine.location(handle)
    }

    /// Returns the number of jobs in the wheel. A job that is with the pool is not counted, even if
    /// it is pending ([`Wheel::is_pending`]), as a repeating job is during its run.
    ///
    /// Takes every shard's lock, one after the other.
    #[must_use]
    pub fn len(&self) -> usize {
        self.engine.len()
    }

    /// Returns whether no job is in the wheel. Costs what [`Wheel::len`] does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counters and the lateness so far. Lateness, and the ticks by which the ticker is
    /// behind, count from when a job could have been handed over: time before the job was inserted
    /// or reset is in neither. A [`Scheduler`] returns them also when the wheel is gone.
    ///
    /// Takes every shard's lock, one after the other, and some microseconds for the percentiles.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Returns a scheduler, which has the wheel's verbs and does not keep the wheel alive.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        Scheduler::new(Arc::clone(&self.engine))
    }

    /// Stops the wheel: takes in and starts no more jobs, and waits until running jobs have ended
    /// and the wheel's threads are gone. Returns every job that never ran, and every repeating job
    /// that would run again.
    ///
    /// It waits as long as the running jobs take. **On a thread of the wheel's pool it waits for no
    /// job and no thread of the pool**: in a job, in another task of the pool, and in an `install`.
    /// A running job may wait for a task that lies below the caller on that thread's stack, so
    /// waiting for the job could last for ever. In that case running jobs go on as after a drop,
    /// and those that repeat do not come back.
    ///
    /// If a job waits for another thread that calls `shutdown`, by joining it or inside another
    /// pool's `install`, both wait for ever.
    ///
    /// A pool that was handed to the builder goes on. The jobs of a manual wheel run inside
    /// [`Driver::advance`](crate::Driver::advance): a job that another thread is running at that
    /// moment is not waited for, and does not come back if it repeats.
    pub fn shutdown(mut self) -> Unfired {
        let mut unstarted = self.engine.stop();
        let handed_over = self.threads.take().map(Threads::stop_and_join);
        unstarted.extend(self.engine.collect_unstarted(handed_over.into_iter().flatten()));
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
        let others = self.engine.collect_unstarted(handed_over.into_iter().flatten());
        pending.into_iter().chain(others).for_each(|(.., job)| self.engine.discard(job));
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("pending", &self.len()).finish_non_exhaustive()
    }
}
