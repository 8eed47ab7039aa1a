//! Repeating jobs under a key.
//!
//! A repeating job keeps its key until its last run has ended. Until then it can be replaced and
//! cancelled, also while it runs: no further run starts.

use core::hash::{BuildHasher, Hash};
use core::time::Duration;

use super::Keyed;
use crate::engine::verbs::IgnoresRun;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::{Call, CallAgain, Disarmed, Job, disarmed};
use crate::values::repeat::{Next, Repeat, Run};
use crate::values::when::When;

impl<K, S> Keyed<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Runs `job` once every `period` under a key, as [`Wheel::every`](crate::Wheel::every) does. If
    /// the key has a pending job, that is replaced as by [`Keyed::insert`].
    ///
    /// # Errors
    ///
    /// [`InsertError`] with key and job: the period is zero, or the wheel is full, or gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Keyed, Wheel};
    /// let (wheel, driver) = Wheel::builder().manual()?;
    /// let second = Duration::from_secs(1);
    /// let pings = Keyed::new(&wheel);
    /// pings.every("10.0.0.7".to_owned(), second, || println!("ping"))?;
    /// assert_eq!(driver.advance(10 * second), 10);
    /// assert!(pings.cancel("10.0.0.7"));
    /// assert_eq!(driver.advance(10 * second), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("interval", "set_interval", "periodic"))]
    pub fn every<F>(
        &self,
        key: K,
        period: Duration,
        job: F,
    ) -> Result<Option<Job>, InsertError<(K, F)>>
    where
        F: FnMut() + Send + 'static,
    {
        self.put_repeating(key, Repeat::every(period), IgnoresRun(job), |_| true)
            .map_err(|refused| refused.map(|(key, job)| (key, job.0)))
    }

    /// Runs `job` again and again under a key, as [`Wheel::repeat`](crate::Wheel::repeat) does. If
    /// the key has a pending job, that is replaced as by [`Keyed::insert`].
    ///
    /// # Errors
    ///
    /// As [`Keyed::every`].
    #[doc(alias("retry", "backoff", "cron"))]
    pub fn repeat<F>(
        &self,
        key: K,
        repeat: Repeat,
        job: F,
    ) -> Result<Option<Job>, InsertError<(K, F)>>
    where
        F: FnMut(Run) -> Next + Send + 'static,
    {
        self.put_repeating(key, repeat, job, |_| true)
    }

    /// Inserts a [`Job`] that was taken out of a wheel: once or repeating, as it was.
    pub(super) fn put_again<F: Call>(
        &self,
        key: K,
        when: When,
        job: F,
        may_replace: impl FnOnce(Handle) -> bool,
    ) -> Result<Option<Job>, InsertError<(K, F)>> {
        let put = match disarmed(job) {
            Disarmed::OneShot(job) => self.put(key, when, job, may_replace),
            Disarmed::Repeating { handle, repeat, job } => {
                let put = self.put_repeating(key, repeat.starting(when), job, may_replace);
                let back = |job| {
                    self.engine().rearmable(handle, Disarmed::Repeating { handle, repeat, job })
                };
                put.map_err(|refused| refused.map(|(key, job)| (key, back(job))))
            }
        };
        put.map_err(|refused| refused.map(|(key, job)| (key, job.into_call())))
    }

    fn put_repeating<C: CallAgain>(
        &self,
        key: K,
        repeat: Repeat,
        job: C,
        may_replace: impl FnOnce(Handle) -> bool,
    ) -> Result<Option<Job>, InsertError<(K, C)>> {
        let engine = self.engine();
        self.put_by(key, job, may_replace, |keyed_job, present, replaced| {
            engine.repeat_in_place_of(present, repeat, keyed_job, replaced)
        })
    }
}
