//! Questions that only the dashboard asks: places in lists, settings, limits, groups, the rules of schedules.

use super::client::Client;
use super::limits::{Scopes, SeenLimit};
use super::request;
use super::request::{Caller, on_thread};
use crate::store::{Answer, KindGauges, Op, Page, PageRequest, StoredSchedule};
use crate::values::error::StoreError;
use crate::values::group::GroupInfo;
use crate::values::setting::QueueSettings;
use crate::values::time::Millis;

impl Client {
    /// Returns the name of the queue, if it is not the default one.
    pub(crate) fn queue_name(&self) -> Option<&str> {
        self.dispatcher.queue.as_deref()
    }

    /// Returns the present of the store.
    pub(crate) fn present(&self) -> Millis {
        self.dispatcher.clock.now().millis()
    }

    /// Says whether several machines share the store.
    pub(crate) fn is_on_server(&self) -> bool {
        self.dispatcher.shared
    }

    /// Returns a page of jobs.
    pub(crate) fn page(&self, page: PageRequest) -> Result<Page, StoreError> {
        on_thread(self.ask(Caller::Thread, request::page(page)))
    }

    /// Returns each kind with its jobs by state.
    pub(crate) fn gauges(&self) -> Result<Vec<KindGauges>, StoreError> {
        on_thread(self.ask(Caller::Thread, request::gauges()))
    }

    /// Returns the settings of the queue.
    pub(crate) fn settings(&self) -> Result<QueueSettings, StoreError> {
        Ok(QueueSettings::of(&on_thread(self.ask(Caller::Thread, request::settings()))?))
    }

    /// Returns the settings of the queue as they are stored.
    pub(crate) fn stored_settings(&self) -> Result<Vec<(String, String)>, StoreError> {
        on_thread(self.ask(Caller::Thread, request::settings()))
    }

    /// Returns what is shown of these scopes.
    pub(crate) fn limits_of(
        &self,
        stored: &[(String, String)],
        scopes: Scopes,
        kinds: &[KindGauges],
    ) -> Result<Vec<SeenLimit>, StoreError> {
        on_thread(self.seen_limits(Caller::Thread, stored, scopes, Some(kinds)))
    }

    /// Returns the groups that were made last.
    pub(crate) fn latest_groups(&self, most: usize) -> Result<Vec<GroupInfo>, StoreError> {
        on_thread(self.ask(Caller::Thread, request::groups(most)))
    }

    /// Returns the schedules, with their rules.
    pub(crate) fn stored_schedules(&self) -> Result<Vec<StoredSchedule>, StoreError> {
        on_thread(self.ask(Caller::Thread, request::schedules()))
    }

    /// Makes at most 256 changes of single jobs in one commit.
    pub(crate) fn change_each(&self, ops: Vec<Op>) -> Result<Vec<Answer>, StoreError> {
        on_thread(self.ask(Caller::Thread, request::each(ops)))
    }
}
