//! Inserts: a job with its due time, id, key, retry policy and headers; the verbs that insert it; and follow-ups, jobs
//! that a run inserts with its end.
//!
//! Ground rules:
//!
//! - The verbs that insert one job take a time and the job. All other properties of a job are set at [`NewJob`], so
//!   they combine, also in a batch and in a transaction.
//! - Nothing is checked at [`NewJob`]: the verb that inserts the job checks it, and returns it if it is refused.
//! - The headers of a job are those of the builder, of the client and of the job itself, and the context of the trace.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use tickwheel::When;

use super::asynchronous::both;
use super::client::{Client, check_name, draw, payload};
use super::request::{self, Caller, Request};
use crate::dispatch::run::Run;
use crate::store::{self, ApplyError, IfTaken};
use crate::values::error::{InsertError, InsertErrorKind, StoreError};
use crate::values::fail_and_retry::Retry;
use crate::values::id::{JobId, JobIds};
use crate::values::info::Durability;
use crate::values::invalid_input::InvalidInput;
use crate::values::job::{self, Burst, Extra, Headers, Job};
use crate::values::time::{Millis, Now};
#[cfg(feature = "tracing")]
use crate::values::trace_context::TraceContext;

/// A job to insert, with its properties. By default it is due at once, has a new id and no key, and is retried
/// by the policy of its handler.
///
/// A pair of a time and a job converts to one: `(when, job)` is `NewJob::new(job).at(when)`.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use tickwheel_jobs::{Job, JobId, Jobs};
/// use std::time::Duration;
/// use tickwheel_jobs::{NewJob, Retry, Until};
/// # #[derive(Serialize, Deserialize)]
/// # struct CloseOrder { order: u64 }
/// # impl Job for CloseOrder { const KIND: &'static str = "close-order"; }
/// # let (jobs, driver) = Jobs::memory().handle(|_: CloseOrder, _| Ok(())).manual()?;
/// let hour = Duration::from_secs(3600);
/// let close = NewJob::new(CloseOrder { order: 1001 })
///     .at(72 * hour)
///     .key("order-1001") // at most one job of this order waits,
///     .unique_until(Until::Ended) // and none while one runs
///     .id(JobId::named("close order 1001")) // once, however often this is called
///     .retry(Retry::fixed(hour).max_retries(3));
/// let inserted = jobs.insert_job(close)?;
/// assert!(inserted.is_new);
/// # drop((jobs, driver));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a job is stored by the verb that inserts it"]
#[derive(Clone)]
pub struct NewJob<J> {
    pub(crate) job: J,
    pub(crate) when: When,
    pub(crate) id: Option<JobId>,
    pub(crate) key: Option<String>,
    pub(crate) if_taken: IfTaken,
    pub(crate) until: Until,
    pub(crate) retry: Option<Retry>,
    pub(crate) expires: Option<When>,
    pub(crate) headers: Headers,
    /// A caller waits for the end.
    pub(crate) wanted: bool,
    /// How long after the first job of its burst it is due at the latest, if it is debounced.
    pub(crate) debounced: Option<Duration>,
}

/// How long a job keeps its key. Until then the key is not free for another job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Until {
    /// Until it has started: a job may insert its successor under its key.
    #[default]
    Started,
    /// Until it has ended: it is completed, dead, cancelled or expired. While it runs, no job is inserted under its
    /// key. While it waits for its due time or for a retry, it is replaced or left like any pending job.
    Ended,
}

/// The result of an insert that may find its job in the store already.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Inserted {
    /// The id of the job that was inserted, or of the job that is there instead.
    pub id: JobId,
    /// Whether the job was inserted. If not, the store knows its id, or another job has its key.
    pub is_new: bool,
}

impl<J> NewJob<J> {
    /// Returns the job with default properties, due at once.
    pub fn new(job: J) -> NewJob<J> {
        NewJob {
            job,
            when: When::from(Duration::ZERO),
            id: None,
            key: None,
            if_taken: IfTaken::Replace,
            until: Until::Started,
            retry: None,
            expires: None,
            headers: Headers::new(),
            wanted: false,
            debounced: None,
        }
    }

