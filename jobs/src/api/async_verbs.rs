//! The verbs as futures, which wait without blocking a thread.

use std::time::Duration;

use tickwheel::When;

use super::bulk::{Bulk, BulkCounts};
use super::client::Client;
use super::insert::{Inserted, NewJob};
use super::keyed::Keyed;
use super::read::Pages;
use super::request;
use super::request::Caller;
use crate::values::error::{InsertError, StoreError, Violation};
use crate::values::id::JobId;
use crate::values::info::{Cancel, Counts, JobInfo, ScheduleInfo};
use crate::values::job::Job;
use crate::values::schedule::Schedule;

/// # Futures
///
/// Each verb that waits, but for `is_paused`, has a form for async code, which does the same, with the same errors and
/// the same limit ([`Builder::call_timeout`](crate::Builder::call_timeout)). It runs on any runtime, and needs none.
/// Futures share commits: 200 of them insert about twice as fast as 64 threads (`docs/performance.md`). Do not call the
/// other form in an `async fn`: it blocks the runtime's thread until the disk has written.
///
/// A future does nothing until it is polled. **If it is dropped before it has ended**, its change may have been
/// made or not, as after a lost answer. To repeat an insert safely, give the job an id
/// ([`insert_with_id_async`](Client::insert_with_id_async), [`NewJob::id`]).
///
/// In the process that runs the jobs, the dispatcher's thread answers. A [`Client`] of
/// [`Builder::client`](crate::Builder::client) starts a thread at its first such call. The limits of calls are
/// timers of a wheel, which adds one more thread. These threads end with the last clone of the client, or with
/// the jobs.
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use tickwheel_jobs::{Client, InsertErrorKind, Job, JobId};
///
/// #[derive(Serialize, Deserialize)]
/// struct CloseOrder {
///     order: u64,
/// }
/// impl Job for CloseOrder {
///     const KIND: &'static str = "close-order";
/// }
///
/// async fn ordered(jobs: &Client, order: u64) -> Result<JobId, InsertErrorKind> {
///     let hour = Duration::from_secs(3600);
///     Ok(jobs.insert_async(72 * hour, CloseOrder { order }).await?)
/// }
/// ```
impl Client {
    /// [`Client::insert`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`].
    #[doc(alias("enqueue", "push", "add", "perform_in", "perform_at", "schedule", "delay"))]
    pub async fn insert_async<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        let new = NewJob::new(job).at(when);
        self.insert_by(Caller::Future, new).await.map(|inserted| inserted.id)
    }

    /// [`Client::insert_job`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::insert_job`].
    pub async fn insert_job_async<J: Job>(
        &self,
        new: NewJob<J>,
    ) -> Result<Inserted, InsertError<NewJob<J>>> {
        let (inserted, new) = self.insert_new(Caller::Future, new).await;
        inserted.map_err(|kind| InsertError::new(kind, new))
    }

    /// [`Client::insert_with_id`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::insert_with_id`].
    #[doc(alias("unique", "idempotent", "deduplicate", "enqueue_once"))]
    pub async fn insert_with_id_async<J: Job>(
        &self,
        id: JobId,
        when: impl Into<When>,
        job: J,
    ) -> Result<Inserted, InsertError<J>> {
        self.insert_by(Caller::Future, NewJob::new(job).at(when).id(id)).await
    }

    /// [`Client::insert_batch`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::insert_batch`].
    #[doc(alias("bulk", "insert_all", "insert_many", "push_bulk", "add_bulk"))]
    pub async fn insert_batch_async<J: Job>(
        &self,
        jobs: impl IntoIterator<Item = impl Into<NewJob<J>>>,
    ) -> Result<Vec<JobId>, InsertError<Vec<NewJob<J>>>> {
        let jobs = jobs.into_iter().map(Into::into).collect();
        self.insert_all(Caller::Future, jobs).await
    }

    /// [`Client::cancel`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::cancel`].
    #[doc(alias("remove", "unschedule", "revoke", "abort"))]
    pub async fn cancel_async(&self, id: JobId) -> Result<Cancel, StoreError> {
        self.cancel_by(Caller::Future, id).await
    }

    /// [`Client::reschedule`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::reschedule`].
    #[doc(alias("reschedule", "move", "update", "change_delay", "snooze"))]
    pub async fn reschedule_async(
        &self,
        id: JobId,
        when: impl Into<When>,
    ) -> Result<bool, StoreError> {
        self.reschedule_by(Caller::Future, id, when.into()).await
    }

    /// [`Client::schedule`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::schedule`].
    #[doc(alias("schedule", "every", "cron", "recurring", "periodic"))]
    pub async fn schedule_async<J: Job>(
        &self,
        name: &str,
        every: impl Into<Schedule>,
        job: J,
    ) -> Result<(), StoreError> {
        self.schedule_by(Caller::Future, name, every.into(), job).await
    }

    /// [`Client::unschedule`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::unschedule`].
    pub async fn unschedule_async(&self, name: &str) -> Result<bool, StoreError> {
        self.ask(Caller::Future, request::drop_schedule(name.to_owned())).await
    }

    /// [`Client::run_schedule`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::run_schedule`].
    pub async fn run_schedule_async(&self, name: &str) -> Result<Option<JobId>, StoreError> {
        self.run_schedule_by(Caller::Future, name, None).await
    }

    /// [`Client::pause_schedule`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::pause_schedule`].
    pub async fn pause_schedule_async(&self, name: &str) -> Result<(), StoreError> {
        self.pause_schedule_by(Caller::Future, name).await
    }

    /// [`Client::resume_schedule`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::resume_schedule`].
    pub async fn resume_schedule_async(&self, name: &str) -> Result<(), StoreError> {
        self.resume_schedule_by(Caller::Future, name).await
    }

    /// [`Client::schedules`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::schedules`].
    pub async fn schedules_async(&self) -> Result<Vec<ScheduleInfo>, StoreError> {
        self.schedules_by(Caller::Future).await
    }

    /// [`Client::get`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    #[doc(alias("find", "job", "status", "fetch"))]
    pub async fn get_async(&self, id: JobId) -> Result<Option<JobInfo>, StoreError> {
        self.ask(Caller::Future, request::get(id)).await
    }

    /// [`Client::retry`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::retry`].
    #[doc(alias("retry", "requeue", "resurrect"))]
    pub async fn retry_async(&self, id: JobId) -> Result<bool, StoreError> {
        self.ask(Caller::Future, self.request_retry(id)).await
    }

    /// [`Client::delete`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::delete`].
    #[doc(alias("delete", "remove", "purge"))]
    pub async fn delete_async(&self, id: JobId) -> Result<bool, StoreError> {
        self.ask(Caller::Future, request::delete(id)).await
    }

    /// [`Client::count`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::count`].
    #[doc(alias("len", "size", "stats"))]
    pub async fn count_async(&self) -> Result<Counts, StoreError> {
        self.count_by(Caller::Future).await
    }

    /// [`Client::unhandled`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::unhandled`].
    pub async fn unhandled_async(&self) -> Result<Vec<(String, u64)>, StoreError> {
        Ok(self.without_handler(self.kinds_by(Caller::Future).await?))
    }

    /// [`Client::kinds`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::kinds`].
    pub async fn kinds_async(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.kinds_by(Caller::Future).await
    }

    /// [`Client::flush`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::flush`].
    pub async fn flush_async(&self) -> Result<(), StoreError> {
        self.flush_by(Caller::Future).await
    }

    /// [`Client::check`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::check`].
    pub async fn check_async(&self) -> Result<(), Violation> {
        self.dispatcher.check_async().await
    }
}

