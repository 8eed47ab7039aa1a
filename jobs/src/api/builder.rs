//! The choices of a program: handlers, durability, limits.

use core::fmt;
use std::time::Duration;

use crate::dispatch::events::{Event, OnEvent};
use crate::dispatch::handlers::{Called, Handler, Handlers};
use crate::dispatch::run::Run;
#[cfg(feature = "redis")]
use crate::store::redis::discovery::Server;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::open::Location;
use crate::values::fail::Fail;
use crate::values::info::Durability;
use crate::values::job::Job;
use crate::values::retry::Retry;

/// Says how jobs are run, and starts them. [`Jobs::open`](crate::Jobs::open), `Jobs::redis` and
/// [`Jobs::memory`](crate::Jobs::memory) make one.
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
}

pub(super) enum Source {
    Memory,
    #[cfg(feature = "sqlite-unbundled")]
    File(Location),
    #[cfg(feature = "redis")]
    Server(Box<Server>),
}

const DEFAULT_IN_FLIGHT: usize = 2048;
/// Of a kind.
const DEFAULT_ASYNC_RUNS: usize = 64;
const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// How long a caller waits for a server that does not answer.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
const DEFAULT_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

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
            keep_dead: DEFAULT_RETENTION,
            call_timeout: DEFAULT_PATIENCE,
            shutdown_grace: Duration::ZERO,
            replicas: 0,
            on_event: None,
        }
    }

    /// Handles the jobs of a kind, the type of the closure's first argument, on a thread of the pool.
    ///
    /// `Ok` ends the job. An error fails the run: see [`Fail`]. So does a panic, as an error.
    #[doc(alias("on", "register", "worker", "process", "consume", "perform"))]
    pub fn handle<J, F>(self, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, &Run) -> Result<(), Fail> + Send + Sync + 'static,
    {
        self.add_blocking(None, handler)
    }

    /// The same as [`Builder::handle`], with a policy of its own for failed runs.
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
        self.handlers.add(J::KIND, Handler { call: Box::new(call), retry, is_async: false });
        self
    }

    /// Gives the handlers a value that they share: a pool of connections, a client, a mailer. Each of them gets
    /// it with [`Run::state`](crate::Run::state), by its type, of which there can be one. A second value of a
    /// type is refused at the start. Two pools of one type go into two types of the program's own.
    ///
    /// A closure may capture a value instead, which the compiler checks: an `Arc`, cloned once for each handler,
    /// and for a future once more for each run. Shared state needs no clone, and lets a handler be a named
    /// function, as with axum's `State` or apalis' `Data`; the price is that a value which was not given is
    /// noticed by the first run that asks for it, which fails.
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

    /// Says what an answer of the store holds through: [`Durability::Synced`] unless it is said.
    #[doc(alias("fsync", "sync", "synchronous"))]
    pub fn durability(self, durability: Durability) -> Builder {
        Builder { durability, ..self }
    }

    /// Names the queue: each queue of a file has its own jobs, keys, schedules and runner. A name has
    /// 1 to 48 letters of ASCII, digits and `_`; upper and lower case are the same.
    #[doc(alias("namespace", "name", "prefix"))]
    pub fn queue(self, name: &str) -> Builder {
        Builder { queue: Some(name.to_owned()), ..self }
    }

    /// Says how long a claim holds: 30 seconds unless it is said. On a file no other process can take a claim, so it does not have to be
    /// renewed there. On a server a claim is renewed when a third of this time has passed, and another
    /// process takes the job if that could not be done.
    #[doc(alias("visibility_timeout", "lock_duration", "heartbeat"))]
    pub fn lease(self, lease: Duration) -> Builder {
        Builder { lease, ..self }
    }

    /// Says how long a call waits for others: 10 seconds unless it is said. The time counts from the call
    /// on, for everything that it waits for: a server that does not answer, another program's transaction
    /// on the file, calls of other threads before it. A start waits no longer for other connections to the
    /// file. [`Jobs::open`](crate::Jobs::open) comes before this choice, and waits for 10 seconds at most.
    ///
    /// A call that was not begun by then has done nothing, and ends with
    /// [`StoreError::Busy`](crate::StoreError::Busy) or the error of the connection. On a server a call
    /// that was sent ends with [`StoreError::Unknown`](crate::StoreError::Unknown), an insert with
    /// [`InsertErrorKind::Unknown`](crate::InsertErrorKind::Unknown); it is sent again until it is
    /// answered, also after that. On a file a commit that has begun is waited for.
    #[doc(alias("timeout", "patience"))]
    pub fn call_timeout(self, call_timeout: Duration) -> Builder {
        Builder { call_timeout, ..self }
    }

    /// Says for how long a shutdown lets the runs under way be before it tells them
    /// ([`Cancellation::Shutdown`](crate::Cancellation::Shutdown)): not at all unless it is said. The limit of
    /// the shutdown counts from its call, so it includes this time.
    pub fn shutdown_grace(self, grace: Duration) -> Builder {
        Builder { shutdown_grace: grace, ..self }
    }

    /// Says how many replicas of the server must have a change before the call returns that made it:
    /// none unless it is said. It is for jobs on a Redis server; for others, more than none is an
    /// [`OpenError::Config`](crate::OpenError::Config) at the start.
    ///
    /// With `n`, each of these calls returns when `n` replicas have what it changed: insert, cancel, reschedule,
    /// retry, delete, schedule and unschedule. An insert at [`Durability::Buffered`] waits for no
    /// answer, so for no replica. While fewer than `n` have the change, the call waits, and what it asked
    /// for is sent again, which changes nothing the second time; it ends with
    /// [`InsertErrorKind::Unknown`](crate::InsertErrorKind::Unknown) (of other calls:
    /// [`StoreError::Unknown`](crate::StoreError::Unknown)) once [`Builder::call_timeout`] is over. A
    /// [`Jobs`](crate::Jobs) that has made such a call claims none and renews none meanwhile: a [`Builder::client`] of
    /// its own for the inserts keeps the runs apart from them.
    ///
    /// Claims, renewals and ends do not wait. A failover that forgets one of those runs a job again,
    /// and loses none. Nor is it consensus: a failover that promotes a replica which is not one of the
    /// `n` loses the change all the same. If `n` is the number of replicas, every one of them has the
    /// change, and one replica that is away keeps every call waiting. If `n` is smaller by one, one replica
    /// may be away; a failover loses the change if it promotes the very one that lacked it. A number larger
    /// than that of the replicas is not refused, because replicas come and go: each call waits then.
    ///
    /// It costs such a call the way from the server to the replicas and back, and a process that runs
    /// jobs a round trip more for the claim that follows. Without it, nothing.
    pub fn replicas(self, n: usize) -> Builder {
        Builder { replicas: n, ..self }
    }

    /// Limits how many jobs are claimed at once: those that run, and those that are about to. 2048 unless
    /// it is said.
    ///
    /// On a file jobs are claimed from 50 ms before their time on, whether a thread is free or not. On a
    /// server other processes share the work, so a process claims what its threads can start: a job for
    /// each free thread, and as many more as they end in 100 ms at the rate of the latest runs. A claimed
    /// job that has not started after a second is given back. Handlers that are futures take no thread: of
    /// each such kind at most 64 jobs are claimed (`Builder::max_async_runs`).
    #[doc(alias("in_flight", "prefetch", "concurrency"))]
    pub fn max_in_flight(self, jobs: usize) -> Builder {
        Builder { max_in_flight: jobs, ..self }
    }

    /// Says how many threads handlers run on: one for each processor unless it is said.
    #[doc(alias("concurrency", "workers", "parallelism", "pool"))]
    pub fn threads(self, threads: usize) -> Builder {
        Builder { threads: Some(threads), ..self }
    }

    /// Says how failed jobs are tried again, of kinds without a policy of their own.
    #[doc(alias("max_attempts", "backoff"))]
    pub fn retry(self, retry: Retry) -> Builder {
        Builder { retry, ..self }
    }

    /// Says how long dead jobs are kept, and ids that callers chose are remembered: 30 days unless it
    /// is said.
    #[doc(alias("retention", "ttl", "cleanup"))]
    pub fn keep_dead(self, keep_dead: Duration) -> Builder {
        Builder { keep_dead, ..self }
    }

    /// Calls a function with what happens to jobs.
    #[doc(alias("hook", "callback", "listener", "subscribe"))]
    pub fn on_event(self, handler: impl Fn(Event) + Send + Sync + 'static) -> Builder {
        Builder { on_event: Some(Box::new(handler)), ..self }
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