    /// Sets the due time: after a [`Duration`], at an [`Instant`](std::time::Instant), at a
    /// [`SystemTime`](std::time::SystemTime), or a [`When`].
    pub fn at(self, when: impl Into<When>) -> NewJob<J> {
        NewJob { when: when.into(), ..self }
    }

    /// Sets the id. The store takes one job for each id: if it knows the id, it stores nothing, and
    /// [`Inserted::is_new`] is `false`.
    ///
    /// The store knows an id from the insert on, while the job is pending, runs or is dead, and for
    /// [`Builder::keep_dead`](crate::Builder::keep_dead) after the job completed, was cancelled or was deleted.
    #[doc(alias("unique", "idempotent", "deduplicate", "enqueue_once"))]
    pub fn id(self, id: JobId) -> NewJob<J> {
        NewJob { id: Some(id), ..self }
    }

    /// Sets the key, of 1 to 255 bytes. The job replaces the pending job of the key, which will never start;
    /// [`NewJob::if_absent`] and [`NewJob::keeping_time`] change that. If a job of the key runs and holds the
    /// key until its end ([`Until::Ended`]), the new job is not stored, and the result has the id of the
    /// running one. See [`Keyed`](crate::Keyed).
    #[doc(alias("unique", "dedupe", "deduplication"))]
    pub fn key(self, key: impl Into<String>) -> NewJob<J> {
        NewJob { key: Some(key.into()), ..self }
    }

    /// Leaves the pending job of the key as it is: the new job is then not stored, and the result has the id of
    /// the pending one.
    pub fn if_absent(self) -> NewJob<J> {
        NewJob { if_taken: IfTaken::Leave, ..self }
    }

    /// Takes the due time of the pending job that this one replaces. If the key has no pending job, the due
    /// time is that of [`NewJob::at`].
    pub fn keeping_time(self) -> NewJob<J> {
        NewJob { if_taken: IfTaken::ReplaceKeepingTime, ..self }
    }

    pub(super) fn debounced(self, at_most: Duration) -> NewJob<J> {
        NewJob { if_taken: IfTaken::Debounce, debounced: Some(at_most), ..self }
    }

    /// Sets how long the job keeps its key. The default is [`Until::Started`]. Without a key this has no
    /// effect.
    #[doc(alias("unique", "lock"))]
    pub fn unique_until(self, until: Until) -> NewJob<J> {
        NewJob { until, ..self }
    }

    /// Sets the retry policy of this job, which overrides that of its handler. It is stored with the job.
    pub fn retry(self, retry: Retry) -> NewJob<J> {
        NewJob { retry: Some(retry), ..self }
    }

    /// Sets when the job expires: after a [`Duration`] from the insert on, or at a time. No run of the job starts after
    /// that time: neither the first nor a retry. A run that has started goes on. This overrides [`Job::EXPIRES`].
    ///
    /// A job that has expired ends when it comes to its turn, as [`JobState::Expired`](crate::JobState::Expired). Until
    /// then it is pending: behind a pause or a limit too, and while no process runs its kind. The end frees its key and
    /// ends its membership in a group. [`Stats`](crate::Stats), the metrics and the history count it, and
    /// [`Event::Expired`](crate::Event::Expired) reports it. The job is kept as completed jobs of its kind are. If its
    /// claim finds that it is too old, the claim takes no token of a rate.
    ///
    /// A job with earlier runs can expire too: after a snooze or an interruption, or if its retry comes too late to its
    /// turn. A run that fails makes the job dead at once, with its error, if the retry would be due after the expiry.
    ///
    /// A reschedule keeps the time, and so does the retry of a dead job by hand. A job that is then due after its expiry
    /// ends as expired. To run it nevertheless, insert a copy ([`Client::insert_copy`]). With
    /// [`NewJob::keeping_time`] the expiry of the new job counts, if this method sets one. The time goes by the clock
    /// of due times: the clock of the machine, or of the server. If that clock is set, a job expires earlier or later.
    /// In the callback of a [group](Client::group) a delay counts from the insert of the group.
    /// The `cookbook` has an example.
    ///
    /// The time is rounded up to whole milliseconds, as a due time is. The jitter of a [`When`] is ignored. A job that
    /// would expire before its due time, or at it, is refused ([`InvalidInput::ExpiresBeforeDue`]).
    #[doc(alias("ttl", "expire", "deadline", "timeout", "max_age", "stale"))]
    pub fn expires(self, when: impl Into<When>) -> NewJob<J> {
        NewJob { expires: Some(when.into()), ..self }
    }

