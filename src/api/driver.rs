//! The driver of a manual wheel: moves its clock, and runs the jobs that come due.

use core::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant, SystemTime};

use crate::engine::dispatch::inline;
use crate::engine::verbs::Engine;
use crate::engine::verbs::drive::DueJobs;
use crate::host::sync::{Mutex, lock};
use crate::host::unwind::PanicHandler;
use crate::values::time::{Moment, Span, Tick};

/// Moves the clock of a manual wheel, and runs the jobs that come due: for tests and simulations,
/// and for programs with an event loop of their own. [`Builder::manual`](crate::Builder::manual)
/// returns it.
///
/// Time stands until [`Driver::advance`] is called. Once the wheel is gone, time still passes and
/// no job runs.
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
    /// For the panics of the jobs that run here, also of a job that drops its wheel.
    _panic_handler: Option<Arc<PanicHandler>>,
}

struct AdvanceState {
    /// The moment to which the clock is to be moved.
    target: Moment,
    /// The thread whose call is moving the clock.
    runs_on: Option<ThreadId>,
    /// Room for the jobs that are due. The call that moves the clock has it meanwhile.
    due: DueJobs,
}

impl Driver {
    pub(crate) fn new(engine: Arc<Engine>, panic_handler: Option<Arc<PanicHandler>>) -> Driver {
        let target = engine.timebase().clock().now();
        let advancing = AdvanceState { target, runs_on: None, due: DueJobs::default() };
        Driver { engine, advancing: Mutex::new(advancing), _panic_handler: panic_handler }
    }

    /// Lets `by` pass, and runs the jobs that come due meanwhile: on this thread, one after the
    /// other, in the order of deadlines. Returns the number of jobs that ran.
    ///
    /// The clock reads the deadline of a job while the job runs, so a job that it inserts may come
    /// due within the same call. A job may cancel or reset any job that has not run, also one that
    /// is due at the same tick.
    ///
    /// While a call is under way, another call (by a job, or by another thread) adds to the time
    /// that is to pass and returns 0. The first call runs and counts the jobs that come due by it.
    ///
    /// With a job that repeats, or inserts itself anew again and again, `Duration::MAX` takes as
    /// many steps as 584 years have. After these, time stands still, and a job that is inserted
    /// stays pending.
    ///
    /// A job that panics is counted and reported, as on a pool, and the other jobs run all the
    /// same. The tasks that sleep on the wheel (feature `async`) are woken on this thread at their
    /// ticks, and are not counted.
    pub fn advance(&self, by: Duration) -> usize {
        self.advance_target(|target| target.plus(by))
    }

    /// Lets time pass until the next timer is due, and runs what is due then, as
    /// [`Driver::advance`] does. Returns what the clock reads then, or `None` if no timer is
    /// pending, or only such as never come, or as wait for room in a full channel
    /// ([`Full::Wait`](crate::Full::Wait)): then no time passes.
    ///
    /// With this, a program that waits for timers alone takes no time, and lets no more pass than
    /// it must. While another call is under way, this adds to the time that is to pass, and returns
    /// what the clock will read.
    ///
    /// Looks at the slots that hold timers, some hundreds by default, and at the timers of those slots that may
    /// hold the next: few of all, unless most were reset to later.
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
            // It was due before it came in, or it is a moment that had passed.
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
        // Later, if a job has let more time pass; earlier, while another call moves the clock.
        Some(timebase.clock().instant(timebase.clock().now().max(moment)))
    }

    /// Returns whether an event is pending, be it due or not.
    #[cfg(feature = "async")]
    pub(crate) fn has_pending_events(&self) -> bool {
        self.engine.has_pending_events()
    }

    /// Changes the moment to which the clock is to be moved, and moves it unless another call does.
    /// Returns the number of jobs that ran.
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

    /// Returns the thread whose call is moving the clock.
    #[cfg(feature = "async")]
    pub(crate) fn advances_on(&self) -> Option<ThreadId> {
        lock(&self.advancing).runs_on
    }

    /// Returns what the wheel's clock reads, or some earlier instant if the system cannot represent
    /// that.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine.timebase().now()
    }

    /// Returns what the wheel's wall clock reads. It begins with the time of the system's wall
    /// clock, and [`Driver::advance`] moves it too.
    #[must_use]
    pub fn wall_now(&self) -> SystemTime {
        self.engine.timebase().clock().wall()
    }

    /// Sets the wheel's wall clock, forward or back, as an operator might set the system's. No time
    /// passes. Jobs that wait for a wall-clock time come due by the new time. A job whose time has
    /// then passed is due at the next tick, and runs in the next [`Driver::advance`].
    ///
    /// A change of more than 292 years becomes one of 292 years. It takes time for every job that
    /// repeats or waits for a wall-clock time.
    pub fn set_wall(&self, time: SystemTime) {
        self.engine.timebase().clock().set_wall(time);
        self.engine.follow_the_wall();
    }

    /// Moves the clock to the next tick with work, or to the target if that comes first. Returns
    /// the tick that the clock then is at, or the tick with work if the clock had passed it.
    fn step(&self) -> Tick {
        let timebase = self.engine.timebase();
        let (clock, scale) = (timebase.clock(), timebase.scale());
        let target = lock(&self.advancing).target;
        let next = self.next_due();
        if next > scale.present(target) {
            clock.set(target);
            return scale.present(target);
        }
        // The tick may have passed, because the hierarchy moves timers inwards late, when one is
        // due.
        clock.set(clock.now().max(scale.begin(next)));
        next
    }

    /// Returns whether the clock is at the target and nothing is due there. If so, the next call
    /// may begin, with the room that this one had.
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

    /// Runs the jobs that are due at `tick`, and delivers what is due in the other sources. Returns
    /// the number of jobs. Takes out one at a time, so what was not delivered can be cancelled.
    fn run_due(&self, tick: Tick, due: &mut DueJobs) -> usize {
        let mut ran = 0;
        for shard in 0..self.engine.shards() {
            let mut finished = false;
            while !finished {
                finished = self.engine.advance_shard(shard, tick, 1, due);
                for due in due.jobs.drain(..) {
                    inline::run(self.engine.runner(), self.engine.timebase().clock(), due);
                    ran += 1;
                }
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
