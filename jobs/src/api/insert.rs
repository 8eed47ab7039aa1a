//! The verbs that insert jobs.

use std::sync::Arc;

use tickwheel::When;

use super::caller::{Caller, on_thread};
use super::client::{Client, check_name, draw, payload};
use super::insert_headers::InsertHeaders;
use super::new_job::{Inserted, NewJob, Until};
use super::request::{self, Request};
use crate::store::{self, ApplyError};
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::extra::{Burst, Extra};
use crate::values::id::{JobId, JobIds};
use crate::values::info::Durability;
use crate::values::job::Job;
use crate::values::time::Now;

impl Client {
    /// Stores a job that is due at a time: after a [`Duration`](std::time::Duration), at an
    /// [`Instant`](std::time::Instant), at a [`SystemTime`](std::time::SystemTime), or a [`When`]. Returns once
    /// the job is as durable as [`Builder::durability`](crate::Builder::durability) says.
    ///
    /// On a thread that has a transaction of its own open on the same file, the call waits for that transaction
    /// in vain, and delays all jobs meanwhile: use `insert_in` there.
    ///
    /// Every time becomes a due time of the wall clock, rounded up to whole milliseconds; a time that has come
    /// already is not rounded up. With a slack or a jitter, the due time is a random one within it.
    ///
    /// # Errors
    ///
    /// The error returns the job. The store has stored nothing of it, except perhaps with
    /// [`InsertErrorKind::Unknown`].
    #[doc(alias("enqueue", "push", "add", "perform_in", "perform_at", "schedule", "delay"))]
    pub fn insert<J: Job>(&self, when: impl Into<When>, job: J) -> Result<JobId, InsertError<J>> {
        let new = NewJob::new(job).at(when);
        on_thread(self.insert_by(Caller::Thread, new)).map(|inserted| inserted.id)
    }

    /// Stores a [`NewJob`], which may have an id, a key, and a retry policy.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`]. After [`InsertErrorKind::Unknown`]`(id)` it is safe to insert
    /// `refused.into_inner().id(id)`.
    pub fn insert_job<J: Job>(&self, new: NewJob<J>) -> Result<Inserted, InsertError<NewJob<J>>> {
        let (inserted, new) = on_thread(self.insert_new(Caller::Thread, new));
        inserted.map_err(|kind| InsertError::new(kind, new))
    }

    /// Stores a job once, under an id that the caller chose. If the store knows the id, it stores nothing, and
    /// the result says so.
    ///
    /// The store knows an id while its job is pending, runs or is dead, and for
    /// [`Builder::keep_dead`](crate::Builder::keep_dead) after the end of the job, whether it completed, died
    /// or was cancelled.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`].
    #[doc(alias("unique", "idempotent", "deduplicate", "enqueue_once"))]
    pub fn insert_with_id<J: Job>(
        &self,
        id: JobId,
        when: impl Into<When>,
        job: J,
    ) -> Result<Inserted, InsertError<J>> {
        let new = NewJob::new(job).at(when).id(id);
        on_thread(self.insert_by(Caller::Thread, new))
    }

    /// Stores many jobs: pairs of a time and a job, or [`NewJob`]s. Returns the id of each, in their order. If
    /// another job has the key of a job and keeps it, that job is not stored, and the id in its place is that
    /// of the other job.
    ///
    /// On a file and in memory the batch is one commit: all of it, or nothing. The commit takes some
    /// microseconds for each job and delays all other commits: a batch of 100,000 jobs delays them for a
    /// quarter of a second or more. Store that many jobs in batches of some thousand. On a server a batch of up
    /// to 256 jobs is all or nothing, and a larger one is stored part by part. Of several jobs with one key the
    /// last one stays, as if they were inserted one by one.
    ///
    /// # Errors
    ///
    /// The error returns the whole batch. [`StoreError::Incomplete`] says how many of its first jobs are stored
    /// nevertheless. [`InsertErrorKind::Unknown`] has the first id of the part whose answer was lost: the jobs
    /// before it are stored, those after that part are not.
    #[doc(alias("bulk", "insert_all", "insert_many", "push_bulk", "add_bulk"))]
    pub fn insert_batch<J: Job>(
        &self,
        jobs: impl IntoIterator<Item = impl Into<NewJob<J>>>,
    ) -> Result<Vec<JobId>, InsertError<Vec<NewJob<J>>>> {
        let jobs = jobs.into_iter().map(Into::into).collect();
        on_thread(self.insert_all(Caller::Thread, jobs))
    }

