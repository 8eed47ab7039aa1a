//! The wheel: a scheduler, and the threads, which end when the wheel is dropped. `api/verbs.rs` has
//! the verbs that it shares with its schedulers, and `end.rs` those that end it.

mod end;

use core::fmt;
use std::sync::{Arc, LazyLock};

use crate::api::scheduler::Scheduler;
#[cfg(feature = "async")]
use crate::engine::dispatch::pool::PoolOutlet;
use crate::engine::threads::Threads;
#[cfg(feature = "async")]
use crate::engine::ticker_slot::TickerSlot;
use crate::engine::verbs::Engine;
#[cfg(feature = "async")]
use crate::host::sync::lock;
use crate::host::sync::{AtomicBool, Mutex};
use crate::host::unwind::PanicHandler;
use crate::values::error::InsertErrorKind;
use crate::values::handle::Handle;
use crate::values::job::Task;
use crate::values::when::When;

/// A timer for hundreds of thousands of timeouts at once. An insert takes a time and a job, and
/// returns a [`Handle`]. When the time has come, the job runs on a rayon pool, unless the handle was
/// used to cancel it.
///
/// Every verb takes `&self` and may be called from any thread, from a running job, and from the drop of a captured
/// value. A verb for one job costs the same for any number of timers: one lock, shared with few threads, held for some
/// tens of nanoseconds. Two cases take longer: a verb that has to wake the ticker takes two more locks, and now and
/// then a cancel after a burst moves the remaining timers into less memory. [`Wheel::len`], [`Wheel::is_empty`],
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
/// back the job or the batch. No other verb of jobs panics or fails: with a stale handle `cancel`, `reset`
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
/// Dropping a wheel stops the ticker and waits for it (unless the ticker is calling a hook, or the drop is in one:
/// [`Wheel::close`]), and discards the jobs that are pending or
/// wait for a thread of the pool: so jobs that are pending at the end of `main` never run. The drop
/// does not wait for running jobs; a job that a thread of the pool has just taken may start right
/// after it. [`Wheel::shutdown`] waits, and hands back the jobs that never ran; [`Wheel::close`] does
/// so for a wheel in an `Arc` or a static. [`Wheel::wait_idle`] waits until all jobs have run. A job
/// may drop the wheel it runs on, or shut it down. In the child of a `fork` a wheel has no threads:
/// build it after the fork.
///
/// [`InsertError`]: crate::InsertError
pub struct Wheel {
    scheduler: Scheduler,
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
    ///
    /// [`Duration::MAX`]: core::time::Duration::MAX
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
