//! The end of a run in a transaction of the caller, on the file of the jobs.

use rusqlite::Transaction;

use crate::dispatch::run::Run;
use crate::store::sqlite::callers_transaction;
use crate::store::{End, Finish, RunBuckets};
use crate::values::end_in_error::EndInError;
use crate::values::error::StoreError;
use crate::values::extra::group_of;

impl Run {
    /// Ends the run in a transaction of the caller, on the file of these jobs: the commit of the transaction
    /// completes the job. The effects of the transaction and the end of the run are one commit, so **each write of
    /// the transaction to this file happens exactly once**. Other effects are not in that commit: a mail that the
    /// handler sends may still be sent twice.
    ///
    /// Call it last, commit, and return `Ok`.
    ///
    /// - The commit completes the run. After it, an error or a panic of the handler, or [`Run::fail`], changes
    ///   nothing. A crash does not run the job again.
    /// - After a rollback the call has had no effect. The result of the handler counts, as in any run, and the run
    ///   may end in another transaction.
    /// - The end is that of any run: its result is kept with the job, its follow-ups ([`Run::then`]) are stored, and
    ///   the history counts it. Set the result and add the follow-ups before this call. A later follow-up is refused
    ///   ([`FollowUpError::Ended`](crate::FollowUpError::Ended)), after a rollback too: the run cannot know of it. A
    ///   follow-up takes the key of a claimed job as an insert in a transaction does: see
    ///   [`Client::insert_job_in`](crate::Client::insert_job_in).
    /// - In a handler of batches, each run of the batch ends by its own call. One transaction may end several.
    /// - A cancel that comes after the commit answers [`Cancel::Gone`](crate::Cancel::Gone).
    /// - The reports of the run, [`Client::wait`](crate::Client::wait) and the counters of this process follow when
    ///   the handler has returned. Until then the run takes its place among the jobs in flight.
    ///
    /// Begin the transaction as `IMMEDIATE`, and keep it short: while it is open, no job is claimed or ended. A call
    /// that waits for the jobs, such as an insert without `insert_in`, would wait for the transaction in vain.
    ///
    /// A transaction of rusqlite is not [`Send`], so a handler that is a future ends its run in
    /// `tokio::task::spawn_blocking`, with a clone of the run. A transaction of another library for SQLite cannot end
    /// a run.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::rusqlite::{Connection, TransactionBehavior};
    /// use tickwheel_jobs::{Job, Jobs};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Pay(u32);
    /// impl Job for Pay {
    ///     const KIND: &'static str = "pay";
    /// }
    ///
    /// let (jobs, driver) = Jobs::temporary()?
    ///     .handle(|pay: Pay, run| {
    ///         let jobs = run.client();
    ///         let mut shop = Connection::open(jobs.file().ok_or("no file")?)?;
    ///         let behavior = TransactionBehavior::Immediate;
    ///         let transaction = shop.transaction_with_behavior(behavior)?;
    ///         transaction.execute("INSERT INTO paid VALUES (?1)", [pay.0])?;
    ///         run.end_in(&transaction)?;
    ///         Ok(transaction.commit()?)
    ///     })
    ///     .manual()?;
    /// let shop = Connection::open(jobs.file().ok_or("no file")?)?;
    /// shop.execute_batch("CREATE TABLE paid (cents INTEGER)")?;
    /// jobs.insert(Duration::ZERO, Pay(500))?;
    /// driver.advance(Duration::ZERO);
    /// assert_eq!(jobs.count()?.pending, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`StoreError::EndIn`] with an [`EndInError`]: the jobs are not on a file, the transaction is on another one,
    /// the run has ended before, or it has lost its claim. Otherwise if the file could not be changed. Roll the
    /// transaction back after any error: a part of the change may be in it.
    #[doc(alias("complete", "ack", "exactly_once", "complete_tx"))]
    pub fn end_in(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let now = self.dispatcher.clock.now();
        let state = &self.state;
        if !state.is_under_way() {
            return Err(StoreError::EndIn(EndInError::Ended));
        }
        let took = state.age(now.instant).unwrap_or_default();
        let claim = (state.id, state.fence);
        let end = |keep| {
            state.end_in_transaction().then(|| Finish {
                id: state.id,
                fence: state.fence,
                end: End::Completed,
                took: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                result: state.result(),
                keep,
                wanted: state.extra.as_ref().is_some_and(|extra| extra.wanted),
                run: Some(RunBuckets::of(state.late(), took)),
                then: state.follow_ups.jobs(),
                group: group_of(state.extra.as_deref()),
            })
        };
        callers_transaction::end_in(&self.dispatcher.file, transaction, claim, end, now.millis())
    }
}
