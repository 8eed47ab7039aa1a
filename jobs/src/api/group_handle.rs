//! A group that is stored: it is filled, sealed, cancelled and read.

use std::sync::Arc;

use tickwheel::When;

use super::bulk::BulkCounts;
use super::caller::{Caller, on_thread};
use super::client::Client;
use super::insert::{after, to_store};
use super::new_job::NewJob;
use super::request;
use crate::dispatch::run::Run;
use crate::store::{self, MOST_EACH, Op};
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::group::GroupId;
use crate::values::group_error::GroupError;
use crate::values::group_info::GroupInfo;
use crate::values::id::{JobId, JobIds};
use crate::values::job::Job;
use crate::values::time::Now;

/// The most groups of a list.
pub(super) const MOST_LISTED: usize = 1000;

/// A group that is stored: [`Group::open`](crate::Group::open) and [`Client::group_by_id`] return one. It may be dropped:
/// the group stays as it is.
#[derive(Clone, Debug)]
pub struct GroupHandle {
    client: Client,
    id: GroupId,
}

impl Client {
    /// Returns a handle of a group by its id, in any process. Asks the store for nothing.
    #[must_use]
    pub fn group_by_id(&self, id: GroupId) -> GroupHandle {
        GroupHandle::new(self.clone(), id)
    }

    /// Returns the groups that were made last, at most 1,000, the latest first: those that are not over, and those that
    /// ended within [`Builder::keep_dead`](crate::Builder::keep_dead), or have a dead member in the store.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn groups(&self) -> Result<Vec<GroupInfo>, StoreError> {
        on_thread(self.ask(Caller::Thread, request::groups(MOST_LISTED)))
    }

    /// [`Client::groups`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::groups`].
    pub async fn groups_async(&self) -> Result<Vec<GroupInfo>, StoreError> {
        self.ask(Caller::Future, request::groups(MOST_LISTED)).await
    }
}

impl Run {
    /// Returns the group whose callback this run's job is; or else the group of which the job is a member, if it is in
    /// one. A group that the store has forgotten is `None`. Reads it from the store: one question.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("batch", "counts"))]
    pub fn group(&self) -> Result<Option<GroupInfo>, StoreError> {
        on_thread(self.group_by(Caller::Thread))
    }

    /// [`Run::group`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Run::group`].
    pub async fn group_async(&self) -> Result<Option<GroupInfo>, StoreError> {
        self.group_by(Caller::Future).await
    }

    async fn group_by(&self, caller: Caller) -> Result<Option<GroupInfo>, StoreError> {
        let Some(extra) = self.state.extra.as_ref() else { return Ok(None) };
        let Some(id) = extra.callback_of.or(extra.group) else { return Ok(None) };
        let group = self.client().ask(caller, request::group(id)).await?;
        // A callback may run so late that its group is forgotten, and another one has the id.
        Ok(group.filter(|group| extra.callback_of.is_none() || group.callback == Some(self.id())))
    }
}

impl GroupHandle {
    pub(super) fn new(client: Client, id: GroupId) -> GroupHandle {
        GroupHandle { client, id }
    }

    /// Returns the id of the group.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// Adds a member that is due at a time: see [`Client::insert`]. Returns its id, or that of the job which keeps its
    /// key.
    ///
    /// # Errors
    ///
    /// The error returns the job. [`StoreError::Group`] if the group is sealed, was cancelled, has ended or is unknown.
    /// Otherwise as [`Client::insert`].
    pub fn add<J: Job>(&self, when: impl Into<When>, job: J) -> Result<JobId, InsertError<J>> {
        let (added, new) = on_thread(self.add_one(Caller::Thread, NewJob::new(job).at(when)));
        added.map_err(|kind| InsertError::new(kind, new.into_job()))
    }

