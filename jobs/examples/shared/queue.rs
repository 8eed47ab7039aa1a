//! A queue on a Redis server: its name, its lease, its clock, and the server itself if the example has
//! started it.

use std::error::Error;
use std::path::Path;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Connection;
use tickwheel_jobs::{Builder, Jobs};

use super::server::Server;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) struct Queue {
    url: String,
    name: String,
    lease: Duration,
    skew: i64,
    /// None if the server was there before.
    server: Option<Mutex<Server>>,
}

/// How often the clock of the server is asked for. The fastest answer says most.
const CLOCK_LOOKS: usize = 50;

impl Queue {
    /// Makes up a queue for this process: on the server with this URL, or on one that is started here.
    pub(crate) fn new(
        example: &str,
        url: Option<&str>,
        lease: Duration,
        folder: &Path,
    ) -> Result<Queue> {
        let server = match url {
            Some(_) => None,
            None => Some(Server::start(folder)?),
        };
        let url = match (&server, url) {
            (Some(server), _) => server.url(),
            (None, url) => url.unwrap_or_default().to_owned(),
        };
        let skew = skew(&mut connect(&url)?)?;
        let name = format!("{example}_{}", process::id());
        Ok(Queue { url, name, lease, skew, server: server.map(Mutex::new) })
    }

    pub(crate) fn from_args(url: &str, name: &str, lease_ms: &str) -> Result<Queue> {
        let lease = Duration::from_millis(lease_ms.parse()?);
        Ok(Queue { url: url.to_owned(), name: name.to_owned(), lease, skew: 0, server: None })
    }

    pub(crate) fn to_args(&self) -> Vec<String> {
        vec![self.url.clone(), self.name.clone(), self.lease.as_millis().to_string()]
    }

    pub(crate) fn builder(&self) -> Result<Builder> {
        Ok(Jobs::redis(&self.url)?.queue(&self.name).lease(self.lease))
    }

    pub(crate) fn skew(&self) -> i64 {
        self.skew
    }

    pub(crate) fn has_own_server(&self) -> bool {
        self.server.is_some()
    }

    /// Returns how much memory the server uses: for all that is in it.
    pub(crate) fn bytes(&self) -> u64 {
        let ask = || -> Result<u64> {
            let info: String = redis::cmd("INFO").arg("memory").query(&mut connect(&self.url)?)?;
            let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
            Ok(used.ok_or("the server does not say how much memory it uses")?.trim().parse()?)
        };
        ask().unwrap_or(0)
    }

    pub(crate) fn restart(&self) -> Result<()> {
        let server = self.server.as_ref().ok_or("the server is another's")?;
        Ok(server.lock().unwrap_or_else(PoisonError::into_inner).restart()?)
    }

    /// Deletes the keys of the queue from a server that stays.
    pub(crate) fn remove(&self) -> Result<()> {
        let mut connection = connect(&self.url)?;
        let pattern = format!("tw:{{{}}}:*", self.name);
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1000);
            let (next, keys): (String, Vec<String>) = scan.query(&mut connection)?;
            for key in keys {
                redis::cmd("UNLINK").arg(key).query::<()>(&mut connection)?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}

pub(crate) fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn connect(url: &str) -> Result<Connection> {
    let client = redis::Client::open(url)?;
    let timeout = Duration::from_secs(5);
    let connection = client.get_connection_with_timeout(timeout).map_err(|error| {
        Box::<dyn Error + Send + Sync>::from(format!("{url} cannot be reached: {error}"))
    })?;
    connection.set_read_timeout(Some(timeout))?;
    Ok(connection)
}

/// Returns how far the server's clock is ahead. What is less than the way to the server and back
/// counts as none: the two clocks may be the same.
fn skew(connection: &mut Connection) -> Result<i64> {
    let mut best = (u64::MAX, 0);
    for _ in 0..CLOCK_LOOKS {
        let before = micros(SystemTime::now());
        let (seconds, rest): (u64, u64) = redis::cmd("TIME").query(connection)?;
        let after = micros(SystemTime::now());
        let trip = after.saturating_sub(before);
        if trip < best.0 {
            let server = seconds * 1_000_000 + rest;
            best = (trip, server.cast_signed() - (before + trip / 2).cast_signed());
        }
    }
    let (trip, skew) = best;
    Ok(if skew.unsigned_abs() <= trip { 0 } else { skew })
}