    /// Sets a header: a text that travels beside the payload, such as the context of a trace or a tenant. The
    /// handler reads it with [`Run::header`](crate::Run::header), and lists show it
    /// ([`JobInfo::headers`](crate::JobInfo)). A header of the same name is replaced, also one of
    /// [`Client::with_header`](crate::Client::with_header) or [`Builder::headers`](crate::Builder::headers).
    ///
    /// All headers of a job have 4 KiB at most, and 3 bytes of it are taken by each; a name has 1 to 255 bytes.
    /// A job with more is refused ([`InvalidInput::TooLong`]).
    #[doc(alias("metadata", "tag", "meta"))]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> NewJob<J> {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Returns the job.
    #[must_use]
    pub fn job(&self) -> &J {
        &self.job
    }

    /// Returns the job, and drops its properties.
    #[must_use]
    pub fn into_job(self) -> J {
        self.job
    }
}

impl<W: Into<When>, J> From<(W, J)> for NewJob<J> {
    fn from((when, job): (W, J)) -> NewJob<J> {
        NewJob::new(job).at(when)
    }
}

impl<J> fmt::Debug for NewJob<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewJob")
            .field("when", &self.when)
            .field("id", &self.id)
            .field("key", &self.key)
            .field("until", &self.until)
            .field("retry", &self.retry)
            .field("expires", &self.expires)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// The headers of every job of an insert.
pub(super) struct InsertHeaders {
    headers: Headers,
    #[cfg(feature = "tracing")]
    trace: Option<TraceContext<'static>>,
}

impl InsertHeaders {
    /// Returns all headers of a job that has these ones itself.
    pub(super) fn and(&self, own: &Headers) -> Result<Headers, StoreError> {
        let mut headers = self.headers.clone();
        headers.extend(own.clone());
        job::check_headers(&headers)?;
        #[cfg(feature = "tracing")]
        if let Some(trace) = &self.trace {
            trace.add_to(&mut headers);
        }
        Ok(headers)
    }
}

