//! The driver of jobs on a manual clock.

use core::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tickwheel::Wheel;

use crate::dispatch::command::Command;
use crate::dispatch::inline::Inline;
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
///     const NAME: &'static str = "close-order";
/// }
///
/// let (jobs, driver) = Jobs::memory().on(|_: CloseOrder, _| Ok(())).manual()?;
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
}

impl Driver {
    pub(crate) fn new(inline: Arc<Inline>, wheel: tickwheel::Driver, owner: Wheel) -> Driver {
        Driver { inline, wheel, _wheel: owner }
    }

    /// Lets `by` pass, and runs the jobs that come due meanwhile, each at its time: on this thread,
    /// one after the other, in the order of deadline, then of id. Returns how many runs started. What
    /// is due already runs first, also if `by` is zero.
    ///
    /// Time goes from one event to the next: with nothing pending and nothing that repeats, `Duration::MAX`
    /// is one step. With a repeat it takes as many steps as there are occurrences. Time stands still once
    /// 584 years have passed.
    ///
    /// Handlers that are futures run on their runtime, and end when they end.
    pub fn advance(&self, by: Duration) -> usize {
        let before = self.inline.metrics.snapshot().started;
        let mut left = by;
        loop {
            self.run_due();
            if left.is_zero() {
                break;
            }
            let now = self.wheel.wall_now();
            let until = |time: Millis| time.to_system().duration_since(now).unwrap_or_default();
            let next = self.inline.next_time().map_or(left, until);
            let pass = next.max(Duration::from_millis(1)).min(left);
            let before = self.wheel.now();
            self.wheel.advance(pass);
            if pass >= Duration::from_millis(1) && self.wheel.now() == before {
                // It is the end of what a clock can read.
                break;
            }
            left -= pass;
        }
        let started = self.inline.metrics.snapshot().started - before;
        usize::try_from(started).unwrap_or(usize::MAX)
    }

    /// Does what is due now, until nothing is.
    fn run_due(&self) {
        // What a step leaves to do at once is done by the next one. Should it never be, because the
        // store fails, time passes nevertheless.
        for _ in 0..1000 {
            self.inline.step(&mut vec![Command::Look]);
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
