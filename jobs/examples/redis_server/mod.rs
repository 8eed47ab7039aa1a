//! A `redis-server` of an example's own, on a free port of the loopback. It ends when it is dropped.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) struct RedisServer {
    port: u16,
    process: Child,
}

impl RedisServer {
    /// Starts a server that keeps its files in this folder.
    ///
    /// # Errors
    ///
    /// If `redis-server` is not installed, or does not start.
    pub(crate) fn start(folder: &Path) -> io::Result<RedisServer> {
        // The listener ends with this line, and leaves its port to the server.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            // Each write is on disk before it is answered.
            .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("redis-server: {error}")))?;
        let log = process.stdout.take();
        let server = RedisServer { port, process };
        let lines = log.into_iter().flat_map(|log| BufReader::new(log).lines());
        if lines.map_while(Result::ok).any(|line| line.contains("Ready to accept connections")) {
            Ok(server)
        } else {
            Err(io::Error::other(format!("redis-server did not start on port {port}")))
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
