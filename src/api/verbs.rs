//! The verbs that a wheel and its schedulers share: both get each of them from one macro.

use std::time::{Duration, Instant, SystemTime};

use crate::api::scheduler::Scheduler;
use crate::api::wheel::Wheel;
use crate::engine::metrics::Stats;
use crate::structure::Location;
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Job, Task};
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::time::When;

macro_rules! verbs {
    ($front:ty) => {
        impl $front {
            /// As [`Wheel::insert`], but returns the job in an error when the wheel is full or
            /// gone. On a [`Scheduler`], `insert` is the same.
            ///
            /// # Errors
            ///
            /// [`InsertError`] with the job, of the kind [`InsertErrorKind::Full`], or, after the end
            /// of the wheel, of the kind [`InsertErrorKind::Shutdown`].
            #[inline]
            pub fn try_insert<F>(
                &self,
                when: impl Into<When>,
                job: F,
            ) -> Result<Handle, InsertError<F>>
            where
                F: Task + Send + 'static,
            {
                self.engine().insert(when.into(), job)
            }

            /// Runs a job as soon as a thread of the pool is free. It does not wait for the ticker, which takes one
            /// change of threads less than an insert with a delay of zero.
            ///
            /// The job may start before jobs that are due and that the ticker has not handed over yet. It is never
            /// pending: it cannot be cancelled, and takes no room of
            /// [`Builder::max_pending`](crate::Builder::max_pending). In all else it is a job like the others: its panic is counted and
            /// reported, [`Wheel::wait_idle`] waits for it, and a shutdown hands it back if it has not started.
            ///
            /// It is an insert with a delay of zero in these cases: the wheel has no threads
            /// ([`Builder::manual`](crate::Builder::manual), [`Builder::driven`](crate::Builder::driven)); its pool
            /// has not started yet; jobs in flight have a bound
            /// ([`Builder::max_in_flight`](crate::Builder::max_in_flight)); or the job is a [`Job`] that was in a
            /// wheel before. A spawn costs a lock, the allocation of the job, and a task of the pool if a thread is free.
            ///
            /// # Errors
            ///
            /// [`InsertError`] with the job, if the wheel has ended. If the spawn is an insert: as
            /// [`Wheel::try_insert`].
            ///
            /// ```
            /// use tickwheel::Wheel;
            /// let wheel = Wheel::new();
            /// wheel.spawn(|| println!("at once"))?;
            /// wheel.wait_idle();
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[doc(alias("execute", "run_now", "immediate"))]
            pub fn spawn<F>(&self, job: F) -> Result<(), InsertError<F>>
            where
                F: Task + Send + 'static,
            {
                self.engine().spawn(job)
            }

            /// Inserts a job that knows its own handle: `make` gets the handle and returns the job.
            /// For programs that keep handles in a map, from which the job removes its own.
            ///
            /// Such a job is [pending](Wheel::is_pending) until it starts. `make` runs once, on this
            /// thread, before the job is in the wheel. It may use the wheel; if it panics, the panic
            /// unwinds to the caller. This verb costs two locks more than `insert` and an entry in a
            /// second table. A reset of such a job costs more too.
            ///
            /// # Errors
            ///
            /// [`InsertErrorKind`]: the wheel is full or gone, and `make` was not called; or the
            /// wheel ended during the call, and the job was dropped.
            ///
            /// ```
            /// use std::collections::HashMap;
            /// use std::sync::{Arc, Mutex};
            /// use std::time::Duration;
            /// use tickwheel::{Handle, Wheel};
            ///
            /// let wheel = Wheel::new();
            /// let waiting: Arc<Mutex<HashMap<Handle, &str>>> = Arc::default();
            /// let requests = Arc::clone(&waiting);
            /// let handle = wheel.insert_with(Duration::from_secs(5), |handle| {
            ///     requests.lock().unwrap().insert(handle, "GET /");
            ///     move || {
            ///         let request = requests.lock().unwrap().remove(&handle);
            ///         println!("no answer came to {request:?}");
            ///     }
            /// })?;
            /// assert!(wheel.cancel(handle)); // it was answered
            /// assert_eq!(waiting.lock().unwrap().remove(&handle), Some("GET /"));
            /// # Ok::<(), tickwheel::InsertErrorKind>(())
            /// ```
            pub fn insert_with<F>(
                &self,
                when: impl Into<When>,
                make: impl FnOnce(Handle) -> F,
            ) -> Result<Handle, InsertErrorKind>
            where
                F: Task + Send + 'static,
            {
                self.engine().insert_with(when.into(), make)
            }

            /// Runs `job` once every `period`, the first time after one period, until it is
            /// cancelled or panics. Runs keep their phase for ever. A run never overlaps the one
            /// before; periods that are missed during a long run are skipped. [`Wheel::repeat`]
            /// offers other policies.
            ///
            /// The handle is the same for all runs. On a bounded wheel a repeating job takes room
            /// until its last run has ended, also while it runs. A run costs three locks. It
            /// allocates nothing, but on a pool rayon may allocate a task to hand it over.
            ///
            /// # Errors
            ///
            /// [`InsertError`] with the job: the period is zero, the wheel is full, or it has ended.
            ///
            /// ```
            /// use std::time::Duration;
            /// use tickwheel::Wheel;
            /// let (wheel, driver) = Wheel::builder().manual()?;
            /// let second = Duration::from_secs(1);
            /// let mut count = 0;
            /// let ping = wheel.every(second, move || {
            ///     count += 1;
            ///     println!("ping {count}");
            /// })?;
            /// assert_eq!(driver.advance(10 * second), 10);
            /// assert!(wheel.cancel(ping));
            /// assert_eq!(driver.advance(10 * second), 0);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[doc(alias("interval", "set_interval", "periodic"))]
            pub fn every<F>(&self, period: Duration, job: F) -> Result<Handle, InsertError<F>>
            where
                F: FnMut() + Send + 'static,
            {
                self.engine().every(period, job)
            }

            /// Runs `job` again and again, at the times that `repeat` and the results of its runs
            /// give. Every run gets a [`Run`]: its deadline, its lateness, the number of missed
            /// periods, and the job's handle.
            ///
            /// It costs as much as [`Wheel::every`].
            ///
            /// # Errors
            ///
            /// As [`Wheel::every`].
            ///
            /// ```
            /// use std::time::Duration;
            /// use tickwheel::{Missed, Next, Repeat, Wheel};
            /// let wheel = Wheel::new();
            /// let mut wait = Duration::from_millis(10);
            /// wheel.repeat(Repeat::irregular(), move |run| {
            ///     println!("try, {:?} late", run.late);
            ///     wait *= 2;
            ///     if wait < Duration::from_secs(60) { Next::After(wait) } else { Next::Stop }
            /// })?;
            /// let meter = Repeat::every(Duration::from_millis(5)).missed(Missed::Burst);
            /// wheel.repeat(meter, |run| {
            ///     println!("the reading of {:?}", run.deadline);
            ///     Next::Period
            /// })?;
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[doc(alias("retry", "backoff", "cron"))]
            pub fn repeat<F>(&self, repeat: Repeat, job: F) -> Result<Handle, InsertError<F>>
            where
                F: FnMut(Run) -> Next + Send + 'static,
            {
                self.engine().repeat(repeat, job)
            }

            /// Inserts many jobs at once, each with its own time. Returns their handles in the same
            /// order. The iterator is run to its end first; all delays count from the moment after
            /// that.
            ///
            /// A batch is all or nothing: without room for all of its jobs, none is inserted. It
            /// costs one reading of the clock and one lock, which is held until all jobs are
            /// inserted. For ten thousand that is 0.3 ms to 1.3 ms, and threads that share the
            /// shard wait meanwhile. Wall-clock times and jobs that repeat cost some more locks.
            /// For jobs of different types, make each a [`Job`](crate::Job).
            ///
            /// # Errors
            ///
            /// [`InsertError`] with the whole batch, if the wheel has no room for all of it, or has ended.
            ///
            /// ```
            /// use std::time::Duration;
            /// use tickwheel::Wheel;
            /// let wheel = Wheel::new();
            /// let day = Duration::from_secs(24 * 3600);
            /// let push = |user| (day, move || println!("good morning, user {user}"));
            /// let handles = wheel.insert_batch((0..10_000).map(push))?;
            /// let later: Vec<_> = handles.iter().map(|&handle| (handle, 2 * day)).collect();
            /// assert_eq!(wheel.reset_batch(&later), [true; 10_000]);
            /// assert_eq!(wheel.cancel_batch(&handles), [true; 10_000]);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            pub fn insert_batch<W, F>(
                &self,
                timers: impl IntoIterator<Item = (W, F)>,
            ) -> Result<Vec<Handle>, InsertError<Vec<(W, F)>>>
            where
                W: Into<When> + Copy,
                F: Task + Send + 'static,
            {
                self.engine().insert_batch(timers.into_iter().collect())
            }

            /// Cancels many jobs at once. Returns the result of [`Wheel::cancel`] for each, in the
            /// order of the handles. Of every 64 handles, those of one shard take one lock. The
            /// jobs are dropped on the calling thread, without a lock.
            pub fn cancel_batch(&self, handles: &[Handle]) -> Vec<bool> {
                self.engine().cancel_batch(handles)
            }

            /// Gives many jobs new times; all delays count from one moment. Returns the result of
            /// [`Wheel::reset`] for each, in the order of the handles. Of every 64 handles, those
            /// of one shard take one lock.
            pub fn reset_batch<W>(&self, timers: &[(Handle, W)]) -> Vec<bool>
            where
                W: Into<When> + Copy,
            {
                self.engine().reset_batch(timers)
            }

            /// Cancels a job. Returns `true` if the job was pending: it will never run, and it was
            /// dropped and its memory freed. Returns `false` if nothing was changed: the job was
            /// handed to the pool, has run, was cancelled before, or belongs to another wheel.
            ///
            /// The job is dropped on the calling thread. If a captured value panics then, the panic
            /// is counted and reported as a job's panic is. A cancel waits for no job: a running
            /// job goes on.
            ///
            /// Three kinds of jobs can be cancelled for longer: a repeating job also while it waits
            /// for a thread of the pool and while it runs, even by itself; and a job that was
            /// inserted by [`Wheel::insert_with`] or for a wall-clock time until it starts. For
            /// these, `true` means that no further run starts. If the job is with the pool at that
            /// moment, it is dropped there: when a thread comes to it, or when its run has ended.
            /// Under [`Builder::max_in_flight`](crate::Builder::max_in_flight), every job can be
            /// cancelled until there is room for it.
            #[doc(alias("clear_timeout", "abort", "remove"))]
            #[inline]
            pub fn cancel(&self, handle: Handle) -> bool {
                self.engine().cancel(handle)
            }

            /// Cancels a job and gives it back. Returns `None` if the job is not in the wheel:
            /// where [`Wheel::cancel`] returns `false`, and also for a job that is with the pool
            /// and that a cancel would still reach. Such a job is left as it is.
            ///
            /// The returned [`Job`] can be run, examined ([`Job::downcast`]) and inserted again.
            #[inline]
            pub fn take(&self, handle: Handle) -> Option<Job> {
                self.engine().take(handle)
            }

            /// Gives a pending job a new time: a delay, counted from the call, an instant, or a
            /// wall-clock time ([`When`]). Returns whether the job was pending.
            ///
            /// A reset to a later time costs one lock and one store, so an idle timeout can be
            /// pushed back with every packet. A reset to an earlier time moves the job to another
            /// slot. A reset to [`Duration::MAX`] pauses the timer.
            ///
            /// A reset of a repeating job moves the next run, and the phase with it; the period
            /// stays. During a run it moves the following run, unless the current run returns
            /// [`Next::Stop`](crate::Next::Stop).
            ///
            /// A job that was inserted for a delay or an instant does not follow the wall clock
            /// after a reset to a wall-clock time, unless it repeats or was inserted by
            /// [`Wheel::insert_with`]. The wheel reads the wall clock once, at the reset, and computes an instant. If
            /// the clock is set afterwards, the job does not move.
            #[doc(alias("reset_at", "reschedule", "extend", "touch", "pause", "refresh"))]
            #[inline]
            pub fn reset(&self, handle: Handle, when: impl Into<When>) -> bool {
                self.engine().reset(handle, when.into())
            }

            /// Returns whether the job is pending: in the wheel, not handed to the pool, not
            /// cancelled. If so, a cancel would succeed. A repeating job is pending until its last
            /// run has ended, and a job for a wall-clock time or of [`Wheel::insert_with`] until it starts.
            #[must_use]
            pub fn is_pending(&self, handle: Handle) -> bool {
                self.engine().is_pending(handle)
            }

            /// Returns the time until the tick at which a pending job is due: zero if it is due
            /// and waits to be handed over, or is with the pool; [`Duration::MAX`] if it is never
            /// due. Returns `None` if it is not pending.
            #[must_use]
            pub fn remaining(&self, handle: Handle) -> Option<Duration> {
                self.engine().remaining(handle)
            }

            /// Returns where on the rings a pending job lies, for drawings and diagnosis. Returns
            /// `None` if it is not in the wheel.
            #[must_use]
            pub fn location(&self, handle: Handle) -> Option<Location> {
                self.engine().location(handle)
            }

            /// Returns the number of jobs in the wheel. It does not count a job that is with the
            /// pool, even if that is pending ([`Wheel::is_pending`]), as a repeating job is during
            /// its run.
            ///
            /// Takes every shard's lock, one after the other.
            #[must_use]
            pub fn len(&self) -> usize {
                self.engine().len()
            }

            /// Returns whether [`Wheel::len`] is zero, as it is while the last jobs run;
            /// [`Wheel::is_idle`] counts these too. Costs as much as [`Wheel::len`].
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns whether no job is pending, none waits for a thread of the pool, and none
            /// runs. Takes every shard's lock twice. [`Wheel::wait_idle`] waits for it.
            ///
            /// A job counts once its insert has returned. While the job of a key is replaced, the
            /// old job is out and the new one not yet in: for that moment the wheel may be idle.
            #[must_use]
            pub fn is_idle(&self) -> bool {
                self.engine().is_idle()
            }

            /// Returns the reading of the wheel's clock: the present, or on a manual wheel the time
            /// to which the [`Driver`](crate::Driver) has moved it. Returns some earlier instant if
            /// the system cannot represent that.
            #[must_use]
            pub fn now(&self) -> Instant {
                self.engine().timebase().now()
            }

            /// Returns the reading of the wheel's wall clock: the system's, or that of the
            /// [`Driver`](crate::Driver).
            #[must_use]
            pub fn wall_now(&self) -> SystemTime {
                self.engine().timebase().clock().wall()
            }

            /// Returns the length of a tick ([`Builder::tick`](crate::Builder::tick)).
            #[must_use]
            pub fn tick(&self) -> Duration {
                self.engine().timebase().scale().tick()
            }

            /// Returns the counters and the lateness so far. Lateness, and the ticks by which the
            /// ticker is behind, count from the moment at which a job could have been handed over;
            /// time before its insert or reset does not count. A [`Scheduler`] returns them even
            /// after the end of the wheel.
            ///
            /// Takes every shard's lock, one after the other, and some microseconds for the
            /// percentiles.
            #[must_use]
            pub fn stats(&self) -> Stats {
                self.engine().stats()
            }
        }
    };
}

verbs!(Wheel);
verbs!(Scheduler);
