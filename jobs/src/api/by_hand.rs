//! The actions of a person in the command or the dashboard: to insert a job whose Rust type is not available, a new job
//! or a copy; to limit a scope, as an operator's limit; to hold a scope.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tickwheel::When;

use super::asynchronous::both;
use super::client::{Client, check_name, check_payload};
use super::insert::Inserted;
use super::limits::text_of;
use super::request::{self, Caller, on_thread};
use crate::store::{IfTaken, NewJob};
use crate::values::error::{InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};
use crate::values::info::JobInfo;
use crate::values::job::Extra;
use crate::values::limit::{Limit, StoredLimit};
use crate::values::stored_limits::LimitScope;

both! {
    Client:
    /// Inserts a new job like one that was read: with its kind, payload, partition, headers and retry policy. So a job
    /// that has completed runs once more. The new job has an id of its own. It does not have the key, the group and the
    /// expiry of the other one. Like each insert, it gets the headers of this client and belongs to the present trace.
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
    /// [`InsertErrorKind::Invalid`] if the program has changed the partition or the headers to values that no job can
    /// have. Any other error if the job could not be stored.
    #[doc(alias("again", "repeat", "rerun", "clone"))]
    pub fn insert_copy(&self, of: &JobInfo, when: impl Into<When>)
        -> Result<JobId, InsertErrorKind> = |it, caller| {
        it.insert_untyped(caller, when.into(), None, it.copy_of(of)?).await
    };
}

/// A job without its Rust type.
struct Untyped<'a> {
    kind: &'a str,
    /// Its key, and what happens if another job has that.
    key: Option<(&'a str, IfTaken)>,
    extra: Extra,
    payload: Vec<u8>,
}

/// A job that a person inserts: see [`Client::insert_job_by_hand`].
#[doc(hidden)]
#[non_exhaustive]
#[derive(Clone, Default, Debug)]
pub struct JobByHand {
    pub kind: String,
    pub payload: Vec<u8>,
    pub key: Option<String>,
    /// The job replaces a pending job with its key. If this is not set, the insert is refused then.
    pub replaces: bool,
    pub partition: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// A second call with the id inserts nothing.
    pub id: Option<JobId>,
    /// The end of the job is kept for a minute, for `insert --follow`.
    pub followed: bool,
}

fn check_scope(scope: &LimitScope) -> Result<(), StoreError> {
    match scope {
        LimitScope::Queue => Ok(()),
        LimitScope::Flow(name) => check_name("name", name),
        LimitScope::Each(kind) => check_name("kind's name", kind),
        LimitScope::Partition { kind, partition } => {
            check_name("kind's name", kind).and_then(|()| check_name("partition", partition))
        }
    }
}

impl Client {
    /// Inserts a copy with this id, due now; a second call with the id inserts nothing: for a form that is sent twice.
    #[doc(hidden)]
    pub fn insert_copy_once(&self, of: &JobInfo, id: JobId) -> Result<JobId, InsertErrorKind> {
        let copy = self.copy_of(of)?;
        on_thread(self.insert_untyped(Caller::Thread, Duration::ZERO.into(), Some(id), copy))
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
        let (kind, key) = (kind.to_owned(), key.map(str::to_owned));
        let job = JobByHand { kind, key, replaces, payload, ..JobByHand::default() };
        self.insert_job_by_hand(when, job)
    }

    /// Stores a job as [`Client::insert_by_hand`] does, with a partition, headers and an id.
    #[doc(hidden)]
    pub fn insert_job_by_hand(
        &self,
        when: impl Into<When>,
        job: JobByHand,
    ) -> Result<JobId, InsertErrorKind> {
        let JobByHand { kind, payload, key, replaces, partition, headers, id, followed } = job;
        if let Some(partition) = &partition {
            check_name("partition", partition)?;
        }
        let if_taken = if replaces { IfTaken::Replace } else { IfTaken::Leave };
        let headers = self.headers().and(&headers)?;
        let partition = partition.map(Arc::from);
        let extra = Extra { headers, partition, wanted: followed, ..Extra::default() };
        let key = key.as_deref().map(|key| (key, if_taken));
        let job = Untyped { kind: &kind, key, extra, payload };
        on_thread(self.insert_untyped(Caller::Thread, when.into(), id, job))
    }

