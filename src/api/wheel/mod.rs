//! The wheel, which has every verb and owns the threads: they end when it is dropped. The verbs for
//! repeating jobs, for batches and for the end have files of their own.

mod batch;
mod end;
mod repeat;

use core::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use crate::api::scheduler::Scheduler;
use crate::engine::metrics::Stats;
use crate::engine::threads::Threads;
use crate::engine::verbs::Engine;
use crate::host::sync::{AtomicBool, Mutex};
use crate::host::unwind::PanicHandler;
use crate::structure::Location;
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Job, Task};
use crate::values::when::When;

/// A timer for hundreds of thousands of timeouts at once. An insert takes a time and a job, and
/// returns a [`Handle`]. When the time has come, the job runs on a rayon pool, unless the handle was
/// used to cancel it.
///
/// Every verb takes `&self` and may be called from any thread, from a running job, and from the
/// drop of a captured value. A verb for one job costs the same for any number of timers: one lock,
/// shared with few threads, held for some tens of nanoseconds. [`Wheel::len`], [`Wheel::is_empty`],
/// [`Wheel::is_idle`] and [`Wheel::stats`] take every shard's lock, one after the other.
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
/// back the job or the batch. No other verb panics or fails: with a stale handle `cancel`, `reset`
/// and `is_pending` return `false`, the others `None`.
///
/// # What a wheel promises
///
/// A job never starts before its delay has passed, counted from the call of the insert. The wheel
/// reads the clock before it takes a lock. ([`Keyed`](crate::Keyed) and [`Group`](crate::Group)
/// take their own lock first, and their delays count from after that. Their jobs are never early
/// either.)
///
/// A job is handed to the pool at most one tick after its delay has passed, plus the time that the
/// ticker takes to wake, plus its slack or jitter if it has any; beyond
/// [`Builder::max_in_flight`](crate::Builder::max_in_flight) it waits for room first. It runs at
/// most once, unless it repeats. A job that panics is counted and reported. A job that blocks
/// occupies its own thread only; it delays other jobs once every thread of the pool is occupied. So
/// does a job that waits inside rayon (hold no lock across such a wait). The order of jobs that are
/// due at one tick is not promised. `docs/guarantees.md` lists every promise with its test.
///
/// # The end of a wheel
///
/// Dropping a wheel stops the ticker and waits for it, and discards the jobs that are pending or
/// wait for a thread of the pool: so jobs that are pending at the end of `main` never run. The drop
/// does not wait for running jobs; a job that a thread of the pool has just taken may start right
/// after it. [`Wheel::shutdown`] waits, and hands back the jobs that never ran; [`Wheel::close`] does
/// so for a wheel in an `Arc` or a static. [`Wheel::wait_idle`] waits until all jobs have run. A job
/// may drop the wheel it runs on, or shut it down. In the child of a `fork` a wheel has no threads:
/// build it after the fork.
pub struct Wheel {
    engine: Arc<Engine>,
    /// `None` for a manual or a driven wheel, and after the end.
    threads: Mutex<Option<Threads>>,
    /// A manual or a driven wheel: jobs run only on a thread that calls its driver.
    is_threadless: bool,
    /// Set by the first call that ends the wheel.
    closed: AtomicBool,
    /// Not owned by the engine: see `host/unwind.rs`.
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
        Wheel { engine, threads, is_threadless, closed, panic_handler }
    }

    /// Returns the engine, for the adapters.
    #[cfg(feature = "async")]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs `job` on the pool after a delay, at an instant, or at a wall-clock time: any value that
    /// converts into a [`When`]. The job is a closure or a [`Task`]. A closure returns `()`:
    /// `move || _ = f()` drops the result of `f`.
    ///
    /// A delay counts from the call, and its end is rounded up to a tick. [`Duration::MAX`] means
    /// never: a timer that is paused until a [`reset`](Wheel::reset), and can be cancelled and
    /// taken as any other. A delay of zero, and a time that has passed, are due at the first tick
    /// after the present. An insert costs one lock and one allocation for the closure, none for a
    /// closure without captures; for a wall-clock time some more ([`When`]).
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
    #[track_caller]
    pub fn insert<F>(&self, when: impl Into<When>, job: F) -> Handle
    where
        F: Task + Send + 'static,
    {
        match self.engine.insert(when.into(), job) {
            Ok(handle) => handle,
            Err(refused) => self.panic_for(refused.kind()),
        }
    }

    /// As [`Wheel::insert`], but returns the job in an error when the wheel is full.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job, of the kind [`InsertErrorKind::Full`]: the wheel has
    /// [`Builder::max_pending`](crate::Builder::max_pending) pending jobs, or the calling thread's
    /// shard holds 2^32 - 1 jobs. After [`Wheel::close`], of the kind
    /// [`InsertErrorKind::Shutdown`].
    #[inline]
    pub fn try_insert<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: Task + Send + 'static,
    {
        self.engine.insert(when.into(), job)
    }

    /// Inserts a job that knows its own handle: `make` gets the handle and returns the job. For
    /// programs that keep handles in a map, from which the job removes its own.
    ///
    /// Such a job can be cancelled until it starts, also while it waits for a thread of the pool:
    /// see [`Wheel::cancel`]. `make` runs once, on this thread, before the job is in the wheel. It
    /// may use the wheel; if it panics, the panic unwinds to the caller. This verb costs two locks
    /// more than `insert` and an entry in a second table. A reset of such a job costs more too.
    ///
    /// # Errors
    ///
    /// [`InsertErrorKind`]: the wheel is full, and `make` was not called; or the wheel ended during
    /// the call, and the job was dropped.
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
        self.engine.insert_with(when.into(), make)
    }

    /// Cancels a job. Returns `true` if the job was pending: it will never run, and it was dropped
    /// and its memory freed. Returns `false` if nothing was changed: the job was handed to the
    /// pool, has run, was cancelled before, or belongs to another wheel.
    ///
    /// The job is dropped on the calling thread. If a captured value panics then, the panic is
    /// counted and reported as a job's panic is. A cancel waits for no job: a running job goes on.
    ///
    /// Three kinds of jobs can be cancelled for longer: a repeating job also while it waits for a
    /// thread of the pool and while it runs, even by itself; and a job that was inserted by
    /// [`Wheel::insert_with`] or for a wall-clock time until it starts. For these, `true` means that
    /// no further run starts. If the job is with the pool at that moment, it is dropped there: when
    /// a thread comes to it, or when its run has ended. Under
    /// [`Builder::max_in_flight`](crate::Builder::max_in_flight), every job can be cancelled until
    /// there is room for it.
    #[doc(alias("clear_timeout", "abort", "remove"))]
    #[inline]
    pub fn cancel(&self, handle: Handle) -> bool {
        self.engine.cancel(handle)
    }

    /// Cancels a job and gives it back. Returns `None` if the job is not in the wheel: where
    /// [`Wheel::cancel`] returns `false`, and also for a job that is with the pool and that a cancel
    /// would still reach. Such a job is left as it is.
    ///
    /// The returned [`Job`] can be run, examined ([`Job::downcast`]) and inserted again.
    ///
    /// A one-shot job that was handed to the pool cannot be taken back. It runs, unless a shutdown
    /// hands it back or a drop of the wheel discards it before it starts.
    #[inline]
    pub fn take(&self, handle: Handle) -> Option<Job> {
        self.engine.take(handle)
    }

    /// Gives a pending job a new time: a delay, counted from the call, an instant, or a wall-clock
    /// time ([`When`]). Returns whether the job was pending.
    ///
    /// A reset to a later time costs one lock and one store, so an idle timeout can be pushed back
    /// with every packet. A reset to an earlier time moves the job to another slot. A reset to
    /// [`Duration::MAX`] pauses the timer.
    ///
    /// A reset of a repeating job moves the next run, and the phase with it; the period stays.
    /// During a run it moves the following run, unless the current run returns
    /// [`Next::Stop`](crate::Next::Stop).
    ///
    /// A job that was inserted for a delay or an instant does not follow the wall clock after a reset
    /// to a wall-clock time, unless it repeats or was inserted by [`Wheel::insert_with`]. It is due at
    /// the instant at which the wall clock reads that time if it is not set until then.
    #[doc(alias("reset_at", "reschedule", "extend", "touch", "pause", "refresh"))]
    #[inline]
    pub fn reset(&self, handle: Handle, when: impl Into<When>) -> bool {
        self.engine.reset(handle, when.into())
    }

    /// Returns whether the job is pending: in the wheel, not handed to the pool, not cancelled. If
    /// so, a cancel would succeed. A repeating job is pending until its last run has ended, and a
    /// job for a wall-clock time until it starts.
    #[must_use]
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.engine.is_pending(handle)
    }

    /// Returns the time until a pending job is due, rounded up to a tick: zero if it is due and
    /// waits to be handed over, or is with the pool; [`Duration::MAX`] if it is never due. Returns
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

    /// Returns the number of jobs in the wheel. It does not count a job that is with the pool, even
    /// if that is pending ([`Wheel::is_pending`]), as a repeating job is during its run.
    ///
    /// Takes every shard's lock, one after the other.
    #[must_use]
    pub fn len(&self) -> usize {
        self.engine.len()
    }

    /// Returns whether no job is in the wheel. Jobs that were handed to the pool do not count, so
    /// this is `true` while the last jobs run; [`Wheel::is_idle`] counts these too. Costs as much as
    /// [`Wheel::len`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether no job is pending, none waits for a thread of the pool, and none runs. Takes
    /// every shard's lock twice. [`Wheel::wait_idle`] waits for it.
    ///
    /// A job counts once its insert has returned. While the job of a key is replaced, the old job
    /// is out and the new one not yet in: for that moment the wheel may be idle.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }

    /// Returns the reading of the wheel's clock: the present, or on a manual wheel the time to which
    /// the [`Driver`](crate::Driver) has moved it. Returns some earlier instant if the system cannot
    /// represent that.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.timebase().now()
    }

    /// Returns the reading of the wheel's wall clock: the system's, or that of the
    /// [`Driver`](crate::Driver).
    #[must_use]
    pub fn wall_now(&self) -> SystemTime {
        self.engine.timebase().clock().wall()
    }

    /// Returns the length of a tick ([`Builder::tick`](crate::Builder::tick)).
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.engine.timebase().scale().tick()
    }

    /// Returns the counters and the lateness so far. Lateness, and the ticks by which the ticker is
    /// behind, count from the moment at which a job could have been handed over; time before its
    /// insert or reset does not count. A [`Scheduler`] returns them even after the end of the wheel.
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

    /// Panics with the line of the refused insert as its location.
    #[cold]
    #[track_caller]
    fn panic_for(&self, kind: InsertErrorKind) -> ! {
        match (kind, self.engine.max_pending()) {
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
