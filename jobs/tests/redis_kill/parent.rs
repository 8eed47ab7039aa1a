//! The parent: nodes that share a server, and what becomes of them and of it.
//!
//! One node makes calls, so that its calls have an order; the others only run jobs. Each node lives for
//! a while, and another takes its place: it shuts down, dies at a named point, is killed, or is stopped
//! past its lease and goes on.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{env, thread};

use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::child::{Doom, INSTRUCTIONS, Instructions, Periodic, now_us};
use crate::outage::Outage;
use crate::proxy::Proxy;
use crate::queue;
use crate::recall;
use crate::record::{Event, FileEnd, LEASE_MS, Level, Record};
use crate::server::{Server, pause};
use crate::shutdown::Ending;
use crate::stoppable_replica::Replica;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The named points, and at which passage of it at most a child dies.
const POINTS: &[(&str, i64)] = &[
    ("taken over", 1),
    ("before the commit", 30),
    ("after the commit", 30),
    ("claim: after the commit", 12),
    ("before the answers", 30),
    ("in the handler, before", 12),
    ("in the handler, after", 12),
];

/// Which of the nodes makes calls.
const CALLER: usize = 0;
pub(crate) const NODES: usize = 3;
/// How long the longest handlers work, a third of this and up to as long again: longer than a lease.
const LONG_MS: u64 = 2400;
/// How many children empty the queue, at most: a job that ends its process does so five times.
const DRAINING_LIVES: usize = 200;
const STEP: Duration = Duration::from_millis(10);
/// A child that lives longer hangs; nodes that are not all there within this time never are.
const LONGEST_LIFE: Duration = Duration::from_secs(90);

/// The lives of some nodes on one server.
pub(crate) struct Story {
    pub(crate) server: Server,
    /// The way to the server, whichever it is.
    pub(crate) front: Proxy,
    /// What becomes of the server.
    pub(crate) outage: Outage,
    pub(crate) replica: Option<Replica>,
    /// For how long a replica that took over had been sent nothing, in microseconds.
    pub(crate) lack: u64,
    /// How often the server had answered what it had not written when it was killed.
    pub(crate) unwritten: usize,
    /// How often something was written by hand that cannot be read, and whether that happens.
    pub(crate) foreign: Option<usize>,
    /// How many jobs were filed anew.
    pub(crate) mended: u64,
    log: Arc<Mutex<Vec<Event>>>,
    pub(crate) draw: Rng,
    pub(crate) schedules: Vec<Periodic>,
    pub(crate) deadly: bool,
    nodes: Vec<Node>,
    life: u32,
    /// The last life that made calls.
    caller: u32,
    pub(crate) kills: usize,
    pub(crate) stops: usize,
    pub(crate) restarts: usize,
}

struct Node {
    life: u32,
    child: Child,
    reader: JoinHandle<()>,
    /// When the node goes on, which is stopped.
    stopped_until: Option<u64>,
}

impl Story {
    pub(crate) fn new(server: Server, seed: u64) -> Story {
        let front = Proxy::to(server.port);
        let story = Story {
            server,
            front,
            outage: Outage::Restart,
            replica: None,
            lack: 0,
            unwritten: 0,
            foreign: None,
            mended: 0,
            log: Arc::default(),
            draw: Rng::with_seed(seed),
            schedules: Vec::new(),
            deadly: false,
            nodes: Vec::new(),
            life: 0,
            caller: 0,
            kills: 0,
            stops: 0,
            restarts: 0,
        };
        story.note(0, Record::Server { is_up: true });
        story
    }

    /// Returns the log in the order of time: by what the children say, who read the same clock.
    pub(crate) fn log(&self) -> Vec<Event> {
        let mut log = self.log.lock().unwrap().clone();
        log.sort_by_key(|event| match &event.record {
            Record::Ready { at, .. }
            | Record::Call { at, .. }
            | Record::Answer { at, .. }
            | Record::Ending { at }
            | Record::Told { at, .. }
            | Record::End { at, .. } => *at,
            Record::Start(start) => start.at,
            _ => event.stamp,
        });
        log
    }

    pub(crate) fn note(&self, life: u32, record: Record) {
        self.log.lock().unwrap().push(Event { stamp: now_us(), life, record });
    }

