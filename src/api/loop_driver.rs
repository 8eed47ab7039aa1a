//! The driver of a driven wheel: the real clock, and no thread but that of a loop.

use core::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::engine::dispatch::JobRunner;
use crate::engine::dispatch::inline::InlineOutlet;
use crate::engine::ticker::Ticker;
use crate::engine::verbs::Engine;
use crate::host::hooks::call_hook;
use crate::host::sync::{Mutex, lock};
use crate::host::unwind::PanicHandler;

/// Drives a wheel from a loop of the user's: the wheel goes by the real clock and has no thread. It is for
/// loops that wait for something else anyway (`mio`, `io_uring`, a window's events) and compute how long
/// they may wait. [`Builder::driven`](crate::Builder::driven) returns it.
///
/// The loop asks for [`LoopDriver::timeout`], waits no longer than that, and calls [`LoopDriver::run_due`], which
/// runs on the loop's thread what is due: jobs, the tasks' wakers (feature `async`) and
/// [`Events`](crate::Events). A job that blocks delays the loop. Without these calls nothing runs.
///
/// ```
/// use std::{sync::mpsc, time::Duration};
/// use tickwheel::Wheel;
///
/// let (wheel, driver) = Wheel::builder().driven()?;
/// let (_packets, socket) = mpsc::channel::<u8>();
/// let mut closed = false;
/// let (done, timeouts) = mpsc::channel();
/// wheel.insert(Duration::from_millis(5), move || done.send("connection 7 was idle").unwrap());
/// while !closed {
///     let _ = match driver.timeout() {
///         Some(timeout) => socket.recv_timeout(timeout).ok(),
///         None => socket.recv().ok(),
///     };
///     driver.run_due();
///     closed = timeouts.try_recv().is_ok();
/// }
/// # Ok::<(), tickwheel::ConfigError>(())
/// ```
///
/// Call `run_due` after the loop has read what has arrived: a packet that is there already still puts off its
/// timeout. A job cannot borrow what the loop owns; an [`Events`](crate::Events) hands the loop values instead.
///
/// One thread is the loop. If two threads call `run_due`, each may plan for the other.
///
/// # Inserts of other threads
///
/// An insert that is due earlier than the loop means to wait has to wake it. [`LoopDriver::on_earlier`]
/// takes the waker. A loop alone with its wheel needs none.
pub struct LoopDriver {
    engine: Arc<Engine>,
    /// `None` while a call is under way.
    ticker: Mutex<Option<Ticker<InlineOutlet>>>,
    hook: Arc<Hook>,
    /// For the panics of the jobs that run here, also of a job that drops its wheel.
    _panic_handler: Option<Arc<PanicHandler>>,
}

/// The waker that an insert calls.
struct Hook {
    waker: Mutex<Option<Arc<Waker>>>,
    runner: Arc<JobRunner>,
}

impl LoopDriver {
    pub(crate) fn new(engine: Arc<Engine>, panic_handler: Option<Arc<PanicHandler>>) -> LoopDriver {
        let runner = Arc::clone(engine.runner());
        let outlet = InlineOutlet::new(&runner, engine.timebase().clock());
        let ticker = Mutex::new(Some(Ticker::new(Arc::clone(&engine), outlet)));
        let hook = Arc::new(Hook { waker: Mutex::new(None), runner });
        let wakes = Arc::clone(&hook);
        engine.alarm().parker().set_hook(move || wakes.wake());
        LoopDriver { engine, ticker, hook, _panic_handler: panic_handler }
    }

    /// Returns how long the loop may wait before it calls [`LoopDriver::run_due`]: zero if something is due, `None` if
    /// nothing is pending that ever comes. From here until that call, an insert that is
    /// due earlier calls the waker of [`LoopDriver::on_earlier`].
    ///
    /// Ask right before the wait, every time. While a job waits for a wall-clock time, this is no
    /// more than a second. It takes a lock for each shard. Within [`LoopDriver::run_due`] it returns zero.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        let Some(ticker) = lock(&self.ticker).take() else { return Some(Duration::ZERO) };
        let timeout = ticker.timeout();
        *lock(&self.ticker) = Some(ticker);
        timeout
    }

    /// Runs, on this thread, everything that is due by now, in the order of deadlines. Returns the
    /// number of jobs that ran.
    ///
    /// A job that comes due meanwhile runs in the next call, so each call ends. A job may cancel any job that
    /// has not run. A call within a call, by a job or by another thread, does nothing and returns zero; so
    /// does one while another thread asks for the timeout. A panic is caught, counted and reported.
    pub fn run_due(&self) -> usize {
        let Some(mut ticker) = lock(&self.ticker).take() else { return 0 };
        ticker.run_due();
        let ran = ticker.outlet().take_count();
        *lock(&self.ticker) = Some(ticker);
        ran
    }

    /// Has `waker` called when an insert or a reset is due before the end of the wait that
    /// [`LoopDriver::timeout`] allowed, and when the wheel ends. Replaces the waker of an earlier call.
    ///
    /// It is called on the thread that inserts, outside every lock, so it may use the wheel. What a loop
    /// needs is one write to an eventfd, or the like. A panic in it is caught and counted.
    pub fn on_earlier(&self, waker: Waker) {
        let old = lock(&self.hook.waker).replace(Arc::new(waker));
        self.hook.runner.boundary().discard(old);
    }

    /// Returns what the wheel's clock reads, as [`Wheel::now`](crate::Wheel::now) does.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.timebase().now()
    }
}

/// Nobody waits any more. The waker may have a `Scheduler`, and would keep the wheel's memory.
impl Drop for LoopDriver {
    fn drop(&mut self) {
        let old = lock(&self.hook.waker).take();
        self.hook.runner.boundary().discard(old);
    }
}

impl Hook {
    fn wake(&self) {
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            let boundary = self.runner.boundary();
            call_hook(|| {
                boundary.call_without_handle(|| waker.wake_by_ref());
                boundary.discard(waker);
            });
        }
    }
}

impl fmt::Debug for LoopDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopDriver").field("now", &self.now()).finish_non_exhaustive()
    }
}
