//! The lives of children on one place: what the parent tells them, how it kills them, and the log of what they report.

use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;

use super::child::{Doom, INSTRUCTIONS, Instructions, Periodic, now_us};
use super::history::History;
use super::process::Process;
use super::recall;
use super::record::{Event, FileEnd, Level, Record};
use super::shutdown::Ending;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A child that lives longer hangs. If the nodes are not all ready within this time, they never are.
pub(crate) const LONGEST_LIFE: Duration = Duration::from_secs(90);
/// How many children empty a place, at most: a job that ends its process does so five times.
const DRAINING_LIVES: usize = 200;

/// The children of a test, one after the other, and the log of their reports.
pub(crate) struct Lives {
    /// The test that a child runs.
    test: &'static str,
    log: Arc<Mutex<Vec<Event>>>,
    pub(crate) draw: Rng,
    pub(crate) schedules: Vec<Periodic>,
    /// Jobs end the process now and then.
    pub(crate) deadly: bool,
    /// How many children ended without a shutdown.
    pub(crate) kills: usize,
    born: u32,
    /// The last life that made calls.
    caller: u32,
}

/// A child that lives.
pub(crate) struct Node {
    pub(crate) life: u32,
    pub(crate) process: Process,
    /// Is disconnected once the child has reported everything.
    reports: Receiver<()>,
}

impl Lives {
    pub(crate) fn new(test: &'static str, seed: u64) -> Lives {
        let (log, schedules, draw) = (Arc::default(), Vec::new(), Rng::with_seed(seed));
        Lives { test, log, draw, schedules, deadly: false, kills: 0, born: 0, caller: 0 }
    }

    pub(crate) fn note(&self, life: u32, record: Record) {
        self.log.lock().unwrap().push(Event { stamp: now_us(), life, record });
    }

    /// Returns the log in the order in which the parent had it.
    pub(crate) fn log(&self) -> Vec<Event> {
        self.log.lock().unwrap().clone()
    }

    /// Returns instructions for a child that only runs jobs.
    pub(crate) fn instructions(&mut self, place: PathBuf, long_ms: u64) -> Instructions {
        let level = match self.draw.u64(..4) {
            0 | 1 => Level::Synced,
            2 => Level::Written,
            _ => Level::Buffered,
        };
        Instructions {
            path: place,
            seed: self.draw.u64(..),
            life: 0,
            level,
            in_flight: [2, 16, 2048][self.draw.usize(..3)],
            calls: 0,
            stay_ms: 0,
            ending: Ending::Quiet,
            long_ms,
            rights_change: false,
            drain: false,
            deadly: self.deadly,
            doom: None,
            known: Vec::new(),
            again: Vec::new(),
            schedules: Vec::new(),
        }
    }

    /// Lets the child make `least` calls, or up to `more` - 1 more, also on jobs of earlier children.
    pub(crate) fn let_call(&mut self, life: &mut Instructions, least: u64, more: u64) {
        let (log, end) = (self.log(), FileEnd::default());
        let history = History::new(&log, &end);
        life.calls = least + self.draw.u64(..more);
        life.stay_ms = self.draw.u64(..60);
        life.known = recall::known(&history);
        life.again = recall::unanswered(&history, self.caller);
        life.schedules.clone_from(&self.schedules);
        self.caller = self.born + 1;
    }

    /// Returns the death of a child at a named point, at one of its first passages.
    pub(crate) fn doom(&mut self, point: &str, most: i64) -> Doom {
        let passage = 1 + self.draw.u64(..most as u64) as i64;
        let delay_us = self.draw.u64(..2) * self.draw.u64(..2000);
        Doom { point: point.to_owned(), passage, delay_us }
    }

    /// Makes a child.
    pub(crate) fn spawn(&mut self, mut instructions: Instructions) -> Result<Node> {
        self.born += 1;
        let life = self.born;
        instructions.life = life;
        self.note(life, Record::Born);
        let (reported, reports) = mpsc::channel();
        let log = Arc::clone(&self.log);
        let instructions = serde_json::to_string(&instructions)?;
        let process = Process::start(self.test, INSTRUCTIONS, instructions, move |line| {
            let _open = &reported;
            if let Ok(record) = serde_json::from_str(line) {
                log.lock().unwrap().push(Event { stamp: now_us(), life, record });
            }
        })?;
        Ok(Node { life, process, reports })
    }

    /// Waits for the end of a child, and notes it. Returns whether it was shut down.
    pub(crate) fn bury(&mut self, node: &mut Node) -> Result<bool> {
        let (life, status) = (node.life, node.process.wait()?);
        if let Some(code) = status.code().filter(|code| *code != 0) {
            self.note(life, Record::Failed { text: format!("life {life} ended with {code}") });
        }
        self.note(life, Record::Gone { by: status.to_string() });
        self.kills += usize::from(status.signal().is_some());
        Ok(status.success())
    }

    /// Makes a child, and lets it live. Returns whether it was shut down.
    pub(crate) fn live(
        &mut self,
        life: Instructions,
        kill_after: Option<Duration>,
    ) -> Result<bool> {
        let mut node = self.spawn(life)?;
        let limit = kill_after.unwrap_or(LONGEST_LIFE);
        let timed_out = node.reports.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if timed_out {
            node.process.child.kill()?;
        }
        if timed_out && kill_after.is_none() {
            self.note(node.life, Record::Failed { text: format!("life {} hangs", node.life) });
        }
        self.bury(&mut node)
    }

    /// Lets children run until no job is left, and ends the schedules.
    pub(crate) fn drain(&mut self, mut life: impl FnMut(&mut Lives) -> Instructions) -> Result<()> {
        for _ in 0..DRAINING_LIVES {
            let mut life = life(self);
            (life.drain, life.in_flight) = (true, 2048);
            life.schedules.clone_from(&self.schedules);
            if self.live(life, None)? {
                return Ok(());
            }
        }
        Err(format!("{DRAINING_LIVES} children did not leave the place empty").into())
    }
}

/// Writes a log to a file, for the search for the cause.
pub(crate) fn write(log: &[Event], path: &Path) {
    let lines = log.iter().map(|event| format!("{event:?}\n"));
    std::fs::write(path, lines.collect::<String>()).unwrap();
}
