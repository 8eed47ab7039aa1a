//! A job to insert, with its due time, id, key, retry policy and headers.
//!
//! Ground rules:
//!
//! - The verbs that insert one job take a time and the job. All other properties of a job are set here, so they
//!   combine, also in a batch and in a transaction.
//! - Nothing is checked here: the verb that inserts the job checks it, and returns it if it is refused.

use core::fmt;
use std::time::Duration;

use tickwheel::When;

use crate::store::IfTaken;
use crate::values::headers::Headers;
use crate::values::id::JobId;
use crate::values::retry::Retry;

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
    /// Until it has ended: it is completed, dead or cancelled. While it runs, no job is inserted under its key.
    /// While it waits, for its due time or for a retry, it is replaced or left like any pending job.
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

    /// Sets the id, so that the job is stored once: see
    /// [`Client::insert_with_id`](crate::Client::insert_with_id).
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

    /// Sets a header: a text that travels beside the payload, such as the context of a trace or a tenant. The
    /// handler reads it with [`Run::header`](crate::Run::header), and lists show it
    /// ([`JobInfo::headers`](crate::JobInfo)). A header of the same name is replaced, also one of
    /// [`Client::with_header`](crate::Client::with_header) or [`Builder::headers`](crate::Builder::headers).
    ///
    /// All headers of a job have 4 KiB at most, and 3 bytes of it are taken by each; a name has 1 to 255 bytes.
    /// A job with more is refused ([`StoreError::TooLong`](crate::StoreError::TooLong)).
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
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
