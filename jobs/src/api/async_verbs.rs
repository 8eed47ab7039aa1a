//! The handles whose verbs are futures, and the verbs that are no `both!`: of groups, lists, bulks and runs.

use serde::Serialize;

use super::asynchronous::{Async, asynchronous};
use super::bulk::{Bulk, BulkCounts};
use super::client::Client;
use super::group::{Group, GroupHandle, GroupResults};
use super::keyed::Keyed;
use super::kind::{Kind, Queue};
use super::limits::Partition;
use super::read::Pages;
use super::request::Caller;
use super::schedules::Schedules;
use crate::dispatch::run::Run;
use crate::values::error::{InsertError, StoreError};
use crate::values::fail_and_retry::Fail;
use crate::values::group::{GroupId, GroupInfo};
use crate::values::info::{JobInfo, MemberResult};
use crate::values::job::Job;

asynchronous!(Client, GroupHandle, Keyed, Kind, Partition, Queue, Schedules);

impl Async<Client> {
    /// As [`Client::keyed`].
    #[must_use]
    pub fn keyed(&self, key: &str) -> Async<Keyed> {
        Async(self.0.keyed(key))
    }

    /// As [`Client::queue`].
    #[must_use]
    pub fn queue(&self) -> Async<Queue> {
        Async(self.0.queue())
    }

    /// As [`Client::kind`].
    #[must_use]
    pub fn kind<J: Job>(&self) -> Async<Kind> {
        Async(self.0.kind::<J>())
    }

    /// As [`Client::kind_named`].
    #[must_use]
    pub fn kind_named(&self, name: &str) -> Async<Kind> {
        Async(self.0.kind_named(name))
    }

    /// As [`Client::group_by_id`].
    #[must_use]
    pub fn group_by_id(&self, id: GroupId) -> Async<GroupHandle> {
        Async(self.0.group_by_id(id))
    }

    /// As [`Client::schedules`].
    #[must_use]
    pub fn schedules(&self) -> Async<Schedules> {
        Async(self.0.schedules())
    }
}

impl Pages {
    /// Returns the same verbs as futures.
    #[must_use]
    pub fn asynchronous(&mut self) -> Async<&mut Pages> {
        Async(self)
    }
}

impl Async<&mut Pages> {
    /// As [`Pages::next_page`]. If the future is dropped, the next call reads the same page.
    pub async fn next_page(&mut self) -> Result<Vec<JobInfo>, StoreError> {
        self.0.next_page_by(Caller::Future).await
    }
}

impl GroupResults {
    /// Returns the same verbs as futures.
    #[must_use]
    pub fn asynchronous(&mut self) -> Async<&mut GroupResults> {
        Async(self)
    }
}

impl Async<&mut GroupResults> {
    /// As [`GroupResults::next_page`]. If the future is dropped, the next call reads the same page.
    ///
    /// # Errors
    ///
    /// As [`GroupResults::next_page`].
    pub async fn next_page(&mut self) -> Result<Vec<MemberResult>, StoreError> {
        self.0.next_page_by(Caller::Future).await
    }
}

impl Bulk {
    /// Returns the same verbs as futures.
    #[must_use]
    pub fn asynchronous(&mut self) -> Async<&mut Bulk> {
        Async(self)
    }
}

impl Async<&mut Bulk> {
    /// As [`Bulk::next_step`]. If the future is dropped, the next call makes the same step.
    pub async fn next_step(&mut self) -> Result<Option<BulkCounts>, StoreError> {
        self.0.next_step_by(Caller::Future).await
    }

    /// As [`Bulk::run`]. If the future is dropped, the next call goes on from there.
    pub async fn run(&mut self) -> Result<BulkCounts, StoreError> {
        self.0.run_by(Caller::Future).await
    }
}

impl Group {
    /// Returns the same verbs as futures.
    #[must_use]
    pub fn asynchronous(self) -> Async<Group> {
        Async(self)
    }
}

impl Async<Group> {
    /// As [`Group::insert`].
    pub async fn insert(self) -> Result<GroupId, InsertError<Group>> {
        self.0.store(Caller::Future, true).await.map(|handle| handle.id())
    }

    /// As [`Group::open`].
    pub async fn open(self) -> Result<GroupHandle, InsertError<Group>> {
        self.0.store(Caller::Future, false).await
    }
}

impl Run {
    /// Returns the verbs that wait as futures.
    #[must_use]
    pub fn asynchronous(&self) -> Async<&Run> {
        Async(self)
    }
}

impl Async<&Run> {
    /// As [`Run::group`].
    pub async fn group(&self) -> Result<Option<GroupInfo>, StoreError> {
        self.0.group_by(Caller::Future).await
    }

    /// As [`Run::store_progress`].
    pub async fn store_progress<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Fail> {
        self.0.store_progress_by(Caller::Future, value).await
    }
}
