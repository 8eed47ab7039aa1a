//! A group of jobs to insert: members, and a callback that the store inserts once every member has ended.
//!
//! Ground rules:
//!
//! - A group is one operation of the store, so it is there with all its members, or not at all. A script of a server
//!   takes 256 jobs, so a group takes no more at its insert, on every store. A group that is open takes any number.
//! - Jobs of several kinds are in one list, so each is kept as a function that makes it once the time is known.

use std::sync::Arc;

use tickwheel::When;

use super::caller::{Caller, on_thread};
use super::client::{Client, error_of};
use super::group_handle::GroupHandle;
use super::insert::to_store;
use super::insert_headers::InsertHeaders;
use super::new_job::NewJob;
use super::request;
use crate::store::{self, MOST_EACH, NewGroup};
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::group::GroupId;
use crate::values::group_error::GroupError;
use crate::values::id::JobIds;
use crate::values::job::Job;
use crate::values::time::{Millis, Now};

/// The values from which each job of the group is made.
struct Making<'a> {
    ids: &'a JobIds,
    now: Now,
    headers: &'a InsertHeaders,
}

type Make = Box<dyn Fn(&Making<'_>) -> Result<store::NewJob, InsertErrorKind> + Send>;

fn make<J: Job>(new: NewJob<J>) -> Make {
    let kind: Arc<str> = Arc::from(J::KIND);
    Box::new(move |with| to_store(with.ids, with.now, &kind, with.headers, &new))
}

/// A group of jobs to insert: [`Client::group`] returns one.
#[must_use = "a group is stored by `insert` or `open`"]
pub struct Group {
    client: Client,
    id: GroupId,
    members: Vec<Make>,
    callback: Option<Callback>,
    within: Option<GroupId>,
    waits_for_the_dead: bool,
}

struct Callback {
    make: Make,
    has_key: bool,
}

impl Client {
    /// Returns an empty group: jobs that are inserted together, and a *callback*, a job that is inserted once all of
    /// them have ended. One commit stores both the end of the last member and the callback. So the callback is inserted
    /// exactly once, and never too early.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// use std::time::Duration;
    /// use tickwheel_jobs::{Fail, Job, Jobs, Run};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Row(u64);
    /// # impl Job for Row { const KIND: &'static str = "row"; }
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Report;
    /// # impl Job for Report { const KIND: &'static str = "report"; }
    /// fn report(_: Report, run: &Run) -> Result<(), Fail> {
    ///     let group = run.group()?.ok_or("no group")?;
    ///     println!("{} of {} rows are imported", group.completed, group.total);
    ///     Ok(())
    /// }
    ///
    /// let (jobs, driver) = Jobs::memory().handle(|_: Row, _| Ok(())).handle(report).manual()?;
    /// let now = Duration::ZERO;
    /// jobs.group().add(now, Row(1)).add_all((2..100).map(|n| (now, Row(n)))).then(Report).insert()?;
    /// assert_eq!(driver.advance(Duration::from_secs(1)), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A member has ended when it has completed, is dead, was cancelled, or was replaced under its key. A dead member
    /// that is retried is open again; if the group has ended by then, it is a member no longer.
    /// [`Group::waits_for_the_dead`] keeps the group from its end while a member is dead. The follow-ups of a member
    /// ([`Run::then`](crate::Run::then)) are members too. Jobs of [`Run::client`](crate::Run::client) are not.
    ///
    /// An ended group is kept for [`Builder::keep_dead`](crate::Builder::keep_dead), and longer if a dead job is left
    /// that was its member. Its id is free after that. It costs a row, two more for its callback until the group ends, and
    /// each member one until the member's end.
    #[doc(alias("batch", "fan_in", "callback", "workflow", "bunch"))]
    pub fn group(&self) -> Group {
        Group {
            client: self.clone(),
            id: GroupId::new(),
            members: Vec::new(),
            callback: None,
            within: None,
            waits_for_the_dead: false,
        }
    }
}

impl Group {
    /// Sets the id, so that the group is stored once. If the store has a group with this id, the insert is refused
    /// with [`GroupError::Exists`].
    pub fn id(self, id: GroupId) -> Group {
        Group { id, ..self }
    }

    /// Adds a member that is due at a time: see [`Client::insert`].
    pub fn add<J: Job>(self, when: impl Into<When>, job: J) -> Group {
        self.add_job(NewJob::new(job).at(when))
    }

    /// Adds a [`NewJob`] as a member. If its insert leaves another job in its place, because of its key or its id, it
    /// is no member.
    pub fn add_job<J: Job>(mut self, new: NewJob<J>) -> Group {
        self.members.push(make(new));
        self
    }

    /// Adds many members: pairs of a time and a job, or [`NewJob`]s.
    pub fn add_all<J: Job>(
        mut self,
        jobs: impl IntoIterator<Item = impl Into<NewJob<J>>>,
    ) -> Group {
        self.members.extend(jobs.into_iter().map(|job| make(job.into())));
        self
    }

    /// Sets the callback: a job that is inserted, due at once, in the commit in which the last member ends. Its run
    /// sees the counts of the group with [`Run::group`](crate::Run::group).
    #[doc(alias("callback", "on_complete", "finally"))]
    pub fn then<J: Job>(self, job: J) -> Group {
        self.then_job(NewJob::new(job))
    }

    /// Sets a [`NewJob`] as the callback. It is due when the group ends, but not before the time of
    /// [`NewJob::at`]; a delay counts from the insert of the group. It has no key. Its id, if you choose it, must be new:
    /// see [`GroupError::CallbackKnown`]. No other job takes the id until the group ends.
    pub fn then_job<J: Job>(self, new: NewJob<J>) -> Group {
        let has_key = new.key.is_some();
        Group { callback: Some(Callback { make: make(new), has_key }), ..self }
    }

    /// Makes the callback a member of another group, which takes it like [`GroupHandle::add`], as soon as this group is
    /// inserted. So the other group ends only after the callback has ended.
    #[doc(alias("nested", "parent"))]
    pub fn within(self, outer: GroupId) -> Group {
        Group { within: Some(outer), ..self }
    }

    /// Keeps the group from its end while a member is dead: until each is retried and completes, or is deleted. A dead
    /// member that the store forgets ([`Builder::keep_dead`](crate::Builder::keep_dead)) counts as deleted. A group
    /// that was cancelled waits for no dead member.
    pub fn waits_for_the_dead(self) -> Group {
        Group { waits_for_the_dead: true, ..self }
    }

    /// Stores the group and its members: all, or nothing. It takes no more members then. A group without members ends
    /// at once.
    ///
    /// # Errors
    ///
    /// The error returns the group. [`StoreError::Group`] with a [`GroupError`], for example if there are more than 256
    /// members: open the group then. [`StoreError::Unknown`] if the answer was lost. It is safe to insert the returned
    /// group again: [`GroupError::Exists`] says that it was stored. Otherwise as [`Client::insert`].
    pub fn insert(self) -> Result<GroupId, InsertError<Group>> {
        on_thread(self.store(Caller::Thread, true)).map(|handle| handle.id())
    }

    /// [`Group::insert`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Group::insert`].
    pub async fn insert_async(self) -> Result<GroupId, InsertError<Group>> {
        self.store(Caller::Future, true).await.map(|handle| handle.id())
    }

    /// Stores the group and its members, and keeps it open: it takes more members, and does not end, until
    /// [`GroupHandle::seal`].
    ///
    /// # Errors
    ///
    /// As [`Group::insert`].
    pub fn open(self) -> Result<GroupHandle, InsertError<Group>> {
        on_thread(self.store(Caller::Thread, false))
    }

    /// [`Group::open`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Group::insert`].
    pub async fn open_async(self) -> Result<GroupHandle, InsertError<Group>> {
        self.store(Caller::Future, false).await
    }

    async fn store(
        self,
        caller: Caller,
        is_sealed: bool,
    ) -> Result<GroupHandle, InsertError<Group>> {
        let now = match self.client.latest(caller).await {
            Ok(now) => now,
            Err(failed) => return Err(InsertError::new(failed.error, self)),
        };
        let new = match self.made(now, is_sealed) {
            Ok(new) => new,
            Err(kind) => return Err(InsertError::new(kind, self)),
        };
        let (client, id) = (self.client.clone(), self.id);
        #[cfg(feature = "tracing")]
        let kinds: Vec<_> = new.members.iter().map(|job| (Arc::clone(&job.kind), job.id)).collect();
        match client.request(caller, request::insert_group(Box::new(new))).await {
            Ok(_) => {
                #[cfg(feature = "tracing")]
                for (kind, id) in kinds {
                    client.dispatcher.traces.inserted(&kind, id, true);
                }
                Ok(GroupHandle::new(client, id))
            }
            Err(failed) => Err(InsertError::new(error_of(failed), self)),
        }
    }

    /// Returns the group in the form of the store.
    fn made(&self, now: Now, is_sealed: bool) -> Result<NewGroup, InsertErrorKind> {
        let refused = |error| Err(StoreError::Group(error).into());
        if self.client.waits_for_run() {
            return refused(GroupError::NoFollowUp);
        }
        if self.members.len() > MOST_EACH {
            return refused(GroupError::TooMany);
        }
        if self.callback.as_ref().is_some_and(|callback| callback.has_key) {
            return refused(GroupError::CallbackHasKey);
        }
        if self.callback.is_none() && self.within.is_some() {
            return refused(GroupError::NoCallback);
        }
        let (ids, headers) = (JobIds::of_this_process(), self.client.headers());
        let with = Making { ids: &ids, now, headers: &headers };
        let mut members = Vec::with_capacity(self.members.len());
        for make in &self.members {
            let mut job = make(&with)?;
            job.join(self.id);
            members.push(job);
        }
        let mut callback = None;
        if let Some(Callback { make, .. }) = &self.callback {
            let mut job = make(&with)?;
            let extra = job.extra.get_or_insert_default();
            (extra.callback_of, extra.group) = (Some(self.id), self.within);
            if members.iter().any(|member| member.id == job.id) {
                return refused(GroupError::CallbackKnown);
            }
            if job.due <= now.millis() {
                // It is due at the end that inserts it, also if the clock has been set back by then.
                job.due = Millis::ZERO;
            }
            callback = Some(job);
        }
        let (id, waits_for_the_dead) = (self.id, self.waits_for_the_dead);
        Ok(NewGroup { id, members, callback, is_sealed, waits_for_the_dead })
    }
}

impl core::fmt::Debug for Group {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Group")
            .field("id", &self.id)
            .field("members", &self.members.len())
            .field("has_callback", &self.callback.is_some())
            .field("waits_for_the_dead", &self.waits_for_the_dead)
            .finish_non_exhaustive()
    }
}
