//! Opens a store, is told the handlers, and starts what runs the jobs.

use core::fmt;
use std::time::Duration;

use super::jobs::Jobs;
use crate::dispatch::events::{Event, OnEvent};
use crate::dispatch::handlers::{Called, Handler, Handlers};
use crate::dispatch::run::Run;
#[cfg(feature = "redis")]
use crate::store::redis::place::Server;
#[cfg(feature = "sqlite")]
use crate::store::sqlite::open::Location;
#[cfg(any(feature = "sqlite", feature = "redis"))]
use crate::values::error::OpenError;
use crate::values::info::Durability;
use crate::values::job::Job;
use crate::values::retry::{Fail, Retry};
#[cfg(feature = "redis-tls")]
use crate::values::tls::Tls;

/// Says how jobs are run, and starts them. [`Jobs::open`], `Jobs::redis` and
/// [`Jobs::memory`] make one.
#[must_use = "a builder does nothing until it starts"]
pub struct Builder {
    pub(super) source: Source,
    pub(super) handlers: Handlers,
    pub(super) durability: Durability,
    pub(super) queue: Option<String>,
    pub(super) lease: Duration,
    pub(super) in_flight: usize,
    pub(super) threads: Option<usize>,
    pub(super) retry: Retry,
    pub(super) retention: Duration,
    pub(super) patience: Duration,
    pub(super) replicas: usize,
    pub(super) on_event: Option<OnEvent>,
}

pub(super) enum Source {
    Memory,
    #[cfg(feature = "sqlite")]
    File(Location),
    #[cfg(feature = "redis")]
    Server(Box<Server>),
}

const DEFAULT_IN_FLIGHT: usize = 2048;
const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// How long a caller waits for a server that does not answer.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
const DEFAULT_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

impl Jobs {
    /// Opens the jobs on a file, which is made if it is absent. It may be the SQLite database of an
    /// application, as long as that has no `application_id` of its own: the tables of the jobs begin
    /// with `tickwheel_`.
    ///
    /// # Errors
    ///
    /// If the file cannot be made or opened, is empty, damaged, no SQLite database, another
    /// application's, or from a later version. It is left as it was then.
    #[cfg(feature = "sqlite")]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Builder, OpenError> {
        Builder::on_file(path.as_ref(), false)
    }

    /// The same as [`Jobs::open`], also if this process may only read the file. A change is refused by
    /// SQLite then. For the command `tickwheel-jobs`.
    #[doc(hidden)]
    #[cfg(feature = "sqlite")]
    pub fn open_to_look(path: impl AsRef<std::path::Path>) -> Result<Builder, OpenError> {
        Builder::on_file(path.as_ref(), true)
    }

    /// Opens the jobs on a virtual file system of SQLite's.
    #[doc(hidden)]
    #[cfg(feature = "sqlite")]
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
    /// ```
    ///
    /// each with `rediss` for TLS (feature `redis-tls`): a server; some nodes of a cluster, of which
    /// one that answers is enough; or sentinels, which know by its name where the master is, and have
    /// a login of their own.
    ///
    /// A queue is on one server at any time. In a cluster and behind sentinels that server is looked
    /// for before each connection, so calls and runs go on after a failover, as soon as there is a
    /// server that takes writes; meanwhile a call waits, at most as long as [`Builder::patience`] says.
    /// What a failover may lose is in `docs/redis.md`, and [`Builder::replicas`] makes it less.
    ///
    /// The times are those of the server's clock, whatever the clocks of the machines read. A claim is
    /// a lease ([`Builder::lease`]), which is renewed as long as the process lives.
    ///
    /// # Errors
    ///
    /// [`OpenError::Server`] if the server cannot be reached, denies access, is no Redis server, is
    /// older than 6.2, is a replica, or deletes keys when its memory is full; if no node of the cluster
    /// answers or none has the queue; or if no sentinel answers or none knows the name.
    /// [`OpenError::Config`] if the URL makes no sense: it says what is wrong, and no password.
    #[cfg(feature = "redis")]
    pub fn redis(url: impl AsRef<str>) -> Result<Builder, OpenError> {
        Builder::on_server(Server::parse(url.as_ref())?)
    }

    /// The same as [`Jobs::redis`], by TLS with other certificates than the system's: those of a private
    /// authority, or one that shows who the client is. They hold for nodes, sentinels and servers alike.
    ///
    /// # Errors
    ///
    /// Those of [`Jobs::redis`]; and [`OpenError::Config`] if the URL does not begin with `rediss`, or a
    /// certificate or the key cannot be read.
    #[cfg(feature = "redis-tls")]
    pub fn redis_with_tls(url: impl AsRef<str>, tls: Tls) -> Result<Builder, OpenError> {
        Builder::on_server(Server::parse(url.as_ref())?.with_tls(&tls)?)
    }

    /// Connects to the server of a queue, and to the other masters if that is a cluster. Returns the
    /// server's address and database, and its connection first. For the command `tickwheel-jobs`.
    #[doc(hidden)]
    #[cfg(feature = "redis")]
    pub fn redis_connections(
        url: &str,
        queue: Option<&str>,
    ) -> Result<(String, Vec<redis::Connection>), OpenError> {
        Server::parse(url)?.with_queue(queue).connect_to_all()
    }

    /// Returns jobs in memory, which are lost with the process: for tests.
    pub fn memory() -> Builder {
        Builder::new(Source::Memory)
    }
}