/// The verbs as futures: see [`Client`].
impl Keyed {
    /// [`Keyed::insert`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::insert`].
    pub async fn insert_async<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        self.put(Caller::Future, NewJob::new(job).at(when)).await
    }

    /// [`Keyed::insert_keeping_time`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::insert`].
    pub async fn insert_keeping_time_async<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        self.put(Caller::Future, NewJob::new(job).at(when).keeping_time()).await
    }

    /// [`Keyed::insert_if_absent`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::insert_if_absent`].
    pub async fn insert_if_absent_async<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        self.put(Caller::Future, NewJob::new(job).at(when).if_absent()).await
    }

    /// [`Keyed::cancel`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::cancel`].
    pub async fn cancel_async(&self) -> Result<bool, StoreError> {
        self.cancel_by(Caller::Future).await
    }

    /// [`Keyed::reschedule`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::reschedule`].
    #[doc(alias("reschedule", "move"))]
    pub async fn reschedule_async(&self, when: impl Into<When>) -> Result<bool, StoreError> {
        self.reschedule_by(Caller::Future, when.into()).await
    }

    /// [`Keyed::get`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::get`].
    pub async fn get_async(&self) -> Result<Option<JobInfo>, StoreError> {
        self.get_by(Caller::Future).await
    }

    /// [`Keyed::remaining`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Keyed::remaining`].
    pub async fn remaining_async(&self) -> Result<Option<Duration>, StoreError> {
        self.remaining_by(Caller::Future).await
    }
}

impl Pages {
    /// [`Pages::next_page`], as a future. If it is dropped, the next call reads the same page.
    ///
    /// # Errors
    ///
    /// As [`Pages::next_page`].
    pub async fn next_page_async(&mut self) -> Result<Vec<JobInfo>, StoreError> {
        self.next_page_by(Caller::Future).await
    }
}

impl Bulk {
    /// [`Bulk::next_step`], as a future. If it is dropped, the next call makes the same step.
    ///
    /// # Errors
    ///
    /// As [`Bulk::next_step`].
    pub async fn next_step_async(&mut self) -> Result<Option<BulkCounts>, StoreError> {
        self.next_step_by(Caller::Future).await
    }

    /// [`Bulk::run`], as a future. If it is dropped, the next call goes on from there.
    ///
    /// # Errors
    ///
    /// As [`Bulk::run`].
    pub async fn run_async(&mut self) -> Result<BulkCounts, StoreError> {
        self.run_by(Caller::Future).await
    }
}
