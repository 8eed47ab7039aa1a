//! Jobs under a key, of which at most one is pending; also if they come too often: one a period, or one after the last
//! of a burst.

use std::time::Duration;

use tickwheel::When;

use super::asynchronous::both;
use super::client::{Client, check_name};
use super::insert::{Inserted, NewJob};
use super::request::{self, Caller};
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::job::Job;

/// The jobs under one key: the number of an order, the name of a device. A key has at most one pending job. The
/// key is free once that job has started, so a job may insert its successor under its key. If the job was
/// inserted with [`Until::Ended`](crate::Until::Ended), the key is free once the job has ended. Each insert
/// here is a short form of one with [`NewJob::key`], where a key combines with an id, a batch or a transaction.
///
/// A job that fails keeps its key while it waits for its retry, unless another job has taken the key meanwhile:
/// then both run, and the key is the newer job's. A dead job does not hold its key, but remembers it: it is not
/// [retried](Client::retry) while another job has the key. In a process that does not run the jobs, a job
/// counts as started once it is claimed, up to 50 ms before it is due.
#[derive(Clone, Debug)]
pub struct Keyed {
    client: Client,
    key: String,
}

impl Client {
    /// Returns the jobs under a key: at most one pending job. A key has 1 to 255 bytes.
    #[doc(alias("unique", "deduplicate", "debounce"))]
    pub fn keyed(&self, key: &str) -> Keyed {
        Keyed { client: self.clone(), key: key.to_owned() }
    }
}

impl Keyed {
    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        check_name("key", &self.key)
    }

    pub(super) async fn put<J: Job>(
        &self,
        caller: Caller,
        new: NewJob<J>,
    ) -> Result<JobId, InsertError<J>> {
        let (inserted, new) = self.client.insert_new(caller, new.key(&*self.key)).await;
        let kind = match inserted {
            Ok(Inserted { id, is_new: true }) => return Ok(id),
            Ok(_) => InsertErrorKind::Occupied,
            Err(kind) => kind,
        };
        Err(InsertError::new(kind, new.into_job()))
    }

    pub(super) async fn get_by(&self, caller: Caller) -> Result<Option<JobInfo>, StoreError> {
        self.check()?;
        let job = self.client.ask(caller, request::get_key(self.key.clone())).await?;
        Ok(job.filter(|job| job.state == JobState::Pending))
    }
}

both! {
    Keyed:
    /// Stores a job under the key. It replaces the pending job of the key, which will never start.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`]; the pending job stays then. [`InsertErrorKind::Occupied`] if a job of the key
    /// runs and holds the key until its end ([`Until::Ended`](crate::Until::Ended)).
    pub fn insert<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> = |it, caller| {
        it.put(caller, NewJob::new(job).at(when)).await
    };

    /// Stores a job under the key, with the due time of the pending job that it replaces, or at `when` if there
    /// is none.
    ///
    /// # Errors
    ///
    /// As [`Keyed::insert`].
    pub fn insert_keeping_time<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> = |it, caller| {
        it.put(caller, NewJob::new(job).at(when).keeping_time()).await
    };

    /// Stores a job under the key, if the key has no pending job.
    ///
    /// # Errors
    ///
    /// [`InsertErrorKind::Occupied`] if it has one, and as [`Keyed::insert`].
    pub fn insert_if_absent<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> = |it, caller| {
        it.put(caller, NewJob::new(job).at(when).if_absent()).await
    };

    /// Cancels the pending job of the key. Returns `false` if there is none.
    ///
    /// # Errors
    ///
    /// If the store could not be changed, or the key is empty or longer than 255 bytes.
    pub fn cancel(&self) -> Result<bool, StoreError> = |it, caller| {
        it.check()?;
        it.client.ask(caller, request::cancel_key(it.key.clone())).await
    };

    /// Changes the due time of the pending job of the key. Returns `false` if there is none.
    ///
    /// # Errors
    ///
    /// As [`Keyed::cancel`], and if the time lies outside of the years 1970 to 9999.
    #[doc(alias("move", "reset"))]
    pub fn reschedule(&self, when: impl Into<When>) -> Result<bool, StoreError> = |it, caller| {
        it.check()?;
        let due = it.client.due(caller, when.into()).await?;
        it.client.ask(caller, request::reschedule_key(it.key.clone(), due)).await
    };

    /// Returns the pending job of the key.
    ///
    /// # Errors
    ///
    /// If the store could not be read, or the key is empty or longer than 255 bytes.
    pub fn get(&self) -> Result<Option<JobInfo>, StoreError> = |it, caller| it.get_by(caller).await;

    /// Returns the time until the pending job of the key is due: zero if it is overdue, `None` if
    /// there is none.
    ///
    /// # Errors
    ///
    /// As [`Keyed::get`].
    pub fn remaining(&self) -> Result<Option<Duration>, StoreError> = |it, caller| {
        let now = it.client.dispatcher.clock.now().wall;
        let job = it.get_by(caller).await?;
        Ok(job.map(|job| job.due.duration_since(now).unwrap_or_default()))
    };

    /// Stores a job that is due now, if this is the first such call for its kind and key in the present period.
    /// Otherwise the result says that nothing was stored, and names the job of the period. Periods count from 1970: one
    /// of an hour begins with each full hour of UTC. So two jobs may be less than a period apart, but no period has
    /// two.
    ///
    /// The job does not get the key. Its id is made of queue, kind, key and period, as with
    /// [`NewJob::id`](crate::NewJob::id). So the store knows it until
    /// [`Builder::keep_dead`](crate::Builder::keep_dead) after its end, which must not be shorter than the period.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`](crate::Client::insert).
    #[doc(alias("rate_limit", "once_per", "unique_for"))]
    pub fn throttle<J: Job>(
        &self,
        period: Duration,
        job: J,
    ) -> Result<Inserted, InsertError<J>> = |it, caller| {
        if let Err(error) = it.check() {
            return Err(InsertError::new(error, job));
        }
        let now = match it.client.latest(caller).await {
            Ok(now) => now.millis(),
            Err(error) => return Err(InsertError::new(error, job)),
        };
        let period = period.as_millis().max(1);
        let slot = now.get().unsigned_abs() as u128 / period;
        let queue = it.client.dispatcher.metrics.about.queue.as_deref().unwrap_or_default();
        let (kind, length, key) = (J::KIND, J::KIND.len(), it.key());
        let name = format!("throttle {queue} {period} {slot} {length} {kind} {key}");
        let id = JobId::named(&name);
        it.client.insert_by(caller, NewJob::new(job).id(id)).await
    };

    /// Stores a job that is due once `quiet` has passed without another such call, and at the latest `at_most` after
    /// the first of them: one run for a burst of changes. Each call replaces the pending job of the key, so the data of
    /// the last call counts.
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
    ) -> Result<JobId, InsertError<J>> = |it, caller| {
        it.put(caller, NewJob::new(job).at(quiet.min(at_most)).debounced(at_most)).await
    };
}
