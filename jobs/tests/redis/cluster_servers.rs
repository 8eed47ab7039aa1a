//! A cluster of the tests' own: masters, replicas, and slots that move.

use std::collections::HashMap;
use std::time::Duration;

use crate::server::{Server, free_port, pause, wait_until};

pub(crate) const SLOTS: u16 = 16384;

/// A cluster; each of its first servers is a master of an equal part of the slots.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
    timeout: Duration,
}

impl Cluster {
    /// Starts this many masters. A node that is silent for `timeout` has failed.
    pub(crate) fn start(masters: u16, timeout: Duration) -> Cluster {
        let mut cluster = Cluster { nodes: Vec::new(), timeout };
        for n in 0..masters {
            let node = cluster.node();
            let part = SLOTS / masters;
            let last = if n + 1 == masters { SLOTS - 1 } else { (n + 1) * part - 1 };
            let _: () = node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]);
            let range = [(n * part).to_string(), last.to_string()];
            let _: () = node.ask(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
            cluster.join(node);
        }
        cluster.wait_until_all_agree();
        cluster
    }

    fn node(&self) -> Server {
        let (bus, timeout) = (free_port().to_string(), self.timeout.as_millis().to_string());
        let keeps_nothing = ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"];
        let in_cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        let patient = ["--cluster-node-timeout", &timeout];
        Server::with(&[&keeps_nothing[..], &in_cluster[..], &patient[..]].concat())
    }

    fn join(&mut self, node: Server) {
        if let Some(first) = self.nodes.first() {
            let port = first.port.to_string();
            // Without the port of its bus it would be looked for 10000 above its own.
            let bus: Vec<String> = first.ask(&["CONFIG", "GET", "cluster-port"]);
            let _: () = node.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus[1]]);
        }
        self.nodes.push(node);
    }

    fn wait_until_all_agree(&self) {
        let many = format!("cluster_known_nodes:{}\r\n", self.nodes.len());
        for node in &self.nodes {
            wait_until("the nodes know each other", || {
                let info: String = node.ask(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains(&many)
            });
        }
    }

    /// Adds a replica of a master. Returns its index.
    pub(crate) fn add_replica_of(&mut self, master: usize) -> usize {
        self.join(self.node());
        self.wait_until_all_agree();
        let replica = self.nodes.last().unwrap();
        let id: String = self.nodes[master].ask(&["CLUSTER", "MYID"]);
        wait_until("the replica knows its master", || {
            let nodes: String = replica.ask(&["CLUSTER", "NODES"]);
            nodes.contains(&id)
        });
        let _: () = replica.ask(&["CLUSTER", "REPLICATE", &id]);
        replica.wait_for_the_primary();
        self.nodes.len() - 1
    }

    /// Sets after which silence a node has failed, on all that answer.
    pub(crate) fn set_timeout(&self, timeout: Duration) {
        let ms = timeout.as_millis().to_string();
        for node in self.nodes.iter().filter(|node| node.answers()) {
            let _: () = node.ask(&["CONFIG", "SET", "cluster-node-timeout", &ms]);
        }
    }

    /// Returns a URL that names these nodes.
    pub(crate) fn url(&self, nodes: &[usize]) -> String {
        url(&nodes.iter().map(|n| self.nodes[*n].port).collect::<Vec<_>>())
    }

    pub(crate) fn slot_of(&self, queue: &str) -> u16 {
        self.nodes[0].ask(&["CLUSTER", "KEYSLOT", &format!("{{{queue}}}")])
    }

    /// Returns which of the nodes has a queue, as a node that runs says.
    pub(crate) fn node_of(&self, queue: &str, asked: usize) -> usize {
        let port = owner(self.nodes[asked].port, queue);
        self.nodes.iter().position(|node| node.port == port).unwrap()
    }

    /// Moves a slot as `redis-cli --cluster reshard` does, a key at a time.
    pub(crate) fn migrate(&self, slot: u16, from: usize, to: usize, wait: Duration) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let slot = slot.to_string();
        let from: String = source.ask(&["CLUSTER", "MYID"]);
        let to: String = target.ask(&["CLUSTER", "MYID"]);
        let _: () = target.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]);
        let _: () = source.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to]);
        let port = target.port.to_string();
        loop {
            let keys: Vec<String> = source.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"]);
            let Some(key) = keys.first() else { break };
            let _: String = source.ask(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
            pause(wait);
        }
        for node in [target, source].into_iter().chain(&self.nodes) {
            let _: () = node.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &to]);
        }
    }
}

pub(crate) fn url(ports: &[u16]) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("redis-cluster://{}", hosts.join(","))
}

/// Returns the port of the node that has a queue, as the node on a port says.
pub(crate) fn owner(asked: u16, queue: &str) -> u16 {
    type Node = (String, u16, String, HashMap<String, String>);
    let client = redis::Client::open(format!("redis://127.0.0.1:{asked}/")).unwrap();
    let mut node = client.get_connection().unwrap();
    let tag = format!("{{{queue}}}");
    let slot: u16 = redis::cmd("CLUSTER").arg("KEYSLOT").arg(tag).query(&mut node).unwrap();
    let ranges: Vec<redis::Value> = redis::cmd("CLUSTER").arg("SLOTS").query(&mut node).unwrap();
    for range in ranges {
        let redis::Value::Array(range) = range else { continue };
        let number = |n: usize| redis::from_redis_value::<u16>(range[n].clone()).unwrap();
        if (number(0)..=number(1)).contains(&slot) {
            let master: Node = redis::from_redis_value(range[2].clone()).unwrap();
            return master.1;
        }
    }
    panic!("no node has the slot {slot}")
}
