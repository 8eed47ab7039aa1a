//! Where jobs are stored: in a file, on a server, or in memory.

use super::builder::{Builder, Source};
use super::jobs::Jobs;
#[cfg(feature = "redis")]
use crate::store::redis::discovery::Server;
#[cfg(feature = "sqlite-unbundled")]
use crate::store::sqlite::open::Location;
#[cfg(any(feature = "sqlite-unbundled", feature = "redis"))]
use crate::values::error::OpenError;
#[cfg(feature = "redis-tls")]
use crate::values::tls::Tls;

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
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Builder, OpenError> {
        Builder::on_file(path.as_ref(), false)
    }

    /// Opens jobs in a new file in the system's folder for temporary files. The file is removed with its last
    /// [`Jobs`] and [`Client`](crate::Client); a program that is killed leaves it behind. For tests that need a
    /// file: [`Client::file`](crate::Client::file) returns its path.
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
    /// A node claims only the jobs that it can start soon, so the nodes share the work: one for each free thread, and
    /// as many more as its threads finish within 100 ms, at most [`Builder::max_in_flight`] (2,048 by default). It
    /// gives back a claimed job that has not started after a second (one of a batch a second after its wait). Handlers
    /// that are futures take no thread: of each such kind a node claims at most 64 jobs, or as many as
    /// `Builder::max_async_runs` says.
    ///
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
    pub fn memory() -> Builder {
        Builder::new(Source::Memory)
    }
}

impl Builder {
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