    pub(super) async fn insert_all<J: Job>(
        &self,
        caller: Caller,
        jobs: Vec<NewJob<J>>,
    ) -> Result<Vec<JobId>, InsertError<Vec<NewJob<J>>>> {
        let now = match self.latest(caller).await {
            Ok(now) => now,
            Err(failed) => return Err(InsertError::new(failed.error, jobs)),
        };
        let ids = JobIds::of_this_process();
        let kind: Arc<str> = Arc::from(J::KIND);
        let headers = self.headers();
        let made: Result<Vec<store::NewJob>, InsertErrorKind> =
            jobs.iter().map(|job| to_store(&ids, now, &kind, &headers, job)).collect();
        let new = match made {
            Ok(new) => new,
            Err(kind) => return Err(InsertError::new(kind, jobs)),
        };
        let mut ids: Vec<JobId> = new.iter().map(|job| job.id).collect();
        match self.store_many(caller, new, &mut ids).await {
            Ok(()) => {
                #[cfg(feature = "tracing")]
                if !self.waits_for_run() {
                    self.dispatcher.traces.inserted_batch(J::KIND, ids.len());
                }
                Ok(ids)
            }
            Err(kind) => Err(InsertError::new(kind, jobs)),
        }
    }

    /// Stores jobs: on a server in parts, so that the dispatcher takes other commands between them. If another
    /// job keeps the key of a job, writes the id of the other job to `ids`.
    async fn store_many(
        &self,
        caller: Caller,
        new: Vec<store::NewJob>,
        ids: &mut [JobId],
    ) -> Result<(), InsertErrorKind> {
        let part = if self.dispatcher.shared { JOBS_PER_PART } else { new.len().max(1) };
        let mut stored = 0;
        let mut rest = new.into_iter().peekable();
        while let Some(first) = rest.peek().map(|job| job.id) {
            let jobs: Vec<store::NewJob> = rest.by_ref().take(part).collect();
            let many = jobs.len();
            let waits = jobs.iter().any(|job| job.key.is_some());
            let answer = self.store(caller, request::insert_many(jobs), first, waits).await;
            let taken = answer.map_err(|kind| after(stored, kind))?.unwrap_or_default();
            for (n, by) in taken {
                if let Some(id) = ids.get_mut(stored + n) {
                    *id = by;
                }
            }
            stored += many;
        }
        Ok(())
    }

