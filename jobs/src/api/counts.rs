//! The verbs that count: jobs, kinds, groups of dead jobs, and nodes.

use super::caller::{Caller, on_thread};
use super::client::Client;
use super::request;
use crate::values::error::StoreError;
use crate::values::info::{Counts, DeadByError};
use crate::values::node::NodeInfo;

impl Client {
    /// Returns how many jobs there are.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("len", "size", "stats"))]
    pub fn count(&self) -> Result<Counts, StoreError> {
        on_thread(self.count_by(Caller::Thread))
    }

    pub(super) async fn count_by(&self, caller: Caller) -> Result<Counts, StoreError> {
        self.ask(caller, request::counts()).await
    }

    /// Returns the dead jobs in groups, by kind and first line of the error: `most` groups at most, those with the
    /// most jobs first. It reads the groups and not the jobs, so it costs the same however many jobs are dead.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("failures", "group_by"))]
    pub fn dead_by_error(&self, most: usize) -> Result<Vec<DeadByError>, StoreError> {
        on_thread(self.ask(Caller::Thread, request::dead_by_error(most)))
    }

    /// Returns the processes that run the jobs of the queue, those that have ended without a word within the last day
    /// too: [`NodeInfo::was_seen_lately`] tells these apart on a server. A shutdown removes its process from the list.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("workers", "processes", "servers"))]
    pub fn nodes(&self) -> Result<Vec<NodeInfo>, StoreError> {
        on_thread(self.ask(Caller::Thread, request::nodes()))
    }

    /// Returns the kinds that have jobs and no handler in this process, each with its number of
    /// jobs. Their jobs wait.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn unhandled(&self) -> Result<Vec<(String, u64)>, StoreError> {
        Ok(self.without_handler(self.kinds()?))
    }

    pub(super) fn without_handler(&self, kinds: Vec<(String, u64)>) -> Vec<(String, u64)> {
        let strange = |(kind, jobs): &(String, u64)| *jobs > 0 && !self.dispatcher.handles(kind);
        kinds.into_iter().filter(strange).collect()
    }

    /// Returns every kind that the store has ever had, each with its number of jobs that are not
    /// dead.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn kinds(&self) -> Result<Vec<(String, u64)>, StoreError> {
        on_thread(self.kinds_by(Caller::Thread))
    }

    pub(super) async fn kinds_by(&self, caller: Caller) -> Result<Vec<(String, u64)>, StoreError> {
        self.ask(caller, request::kinds()).await
    }

    /// [`Client::nodes`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::nodes`].
    pub async fn nodes_async(&self) -> Result<Vec<NodeInfo>, StoreError> {
        self.ask(Caller::Future, request::nodes()).await
    }

    /// [`Client::dead_by_error`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::dead_by_error`].
    pub async fn dead_by_error_async(&self, most: usize) -> Result<Vec<DeadByError>, StoreError> {
        self.ask(Caller::Future, request::dead_by_error(most)).await
    }
}
