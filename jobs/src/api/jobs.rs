//! The owner of what runs the jobs.

use core::fmt;
use core::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::bounded;

use super::client::{Client, error_of};
use crate::dispatch::command::Command;
use crate::dispatch::execute::in_handler;
use crate::store::words::Answer;
use crate::values::error::StoreError;

/// Jobs that outlive the process, and what runs them. [`Jobs::open`] makes the builder of one.
///
/// It has every method of [`Client`]. It is `Send` and `Sync`.
///
/// # The end
///
/// [`Jobs::shutdown`] waits for the runs under way. Dropping it does not: no further run starts,
/// claims that have not started are given back, the runs under way are told
/// ([`Run::is_lost`](crate::Run::is_lost)), and their jobs run again at the next start, because their ends
/// are not recorded. Nothing is lost either way.
pub struct Jobs {
    client: Client,
    dispatcher: Mutex<Option<JoinHandle<()>>>,
    /// How long a shutdown waits for runs.
    patience: Duration,
}

impl Jobs {
    pub(crate) fn new(
        client: Client,
        dispatcher: Option<JoinHandle<()>>,
        patience: Duration,
    ) -> Jobs {
        Jobs { client, dispatcher: Mutex::new(dispatcher), patience }
    }

    /// Returns a client of these jobs, for parts of the program that do not own them. It does not
    /// keep them running.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Ends: starts no further run, waits for the runs under way, at most as long as
    /// [`Builder::lease`](crate::Builder::lease) says (30 seconds), gives back the claims that have
    /// not started, and closes the store with everything on stable storage.
    ///
    /// In a handler of these jobs it does not wait for runs.
    ///
    /// # Errors
    ///
    /// [`StoreError::StillRunning`] if runs were under way at the end of that time, and whatever the
    /// last commit met.
    pub fn shutdown(self) -> Result<(), StoreError> {
        let patience = self.patience;
        self.shutdown_timeout(patience)
    }

    /// The same as [`Jobs::shutdown`], and waits for runs this long at most.
    ///
    /// # Errors
    ///
    /// As [`Jobs::shutdown`].
    pub fn shutdown_timeout(self, patience: Duration) -> Result<(), StoreError> {
        let patience = if in_handler() { Duration::ZERO } else { patience };
        self.end(patience)
    }

    fn end(&self, patience: Duration) -> Result<(), StoreError> {
        let link = &self.client.link;
        if link.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let (reply, answer) = bounded(1);
        if std::process::id() != link.pid {
            return Err(StoreError::Forked);
        }
        let sent = link.send(Command::Close { reply: Some(reply) });
        let on_dispatcher = {
            let dispatcher = self.dispatcher.lock().unwrap_or_else(|broken| broken.into_inner());
            dispatcher.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id())
        };
        let limit = if link.inline || on_dispatcher { Duration::ZERO } else { patience };
        let ended = match answer.recv_timeout(limit) {
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                let _ = link.send(Command::Abandon);
                if on_dispatcher {
                    return sent.map_err(|failed| failed.error);
                }
                answer.recv().ok()
            }
            other => other.ok(),
        };
        let thread = {
            let mut dispatcher =
                self.dispatcher.lock().unwrap_or_else(|broken| broken.into_inner());
            dispatcher.take()
        };
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            return Err(StoreError::Unknown);
        }
        match ended {
            Some(Ok(Answer::Done)) => sent.map_err(|failed| failed.error),
            Some(other) => Err(error_of(other)),
            None => Err(StoreError::Closed),
        }
    }
}

impl Deref for Jobs {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        // What the last commit met, nobody is left to be told but `on_event`.
        let _ = self.end(Duration::ZERO);
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