both! {
    Client:
    /// Stores a job that is due at a time: after a [`Duration`], at an
    /// [`Instant`](std::time::Instant), at a [`SystemTime`](std::time::SystemTime), or a [`When`]. Returns once
    /// the job is as durable as [`Builder::durability`](crate::Builder::durability) says.
    ///
    /// On a thread that has a transaction of its own open on the same file, the call waits for that transaction
    /// in vain, and delays all jobs meanwhile: use `insert_in` there.
    ///
    /// The first table of the `cookbook` (`docs/recipes-first-steps.md`) says which insert to take.
    ///
    /// Every time becomes a due time of the wall clock, rounded up to whole milliseconds; a time that has come
    /// already is not rounded up. With a slack or a jitter, the due time is a random one within it.
    ///
    /// # Errors
    ///
    /// The error returns the job. The store has stored nothing of it, except perhaps with
    /// [`InsertErrorKind::Unknown`].
    #[doc(alias("enqueue", "push", "add", "perform_in", "perform_at", "schedule", "delay"))]
    pub fn insert<J: Job>(
        &self,
        when: impl Into<When>,
        job: J,
    ) -> Result<JobId, InsertError<J>> = |it, caller| {
        let new = NewJob::new(job).at(when);
        it.insert_by(caller, new).await.map(|inserted| inserted.id)
    };

    /// Stores a [`NewJob`], which may have an id, a key, and a retry policy.
    ///
    /// # Errors
    ///
    /// As [`Client::insert`]. After [`InsertErrorKind::Unknown`]`(id)` it is safe to insert
    /// `refused.into_inner().id(id)`.
    pub fn insert_job<J: Job>(
        &self,
        new: NewJob<J>,
    ) -> Result<Inserted, InsertError<NewJob<J>>> = |it, caller| {
        let (inserted, new) = it.insert_new(caller, new).await;
        inserted.map_err(|kind| InsertError::new(kind, new))
    };

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
    ) -> Result<Vec<JobId>, InsertError<Vec<NewJob<J>>>> = |it, caller| {
        let jobs: Vec<NewJob<J>> = jobs.into_iter().map(Into::into).collect();
        let now = it.latest(caller).await;
        let part = if it.dispatcher.shared { JOBS_PER_PART } else { jobs.len().max(1) };
        let stored = match now.map_err(Into::into).and_then(|now| it.made(now, &jobs)) {
            Ok(made) => it.store_many(caller, made, part, request::insert_many).await,
            Err(kind) => Err(kind),
        };
        #[cfg(feature = "tracing")]
        if let (Ok(ids), false) = (&stored, it.waits_for_run()) {
            it.dispatcher.traces.inserted_batch(J::KIND, ids.len());
        }
        stored.map_err(|kind| InsertError::new(kind, jobs))
    };
}

impl Client {
    /// Returns the headers of every job that this client inserts now, on the thread that inserts.
    pub(super) fn headers(&self) -> InsertHeaders {
        let mut headers =
            self.dispatcher.capture.as_ref().map(|capture| capture()).unwrap_or_default();
        headers.extend(Headers::clone(&self.headers));
        InsertHeaders {
            headers,
            #[cfg(feature = "tracing")]
            trace: self.dispatcher.traces.capture().map(TraceContext::new),
        }
    }

    /// Returns the jobs in the form of the store.
    pub(super) fn made<J: Job>(
        &self,
        now: Now,
        jobs: &[NewJob<J>],
    ) -> Result<Vec<store::NewJob>, InsertErrorKind> {
        let (ids, headers) = (JobIds::of_this_process(), self.headers());
        let kind: Arc<str> = Arc::from(J::KIND);
        jobs.iter().map(|job| to_store(&ids, now, &kind, &headers, job)).collect()
    }

    /// Stores jobs part by part, so that the dispatcher takes other commands between the parts. Returns their ids. If
    /// another job keeps the key of a job, the id in its place is that of the other job.
    pub(super) async fn store_many(
        &self,
        caller: Caller,
        jobs: Vec<store::NewJob>,
        most: usize,
        request: impl Fn(Vec<store::NewJob>) -> Request<Vec<(usize, JobId)>>,
    ) -> Result<Vec<JobId>, InsertErrorKind> {
        let mut ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let mut stored = 0;
        let mut rest = jobs.into_iter().peekable();
        while let Some(first) = rest.peek().map(|job| job.id) {
            let part: Vec<store::NewJob> = rest.by_ref().take(most).collect();
            let many = part.len();
            // Only an answer tells which job has the key, and whether the group takes members.
            let needs_answer = |job: &store::NewJob| {
                job.key.is_some() || job::group_of(job.extra.as_deref()).is_some()
            };
            let waits = part.iter().any(needs_answer);
            let answer = self.store(caller, request(part), first, waits).await;
            let taken = answer.map_err(|kind| after(stored, kind))?.unwrap_or_default();
            for (n, by) in taken {
                if let Some(id) = ids.get_mut(stored + n) {
                    *id = by;
                }
            }
            stored += many;
        }
        Ok(ids)
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
        // No reference to the job is held while a future waits: a job need not be `Sync`.
        let job = self.latest(caller).await.map_err(Into::into).and_then(|now| {
            to_store(&JobIds::of_this_process(), now, &Arc::from(J::KIND), &self.headers(), &new)
        });
        let inserted = match job {
            Ok(job) => self.insert_stored(caller, job).await,
            Err(kind) => Err(kind),
        };
        (inserted, new)
    }