    /// Lets nodes live and die for some time, and the server once: from its midst on, no other node is
    /// killed or stopped until the server could go, and the time lasts until then.
    pub(crate) fn tell(&mut self, time: Duration) -> Result<()> {
        if self.outage == Outage::FailOver {
            self.replica = Some(Replica::of(&self.server));
        }
        let begun = now_us();
        let time = u64::try_from(time.as_micros())?;
        for slot in 0..NODES {
            let node = self.start(slot)?;
            self.nodes.push(node);
        }
        let restart = begun + time / 3 + self.draw.u64(..time / 3);
        let mut is_restarted = false;
        while now_us() < begun + time || !is_restarted {
            pause(STEP);
            for slot in 0..NODES {
                self.attend(slot)?;
            }
            if now_us() > restart && !is_restarted {
                if now_us() - restart > u64::try_from(LONGEST_LIFE.as_micros())? {
                    return Err("the nodes were never all there for the server to go".into());
                }
                is_restarted = self.restart()?;
                continue;
            }
            let slot = self.draw.usize(..NODES);
            match self.draw.u64(..200) {
                0..3 => self.nodes[slot].child.kill()?,
                3 => self.stop(slot)?,
                4..7 if self.outage == Outage::Rights => {
                    let away = Duration::from_millis(self.draw.u64(..300));
                    self.deny(away)?;
                }
                7..9 => self.write_by_hand()?,
                _ => {}
            }
        }
        for mut node in std::mem::take(&mut self.nodes) {
            node.child.kill()?;
            self.bury(node)?;
        }
        // Jobs that are in no set are in no list either.
        if self.outage == Outage::Rights { Ok(()) } else { self.look() }
    }

    /// Puts another node in the place of one that has ended, and lets a stopped one go on.
    fn attend(&mut self, slot: usize) -> Result<()> {
        let node = &mut self.nodes[slot];
        if node.child.try_wait()?.is_some() {
            let next = self.start(slot)?;
            let ended = std::mem::replace(&mut self.nodes[slot], next);
            return self.bury(ended);
        }
        if node.stopped_until.is_some_and(|until| until < now_us()) {
            node.stopped_until = None;
            kill(pid(&node.child)?, Signal::SIGCONT)?;
            let life = node.life;
            self.note(life, Record::Stopped { is_stopped: false });
        }
        Ok(())
    }

    /// Stops a node past its lease.
    fn stop(&mut self, slot: usize) -> Result<()> {
        let beyond = 1000 * (LEASE_MS + 200 + self.draw.u64(..1000));
        let node = &mut self.nodes[slot];
        if node.stopped_until.is_none() && node.child.try_wait()?.is_none() {
            let life = node.life;
            node.stopped_until = Some(now_us() + beyond);
            let pid = pid(&node.child)?;
            self.note(life, Record::Stopped { is_stopped: true });
            kill(pid, Signal::SIGSTOP)?;
            self.stops += 1;
        }
        Ok(())
    }

    /// Makes the server go away and come back, unless a node is about to connect. Returns whether
    /// it did.
    fn restart(&mut self) -> Result<bool> {
        let is_ready = |node: &Node| {
            let ready = |event: &Event| {
                event.life == node.life && matches!(event.record, Record::Ready { .. })
            };
            node.stopped_until.is_none() && self.log.lock().unwrap().iter().any(ready)
        };
        if !self.nodes.iter().all(is_ready) {
            return Ok(false);
        }
        let away = Duration::from_millis(self.draw.u64(..400));
        self.go_away(away)?;
        self.restarts += 1;
        Ok(true)
    }

    /// Lets children run until no job is left, also none of those that half done scripts have left in no set.
    pub(crate) fn drain(&mut self) -> Result<()> {
        loop {
            self.drain_once()?;
            if self.outage != Outage::Rights || !self.mend()? {
                break;
            }
        }
        self.look()?;
        self.remove_what_is_set_aside()?;
        self.look()
    }

    fn drain_once(&mut self) -> Result<()> {
        for _ in 0..DRAINING_LIVES {
            let mut life = self.instructions(CALLER);
            (life.drain, life.in_flight, life.doom) = (true, 2048, None);
            life.ending = Ending::Quiet;
            let mut node = self.spawn(life)?;
            let begun = now_us();
            while node.child.try_wait()?.is_none() {
                if now_us() - begun > u64::try_from(LONGEST_LIFE.as_micros())? {
                    node.child.kill()?;
                    self.note(node.life, Record::Failed { text: "a draining life hangs".into() });
                }
                pause(STEP);
            }
            let closed = node.child.wait()?.success();
            self.bury(node)?;
            if closed {
                return Ok(());
            }
        }
        Err(format!("{DRAINING_LIVES} children did not empty the queue").into())
    }

