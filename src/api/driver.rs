//! The drivers: [`Driver`] moves the clock of a manual wheel, and runs the jobs that come due; [`LoopDriver`] runs
//! those of a driven wheel, on the real clock and on the thread of the user's loop.

use core::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant, SystemTime};

use crate::engine::dispatch::{self, InlineOutlet};
use crate::engine::ticker::Ticker;
use crate::engine::ticker_slot::LoopWaker;
use crate::engine::verbs::{DueJobs, Engine};
use crate::host::sync::{Mutex, lock};
use crate::host::user_panics::PanicHandler;
use crate::values::time::{Moment, Span, Tick};

/// Moves the clock of a manual wheel, and runs the jobs that come due: for tests and simulations,
/// and for programs with an event loop of their own. [`Builder::manual`](crate::Builder::manual)
/// returns it.
///
/// Time stands still until [`Driver::advance`] is called. After the end of the wheel, `advance`
/// still moves the clock, but no job runs.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Wheel;
/// let (wheel, driver) = Wheel::builder().tick(Duration::from_secs(1)).manual()?;
/// wheel.insert(Duration::from_secs(72 * 3600), || println!("order closed"));
/// assert_eq!(driver.advance(Duration::from_secs(72 * 3600 - 1)), 0);
/// assert_eq!(driver.advance(Duration::from_secs(1)), 1);
/// # Ok::<(), tickwheel::ConfigError>(())
/// ```
pub struct Driver {
    engine: Arc<Engine>,
    advancing: Mutex<AdvanceState>,
    /// Kept alive for panics of the jobs that run here, even after a job has dropped the wheel.
    _panic_handler: Option<Arc<PanicHandler>>,
}

struct AdvanceState {
    target: Moment,
    /// The thread whose call is moving the clock.
    runs_on: Option<ThreadId>,
    /// A buffer for due jobs. The call that moves the clock takes it until it returns.
    due: DueJobs,
}

impl Driver {
    pub(crate) fn new(engine: Arc<Engine>, panic_handler: Option<Arc<PanicHandler>>) -> Driver {
        let target = engine.timebase().clock().now();
        let advancing = AdvanceState { target, runs_on: None, due: DueJobs::default() };
        Driver { engine, advancing: Mutex::new(advancing), _panic_handler: panic_handler }
    }

    /// Moves the clock forward by `by` and runs the jobs that come due: on this thread, one after
    /// the other, in the order of deadlines. Returns the number of jobs that ran.
    ///
    /// While a job runs, the clock reads the deadline of that job. So a job that it inserts may come
    /// due within the same call. A job may cancel or reset any job that has not run, also one that
    /// is due at the same tick.
    ///
    /// During a call, another call (from a job, or from another thread) adds its `by` to the target
    /// of the first one and returns 0. The first call runs and counts the jobs of both.
    ///
    /// The clock ends after 584 years. A call with `Duration::MAX` runs a job that repeats, or that
    /// inserts itself again, at each of its deadlines until then. After that time stands still, and
    /// a job that is inserted stays pending.
    ///
    /// A panic of a job is counted and reported, as on a pool, and the other jobs still run. The
    /// call also wakes the tasks that sleep on the wheel (feature `async`), on this thread and at
    /// their ticks, and does not count them.
    pub fn advance(&self, by: Duration) -> usize {
        self.advance_target(|target| target.plus(by))
    }

    /// Moves the clock to the next deadline and runs the timers that are due then, as
    /// [`Driver::advance`] does. Returns the reading of the clock after that. Returns `None` and
    /// moves nothing if no timer is pending. Timers that never come due do not count, nor do events
    /// that wait for room in a full channel ([`Full::Wait`](crate::Full::Wait)).
    ///
    /// So a program that waits only for timers ends at once, and its clock moves no further than it
    /// must. During another call, this raises the target of that call, and returns the reading that
    /// the clock will have.
    ///
    /// The search examines every slot that holds timers, some hundreds by default, and the timers of those slots
    /// that may hold the next: a small part of all timers, unless most were reset to a later time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let begin = driver.now();
    /// let hour = Duration::from_secs(3600);
    /// wheel.insert(3 * hour, || println!("the third hour"));
    /// assert_eq!(driver.advance_to_next(), Some(begin + 3 * hour));
    /// assert_eq!(driver.advance_to_next(), None);
    /// # Ok::<(), tickwheel::ConfigError>(())
    /// ```
    #[doc(alias("auto_advance", "jump", "skip"))]
    pub fn advance_to_next(&self) -> Option<Instant> {
        let timebase = self.engine.timebase();
        let mut tick = self.engine.earliest_deadline();
        if tick <= timebase.present() {
            // The timer was already due when it was inserted, or its moment had passed.
            self.advance(Duration::ZERO);
            if self.engine.earliest_deadline() != tick {
                return Some(self.now());
            }
            tick = timebase.present() + Span::new(1);
        }
        let moment = timebase.scale().begin(tick);
        if timebase.scale().present(moment) < tick {
            return None;
        }
        self.advance_target(|target| target.max(moment));
        // The clock is later if a job has advanced it further, and earlier while another call moves it.
        Some(timebase.clock().instant(timebase.clock().now().max(moment)))
    }

