//! The builder of jobs: where they are stored (a file, a server, memory), and every choice: handlers, durability,
//! limits, reports and time limits of runs, and how an insert captures the context of a trace and a run resumes it.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tracing")]
use tracing::Span;

use super::jobs::Jobs;
use crate::dispatch::dispatcher_handle::Capture;
use crate::dispatch::events::{Event, OnEvent, OnRun};
use crate::dispatch::handlers::{Called, Handler, HandlerCall, Handlers};
use crate::dispatch::run::Run;
#[cfg(feature = "tracing")]
use crate::dispatch::spans::{CaptureTrace, ResumeTrace};
#[cfg(feature = "redis")]
use crate::store::redis::discovery::Server;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::open::Location;
#[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
use crate::values::error::OpenError;
use crate::values::fail_and_retry::{Fail, Retry};
use crate::values::info::Durability;
use crate::values::job::{Headers, Job};
use crate::values::limit::Limit;
use crate::values::run_end::RunReport;
#[cfg(feature = "redis-tls")]
use crate::values::tls::Tls;

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

    /// Returns the real path of the file, if the jobs are on a file: the same path as
    /// [`Client::file`](crate::Client::file). So a program can make its own tables in the file before the start.
    ///
    /// ```
    /// # use tickwheel_jobs::Jobs;
    /// let builder = Jobs::temporary()?;
    /// assert!(builder.file().is_some_and(|path| path.exists()));
    /// assert_eq!(Jobs::memory().file(), None);
    /// # Ok::<(), tickwheel_jobs::OpenError>(())
    /// ```
    #[cfg(feature = "sqlite-unbundled")]
    #[must_use]
    pub fn file(&self) -> Option<&std::path::Path> {
        match &self.source {
            Source::File(location) => Some(&location.file),
            _ => None,
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

    fn add_blocking<J: Job>(
        self,
        retry: Option<Retry>,
        handler: impl Fn(J, &Run) -> Result<(), Fail> + Send + Sync + 'static,
    ) -> Builder {
        let call = HandlerCall::one(move |job, middleware| {
            Called::Ended(middleware.call(job, |(job, run)| handler(job, &run)))
        });
        self.add::<J>(retry, false, call)
    }

    /// Adds the handler of a kind.
    pub(super) fn add<J: Job>(
        mut self,
        retry: Option<Retry>,
        is_async: bool,
        call: HandlerCall,
    ) -> Builder {
        let handler = Handler { call, retry, flow: J::FLOW, expires: J::EXPIRES, is_async };
        self.handlers.add(J::KIND, handler);
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
    /// # use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Fail, Job, Jobs, Run};
    ///
    /// struct Mailer {
    ///     from: String,
    /// }
    ///
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Mail { to: String }
    /// # impl Job for Mail { const KIND: &'static str = "mail"; }
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

    /// Sets the name of the queue: each queue of a file has its own jobs, keys, schedules and runner. A name has 1 to
    /// 48 ASCII letters, digits and `_`; upper and lower case are the same. On a server, `jobs` is the queue of a
    /// builder that names none.
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
    /// On a manual clock it also limits how long [`Client::wait`](crate::Client::wait) waits in real time while the
    /// clock stands still. While a driver is at work, the wait is a hundred times as long, but not in a handler that is a
    /// future.
    ///
    /// `Duration::MAX` waits for ever. Zero is refused at the start. [`Client::check`](crate::Client::check) has no
    /// limit.
    #[doc(alias("timeout", "patience"))]
    pub fn call_timeout(self, call_timeout: Duration) -> Builder {
        Builder { call_timeout, ..self }
    }

    /// Sets how long a shutdown waits before it cancels the runs under way
    /// ([`StopReason::Shutdown`](crate::StopReason::Shutdown)). The default is zero. The limit of the
    /// shutdown counts from its call, so it includes this time.
    pub fn shutdown_grace(self, grace: Duration) -> Builder {
        Builder { shutdown_grace: grace, ..self }
    }

    /// Sets how many replicas of the server must have a change before its call returns. The default is none.
    /// This is for jobs on a Redis server: for other jobs the start refuses a number above zero with
    /// [`OpenError::Config`].
    ///
    /// With `n`, each call that changes something returns when `n` replicas have its change. An insert at
    /// [`Durability::Buffered`] waits for no answer, so for no replica. While fewer than `n` replicas have the change,
    /// the call waits, and the process sends the change again, which has no effect the second time. Once
    /// [`Builder::call_timeout`] is over, the call returns
    /// [`InsertErrorKind::Unknown`](crate::InsertErrorKind::Unknown) (other calls:
    /// [`StoreError::Unknown`](crate::StoreError::Unknown)). While such a call waits, its [`Jobs`] claims
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

    /// Limits the number of claimed jobs: those that run, those that start soon, and those whose end is not recorded
    /// yet. After a crash the jobs that have run without a recorded end run again, so this limits their number too. The
    /// default is 2048.
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
    #[doc(alias("retention", "ttl", "cleanup", "remember_ids", "dedup_window"))]
    pub fn keep_dead(self, keep_dead: Duration) -> Builder {
        Builder { keep_dead, ..self }
    }

    /// Sets whether the store counts the inserts and the runs of this program, for
    /// [`Queue::history`](crate::Queue::history). The default is `true`. Each commit then writes a row for each
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

    /// Sets the function that is called at the start and at the end of every run: for traces, logs and counters of your
    /// own. The counters of [`Stats::kinds`](crate::Stats::kinds) need no such function. A
    /// [middleware](Builder::middleware) changes the end of a run, or does something round it.
    ///
    /// - **The start** is reported before the handler is called, on the thread that is about to call it. The
    ///   function may make every call there. Its time is part of the run, and of the run's
    ///   [time limit](Builder::time_limit).
    /// - **The end** is reported after the commit that ends the run, on the dispatcher's thread, as an
    ///   [`Event`] is: the function must be short, and calls that would wait are refused there.
    ///   The end of a run that does not count is reported when that is known: the run lost its lease, a shutdown
    ///   waited for it no longer, or the jobs stopped. The outcome is then
    ///   [`Outcome::Interrupted`](crate::Outcome::Interrupted), and the handler may still be running. If that
    ///   happens while the start is being reported, the end follows on the thread of the start.
    ///
    /// The end of a run is reported after its start, and exactly once, also at a shutdown. No end is reported if
    /// the process ends before it. A panic of the function is caught, and the run goes on. No lock is held while
    /// the function runs, so it runs on several threads at once.
    ///
    /// On a manual clock ([`Builder::manual`](crate::Builder::manual)) the end is reported on the thread that
    /// makes the commit, where the function may make any call.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// use tickwheel_jobs::{Fail, Job, Jobs};
    ///
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Push(String);
    /// # impl Job for Push { const KIND: &'static str = "push"; }
    /// let log = Arc::new(Mutex::new(Vec::new()));
    /// let lines = Arc::clone(&log);
    /// let (jobs, driver) = Jobs::memory()
    ///     .handle(|push: Push, _| Err(Fail::dead(format!("there is no user {}", push.0))))
    ///     .on_run(move |run| {
    ///         lines.lock().unwrap().push(match (run.outcome, &run.error) {
    ///             (None, _) => format!("{} begins", run.kind),
    ///             (Some(outcome), Some(error)) => format!("{} is {outcome}: {error}", run.kind),
    ///             (Some(outcome), None) => format!("{} is {outcome}", run.kind),
    ///         });
    ///     })
    ///     .manual()?;
    /// jobs.insert(Duration::ZERO, Push("ann".to_owned()))?;
    /// driver.advance(Duration::ZERO);
    /// assert_eq!(*log.lock().unwrap(), ["push begins", "push is dead: there is no user ann"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("hook", "callback", "trace", "telemetry"))]
    pub fn on_run(self, report: impl Fn(&RunReport) + Send + Sync + 'static) -> Builder {
        Builder { on_run: Some(Arc::new(report)), ..self }
    }

    /// Limits the time that a run of this kind may take, from its start on. By default there is no limit. Of two
    /// limits for one kind the last one counts.
    ///
    /// At the limit [`Run::is_cancelled`](crate::Run::is_cancelled) becomes true, and
    /// [`Run::stop_reason`](crate::Run::stop_reason) returns
    /// [`StopReason::TimeLimit`](crate::StopReason::TimeLimit). Then a grace begins, as long as
    /// [`Builder::lease`], on a file and in memory too. If the handler returns within the grace, its end counts,
    /// and [`Fail::interrupted`](crate::Fail::interrupted) is a failure.
    ///
    /// After the grace the run has failed with the error "took longer than 30s": the job is retried by its
    /// policy, or is dead. A thread cannot be stopped from outside, so the handler goes on. It keeps its slot of
    /// [`Builder::max_in_flight`] until it returns, and its end does not count. **The next run of the job may
    /// begin beside it.** If two runs of a job must not overlap, set no limit, or return when the run is
    /// cancelled.
    ///
    /// The start refuses a limit of zero, and one for a kind without a handler, with
    /// [`OpenError::Config`]. The `cookbook` has an example.
    #[doc(alias("timeout", "max_runtime", "deadline", "job_timeout"))]
    pub fn time_limit<J: Job>(mut self, limit: Duration) -> Builder {
        self.time_limits.push((J::KIND, limit));
        self
    }

    #[cfg(feature = "sqlite-unbundled")]
    fn on_file(path: &std::path::Path, only_looks: bool) -> Result<Builder, OpenError> {
        let mut location = Location::new(path.to_owned(), None);
        location.only_looks = only_looks;
        drop(location.open()?);
        Ok(Builder::new(Source::File(location)))
    }

    #[cfg(feature = "redis")]
    fn on_server(server: Server) -> Result<Builder, OpenError> {
        drop(crate::store::redis::open::open(&server, super::builder::DEFAULT_CALL_TIMEOUT)?);
        Ok(Builder::new(Source::Server(Box::new(server))))
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

impl Jobs {
    /// Opens the jobs in a file, which is created if it is absent. It may be the SQLite database of an
    /// application, as long as that has no `application_id` of its own: the tables of the jobs begin with
    /// `tickwheel_`. The tables of the application are neither read nor checked.
    ///
    /// The path is made absolute here, so a later change of the working directory has no effect. A symbolic
    /// link is followed. If the file that it leads to is absent, that file is created.
    ///
    /// # Errors
    ///
    /// If the file cannot be created or opened, is empty, damaged, no SQLite database, another application's,
    /// from a later version, or from before the first release; if another connection holds its lock for ten seconds; or
    /// if the SQLite of the program is too old. A file that is refused is left as it was.
    #[cfg(feature = "sqlite-unbundled")]
    #[doc(alias("sqlite", "file"))]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Builder, OpenError> {
        Builder::on_file(path.as_ref(), false)
    }

    /// Opens jobs in a new file in the system's folder for temporary files. The file is removed with its last
    /// [`Jobs`] and [`Client`](crate::Client); a program that is killed leaves it behind. For tests that need a
    /// file: [`Builder::file`] returns its path, and after the start [`Client::file`](crate::Client::file).
    ///
    /// # Errors
    ///
    /// [`OpenError::Io`] if the file cannot be made, and those of [`Jobs::open`].
    #[cfg(feature = "sqlite-unbundled")]
    pub fn temporary() -> Result<Builder, OpenError> {
        let mut location = Location::temporary()?;
        drop(location.open()?);
        Ok(Builder::new(Source::File(location)))
    }

    /// The same as [`Jobs::open`], but works also if this process may only read the file. SQLite then refuses
    /// every change. For the command `tickwheel-jobs`.
    #[doc(hidden)]
    #[cfg(feature = "sqlite-unbundled")]
    pub fn open_to_look(path: impl AsRef<std::path::Path>) -> Result<Builder, OpenError> {
        Builder::on_file(path.as_ref(), true)
    }

    /// Opens the jobs on a virtual file system of SQLite's.
    #[doc(hidden)]
    #[cfg(feature = "sqlite-unbundled")]
    pub fn open_with_vfs(
        path: impl AsRef<std::path::Path>,
        vfs: &str,
    ) -> Result<Builder, OpenError> {
        let (path, vfs) = (path.as_ref().to_owned(), Some(vfs.to_owned()));
        Ok(Builder::new(Source::File(Location::new(path, vfs))))
    }

    /// Opens the jobs on a Redis server, which several machines share: each of them may run jobs. With
    /// feature `redis`. The URL is one of
    ///
    /// ```text
    /// redis://[user][:password@]host[:port][/database]
    /// redis-cluster://[user][:password@]host[:port][,host[:port]..]
    /// redis-sentinel://[user][:password@]host[:port][,host[:port]..][/database]?master=NAME
    ///                  [&sentinel_user=NAME][&sentinel_password=PASSWORD]
    /// unix:///path[?db=NUMBER]
    /// ```
    ///
    /// each with `rediss` in the place of `redis` for TLS (feature `redis-tls`). The first is one server. The
    /// second lists nodes of a cluster; it is enough if one of them answers. The third lists sentinels, which
    /// know the address of the master by its name and have a login of their own.
    ///
    /// A queue is on one server at any time. In a cluster and behind sentinels, that server is looked up before
    /// each connection. So calls and runs go on after a failover, as soon as a server takes writes. Meanwhile a
    /// call waits, for at most [`Builder::call_timeout`]. `docs/redis.md` says what a failover may lose, and
    /// [`Builder::replicas`] reduces it.
    ///
    /// A node claims only the jobs that it can start soon, so the nodes share the work: see [`Builder::max_in_flight`].
    /// Due times are times of the server's clock; the clocks of the machines have no effect. A claim is a lease
    /// ([`Builder::lease`]), which the process renews as long as it lives.
    ///
    /// # Errors
    ///
    /// [`OpenError::Server`] if the server cannot be reached, denies access, is no Redis server, is
    /// older than 6.2, is a replica, or deletes keys when its memory is full; if no node of the cluster
    /// answers or none has the queue; or if no sentinel answers or none knows the name.
    /// [`OpenError::Config`] if the URL is not valid: the text says what is wrong, and contains no password.
    #[cfg(feature = "redis")]
    #[doc(alias("valkey", "server", "cluster", "sentinel"))]
    pub fn redis(url: impl AsRef<str>) -> Result<Builder, OpenError> {
        Builder::on_server(Server::parse(url.as_ref())?)
    }

    /// The same as [`Jobs::redis`], over TLS with other certificates than the system's: those of a private
    /// authority, or a client certificate. They hold for nodes, sentinels and servers alike.
    ///
    /// # Errors
    ///
    /// Those of [`Jobs::redis`]; and [`OpenError::Config`] if the URL does not begin with `rediss`, or a
    /// certificate or the key cannot be read.
    #[cfg(feature = "redis-tls")]
    pub fn redis_with_tls(url: impl AsRef<str>, tls: Tls) -> Result<Builder, OpenError> {
        Builder::on_server(Server::parse(url.as_ref())?.with_tls(&tls)?)
    }

    /// Connects to the server of a queue, and to the other masters if that is a cluster. Returns the server's
    /// address and database, and the connections, that of the queue's server first. For the command
    /// `tickwheel-jobs`.
    #[doc(hidden)]
    #[cfg(feature = "redis")]
    pub fn redis_connections(
        url: &str,
        queue: Option<&str>,
    ) -> Result<(String, Vec<redis::Connection>), OpenError> {
        Server::parse(url)?.with_queue(queue).connect_to_all()
    }

    /// Returns the builder of jobs in memory, which are lost with the process: for tests.
    #[doc(alias("in_memory", "test"))]
    pub fn memory() -> Builder {
        Builder::new(Source::Memory)
    }
}

#[cfg(feature = "tracing")]
impl Builder {
    /// Sets how the jobs carry the context of a trace from their insert to their runs. With feature `tracing`.
    ///
    /// - **`capture`** is called on the thread that inserts, once for each call, also of a batch, and returns the
    ///   context of the current trace as text: a `traceparent`, and after a line break perhaps a `tracestate`. The
    ///   text travels in the job's headers of these two names. Nothing is captured if it returns `None`. A job that
    ///   has a header `traceparent` already, by [`NewJob::header`](crate::NewJob::header) for example, keeps it.
    ///   If the headers of the job leave no room for the text, it is left out.
    /// - **`resume`** is called at the start of each run of a job that has such headers, before its handler, with the
    ///   span of the run and the same text. It links the span to the context.
    ///
    /// A run may come days after its insert, so its span is the root of a trace of its own, with a link to the other
    /// trace. The headers are stored with the job, so the link survives a crash, and each retry has it. A handler
    /// that inserts a job captures the context of its own run.
    ///
    /// Every process sets this for itself: a [`client`](Builder::client) needs `capture` only, and its `resume` may
    /// do nothing. Occurrences of a schedule carry no context, because the dispatcher inserts them.
    ///
    /// A panic of either function is caught: the job is inserted without a context, or its run goes on without a
    /// link.
    ///
    /// The page `docs/traces.md` has the two functions for OpenTelemetry, and the spans and events of the feature.
    #[doc(alias("opentelemetry", "otel", "traceparent", "propagation", "span"))]
    pub fn trace_context(
        self,
        capture: impl Fn() -> Option<String> + Send + Sync + 'static,
        resume: impl Fn(&Span, &str) + Send + Sync + 'static,
    ) -> Builder {
        Builder { trace_context: Some((Arc::new(capture), Arc::new(resume))), ..self }
    }
}