    /// Stores a job that is in the form of the store already.
    pub(super) async fn insert_stored(
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
        InsertErrorKind::Store(StoreError::Incomplete { done, error }) => {
            let done = before + done;
            return InsertErrorKind::Store(StoreError::Incomplete { done, error });
        }
        InsertErrorKind::Store(error) => error,
        InsertErrorKind::Closed => StoreError::Closed,
        other => StoreError::Other(other.to_string()),
    };
    InsertErrorKind::Store(StoreError::Incomplete { done: before, error: Box::new(error) })
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
    let due = now.resolve(new.when, draw)?;
    let id = match new.id {
        Some(id) => id,
        None => ids.next(now.millis(), Some((kind, due))),
    };
    let key = new.key.as_ref().map(|key| (key.clone(), new.if_taken));
    let holds_key = key.is_some() && new.until == Until::Ended;
    let burst = new.debounced.map(|at_most| Burst::new(now.millis(), at_most));
    let expires = expires(now, new, due)?;
    let (retry, wanted) = (new.retry, new.wanted);
    let extra =
        Extra { retry, holds_key, headers, wanted, burst, partition, expires, ..Extra::default() };
    let extra = extra.boxed();
    let (kind, callers_id) = (Arc::clone(kind), new.id.is_some());
    Ok(store::NewJob { id, kind, due, key, callers_id, extra, payload })
}

/// Returns the expiry of a job that has this due time.
fn expires<J: Job>(
    now: Now,
    new: &NewJob<J>,
    due: Millis,
) -> Result<Option<Millis>, InsertErrorKind> {
    let Some(when) = new.expires else {
        // The store may take another due time, which may be much later than this one.
        let is_due_then = new.if_taken != IfTaken::ReplaceKeepingTime;
        return Ok(J::EXPIRES.filter(|_| is_due_then).map(|after| due.plus(after)));
    };
    expires_at(now, when, new.when).map(Some)
}

/// Returns the expiry of a job that is due at `due`. An expiry that does not come later is refused.
pub(super) fn expires_at(now: Now, expires: When, due: When) -> Result<Millis, InsertErrorKind> {
    let expires = now.resolve(expires, 0)?;
    // The check does not depend on the random part of the due time.
    let latest = now.resolve(due, 0)?.plus(due.leeway());
    if expires <= latest {
        let (expires, due) = (expires.to_system(), latest.to_system());
        return Err(InvalidInput::ExpiresBeforeDue { expires, due }.into());
    }
    Ok(expires)
}

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
    /// The error returns the job. [`StoreError::RunEnded`] if the run has ended, and
    /// [`InvalidInput`] if it has too many follow-ups. Otherwise as [`Client::insert`].
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
    /// ([`Until::Ended`]). What becomes of the key and of the id is known only then. So an insert
    /// answers as if the key were free and the id new. If another job keeps the key at the end, or the store knows the
    /// id, the follow-up is dropped.
    ///
    /// Only inserts wait for the end. Every other verb of this client is done at once, and so are `insert_in` and
    /// `statement`, which belong to a transaction, and
    /// [`Schedules::run`](crate::Schedules::run). [`Client::call`] is refused
    /// ([`CallError::Refused`](crate::CallError::Refused)): its job would wait for the run that waits for it.
    #[doc(alias("follow_up_client", "insert_after", "on_success"))]
    #[must_use]
    pub fn next(&self) -> Client {
        self.client().after(Arc::clone(&self.state))
    }
}