    #[cfg(feature = "async")]
    pub(crate) fn has_pending_events(&self) -> bool {
        self.engine.sources().has_pending_events()
    }

    /// Changes the target, and moves the clock there unless another call is doing so. Returns the
    /// number of jobs that ran.
    fn advance_target(&self, change: impl FnOnce(Moment) -> Moment) -> usize {
        let mut due = {
            let mut advancing = lock(&self.advancing);
            advancing.target = change(advancing.target);
            if advancing.runs_on.is_some() {
                return 0;
            }
            advancing.runs_on = Some(thread::current().id());
            core::mem::take(&mut advancing.due)
        };
        let mut ran = 0;
        loop {
            let tick = self.step();
            ran += self.run_due(tick, &mut due);
            if self.has_arrived(&mut due) {
                return ran;
            }
        }
    }

    #[cfg(feature = "async")]
    pub(crate) fn advances_on(&self) -> Option<ThreadId> {
        lock(&self.advancing).runs_on
    }

    /// Returns the reading of the wheel's clock, as [`Wheel::now`](crate::Wheel::now) does.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.timebase().now()
    }

    /// Returns the reading of the wheel's wall clock. That clock begins with the time of the system's
    /// wall clock, and [`Driver::advance`] moves it too.
    #[must_use]
    pub fn wall_now(&self) -> SystemTime {
        self.engine.timebase().clock().wall()
    }

    /// Sets the wheel's wall clock, forward or back, as an operator might set the system's. The
    /// monotonic clock does not move. Jobs that wait for a wall-clock time come due by the new time.
    /// A job whose time has then passed is due at the next tick, and runs in the next
    /// [`Driver::advance`] that reaches it.
    ///
    /// The clock is set by at most 292 years in all. The cost grows with the number of jobs that repeat, wait for a
    /// wall-clock time, or come from [`Wheel::insert_with`](crate::Wheel::insert_with).
    pub fn set_wall(&self, time: SystemTime) {
        self.engine.timebase().clock().set_wall(time);
        self.engine.follow_the_wall();
    }

    /// Moves the clock to the next tick with work, or to the target if that comes first. Returns
    /// the tick that it moved to, or the tick with work if the clock had already passed that.
    fn step(&self) -> Tick {
        let timebase = self.engine.timebase();
        let (clock, scale) = (timebase.clock(), timebase.scale());
        let target = lock(&self.advancing).target;
        let next = self.next_due();
        if next > scale.present(target) {
            clock.set(target);
            return scale.present(target);
        }
        // The clock may have passed the tick: the hierarchy moves timers inwards late, when one is
        // due.
        clock.set(clock.now().max(scale.begin(next)));
        next
    }

    /// Returns whether the clock is at the target and nothing is due there. If so, gives the buffer
    /// `due` back, and another call may begin.
    fn has_arrived(&self, due: &mut DueJobs) -> bool {
        let mut advancing = lock(&self.advancing);
        let timebase = self.engine.timebase();
        let arrived = timebase.clock().now() >= advancing.target
            && self.next_due() > timebase.scale().present(advancing.target);
        if arrived {
            advancing.runs_on = None;
            advancing.due = core::mem::take(due);
        }
        arrived
    }

    /// Returns a tick before which nothing is due, in the jobs' shards or in another source.
    fn next_due(&self) -> Tick {
        self.engine.next_wake().tick.min(self.engine.sources().next_due())
    }

    /// Runs the jobs that are due at `tick`, and advances the other sources to it. Returns the number
    /// of jobs. Takes out one timer at a time, so a job can still cancel the rest of its tick.
    fn run_due(&self, tick: Tick, due: &mut DueJobs) -> usize {
        let mut ran = 0;
        for shard in 0..self.engine.shards() {
            let mut finished = false;
            while !finished {
                finished = self.engine.advance_shard(shard, tick, 1, due);
                for due in due.jobs.drain(..) {
                    dispatch::run_inline(self.engine.runner(), self.engine.timebase().clock(), due);
                    ran += 1;
                }
                drop(due.surplus.take());
            }
        }
        let sources = (0..).map_while(|index| self.engine.sources().get(index));
        for source in sources {
            while !source.advance(tick, 1) {}
        }
        ran
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("now", &self.now()).finish_non_exhaustive()
    }
}

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
/// If other threads use the wheel, the loop needs the waker of [`LoopDriver::on_earlier`].
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
