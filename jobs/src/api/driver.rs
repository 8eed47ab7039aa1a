//! The driver of jobs on a manual clock.

use core::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tickwheel::Wheel;

use crate::dispatch::command::Command;
use crate::dispatch::inline::Inline;
use crate::dispatch::under_way::UnderWay;
use crate::values::time::Millis;

/// Moves the clock of jobs that [`Builder::manual`](crate::Builder::manual) made, and runs those that
/// come due: for tests and simulations.
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use tickwheel_jobs::{Job, Jobs};
///
/// #[derive(Serialize, Deserialize)]
/// struct CloseOrder(u64);
/// impl Job for CloseOrder {
///     const KIND: &'static str = "close-order";
/// }
///
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
    /// The owner of the clock.
    _wheel: Wheel,
    under_way: Arc<UnderWay>,
}

impl Driver {
    pub(crate) fn new(
        inline: Arc<Inline>,
        wheel: tickwheel::Driver,
        owner: Wheel,
        under_way: Arc<UnderWay>,
    ) -> Driver {
        Driver { inline, wheel, _wheel: owner, under_way }
    }

    /// Lets `by` pass, and runs the jobs that come due meanwhile, each at its time: on this thread,
    /// one after the other, in the order of deadline, then of id. Returns how many runs started. What
    /// is due already runs first, also if `by` is zero.
    ///
    /// Time goes from one event to the next: with nothing pending and nothing that repeats, `Duration::MAX`
    /// is one step. With a repeat it takes as many steps as there are occurrences. Time stands still once
    /// 584 years have passed.
    ///
    /// Handlers that are futures run on their runtime, and end when they end:
    /// [`advance_async`](Driver::advance_async) waits for them.
    pub fn advance(&self, by: Duration) -> usize {
        let before = self.inline.metrics.snapshot().started;
        let mut left = by;
        loop {
            self.run_due();
            if !self.pass(&mut left) {
                return self.started_since(before);
            }
        }
    }

    /// The same as [`Driver::advance`], and waits for handlers that are futures: time stands still while one
    /// of them is under way, and what their ends lead to at that time runs too. So it ends when no run is
    /// left.
    ///
    /// It needs no runtime of its own. A handler that awaits a runtime's clock takes as long as that clock:
    /// in a test on tokio pause it.
    ///
    /// The future may be dropped: time has passed up to the event that it waited at.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct CloseOrder(u64);
    /// # impl Job for CloseOrder {
    /// #     const KIND: &'static str = "close-order";
    /// # }
    /// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
    /// let (jobs, driver) = Jobs::memory().handle(|_: CloseOrder, _| Ok(())).manual()?;
    /// jobs.insert(Duration::from_secs(3600), CloseOrder(1001))?;
    /// assert_eq!(driver.advance_async(Duration::from_secs(3600)).await, 1);
    /// assert_eq!(jobs.count()?.pending, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advance_async(&self, by: Duration) -> usize {
        let before = self.inline.metrics.snapshot().started;
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

    /// Waits until no handler that is a future is under way, on this thread: so not on the one thread of a
    /// runtime that has to poll them.
    pub fn wait_idle(&self) {
        self.under_way.wait();
    }

    /// Waits until no handler that is a future is under way.
    pub async fn wait_idle_async(&self) {
        self.under_way.none().await;
    }

    /// Lets time pass to the next event, or to the end of what is left. Returns `false` if nothing is.
    fn pass(&self, left: &mut Duration) -> bool {
        if left.is_zero() {
            return false;
        }
        let now = self.wheel.wall_now();
        let until = |time: Millis| time.to_system().duration_since(now).unwrap_or_default();
        let next = self.inline.next_time().map_or(*left, until);
        let pass = next.max(Duration::from_millis(1)).min(*left);
        let before = self.wheel.now();
        self.wheel.advance(pass);
        // At the end of what a clock can read, it stands still.
        let is_end = pass >= Duration::from_millis(1) && self.wheel.now() == before;
        *left -= pass;
        !is_end
    }

    fn started_since(&self, before: u64) -> usize {
        let started = self.inline.metrics.snapshot().started - before;
        usize::try_from(started).unwrap_or(usize::MAX)
    }

    /// Does what is due now, until nothing is.
    fn run_due(&self) {
        // What a step leaves to do at once is done by the next one. Should it never be, because the
        // store fails, time passes nevertheless.
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

    /// Returns what the monotonic clock reads.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.wheel.now()
    }

    /// Returns what the wall clock reads. It begins with the system's time, in whole milliseconds.
    #[must_use]
    pub fn wall_now(&self) -> SystemTime {
        self.wheel.wall_now()
    }

    /// Sets the wall clock, and lets the jobs find out by themselves: for the model of this crate.
    #[doc(hidden)]
    pub fn set_wall_unseen(&self, time: SystemTime) {
        self.wheel.set_wall(time);
    }

    /// Sets the wall clock, forward or back, as an operator might set the system's. No time passes.
    pub fn set_wall(&self, time: SystemTime) {
        self.wheel.set_wall(time);
        self.inline.step(&mut Vec::new());
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("wall_now", &self.wall_now()).finish_non_exhaustive()
    }
}
