//! The list of the queues of a server, or of a cluster: a set of names, so that the command lists them without a
//! walk over all keys.
//!
//! A process adds its queue when it first stores a kind there. The list is for people: if the user lacks the right, or
//! the node of a cluster that has the key does not answer, nothing else fails.

use super::Redis;
use super::discovery::Server;
use super::endpoint::ask;

/// Its hash tag is that of the queue `queues`, with which it shares a slot of a cluster, and no more.
const TAG: &str = "queues";

/// Returns the key of the list.
fn key() -> String {
    format!("tw:{{{TAG}}}:names")
}

impl Redis {
    /// Adds the queue to the list, once in the life of a process.
    pub(super) fn list_queue(&mut self) {
        if core::mem::replace(&mut self.is_listed, true) {
            return;
        }
        let server = &self.connection.server;
        let mut add = redis::cmd("SADD");
        add.arg(key()).arg(server.hash_tag.trim_matches(['{', '}']));
        if !server.is_cluster() {
            let _ = self.plain(add);
        } else if let Ok(mut found) = elsewhere(server).connect(self.connection.until) {
            let _ = ask(&mut found.connection, &add);
        }
    }
}

/// Returns the way to the node that has the list.
fn elsewhere(server: &Server) -> Server {
    server.clone().apart().with_queue(Some(TAG))
}
