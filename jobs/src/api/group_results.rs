//! The results of the members of a group, a page at a time.

use std::collections::VecDeque;

use super::client::Client;
use super::group::GroupHandle;
use super::request::{self, Caller, on_thread};
use crate::dispatch::run::Run;
use crate::values::error::StoreError;
use crate::values::group::{GroupError, GroupId};
use crate::values::id::JobId;
use crate::values::member_result::MemberResult;

/// The results of the members of a group that have ended, in the order of their ids: see
/// [`Group::keep_results`](crate::Group::keep_results). A page has at most 256 results, and ends with the one with which
/// it reaches 1 MiB. Nothing is held open between pages. The iterator ends after an error.
///
/// A list without an error has every member that had ended before the first page, unless it was retried since.
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