    /// Stores a job in a transaction of the caller, on the file of these jobs. The commit of the transaction
    /// stores the job.
    ///
    /// The process that runs the jobs polls for such jobs once a second; a [`Client::nudge`] after the commit
    /// makes it poll at once. While the transaction is open, no other connection can write to the file, so no
    /// job can be claimed: keep it short.
    ///
    /// Begin the transaction with [`TransactionBehavior::Immediate`](rusqlite::TransactionBehavior::Immediate),
    /// unless this insert is its first statement. For a transaction of sqlx, diesel or another library there is
    /// [`Client::statement`].
    ///
    /// # Errors
    ///
    /// The error returns the job.
    ///
    /// - [`StoreError::BusySnapshot`] if the transaction has read, and another connection has written since.
    ///   The transaction cannot write any more: roll it back, and begin it as `Immediate`.
    /// - [`StoreError::Busy`] if another connection held the write lock for the whole busy timeout of the
    ///   caller's connection.
    /// - [`StoreError::Other`] if the transaction is on another file, or the jobs are on none.
    /// - The errors of [`Client::insert`] for a job that does not encode, is too long, or has no valid time.
    #[cfg(feature = "sqlite-unbundled")]
    #[doc(alias("outbox", "transaction", "enqueue_in_transaction"))]
    pub fn insert_in<J: Job>(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> {
        let new = NewJob::new(job).at(when);
        let inserted = self.insert_new_in(transaction, &new);
        inserted.map(|inserted| inserted.id).map_err(|kind| InsertError::new(kind, new.into_job()))
    }

    /// Stores a job. If it is refused, the error returns the job without its [`NewJob`].
    pub(super) async fn insert_by<J: Job>(
        &self,
        caller: Caller,
        new: NewJob<J>,
    ) -> Result<Inserted, InsertError<J>> {
        let (inserted, new) = self.insert_new(caller, new).await;
        inserted.map_err(|kind| InsertError::new(kind, new.into_job()))
    }

    /// Stores a job, and returns it with the result: the caller needs it for the error of a refusal.
    pub(super) async fn insert_new<J: Job>(
        &self,
        caller: Caller,
        new: NewJob<J>,
    ) -> (Result<Inserted, InsertErrorKind>, NewJob<J>) {
        let now = match self.latest(caller).await {
            Ok(now) => now,
            Err(failed) => return (Err(failed.error.into()), new),
        };
        // No reference to the job is held while a future waits: a job need not be `Sync`.
        let job =
            to_store(&JobIds::of_this_process(), now, &Arc::from(J::KIND), &self.headers(), &new);
        let inserted = match job {
            Ok(job) => self.insert_stored(caller, job).await,
            Err(kind) => Err(kind),
        };
        (inserted, new)
    }

    /// Stores a job that is in the form of the store already.
    async fn insert_stored(
        &self,
        caller: Caller,
        job: store::NewJob,
    ) -> Result<Inserted, InsertErrorKind> {
        let id = job.id;
        #[cfg(feature = "tracing")]
        let kind = Arc::clone(&job.kind);
        // Only an answer tells whether the job is new.
        let waits = job.key.is_some() || job.callers_id;
        let inserted = self.store(caller, request::insert(job), id, waits).await?;
        let inserted = inserted.map_or(Inserted { id, is_new: true }, |by| answer(id, by));
        #[cfg(feature = "tracing")]
        if !self.waits_for_run() {
            self.dispatcher.traces.inserted(&kind, inserted.id, inserted.is_new);
        }
        Ok(inserted)
    }

    /// Sends an insert. At [`Durability::Buffered`] there is no answer unless `waits` is set, because the
    /// caller needs it.
    async fn store<A>(
        &self,
        caller: Caller,
        request: Request<A>,
        id: JobId,
        waits: bool,
    ) -> Result<Option<A>, InsertErrorKind> {
        if self.dispatcher.durability == Durability::Buffered && !waits {
            let posted = self.post(caller, request.op).await;
            return posted.map(|()| None).map_err(|failed| failed.error.into());
        }
        match self.request(caller, request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(ApplyError { unknown: true, .. }) => Err(InsertErrorKind::Unknown(id)),
            Err(failed) => Err(failed.error.into()),
        }
    }
}

/// Returns the result of an insert under this id.
pub(super) fn answer(id: JobId, inserted: store::Inserted) -> Inserted {
    match inserted {
        store::Inserted::New => Inserted { id, is_new: true },
        store::Inserted::Known => Inserted { id, is_new: false },
        store::Inserted::Taken(by) => Inserted { id: by, is_new: false },
    }
}

/// How many jobs of a batch one step of the dispatcher stores on a server: such a step takes some milliseconds.
const JOBS_PER_PART: usize = 4096;

/// Returns the error of a batch of which the first `before` jobs are stored.
pub(super) fn after(before: usize, kind: InsertErrorKind) -> InsertErrorKind {
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

/// Returns the job in the form of the store. `headers`: those of every job of this insert.
pub(super) fn to_store<J: Job>(
    ids: &JobIds,
    now: Now,
    kind: &Arc<str>,
    headers: &InsertHeaders,
    new: &NewJob<J>,
) -> Result<store::NewJob, InsertErrorKind> {
    if let Some(key) = &new.key {
        check_name("key", key)?;
    }
    let partition: Option<Arc<str>> = new.job.partition().map(Arc::from);
    if let Some(partition) = &partition {
        check_name("partition", partition)?;
    }
    let payload = payload(&new.job)?;
    let headers = headers.and(&new.headers)?;
    let needs_draw = !new.when.leeway().is_zero();
    let draw = if needs_draw { draw(ids.next(now.millis(), None)) } else { 0 };
    let due = now.resolve(new.when, draw).map_err(InsertErrorKind::Time)?;
    let id = match new.id {
        Some(id) => id,
        None => ids.next(now.millis(), Some((kind, due))),
    };
    let key = new.key.as_ref().map(|key| (key.clone(), new.if_taken));
    let holds_key = key.is_some() && new.until == Until::Ended;
    let burst = new.debounced.map(|at_most| Burst::new(now.millis(), at_most));
    let (retry, wanted) = (new.retry, new.wanted);
    let (group, callback_of) = (None, None);
    let extra =
        Extra { retry, holds_key, headers, wanted, burst, partition, group, callback_of }.boxed();
    let (kind, callers_id) = (Arc::clone(kind), new.id.is_some());
    Ok(store::NewJob { id, kind, due, key, callers_id, extra, payload })
}
