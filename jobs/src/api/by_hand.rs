//! The actions of a person in the command or the dashboard: to insert a job whose Rust type is not available, a new job
//! or a copy; to limit a scope, as an operator's limit; to hold or pause a scope; to set which jobs a kind keeps and its
//! head start.
//!
//! Ground rules:
//!
//! - A dry run makes each check of the change, so it refuses what the change refuses. The dry run of an insert sees the
//!   pending job of a key, and no run that holds the key until its end.
//! - A change is written only if the stored text is still the one that was read, and, if the caller names one, the text
//!   that the person has seen. So no change undoes another one that nobody has seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tickwheel::When;

use super::asynchronous::both;
use super::client::{Client, check_name, check_payload};
use super::insert::{Inserted, expires_at};
use super::limits::{HowChanged, flows_in};
use super::request::{self, Caller, on_thread};
use crate::store::{IfTaken, NewJob};
use crate::values::error::{InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};
use crate::values::info::JobInfo;
use crate::values::job::Extra;
use crate::values::limit::StoredLimit;
use crate::values::node::NodeInfo;
use crate::values::setting::{self, HeadStart, Keep};
use crate::values::stored_limits::{self, LimitScope};
use crate::values::time::Millis;

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
        it.insert_untyped(caller, when.into(), it.copy_of(of)?).await
    };
}

/// A job without its Rust type.
#[derive(Default)]
struct Untyped<'a> {
    kind: &'a str,
    id: Option<JobId>,
    /// Its key, and what happens if another job has that.
    key: Option<(&'a str, IfTaken)>,
    expires: Option<When>,
    extra: Extra,
    payload: Vec<u8>,
    dry_run: bool,
}

/// A job that a person inserts: see [`Client::insert_by_hand`].
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
    pub expires: Option<When>,
    /// A second call with the id inserts nothing.
    pub id: Option<JobId>,
    /// The end of the job is kept for a minute, for `insert --follow`.
    pub followed: bool,
    /// The job is checked, and not inserted.
    pub dry_run: bool,
}

impl JobByHand {
    pub fn new(kind: impl Into<String>, payload: impl Into<Vec<u8>>) -> JobByHand {
        JobByHand { kind: kind.into(), payload: payload.into(), ..JobByHand::default() }
    }
}

/// A setting before and after a change.
#[doc(hidden)]
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedByHand<T> {
    pub before: T,
    /// If the caller named a text that the store no longer has: as `before`.
    pub now: T,
    /// The text that the store had of the setting. It is empty if the store had none.
    pub was: String,
    /// The setting is another one now.
    pub changes: bool,
}

impl<T> ChangedByHand<T> {
    pub fn map<U>(self, to: impl Fn(T) -> U) -> ChangedByHand<U> {
        let ChangedByHand { before, now, was, changes } = self;
        ChangedByHand { before: to(before), now: to(now), was, changes }
    }
}

impl LimitScope {
    /// Returns the scope in words. A flow that has the name of the kind that a person has named is that kind.
    #[doc(hidden)]
    #[must_use]
    pub fn in_words(&self, named: Option<&str>) -> String {
        match (self, named) {
            (LimitScope::Flow(flow), Some(kind)) if flow == kind => format!("the kind {kind:?}"),
            _ => self.to_string(),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        match self {
            LimitScope::Queue => Ok(()),
            LimitScope::Flow(name) => check_name("name", name),
            LimitScope::Each(kind) => check_name("kind's name", kind),
            LimitScope::Partition { kind, partition } => {
                check_name("kind's name", kind).and_then(|()| check_name("partition", partition))
            }
        }
    }
}

impl StoredLimit {
    /// Returns the limit without the operator's limit; with `program` also without the limit of the program. `None`:
    /// no operator has set the limit.
    #[doc(hidden)]
    #[must_use]
    pub fn lift(self, program: bool) -> Option<StoredLimit> {
        match program {
            true => Some(StoredLimit::default()),
            false => self.before.map(|_| self.lifted()),
        }
    }
}

impl Client {
    /// Inserts a copy with this id, due now; a second call with the id inserts nothing: for a form that is sent twice.
    #[doc(hidden)]
    pub fn insert_copy_once(&self, of: &JobInfo, id: JobId) -> Result<JobId, InsertErrorKind> {
        let copy = Untyped { id: Some(id), ..self.copy_of(of)? };
        on_thread(self.insert_untyped(Caller::Thread, Duration::ZERO.into(), copy))
    }

