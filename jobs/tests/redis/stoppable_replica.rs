//! A primary and its replica, whose link can be stopped: so the replica lacks what was answered
//! last.
//!
//! To stop the replica's process would not do: its kernel keeps what it is sent, and it reads that
//! before it notices that the primary is gone.

use crate::proxy::{End, Proxy};
use crate::server::Server;

/// A replica, and the way that its primary's writes come.
pub(crate) struct Replica {
    server: Server,
    link: Proxy,
}

impl Replica {
    pub(crate) fn of(primary: &Server) -> Replica {
        let link = Proxy::to(primary.port);
        // The primary sends its data at once, because no other replica will come.
        let _: String = primary.ask(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        let port = link.port.to_string();
        let options = ["--save", "", "--appendonly", "no", "--replicaof", "127.0.0.1", &port];
        let server = Server::with(&options);
        server.wait_for_the_primary();
        Replica { server, link }
    }

    pub(crate) fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        self.server.ask(command)
    }

    /// What is written from now on does not reach it.
    pub(crate) fn stop_link(&self) {
        self.link.stall(true);
    }

    /// Makes it a primary, with what it has.
    pub(crate) fn promote(self) -> Server {
        let _: String = self.server.ask(&["REPLICAOF", "NO", "ONE"]);
        self.link.end_all(End::Reset);
        self.server
    }
}
