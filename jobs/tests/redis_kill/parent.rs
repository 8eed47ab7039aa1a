//! The parent: nodes that share a server, and what becomes of them and of it.
//!
//! One node makes calls, so that its calls have an order; the others only run jobs. Each node lives for
//! a while, and another takes its place: it shuts down, dies at a named point, is killed, or is stopped
//! past its lease and goes on.

use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::deaths::child::{Instructions, now_us};
use crate::deaths::lives::{LONGEST_LIFE, Lives, Node, Result};
use crate::deaths::record::{Event, FileEnd, LEASE_MS, Record};
use crate::deaths::shutdown::Ending;
use crate::outage::Outage;
use crate::proxy::Proxy;
use crate::queue;
use crate::server::{Server, pause};
use crate::stoppable_replica::Replica;

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
const STEP: Duration = Duration::from_millis(10);

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
    pub(crate) lives: Lives,
    slots: Vec<Slot>,
    pub(crate) stops: usize,
    pub(crate) restarts: usize,
}

/// A place that always has a node.
struct Slot {
    node: Node,
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
            lives: Lives::new("life", seed),
            slots: Vec::new(),
            stops: 0,
            restarts: 0,
        };
        story.lives.note(0, Record::Server { is_up: true });
        story
    }

    /// Returns the log in the order of time: by what the children say, who read the same clock.
    pub(crate) fn log(&self) -> Vec<Event> {
        let mut log = self.lives.log();
        log.sort_by_key(|event| match &event.record {
            Record::Ready { at, .. }
            | Record::Call { at, .. }
            | Record::Answer { at, .. }
            | Record::Ending { at }
            | Record::Told { at, .. }
            | Record::Progress { at, .. }
            | Record::End { at, .. } => *at,
            Record::Start(start) => start.at,
            _ => event.stamp,
        });
        log
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
            let next = self.start(slot)?;
            self.slots.push(next);
        }
        let restart = begun + time / 3 + self.lives.draw.u64(..time / 3);
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
            let slot = self.lives.draw.usize(..NODES);
            match self.lives.draw.u64(..200) {
                0..3 => self.slots[slot].node.process.child.kill()?,
                3 => self.stop(slot)?,
                4..7 if self.may_lack_rights() => {
                    let away = Duration::from_millis(self.lives.draw.u64(..300));
                    self.deny(away)?;
                }
                7..9 => self.write_by_hand()?,
                _ => {}
            }
        }
        for mut slot in std::mem::take(&mut self.slots) {
            slot.node.process.child.kill()?;
            self.bury(slot)?;
        }
        // Jobs that are in no set are in no list either.
        if self.may_lack_rights() { Ok(()) } else { self.look() }
    }

    /// Puts another node in the place of one that has ended, and lets a stopped one go on.
    fn attend(&mut self, slot: usize) -> Result<()> {
        let Slot { node, stopped_until } = &mut self.slots[slot];
        let life = node.life;
        if node.process.child.try_wait()?.is_some() {
            let next = self.start(slot)?;
            let ended = std::mem::replace(&mut self.slots[slot], next);
            return self.bury(ended);
        }
        if stopped_until.take_if(|until| *until < now_us()).is_some() {
            // This is noted first: the node may start a job before this process could note it.
            self.lives.note(life, Record::Stopped { is_stopped: false });
            kill(pid(&node.process.child)?, Signal::SIGCONT)?;
        }
        Ok(())
    }

    /// Stops a node past its lease.
    fn stop(&mut self, slot: usize) -> Result<()> {
        let beyond = 1000 * (LEASE_MS + 200 + self.lives.draw.u64(..1000));
        let Slot { node, stopped_until } = &mut self.slots[slot];
        if stopped_until.is_none() && node.process.child.try_wait()?.is_none() {
            *stopped_until = Some(now_us() + beyond);
            self.lives.note(node.life, Record::Stopped { is_stopped: true });
            kill(pid(&node.process.child)?, Signal::SIGSTOP)?;
            self.stops += 1;
        }
        Ok(())
    }

    /// Makes the server go away and come back, unless a node is about to connect. Returns whether
    /// it did.
    fn restart(&mut self) -> Result<bool> {
        let log = self.lives.log();
        let is_ready = |slot: &Slot| {
            let has_said = |event: &Event| {
                event.life == slot.node.life && matches!(event.record, Record::Ready { .. })
            };
            slot.stopped_until.is_none() && log.iter().any(has_said)
        };
        if !self.slots.iter().all(is_ready) {
            return Ok(false);
        }
        let away = Duration::from_millis(self.lives.draw.u64(..400));
        self.go_away(away)?;
        self.restarts += 1;
        Ok(true)
    }

    /// Lets children run until no job is left, also none of those that half done scripts have left in no set.
    pub(crate) fn drain(&mut self) -> Result<()> {
        loop {
            let (url, rights_change) = (self.url_of(CALLER).into(), self.may_lack_rights());
            self.lives.drain(|lives| Instructions {
                rights_change,
                ..lives.instructions(PathBuf::clone(&url), LONG_MS)
            })?;
            if !self.may_lack_rights() || !self.mend()? {
                break;
            }
        }
        self.look()?;
        self.remove_what_is_set_aside()?;
        self.look()
    }

    fn look(&self) -> Result<()> {
        let mut look = queue::look(&self.server)?;
        look.violation = look.violation.filter(|found| !self.is_expected(found));
        self.lives.note(0, Record::Looked(look));
        Ok(())
    }

    pub(crate) fn end(&self) -> Result<FileEnd> {
        let mut end = queue::end(&self.server)?;
        if self.may_lack_rights() {
            // A script that ended in its midst has not counted what it had stored.
            end.rows.retain(|(name, _)| name != "kinds");
        }
        Ok(end)
    }

    /// Makes a node for a slot.
    fn start(&mut self, slot: usize) -> Result<Slot> {
        let url = self.url_of(slot).into();
        let rights_change = self.may_lack_rights();
        let lives = &mut self.lives;
        let mut life = lives.instructions(url, LONG_MS);
        (life.stay_ms, life.rights_change) = (300 + lives.draw.u64(..2500), rights_change);
        if lives.draw.u64(..3) == 0 {
            let (point, most) = POINTS[lives.draw.usize(..POINTS.len())];
            life.doom = Some(lives.doom(point, most));
        }
        let after = life.stay_ms / 4;
        life.ending = match lives.draw.u64(..6) {
            0..3 => Ending::Quiet,
            3 => Ending::Amid(after),
            4 => Ending::Soon(after, lives.draw.u64(..400)),
            _ => Ending::Drop(after),
        };
        if slot == CALLER {
            lives.let_call(&mut life, 20, 60);
        }
        Ok(Slot { node: lives.spawn(life)?, stopped_until: None })
    }

    fn may_lack_rights(&self) -> bool {
        self.outage == Outage::Rights
    }

    /// Notes how a node ended.
    fn bury(&mut self, mut slot: Slot) -> Result<()> {
        if slot.stopped_until.is_some() {
            self.lives.note(slot.node.life, Record::Stopped { is_stopped: false });
        }
        self.lives.bury(&mut slot.node)?;
        Ok(())
    }
}

fn pid(child: &Child) -> Result<Pid> {
    Ok(Pid::from_raw(child.id().try_into()?))
}
