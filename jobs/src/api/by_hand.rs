//! The insert of a job whose Rust type is not available.

use std::sync::Arc;

use tickwheel::When;

use super::client::{Client, check_name};
use super::request;
use super::request::{Caller, on_thread};
use crate::store::{ApplyError, IfTaken, Inserted, NewJob, PAYLOAD_BYTES};
use crate::values::error::InsertErrorKind;
use crate::values::id::{JobId, JobIds};
use crate::values::invalid_input::InvalidInput;

impl Client {
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
            return Err(
                InvalidInput::TooLong { what: "payload", bytes, most: PAYLOAD_BYTES }.into()
            );
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
