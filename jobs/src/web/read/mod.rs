//! Makes the views: asks the stores of the queues that the program has chosen, and puts the answers together.
//!
//! Ground rules:
//!
//! - No view costs more for a longer queue: a list has at most [`MOST_ROWS`] rows, and a search reads at most
//!   [`MOST_SEARCHED`] records, fewer on a server, or [`MOST_BYTES`] of them.
//! - Everything here runs on the dashboard's threads.

pub(crate) mod jobs;
pub(crate) mod kinds_and_limits;
pub(crate) mod overview;
pub(crate) mod nodes_and_schedules;

use std::sync::Arc;

use super::options::{AccessOf, Audit, Redact, Redactor};
use super::params::Params;
use super::views::Problem;
use crate::api::client::Client;
#[cfg(feature = "sqlite-unbundled")]
use crate::api::jobs::Jobs;
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// The most rows of a list.
pub(crate) const MOST_ROWS: usize = 100;
/// The most records that a search reads. A search ends with the page that reaches it.
const MOST_SEARCHED: u64 = 6_000;
/// The most that it reads on a server, where each page of records costs the server milliseconds.
const MOST_SEARCHED_ON_A_SERVER: u64 = 1_000;
/// The most bytes of jobs that a search reads. It ends with the page, of about 1 MiB, that reaches it.
pub(crate) const MOST_BYTES: usize = 8 << 20;
/// The most groups of dead jobs that are looked at.
pub(crate) const MOST_GROUPS: usize = 1_000;

/// A queue of the dashboard.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) name: String,
    /// On the thread of the reads, it only reads.
    pub(crate) client: Client,
    /// The client of the program, whose statistics are shown.
    pub(crate) own: Client,
}

impl Queue {
    /// Returns a client whose questions wait for no change of the program's. A process that runs jobs asks on a connection
    /// of its own anyway, and a server has no lock to wait for: there it is the program's client.
    pub(crate) fn that_reads(&self) -> Client {
        #[cfg(feature = "sqlite-unbundled")]
        if let Some(location) = self.own.dispatcher.file.as_ref().filter(|it| it.vfs.is_none())
            && self.own.dispatcher.questions.is_none()
            && !self.own.dispatcher.is_manual
        {
            let builder = Jobs::open_to_look(location.file()).ok();
            let builder = builder.map(|builder| match self.own.queue_name() {
                Some(queue) => builder.queue(queue),
                None => builder,
            });
            if let Some(client) = builder.and_then(|builder| builder.client().ok()) {
                return client;
            }
        }
        self.own.clone()
    }
}

/// The sources of a view.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) queues: &'a [Queue],
    /// The queue that is shown.
    pub(crate) at: usize,
    pub(crate) params: &'a Params,
    pub(crate) redactor: Redactor<'a>,
    pub(crate) trace_link: Option<&'a str>,
}

impl<'a> Reader<'a> {
    pub(crate) fn queue(&self) -> &'a Queue {
        &self.queues[self.at]
    }

    pub(crate) fn client(&self) -> &'a Client {
        &self.queue().client
    }

    pub(crate) fn now(&self) -> Millis {
        self.client().present()
    }

    /// Returns how many records a search reads.
    pub(crate) fn most_searched(&self) -> u64 {
        if self.client().is_on_server() { MOST_SEARCHED_ON_A_SERVER } else { MOST_SEARCHED }
    }

    /// Returns how many rows a list is to have.
    fn rows(&self) -> Result<usize, Problem> {
        let wrong = || super::params::wrong("limit is a number from 1 to 100");
        match self.params.get("limit").map(str::parse) {
            None => Ok(MOST_ROWS),
            Some(Ok(rows @ 1..=MOST_ROWS)) => Ok(rows),
            Some(_) => Err(wrong()),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let (status, word) = match &error {
            StoreError::Closed | StoreError::Forked | StoreError::Overtaken => (503, "closed"),
            StoreError::Busy => (503, "busy"),
            StoreError::Full => (507, "full"),
            StoreError::KeyTaken { .. } => (409, "key_taken"),
            StoreError::TooLong { .. } | StoreError::Time(_) | StoreError::NotApplicable { .. } => {
                (400, "bad_parameter")
            }
            StoreError::Unknown => (502, "unknown"),
            _ => (502, "store_failed"),
        };
        Problem { status, error: word, message: error.to_string() }
    }
}

/// The choices of the program.
#[derive(Clone)]
pub(crate) struct DashboardSettings {
    pub(crate) queues: Vec<Queue>,
    pub(crate) title: String,
    pub(crate) access: Arc<AccessOf>,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) redact: Option<Arc<Redact>>,
    pub(crate) trace_link: Option<String>,
}
