//! Jobs under a key: at most one pending job each.

use std::time::Duration;

use tickwheel::When;

use super::client::{Client, check_name};
use super::new_job::{Inserted, NewJob};
use crate::store::words::Op;
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::job::Job;

/// The jobs under one key: the number of an order, the name of a device. A key has at most one
/// pending job. It is free once that has started, so a job may insert its successor under its key; unless
/// the job was inserted with [`Until::Ended`](crate::Until::Ended): then it is free once that has ended.
/// Each insert here is a short form of one with [`NewJob::key`], where a key goes with an id, a batch or a
/// transaction.
///
/// A job that fails keeps its key while it waits for its next try, unless another job has taken the
/// key meanwhile: then both run, and the key is the newer job's. A dead job has no key, but keeps its name
/// for it: it is not [revived](Client::revive) while another job has the key. From another process than the one
/// that runs the jobs, a job counts as started from up to 50 ms before its time on.
#[derive(Clone, Debug)]
pub struct Keyed {
    client: Client,
    key: String,
}

impl Client {
    /// Returns the jobs under a key: at most one pending job. A key has 1 to 255 bytes.
    #[doc(alias("unique", "deduplicate", "debounce"))]
    pub fn keyed(&self, key: &str) -> Keyed {
        Keyed::new(self.clone(), key.to_owned())
    }
}

impl Keyed {
    pub(crate) fn new(client: Client, key: String) -> Keyed {
        Keyed { client, key }
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Stores a job under the key. It replaces the pending job of the key, which will never start.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`]; the job that was there stays then.
    /// [`InsertErrorKind::Occupied`] if it runs and holds its key until its end
    /// ([`Until::Ended`](crate::Until::Ended)).
    pub fn insert<J: Job>(&self, when: impl Into<When>, job: J) -> Result<JobId, InsertError<J>> {
        self.put(NewJob::new(job).at(when))
    }

    /// Stores a job under the key, at the time of the pending job that it replaces. If there is none,
    /// at `when`.
    ///
    /// # Errors
    ///
    /// As [`Keyed::insert`].
    pub fn insert_keeping_time<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        self.put(NewJob::new(job).at(when).keeping_time())
    }

    /// Stores a job under the key, if the key has no pending job.
    ///
    /// # Errors
    ///
    /// [`InsertErrorKind::Occupied`] if it has one, and as [`Keyed::insert`].
    pub fn insert_if_absent<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        self.put(NewJob::new(job).at(when).if_absent())
    }

    fn put<J: Job>(&self, new: NewJob<J>) -> Result<JobId, InsertError<J>> {
        let new = new.key(&*self.key);
        match self.client.insert_new(&new) {
            Ok(Inserted { id, is_new: true }) => Ok(id),
            Ok(_) => Err(InsertError::new(InsertErrorKind::Occupied, new.into_job())),
            Err(kind) => Err(InsertError::new(kind, new.into_job())),
        }
    }

    /// Cancels the pending job of the key. Returns `false` if there is none.
    ///
    /// # Errors
    ///
    /// If the store could not be changed.
    pub fn cancel(&self) -> Result<bool, StoreError> {
        self.client.change(Op::CancelKey(self.key.clone()))
    }

    /// Gives the pending job of the key another time. Returns `false` if there is none.
    ///
    /// # Errors
    ///
    /// If the store could not be changed, or the time lies outside of the years 1970 to 9999.
    #[doc(alias("reschedule", "move"))]
    pub fn reset(&self, when: impl Into<When>) -> Result<bool, StoreError> {
        let due = self.client.due(when.into())?;
        self.client.change(Op::ResetKey(self.key.clone(), due))
    }

    /// Returns the pending job of the key.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn get(&self) -> Result<Option<JobInfo>, StoreError> {
        check_name("key", &self.key)?;
        let job = self.client.info(Op::GetKey(self.key.clone()))?;
        Ok(job.filter(|job| job.state == JobState::Pending))
    }

    /// Returns the time until the pending job of the key is due: zero if it is overdue, `None` if
    /// there is none.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn remaining(&self) -> Result<Option<Duration>, StoreError> {
        let now = self.client.link.clock.now().wall;
        Ok(self.get()?.map(|job| job.deadline.duration_since(now).unwrap_or_default()))
    }
}
