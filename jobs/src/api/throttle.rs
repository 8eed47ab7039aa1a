//! Jobs of a key that come too often: one a period, or one after the last of a burst.

use std::time::Duration;

use super::caller::{Caller, on_thread};
use super::keyed::Keyed;
use super::new_job::{Inserted, NewJob};
use crate::values::error::InsertError;
use crate::values::id::JobId;
use crate::values::job::Job;

impl Keyed {
    /// Stores a job that is due now, if this is the first such call for its kind and key in the present period. Otherwise
    /// the result says that nothing was stored, and names the job of the period. Periods count from 1970: one of an hour
    /// begins with each full hour of UTC. So two jobs may be less than a period apart, but no period has two.
    ///
    /// The job does not get the key. Its id is made of queue, kind, key and period, as with
    /// [`insert_with_id`](crate::Client::insert_with_id). So the store knows it until
    /// [`Builder::keep_dead`](crate::Builder::keep_dead) after its end, which must not be shorter than the period.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`](crate::Client::insert).
    #[doc(alias("rate_limit", "once_per", "unique_for"))]
    pub fn throttle<J: Job>(&self, period: Duration, job: J) -> Result<Inserted, InsertError<J>> {
        on_thread(self.throttle_by(Caller::Thread, period, job))
    }

    /// [`Keyed::throttle`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::throttle`].
    pub async fn throttle_async<J: Job>(
        &self,
        period: Duration,
        job: J,
    ) -> Result<Inserted, InsertError<J>> {
        self.throttle_by(Caller::Future, period, job).await
    }

    async fn throttle_by<J: Job>(
        &self,
        caller: Caller,
        period: Duration,
        job: J,
    ) -> Result<Inserted, InsertError<J>> {
        let now = match self.client().latest(caller).await {
            Ok(now) => now.millis(),
            Err(failed) => return Err(InsertError::new(failed.error, job)),
        };
        if let Err(error) = self.check() {
            return Err(InsertError::new(error, job));
        }
        let period = period.as_millis().max(1);
        let slot = now.get().unsigned_abs() as u128 / period;
        let queue = self.client().dispatcher.metrics.about.queue.as_deref().unwrap_or_default();
        let (kind, length, key) = (J::KIND, J::KIND.len(), self.key());
        let name = format!("throttle {queue} {period} {slot} {length} {kind} {key}");
        let id = JobId::named(&name);
        self.client().insert_by(caller, NewJob::new(job).id(id)).await
    }

    /// Stores a job that is due once `quiet` has passed without another such call, and at the latest `at_most` after the
    /// first of them: one run for a burst of changes. Each call replaces the pending job of the key, so the data of the
    /// last call counts.
    ///
    /// A burst ends when its job starts. A call during the run begins the next one. If the pending job of the key waits
    /// for a retry, or was stored in another way, the call begins a burst too.
    ///
    /// # Errors
    ///
    /// As [`Keyed::insert`].
    #[doc(alias("coalesce", "batch", "settle"))]
    pub fn debounce<J: Job>(
        &self,
        quiet: Duration,
        at_most: Duration,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        on_thread(self.put(Caller::Thread, debounced(quiet, at_most, job)))
    }

    /// [`Keyed::debounce`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::debounce`].
    pub async fn debounce_async<J: Job>(
        &self,
        quiet: Duration,
        at_most: Duration,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        self.put(Caller::Future, debounced(quiet, at_most, job)).await
    }
}

fn debounced<J>(quiet: Duration, at_most: Duration, job: J) -> NewJob<J> {
    NewJob::new(job).at(quiet.min(at_most)).debounced(at_most)
}