    fn look(&self) -> Result<()> {
        let mut look = queue::look(&self.server)?;
        look.violation = look.violation.filter(|found| !self.is_expected(found));
        self.note(0, Record::Looked(look));
        Ok(())
    }

    pub(crate) fn end(&self) -> Result<FileEnd> {
        let mut end = queue::end(&self.server)?;
        if self.outage == Outage::Rights {
            // A script that ended in its midst has not counted what it had stored.
            end.rows.retain(|(name, _)| name != "kinds");
        }
        Ok(end)
    }

    fn instructions(&mut self, slot: usize) -> Instructions {
        let level = match self.draw.u64(..4) {
            0 | 1 => Level::Synced,
            2 => Level::Written,
            _ => Level::Buffered,
        };
        let mut life = Instructions {
            path: PathBuf::from(self.url_of(slot)),
            seed: self.draw.u64(..),
            life: 0,
            level,
            in_flight: [2, 16, 2048][self.draw.usize(..3)],
            calls: 0,
            stay_ms: 300 + self.draw.u64(..2500),
            ending: Ending::Quiet,
            long_ms: LONG_MS,
            rights_change: self.outage == Outage::Rights,
            drain: false,
            deadly: self.deadly,
            doom: None,
            known: Vec::new(),
            again: Vec::new(),
            schedules: Vec::new(),
        };
        if self.draw.u64(..3) == 0 {
            let (point, most) = POINTS[self.draw.usize(..POINTS.len())];
            let passage = 1 + self.draw.u64(..most as u64) as i64;
            let delay_us = self.draw.u64(..2) * self.draw.u64(..2000);
            life.doom = Some(Doom { point: point.to_owned(), passage, delay_us });
        }
        let after = life.stay_ms / 4;
        life.ending = match self.draw.u64(..6) {
            0..3 => Ending::Quiet,
            3 => Ending::Amid(after),
            4 => Ending::Soon(after, self.draw.u64(..400)),
            _ => Ending::Drop(after),
        };
        if slot == CALLER {
            let log = self.log();
            life.calls = 20 + self.draw.u64(..60);
            life.stay_ms = self.draw.u64(..60);
            life.known = recall::known(&log);
            life.again = recall::unanswered(&log, self.caller);
            life.schedules.clone_from(&self.schedules);
        }
        life
    }

    fn start(&mut self, slot: usize) -> Result<Node> {
        let life = self.instructions(slot);
        let node = self.spawn(life)?;
        if slot == CALLER {
            self.caller = node.life;
        }
        Ok(node)
    }

    fn spawn(&mut self, mut instructions: Instructions) -> Result<Node> {
        self.life += 1;
        let life = self.life;
        instructions.life = life;
        self.note(life, Record::Born);
        let mut child = Command::new(env::current_exe()?)
            .args(["child::life", "--exact", "--nocapture", "--test-threads=1"])
            .env(INSTRUCTIONS, serde_json::to_string(&instructions)?)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let lines = child.stdout.take().ok_or("a child without an output")?;
        let log = Arc::clone(&self.log);
        let reader = thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(std::result::Result::ok) {
                // The test harness writes lines of its own.
                if let Ok(record) = serde_json::from_str(&line) {
                    log.lock().unwrap().push(Event { stamp: now_us(), life, record });
                }
            }
        });
        Ok(Node { life, child, reader, stopped_until: None })
    }

    /// Notes how a node ended.
    fn bury(&mut self, mut node: Node) -> Result<()> {
        let status = node.child.wait()?;
        node.reader.join().map_err(|_| "the reader panicked")?;
        let life = node.life;
        if node.stopped_until.is_some() {
            self.note(life, Record::Stopped { is_stopped: false });
        }
        if let Some(code) = status.code().filter(|code| *code != 0) {
            self.note(life, Record::Failed { text: format!("life {life} ended with {code}") });
        }
        self.note(life, Record::Gone { by: status.to_string() });
        self.kills += usize::from(status.signal().is_some());
        Ok(())
    }
}

impl Drop for Story {
    /// Leaves no child behind.
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
    }
}

fn pid(child: &Child) -> Result<Pid> {
    Ok(Pid::from_raw(child.id().try_into()?))
}
