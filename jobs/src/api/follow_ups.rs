//! Follow-ups: jobs that a run inserts with its end.

use std::sync::Arc;

use tickwheel::When;

use super::client::Client;
use crate::dispatch::run::Run;
use crate::values::error::InsertError;
use crate::values::id::JobId;
use crate::values::job::Job;

impl Run {
    /// Adds a follow-up: a job that is stored if, and when, this run ends well. One commit stores both the end of
    /// the run and its follow-ups, so no crash comes between them. A run that fails, is snoozed or interrupted, or has
    /// lost its claim drops its follow-ups: the next run of the job adds its own.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// use std::time::Duration;
    /// use tickwheel_jobs::{Fail, Job, Jobs, Run};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Charge { order: u64 }
    /// # impl Job for Charge { const KIND: &'static str = "charge"; }
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Receipt { order: u64 }
    /// # impl Job for Receipt { const KIND: &'static str = "receipt"; }
    /// fn charge(job: Charge, run: &Run) -> Result<(), Fail> {
    ///     run.then(Duration::ZERO, Receipt { order: job.order })?;
    ///     // .. charges the card ..
    ///     Ok(())
    /// }
    ///
    /// let (jobs, driver) =
    ///     Jobs::memory().handle(charge).handle(|_: Receipt, _| Ok(())).manual()?;
    /// jobs.insert(Duration::ZERO, Charge { order: 1001 })?;
    /// assert_eq!(driver.advance(Duration::from_secs(1)), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The call only notes the job, and does not wait, so it suits handlers that are futures too. A delay counts from
    /// this call. [`Run::next`] adds follow-ups with a key, an id or headers.
    ///
    /// A run has at most 255 follow-ups, whose payloads have 1 MiB together. If a server has no memory left, it refuses
    /// the end of a run with follow-ups as a whole. The run then keeps its claim and its place among the jobs in
    /// flight, and its end is written once there is memory.
    ///
    /// # Errors
    ///
    /// The error returns the job. [`StoreError::FollowUp`](crate::StoreError::FollowUp) if the run has too many
    /// follow-ups, or has ended. Otherwise as [`Client::insert`].
    #[doc(alias("chain", "follow_up", "enqueue_next", "on_success", "continue_with"))]
    pub fn then<J: Job>(&self, when: impl Into<When>, job: J) -> Result<JobId, InsertError<J>> {
        self.next().insert(when, job)
    }

    /// Returns a client whose inserts are follow-ups of this run: see [`Run::then`]. It inserts as any other client
    /// does: one job or many, under keys and ids, with headers.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// use std::time::Duration;
    /// use tickwheel_jobs::{Fail, Job, Run};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Poll { device: u64 }
    /// # impl Job for Poll { const KIND: &'static str = "poll"; }
    /// fn poll(job: Poll, run: &Run) -> Result<(), Fail> {
    ///     let key = format!("device-{}", job.device);
    ///     run.next().keyed(&key).insert(Duration::from_secs(60), job)?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// The end of the run comes first, so a follow-up may take a key that the run holds until its end
    /// ([`Until::Ended`](crate::Until::Ended)). What becomes of the key and of the id is known only then. So an insert
    /// answers as if the key were free and the id new. If another job keeps the key at the end, or the store knows the
    /// id, the follow-up is dropped.
    ///
    /// Only inserts wait for the end. Every other verb of this client is done at once, and so are `insert_in` and
    /// `statement`, which belong to a transaction, and `run_schedule`. [`Client::call`] is refused
    /// ([`CallError::Refused`](crate::CallError::Refused)): its job would wait for the run that waits for it.
    #[must_use]
    pub fn next(&self) -> Client {
        self.client().after(Arc::clone(&self.state))
    }
}
