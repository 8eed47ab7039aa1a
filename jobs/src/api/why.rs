//! The verb that says why a job has not started.

use super::caller::{Caller, on_thread};
use super::client::Client;
use super::request;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::pending_reason::PendingReason;

impl Client {
    /// Returns why a job has not started: every reason that holds. The list is empty if the job is not pending:
    /// [`get`](Client::get) tells whether it runs, has ended, or is gone.
    ///
    /// It reads the job, the settings of the queue and its nodes. What a node said of itself is some seconds old on a
    /// server, and may be older on a file.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs, PendingReason};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Mail(u64);
    /// # impl Job for Mail { const KIND: &'static str = "mail"; }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (jobs, driver) = Jobs::memory().handle(|_: Mail, _| Ok(())).manual()?;
    /// jobs.kind::<Mail>().pause()?;
    /// let id = jobs.insert(Duration::ZERO, Mail(7))?;
    /// driver.advance(Duration::from_secs(1));
    /// assert_eq!(jobs.why_pending(id)?, [PendingReason::KindPaused]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    #[doc(alias("explain", "blocked", "stuck"))]
    pub fn why_pending(&self, id: JobId) -> Result<Vec<PendingReason>, StoreError> {
        on_thread(self.why_pending_by(Caller::Thread, id))
    }

    /// [`Client::why_pending`], as a future.
    ///
    /// # Errors
    ///
    /// As [`Client::why_pending`].
    pub async fn why_pending_async(&self, id: JobId) -> Result<Vec<PendingReason>, StoreError> {
        self.why_pending_by(Caller::Future, id).await
    }

    async fn why_pending_by(
        &self,
        caller: Caller,
        id: JobId,
    ) -> Result<Vec<PendingReason>, StoreError> {
        let Some(job) = self.ask(caller, request::get(id)).await? else { return Ok(Vec::new()) };
        let settings = self.settings_by(caller).await?;
        let nodes = self.ask(caller, request::nodes()).await?;
        let now = self.dispatcher.clock.now().millis().to_system();
        Ok(PendingReason::all(&job, &settings, &nodes, self.dispatcher.shared, now))
    }
}
