//! Opens a queue on a Redis server.
//!
//! A queue exists if its hash of kinds does. The first insert, or the first process with a handler, makes
//! that hash.

use std::time::Duration;

use redis::{Cmd, Connection, FromRedisValue};
use tickwheel_jobs::{Client, Jobs};

use crate::Answer;
use crate::open::{Place, Queue, ServerUrl, Sizes, of_queue};
use crate::text;

/// The queue of a builder that names none.
const DEFAULT_QUEUE: &str = "jobs";
/// The key of the list of queues: `store/redis/round_trips.rs`.
const LIST: &str = "tw:{queues}:names";
const TIMEOUT: Duration = Duration::from_secs(5);
/// A search for keys ends after this many steps of `KEYS_PER_STEP`, since the server may have many keys of
/// other applications.
const STEPS: usize = 1000;
const KEYS_PER_STEP: usize = 1000;

pub(crate) fn client(url: &ServerUrl, queue: Option<&str>) -> Answer<(Client, Place)> {
    let url = url.as_str();
    let builder = Jobs::redis(url)?;
    let name = queue.unwrap_or(DEFAULT_QUEUE).to_owned();
    let mut server = Server::connect(url, &name)?;
    server.set_clock()?;
    if !server.exists(&name)? {
        let queues = text::quoted(&server.queues().unwrap_or_default());
        return Err(format!("{} has no queue {name:?}; it has {queues}", server.name).into());
    }
    let client = of_queue(builder, queue)?;
    // A user may lack the right to read the list of queues.
    let mut queues = server.queues().unwrap_or_default();
    let has_default = queues.iter().any(|queue| queue == DEFAULT_QUEUE);
    queues.retain(|queue| queue != DEFAULT_QUEUE);
    let sizes = Sizes::Server(server.memory(&name));
    let (name, queue) = (server.name, queue.map(str::to_owned));
    Ok((client, Place { name, queue, has_default, queues, sizes }))
}

pub(crate) fn all_queues(url: &ServerUrl) -> Answer<Vec<Queue>> {
    let url = url.as_str();
    let mut server = Server::connect(url, DEFAULT_QUEUE)?;
    server.set_clock()?;
    let open = |name: String| {
        let name = Some(name).filter(|name| name != DEFAULT_QUEUE);
        let client = of_queue(Jobs::redis(url)?, name.as_deref())?;
        Ok((name, client))
    };
    let mut queues = server.queues()?.into_iter().map(open).collect::<Result<Vec<_>, _>>();
    if let Ok(queues) = &mut queues {
        queues.sort_by(|(a, _): &Queue, (b, _): &Queue| a.cmp(b));
    }
    queues
}

struct Server {
    /// Its address and database, without user and password.
    name: String,
    connection: Connection,
    /// Connections to the other masters of a cluster, which may have other queues.
    others: Vec<Connection>,
}

impl Server {
    fn connect(url: &str, queue: &str) -> Answer<Server> {
        let (address, mut connections) = Jobs::redis_connections(url, Some(queue))?;
        for connection in &connections {
            connection.set_read_timeout(Some(TIMEOUT))?;
            connection.set_write_timeout(Some(TIMEOUT))?;
        }
        let others = connections.split_off(1);
        let connection = connections.remove(0);
        Ok(Server { name: format!("redis://{address}"), connection, others })
    }

    fn set_clock(&mut self) -> Answer<()> {
        let (seconds, micros): (u64, u32) = redis::cmd("TIME").query(&mut self.connection)?;
        text::set_present(Duration::new(seconds, micros * 1000));
        Ok(())
    }

    fn exists(&mut self, queue: &str) -> Answer<bool> {
        let key = format!("tw:{{{queue}}}:kinds");
        Ok(redis::cmd("EXISTS").arg(key).query(&mut self.connection)?)
    }

    /// Asks the nodes, one after the other, until the one that has the key answers.
    fn ask_each<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Answer<Option<T>> {
        for node in core::iter::once(&mut self.connection).chain(&mut self.others) {
            match cmd.query(node) {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) if error.code() == Some("MOVED") => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn queues(&mut self) -> Answer<Vec<String>> {
        let list = redis::cmd("SMEMBERS").arg(LIST).to_owned();
        let mut queues: Vec<String> = self.ask_each(&list)?.unwrap_or_default();
        queues.sort();
        // A queue whose keys were removed is in the list still.
        let mut there = Vec::new();
        for queue in queues {
            let key = format!("tw:{{{queue}}}:kinds");
            if self.ask_each(redis::cmd("EXISTS").arg(key))?.unwrap_or(false) {
                there.push(queue);
            }
        }
        Ok(there)
    }

    /// Returns about how much memory the keys of a queue use, if the server tells it.
    fn memory(&mut self, queue: &str) -> Option<u64> {
        let mut bytes = 0;
        for key in scan(&mut self.connection, &format!("tw:{{{queue}}}:*")).ok()? {
            let mut usage = redis::cmd("MEMORY");
            let usage: Option<u64> =
                usage.arg("USAGE").arg(key).query(&mut self.connection).ok()?;
            bytes += usage.unwrap_or(0);
        }
        Some(bytes)
    }
}

fn scan(node: &mut Connection, pattern: &str) -> Answer<Vec<String>> {
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    for _ in 0..STEPS {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(KEYS_PER_STEP);
        let (next, keys): (String, Vec<String>) = scan.query(node)?;
        found.extend(keys);
        if next == "0" {
            break;
        }
        cursor = next;
    }
    // The server may return a key twice.
    found.sort();
    found.dedup();
    Ok(found)
}
