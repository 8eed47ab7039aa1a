//! A PostgreSQL server for one measurement.
//!
//! It has a cluster of its own, on a free port of the loopback, and is killed at the end. A commit does not wait for
//! the disk (`synchronous_commit=off`): it is written within 0.6 s, as an append-only file of Redis is within a second
//! or two.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;

use crate::server::free_port;

pub(crate) const PROGRAM: &str = "postgres";
/// Whom the server runs as if this program has the rights of root, which PostgreSQL refuses to have.
const USER: &str = "postgres";
const START: Duration = Duration::from_secs(20);

pub(crate) struct Postgres {
    child: Child,
    port: u16,
    directory: PathBuf,
}

impl Postgres {
    pub(crate) fn start() -> Fallible<Postgres> {
        let directory =
            std::env::temp_dir().join(format!("jobs-on-redis-postgres-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let mut init = as_user("initdb")?;
        init.args(["--auth", "trust", "--username", USER, "--no-sync", "--pgdata"]).arg(&directory);
        run(&mut init)?;
        let port = free_port()?;
        let mut command = as_user(PROGRAM)?;
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", "", "-D"]).arg(&directory);
        command.args(["-c", "synchronous_commit=off", "-c", "log_min_messages=fatal"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("{PROGRAM}: {error}"))?;
        let server = Postgres { child, port, directory };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if start.elapsed() > START {
                return Err(format!("{PROGRAM} does not answer"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT: the server ends its processes, and itself, at once.
        let stop = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        if stop.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A program of PostgreSQL, as a user that it accepts.
fn as_user(program: &str) -> Fallible<Command> {
    if !is_root()? {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", program]);
    Ok(command)
}

fn is_root() -> Fallible<bool> {
    let id = Command::new("id").arg("-u").output().map_err(|error| format!("id: {error}"))?;
    Ok(id.stdout.trim_ascii() == b"0")
}

fn run(command: &mut Command) -> Fallible {
    let ended = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&ended.stderr))),
    }
}
