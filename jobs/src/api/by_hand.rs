//! Verbs for an operator: an occurrence of a schedule now, and a job whose Rust type is not available.

use std::sync::Arc;

use tickwheel::When;

use super::client::{Client, check_name};
use super::request;
use super::request::{Caller, on_thread};
use crate::store::{ApplyError, IfTaken, Inserted, NewJob, PAYLOAD_BYTES};
use crate::values::error::{InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};

impl Client {
    /// Makes an additional occurrence of a schedule, due now, and returns its id, or `None` if there is no
    /// schedule of this name: for example for a nightly report that is wanted at noon.
    ///
    /// The job has the kind and the data of the schedule, and runs where its kind is handled. The schedule does
    /// not change. Each call makes a job of its own, under a new id, even if the schedule has an occurrence at
    /// the same time.
    ///
    /// # Errors
    ///
    /// If the store could not be read or changed. After [`StoreError::Unknown`] the job is in the store once,
    /// or not at all.
    pub fn run_schedule(&self, name: &str) -> Result<Option<JobId>, StoreError> {
        on_thread(self.run_schedule_by(Caller::Thread, name, None))
    }

    /// [`Client::run_schedule`] with a chosen id. A second call with this id makes no second job, so a form that is sent
    /// twice makes one.
    ///
    /// # Errors
    ///
    /// As [`Client::run_schedule`].
    pub fn run_schedule_once(&self, name: &str, id: JobId) -> Result<Option<JobId>, StoreError> {
        on_thread(self.run_schedule_by(Caller::Thread, name, Some(id)))
    }

    pub(super) async fn run_schedule_by(
        &self,
        caller: Caller,
        name: &str,
        chosen: Option<JobId>,
    ) -> Result<Option<JobId>, StoreError> {
        let schedules = self.ask(caller, request::schedules()).await?;
        let Some(schedule) = schedules.into_iter().find(|schedule| schedule.name == name) else {
            return Ok(None);
        };
        let now = self.latest(caller).await.map_err(|failed| failed.error)?.millis();
        let new_id = || JobIds::of_this_process().next(now, Some((&schedule.kind, now)));
        let id = chosen.unwrap_or_else(new_id);
        let occurrence = NewJob {
            id,
            kind: Arc::from(schedule.kind),
            due: now,
            key: None,
            callers_id: chosen.is_some(),
            extra: None,
            payload: schedule.payload,
        };
        // It waits for no run, also if the inserts of this client do.
        let at_once = Client::new(Arc::clone(&self.dispatcher));
        at_once.ask(caller, request::insert(occurrence)).await?;
        Ok(Some(id))
    }

    /// Stores a job by the name of its kind and its payload: for the command `tickwheel-jobs`, which does not
    /// know the types. If another job has the key, the insert is refused, unless `replaces` is set.
    #[doc(hidden)]
    pub fn insert_by_hand(
        &self,
        when: impl Into<When>,
        kind: &str,
        key: Option<&str>,
        replaces: bool,
        payload: Vec<u8>,
    ) -> Result<JobId, InsertErrorKind> {
        check_name("kind's name", kind)?;
        if let Some(key) = key {
            check_name("key", key)?;
        }
        let bytes = payload.len();
        if bytes > PAYLOAD_BYTES {
            let error = StoreError::TooLong { what: "payload", bytes, most: PAYLOAD_BYTES };
            return Err(error.into());
        }
        let due = on_thread(self.due(Caller::Thread, when.into()))?;
        let now = self.dispatcher.latest().map_err(|failed| failed.error)?.millis();
        let id = JobIds::of_this_process().next(now, Some((kind, due)));
        let if_taken = if replaces { IfTaken::Replace } else { IfTaken::Leave };
        let key = key.map(|key| (key.to_owned(), if_taken));
        let kind = Arc::from(kind);
        let new = NewJob { id, kind, due, key, callers_id: false, extra: None, payload };
        match on_thread(self.request(Caller::Thread, request::insert(new))) {
            Ok(Inserted::Taken(_)) => Err(InsertErrorKind::Occupied),
            Ok(_) => Ok(id),
            Err(ApplyError { unknown: true, .. }) => Err(InsertErrorKind::Unknown(id)),
            Err(failed) => Err(failed.error.into()),
        }
    }
}
