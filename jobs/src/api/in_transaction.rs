//! The verbs that work in a transaction of the caller's, on the file of the jobs.
//!
//! Ground rules:
//!
//! - What they do is there with the commit of the transaction, and with it alone.
//! - They see the file as another process does: a job that is claimed counts as running, also in the
//!   process that runs it. So it is asked to stop, and not moved.

use std::sync::Arc;

use rusqlite::Transaction;
use tickwheel::When;

use super::client::{Client, draw};
use super::insert::{answer, to_store};
use super::new_job::{Inserted, NewJob};
use crate::store::sqlite::outbox;
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};
use crate::values::info::Cancel;
use crate::values::job::Job;

impl Client {
    /// Stores a job in a transaction of the caller's, with all that a [`NewJob`] says of it: see
    /// [`Client::insert_in`].
    ///
    /// A job that has the key counts as running from up to 50 ms before its time on: this one does not
    /// replace it then. It takes the key, or, with [`Until::Ended`](crate::Until::Ended), is not stored,
    /// and the answer has the id of the job that is there.
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

    /// Cancels a job in a transaction of the caller's, on the file of these jobs: it is cancelled once the
    /// transaction is committed, and with it. If the transaction is rolled back, the job is as it was.
    ///
    /// A job counts as running from up to 50 ms before its time on. [`Cancel::Running`]: once the
    /// transaction is committed, its run is told within a second, or at once after a
    /// [`Client::nudge`]; it may start until then, and may end well.
    ///
    /// As long as the transaction is open, nobody else writes to the file.
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
        outbox::cancel_in(&self.dispatcher.file, transaction, id, now)
    }

    /// Gives a pending job another time in a transaction of the caller's, as [`Client::cancel_in`] cancels
    /// it. Returns `false` if it runs, is dead, or is not there; it counts as running from up to 50 ms
    /// before its time on.
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
        outbox::reschedule_in(&self.dispatcher.file, transaction, id, due, now.millis())
    }

    pub(super) fn insert_new_in<J: Job>(
        &self,
        transaction: &Transaction<'_>,
        new: &NewJob<J>,
    ) -> Result<Inserted, InsertErrorKind> {
        let now = self.dispatcher.clock.latest();
        let kind = Arc::from(J::KIND);
        let job = to_store(&JobIds::of_this_process(), now, &kind, new)?;
        let id = job.id;
        let inserted = outbox::insert_in(&self.dispatcher.file, transaction, job, now.millis())?;
        Ok(answer(id, inserted))
    }
}