    /// Stores a job by the name of its kind and its payload. If another job has the key, the insert is refused, unless
    /// the job replaces it.
    #[doc(hidden)]
    pub fn insert_by_hand(
        &self,
        when: impl Into<When>,
        job: JobByHand,
    ) -> Result<JobId, InsertErrorKind> {
        let JobByHand { kind, payload, key, replaces, partition, headers, .. } = job;
        if let Some(partition) = &partition {
            check_name("partition", partition)?;
        }
        let if_taken = if replaces { IfTaken::Replace } else { IfTaken::Leave };
        let headers = self.headers().and(&headers)?;
        let partition = partition.map(Arc::from);
        let extra = Extra { headers, partition, wanted: job.followed, ..Extra::default() };
        let key = key.as_deref().map(|key| (key, if_taken));
        let (id, expires, dry_run) = (job.id, job.expires, job.dry_run);
        let job = Untyped { kind: &kind, id, key, expires, extra, payload, dry_run };
        on_thread(self.insert_untyped(Caller::Thread, when.into(), job))
    }

    /// Returns the due time of a job, or refuses it as a change of the job would.
    #[doc(hidden)]
    pub fn check_due(&self, when: When) -> Result<SystemTime, StoreError> {
        on_thread(self.due(Caller::Thread, when)).map(Millis::to_system)
    }

    /// Changes the limit of a scope as an operator's limit. `plan` gets the stored limit and returns the new one. If
    /// another process has changed the limit meanwhile, `plan` is called again.
    #[doc(hidden)]
    pub fn limit_by_hand<E: From<StoreError>>(
        &self,
        scope: &LimitScope,
        how: HowChanged<'_>,
        mut plan: impl FnMut(StoredLimit) -> Result<StoredLimit, E>,
    ) -> Result<ChangedByHand<StoredLimit>, E> {
        scope.check()?;
        let checked = |stored: StoredLimit| {
            let planned = plan(stored)?;
            let limit = planned.limit.checked(scope.has_turns()).map_err(StoreError::from)?;
            Ok(StoredLimit { limit, ..planned })
        };
        let read = |text: &str| StoredLimit::from_text(text);
        self.change_by_hand(&scope.setting(), how, (read, StoredLimit::to_text), checked)
    }

    /// Holds a scope. Of two holds the later end counts; a hold of zero ends a hold.
    #[doc(hidden)]
    pub fn hold_by_hand(
        &self,
        scope: &LimitScope,
        time: Duration,
        how: HowChanged<'_>,
    ) -> Result<ChangedByHand<Option<SystemTime>>, StoreError> {
        scope.check()?;
        let none = || StoreError::Other("each partition is held by itself".to_owned());
        let (name, now) = (scope.hold().ok_or_else(none)?, self.dispatcher.clock.latest());
        let until = match time.is_zero() {
            true => None,
            false => Some(now.resolve(When::after(time), 0)?),
        };
        let read = |text: &str| {
            let until = text.parse().ok().map(Millis::clamped);
            until.filter(|until| *until > now.millis())
        };
        let write = |until: Option<Millis>| until.map(|until| until.get().to_string());
        let plan = |before: Option<Millis>| Ok::<_, StoreError>(until.and(before.max(until)));
        let changed = self.change_by_hand(&name, how, (read, write), plan)?;
        Ok(changed.map(|until| until.map(Millis::to_system)))
    }

    /// Pauses the queue, a kind or one of its partitions, or ends its pause. Returns whether this changes anything.
    #[doc(hidden)]
    pub fn pause_by_hand(
        &self,
        kind: Option<&str>,
        partition: Option<&str>,
        pauses: bool,
    ) -> Result<bool, StoreError> {
        kind.map_or(Ok(()), |kind| check_name("kind's name", kind))?;
        partition.map_or(Ok(()), |partition| check_name("partition", partition))?;
        let name = match (kind, partition) {
            (Some(kind), Some(it)) => stored_limits::partition_pause_setting(kind, it),
            (kind, None) => setting::pause_setting(kind),
            (None, Some(_)) => {
                return Err(StoreError::Other("a partition is one of a kind".to_owned()));
            }
        };
        let now = self.dispatcher.clock.latest().millis().get().to_string();
        let write = |is_paused: bool| is_paused.then(|| now.clone());
        let (read, plan) = (|text: &str| !text.is_empty(), |_| Ok::<_, StoreError>(pauses));
        let changed = self.change_by_hand(&name, HowChanged::default(), (read, write), plan)?;
        Ok(changed.changes)
    }

    /// Sets which completed jobs a kind keeps, as [`Kind::keep_completed`](crate::Kind::keep_completed) does.
    #[doc(hidden)]
    pub fn keep_by_hand(
        &self,
        kind: &str,
        keep: Keep,
        how: HowChanged<'_>,
    ) -> Result<ChangedByHand<Keep>, StoreError> {
        check_name("kind's name", kind)?;
        let keep = if keep.is_nothing() { Keep::nothing() } else { keep };
        let read = |text: &str| Keep::from_text(text).unwrap_or(Keep::nothing());
        let write = |keep: Keep| (!keep.is_nothing()).then(|| keep.to_text());
        self.change_by_hand(&setting::keep_setting(kind), how, (read, write), |_| Ok(keep))
    }

