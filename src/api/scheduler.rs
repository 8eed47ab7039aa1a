//! The scheduler: the verbs of a wheel, for code that does not own it. `api/verbs.rs` has all of them
//! but the insert.

use core::fmt;
use std::sync::Arc;

use crate::engine::verbs::Engine;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::Task;
use crate::values::time::When;

/// Inserts into a [`Wheel`](crate::Wheel) without keeping it alive: for jobs that insert jobs, and
/// for every part of a program that sets timers and does not decide when the wheel ends.
///
/// A clone costs a reference count. Once the wheel is dropped or shut down, inserts give the job
/// back with [`InsertErrorKind::Shutdown`](crate::InsertErrorKind::Shutdown), and every other verb
/// behaves as with a stale handle. A scheduler that outlives its wheel keeps some memory and no
/// thread.
///
/// A verb costs as much as the verb of the same name on a [`Wheel`](crate::Wheel). No insert panics.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Scheduler, Wheel};
///
/// const DAY: Duration = Duration::from_secs(24 * 3600);
///
/// fn place_order(scheduler: &Scheduler, number: u32) {
///     let later = scheduler.clone();
///     // If the wheel is gone by then, the error gives the job back, and it is dropped here.
///     let _ = scheduler.insert(DAY, move || {
///         println!("order {number} is not paid yet");
///         let _ = later.insert(2 * DAY, move || println!("order {number} closed"));
///     });
/// }
///
/// let (wheel, driver) = Wheel::builder().manual()?;
/// place_order(&wheel.scheduler(), 1001);
/// assert_eq!(driver.advance(DAY), 1);
/// assert_eq!(driver.advance(2 * DAY), 1);
/// # Ok::<(), tickwheel::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Scheduler {
    engine: Arc<Engine>,
}

impl Scheduler {
    pub(crate) fn new(engine: Arc<Engine>) -> Scheduler {
        Scheduler { engine }
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Runs `job` after a delay, at an instant, or at a wall-clock time, as
    /// [`Wheel::insert`](crate::Wheel::insert) does.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the wheel or the calling thread's shard is full, or the wheel
    /// is gone.
    #[doc(alias("timeout", "set_timeout", "sleep", "delay"))]
    #[doc(alias("schedule", "after", "insert_at", "ttl"))]
    #[inline]
    pub fn insert<F>(&self, when: impl Into<When>, job: F) -> Result<Handle, InsertError<F>>
    where
        F: Task + Send + 'static,
    {
        self.engine.insert(when.into(), job)
    }
}

impl From<&Scheduler> for Scheduler {
    fn from(scheduler: &Scheduler) -> Scheduler {
        scheduler.clone()
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("pending", &self.len()).finish_non_exhaustive()
    }
}
