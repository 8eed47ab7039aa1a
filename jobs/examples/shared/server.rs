//! A Redis server of an example's own: on a free port of the loopback, with a folder for what it
//! writes. It is killed when it is dropped.
//!
//! Every command is on disk before it is answered (`appendfsync always`), so a kill of the server
//! loses nothing that was answered.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How often the server is asked whether it has started: for ten seconds.
const POLLS: usize = 2000;

pub(crate) struct Server {
    port: u16,
    folder: PathBuf,
    process: Child,
}

impl Server {
    /// Starts a server that keeps its files in this folder.
    ///
    /// # Errors
    ///
    /// If `redis-server` is not installed, or does not start.
    pub(crate) fn start(folder: &Path) -> io::Result<Server> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let folder = folder.to_owned();
        let mut server = Server { port, process: spawn(port, &folder)?, folder };
        server.wait()?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Ends the server with SIGKILL, and starts it again.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        self.process = spawn(self.port, &self.folder)?;
        self.wait()
    }

    /// Waits until the server answers.
    fn wait(&mut self) -> io::Result<()> {
        for _ in 0..POLLS {
            if self.answers() {
                return Ok(());
            }
            if let Some(status) = self.process.try_wait()? {
                return Err(io::Error::other(format!("redis-server ended: {status}")));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Err(io::Error::other(format!("redis-server does not answer on port {}", self.port)))
    }

    /// A server that loads its file answers with an error.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else {
            return false;
        };
        let mut answer = [0; 5];
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer));
        asked.is_ok() && answer == *b"+PONG"
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(port: u16, folder: &Path) -> io::Result<Child> {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"])
        .arg("--dir")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("redis-server: {error}")))
}
