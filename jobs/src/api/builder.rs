//! The builder of jobs: handlers, durability, limits.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::dispatch::dispatcher_handle::Capture;
use crate::dispatch::events::{Event, OnEvent};
use crate::dispatch::handlers::{Call, Called, Handler, Handlers};
use crate::dispatch::reports::OnRun;
use crate::dispatch::run::Run;
#[cfg(feature = "tracing")]
use crate::dispatch::traces::{CaptureTrace, ResumeTrace};
#[cfg(feature = "redis")]
use crate::store::redis::discovery::Server;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::open::Location;
use crate::values::fail::Fail;
use crate::values::headers::Headers;
use crate::values::info::Durability;
use crate::values::job::Job;
use crate::values::limit::Limit;
use crate::values::retry::Retry;

/// Configures how jobs run, and starts them. [`Jobs::open`](crate::Jobs::open), `Jobs::redis` and
/// [`Jobs::memory`](crate::Jobs::memory) return one.
#[must_use = "a builder does nothing until it starts"]
pub struct Builder {
    pub(super) source: Source,
    pub(super) handlers: Handlers,
    pub(super) durability: Durability,
    pub(super) queue: Option<String>,
    pub(super) lease: Duration,
    pub(super) max_in_flight: usize,
    pub(super) max_async_runs: usize,
    pub(super) threads: Option<usize>,
    pub(super) retry: Retry,
    pub(super) keep_dead: Duration,
    pub(super) call_timeout: Duration,
    pub(super) shutdown_grace: Duration,
    pub(super) replicas: usize,
    pub(super) on_event: Option<OnEvent>,
    pub(super) capture: Option<Capture>,
    #[cfg(feature = "tracing")]
    pub(super) trace_context: Option<(CaptureTrace, ResumeTrace)>,
    pub(super) on_run: Option<OnRun>,
    pub(super) time_limits: Vec<(&'static str, Duration)>,
    pub(super) limits: Vec<(&'static str, Limit)>,
    pub(super) history: bool,
}

pub(super) enum Source {
    Memory,
    #[cfg(feature = "sqlite-unbundled")]
    File(Location),
    #[cfg(feature = "redis")]
    Server(Box<Server>),
}

const DEFAULT_IN_FLIGHT: usize = 2048;
/// For each kind.
const DEFAULT_ASYNC_RUNS: usize = 64;
const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// The default of [`Builder::call_timeout`].
pub(super) const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_KEEP_DEAD: Duration = Duration::from_secs(30 * 24 * 3600);

impl Builder {
    pub(super) fn new(source: Source) -> Builder {
        Builder {
            source,
            handlers: Handlers::default(),
            durability: Durability::default(),
            queue: None,
            lease: DEFAULT_LEASE,
            max_in_flight: DEFAULT_IN_FLIGHT,
            max_async_runs: DEFAULT_ASYNC_RUNS,
            threads: None,
            retry: Retry::default(),
            keep_dead: DEFAULT_KEEP_DEAD,
            call_timeout: DEFAULT_CALL_TIMEOUT,
            shutdown_grace: Duration::ZERO,
            replicas: 0,
            on_event: None,
            capture: None,
            #[cfg(feature = "tracing")]
            trace_context: None,
            on_run: None,
            time_limits: Vec::new(),
            limits: Vec::new(),
            history: true,
        }
    }

    /// Sets the handler of a kind, which is the type of the closure's first argument. The handler runs on a
    /// thread of the pool.
    ///
    /// `Ok` completes the job. An error or a panic fails the run: see [`Fail`].
    #[doc(alias("on", "register", "worker", "process", "consume", "perform"))]
    pub fn handle<J, F>(self, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, &Run) -> Result<(), Fail> + Send + Sync + 'static,
    {
        self.add_blocking(None, handler)
    }

    /// The same as [`Builder::handle`], with a retry policy for this kind.
    pub fn handle_with<J, F>(self, retry: Retry, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, &Run) -> Result<(), Fail> + Send + Sync + 'static,
    {
        self.add_blocking(Some(retry), handler)
    }

    fn add_blocking<J, F>(mut self, retry: Option<Retry>, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, &Run) -> Result<(), Fail> + Send + Sync + 'static,
    {
        let call = move |payload: &[u8], run: Run| match J::decode(payload) {
            Ok(job) => Called::Ended(handler(job, &run)),
            Err(error) => Called::Undecodable(error),
        };
        let (call, flow) = (Call::One(Box::new(call)), J::FLOW);
        self.handlers.add(J::KIND, Handler { call, retry, flow, is_async: false });
        self
    }

    /// Gives all handlers a value that they share: a pool of connections, a client, a mailer. A handler gets
    /// the value by its type, with [`Run::state`](crate::Run::state). There is one value of each type: the
    /// start refuses a second one. Put two pools of one type into two types of your own.
    ///
    /// A closure may capture a value instead, which the compiler checks: an `Arc`, cloned once for each
    /// handler, and for a future once more for each run. Shared state needs no clone, and lets a handler be a
    /// named function, as with axum's `State` or apalis' `Data`. Its price: if a value was not given, only the
    /// first run that asks for it finds that out, and fails.
    ///
    /// The value is dropped when the jobs have ended and no run has it any more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Fail, Job, Jobs, Run};
    ///
    /// struct Mailer {
    ///     from: String,
    /// }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mail {
    ///     to: String,
    /// }
    /// impl Job for Mail {
    ///     const KIND: &'static str = "mail";
    /// }
    ///
    /// fn send(mail: Mail, run: &Run) -> Result<(), Fail> {
    ///     let mailer: &Mailer = run.state()?;
    ///     println!("from {} to {}", mailer.from, mail.to);
    ///     Ok(())
    /// }
    ///
    /// let mailer = Mailer { from: "shop@example.org".to_owned() };
    /// let (jobs, driver) = Jobs::memory().state(mailer).handle(send).manual()?;
    /// jobs.insert(Duration::ZERO, Mail { to: "ann".to_owned() })?;
    /// assert_eq!(driver.advance(Duration::ZERO), 1);
    /// assert_eq!(jobs.stats().completed, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("data", "extension", "context", "with_state"))]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Builder {
        self.handlers.add_state(value);
        self
    }

    /// Sets what survives once a call has returned. The default is [`Durability::Synced`].
    #[doc(alias("fsync", "sync", "synchronous"))]
    pub fn durability(self, durability: Durability) -> Builder {
        Builder { durability, ..self }
    }

    /// Sets the name of the queue: each queue of a file has its own jobs, keys, schedules and runner. A name
    /// has 1 to 48 ASCII letters, digits and `_`; upper and lower case are the same. On a server, `jobs` is the queue of
    /// a builder that names none.
    #[doc(alias("namespace", "name", "prefix"))]
    pub fn queue(self, name: &str) -> Builder {
        Builder { queue: Some(name.to_owned()), ..self }
    }

    /// Sets how long a claim holds. The default is 30 seconds. On a file no other process can take a claim, so
    /// claims need no renewal there. On a server the process renews a claim when a third of this time has
    /// passed; if it cannot do so, another process takes the job.
    #[doc(alias("visibility_timeout", "lock_duration", "heartbeat"))]
    pub fn lease(self, lease: Duration) -> Builder {
        Builder { lease, ..self }
    }

    /// Sets the limit of each call. The default is 10 seconds. The limit counts from the call on, and covers
    /// every wait: for a server that does not answer, for another program's transaction on the file, for calls
    /// of other threads before it. A start has the same limit for its wait for other connections to the file.
    /// [`Jobs::open`](crate::Jobs::open) comes before this choice, and waits for 10 seconds at most.
    ///
    /// If a call has not begun in the store by then, it has done nothing, and returns
    /// [`StoreError::Busy`](crate::StoreError::Busy) or the error of the connection. On a server a call that
    /// was sent returns [`StoreError::Unknown`](crate::StoreError::Unknown), an insert
    /// [`InsertErrorKind::Unknown`](crate::InsertErrorKind::Unknown); the process sends it again until the
    /// server answers, also after that. On a file the call waits for a commit that has begun.
    ///
    /// `Duration::MAX` waits for ever. Zero is refused at the start. [`Client::check`](crate::Client::check) has no
    /// limit.
    #[doc(alias("timeout", "patience"))]
    pub fn call_timeout(self, call_timeout: Duration) -> Builder {
        Builder { call_timeout, ..self }
    }

    /// Sets how long a shutdown waits before it cancels the runs under way
    /// ([`Cancellation::Shutdown`](crate::Cancellation::Shutdown)). The default is zero. The limit of the
    /// shutdown counts from its call, so it includes this time.
    pub fn shutdown_grace(self, grace: Duration) -> Builder {
        Builder { shutdown_grace: grace, ..self }
    }

    /// Sets how many replicas of the server must have a change before its call returns. The default is none.
    /// This is for jobs on a Redis server: for other jobs the start refuses a number above zero with
    /// [`OpenError::Config`](crate::OpenError::Config).
    ///
    /// With `n`, each call that changes something returns when `n` replicas have its change. An insert at
    /// [`Durability::Buffered`] waits for no answer, so for no replica. While fewer than `n` replicas have the change,
    /// the call waits, and the process sends the change again, which has no effect the second time. Once
    /// [`Builder::call_timeout`] is over, the call returns
    /// [`InsertErrorKind::Unknown`](crate::InsertErrorKind::Unknown) (other calls:
    /// [`StoreError::Unknown`](crate::StoreError::Unknown)). While such a call waits, its [`Jobs`](crate::Jobs) claims
    /// no jobs and renews no leases: a separate [`Builder::client`] for the inserts keeps the runs apart from them.
    ///
    /// Claims, renewals and ends of runs do not wait. If a failover loses one of those, the job runs again; no
    /// job is lost. This is not consensus: a failover to a replica that is not one of the `n` loses the change
    /// all the same. If `n` is the number of replicas, every replica has the change, but one replica that is
    /// away makes every call wait. If `n` is smaller by one, one replica may be away; a failover loses the
    /// change if it promotes the very replica that lacked it. A number above that of the replicas is not
    /// refused, because replicas come and go: each call waits then.
    ///
    /// Such a call takes longer, by the way from the server to the replicas and back. In a process that runs
    /// jobs, the claim that follows costs one more round trip. Without replicas there is no cost.
    pub fn replicas(self, n: usize) -> Builder {
        Builder { replicas: n, ..self }
    }

    /// Limits the number of claimed jobs: those that run, those that start soon, and those whose end is not recorded yet.
    /// After a crash the jobs that have run without a recorded end run again, so this limits their number too. The default
    /// is 2048.
    ///
    /// On a file, jobs are claimed up to 50 ms before they are due, even if no thread is free. On a server
    /// other processes share the work, so a process claims only the jobs that its threads can start soon: one
    /// for each free thread, and as many more as its threads finish within 100 ms at the rate of the latest
    /// runs. It gives back a claimed job that has not started after a second (one of a batch a second after its
    /// wait). Handlers that are futures take no
    /// thread: at most 64 jobs of each such kind are claimed (`Builder::max_async_runs`).
    #[doc(alias("in_flight", "prefetch", "concurrency"))]
    pub fn max_in_flight(self, jobs: usize) -> Builder {
        Builder { max_in_flight: jobs, ..self }
    }

    /// Sets the number of threads for handlers. The default is one for each processor.
    #[doc(alias("concurrency", "workers", "parallelism", "pool"))]
    pub fn threads(self, threads: usize) -> Builder {
        Builder { threads: Some(threads), ..self }
    }

    /// Sets the retry policy of kinds without a policy of their own. The default is [`Retry::default`].
    #[doc(alias("max_attempts", "backoff"))]
    pub fn retry(self, retry: Retry) -> Builder {
        Builder { retry, ..self }
    }

    /// Sets how long the store keeps dead jobs and groups that have ended, and remembers ids that callers chose. The
    /// default is 30 days. A job that is dead already keeps its time, and its group is kept as long as it.
    #[doc(alias("retention", "ttl", "cleanup"))]
    pub fn keep_dead(self, keep_dead: Duration) -> Builder {
        Builder { keep_dead, ..self }
    }

    /// Sets whether the store counts the inserts and the runs of this program, for
    /// [`Client::history`](crate::Client::history). The default is `true`. Each commit then writes a row for each
    /// kind that it has jobs of.
    ///
    /// With `false` the history lacks the inserts, the cancels and the runs of this program, and has those of
    /// others.
    #[doc(alias("metrics", "statistics"))]
    pub fn history(self, history: bool) -> Builder {
        Builder { history, ..self }
    }

    /// Sets the function that is called with each [`Event`].
    #[doc(alias("hook", "callback", "listener", "subscribe"))]
    pub fn on_event(self, handler: impl Fn(Event) + Send + Sync + 'static) -> Builder {
        Builder { on_event: Some(Box::new(handler)), ..self }
    }

    /// Sets the function whose headers every insert gets, for example the context of the current trace: see
    /// [`NewJob::header`](crate::NewJob::header). It is called on the thread that inserts, once for each call,
    /// also of a batch. Occurrences of a schedule get none, because the dispatcher inserts them.
    ///
    /// A panic of the function is a panic of the insert, which then stores nothing.
    #[doc(alias("metadata", "trace", "context"))]
    pub fn headers<I, F>(self, capture: F) -> Builder
    where
        I: IntoIterator<Item = (String, String)>,
        F: Fn() -> I + Send + Sync + 'static,
    {
        let capture = move || capture().into_iter().collect::<Headers>();
        Builder { capture: Some(Arc::new(capture)), ..self }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("kinds", &self.handlers.kinds())
            .field("durability", &self.durability)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
