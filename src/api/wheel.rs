//! The wheel: a scheduler, and the threads, which end when the wheel is dropped. `verbs.rs` has the verbs that it
//! shares with its schedulers; this file those that end it, and those that wait until it is idle.
//!
//! Ground rules:
//!
//! - The first of `close`, `shutdown` and the drop ends the wheel; later ones do nothing. They do not even stop the
//!   engine again, because jobs that come back are kept for the first one alone.
//! - No thread waits while it holds the lock of `threads`.

use core::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::api::scheduler::Scheduler;
use crate::api::unfired::{Unfired, UnfiredJob};
#[cfg(feature = "async")]
use crate::engine::dispatch::pool::PoolOutlet;
use crate::engine::shard::Unstarted;
use crate::engine::threads::Threads;
#[cfg(feature = "async")]
use crate::engine::ticker_slot::TickerSlot;
use crate::engine::verbs::Engine;
use crate::host::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::host::user_panics::{PanicHandler, is_in_hook};
use crate::values::error::InsertErrorKind;
use crate::values::handle::Handle;
use crate::values::job::Task;
use crate::values::time::When;

/// A timer for hundreds of thousands of timeouts at once. An insert takes a time and a job, and
/// returns a [`Handle`]. When the time has come, the job runs on a rayon pool, unless the handle was
/// used to cancel it.
///
/// Every verb takes `&self` and may be called from any thread, from a running job, and from the drop of a captured
/// value. A verb for one job costs the same for any number of timers: one lock, shared with few threads, held for some
/// tens of nanoseconds. Two cases take longer: a verb that has to wake the ticker takes two more locks, and now and
/// then a cancel after a burst moves the remaining timers into less memory.
///
/// # When an insert is refused
///
/// | insert | on a `&Wheel` | on a [`Scheduler`], [`Keyed`](crate::Keyed), [`Group`](crate::Group) |
/// | --- | --- | --- |
/// | `insert` | **panics** if the wheel is full: by default there is no bound, and a program without one needs no error | [`InsertError`] if the wheel is full or gone |
/// | `try_insert` | [`InsertError`] if the wheel is full | the same as `insert` |
/// | `every`, `repeat` | [`InsertError`] if the period is zero or the wheel is full | also if the wheel is gone |
/// | `insert_batch` | [`InsertError`] with the whole batch, if there is no room for all of it | also if the wheel is gone |
/// | `insert_with` | [`InsertErrorKind`] if the wheel is full | also if the wheel is gone |
///
/// A wheel that was closed ([`Wheel::close`]) is gone for its own verbs too: `insert` panics then.
/// Code that moves from a `&Wheel` to a `&Scheduler` only needs a `?` added. An [`InsertError`] gives
/// back the job or the batch. No other verb of jobs panics or fails: with a stale handle `cancel`, `reset`
/// and `is_pending` return `false`, the others `None`.
///
/// # What a wheel promises
///
/// A job never starts before its delay has passed, counted from the call of the insert. (The delays
/// of [`Keyed`](crate::Keyed) and [`Group`](crate::Group) count from a moment within the call. Their
/// jobs are never early either.)
///
/// A job is handed to the pool at most one tick after its delay has passed, plus the time that the
/// ticker takes to wake, plus its slack or jitter if it has any; beyond
/// [`Builder::max_in_flight`](crate::Builder::max_in_flight) it waits for room first. It runs at
/// most once, unless it repeats. A panic is counted and reported. A job that blocks delays other jobs only once every thread of the
/// pool is occupied ([`Builder::threads`](crate::Builder::threads)). The order of jobs that are due at
/// one tick is not promised. `docs/guarantees.md` lists every promise with its test.
///
/// # The end of a wheel
///
/// Dropping a wheel stops the ticker and waits for it (unless the ticker is calling a hook, or the
/// drop is in one: [`Wheel::close`]), and discards the jobs that are pending or wait for a thread of
/// the pool, also at the end of `main`. The drop does not wait for running jobs; a job that a thread
/// of the pool has just taken may start right after it. [`Wheel::close`] waits, and hands back the jobs
/// that never ran. [`Wheel::wait_idle`] waits until all jobs have run. A job may drop the wheel it runs
/// on, or shut it down. In the child of a `fork` a wheel has no threads: build it after the fork.
///
/// [`InsertError`]: crate::InsertError
pub struct Wheel {
    scheduler: Scheduler,
    /// `None` for a manual or a driven wheel, and after the end.
    threads: Mutex<Option<Threads>>,
    /// A manual or a driven wheel: jobs run only on a thread that calls its driver.
    is_threadless: bool,
    closed: AtomicBool,
    /// Not owned by the engine: see `host/user_panics.rs`.
    panic_handler: Option<Arc<PanicHandler>>,
}

impl Wheel {
    pub(crate) fn assemble(
        engine: Arc<Engine>,
        threads: Option<Threads>,
        panic_handler: Option<Arc<PanicHandler>>,
    ) -> Wheel {
        let is_threadless = threads.is_none();
        let (threads, closed) = (Mutex::new(threads), AtomicBool::new(false));
        let scheduler = Scheduler::new(engine);
        Wheel { scheduler, threads, is_threadless, closed, panic_handler }
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.scheduler.engine()
    }

