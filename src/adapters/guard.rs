//! The guard: a handle that cancels its job when it is dropped.

use core::fmt;

use crate::api::scheduler::Scheduler;
use crate::values::handle::Handle;
use crate::values::time::When;

/// Cancels a job when the guard is dropped: for the timeout of a connection, a request or another
/// value that may be dropped first.
///
/// A guard does not keep the wheel alive. If its job has run or was cancelled, the drop does
/// nothing. If its job is running, the run goes on; a repeating job does not run again. Note that
/// `let _ = Guard::new(…)` drops the guard at once; `let _idle =` keeps it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Guard, Wheel};
/// let wheel = Wheel::new();
/// let minute = Duration::from_secs(60);
/// {
///     let idle = wheel.insert(minute, || println!("the connection was idle"));
///     let idle = Guard::new(&wheel, idle);
///     // A packet comes:
///     assert!(idle.reset(minute));
///     // The connection is served here. It ends, and so does its timeout.
/// }
/// assert!(wheel.is_empty());
/// let kept = Guard::new(&wheel, wheel.insert(minute, || println!("late"))).detach();
/// assert!(wheel.is_pending(kept));
/// ```
#[must_use = "a guard that is dropped cancels its job at once"]
pub struct Guard {
    handle: Handle,
    /// `None` once the guard is detached.
    scheduler: Option<Scheduler>,
}

impl Guard {
    /// Returns a guard for a job of this wheel.
    pub fn new(wheel: impl Into<Scheduler>, handle: Handle) -> Guard {
        Guard { handle, scheduler: Some(wheel.into()) }
    }

    /// Gives the job a new time, as [`Wheel::reset`](crate::Wheel::reset) does. Returns whether it
    /// was pending.
    pub fn reset(&self, when: impl Into<When>) -> bool {
        self.scheduler.as_ref().is_some_and(|scheduler| scheduler.reset(self.handle, when))
    }

    /// Returns the handle of the job.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Drops the guard without cancelling the job. Returns the handle of the job.
    pub fn detach(mut self) -> Handle {
        self.scheduler = None;
        self.handle
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(scheduler) = &self.scheduler {
            scheduler.cancel(self.handle);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.handle).finish()
    }
}
