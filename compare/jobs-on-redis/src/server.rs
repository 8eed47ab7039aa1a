//! A Redis server for one measurement, and its counters.
//!
//! Ground rules:
//!
//! - Each measurement has a server of its own, on a free port of the loopback and in a directory of its
//!   own, with an append-only file that is synced every second. It is killed at the end.
//! - All counters are the server's: `INFO`, and `MONITOR` where commands of clients have to be told
//!   from those inside of scripts.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Fallible, queues};

use crate::contenders::HOME;

const PROGRAM: &str = "redis-server";
const START: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(20);
/// The commands that run scripts.
const SCRIPTS: [&str; 4] = ["evalsha", "eval", "fcall", "evalsha_ro"];

pub(crate) struct Server {
    child: Child,
    port: u16,
    directory: PathBuf,
    connection: BufReader<TcpStream>,
}

/// The counters of a server, since it started or since they were reset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// How often it read from a client. Commands that a client sends together are one read, up to 16 kB.
    pub(crate) reads: f64,
    /// Every command, those inside of scripts too.
    pub(crate) commands: f64,
    pub(crate) cpu_us: f64,
    pub(crate) longest_script_ms: f64,
}

/// The commands of clients in some time, and those inside of scripts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) sent: u64,
    pub(crate) inner: u64,
}

impl Server {
    pub(crate) fn start() -> Fallible<Server> {
        let directory = queues::work_directory(HOME);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let port = free_port()?;
        let mut command = Command::new(PROGRAM);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--loglevel", "warning"]);
        command.args(["--latency-tracking-info-percentiles", "50 99 100", "--dir"]);
        command.arg(&directory).stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{PROGRAM}: {error}"))?;
        match connect(port) {
            Ok(connection) => Ok(Server { child, port, directory, connection }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a command of words without spaces, and returns its answer if that is one text.
    fn ask(&mut self, command: &str) -> Fallible<String> {
        let failed = |error: std::io::Error| format!("{command}: {error}");
        let stream = self.connection.get_mut();
        stream.write_all(format!("{command}\r\n").as_bytes()).map_err(failed)?;
        let mut line = String::new();
        self.connection.read_line(&mut line).map_err(failed)?;
        match line.trim_end().split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_owned()),
            Some(("$", length)) => {
                let length: usize = length.parse().map_err(|_| format!("{command}: {line}"))?;
                let mut text = vec![0; length + 2];
                self.connection.read_exact(&mut text).map_err(failed)?;
                text.truncate(length);
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            _ => Err(format!("{command}: {line}")),
        }
    }

    /// Sets the counters to zero.
    pub(crate) fn reset_counters(&mut self) -> Fallible {
        self.ask("CONFIG RESETSTAT").map(drop)
    }

    pub(crate) fn counters(&mut self) -> Fallible<Counters> {
        let stats = self.ask("INFO stats")?;
        let cpu = self.ask("INFO cpu")?;
        let commands = self.ask("INFO commandstats")?;
        let latencies = self.ask("INFO latencystats")?;
        let calls = commands.lines().filter_map(|line| number_after(line, "calls="));
        let scripts = latencies.lines().filter(|line| {
            SCRIPTS
                .iter()
                .any(|name| line.starts_with(&format!("latency_percentiles_usec_{name}:")))
        });
        let longest = scripts.filter_map(|line| number_after(line, "p100=")).fold(0.0, f64::max);
        Ok(Counters {
            // Without the read of this `INFO stats` itself.
            reads: field(&stats, "total_reads_processed")? - 1.0,
            commands: calls.sum(),
            cpu_us: 1e6 * (field(&cpu, "used_cpu_user")? + field(&cpu, "used_cpu_sys")?),
            longest_script_ms: longest / 1000.0,
        })
    }

    /// The bytes that the data takes, and how many keys there are.
    pub(crate) fn memory(&mut self) -> Fallible<(f64, f64)> {
        let memory = self.ask("INFO memory")?;
        let keys = self.ask("DBSIZE")?.parse::<f64>().map_err(|error| error.to_string())?;
        // The buffers of clients and of the append-only file are not data.
        let overhead = ["mem_clients_normal", "mem_aof_buffer"];
        let overhead: f64 = overhead.iter().filter_map(|name| field(&memory, name).ok()).sum();
        Ok((field(&memory, "used_memory")? - overhead, keys))
    }

    /// Counts the commands that arrive in some time.
    pub(crate) fn watch(&mut self, time: Duration) -> Fallible<Watched> {
        let failed = |error: std::io::Error| format!("MONITOR: {error}");
        let mut monitor = connect(self.port)?;
        monitor.get_mut().write_all(b"MONITOR\r\n").map_err(failed)?;
        let mut line = String::new();
        monitor.read_line(&mut line).map_err(failed)?;
        let (start, mut watched) = (Instant::now(), Watched::default());
        while let Some(left) = time.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            monitor.get_mut().set_read_timeout(Some(left)).map_err(failed)?;
            line.clear();
            match monitor.read_line(&mut line) {
                Ok(_) if line.split(']').next().is_some_and(|client| client.ends_with(" lua")) => {
                    watched.inner += 1;
                }
                Ok(_) => watched.sent += 1,
                Err(_) => break,
            }
        }
        Ok(watched)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn free_port() -> Fallible<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

/// Connects once the server answers.
fn connect(port: u16) -> Fallible<BufReader<TcpStream>> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(ANSWER)).map_err(|error| error.to_string())?;
                return Ok(BufReader::new(stream));
            }
            Err(error) if start.elapsed() > START => return Err(format!("{PROGRAM}: {error}")),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// A field of an answer to `INFO`.
fn field(info: &str, name: &str) -> Fallible<f64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.ok_or_else(|| format!("INFO has no {name}"))
}

/// The number behind a name in a line such as `calls=1,usec=2`.
fn number_after(line: &str, name: &str) -> Option<f64> {
    line[line.find(name)? + name.len()..].split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{field, number_after};

    #[test]
    fn counters_are_read_from_the_text_of_info() {
        assert_eq!(field("# Stats\r\na:1\r\nab:2.5\r\n", "ab"), Ok(2.5));
        assert_eq!(
            number_after("cmdstat_get:calls=21,usec=175,usec_per_call=8.33", "calls="),
            Some(21.0)
        );
        let line = "latency_percentiles_usec_evalsha:p50=1.003,p99=2.007,p100=3.007\r";
        assert_eq!(number_after(line, "p100="), Some(3.007));
    }
}