    /// Returns the slot of the ticker, or `None` if the wheel has no thread or has ended.
    #[cfg(feature = "async")]
    pub(crate) fn ticker_slot(&self) -> Option<Arc<TickerSlot<PoolOutlet>>> {
        lock(&self.threads).as_ref().map(|threads| Arc::clone(threads.ticker_slot()))
    }

    /// Runs `job` on the pool after a delay, at an instant, or at a wall-clock time: any value that
    /// converts into a [`When`]. The job is a closure or a [`Task`]. A closure returns `()`:
    /// `move || _ = f()` drops the result of `f`.
    ///
    /// The time is rounded up to a tick. [`Duration::MAX`] means never: a timer that is paused until
    /// a [`reset`](Wheel::reset), and can be cancelled and taken as any other. An insert costs one
    /// lock and one allocation for the closure, none for a closure without captures; for a wall-clock
    /// time some more ([`When`]).
    ///
    /// # Panics
    ///
    /// When the wheel has [`Builder::max_pending`](crate::Builder::max_pending) pending jobs, when
    /// the calling thread's shard holds 2^32 - 1 jobs, or after [`Wheel::close`].
    /// [`Wheel::try_insert`] returns an error instead.
    ///
    /// ```
    /// use std::time::{Duration, Instant, SystemTime};
    /// use tickwheel::Wheel;
    /// let wheel = Wheel::new();
    /// let hour = Duration::from_secs(3600);
    /// wheel.insert(hour, || println!("in an hour"));
    /// wheel.insert(Instant::now() + hour, || println!("in an hour"));
    /// wheel.insert(SystemTime::now() + hour, || println!("when the clock reads an hour more"));
    /// ```
    #[doc(alias("timeout", "set_timeout", "sleep", "delay"))]
    #[doc(alias("schedule", "after", "insert_at", "ttl"))]
    #[inline]
    #[track_caller]
    pub fn insert<F>(&self, when: impl Into<When>, job: F) -> Handle
    where
        F: Task + Send + 'static,
    {
        match self.scheduler.insert(when, job) {
            Ok(handle) => handle,
            Err(refused) => self.panic_for(refused.kind()),
        }
    }

    /// Returns a scheduler, which has the wheel's verbs and does not keep the wheel alive.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        self.scheduler.clone()
    }

    /// Panics with the line of the refused insert as its location.
    #[cold]
    #[track_caller]
    fn panic_for(&self, kind: InsertErrorKind) -> ! {
        match (kind, self.engine().max_pending()) {
            (InsertErrorKind::Full, Some(bound)) => {
                panic!("`Wheel::insert` on a wheel that is full: `max_pending` is {bound}")
            }
            (kind, _) => panic!("`Wheel::insert`: {kind}"),
        }
    }
}

impl From<&Arc<Wheel>> for Scheduler {
    fn from(wheel: &Arc<Wheel>) -> Scheduler {
        wheel.scheduler()
    }
}

impl<F: FnOnce() -> Wheel> From<&LazyLock<Wheel, F>> for Scheduler {
    fn from(wheel: &LazyLock<Wheel, F>) -> Scheduler {
        wheel.scheduler()
    }
}

impl From<&Wheel> for Scheduler {
    fn from(wheel: &Wheel) -> Scheduler {
        wheel.scheduler()
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("pending", &self.len()).finish_non_exhaustive()
    }
}

impl Wheel {
    /// Waits until the wheel is idle: no job is pending, none waits for a thread of the pool, and
    /// none runs. Returns `true` then. A wheel with a repeating job, or with a timer for next week,
    /// is not idle: [`Wheel::wait_idle_timeout`] has a limit.
    ///
    /// **On a thread of the wheel's pool, in a hook of any wheel ([`Wheel::close`] lists them), and on a manual or
    /// driven wheel, this does not wait**: it returns [`Wheel::is_idle`], because the wheel may be waiting for the
    /// caller. (After the end of the wheel, it does not wait on a thread of any rayon pool.) A job must not wait for a
    /// thread, or for a job of another wheel, that calls this: both would wait for ever. Nor may a thread call this
    /// whose runtime drives the wheel (`Wheel::drive`).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let wheel = Wheel::new();
    /// for page in 0..10 {
    ///     wheel.insert(Duration::from_millis(page), move || println!("page {page}"));
    /// }
    /// wheel.wait_idle();
    /// assert_eq!(wheel.stats().completed, 10);
    /// ```
    pub fn wait_idle(&self) -> bool {
        self.wait_idle_timeout(Duration::MAX)
    }

