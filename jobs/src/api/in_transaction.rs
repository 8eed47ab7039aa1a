//! Verbs in a transaction of the caller, on the file of the jobs.
//!
//! Ground rules:
//!
//! - Their changes take effect with the commit of the transaction, and only with it.
//! - They see the file as another process does: a claimed job counts as running, even in the process that runs
//!   it. So its cancel is only requested, and it is not rescheduled.

use std::sync::Arc;

use rusqlite::Transaction;
use tickwheel::When;

use super::client::{Client, draw};
use super::insert::{answer, to_store};
use super::new_job::{Inserted, NewJob};
use crate::store::sqlite::callers_transaction;
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};
use crate::values::info::Cancel;
use crate::values::job::Job;

impl Client {
    /// Stores a [`NewJob`] in a transaction of the caller: see [`Client::insert_in`].
    ///
    /// A job that has the key counts as running once it is claimed, up to 50 ms before it is due. The new job
    /// then does not replace it, but takes the key. If the claimed job holds its key until its end
    /// ([`Until::Ended`](crate::Until::Ended)), the new job is not stored, and the result has the id of the
    /// claimed one.
    ///
    /// # Errors
    ///
    /// As [`Client::insert_in`].
    pub fn insert_job_in<J: Job>(
        &self,
        transaction: &Transaction<'_>,
        new: NewJob<J>,
    ) -> Result<Inserted, InsertError<NewJob<J>>> {
        self.insert_new_in(transaction, &new).map_err(|kind| InsertError::new(kind, new))
    }

    /// Cancels a job in a transaction of the caller, on the file of these jobs. The commit of the transaction
    /// cancels the job. After a rollback the job is as it was.
    ///
    /// A job counts as running once it is claimed, up to 50 ms before it is due. The result is then
    /// [`Cancel::Running`]: after the commit the run is cancelled within a second, or at once after a
    /// [`Client::nudge`]. Until then it may start, and may complete.
    ///
    /// While the transaction is open, no other connection can write to the file.
    ///
    /// # Errors
    ///
    /// If the transaction is on another file ([`StoreError::Other`]), or the file could not be changed.
    /// Roll the transaction back then: a part of the change may be in it.
    pub fn cancel_in(
        &self,
        transaction: &Transaction<'_>,
        id: JobId,
    ) -> Result<Cancel, StoreError> {
        let now = self.dispatcher.clock.latest().millis();
        callers_transaction::cancel_in(&self.dispatcher.file, transaction, id, now)
    }

    /// Changes the due time of a pending job in a transaction of the caller, as [`Client::cancel_in`] cancels
    /// it. Returns `false` if the job runs, is dead, or does not exist. It counts as running once it is
    /// claimed, up to 50 ms before it is due.
    ///
    /// The process that runs the jobs sees the new time within a second, or at once after a
    /// [`Client::nudge`].
    ///
    /// # Errors
    ///
    /// As [`Client::cancel_in`]; and if the time lies outside of the years 1970 to 9999.
    pub fn reschedule_in(
        &self,
        transaction: &Transaction<'_>,
        id: JobId,
        when: impl Into<When>,
    ) -> Result<bool, StoreError> {
        let now = self.dispatcher.clock.latest();
        let due = now.resolve(when.into(), draw(JobId::new())).map_err(StoreError::Time)?;
        callers_transaction::reschedule_in(
            &self.dispatcher.file,
            transaction,
            id,
            due,
            now.millis(),
        )
    }

    pub(super) fn insert_new_in<J: Job>(
        &self,
        transaction: &Transaction<'_>,
        new: &NewJob<J>,
    ) -> Result<Inserted, InsertErrorKind> {
        let now = self.dispatcher.clock.latest();
        let kind = Arc::from(J::KIND);
        let job = to_store(&JobIds::of_this_process(), now, &kind, &self.headers(), new)?;
        let id = job.id;
        let inserted =
            callers_transaction::insert_in(&self.dispatcher.file, transaction, job, now.millis())?;
        let inserted = answer(id, inserted);
        #[cfg(feature = "tracing")]
        self.dispatcher.traces.inserted(J::KIND, inserted.id, inserted.is_new);
        Ok(inserted)
    }
}
