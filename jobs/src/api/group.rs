//! Groups of jobs: a group to insert, with its members and a callback that the store inserts once every member has
//! ended; a group that is stored, which is filled, sealed, cancelled and read; and the results of its members, a page at
//! a time.
//!
//! Ground rules:
//!
//! - A group is one operation of the store, so it is there with all its members, or not at all. A script of a server
//!   takes 256 jobs, so a group takes no more at its insert, on every store. A group that is open takes any number.
//! - Jobs of several kinds are in one list, so each is kept as a function that makes it once the time is known.

use std::collections::VecDeque;
use std::sync::Arc;

use tickwheel::When;

use super::asynchronous::both;
use super::bulk::BulkCounts;
use super::client::Client;
use super::insert::{InsertHeaders, NewJob, to_store};
use super::request::{self, Caller, on_thread};
use crate::dispatch::run::Run;
use crate::store::{self, MOST_EACH, NewGroup, Op};
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::group::{GroupError, GroupId, GroupInfo};
use crate::values::id::{JobId, JobIds};
use crate::values::info::MemberResult;
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
    keeps_results: bool,
}

struct Callback {
    make: Make,
    has_key: bool,
    expires: bool,
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
    /// that was its member. Its id is free after that. It costs a row, two more for its callback until the group ends,
    /// and each member one until the member's end.
    #[doc(alias("batch", "fan_in", "callback", "workflow", "bunch"))]
    pub fn group(&self) -> Group {
        Group {
            client: self.clone(),
            id: GroupId::new(),
            members: Vec::new(),
            callback: None,
            within: None,
            waits_for_the_dead: false,
            keeps_results: false,
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

    /// Sets a [`NewJob`] as the callback. It is due when the group ends, but not before the time of [`NewJob::at`]; a
    /// delay counts from the insert of the group. It has no key. Its id, if you choose it, must be new: see
    /// [`GroupError::CallbackKnown`]. No other job takes the id until the group ends.
    pub fn then_job<J: Job>(self, new: NewJob<J>) -> Group {
        let (has_key, expires) = (new.key.is_some(), new.expires.is_some());
        Group { callback: Some(Callback { make: make(new), has_key, expires }), ..self }
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

    /// Keeps a row of each member from its end on: how it has ended, and its result
    /// ([`Run::set_result`](crate::Run::set_result)) or its errors. The callback reads them with
    /// [`Run::group_results`](crate::Run::group_results), and any process with [`GroupHandle::results`].
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// use std::time::Duration;
    /// use tickwheel_jobs::{Fail, Job, Jobs, Run};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Page(u64);
    /// # impl Job for Page { const KIND: &'static str = "page"; }
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Total;
    /// # impl Job for Total { const KIND: &'static str = "total"; }
    /// fn page(page: Page, run: &Run) -> Result<(), Fail> {
    ///     run.set_result(&(page.0 * 100)) // the words of the page
    /// }
    ///
    /// fn total(_: Total, run: &Run) -> Result<(), Fail> {
    ///     let mut words = 0;
    ///     for page in run.group_results()? {
    ///         words += page?.read::<u64>()?.unwrap_or(0);
    ///     }
    ///     assert_eq!(words, 600);
    ///     Ok(())
    /// }
    ///
    /// let (jobs, driver) = Jobs::memory().handle(page).handle(total).manual()?;
    /// let pages = (1..=3).map(|n| (Duration::ZERO, Page(n)));
    /// jobs.group().add_all(pages).then(Total).keep_results().insert()?;
    /// assert_eq!(driver.advance(Duration::from_secs(1)), 4);
    /// # assert_eq!(jobs.count()?.dead, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The commit that ends a member writes its row. A dead member that is retried before the group has ended loses its
    /// row until it ends again. The rows stay while the callback is pending, runs or is dead, and are removed some
    /// minutes after it is gone. A group without a callback keeps them as long as it is kept itself
    /// ([`Client::group`]). A row costs the result or the errors, the
    /// kind and about 40 bytes.
    #[doc(alias("return_value", "children_values", "gather", "chord"))]
    pub fn keep_results(self) -> Group {
        Group { keeps_results: true, ..self }
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

    /// Stores the group and its members, and keeps it open: it takes more members, and does not end, until
    /// [`GroupHandle::seal`].
    ///
    /// # Errors
    ///
    /// As [`Group::insert`].
    pub fn open(self) -> Result<GroupHandle, InsertError<Group>> {
        on_thread(self.store(Caller::Thread, false))
    }

    pub(super) async fn store(
        self,
        caller: Caller,
        is_sealed: bool,
    ) -> Result<GroupHandle, InsertError<Group>> {
        let now = self.client.latest(caller).await;
        let new = match now.map_err(Into::into).and_then(|now| self.made(now, is_sealed)) {
            Ok(new) => new,
            Err(kind) => return Err(InsertError::new(kind, self)),
        };
        let (client, id) = (self.client.clone(), self.id);
        #[cfg(feature = "tracing")]
        let kinds: Vec<_> = new.members.iter().map(|job| (Arc::clone(&job.kind), job.id)).collect();
        match client.ask(caller, request::insert_group(Box::new(new))).await {
            Ok(_) => {
                #[cfg(feature = "tracing")]
                for (kind, id) in kinds {
                    client.dispatcher.traces.inserted(&kind, id, true);
                }
                Ok(GroupHandle::new(client, id))
            }
            Err(error) => Err(InsertError::new(error, self)),
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
        if let Some(Callback { make, expires, .. }) = &self.callback {
            let mut job = make(&with)?;
            let extra = job.extra.get_or_insert_default();
            (extra.callback_of, extra.group) = (Some(self.id), self.within);
            // The expiry of its kind counts from a due time that is not known yet.
            extra.expires = extra.expires.filter(|_| *expires);
            if members.iter().any(|member| member.id == job.id) {
                return refused(GroupError::CallbackKnown);
            }
            if job.due <= now.millis() {
                // It is due at the end that inserts it, also if the clock has been set back by then.
                job.due = Millis::ZERO;
            }
            callback = Some(job);
        }
        let Group { id, waits_for_the_dead, keeps_results, .. } = *self;
        Ok(NewGroup { id, members, callback, is_sealed, waits_for_the_dead, keeps_results })
    }
}

impl core::fmt::Debug for Group {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Group")
            .field("id", &self.id)
            .field("members", &self.members.len())
            .field("has_callback", &self.callback.is_some())
            .field("waits_for_the_dead", &self.waits_for_the_dead)
            .field("keeps_results", &self.keeps_results)
            .finish_non_exhaustive()
    }
}

/// The most groups of a list.
pub(super) const MOST_LISTED: usize = 1000;

/// A group that is stored: [`Group::open`](crate::Group::open) and [`Client::group_by_id`] return one. It may be
/// dropped: the group stays as it is.
#[derive(Clone, Debug)]
pub struct GroupHandle {
    pub(super) client: Client,
    id: GroupId,
}

impl Client {
    /// Returns a handle of a group by its id, in any process. Asks the store for nothing.
    #[must_use]
    pub fn group_by_id(&self, id: GroupId) -> GroupHandle {
        GroupHandle::new(self.clone(), id)
    }
}

both! {
    Client:
    /// Returns the groups that were made last, at most 1,000, the latest first: those that are not over, and those that
    /// ended within [`Builder::keep_dead`](crate::Builder::keep_dead), or have a dead member in the store.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn groups(&self) -> Result<Vec<GroupInfo>, StoreError> = |it, caller| {
        it.ask(caller, request::groups(MOST_LISTED)).await
    };
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

    pub(super) async fn group_by(&self, caller: Caller) -> Result<Option<GroupInfo>, StoreError> {
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
}

both! {
    GroupHandle:
    /// Adds a member that is due at a time: see [`Client::insert`]. Returns its id, or that of the job which keeps its
    /// key.
    ///
    /// # Errors
    ///
    /// The error returns the job. [`StoreError::Group`] if the group is sealed, was cancelled, has ended or is unknown.
    /// Otherwise as [`Client::insert`].
    pub fn add<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> = |it, caller| {
        let (added, new) = it.add_one(caller, NewJob::new(job).at(when)).await;
        added.map_err(|kind| InsertError::new(kind, new.into_job()))
    };

    /// Adds a [`NewJob`] as a member.
    ///
    /// # Errors
    ///
    /// As [`GroupHandle::add`].
    pub fn add_job<J: Job>(
        &self,
        new: NewJob<J>,
    ) -> Result<JobId, InsertError<NewJob<J>>> = |it, caller| {
        let (added, new) = it.add_one(caller, new).await;
        added.map_err(|kind| InsertError::new(kind, new))
    };

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
    ) -> Result<Vec<JobId>, InsertError<Vec<NewJob<J>>>> = |it, caller| {
        let jobs: Vec<NewJob<J>> = jobs.into_iter().map(Into::into).collect();
        let now = it.client.latest(caller).await;
        let made = it.made(now, &jobs);
        it.store(caller, made).await.map_err(|kind| InsertError::new(kind, jobs))
    };
}

impl GroupHandle {
    /// Adds a member, and returns it with the result: the caller needs it for the error of a refusal.
    async fn add_one<J: Job>(
        &self,
        caller: Caller,
        new: NewJob<J>,
    ) -> (Result<JobId, InsertErrorKind>, NewJob<J>) {
        // No reference to the job is held while a future waits: a job need not be `Sync`.
        let now = self.client.latest(caller).await;
        let made = self.made(now, core::slice::from_ref(&new));
        let added = self.store(caller, made).await;
        let no_id = || StoreError::Other("the store gave a strange answer".to_owned()).into();
        (added.and_then(|ids| ids.first().copied().ok_or_else(no_id)), new)
    }

    /// Returns the jobs in the form of the store, as members of this group.
    fn made<J: Job>(
        &self,
        now: Result<Now, StoreError>,
        jobs: &[NewJob<J>],
    ) -> Result<Vec<store::NewJob>, InsertErrorKind> {
        let now = now?;
        if self.client.waits_for_run() {
            return Err(StoreError::Group(GroupError::NoFollowUp).into());
        }
        let mut made = self.client.made(now, jobs)?;
        made.iter_mut().for_each(|job| job.join(self.id));
        Ok(made)
    }

    /// Adds jobs. Each commit takes at most 256 of them, as a script of a server does.
    async fn store(
        &self,
        caller: Caller,
        made: Result<Vec<store::NewJob>, InsertErrorKind>,
    ) -> Result<Vec<JobId>, InsertErrorKind> {
        let (id, made) = (self.id, made?);
        #[cfg(feature = "tracing")]
        let kind = made.first().map(|job| Arc::clone(&job.kind));
        let add = move |part| request::add_to_group(id, part);
        let ids = self.client.store_many(caller, made, MOST_EACH, add).await?;
        #[cfg(feature = "tracing")]
        if let Some(kind) = kind {
            self.client.dispatcher.traces.inserted_batch(&kind, ids.len());
        }
        Ok(ids)
    }
}

both! {
    GroupHandle:
    /// Takes no more members: the group ends once every member has ended. A group without open members ends at once.
    /// Returns `false` if it was sealed before.
    ///
    /// # Errors
    ///
    /// [`StoreError::Group`] if the group has ended or is unknown. Otherwise if the store could not be changed.
    #[doc(alias("close", "finish"))]
    pub fn seal(&self) -> Result<bool, StoreError> = |it, caller| {
        it.client.ask(caller, request::seal_group(it.id)).await
    };

    /// Cancels the group. First it is marked: it takes no more members, and waits for no dead member. Then its pending
    /// members are cancelled, 256 in a commit, and the runs of the others are asked to stop. The group ends as any
    /// other does, and its callback is inserted: [`GroupInfo::is_cancelled`] tells it. The follow-ups of a run that
    /// completes nevertheless, and the members of inner groups, go on. Returns how many members it was about.
    ///
    /// # Errors
    ///
    /// [`StoreError::Group`] if the group has ended or is unknown. Otherwise if the store could not be changed: call it
    /// again to cancel the rest.
    #[doc(alias("abort", "revoke", "cancel_all"))]
    pub fn cancel(&self) -> Result<BulkCounts, StoreError> = |it, caller| {
        it.client.ask(caller, request::cancel_group(it.id)).await?;
        let (mut total, mut last) = (BulkCounts::default(), None);
        loop {
            let members = it.client.ask(caller, request::members(it.id, last)).await?;
            last = members.last().copied();
            if last.is_none() {
                return Ok(total);
            }
            let cancels = members.into_iter().map(Op::Cancel).collect();
            let answers = it.client.ask(caller, request::each(cancels)).await?;
            total.add(BulkCounts::of(answers)?);
        }
    };

    /// Returns the counts of the group, if the store knows it.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("counts", "status", "progress"))]
    pub fn info(&self) -> Result<Option<GroupInfo>, StoreError> = |it, caller| {
        it.client.ask(caller, request::group(it.id)).await
    };
}

/// The results of the members of a group that have ended, in the order of their ids: see
/// [`Group::keep_results`](crate::Group::keep_results). A page has at most 256 results, and ends with the one with which
/// it reaches 1 MiB. Nothing is held open between pages. The iterator ends after an error.
///
/// A list without an error has every member that had ended before the first page, unless it was retried since. Only if
/// the group is forgotten between two pages, and another one is inserted under its id, the list goes on in that one.
#[derive(Debug)]
pub struct GroupResults {
    client: Client,
    id: GroupId,
    after: Option<JobId>,
    ready: VecDeque<MemberResult>,
    finished: bool,
}

impl Run {
    /// Returns the results of the group whose callback this run's job is; or else those of the group of which the job
    /// is a member. Asks the store for nothing before the first page.
    ///
    /// # Errors
    ///
    /// [`GroupError::Unknown`] if the job is neither.
    #[doc(alias("children_values", "results"))]
    pub fn group_results(&self) -> Result<GroupResults, StoreError> {
        let extra = self.state.extra.as_ref();
        let id = extra.and_then(|extra| extra.callback_of.or(extra.group));
        let id = id.ok_or(StoreError::Group(GroupError::Unknown))?;
        Ok(self.client().group_by_id(id).results())
    }
}

impl GroupHandle {
    /// Returns the results of the members that have ended. Asks the store for nothing before the first page.
    #[must_use]
    pub fn results(&self) -> GroupResults {
        let (client, id, ready) = (self.client.clone(), self.id(), VecDeque::new());
        GroupResults { client, id, after: None, ready, finished: false }
    }
}

impl GroupResults {
    /// Returns the next page. It is empty after the last result.
    ///
    /// # Errors
    ///
    /// [`GroupError::NoResults`] if the group keeps none, or none any more, also in the midst of the list. Otherwise if
    /// the store could not be read: the next call tries again.
    pub fn next_page(&mut self) -> Result<Vec<MemberResult>, StoreError> {
        on_thread(self.next_page_by(Caller::Thread))
    }

    pub(super) async fn next_page_by(
        &mut self,
        caller: Caller,
    ) -> Result<Vec<MemberResult>, StoreError> {
        if !self.ready.is_empty() || self.finished {
            return Ok(self.ready.drain(..).collect());
        }
        let page = self.client.ask(caller, request::results(self.id, self.after)).await?;
        let page = page.ok_or(StoreError::Group(GroupError::NoResults))?;
        self.after = page.last().map(|last| last.id);
        self.finished = page.is_empty();
        Ok(page)
    }
}

impl Iterator for GroupResults {
    type Item = Result<MemberResult, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            match self.next_page() {
                Ok(page) => self.ready = page.into(),
                Err(error) => {
                    self.finished = true;
                    return Some(Err(error));
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
