//! The list of the queues of a server, or of a cluster: a set of names, so that the command lists them without a
//! walk over all keys.
//!
//! A process adds its queue when it first stores a kind there. The list is for people: if the user lacks the right, or
//! the node of a cluster that has the key does not answer at once, nothing else fails or waits.

use std::time::Duration;

use super::Redis;
use super::discovery::Server;
use super::endpoint::{ask, present};

/// Its hash tag is that of the queue `queues`, with which it shares a slot of a cluster, and no more.
const TAG: &str = "queues";

/// Returns the key of the list.
fn key() -> String {
    format!("tw:{{{TAG}}}:names")
}

/// How long a process waits for the node of a cluster that has the list.
const WAIT: Duration = Duration::from_millis(250);

impl Redis {
    /// Adds the queue to the list, once in the life of a process. If the node that has it does not answer, the
    /// process tries again when it stores another kind.
    pub(super) fn list_queue(&mut self) {
        if core::mem::replace(&mut self.is_listed, true) {
            return;
        }
        let server = &self.connection.server;
        let mut add = redis::cmd("SADD");
        add.arg(key()).arg(server.hash_tag.trim_matches(['{', '}']));
        if !server.is_cluster() {
            let _ = self.plain(add);
        } else {
            let soon = present() + WAIT;
            let until = self.connection.until.map_or(soon, |until| until.min(soon));
            let found = elsewhere(server).connect(Some(until));
            let added = found.ok().and_then(|mut found| ask(&mut found.connection, &add).ok());
            self.is_listed = added.is_some();
        }
    }
}

/// Returns the way to the node that has the list.
fn elsewhere(server: &Server) -> Server {
    server.clone().apart().with_queue(Some(TAG))
}
