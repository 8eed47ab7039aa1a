//! A Redis server of the tests' own, on a free port of the loopback.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A server, killed and removed when it is dropped.
pub(crate) struct Server {
    process: Option<Child>,
    pub(crate) port: u16,
    folder: TempDir,
    /// Its configuration, if that is not on the command line.
    config: Option<String>,
    options: Vec<String>,
    environment: Vec<(String, PathBuf)>,
}

/// What the tests need, where it is missing.
const MISSING: &str = "the tests of feature `redis` start `redis-server` (7.0 or later, for `CLUSTER \
     ADDSLOTSRANGE` and `cluster-port`), which is not installed: on Debian it is in the package redis-server";

/// Returns a port on which no process listens.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts a server that keeps nothing on disk.
    pub(crate) fn start() -> Server {
        Server::with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts a server that writes every command to disk before it answers.
    pub(crate) fn durable() -> Server {
        Server::with(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts a sentinel, which keeps its configuration in a file.
    pub(crate) fn sentinel(config: &str) -> Server {
        Server::configured(Some(config), Vec::new(), &["--sentinel"])
    }

    pub(crate) fn with(options: &[&str]) -> Server {
        Server::with_environment(Vec::new(), options)
    }

    /// Starts a server with variables of its own in its environment.
    pub(crate) fn with_environment(
        environment: Vec<(String, PathBuf)>,
        options: &[&str],
    ) -> Server {
        Server::configured(None, environment, options)
    }

    fn configured(
        config: Option<&str>,
        environment: Vec<(String, PathBuf)>,
        options: &[&str],
    ) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let config = config.map(|config| {
            let path = folder.path().join("server.conf");
            fs::write(&path, config).unwrap();
            path.to_str().unwrap().to_owned()
        });
        let port = free_port();
        let mut server = Server { process: None, port, folder, config, options, environment };
        server.run();
        server
    }

    /// Starts the server, again on its port and in its folder.
    pub(crate) fn run(&mut self) {
        for _ in 0..3 {
            let child = Command::new("redis-server")
                .args(&self.config)
                .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
                .args(["--dir", self.folder.path().to_str().unwrap(), "--daemonize", "no"])
                .args(&self.options)
                .envs(self.environment.iter().map(|(name, value)| (name, value)))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            self.process = Some(child.unwrap_or_else(|error| self.does_not_start(&error)));
            for _ in 0..500 {
                if self.answers() {
                    return;
                }
                pause(Duration::from_millis(10));
            }
            self.kill();
        }
        panic!("redis-server does not answer on port {}", self.port);
    }

    /// Fails the test; or, where no server is installed, ends all tests of `tests/redis`, which need one. Other tests
    /// ask `installed::server` first.
    fn does_not_start(&self, error: &io::Error) -> ! {
        if error.kind() == io::ErrorKind::NotFound && env!("CARGO_CRATE_NAME") == "redis" {
            let _ = fs::remove_dir_all(self.folder.path());
            // Not by `eprintln!`, which cargo does not show.
            let _ = writeln!(io::stderr(), "skipped: {MISSING}");
            std::process::exit(0);
        }
        panic!("{MISSING} ({error})");
    }

    pub(crate) fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else {
            return false;
        };
        let mut buffer = [0; 64];
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read(&mut buffer));
        let answer = asked.map(|many| buffer[..many].to_vec()).unwrap_or_default();
        answer.starts_with(b"+PONG") || answer.starts_with(b"-NOAUTH")
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns the id of its process, which runs.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.process.as_ref().unwrap().id()).unwrap()
    }

    /// Ends the server as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Connects as any client does.
    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// Returns when the server has done all that is in its sockets now. It reads every socket that has
    /// something before it waits again, so this is so when it has answered twice.
    pub(crate) fn do_what_has_arrived(&self) {
        let mut connection = self.connection();
        for _ in 0..2 {
            let _: () = redis::cmd("PING").query(&mut connection).unwrap();
        }
    }

    /// Asks the server something.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]);
        cmd.query(&mut self.connection()).unwrap()
    }

    /// Sends a command about a key of the queue `jobs`, as a user does by hand.
    pub(crate) fn by_hand<T: redis::FromRedisValue>(
        &self,
        command: &str,
        key: &str,
        arguments: &[&[u8]],
    ) -> T {
        let mut cmd = redis::cmd(command);
        cmd.arg(format!("tw:{{jobs}}:{key}")).arg(arguments);
        cmd.query(&mut self.connection()).unwrap()
    }

    /// Sets how much memory the server may have. With `"0"` it has as much as it needs, and with little it is full.
    pub(crate) fn limit_memory(&self, limit: &str) {
        let _: String = self.ask(&["CONFIG", "SET", "maxmemory", limit]);
    }

    /// Returns how often each command was called, also in scripts.
    pub(crate) fn commands(&self) -> BTreeMap<String, u64> {
        let stats: String = self.ask(&["INFO", "commandstats"]);
        let calls = |line: &str| {
            let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((command.to_owned(), figures.split(',').next()?.parse().ok()?))
        };
        stats.lines().filter_map(calls).filter(|(command, _)| command != "info").collect()
    }

    /// Returns how many commands a step takes.
    pub(crate) fn cost(&self, step: impl FnOnce()) -> u64 {
        let before: u64 = self.commands().values().sum();
        step();
        self.commands().values().sum::<u64>() - before
    }

    /// Waits until a replica has everything that its primary has.
    pub(crate) fn wait_for_the_primary(&self) {
        wait_until("the replica has everything", || {
            self.ask::<String>(&["INFO", "replication"]).contains("master_link_status:up")
        });
    }

    /// Returns how many connections listen to the hints of a queue.
    pub(crate) fn listeners(&self, queue: &str) -> u64 {
        let (_, listeners): (String, u64) =
            self.ask(&["PUBSUB", "NUMSUB", &format!("tw:{{{queue}}}:wake")]);
        listeners
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the line of `docs/redis.md` that makes a user.
pub(crate) fn user_of_the_manual() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/redis.md");
    let text = fs::read_to_string(path).unwrap();
    text.lines().find(|line| line.starts_with("ACL SETUSER shop ")).unwrap().to_owned()
}

/// Lets real time pass: what is tested here are processes, which no manual clock moves.
pub(crate) fn pause(time: Duration) {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let _ = receiver.recv_timeout(time);
    drop(sender);
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if so() {
            return;
        }
        pause(Duration::from_millis(2));
    }
    panic!("not within 20 s: {what}");
}
