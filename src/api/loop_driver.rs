//! The driver of a driven wheel, which runs on the real clock and on the thread of the user's loop.

use core::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::engine::dispatch::inline::InlineOutlet;
use crate::engine::loop_waker::LoopWaker;
use crate::engine::ticker::Ticker;
use crate::engine::verbs::Engine;
use crate::host::sync::{Mutex, lock};
use crate::host::unwind::PanicHandler;

/// Drives a wheel from the user's own loop: the wheel runs on the real clock and has no thread. It is for
/// loops that already wait for something else (`mio`, `io_uring`, a window's events) and compute the timeout
/// of that wait. [`Builder::driven`](crate::Builder::driven) returns it.
///
/// The loop calls [`LoopDriver::timeout`], waits no longer than that, and calls [`LoopDriver::run_due`]. That
/// runs the due jobs on the loop's thread, wakes the due tasks (feature `async`) and sends the due
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
/// Call `run_due` after the loop has read its input, so that a packet that has already arrived still resets
/// its timeout. A job cannot borrow the loop's data; with [`Events`](crate::Events) the loop receives values.
///
/// Use one thread as the loop. The wheel has a single wake-up plan, and a call from a second thread replaces it.
///
/// # Inserts of other threads
///
/// An insert that is due before the end of the loop's wait must wake the loop. [`LoopDriver::on_earlier`]
/// sets the waker for that. A loop needs none if no other thread uses its wheel.
pub struct LoopDriver {
    engine: Arc<Engine>,
    /// `None` during a call.
    ticker: Mutex<Option<Ticker<InlineOutlet>>>,
    waker: Arc<LoopWaker>,
    /// Kept alive for panics of the jobs that run here, even after a job has dropped the wheel.
    _panic_handler: Option<Arc<PanicHandler>>,
}

impl LoopDriver {
    pub(crate) fn new(engine: Arc<Engine>, panic_handler: Option<Arc<PanicHandler>>) -> LoopDriver {
        let outlet = InlineOutlet::new(engine.runner(), engine.timebase().clock());
        let ticker = Mutex::new(Some(Ticker::new(Arc::clone(&engine), outlet)));
        let waker = LoopWaker::new(&engine);
        waker.hook_into(&engine);
        engine.alarm().parker().set_turned(true);
        LoopDriver { engine, ticker, waker, _panic_handler: panic_handler }
    }

    /// Returns how long the loop may wait before it calls [`LoopDriver::run_due`]: zero if something
    /// is due, `None` if no pending timer will ever be due. From here until that call, an insert
    /// that is due earlier calls the waker of [`LoopDriver::on_earlier`].
    ///
    /// Call this directly before every wait. While a job or an event waits for a wall-clock time, the result is
    /// at most a second. It takes two locks for each shard. Inside [`LoopDriver::run_due`], and beside another call of
    /// `timeout`, it returns zero.
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
    /// A job that comes due during the call runs in the next call, so each call ends. A job may cancel any job
    /// that has not run. A call from a job, or from another thread during `run_due` or
    /// [`LoopDriver::timeout`], does nothing and returns zero. A panic is caught, counted and reported.
    pub fn run_due(&self) -> usize {
        let Some(mut ticker) = lock(&self.ticker).take() else { return 0 };
        ticker.run_due();
        let ran = ticker.outlet().take_count();
        *lock(&self.ticker) = Some(ticker);
        ran
    }

    /// Sets the waker that the wheel calls when a new timer is due before the end of the wait that
    /// [`LoopDriver::timeout`] allowed: after an insert, a reset, or the first poll of a sleep; also for the first job
    /// with a wall-clock time, and when the wheel ends. Replaces an earlier waker.
    ///
    /// The inserting thread calls it outside every lock, so it may use the wheel. To wake a loop, one
    /// write to an eventfd or the like is enough. A panic in it is caught and counted.
    pub fn on_earlier(&self, waker: Waker) {
        self.waker.set(Some(Arc::new(waker)));
    }

    /// Returns the reading of the wheel's clock, as [`Wheel::now`](crate::Wheel::now) does.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.timebase().now()
    }
}

/// Drops the waker too, which may own a `Scheduler` and would keep the wheel's memory.
impl Drop for LoopDriver {
    fn drop(&mut self) {
        self.waker.set(None);
    }
}

impl fmt::Debug for LoopDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopDriver").field("now", &self.now()).finish_non_exhaustive()
    }
}
