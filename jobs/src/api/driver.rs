//! The driver of jobs on a manual clock.

use core::fmt;
use core::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tickwheel::Wheel;

use crate::dispatch::caller_machine::Inline;
use crate::dispatch::command::Command;
use crate::dispatch::execute::UnderWay;
use crate::dispatch::questions::EndWaits;
use crate::values::time::Millis;

/// Moves the clock of jobs that [`Builder::manual`](crate::Builder::manual) made, and runs the jobs that come
/// due: for tests and simulations.
///
/// ```
/// use std::time::Duration;
/// # use serde::{Deserialize, Serialize};
/// use tickwheel_jobs::{Job, Jobs};
///
/// # #[derive(Serialize, Deserialize)]
/// # struct CloseOrder(u64);
/// # impl Job for CloseOrder { const KIND: &'static str = "close-order"; }
/// let (jobs, driver) = Jobs::memory().handle(|_: CloseOrder, _| Ok(())).manual()?;
/// let hour = Duration::from_secs(3600);
/// jobs.insert(72 * hour, CloseOrder(1001))?;
/// assert_eq!(driver.advance(71 * hour), 0);
/// assert_eq!(driver.advance(hour), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Driver {
    inline: Arc<Inline>,
    wheel: tickwheel::Driver,
    /// Owns the clock.
    _wheel: Wheel,
    under_way: Arc<UnderWay>,
    end_waits: Arc<EndWaits>,
}

impl Driver {
    pub(crate) fn new(
        inline: Arc<Inline>,
        wheel: tickwheel::Driver,
        owner: Wheel,
        under_way: Arc<UnderWay>,
        end_waits: Arc<EndWaits>,
    ) -> Driver {
        Driver { inline, wheel, _wheel: owner, under_way, end_waits }
    }

    /// Moves the clock by `by`, and runs each job that comes due at its due time: on this thread, one after the
    /// other, in the order of due time, then of id. Returns the number of runs that started. Jobs that are due
    /// already run first, also if `by` is zero.
    ///
    /// The clock moves from one event to the next: with no pending job and no schedule, `Duration::MAX` is one
    /// step. With a schedule there are as many steps as occurrences. The clock stands still once 584 years have
    /// passed.
    ///
    /// Handlers that are futures run on their runtime, and this call does not wait for them:
    /// [`advance_async`](Driver::advance_async) does.
    pub fn advance(&self, by: Duration) -> usize {
        let _drive = self.end_waits.drive();
        let before = self.started();
        let mut left = by;
        loop {
            self.run_due();
            if !self.pass(&mut left) {
                return self.started_since(before);
            }
        }
    }

    /// The same as [`Driver::advance`], and also waits for handlers that are futures. The clock stands still
    /// while one of them is under way, and jobs that become due through their ends run before the clock moves
    /// on. So no run is left when the call ends.
    ///
    /// It needs no runtime of its own. A handler that awaits the clock of its runtime takes as long as that
    /// clock: in a test on tokio, pause tokio's clock.
    ///
    /// If the future is dropped, the clock stands at the event at which it waited. The `cookbook` has an example.
    pub async fn advance_async(&self, by: Duration) -> usize {
        let _drive = self.end_waits.drive();
        let before = self.started();
        let mut left = by;
        loop {
            self.run_due();
            while self.under_way.is_any() {
                self.under_way.none().await;
                self.run_due();
            }
            if !self.pass(&mut left) {
                return self.started_since(before);
            }
        }
    }

    /// Blocks this thread until no handler that is a future is under way. Do not call it on the one thread of a
    /// runtime that has to poll these futures.
    pub fn wait_idle(&self) {
        let _drive = self.end_waits.drive();
        self.under_way.wait();
    }

    /// Waits until no handler that is a future is under way.
    pub async fn wait_idle_async(&self) {
        let _drive = self.end_waits.drive();
        self.under_way.none().await;
    }

    /// Moves the clock to the next event, or by all of `left`. Returns `false` if `left` is zero, or the clock
    /// is at its end.
    fn pass(&self, left: &mut Duration) -> bool {
        if left.is_zero() {
            return false;
        }
        let now = self.wheel.wall_now();
        let until = |time: Millis| time.to_system().duration_since(now).unwrap_or_default();
        let next = self.inline.next_time().map_or(*left, until);
        let pass = next.max(Duration::from_millis(1)).min(*left);
        let before = self.wheel.now();
        let here = self.end_waits.drive_here();
        self.wheel.advance(pass);
        drop(self.end_waits.take_all());
        drop(here);
        // A clock stands still at the latest time that it can read.
        let is_end = pass >= Duration::from_millis(1) && self.wheel.now() == before;
        *left -= pass;
        !is_end
    }

    /// Returns the number of runs that have started.
    fn started(&self) -> u64 {
        self.inline.metrics.started.load(Ordering::Relaxed)
    }

    fn started_since(&self, before: u64) -> usize {
        usize::try_from(self.started() - before).unwrap_or(usize::MAX)
    }

    /// Makes steps and runs until nothing is due now.
    fn run_due(&self) {
        let _here = self.end_waits.drive_here();
        // A step may leave work to the next one. If the store fails, that work is never done: then time passes
        // nevertheless.
        for _ in 0..1000 {
            self.inline.step(&mut vec![Command::Poll]);
            let mut ran = false;
            while self.inline.run_one_due() {
                ran = true;
            }
            let now = Millis::present(self.wheel.wall_now());
            if !ran && self.inline.next_time().is_none_or(|next| next > now) {
                return;
            }
        }
    }

    /// Returns the time of the monotonic clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.wheel.now()
    }

    /// Returns the time of the wall clock. It begins with the system's time, in whole milliseconds.
    #[must_use]
    pub fn wall_now(&self) -> SystemTime {
        self.wheel.wall_now()
    }

    /// Sets the wall clock without a step, so that the jobs notice it by themselves: for the model of this
    /// crate.
    #[doc(hidden)]
    pub fn set_wall_unseen(&self, time: SystemTime) {
        self.wheel.set_wall(time);
    }

    /// Sets the wall clock, forward or back, as an operator might set the system's. No time passes.
    pub fn set_wall(&self, time: SystemTime) {
        let _here = self.end_waits.drive_here();
        self.wheel.set_wall(time);
        self.inline.step(&mut Vec::new());
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("wall_now", &self.wall_now()).finish_non_exhaustive()
    }
}
