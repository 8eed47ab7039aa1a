//! In a transaction of the caller, on the file of the jobs: verbs of the client, the end of a run, and the insert of a
//! job as an SQL statement for another SQLite library.
//!
//! Ground rules:
//!
//! - Their changes take effect with the commit of the transaction, and only with it.
//! - They see the file as another process does: a claimed job counts as running, even in the process that runs
//!   it. So its cancel is only requested, and it is not rescheduled.

use core::fmt;
use std::sync::Arc;

use rusqlite::Transaction;
use tickwheel::When;

use super::client::{Client, draw};
use super::insert::{Inserted, NewJob, answer, to_store};
use super::request::{self, Request, strange};
use crate::dispatch::run::Run;
use crate::store::sqlite::{callers_transaction, statement};
use crate::store::{End, Finish, RunBuckets};
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};
use crate::values::info::Cancel;
use crate::values::job::{Job, group_of};
use crate::values::time::Now;

impl Client {
    /// Stores a [`NewJob`] in a transaction of the caller, as [`Client::insert_in`] stores a job, and with its errors.
    ///
    /// A job that has the key counts as running once it is claimed, up to 50 ms before it is due. The new job
    /// then does not replace it, but takes the key. If the claimed job holds its key until its end
    /// ([`Until::Ended`](crate::Until::Ended)), the new job is not stored, and the result has the id of the
    /// claimed one.
    pub fn insert_job_in<J: Job>(
        &self,
        transaction: &Transaction<'_>,
        new: NewJob<J>,
    ) -> Result<Inserted, InsertError<NewJob<J>>> {
        self.insert_new_in(transaction, &new).map_err(|kind| InsertError::new(kind, new))
    }

    /// Cancels a job in a transaction of the caller, on the file of these jobs. The commit of the transaction
    /// cancels the job. After a rollback the job is as it was.
    ///
    /// A job counts as running once it is claimed, up to 50 ms before it is due. The result is then
    /// [`Cancel::Running`]: after the commit the run is cancelled within a second, or at once after a
    /// [`Client::nudge`]. Until then it may start, and may complete.
    ///
    /// # Errors
    ///
    /// If the transaction is on another file ([`StoreError::Other`]), or the file could not be changed.
    /// Roll the transaction back then: a part of the change may be in it.
    pub fn cancel_in(
        &self,
        transaction: &Transaction<'_>,
        id: JobId,
    ) -> Result<Cancel, StoreError> {
        self.ask_in(transaction, request::cancel(id), self.dispatcher.clock.latest())
    }

    /// Changes the due time of a pending job in a transaction of the caller, as [`Client::cancel_in`] cancels
    /// it. Returns `false` if the job runs or is claimed, is dead, or does not exist. The process that runs the jobs
    /// sees the new time within a second, or at once after a [`Client::nudge`].
    ///
    /// # Errors
    ///
    /// As [`Client::cancel_in`]; and if the time lies outside of the years 1970 to 9999.
    pub fn reschedule_in(
        &self,
        transaction: &Transaction<'_>,
        id: JobId,
        when: impl Into<When>,
    ) -> Result<bool, StoreError> {
        let now = self.dispatcher.clock.latest();
        let due = now.resolve(when.into(), draw(JobId::new()))?;
        self.ask_in(transaction, request::reschedule(id, due), now)
    }

    /// Makes a change in a transaction of the caller.
    fn ask_in<A>(
        &self,
        transaction: &Transaction<'_>,
        Request { op, read }: Request<A>,
        now: Now,
    ) -> Result<A, StoreError> {
        let file = &self.dispatcher.file;
        let answer = callers_transaction::apply_in(file, transaction, &op, now.millis())?;
        read(answer).ok_or_else(strange)
    }

    pub(super) fn insert_new_in<J: Job>(
        &self,
        transaction: &Transaction<'_>,
        new: &NewJob<J>,
    ) -> Result<Inserted, InsertErrorKind> {
        let now = self.dispatcher.clock.latest();
        let kind = Arc::from(J::KIND);
        let job = to_store(&JobIds::of_this_process(), now, &kind, &self.headers(), new)?;
        let id = job.id;
        let inserted = answer(id, self.ask_in(transaction, request::insert(job), now)?);
        #[cfg(feature = "tracing")]
        self.dispatcher.traces.inserted(J::KIND, inserted.id, inserted.is_new);
        Ok(inserted)
    }