    /// As [`Wheel::wait_idle`], for `limit` at most, in real time. Returns whether the wheel is
    /// idle. (If the repeating jobs are in a [`Group`](crate::Group), one call cancels them first.)
    pub fn wait_idle_timeout(&self, limit: Duration) -> bool {
        let on_own_thread = match &*lock(&self.threads) {
            Some(threads) => threads.is_caller_one_of_them(),
            None => rayon::current_thread_index().is_some(),
        };
        match on_own_thread || is_in_hook() || self.is_threadless {
            true => self.is_idle(),
            false => self.engine().wait_idle(limit),
        }
    }

    /// Stops the wheel: accepts and starts no more jobs, and waits until running jobs have ended
    /// and the wheel's threads are gone. Returns every job that never ran, and every repeating job
    /// that would run again. For a wheel in an `Arc` or a static.
    ///
    /// After this has returned, every insert is refused ([`Wheel::insert`] panics), and every other
    /// verb behaves as with a stale handle. Until then, a job that another thread inserts is refused
    /// or handed back, and a repeating job that is running can still be cancelled. A second call,
    /// from any thread, returns no jobs and does not wait.
    ///
    /// It waits as long as the running jobs take, and those tasks that jobs have spawned on the wheel's own pool.
    /// **On a thread of the wheel's pool it waits for no job and no thread of the pool**: in a job, in another task of
    /// the pool, and in an `install`. A job may wait for a task that lies below the caller on that thread's stack.
    /// There, running jobs go on as after a drop, and those that repeat do not come back; a job that a thread has just
    /// taken may still start.
    ///
    /// **In a hook of any wheel it does not wait either**, because another hook may be waiting for this one.
    /// The hooks are: a waker that a wheel calls (of a task, of [`Events::on_ready`](crate::Events::on_ready) and of
    /// [`LoopDriver::on_earlier`](crate::LoopDriver::on_earlier)), [`Full::Give`](crate::Full::Give), the handler of
    /// [`Builder::on_panic`](crate::Builder::on_panic) and its drop, a subscriber of `tracing`, and the drop of an
    /// event on the thread that advances or ends the wheel. Outside a hook it waits for a hook that the ticker is
    /// calling, as for a running job.
    ///
    /// If a job waits for another thread that calls `close`, by joining it or inside another pool's
    /// `install`, both wait for ever. So do two jobs that close each other's wheel.
    /// [`Wheel::shutdown_timeout`] ends after its limit.
    ///
    /// A pool that was passed to the builder goes on. The jobs of a manual or driven wheel run inside
    /// [`Driver::advance`](crate::Driver::advance) or
    /// [`LoopDriver::run_due`](crate::LoopDriver::run_due): this does not wait for a job that another thread
    /// is running there, and does not return that job if it repeats.
    ///
    /// ```
    /// use std::sync::LazyLock;
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    ///
    /// static WHEEL: LazyLock<Wheel> = LazyLock::new(Wheel::new);
    ///
    /// WHEEL.insert(Duration::from_secs(3600), || println!("an hour has passed"));
    /// // At the end of `main`: a static is never dropped.
    /// assert_eq!(WHEEL.close().len(), 1);
    /// ```
    pub fn close(&self) -> Unfired {
        self.shutdown_timeout(Duration::MAX)
    }

    /// Closes the wheel for good, as [`Wheel::close`] does.
    pub fn shutdown(self) -> Unfired {
        self.close()
    }

    /// As [`Wheel::close`], but waits for `limit` at most, in real time. Jobs that still run then
    /// (and a hook that the ticker is still calling) go on, as after a drop, and those that repeat
    /// do not come back. [`Unfired::still_running`] returns the number of these jobs. It includes a
    /// job that a thread has just taken when the limit passes; that job may still start.
    pub fn shutdown_timeout(&self, limit: Duration) -> Unfired {
        let Some(mut unstarted) = self.end(limit) else {
            return Unfired::new(Vec::new(), 0, Arc::clone(self.engine()), None);
        };
        unstarted.sort_by_key(|&(_, deadline, _)| deadline);
        let timebase = self.engine().timebase();
        let (now, wall_now) = (timebase.clock().now(), timebase.clock().wall());
        let jobs = unstarted.into_iter().map(|(handle, deadline, job)| {
            let remaining = timebase.between(now, deadline);
            // "Never" is later than any time that the system can represent.
            let wall = wall_now.checked_add(remaining);
            UnfiredJob { handle, remaining, wall, job }
        });
        let jobs = jobs.collect();
        let still_running = self.engine().stats().in_flight;
        let handler = self.panic_handler.clone();
        Unfired::new(jobs, still_running, Arc::clone(self.engine()), handler)
    }

    /// Ends the wheel, if this is the first call, and waits no longer than `limit`. Returns the jobs
    /// that never ran.
    fn end(&self, limit: Duration) -> Option<Vec<Unstarted>> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return None;
        }
        let mut unstarted = self.engine().stop();
        let threads = lock(&self.threads).take();
        let handed_over = threads.map(|threads| threads.stop(limit));
        unstarted.extend(self.engine().collect_unstarted(handed_over.into_iter().flatten()));
        Some(unstarted)
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        let discard = |(handle, _, job)| self.engine().discard(job, handle);
        self.end(Duration::ZERO).into_iter().flatten().for_each(discard);
    }
}
