//! Finds the server of a queue, before each connection.
//!
//! All keys of a queue have one hash tag, so at any time one server has the queue: the server of the URL;
//! in a cluster, the master of the tag's slot; or the master that the sentinels name.
//!
//! Ground rules:
//!
//! - No search trusts the result of an earlier one. A lost connection leads to a new search, and so does a
//!   server that does not have the queue. The commands are sent again, to the server that was found then.
//! - Only the connection of the scripts searches. The thread that listens for notifications connects to the
//!   server that was found last, so a stale sentinel cannot lead it to another server.
//! - Each search begins with the next address of the list, because a node that was cut off from the others
//!   goes on to name itself. If an address leads to no server, the search asks the next one.
//! - A search ends. Each wait for a server has the limit of an answer. No server is tried twice. Once twice
//!   that limit has passed, or the caller stops waiting, no further address is asked. The resolver of
//!   names has its own limits.
//! - `ASKING` is never sent. A script names all keys of a queue, some of which never exist, so a node that
//!   imports the slot would refuse it with `TRYAGAIN` all the same. While its slot moves, a queue waits:
//!   no script runs until the move ends, so none sees only a part of the keys.
//!
//! The connections of the redis crate that follow a cluster or sentinels are not used. They would block the
//! thread that renews the leases: they wait without a limit for answers to their own commands, and sleep
//! between attempts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{RedisConnectionInfo, Value};

use super::decode::{array, number, text};
use super::endpoint::{self, AddressRole, Endpoint, WaitLimits, ask, present, problem_of};
use super::keys;
use super::rights::Needs;
use crate::values::error::{OpenError, ServerProblem};
use crate::values::panics::locked;
#[cfg(feature = "redis-tls")]
use crate::values::tls::Tls;

/// How to find the server of a queue, and how long an answer may take.
#[derive(Clone)]
pub(crate) struct Server {
    /// The addresses of the URL.
    addresses: Vec<Endpoint>,
    way: AddressRole,
    /// The hash tag of the queue, from which a cluster computes its slot.
    pub(super) hash_tag: String,
    /// The needed rights, which are checked when the server is opened.
    pub(super) needs: Option<Needs>,
    pub(super) timeout: Duration,
    shared: Arc<SharedServer>,
}

/// State that the connections of a process share.
#[derive(Default)]
struct SharedServer {
    /// The number of searches so far.
    searches: AtomicUsize,
    /// The nodes of the cluster, as a node listed them last. Those of the URL may be gone one day.
    nodes: Mutex<Vec<Endpoint>>,
    /// The server on which the dispatcher found the queue last.
    found: Mutex<Option<Endpoint>>,
    /// How often the queue was found on another server than before.
    moves: AtomicU64,
}

/// A connection to the server that was found.
pub(super) struct FoundServer {
    pub(super) connection: redis::Connection,
    pub(super) address: Endpoint,
}

const LONGEST_TIMEOUT: Duration = Duration::from_secs(3);

impl Server {
    pub(crate) fn parse(url: &str) -> Result<Server, OpenError> {
        let endpoint::Parsed { addresses, way } = endpoint::parse(url)?;
        let hash_tag = keys::hash_tag(None);
        let (timeout, shared) = (LONGEST_TIMEOUT, Arc::default());
        Ok(Server { addresses, way, hash_tag, needs: None, timeout, shared })
    }