impl Builder {
    fn new(source: Source) -> Builder {
        Builder {
            source,
            handlers: Handlers::default(),
            durability: Durability::default(),
            queue: None,
            lease: DEFAULT_LEASE,
            in_flight: DEFAULT_IN_FLIGHT,
            threads: None,
            retry: Retry::default(),
            retention: DEFAULT_RETENTION,
            patience: DEFAULT_PATIENCE,
            replicas: 0,
            on_event: None,
        }
    }

    #[cfg(feature = "sqlite")]
    fn on_file(path: &std::path::Path, only_looks: bool) -> Result<Builder, OpenError> {
        let mut location = Location::new(path.to_owned(), None);
        location.only_looks = only_looks;
        drop(location.open()?);
        Ok(Builder::new(Source::File(location)))
    }

    #[cfg(feature = "redis")]
    fn on_server(server: Server) -> Result<Builder, OpenError> {
        drop(crate::store::redis::open::open(&server)?);
        Ok(Builder::new(Source::Server(Box::new(server))))
    }

    /// Handles the jobs of a kind, the type of the closure's first argument, on a thread of the pool.
    ///
    /// `Ok` ends the job. An error fails the run: see [`Fail`]. So does a panic, as an error.
    pub fn on<J, F>(self, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, &Run) -> Result<(), Fail> + Send + Sync + 'static,
    {
        self.add_blocking(None, handler)
    }

