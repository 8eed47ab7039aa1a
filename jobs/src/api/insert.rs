//! The verbs that insert.

use std::sync::Arc;

use tickwheel::When;

use super::client::{Client, check_name, draw, error_of, payload};
use crate::store::words::{Answer, ApplyError, IfTaken, Inserted, NewJob, Op};
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::id::{JobId, JobIds};
use crate::values::info::Durability;
use crate::values::job::Job;
use crate::values::time::Now;

impl Client {
    /// Stores a job that is to run at a time: after a [`Duration`](std::time::Duration), at an
    /// [`Instant`](std::time::Instant), at a [`SystemTime`](std::time::SystemTime), or a
    /// [`When`]. Returns when it is as durable as
    /// [`Builder::durability`](crate::Builder::durability) says.
    ///
    /// Every time becomes one of the wall clock, in whole milliseconds, rounded up; a time that has
    /// come already is not put off. A job with a slack or a jitter gets a time at random within it.
    ///
    /// # Errors
    ///
    /// The job comes back, and the store has nothing of it; except with
    /// [`InsertErrorKind::Unknown`].
    pub fn insert<J: Job>(&self, when: impl Into<When>, job: J) -> Result<JobId, InsertError<J>> {
        self.insert_one(None, when.into(), None, job)
    }

    /// Stores a job under an id of the caller's, once: if the id is known, nothing happens, and the
    /// answer is the same.
    ///
    /// An id is known while its job is pending, runs or is dead, and for the
    /// [retention](crate::Builder::retention) after it ended, however it ended.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`].
    pub fn insert_with_id<J: Job>(
        &self,
        id: JobId,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        self.insert_one(Some(id), when.into(), None, job)
    }

    /// Stores many jobs. On a file and in memory that is one commit: all of them, or none. It takes some
    /// microseconds a job, and no other commit is made meanwhile, so a million jobs are better stored in
    /// batches of some thousand. On a server a batch of up to 256 jobs is all or nothing, and a larger one
    /// is stored part by part.
    ///
    /// # Errors
    ///
    /// The whole batch comes back. [`StoreError::Incomplete`] says how many
    /// of its first jobs are stored nevertheless.
    /// [`InsertErrorKind::Unknown`] has the first id of the part whose answer was lost: the jobs before it
    /// are stored, those after that part are not.
    pub fn insert_batch<W, J>(
        &self,
        jobs: impl IntoIterator<Item = (W, J)>,
    ) -> Result<Vec<JobId>, InsertError<Vec<(When, J)>>>
    where
        W: Into<When>,
        J: Job,
    {
        let jobs: Vec<(When, J)> = jobs.into_iter().map(|(when, job)| (when.into(), job)).collect();
        let now = match self.link.latest() {
            Ok(now) => now,
            Err(failed) => return Err(InsertError::new(failed.error, jobs)),
        };
        let ids = JobIds::of_this_process();
        let kind: Arc<str> = Arc::from(J::NAME);
        let new = |(when, job): &(When, J)| new_job(&ids, now, &kind, *when, job);
        let made: Result<Vec<NewJob>, InsertErrorKind> = jobs.iter().map(new).collect();
        let new = match made {
            Ok(new) => new,
            Err(kind) => return Err(InsertError::new(kind, jobs)),
        };
        let ids: Vec<JobId> = new.iter().map(|job| job.id).collect();
        match self.store_many(new) {
            Ok(()) => Ok(ids),
            Err(kind) => Err(InsertError::new(kind, jobs)),
        }
    }

    /// Stores jobs: on a server in parts, so that the dispatcher does other things between them.
    fn store_many(&self, new: Vec<NewJob>) -> Result<(), InsertErrorKind> {
        let part = if self.link.shared { JOBS_PER_PART } else { new.len().max(1) };
        let mut stored = 0;
        let mut rest = new.into_iter().peekable();
        while let Some(first) = rest.peek().map(|job| job.id) {
            let jobs: Vec<NewJob> = rest.by_ref().take(part).collect();
            let many = jobs.len();
            self.store(Op::InsertMany(jobs), first).map_err(|kind| after(stored, kind))?;
            stored += many;
        }
        Ok(())
    }

