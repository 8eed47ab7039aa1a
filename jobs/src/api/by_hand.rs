//! What an operator does by hand: a run of a schedule now, and a job whose type is not at hand.

use std::sync::Arc;

use tickwheel::When;

use super::caller::{Caller, on_thread};
use super::client::{Client, check_name, error_of};
use crate::store::{Answer, ApplyError, IfTaken, Inserted, NewJob, Op, PAYLOAD_BYTES};
use crate::values::error::{InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};

impl Client {
    /// Makes an occurrence of a schedule that is due now, and returns its id: `None` if there is no schedule
    /// of this name. For a nightly report that is wanted at noon.
    ///
    /// The job has the kind and the data of the schedule, and runs where its kind is handled. The schedule
    /// goes on as if nothing had happened. Each call makes a job of its own, under a new id: an occurrence
    /// that the schedule makes at this very time is another job, and so is that of a second call.
    ///
    /// # Errors
    ///
    /// If the store could not be read or changed. After [`StoreError::Unknown`] the job is there once, or
    /// not at all.
    pub fn run_schedule(&self, name: &str) -> Result<Option<JobId>, StoreError> {
        on_thread(self.run_schedule_by(Caller::Thread, name))
    }

    pub(super) async fn run_schedule_by(
        &self,
        caller: Caller,
        name: &str,
    ) -> Result<Option<JobId>, StoreError> {
        let schedules = match self.request(caller, Op::Schedules).await {
            Ok(Answer::Schedules(schedules)) => schedules,
            other => return Err(error_of(other)),
        };
        let Some(schedule) = schedules.into_iter().find(|schedule| schedule.name == name) else {
            return Ok(None);
        };
        let now = self.latest(caller).await.map_err(|failed| failed.error)?.millis();
        let id = JobIds::of_this_process().next(now, Some((&schedule.kind, now)));
        let occurrence = NewJob {
            id,
            kind: Arc::from(schedule.kind),
            due: now,
            key: None,
            callers_id: false,
            extra: None,
            payload: schedule.payload,
        };
        match self.request(caller, Op::Insert(occurrence)).await {
            Ok(Answer::Inserted(_)) => Ok(Some(id)),
            other => Err(error_of(other)),
        }
    }

    /// Stores a job from the name of its kind and its payload: for the command `tickwheel-jobs`, which has
    /// no types. A key that is taken is refused, unless the job replaces the one that has it.
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
        match self.dispatcher.call_and_wait(Op::Insert(new)) {
            Ok(Answer::Inserted(Inserted::Taken(_))) => Err(InsertErrorKind::Occupied),
            Ok(Answer::Inserted(_)) => Ok(id),
            Err(ApplyError { unknown: true, .. }) => Err(InsertErrorKind::Unknown(id)),
            other => Err(error_of(other).into()),
        }
    }
}
