//! The inserts of a job whose Rust type is not available: of a new one, and of a copy.

use std::sync::Arc;

use tickwheel::When;

use super::asynchronous::both;
use super::client::{Client, check_name};
use super::request;
use super::request::{Caller, on_thread};
use crate::store::{ApplyError, IfTaken, Inserted, NewJob, PAYLOAD_BYTES};
use crate::values::error::InsertErrorKind;
use crate::values::id::{JobId, JobIds};
use crate::values::info::JobInfo;
use crate::values::invalid_input::InvalidInput;
use crate::values::job::Extra;

both! {
    Client:
    /// Inserts a new job like one that was read: with its kind, payload, partition, headers and retry policy. So a job
    /// that has completed runs once more. The new job has an id of its own, and neither the key of the other one nor its
    /// group.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs, Keep};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Mail(u64);
    /// # impl Job for Mail { const KIND: &'static str = "mail"; }
    /// # let (jobs, driver) = Jobs::memory().handle(|_: Mail, _| Ok(())).manual()?;
    /// # jobs.kind::<Mail>().keep_completed(Keep::last(9))?;
    /// # jobs.insert(Duration::ZERO, Mail(7))?;
    /// # driver.advance(Duration::from_secs(1));
    /// let sent = jobs.ended().next().expect("a mail was sent");
    /// let again = jobs.insert_copy(&sent, Duration::ZERO)?;
    /// assert_eq!(jobs.get(again)?.expect("it is pending").payload, sent.payload);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::insert`].
    #[doc(alias("again", "repeat", "rerun", "clone"))]
    pub fn insert_copy(&self, of: &JobInfo, when: impl Into<When>)
        -> Result<JobId, InsertErrorKind> = |it, caller| {
        let extra = Extra {
            retry: of.retry,
            headers: of.headers.clone(),
            partition: of.partition.as_deref().map(Arc::from),
            ..Extra::default()
        };
        let raw = (&*of.kind, None, extra, of.payload.clone());
        it.insert_raw(caller, when.into(), raw).await
    };
}

/// A job without its type: its kind, its key and what happens if another job has that, its properties, its payload.
type Raw<'a> = (&'a str, Option<(&'a str, IfTaken)>, Extra, Vec<u8>);

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
        let if_taken = if replaces { IfTaken::Replace } else { IfTaken::Leave };
        let raw = (kind, key.map(|key| (key, if_taken)), Extra::default(), payload);
        on_thread(self.insert_raw(Caller::Thread, when.into(), raw))
    }

    async fn insert_raw(
        &self,
        caller: Caller,
        when: When,
        (kind, key, extra, payload): Raw<'_>,
    ) -> Result<JobId, InsertErrorKind> {
        check_name("kind's name", kind)?;
        if let Some((key, _)) = key {
            check_name("key", key)?;
        }
        let bytes = payload.len();
        if bytes > PAYLOAD_BYTES {
            return Err(
                InvalidInput::TooLong { what: "payload", bytes, most: PAYLOAD_BYTES }.into()
            );
        }
        let due = self.due(caller, when).await?;
        let now = self.latest(caller).await.map_err(|failed| failed.error)?.millis();
        let id = JobIds::of_this_process().next(now, Some((kind, due)));
        let key = key.map(|(key, if_taken)| (key.to_owned(), if_taken));
        let (kind, extra) = (Arc::from(kind), extra.boxed());
        let new = NewJob { id, kind, due, key, callers_id: false, extra, payload };
        match self.request(caller, request::insert(new)).await {
            Ok(Inserted::Taken(_)) => Err(InsertErrorKind::Occupied),
            Ok(_) => Ok(id),
            Err(ApplyError { unknown: true, .. }) => Err(InsertErrorKind::Unknown(id)),
            Err(failed) => Err(failed.error.into()),
        }
    }
}