    /// Stores a job in a transaction of the caller's, on the file of these jobs: the job is there
    /// once the transaction is committed, and with it.
    ///
    /// The process that runs the jobs looks for such jobs once a second;
    /// [`Client::nudge`] after the commit makes it look at once. As long as the transaction is open,
    /// nobody else writes to the file, so no job can be claimed: keep it short.
    ///
    /// # Errors
    ///
    /// The job comes back. [`StoreError::Other`] if the transaction is on another file.
    #[cfg(feature = "sqlite")]
    pub fn insert_in<J: Job>(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        let now = self.link.clock.latest();
        let inserted = self.prepare(None, now, when.into(), None, &job).and_then(|new| {
            let id = new.id;
            crate::store::sqlite::outbox::insert_in(&self.link.file, transaction, new, now.millis())
                .map(|()| id)
                .map_err(InsertErrorKind::from)
        });
        inserted.map_err(|kind| InsertError::new(kind, job))
    }

    pub(crate) fn insert_one<J: Job>(
        &self,
        id: Option<JobId>,
        when: When,
        key: Option<(String, IfTaken)>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        let now = self.link.latest().map_err(|failed| InsertErrorKind::from(failed.error));
        let prepared = now.and_then(|now| self.prepare(id, now, when, key, &job));
        let inserted = prepared.and_then(|new| {
            let id = new.id;
            match self.store(Op::Insert(new), id)? {
                Inserted::New | Inserted::Known => Ok(id),
                Inserted::Occupied => Err(InsertErrorKind::Occupied),
            }
        });
        inserted.map_err(|kind| InsertError::new(kind, job))
    }

    fn prepare<J: Job>(
        &self,
        id: Option<JobId>,
        now: Now,
        when: When,
        key: Option<(String, IfTaken)>,
        job: &J,
    ) -> Result<NewJob, InsertErrorKind> {
        if let Some((key, _)) = &key {
            check_name("key", key)?;
        }
        let kind = Arc::from(J::NAME);
        let new = new_job(&JobIds::of_this_process(), now, &kind, when, job)?;
        let callers_id = id.is_some();
        Ok(NewJob { id: id.unwrap_or(new.id), key, callers_id, ..new })
    }

    fn store(&self, op: Op, id: JobId) -> Result<Inserted, InsertErrorKind> {
        let keyed = matches!(&op, Op::Insert(NewJob { key: Some((_, IfTaken::Leave)), .. }));
        if self.link.durability == Durability::Buffered && !keyed {
            return match self.link.post(op) {
                Ok(()) => Ok(Inserted::New),
                Err(failed) => Err(failed.error.into()),
            };
        }
        match self.link.ask(op) {
            Ok(Answer::Inserted(inserted)) => Ok(inserted),
            Err(ApplyError { unknown: true, .. }) => Err(InsertErrorKind::Unknown(id)),
            other => Err(error_of(other).into()),
        }
    }
}

/// How many jobs of a batch a step of the dispatcher takes on a server: it takes some milliseconds.
const JOBS_PER_PART: usize = 4096;

/// Returns what an error means of a batch whose first jobs are stored.
fn after(before: usize, kind: InsertErrorKind) -> InsertErrorKind {
    let error = match kind {
        kind if before == 0 => return kind,
        InsertErrorKind::Unknown(id) => return InsertErrorKind::Unknown(id),
        InsertErrorKind::Store(StoreError::Incomplete { stored, error }) => {
            let stored = before + stored;
            return InsertErrorKind::Store(StoreError::Incomplete { stored, error });
        }
        InsertErrorKind::Store(error) => error,
        InsertErrorKind::Closed => StoreError::Closed,
        other => StoreError::Other(other.to_string()),
    };
    InsertErrorKind::Store(StoreError::Incomplete { stored: before, error: Box::new(error) })
}

fn new_job<J: Job>(
    ids: &JobIds,
    now: Now,
    kind: &Arc<str>,
    when: When,
    job: &J,
) -> Result<NewJob, InsertErrorKind> {
    let payload = payload(job)?;
    let needs_draw = !when.leeway().is_zero();
    let draw = if needs_draw { draw(ids.next(now.millis(), None)) } else { 0 };
    let due = now.resolve(when, draw).map_err(InsertErrorKind::Time)?;
    let id = ids.next(now.millis(), Some((kind, due)));
    Ok(NewJob { id, kind: Arc::clone(kind), due, key: None, callers_id: false, payload })
}
