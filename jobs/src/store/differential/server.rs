//! A server, with a queue for each history.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::LEASE;
use crate::store::Store;
use crate::store::redis::Redis;
use crate::store::redis::discovery::Server;
use crate::store::redis::open::open;

/// A server that ends when it is dropped.
pub(super) struct Process {
    child: Child,
    port: u16,
}

/// A queue of the server.
pub(super) struct Queue {
    port: u16,
    name: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        drop((self.child.kill(), self.child.wait()));
    }
}

impl Process {
    /// Starts a server; or says what is missing, and returns none.
    pub(super) fn start() -> Option<Process> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(Stdio::piped())
            .spawn();
        if child.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            eprintln!("skipped: `redis-server` is not installed");
            return None;
        }
        let mut process = Process { child: child.unwrap(), port };
        let mut said = BufReader::new(process.child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("Ready to accept")), "no port is free");
        Some(process)
    }

    /// Sets a setting of the server.
    pub(super) fn set(&self, name: &str, value: &str) {
        let client = redis::Client::open(("127.0.0.1", self.port)).unwrap();
        let mut conn = client.get_connection().unwrap();
        redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut conn).unwrap();
    }

    pub(super) fn queue(&self, number: u32) -> Queue {
        Queue { port: self.port, name: format!("history_{number}") }
    }
}

impl Queue {
    pub(super) fn open(&self, keep_dead: Duration) -> Box<dyn Store> {
        let server = Server::parse(&format!("redis://127.0.0.1:{}/", self.port)).unwrap();
        let server = server.with_queue(Some(&self.name)).with_lease(LEASE).with_rights(true, false);
        let opened = open(&server, Duration::from_secs(10)).unwrap();
        Box::new(Redis::new(server, opened, Some(&self.name), LEASE, keep_dead, 0, true))
    }
}