    /// The same as [`Builder::on`], with a policy of its own for failed runs.
    pub fn on_with<J, F>(self, retry: Retry, handler: F) -> Builder
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
        self.handlers.add(J::NAME, Handler { call: Box::new(call), retry, is_async: false });
        self
    }

    /// Handles the jobs of a kind with a future, on a tokio runtime of the caller's. With feature
    /// `tokio`.
    ///
    /// The future counts as in flight until it ends. A runtime that is shut down drops it: its job is
    /// tried again then, by the policy.
    #[cfg(feature = "tokio")]
    pub fn on_async<J, F, Fut>(self, runtime: tokio::runtime::Handle, handler: F) -> Builder
    where
        J: Job,
        F: Fn(J, Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        self.add_async(None, runtime, handler)
    }

    /// The same as [`Builder::on_async`], with a policy of its own for failed runs.
    #[cfg(feature = "tokio")]
    pub fn on_async_with<J, F, Fut>(
        self,
        retry: Retry,
        runtime: tokio::runtime::Handle,
        handler: F,
    ) -> Builder
    where
        J: Job,
        F: Fn(J, Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        self.add_async(Some(retry), runtime, handler)
    }

    #[cfg(feature = "tokio")]
    fn add_async<J, F, Fut>(
        mut self,
        retry: Option<Retry>,
        runtime: tokio::runtime::Handle,
        handler: F,
    ) -> Builder
    where
        J: Job,
        F: Fn(J, Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Fail>> + Send + 'static,
    {
        let call = move |payload: &[u8], run: Run| match J::decode(payload) {
            Ok(job) => Called::Future(runtime.clone(), Box::pin(handler(job, run))),
            Err(error) => Called::Undecodable(error),
        };
        self.handlers.add(J::NAME, Handler { call: Box::new(call), retry, is_async: true });
        self
    }

    /// Says what an answer of the store holds through: [`Durability::Synced`] unless it is said.
    pub fn durability(self, durability: Durability) -> Builder {
        Builder { durability, ..self }
    }

    /// Names the queue: each queue of a file has its own jobs, keys, schedules and runner. A name has
    /// 1 to 48 letters of ASCII, digits and `_`; upper and lower case are the same.
    pub fn queue(self, name: &str) -> Builder {
        Builder { queue: Some(name.to_owned()), ..self }
    }

    /// Says how long a claim holds, and so how long [`Jobs::shutdown`] waits for runs: 30 seconds
    /// unless it is said. On a file no other process can take a claim, so it does not have to be
    /// renewed there. On a server a claim is renewed when a third of this time has passed, and another
    /// process takes the job if that could not be done.
    pub fn lease(self, lease: Duration) -> Builder {
        Builder { lease, ..self }
    }

    /// Says how long a call waits for others: 10 seconds unless it is said. The time counts from the call
    /// on, for everything that it waits for: a server that does not answer, another program's transaction
    /// on the file, calls of other threads before it.
    ///
    /// A call that was not begun by then has done nothing, and ends with
    /// [`StoreError::Busy`](crate::StoreError::Busy) or the error of the connection. On a server a call
    /// that was sent ends with [`StoreError::Unknown`](crate::StoreError::Unknown), an insert with
    /// [`InsertErrorKind::Unknown`](crate::InsertErrorKind::Unknown); it is sent again until it is
    /// answered, also after that. On a file a commit that has begun is waited for.
    pub fn patience(self, patience: Duration) -> Builder {
        Builder { patience, ..self }
    }

    /// Says how many replicas of the server must have a change before the call returns that made it:
    /// none unless it is said. It is for jobs on a Redis server; for others, more than none is an
    /// [`OpenError::Config`] at the start.
    ///
    /// With `n`, each of these calls returns when `n` replicas have what it changed: insert, cancel, reset,
    /// revive, discard, repeat and `cancel_repeat`. An insert at [`Durability::Buffered`] waits for no
    /// answer, so for no replica. While fewer than `n` have the change, the call waits, and what it asked
    /// for is sent again, which changes nothing the second time; it ends with
    /// [`InsertErrorKind::Unknown`](crate::InsertErrorKind::Unknown) (of other calls:
    /// [`StoreError::Unknown`](crate::StoreError::Unknown)) once [`Builder::patience`] is over. A
    /// [`Jobs`] that has made such a call claims none and renews none meanwhile: a [`Builder::client`] of
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
    /// job that has not started after a second is given back. Handlers that are futures take no thread:
    /// only this limit counts for their jobs.
    pub fn in_flight(self, jobs: usize) -> Builder {
        Builder { in_flight: jobs, ..self }
    }

    /// Says how many threads handlers run on: one for each processor unless it is said.
    pub fn threads(self, threads: usize) -> Builder {
        Builder { threads: Some(threads), ..self }
    }

    /// Says how failed jobs are tried again, of kinds without a policy of their own.
    pub fn retry(self, retry: Retry) -> Builder {
        Builder { retry, ..self }
    }

    /// Says how long dead jobs are kept, and ids that callers chose are remembered: 30 days unless it
    /// is said.
    pub fn retention(self, retention: Duration) -> Builder {
        Builder { retention, ..self }
    }

    /// Calls a function with what happens to jobs.
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