    /// Sets the head start of a kind, as [`Kind::head_start`](crate::Kind::head_start) does.
    #[doc(hidden)]
    pub fn head_start_by_hand(
        &self,
        kind: &str,
        by: Duration,
        how: HowChanged<'_>,
    ) -> Result<ChangedByHand<Duration>, StoreError> {
        check_name("kind's name", kind)?;
        let planned = HeadStart::new(by)?;
        let read = |text: &str| HeadStart::from_text(text).unwrap_or_default();
        let write = |by: HeadStart| (!by.is_none()).then(|| by.to_text());
        let (name, plan) = (setting::head_start_setting(kind), |_| Ok::<_, StoreError>(planned));
        Ok(self.change_by_hand(&name, how, (read, write), plan)?.map(HeadStart::to_duration))
    }

    /// Says whether a kind of the queue has this flow.
    #[doc(hidden)]
    pub fn has_flow(&self, flow: &str) -> Result<bool, StoreError> {
        let stored = self.answer_of(request::settings())?;
        let (flows, kinds) = (flows_in(&stored), self.answer_of(request::kinds())?);
        Ok(kinds.iter().any(|(kind, _)| flows.get(&**kind).copied().unwrap_or(kind) == flow))
    }

    /// Says whether a process that is there handles the kind.
    #[doc(hidden)]
    pub fn is_handled(&self, kind: &str) -> Result<bool, StoreError> {
        let (is_shared, now) = (self.dispatcher.shared, self.dispatcher.clock.now().millis());
        let handles = |node: &NodeInfo| node.kinds.iter().any(|its| its == kind);
        let is_there = |node: &NodeInfo| node.is_there(is_shared, now.to_system());
        Ok(self.answer_of(request::nodes())?.iter().any(|node| is_there(node) && handles(node)))
    }

    /// Changes a setting, which `read` and `write` make of its text and back.
    fn change_by_hand<T: Copy + PartialEq, E: From<StoreError>>(
        &self,
        name: &str,
        how: HowChanged<'_>,
        (read, write): (impl Fn(&str) -> T, impl Fn(T) -> Option<String>),
        mut plan: impl FnMut(T) -> Result<T, E>,
    ) -> Result<ChangedByHand<T>, E> {
        let mut planned = None;
        let was = on_thread(self.change_setting(Caller::Thread, name, how, |text| {
            let before = read(text.unwrap_or_default());
            let now = plan(before)?;
            let value = write(now);
            planned = Some((now, value.as_deref() != text && now != before));
            Ok::<_, E>(value)
        }))?;
        let was = was.unwrap_or_default();
        let before = read(&was);
        // A plan for an earlier text was not written.
        let planned = planned.filter(|_| how.was.is_none_or(|seen| seen == was));
        let (now, changes) = planned.unwrap_or((before, false));
        Ok(ChangedByHand { before, now, was, changes })
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
        Ok(Untyped { kind: &job.kind, extra, payload: job.payload.clone(), ..Untyped::default() })
    }

    async fn insert_untyped(
        &self,
        caller: Caller,
        when: When,
        Untyped { kind, id, key, expires, mut extra, payload, dry_run }: Untyped<'_>,
    ) -> Result<JobId, InsertErrorKind> {
        check_name("kind's name", kind)?;
        if let Some((key, _)) = key {
            check_name("key", key)?;
        }
        check_payload(&payload)?;
        let due = self.due(caller, when).await?;
        let now = self.latest(caller).await?;
        extra.expires = expires.map(|expires| expires_at(now, expires, when)).transpose()?;
        let next = || JobIds::of_this_process().next(now.millis(), Some((kind, due)));
        let (id, callers_id) = (id.unwrap_or_else(next), id.is_some());
        if dry_run {
            let taken = match key {
                Some((key, IfTaken::Leave)) => self.keyed(key).get_by(caller).await?,
                _ => None,
            };
            let is_taken = taken.is_some_and(|other| other.id != id);
            return if is_taken { Err(InsertErrorKind::Occupied) } else { Ok(id) };
        }
        let key = key.map(|(key, if_taken)| (key.to_owned(), if_taken));
        let (kind, extra) = (Arc::from(kind), extra.boxed());
        let new = NewJob { id, kind, due, key, callers_id, extra, payload };
        match self.insert_stored(caller, new).await? {
            Inserted { id: other, is_new: false } if other != id => Err(InsertErrorKind::Occupied),
            _ => Ok(id),
        }
    }
}
