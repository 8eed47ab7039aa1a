//! The stores that are measured: a file that is filled once and copied for each phase, or a server.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};
use std::{process, thread};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Client, Durability, Fail, Job, JobId, Jobs, Retry};

/// A job whose handler does nothing: a number, and 110 bytes of JSON in all.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Task {
    pub(crate) number: u64,
    text: String,
}

impl Job for Task {
    const KIND: &'static str = "task";
}

/// A job that fails once, or for good.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Fails {
    pub(crate) for_good: bool,
    pub(crate) text: String,
}

impl Job for Fails {
    const KIND: &'static str = "fails";
}

/// A job whose handler is a future that waits for a second.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Waits;

impl Job for Waits {
    const KIND: &'static str = "waits";
}

pub(crate) fn task(number: u64) -> Task {
    Task { number, text: "x".repeat(80) }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    Written,
    Synced,
    /// A Redis server of the program's own, which syncs every second.
    Server,
}

impl Level {
    pub(crate) fn named(name: &str) -> Option<Level> {
        [Level::Written, Level::Synced, Level::Server]
            .into_iter()
            .find(|level| level.to_string() == name)
    }

    pub(crate) fn is_file(self) -> bool {
        self != Level::Server
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Written => "written",
            Level::Synced => "synced",
            Level::Server => "server",
        })
    }
}

/// A file that was filled, and the ids of its jobs: it is copied for each phase.
pub(crate) type Filled = RefCell<Option<(PathBuf, Vec<JobId>)>>;

/// A store in a folder of its own, which is removed with it.
pub(crate) struct Place<'a> {
    pub(crate) level: Level,
    folder: PathBuf,
    server: Option<(Child, u16)>,
    filled: &'a Filled,
}

impl<'a> Place<'a> {
    pub(crate) fn new(
        dir: &Path,
        level: Level,
        filled: &'a Filled,
    ) -> Result<Place<'a>, Box<dyn Error>> {
        let folder = dir.join(format!("tickwheel-steps-{}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let mut place = Place { level, folder, server: None, filled };
        if level == Level::Server {
            place.server = Some(start_server(&place.folder)?);
        }
        Ok(place)
    }

    /// Opens the store.
    pub(crate) fn open(&self) -> Result<Builder, Box<dyn Error>> {
        let (builder, durability) = match (self.port(), self.level) {
            (Some(port), _) => {
                (Jobs::redis(format!("redis://127.0.0.1:{port}/"))?, Durability::Written)
            }
            (None, Level::Synced) => (Jobs::open(self.file())?, Durability::Synced),
            (None, _) => (Jobs::open(self.file())?, Durability::Written),
        };
        Ok(builder.durability(durability))
    }

    /// Returns the port of the server, if the store is on one.
    pub(crate) fn port(&self) -> Option<u16> {
        self.server.as_ref().map(|(_, port)| *port)
    }

    /// Returns a client that runs nothing, for what is there before the phase.
    pub(crate) fn client(&self) -> Result<Client, Box<dyn Error>> {
        Ok(self
            .open()?
            .durability(Durability::Written)
            .call_timeout(Duration::from_secs(60))
            .client()?)
    }

    /// Returns jobs with the handlers of every kind.
    pub(crate) fn handlers(&self) -> Result<Builder, Box<dyn Error>> {
        let failed = |job: Fails, run: &tickwheel_jobs::Run| match (job.for_good, run.attempt()) {
            (true, _) => Err(Fail::dead(job.text)),
            (false, 0 | 1) => Err(Fail::after(Duration::from_millis(300), job.text)),
            _ => Ok(()),
        };
        let retry = Retry::fixed(Duration::from_millis(300)).max_retries(3);
        Ok(self
            .open()?
            .handle(|_: Task, _: &tickwheel_jobs::Run| Ok(()))
            .handle_with(retry, failed))
    }

    /// Fills the store, or copies the file that was filled before.
    pub(crate) fn filled_once(
        &self,
        fill: impl FnOnce(&Client) -> Result<Vec<JobId>, Box<dyn Error>>,
    ) -> Result<Vec<JobId>, Box<dyn Error>> {
        if self.level == Level::Server {
            return fill(&self.client()?);
        }
        let mut filled = self.filled.borrow_mut();
        let (copy, ids) = match &mut *filled {
            Some(filled) => filled,
            none => {
                let ids = fill(&self.client()?)?;
                let copy = self.folder.with_extension("filled");
                fs::copy(self.file(), &copy)?;
                none.insert((copy, ids))
            }
        };
        fs::copy(copy, self.file())?;
        Ok(ids.clone())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("jobs.db")
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some((server, _)) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[expect(clippy::disallowed_methods, reason = "a server is waited for")]
fn start_server(folder: &Path) -> Result<(Child, u16), Box<dyn Error>> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "yes", "--appendfsync", "everysec", "--daemonize", "no"])
        .arg("--dir")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    for _ in 0..2000 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok((child, port));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err("redis-server does not answer".into())
}

/// Returns the time after a wait.
#[expect(clippy::disallowed_methods, reason = "jobs are filed by the wall clock")]
pub(crate) fn in_time(wait: Duration) -> SystemTime {
    SystemTime::now() + wait
}

/// Returns the beginning of an hour of the wall clock, at least this many hours from now: a store has the jobs of such
/// an hour together, so jobs of two hours would be two smaller piles.
pub(crate) fn hour_in(hours: u64) -> SystemTime {
    let now = in_time(Duration::ZERO);
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs((since.as_secs() / 3600 + 1 + hours) * 3600)
}

/// Draws numbers that look random, the same in each run.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Inserts jobs that are due at random within a time from `from` on, and returns their ids.
pub(crate) fn fill(
    client: &Client,
    jobs: usize,
    from: SystemTime,
    within: Duration,
) -> Result<Vec<JobId>, Box<dyn Error>> {
    let (mut draw, mut ids) = (Draw(88_172_645_463_325_252), Vec::with_capacity(jobs));
    let millis = within.as_millis() as u64;
    while ids.len() < jobs {
        let many = (jobs - ids.len()).min(10_000);
        let batch =
            (0..many as u64).map(|n| (from + Duration::from_millis(draw.below(millis)), task(n)));
        let batch: Vec<(SystemTime, Task)> = batch.collect();
        ids.extend(client.insert_batch(batch).map_err(|error| error.to_string())?);
    }
    Ok(ids)
}