    /// Says whether each queue may be on another node.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.way, AddressRole::Cluster)
    }

    /// Returns the same server, without what the connections of this process share.
    pub(super) fn apart(self) -> Server {
        Server { shared: Arc::default(), ..self }
    }

    /// Sets the queue to find.
    pub(crate) fn with_queue(self, queue: Option<&str>) -> Server {
        Server { hash_tag: keys::hash_tag(queue), ..self }
    }

    /// Sets the rights to check: whether this process runs jobs, and whether it waits for replicas.
    pub(crate) fn with_rights(self, runs_jobs: bool, replicas: bool) -> Server {
        Server { needs: Some(Needs { runs_jobs, replicas }), ..self }
    }

    #[cfg(feature = "redis-tls")]
    pub(crate) fn with_tls(self, tls: &Tls) -> Result<Server, OpenError> {
        let addresses = self.addresses.into_iter().map(|address| address.with_tls(tls));
        Ok(Server { addresses: addresses.collect::<Result<_, _>>()?, ..self })
    }

    /// Limits the time of an answer, so that a lease outlives several late answers.
    pub(crate) fn with_lease(self, lease: Duration) -> Server {
        Server { timeout: (lease / 8).clamp(Duration::from_millis(100), LONGEST_TIMEOUT), ..self }
    }

    /// Lets each wait be as long as any: while the process has no lease.
    pub(super) fn with_longest_timeout(self) -> Server {
        Server { timeout: LONGEST_TIMEOUT, ..self }
    }

    /// Returns how often the queue was found on another server than before.
    pub(super) fn moves(&self) -> u64 {
        self.shared.moves.load(Ordering::Acquire)
    }

    /// Notes the server on which the queue was found.
    pub(super) fn note_found(&self, address: &Endpoint) {
        let mut found = locked(&self.shared.found);
        let before = found.replace(address.clone());
        if before.is_some_and(|before| before.name() != address.name()) {
            self.shared.moves.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Connects to the server that was found last, without a search. Returns `None` if that fails.
    pub(super) fn connect_to_found(&self) -> Option<redis::Connection> {
        let found = locked(&self.shared.found).clone();
        found?.connect(self.limit(None)).ok()
    }

    /// Returns the limit of each wait for a server. No wait goes on beyond `until`.
    pub(super) fn limit(&self, until: Option<Instant>) -> WaitLimits {
        WaitLimits { each: self.timeout, until }
    }

    /// Finds the server, and connects to it. No wait goes on beyond `until`.
    pub(super) fn connect(&self, until: Option<Instant>) -> Result<FoundServer, OpenError> {
        let limit = self.limit(until);
        if matches!(self.way, AddressRole::Direct) {
            let address = self.addresses[0].clone();
            return Ok(FoundServer { connection: address.connect(limit)?, address });
        }
        let began = present();
        let mut asked = self.asked();
        let first = self.shared.searches.fetch_add(1, Ordering::Relaxed) % asked.len();
        asked.rotate_left(first);
        let (mut tried, mut failures) = (Vec::new(), Vec::new());
        for address in asked {
            let found = self.server_by(&address, limit);
            let is_new = |server: &Endpoint| !tried.contains(&server.name());
            match found {
                Ok(server) if is_new(&server) => {
                    tried.push(server.name());
                    match self.connect_to(&server, limit) {
                        Ok(connection) => return Ok(FoundServer { connection, address: server }),
                        Err(failure) => failures.push(failure),
                    }
                }
                Ok(_) => {}
                Err(failure) => failures.push(failure),
            }
            if present().saturating_duration_since(began) > 2 * self.timeout || limit.is_over() {
                break;
            }
        }
        Err(one_of(failures))
    }

    /// Returns the addresses to ask: those of the URL first.
    fn asked(&self) -> Vec<Endpoint> {
        let mut asked = self.addresses.clone();
        let nodes = locked(&self.shared.nodes);
        for node in nodes.iter() {
            if !asked.iter().any(|known| known.name() == node.name()) {
                asked.push(node.clone());
            }
        }
        asked
    }

    /// Asks one address for the server of the queue.
    fn server_by(&self, asked: &Endpoint, limit: WaitLimits) -> Result<Endpoint, OpenError> {
        let mut guide = asked.connect(limit)?;
        limit.apply(&guide).map_err(|error| asked.error(problem_of(&error)))?;
        match &self.way {
            AddressRole::Direct => Ok(asked.clone()),
            AddressRole::Cluster => self.master_of_slot(asked, &mut guide),
            AddressRole::Sentinel { master, login } => {
                named_master(asked, &mut guide, master, login)
            }
        }
    }

    fn master_of_slot(
        &self,
        asked: &Endpoint,
        guide: &mut redis::Connection,
    ) -> Result<Endpoint, OpenError> {
        let mut slot_of = redis::cmd("CLUSTER");
        slot_of.arg("KEYSLOT").arg(&self.hash_tag);
        let slot = answer(asked, guide, &slot_of)?;
        let slots = answer(asked, guide, redis::cmd("CLUSTER").arg("SLOTS"))?;
        let (slot, ranges) = match (number(&slot), array(&slots)) {
            (Ok(slot), Ok(ranges)) => (slot, ranges),
            _ => return Err(asked.error(not_understood("CLUSTER SLOTS"))),
        };
        let (mut nodes, mut master) = (Vec::new(), None);
        for range in ranges {
            let Ok([first, last, servers @ ..]) = array(range) else { continue };
            let (Ok(first), Ok(last)) = (number(first), number(last)) else { continue };
            let mut found = servers.iter().map(|node| node_of(asked, node));
            if (first..=last).contains(&slot) {
                master = found.next().flatten();
                nodes.extend(master.clone());
            }
            nodes.extend(found.flatten());
        }
        nodes.sort_by_key(Endpoint::name);
        nodes.dedup_by_key(|node| node.name());
        *locked(&self.shared.nodes) = nodes;
        master.ok_or_else(|| {
            let reason =
                format!("no node of the cluster has slot {slot}, which is that of the queue");
            asked.error(ServerProblem::Other(reason))
        })
    }

    /// Connects to the server. If sentinels named it, checks that it is still a master: a replica would answer
    /// questions. A replica of a cluster refuses every script, so it needs no check.
    fn connect_to(
        &self,
        server: &Endpoint,
        limit: WaitLimits,
    ) -> Result<redis::Connection, OpenError> {
        let mut connection = server.connect(limit)?;
        let is_named = matches!(self.way, AddressRole::Sentinel { .. });
        limit.apply(&connection).map_err(|error| server.error(problem_of(&error)))?;
        if is_named && !is_master(server, &mut connection)? {
            return Err(server.error(ServerProblem::ReadOnly));
        }
        let usual = self.limit(None).apply(&connection);
        usual.map_err(|error| server.error(problem_of(&error)))?;
        Ok(connection)
    }

    /// Connects to the server, and to every other master of a cluster that answers. Returns the address and
    /// database of the server, and the connections, the server's first.
    pub(crate) fn connect_to_all(&self) -> Result<(String, Vec<redis::Connection>), OpenError> {
        let FoundServer { connection, address } = self.connect(None)?;
        let (name, mut all) = (address.name(), vec![connection]);
        if matches!(self.way, AddressRole::Cluster) {
            let others = self.asked().into_iter().filter(|other| other.name() != name);
            let connect = |other: Endpoint| {
                let mut connection = other.connect(self.limit(None)).ok()?;
                is_master(&other, &mut connection).ok()?.then_some(connection)
            };
            all.extend(others.filter_map(connect));
        }
        Ok((format!("{name}/{}", address.login().db()), all))
    }
}

fn is_master(server: &Endpoint, connection: &mut redis::Connection) -> Result<bool, OpenError> {
    let role = answer(server, connection, &redis::cmd("ROLE"))?;
    let role = array(&role).ok().and_then(|role| text(role.first()?).ok());
    Ok(role.as_deref() == Some("master"))
}

fn answer(
    asked: &Endpoint,
    connection: &mut redis::Connection,
    question: &redis::Cmd,
) -> Result<Value, OpenError> {
    ask(connection, question).map_err(|error| asked.error(problem_of(&error)))
}

fn not_understood(question: &str) -> ServerProblem {
    ServerProblem::NotRedis(format!("its answer to {question} makes no sense"))
}

/// Returns the address of a node in a reply to `CLUSTER SLOTS`. A node that does not know its own host has the
/// host at which it was asked.
fn node_of(asked: &Endpoint, node: &Value) -> Option<Endpoint> {
    let [host, port, ..] = array(node).ok()? else { return None };
    let host = match host {
        Value::Nil => String::new(),
        host => text(host).ok()?,
    };
    let host = match &*host {
        "" => asked.host()?.to_owned(),
        "?" => return None,
        _ => host,
    };
    Some(asked.at(host, u16::try_from(number(port).ok()?).ok()?))
}

/// Asks a sentinel for the master with this name.
fn named_master(
    sentinel: &Endpoint,
    guide: &mut redis::Connection,
    master: &str,
    login: &RedisConnectionInfo,
) -> Result<Endpoint, OpenError> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let said = answer(sentinel, guide, &question)?;
    if matches!(said, Value::Nil) {
        let reason = format!("the sentinel knows no master {master:?}");
        return Err(sentinel.error(ServerProblem::Other(reason)));
    }
    let address = || {
        let [host, port] = array(&said).ok()? else { return None };
        Some(sentinel.at(text(host).ok()?, text(port).ok()?.parse().ok()?))
    };
    let address = address().ok_or_else(|| sentinel.error(not_understood("SENTINEL")))?;
    Ok(address.with_login(login.clone()))
}

/// Returns the error of a search that failed: the first error other than an unreachable server; or, if no
/// server was reached, all reasons together.
fn one_of(failures: Vec<OpenError>) -> OpenError {
    let (mut servers, mut reasons) = (Vec::new(), Vec::new());
    for failure in failures {
        match failure {
            OpenError::Server { server, problem: ServerProblem::Unreachable(reason) } => {
                reasons.push(format!("{server}: {reason}"));
                servers.push(server);
            }
            other => return other,
        }
    }
    let problem = ServerProblem::Unreachable(reasons.join("; "));
    OpenError::Server { server: servers.join(","), problem }
}
