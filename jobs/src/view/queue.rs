//! The view of one queue, which asks for every row.

use core::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::redact::{Part, Redactor};
use super::values::Time;
use crate::api::client::Client;
#[cfg(feature = "sqlite-unbundled")]
use crate::api::jobs::Jobs;
use crate::api::request;
use crate::values::error::StoreError;
use crate::values::node::NodeInfo;
use crate::values::time::Millis;

/// Asks for the rows of one queue. Each question returns the error of the store if the store could not be read. A clone
/// is cheap.
#[derive(Clone)]
pub struct View {
    /// Its questions wait for no change of the program's, once [`View::apart`] was called.
    pub(super) client: Client,
    /// The client of the program, whose statistics are shown.
    pub(super) own: Client,
    pub(super) redactor: Redactor,
}

impl View {
    /// Returns a view of the client's queue.
    #[must_use]
    pub fn new(client: Client) -> View {
        View { own: client.clone(), client, redactor: Redactor::default() }
    }

    /// Changes parts of jobs before they are in a row, by the kind of the job. Rows, searches, groups of dead jobs and
    /// [`View::whole`] have the changed form only. Kinds and keys stay as they are.
    ///
    /// It is called often: a search calls it for each record. Its result must depend on its arguments alone. If it
    /// panics, that part of that job is hidden, with a mark in its place. The value may be any JSON, so do not index
    /// it: `value["card"]` panics on a list.
    #[must_use]
    pub fn redact(self, redact: impl Fn(&str, Part, &mut Value) + Send + Sync + 'static) -> View {
        View { redactor: Redactor(Some(Arc::new(redact))), ..self }
    }

    /// Returns a view whose questions wait for no change of the program's. Of a client on a file it opens a connection
    /// that only reads. A process that runs jobs asks on a connection of its own anyway, and a server has no lock to
    /// wait for: there it is the same view.
    #[must_use]
    pub fn apart(self) -> View {
        #[cfg(feature = "sqlite-unbundled")]
        if let Some(location) = self.own.dispatcher.file.as_ref().filter(|it| it.vfs.is_none())
            && self.own.dispatcher.questions.is_none()
            && !self.own.dispatcher.is_manual
        {
            let builder = Jobs::open_to_look(&location.file).ok();
            let builder = builder.map(|builder| match self.queue() {
                Some(queue) => builder.queue(queue),
                None => builder,
            });
            if let Some(client) = builder.and_then(|builder| builder.client().ok()) {
                return View { client, ..self };
            }
        }
        self
    }

    /// Returns the name of the queue, if it is not the default one.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        self.own.dispatcher.queue.as_deref()
    }

    /// Returns the client that asks.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the present by the clock of the store.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.present())
    }

    pub(super) fn present(&self) -> Millis {
        self.client.dispatcher.clock.now().millis()
    }

    pub(super) fn stored_settings(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.client.answer_of(request::settings())
    }

    pub(super) fn is_there(&self, node: &NodeInfo) -> bool {
        node.is_there(self.is_on_server(), self.present().to_system())
    }

    pub(super) fn is_on_server(&self) -> bool {
        self.client.dispatcher.shared
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("queue", &self.queue()).finish_non_exhaustive()
    }
}