    /// Returns the insert of a job as an SQL statement, for a transaction on the file of these jobs that
    /// `insert_in` cannot use: one of sqlx, diesel or sea-orm, or of another program. Writes nothing, and does
    /// not wait.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use tickwheel_jobs::{Job, Jobs};
    /// use std::time::Duration;
    /// use tickwheel_jobs::rusqlite::Connection; // stands for any other library
    /// # #[derive(Serialize, Deserialize)]
    /// # struct CloseOrder { order: u64 }
    /// # impl Job for CloseOrder { const KIND: &'static str = "close-order"; }
    /// # let folder = std::env::temp_dir().join(format!("tickwheel-statement-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("shop.db");
    /// let jobs = Jobs::open(&path)?.handle(|_: CloseOrder, _| Ok(())).start()?;
    /// let mut shop = Connection::open(&path)?;
    /// let transaction = shop.transaction()?;
    /// let close = jobs.statement((Duration::from_secs(72 * 3600), CloseOrder { order: 1001 }))?;
    /// transaction.execute(close.sql(), [close.parameter()])?;
    /// transaction.commit()?;
    /// jobs.nudge(); // else the process that runs the jobs polls within a second
    /// assert!(jobs.get(close.id())?.is_some());
    /// # drop(shop);
    /// # jobs.shutdown()?;
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    /// A delay counts from this call, not from the commit. The job has all its properties, as with an insert.
    /// It is filed under its key and its id after the commit, by the next transaction of these jobs: that of
    /// any call, of [`Client::nudge`], or of the poll within a second. A read does that too, unless another
    /// transaction holds the file for longer than 100 ms.
    ///
    /// The job is dropped without an error in three cases: another job runs and holds the key until its end;
    /// another job has the key and this one has [`NewJob::if_absent`]; or the store knows the id. So a
    /// statement that is run twice is one job, as long as the id is known ([`NewJob::id`](crate::NewJob::id)).
    ///
    /// On another file SQLite refuses the statement: the table is absent, or there is the error
    /// `NOT NULL constraint failed: tickwheel_outbox.made_for_this_file`. SQLite also refuses it once a later
    /// version of this crate has changed the tables. So make statements when they are needed, and do not keep
    /// them.
    ///
    /// A transaction that reads first and writes later may be refused with `SQLITE_BUSY_SNAPSHOT`. Begin it
    /// as `IMMEDIATE`.
    ///
    /// # Errors
    ///
    /// The error returns the job, if it does not encode, is too long, or its time lies outside of the years 1970 to
    /// 9999. [`StoreError::Other`] if these jobs are not on a file.
    pub fn statement<J: Job>(
        &self,
        new: impl Into<NewJob<J>>,
    ) -> Result<Statement, InsertError<NewJob<J>>> {
        let new = new.into();
        self.statement_of(&new).map_err(|kind| InsertError::new(kind, new))
    }

    fn statement_of<J: Job>(&self, new: &NewJob<J>) -> Result<Statement, InsertErrorKind> {
        let Some(location) = &self.dispatcher.file else {
            return Err(StoreError::Other("these jobs are not on a file".to_owned()).into());
        };
        let (ids, now) = (JobIds::of_this_process(), self.dispatcher.clock.latest());
        let new = to_store(&ids, now, &Arc::from(J::KIND), &self.headers(), new)?;
        let (sql, parameter) = (statement::text(location), statement::parameter(&new)?);
        Ok(Statement { sql, parameter, id: new.id })
    }
}

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
    ///   ([`StoreError::RunEnded`]), after a rollback too: the run cannot know of it. A
    ///   follow-up takes the key of a claimed job as an insert in a transaction does: see
    ///   [`Client::insert_job_in`](crate::Client::insert_job_in).
    /// - In a handler of batches, each run of the batch ends by its own call. One transaction may end several.
    /// - A cancel that comes after the commit answers [`Cancel::Gone`].
    /// - The reports of the run, [`Client::wait`](crate::Client::wait) and the counters of this process follow when
    ///   the handler has returned. Until then the run takes its place among the jobs in flight.
    ///
    /// Begin the transaction as `IMMEDIATE`, and keep it short: while it is open, no job is claimed or ended. A call
    /// that waits for the jobs, such as an insert without `insert_in`, would wait for the transaction in vain.
    ///
    /// A transaction of rusqlite is not [`Send`], so a handler that is a future ends its run in
    /// `tokio::task::spawn_blocking`, with a clone of the run. A transaction of another library for SQLite cannot end
    /// a run. The `cookbook` has an example.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the jobs are not on a file, or the transaction is on another one.
    /// [`StoreError::RunEnded`] if the run has ended before, [`StoreError::ClaimLost`] if it has lost its claim.
    /// Otherwise if the file could not be changed. Roll the transaction back after any error: a part of the change may
    /// be in it.
    #[doc(alias("complete", "ack", "exactly_once", "complete_tx"))]
    pub fn end_in(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let now = self.dispatcher.clock.now();
        let state = &self.state;
        if !state.is_under_way() {
            return Err(StoreError::RunEnded);
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
                gives_result: false,
            })
        };
        callers_transaction::end_in(&self.dispatcher.file, transaction, claim, end, now.millis())
    }
}

/// An SQL statement that stores a job: its text, and its one parameter. Any SQLite library can run it, in a
/// transaction on the file of the jobs: sqlx, diesel, sea-orm, or a library of another language.
/// [`Client::statement`] returns one.
///
/// Run it once, in the transaction that writes the data to which the job belongs. The commit stores both, or
/// neither.
#[must_use = "the job is stored when the statement is run"]
#[derive(Clone, PartialEq, Eq)]
pub struct Statement {
    sql: String,
    parameter: Vec<u8>,
    id: JobId,
}

impl Statement {
    /// Returns the text. It has one parameter, `?1`, and is the same for all statements of these jobs, so
    /// a library that keeps prepared statements prepares it once.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the parameter, to be bound as a blob.
    #[must_use]
    pub fn parameter(&self) -> &[u8] {
        &self.parameter
    }

    /// Returns the id of the job.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sql, id) = (&self.sql, &self.id);
        f.debug_struct("Statement").field("sql", sql).field("id", id).finish_non_exhaustive()
    }
}