    /// Sets the limit of a scope as an operator's limit. `Limit::none()` lifts: it replaces an operator's limit by the
    /// limit before it, or removes the limit of a program. Returns the limit that the scope has now.
    #[doc(hidden)]
    pub fn limit_by_hand(&self, scope: &LimitScope, limit: Limit) -> Result<Limit, StoreError> {
        let plan = |stored: StoredLimit| match limit.is_none() {
            true => Ok(stored.lifted()),
            false => Ok(stored.by_hand(limit)),
        };
        self.change_limit_by_hand::<StoreError>(scope, plan).map(|stored| stored.limit)
    }

    /// Changes the limit of a scope as an operator's limit. `plan` gets the stored limit and returns the new one. If
    /// another process has changed the limit meanwhile, `plan` is called again.
    #[doc(hidden)]
    pub fn change_limit_by_hand<E: From<StoreError>>(
        &self,
        scope: &LimitScope,
        mut plan: impl FnMut(StoredLimit) -> Result<StoredLimit, E>,
    ) -> Result<StoredLimit, E> {
        check_scope(scope)?;
        let checked = |stored: StoredLimit| {
            let planned = plan(stored)?;
            let limit = planned.limit.checked(scope.has_turns()).map_err(StoreError::from)?;
            Ok(StoredLimit { limit, ..planned })
        };
        on_thread(self.change_limit(Caller::Thread, scope, checked))
    }

    /// Returns the stored limit of a scope.
    #[doc(hidden)]
    pub fn stored_limit(&self, scope: &LimitScope) -> Result<StoredLimit, StoreError> {
        let stored = self.answer_of(request::settings())?;
        Ok(text_of(&stored, &scope.setting()).map(StoredLimit::from_text).unwrap_or_default())
    }

    /// Holds a scope as [`Queue::hold`](crate::Queue::hold) does. The scope of each partition of a kind cannot be held.
    #[doc(hidden)]
    pub fn hold_by_hand(&self, scope: &LimitScope, time: Duration) -> Result<(), StoreError> {
        check_scope(scope)?;
        on_thread(self.hold_by(Caller::Thread, scope, time))
    }

    fn copy_of<'a>(&self, job: &'a JobInfo) -> Result<Untyped<'a>, InsertErrorKind> {
        if let Some(partition) = &job.partition {
            check_name("partition", partition)?;
        }
        let mut own = job.headers.clone();
        // They are of the trace in which the other job was inserted.
        own.retain(|name, _| !matches!(&**name, "traceparent" | "tracestate"));
        let extra = Extra {
            retry: job.retry,
            headers: self.headers().and(&own)?,
            partition: job.partition.as_deref().map(Arc::from),
            ..Extra::default()
        };
        Ok(Untyped { kind: &job.kind, key: None, extra, payload: job.payload.clone() })
    }

    async fn insert_untyped(
        &self,
        caller: Caller,
        when: When,
        callers_id: Option<JobId>,
        Untyped { kind, key, extra, payload }: Untyped<'_>,
    ) -> Result<JobId, InsertErrorKind> {
        check_name("kind's name", kind)?;
        if let Some((key, _)) = key {
            check_name("key", key)?;
        }
        check_payload(&payload)?;
        let due = self.due(caller, when).await?;
        let now = self.latest(caller).await?.millis();
        let next = || JobIds::of_this_process().next(now, Some((kind, due)));
        let (id, callers_id) = (callers_id.unwrap_or_else(next), callers_id.is_some());
        let key = key.map(|(key, if_taken)| (key.to_owned(), if_taken));
        let (kind, extra) = (Arc::from(kind), extra.boxed());
        let new = NewJob { id, kind, due, key, callers_id, extra, payload };
        match self.insert_stored(caller, new).await? {
            Inserted { id: other, is_new: false } if other != id => Err(InsertErrorKind::Occupied),
            _ => Ok(id),
        }
    }
}
