//! The wheel's verbs for repeating jobs.

use std::time::Duration;

use super::Wheel;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::repeat::{Next, Repeat, Run};

impl Wheel {
    /// Runs `job` once every `period`, the first time after one period, until it is cancelled or
    /// panics. Runs keep their phase for ever. A run never overlaps the one before; periods that
    /// are missed during a long run are skipped. [`Wheel::repeat`] offers other policies.
    ///
    /// The handle is the same for all runs. On a bounded wheel a repeating job takes room until its
    /// last run has ended, also while it runs. A run costs three locks. It allocates nothing, but on
    /// a pool rayon may allocate a task to hand it over.
    ///
    /// # Errors
    ///
    /// [`InsertError`] with the job: the period is zero, or the wheel or the calling thread's shard
    /// is full ([`InsertErrorKind::Full`](crate::InsertErrorKind::Full)), or the wheel was closed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Wheel;
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let second = Duration::from_secs(1);
    /// let mut count = 0;
    /// let ping = wheel.every(second, move || {
    ///     count += 1;
    ///     println!("ping {count}");
    /// })?;
    /// assert_eq!(driver.advance(10 * second), 10);
    /// assert!(wheel.cancel(ping));
    /// assert_eq!(driver.advance(10 * second), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("interval", "set_interval", "periodic"))]
    pub fn every<F>(&self, period: Duration, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.engine.every(period, job)
    }

    /// Runs `job` again and again, at the times that `repeat` and the results of its runs give. Every
    /// run gets a [`Run`]: its deadline, its lateness, the number of missed periods, and the job's
    /// handle.
    ///
    /// It costs as much as [`Wheel::every`].
    ///
    /// # Errors
    ///
    /// As [`Wheel::every`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Missed, Next, Repeat, Wheel};
    /// let wheel = Wheel::new();
    /// let mut wait = Duration::from_millis(10);
    /// wheel.repeat(Repeat::irregular(), move |run| {
    ///     println!("try, {:?} late", run.late);
    ///     wait *= 2;
    ///     if wait < Duration::from_secs(60) { Next::After(wait) } else { Next::Stop }
    /// })?;
    /// let meter = Repeat::every(Duration::from_millis(5)).missed(Missed::Burst);
    /// wheel.repeat(meter, |run| {
    ///     println!("the reading of {:?}", run.deadline);
    ///     Next::Period
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("retry", "backoff", "cron"))]
    pub fn repeat<F>(&self, repeat: Repeat, job: F) -> Result<Handle, InsertError<F>>
    where
        F: FnMut(Run) -> Next + Send + 'static,
    {
        self.engine.repeat(repeat, job)
    }
}
