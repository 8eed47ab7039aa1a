//! The hand that moves the clock of a manual wheel.

use core::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::engine::dispatch::inline;
use crate::engine::verbs::Engine;
use crate::host::sync::{Mutex, lock};
use crate::host::unwind::PanicHandler;
use crate::values::time::{Moment, Tick};

/// Moves the clock of a manual wheel, and runs what comes due: for tests and simulations, and for
/// programs with an event loop of their own. From [`Builder::manual`](crate::Builder::manual).
///
/// Time stands until [`Driver::advance`] is called. Once the wheel is gone, time still passes and
/// nothing runs.
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
    advancing: Mutex<Advancing>,
    /// For the panics of the jobs that run here, also of one that drops its wheel.
    _panic_handler: Option<Arc<PanicHandler>>,
}

struct Advancing {
    /// Where time is to go.
    target: Moment,
    /// Somebody is on the way there.
    running: bool,
}

impl Driver {
    pub(crate) fn new(engine: Arc<Engine>, panic_handler: Option<Arc<PanicHandler>>) -> Driver {
        let advancing = Advancing { target: engine.timebase().clock().now(), running: false };
        Driver { engine, advancing: Mutex::new(advancing), _panic_handler: panic_handler }
    }

    /// Lets `by` pass and runs what comes due on the way, on this thread, one job after the other
    /// in the order of deadlines; how many jobs ran.
    ///
    /// Each job sees the time of its own deadline, so what it inserts may come due within the same
    /// call. A job may cancel or reset whatever has not run, also if it is due at the same tick.
    ///
    /// Called by a job that it runs, or meanwhile by another thread, it only adds to the time that
    /// is to pass, and answers 0: the call that is under way runs and counts what that makes due.
    ///
    /// With a job that repeats, or inserts itself anew again and again, `Duration::MAX` takes as
    /// many steps as 584 years have. At their end time stands still, and what is inserted then
    /// stays pending.
    ///
    /// A job that panics is counted and reported, as on a pool, and costs nobody else anything.
    pub fn advance(&self, by: Duration) -> usize {
        {
            let mut advancing = lock(&self.advancing);
            advancing.target = advancing.target.plus(by);
            if core::mem::replace(&mut advancing.running, true) {
                return 0;
            }
        }
        let mut ran = 0;
        loop {
            let tick = self.step();
            ran += self.run_due(tick);
            if self.has_arrived() {
                return ran;
            }
        }
    }

    /// What the wheel's clock reads. Where the system cannot represent that, some earlier instant.
    #[must_use]
    pub fn now(&self) -> Instant {
        let clock = self.engine.timebase().clock();
        clock.instant(clock.now())
    }

    /// What the wheel's wall clock reads. It begins with the system's, and goes with
    /// [`Driver::advance`].
    #[must_use]
    pub fn wall_now(&self) -> SystemTime {
        self.engine.timebase().clock().wall()
    }

    /// Sets the wheel's wall clock, forward or back, as an operator might set the system's. No time
    /// passes. Jobs that wait for a wall-clock time come due by the new time; those whose time has
    /// come run in the next [`Driver::advance`], at the next tick.
    ///
    /// A change of more than 292 years is cut to that.
    pub fn set_wall(&self, time: SystemTime) {
        self.engine.timebase().clock().set_wall(time);
        self.engine.follow_the_wall();
    }

    /// Moves the clock to the next tick with work, or to the end of the way; which tick that is.
    fn step(&self) -> Tick {
        let timebase = self.engine.timebase();
        let (clock, scale) = (timebase.clock(), timebase.scale());
        let target = lock(&self.advancing).target;
        let next = self.engine.next_wake().tick;
        if next > scale.present(target) {
            clock.set(target);
            return scale.present(target);
        }
        // The tick may have passed: moving timers inwards can wait until one of them is due.
        clock.set(clock.now().max(scale.begin(next)));
        next
    }

    /// Whether nothing is left to do on the way; the next call may then begin.
    fn has_arrived(&self) -> bool {
        let mut advancing = lock(&self.advancing);
        let timebase = self.engine.timebase();
        let arrived = timebase.clock().now() >= advancing.target
            && self.engine.next_wake().tick > timebase.scale().present(advancing.target);
        advancing.running = !arrived;
        arrived
    }

    /// Runs what is due at `tick`; how many jobs that were. One by one: what has not run can be
    /// cancelled.
    fn run_due(&self, tick: Tick) -> usize {
        let mut ran = 0;
        let mut due = Vec::new();
        for shard in 0..self.engine.shards() {
            let mut finished = false;
            while !finished {
                finished = self.engine.advance_shard(shard, tick, 1, &mut due);
                for due in due.drain(..) {
                    inline::run(self.engine.runner(), self.engine.timebase().clock(), due);
                    ran += 1;
                }
            }
        }
        ran
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("now", &self.now()).finish_non_exhaustive()
    }
}
