//! The verb that says why a job has not started.

use super::caller::{Caller, on_thread};
use super::client::Client;
use super::request;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::pending_reason::PendingReason;

impl Client {
    /// Returns why a job has not started: every reason that holds. If there is none, [`PendingReason::Interrupted`] or
    /// [`PendingReason::Turn`]. The list is empty if the job is not pending: [`get`](Client::get) tells whether it
    /// runs, has ended, or is gone.
    ///
    /// It reads the job, the settings of the queue and its nodes, and the claimed jobs if a limit is stored. The
    /// figures of a node are some seconds old on a server, and may be older on a file.
    ///
    /// Of limits it knows those that are stored, and not those that only a program says
    /// ([`Builder::limit_unless_set`](crate::Builder::limit_unless_set)): a job that one of these holds back waits for
    /// its turn.
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
        match self.ask(caller, request::get(id)).await? {
            Some(job) => Ok(self.why_of_by(caller, &[job]).await?.pop().unwrap_or_default()),
            None => Ok(Vec::new()),
        }
    }

    /// Returns why each of these jobs has not started.
    #[cfg(feature = "web")]
    pub(crate) fn why_of(&self, jobs: &[JobInfo]) -> Result<Vec<Vec<PendingReason>>, StoreError> {
        on_thread(self.why_of_by(Caller::Thread, jobs))
    }

    async fn why_of_by(
        &self,
        caller: Caller,
        jobs: &[JobInfo],
    ) -> Result<Vec<Vec<PendingReason>>, StoreError> {
        let mut each = vec![Vec::new(); jobs.len()];
        if jobs.iter().all(|job| job.state != JobState::Pending) {
            return Ok(each);
        }
        let stored = self.ask(caller, request::settings()).await?;
        let nodes = self.ask(caller, request::nodes()).await?;
        for (job, reasons) in jobs.iter().zip(&mut each) {
            if job.state != JobState::Pending {
                continue;
            }
            let reached = self.reached_limits(caller, &stored, job).await?;
            let now = self.dispatcher.clock.now().millis().to_system();
            *reasons = PendingReason::of_settings(job, &stored, now);
            reasons.extend(reached.into_iter().map(PendingReason::Limit));
            PendingReason::add_nodes(reasons, job, &nodes, self.dispatcher.shared, now);
        }
        Ok(each)
    }
}