    /// [`GroupHandle::add`], as a future.
    ///
    /// # Errors
    ///
    /// As [`GroupHandle::add`].
    pub async fn add_async<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        let (added, new) = self.add_one(Caller::Future, NewJob::new(job).at(when)).await;
        added.map_err(|kind| InsertError::new(kind, new.into_job()))
    }

    /// Adds a [`NewJob`] as a member.
    ///
    /// # Errors
    ///
    /// As [`GroupHandle::add`].
    pub fn add_job<J: Job>(&self, new: NewJob<J>) -> Result<JobId, InsertError<NewJob<J>>> {
        let (added, new) = on_thread(self.add_one(Caller::Thread, new));
        added.map_err(|kind| InsertError::new(kind, new))
    }

    /// [`GroupHandle::add_job`], as a future.
    ///
    /// # Errors
    ///
    /// As [`GroupHandle::add`].
    pub async fn add_job_async<J: Job>(
        &self,
        new: NewJob<J>,
    ) -> Result<JobId, InsertError<NewJob<J>>> {
        let (added, new) = self.add_one(Caller::Future, new).await;
        added.map_err(|kind| InsertError::new(kind, new))
    }

    /// Adds many members: pairs of a time and a job, or [`NewJob`]s. Returns the id of each, in their order, as
    /// [`Client::insert_batch`] does. Each 256 of them are one commit.
    ///
    /// # Errors
    ///
    /// The error returns all of them. [`StoreError::Incomplete`] says how many of the first ones are stored
    /// nevertheless. Otherwise as [`GroupHandle::add`].
    pub fn add_all<J: Job>(
        &self,
        jobs: impl IntoIterator<Item = impl Into<NewJob<J>>>,
    ) -> Result<Vec<JobId>, InsertError<Vec<NewJob<J>>>> {
        let jobs = jobs.into_iter().map(Into::into).collect();
        on_thread(self.add_many(Caller::Thread, jobs))
    }

    /// [`GroupHandle::add_all`], as a future.
    ///
    /// # Errors
    ///
    /// As [`GroupHandle::add_all`].
    pub async fn add_all_async<J: Job>(
        &self,
        jobs: impl IntoIterator<Item = impl Into<NewJob<J>>>,
    ) -> Result<Vec<JobId>, InsertError<Vec<NewJob<J>>>> {
        let jobs = jobs.into_iter().map(Into::into).collect();
        self.add_many(Caller::Future, jobs).await
    }

    /// Adds a member, and returns it with the result: the caller needs it for the error of a refusal.
    async fn add_one<J: Job>(
        &self,
        caller: Caller,
        new: NewJob<J>,
    ) -> (Result<JobId, InsertErrorKind>, NewJob<J>) {
        // No reference to the job is held while a future waits: a job need not be `Sync`.
        let made = match self.client.latest(caller).await {
            Ok(now) => self.made(now, core::slice::from_ref(&new)),
            Err(failed) => Err(failed.error.into()),
        };
        let added = match made {
            Ok(made) => self.store(caller, made).await,
            Err(kind) => Err(kind),
        };
        let no_id = || StoreError::Other("the store gave a strange answer".to_owned()).into();
        (added.and_then(|ids| ids.first().copied().ok_or_else(no_id)), new)
    }

    async fn add_many<J: Job>(
        &self,
        caller: Caller,
        jobs: Vec<NewJob<J>>,
    ) -> Result<Vec<JobId>, InsertError<Vec<NewJob<J>>>> {
        let made = match self.client.latest(caller).await {
            Ok(now) => self.made(now, &jobs),
            Err(failed) => Err(failed.error.into()),
        };
        let added = match made {
            Ok(made) => self.store(caller, made).await,
            Err(kind) => Err(kind),
        };
        added.map_err(|kind| InsertError::new(kind, jobs))
    }

    /// Returns the jobs in the form of the store, as members of this group.
    fn made<J: Job>(
        &self,
        now: Now,
        jobs: &[NewJob<J>],
    ) -> Result<Vec<store::NewJob>, InsertErrorKind> {
        if self.client.waits_for_run() {
            return Err(StoreError::Group(GroupError::NoFollowUp).into());
        }
        let (ids, headers) = (JobIds::of_this_process(), self.client.headers());
        let kind: Arc<str> = Arc::from(J::KIND);
        let mut made = Vec::with_capacity(jobs.len());
        for job in jobs {
            let mut job = to_store(&ids, now, &kind, &headers, job)?;
            job.join(self.id);
            made.push(job);
        }
        Ok(made)
    }

    /// Adds jobs. Each commit takes at most 256 of them, as a script of a server does.
    async fn store(
        &self,
        caller: Caller,
        jobs: Vec<store::NewJob>,
    ) -> Result<Vec<JobId>, InsertErrorKind> {
        let mut ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        #[cfg(feature = "tracing")]
        let kind = jobs.first().map(|job| Arc::clone(&job.kind));
        let mut stored = 0;
        let mut rest = jobs.into_iter().peekable();
        while let Some(first) = rest.peek().map(|job| job.id) {
            let part: Vec<store::NewJob> = rest.by_ref().take(MOST_EACH).collect();
            let many = part.len();
            let added = self.client.request(caller, request::add_to_group(self.id, part)).await;
            let taken = added.map_err(|failed| match failed.unknown {
                true => InsertErrorKind::Unknown(first),
                false => after(stored, failed.error.into()),
            })?;
            for (n, by) in taken {
                if let Some(id) = ids.get_mut(stored + n) {
                    *id = by;
                }
            }
            stored += many;
        }
        #[cfg(feature = "tracing")]
        if let Some(kind) = kind {
            self.client.dispatcher.traces.inserted_batch(&kind, ids.len());
        }
        Ok(ids)
    }

    /// Takes no more members: the group ends once every member has ended. A group without open members ends at once.
    /// Returns `false` if it was sealed before.
    ///
    /// # Errors
    ///
    /// [`StoreError::Group`] if the group has ended or is unknown. Otherwise if the store could not be changed.
    #[doc(alias("close", "finish"))]
    pub fn seal(&self) -> Result<bool, StoreError> {
        on_thread(self.client.ask(Caller::Thread, request::seal_group(self.id)))
    }

    /// [`GroupHandle::seal`], as a future.
    ///
    /// # Errors
    ///
    /// As [`GroupHandle::seal`].
    pub async fn seal_async(&self) -> Result<bool, StoreError> {
        self.client.ask(Caller::Future, request::seal_group(self.id)).await
    }

    /// Cancels the group. First it is marked: it takes no more members, and waits for no dead member. Then its pending
    /// members are cancelled, 256 in a commit, and the runs of the others are asked to stop. The group ends as any other
    /// does, and its callback is inserted: [`GroupInfo::is_cancelled`] tells it. The follow-ups of a run that completes
    /// nevertheless, and the members of inner groups, go on. Returns how many members it was about.
    ///
    /// # Errors
    ///
    /// [`StoreError::Group`] if the group has ended or is unknown. Otherwise if the store could not be changed: call it
    /// again to cancel the rest.
    #[doc(alias("abort", "revoke", "cancel_all"))]
    pub fn cancel(&self) -> Result<BulkCounts, StoreError> {
        on_thread(self.cancel_by(Caller::Thread))
    }

    /// [`GroupHandle::cancel`], as a future.
    ///
    /// # Errors
    ///
    /// As [`GroupHandle::cancel`].
    pub async fn cancel_async(&self) -> Result<BulkCounts, StoreError> {
        self.cancel_by(Caller::Future).await
    }

    async fn cancel_by(&self, caller: Caller) -> Result<BulkCounts, StoreError> {
        self.client.ask(caller, request::cancel_group(self.id)).await?;
        let (mut total, mut last) = (BulkCounts::default(), None);
        loop {
            let members = self.client.ask(caller, request::members(self.id, last)).await?;
            last = members.last().copied();
            if last.is_none() {
                return Ok(total);
            }
            let cancels = members.into_iter().map(Op::Cancel).collect();
            let answers = self.client.ask(caller, request::each(cancels)).await?;
            total.add(BulkCounts::of(answers)?);
        }
    }

    /// Returns the counts of the group, if the store knows it.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("counts", "status", "progress"))]
    pub fn info(&self) -> Result<Option<GroupInfo>, StoreError> {
        on_thread(self.client.ask(Caller::Thread, request::group(self.id)))
    }

    /// [`GroupHandle::info`], as a future.
    ///
    /// # Errors
    ///
    /// As [`GroupHandle::info`].
    pub async fn info_async(&self) -> Result<Option<GroupInfo>, StoreError> {
        self.client.ask(Caller::Future, request::group(self.id)).await
    }
}
