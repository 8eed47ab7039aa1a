//! A process of a contender, which reads its commands line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;

use crate::build;
use crate::contenders::Contender;
use crate::server::Server;
use crate::starts::Start;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(120);

/// The process. It is killed when this is dropped.
pub(crate) struct Node {
    child: Child,
    lines: Receiver<String>,
    name: &'static str,
}

/// The work of a process beside the commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub(crate) works: bool,
    pub(crate) lease: Duration,
    /// How long each handler takes.
    pub(crate) hold: Duration,
    /// Whether the queue has a limit of a rate that it never reaches.
    pub(crate) limited: bool,
    /// Among how many partitions the jobs are shared out, each of which runs one job at once. 0 for none.
    pub(crate) partitions: usize,
}

/// A process that runs jobs with empty handlers.
pub(crate) const WORKER: Role = Role {
    works: true,
    lease: Duration::from_secs(30),
    hold: Duration::ZERO,
    limited: false,
    partitions: 0,
};
/// A process that runs none.
pub(crate) const PRODUCER: Role = Role { works: false, ..WORKER };

/// The times of an insert.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    Now,
    /// Evenly over a time that begins at some µs since 1970.
    From(u64, Duration),
}

impl Node {
    /// Starts a process, and waits until it is ready.
    pub(crate) fn start(contender: &Contender, url: &str, role: Role) -> Fallible<Node> {
        let mut command = build::command(contender);
        command.arg(format!("url={url}"));
        command.arg(format!("role={}", if role.works { "work" } else { "produce" }));
        command.arg(format!("lease_ms={}", role.lease.as_millis()));
        command.arg(format!("hold_ms={}", role.hold.as_millis()));
        command.arg(format!("limited={}", u8::from(role.limited)));
        command.arg(format!("partitions={}", role.partitions));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let output = child.stdout.take().ok_or("no output")?;
        let (lines_in, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if lines_in.send(line).is_err() {
                    break;
                }
            }
        });
        let node = Node { child, lines, name: contender.name };
        match node.line()?.as_str() {
            "ready" => Ok(node),
            line => Err(format!("{}: `{line}` instead of ready", node.name)),
        }
    }

    /// Starts several processes that run jobs.
    pub(crate) fn workers(
        contender: &Contender,
        server: &Server,
        number: usize,
    ) -> Fallible<Vec<Node>> {
        (0..number).map(|_| Node::start(contender, &server.url(), WORKER)).collect()
    }

    /// Inserts jobs. Returns how long it took.
    pub(crate) fn insert(
        &mut self,
        first: usize,
        jobs: usize,
        bulk: usize,
        due: Due,
    ) -> Fallible<Duration> {
        let (from, spread) = match due {
            Due::Now => (0, 0),
            Due::From(from, spread) => (from, spread.as_micros()),
        };
        let nanos = self.number(&format!("insert {first} {jobs} {bulk} {from} {spread}"))?;
        Ok(Duration::from_nanos(nanos))
    }

    /// Inserts jobs for now one by one, with a pause after each.
    pub(crate) fn insert_one_by_one(&mut self, jobs: usize, pause: Duration) -> Fallible {
        self.number(&format!("one 0 {jobs} {}", pause.as_micros())).map(drop)
    }

    /// Returns how many runs have begun in this process.
    pub(crate) fn started(&mut self) -> Fallible<usize> {
        Ok(self.number("started")? as usize)
    }

    /// Returns how many jobs the server holds that have not ended.
    pub(crate) fn unfinished(&mut self) -> Fallible<usize> {
        Ok(self.number("unfinished")? as usize)
    }

    /// Returns the runs that have begun in this process.
    pub(crate) fn starts(&mut self) -> Fallible<Vec<Start>> {
        self.send("starts")?;
        let mut starts = Vec::new();
        loop {
            let line = self.line()?;
            if line == "end" {
                return Ok(starts);
            }
            starts.push(Start::parse(&line).ok_or_else(|| self.not_understood(&line))?);
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn send(&mut self, command: &str) -> Fallible {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        let sent = writeln!(input, "{command}").and_then(|()| input.flush());
        sent.map_err(|error| format!("{}: {command}: {error}", self.name))
    }

    fn line(&self) -> Fallible<String> {
        let line = self.lines.recv_timeout(ANSWER);
        line.map_err(|error| format!("{}: no answer: {error}", self.name))
    }

    /// Sends a command whose answer is a word and a number.
    fn number(&mut self, command: &str) -> Fallible<u64> {
        self.send(command)?;
        let line = self.line()?;
        let number = line.split_once(' ').and_then(|(_, number)| number.parse().ok());
        number.ok_or_else(|| self.not_understood(&line))
    }

    fn not_understood(&self, line: &str) -> String {
        format!("{}: {line}", self.name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until a number of runs have begun in all nodes together. Gives up when none has begun for `patience`.
pub(crate) fn wait(nodes: &mut [Node], runs: usize, patience: Duration) -> Fallible {
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        let mut started = 0;
        for node in nodes.iter_mut() {
            started += node.started()?;
        }
        if started > seen {
            (seen, since) = (started, Instant::now());
        }
        if started >= runs || since.elapsed() > patience {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The runs of all nodes, in the order of their starts.
pub(crate) fn collect(nodes: &mut [Node]) -> Fallible<Vec<Start>> {
    let mut starts = Vec::new();
    for node in nodes.iter_mut() {
        starts.extend(node.starts()?);
    }
    starts.sort_by_key(|start| start.at);
    Ok(starts)
}
