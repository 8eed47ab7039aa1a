//! The insert of a job as an SQL statement, for a transaction of another SQLite library.

use core::fmt;
use std::sync::Arc;

use super::client::Client;
use super::insert::to_store;
use super::new_job::NewJob;
use crate::store::sqlite::statement;
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};
use crate::values::job::Job;

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

impl Client {
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
    /// statement that is run twice is one job, as long as the id is known ([`Client::insert_with_id`]).
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
