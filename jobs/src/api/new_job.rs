//! A job to insert, and all that is said of it: its time, its id, its key, how it is tried again.
//!
//! Ground rules:
//!
//! - The verbs that insert one job take a time and the job. Whatever else is said of a job is said here, so
//!   the parts combine, and a batch or a transaction takes them too.
//! - Nothing is checked here: the verb that inserts the job checks it, and gives it back.

use core::fmt;
use std::time::Duration;

use tickwheel::When;

use crate::store::IfTaken;
use crate::values::id::JobId;
use crate::values::retry::Retry;

/// A job to insert, and all that is said of it. It is due at once, has an id of its own and no key, and
/// is tried again as its handler says; unless a method says otherwise.
///
/// A pair of a time and a job is one too: `(when, job)` is `NewJob::new(job).at(when)`.
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
}

/// How long a job has its key. While it has it, the key is not free for another job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Until {
    /// Until it has started: a job may insert its successor under its key.
    #[default]
    Started,
    /// Until it has ended: it is done, dead or cancelled. While it runs, nothing is inserted under its
    /// key. While it waits, for its time or for its next try, it is replaced or left like any pending job.
    Ended,
}

/// What an insert did that may find its job there already.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Inserted {
    /// The id of the job: of the one that was inserted, or of the one that is there instead.
    pub id: JobId,
    /// The job was inserted. If not, nothing was: the store knows its id, or another job has its key.
    pub is_new: bool,
}

impl<J> NewJob<J> {
    /// Returns the job, due at once.
    pub fn new(job: J) -> NewJob<J> {
        NewJob {
            job,
            when: When::from(Duration::ZERO),
            id: None,
            key: None,
            if_taken: IfTaken::Replace,
            until: Until::Started,
            retry: None,
        }
    }

    /// Sets when the job is to run: after a [`Duration`], at an [`Instant`](std::time::Instant), at a
    /// [`SystemTime`](std::time::SystemTime), or a [`When`].
    pub fn at(self, when: impl Into<When>) -> NewJob<J> {
        NewJob { when: when.into(), ..self }
    }

    /// Sets the id, so that the job is stored once: see
    /// [`Client::insert_with_id`](crate::Client::insert_with_id).
    pub fn id(self, id: JobId) -> NewJob<J> {
        NewJob { id: Some(id), ..self }
    }

    /// Sets the key, of 1 to 255 bytes. The job replaces the pending job of the key, which will never
    /// start; [`NewJob::if_absent`] and [`NewJob::keeping_time`] say otherwise. If the key's job runs and
    /// holds it until its end ([`Until::Ended`]), this one is not stored, and the answer has the id of the
    /// one that runs. See [`Keyed`](crate::Keyed).
    #[doc(alias("unique", "dedupe", "deduplication"))]
    pub fn key(self, key: impl Into<String>) -> NewJob<J> {
        NewJob { key: Some(key.into()), ..self }
    }

    /// Leaves the pending job of the key as it is: this one is not stored then, and the answer has the id
    /// of the one that is there.
    pub fn if_absent(self) -> NewJob<J> {
        NewJob { if_taken: IfTaken::Leave, ..self }
    }

    /// Takes the time of the pending job that this one replaces. If the key has none, the time is that of
    /// [`NewJob::at`].
    pub fn keeping_time(self) -> NewJob<J> {
        NewJob { if_taken: IfTaken::ReplaceKeepingTime, ..self }
    }

    /// Sets how long the job has its key: until it has started, unless this says otherwise. Without a key
    /// it says nothing.
    #[doc(alias("unique", "lock"))]
    pub fn unique_until(self, until: Until) -> NewJob<J> {
        NewJob { until, ..self }
    }

    /// Sets how this job is tried again, whatever its handler was registered with. It is stored with the
    /// job.
    pub fn retry(self, retry: Retry) -> NewJob<J> {
        NewJob { retry: Some(retry), ..self }
    }

    /// Returns the job itself.
    #[must_use]
    pub fn job(&self) -> &J {
        &self.job
    }

    /// Returns the job itself, and drops what was said of it.
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
            .finish_non_exhaustive()
    }
}
