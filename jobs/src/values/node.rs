//! Nodes: the processes that run the jobs of a queue.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::time::{Millis, rfc3339};

/// A node that has not been seen for this long is forgotten at the next purge.
pub(crate) const NODE_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How often a node says that it is there.
pub(crate) const NODE_INTERVAL: Duration = Duration::from_secs(10);
/// A node on a server that has not been seen for this long has ended, or cannot reach the server.
const MISSED: Duration = Duration::from_secs(30);

/// A process that runs the jobs of a queue: see [`Client::nodes`](crate::Client::nodes).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The name of its machine.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// The version of this crate in it.
    pub version: String,
    /// The kinds that it handles.
    pub kinds: Vec<String>,
    /// How often it retries a job of each of them, unless the job has a policy of its own: see
    /// [`Retry::max_retries`](crate::Retry::max_retries).
    pub max_retries: BTreeMap<String, u32>,
    /// How many threads run its handlers, if that was set: see [`Builder::threads`](crate::Builder::threads).
    pub threads: Option<usize>,
    /// How many runs it can have under way at once: one for each thread or as many as a batch has, and as many futures
    /// of each kind as may be.
    pub most_runs: usize,
    /// How many jobs it claims at most: those that run, and those that start soon.
    pub max_in_flight: usize,
    /// How many jobs it had claimed when it was seen.
    pub in_flight: usize,
    /// When it started to run the jobs.
    #[serde(serialize_with = "rfc3339")]
    pub started: SystemTime,
    /// When it was last seen. On a server a node says every ten seconds that it is there. On a file it says so at its
    /// start, and with the commits that it makes anyway, so that an idle process writes nothing.
    #[serde(serialize_with = "rfc3339")]
    pub seen: SystemTime,
}

impl NodeInfo {
    /// Says whether the node counts as there. On a file an idle node writes nothing, so it counts until it is forgotten.
    /// `shared`: the store is a server, whose nodes say regularly that they are there.
    pub(crate) fn is_there(&self, shared: bool, now: SystemTime) -> bool {
        !shared || self.was_seen_lately(now)
    }

    /// Returns its name, for people: `shop-3/4711`. [`AttemptError::node`](crate::AttemptError::node) and
    /// [`JobInfo::node`](crate::JobInfo::node) have it too.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.pid)
    }

    /// Says whether the node was seen within the 30 seconds before `now`. On a server a node that was not has ended,
    /// or cannot reach the server. On a file it may be idle.
    #[must_use]
    pub fn was_seen_lately(&self, now: SystemTime) -> bool {
        now.duration_since(self.seen).is_ok_and(|age| age <= MISSED) || self.seen > now
    }
}

/// A node, as the stores keep it.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct StoredNode {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// How often it retries a job of each kind that it handles.
    pub(crate) max_retries: BTreeMap<String, u32>,
    pub(crate) threads: Option<usize>,
    pub(crate) most_runs: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) in_flight: usize,
    /// Milliseconds since 1970.
    pub(crate) started: i64,
}

impl StoredNode {
    /// Returns what a store keeps of this process. `max_retries`: for each kind that it handles.
    pub(crate) fn of_this_process(
        max_retries: BTreeMap<String, u32>,
        threads: Option<usize>,
        most_runs: usize,
        max_in_flight: usize,
        started: Millis,
    ) -> StoredNode {
        StoredNode {
            host: host().to_owned(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            max_retries,
            threads,
            most_runs,
            max_in_flight,
            in_flight: 0,
            started: started.get(),
        }
    }

    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the text that a store has kept.
    pub(crate) fn info(text: &str, seen: Millis) -> Option<NodeInfo> {
        let node: StoredNode = serde_json::from_str(text).ok()?;
        Some(NodeInfo {
            host: node.host,
            pid: node.pid,
            version: node.version,
            kinds: node.max_retries.keys().cloned().collect(),
            max_retries: node.max_retries,
            threads: node.threads,
            most_runs: node.most_runs,
            max_in_flight: node.max_in_flight,
            in_flight: node.in_flight,
            started: Millis::clamped(node.started).to_system(),
            seen: seen.to_system(),
        })
    }
}

/// Returns the name of this process, for people: `shop-3/4711`.
pub(crate) fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("{}/{}", host(), std::process::id()))
}

fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| gethostname::gethostname().to_string_lossy().into_owned())
}
