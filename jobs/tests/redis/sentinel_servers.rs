//! Sentinels of the tests' own, a master and its replica.

use crate::server::{Server, wait_until};

/// The name by which the sentinels know the master.
pub(crate) const NAME: &str = "shop";

/// Three sentinels, of which two suffice to promote the replica.
pub(crate) struct SentinelSet {
    pub(crate) master: Server,
    pub(crate) replica: Server,
    pub(crate) sentinels: Vec<Server>,
}

impl SentinelSet {
    /// Starts them, and waits until they know each other. For a minute no silence is a failure.
    pub(crate) fn start() -> SentinelSet {
        let master = master();
        let replica = replica_of(master.port);
        let config = format!(
            "sentinel monitor {NAME} 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds {NAME} 60000\n\
             sentinel failover-timeout {NAME} 10000\n",
            master.port
        );
        let sentinels: Vec<Server> = (0..3).map(|_| Server::sentinel(&config)).collect();
        for sentinel in &sentinels {
            wait_until("the sentinels know each other and the replica", || {
                let known: Vec<String> = sentinel.ask(&["SENTINEL", "MASTER", NAME]);
                let is = |name: &str, value: &str| {
                    known.chunks(2).any(|pair| pair[0] == name && pair[1] == value)
                };
                is("num-other-sentinels", "2") && is("num-slaves", "1")
            });
        }
        SentinelSet { master, replica, sentinels }
    }

    /// Returns the ports of the sentinels.
    pub(crate) fn ports(&self) -> [u16; 3] {
        [0, 1, 2].map(|n| self.sentinels[n].port)
    }

    /// Sets after which silence the master has failed, in milliseconds.
    pub(crate) fn fails_after(&self, ms: &str) {
        for sentinel in &self.sentinels {
            let _: () = sentinel.ask(&["SENTINEL", "SET", NAME, "down-after-milliseconds", ms]);
        }
    }
}

pub(crate) fn replica_of(port: u16) -> Server {
    let port = port.to_string();
    let options = ["--save", "", "--replicaof", "127.0.0.1", &port];
    let replica = Server::with(&[&options[..], &["--repl-diskless-sync-delay", "0"]].concat());
    replica.wait_for_the_primary();
    replica
}

pub(crate) fn master() -> Server {
    Server::with(&["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"])
}

/// Returns a URL of these sentinels.
pub(crate) fn url(ports: &[u16]) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("redis-sentinel://{}?master={NAME}", hosts.join(","))
}
