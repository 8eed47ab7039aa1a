//! The devices: when each reports, and to which node.
//!
//! A device waits until its report is stored, or its node was killed, before it sends the next one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::Client;

use crate::node::{Node, Stored};
use crate::shared::queue::{Queue, micros};
use crate::{Plan, Result};

/// A report of a device. The times are microseconds since 1970.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    pub(crate) device: u64,
    pub(crate) node: usize,
    pub(crate) sent: u64,
    /// When a node said that it is stored.
    pub(crate) stored: Option<u64>,
}

/// What happened.
pub(crate) struct Field {
    /// By their numbers, and so in the order of sending.
    pub(crate) reports: Vec<Report>,
    pub(crate) nodes: Vec<Node>,
    /// How far the server's clock is ahead, in microseconds.
    pub(crate) skew: i64,
    /// How many jobs the queue had at the end.
    pub(crate) left: u64,
}

/// What happens at some time, in microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A device reports.
    Report(u64),
    /// A node is killed.
    Kill,
}

struct Driver<'a> {
    plan: &'a Plan,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    reports: Vec<Report>,
    /// The last report of each device.
    last: Vec<Option<usize>>,
    /// How often each device has still to fall silent.
    pauses: Vec<u32>,
    nodes: Vec<Node>,
    stored: Receiver<Stored>,
    draw: Draw,
}

/// How long a device waits before it asks again whether its report was stored.
const RETRY: u64 = 20_000;
const PROGRESS_INTERVAL: u64 = 5_000_000;

/// Lets the devices report until their time is up, and waits until every silence was noticed.
pub(crate) fn open(plan: &Plan, queue: &Queue, log: &Path) -> Result<Field> {
    let (storing, stored) = channel();
    let mut nodes = Vec::new();
    for number in 0..plan.nodes {
        nodes.push(Node::start(number, queue, log, plan.silence, storing.clone())?);
    }
    drop(storing);
    let devices = usize::try_from(plan.devices)?;
    let mut driver = Driver {
        plan,
        events: BinaryHeap::new(),
        reports: Vec::new(),
        last: vec![None; devices],
        pauses: vec![0; devices],
        nodes,
        stored,
        draw: Draw(0xde7),
    };
    driver.run()?;
    let client = queue.builder()?.client()?;
    let left = driver.wait_until_silent(&client)?;
    for node in &mut driver.nodes {
        node.end()?;
    }
    driver.take_answers();
    let Driver { reports, nodes, .. } = driver;
    Ok(Field { reports, nodes, skew: queue.skew(), left })
}

impl Driver<'_> {
    /// Lets the devices report until their time is up.
    fn run(&mut self) -> Result<()> {
        let begun = now();
        let open = span(self.plan.open);
        for device in 0..self.plan.devices {
            let first = begun + self.draw.below(span(self.plan.interval));
            self.events.push(Reverse((first, Event::Report(device))));
            // One device in five falls silent, and comes back.
            self.pauses[device as usize] = u32::from(self.draw.below(5) == 0);
        }
        for kill in 0..self.plan.kills as u64 {
            let at = begun + open * (2 * kill + 1) / (2 * self.plan.kills as u64);
            self.events.push(Reverse((at, Event::Kill)));
        }
        let mut progress = begun + PROGRESS_INTERVAL;
        while let Some(&Reverse((at, event))) = self.events.peek() {
            if at > begun + open {
                break;
            }
            self.wait_until(at);
            if at > progress {
                let passed = (progress - begun) / 1_000_000;
                println!("{passed:3} s: {} reports", self.reports.len());
                progress += PROGRESS_INTERVAL;
            }
            self.events.pop();
            match event {
                Event::Report(device) => self.report(device)?,
                Event::Kill => self.kill()?,
            }
        }
        Ok(())
    }

    /// Lets a device report, unless it waits for an answer.
    fn report(&mut self, device: u64) -> Result<()> {
        let at = device as usize;
        if let Some(last) = self.last[at].map(|last| self.reports[last])
            && last.stored.is_none()
            && self.nodes[last.node].is_alive()
        {
            self.events.push(Reverse((now() + RETRY, Event::Report(device))));
            return Ok(());
        }
        let alive: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.nodes[*node].is_alive()).collect();
        let node = alive[self.draw.below(alive.len() as u64) as usize];
        let number = self.reports.len();
        let sent = now();
        self.nodes[node].report(device, number as u64)?;
        self.reports.push(Report { device, node, sent, stored: None });
        self.last[at] = Some(number);
        let interval = span(self.plan.interval);
        let mut next = interval / 2 + self.draw.below(interval / 2);
        if self.pauses[at] > 0 && self.draw.below(4) == 0 {
            self.pauses[at] -= 1;
            next += span(self.plan.silence + self.plan.notice());
        }
        self.events.push(Reverse((sent + next, Event::Report(device))));
        Ok(())
    }

    /// Kills a node. The devices that wait for it report to another the next time.
    fn kill(&mut self) -> Result<()> {
        let node = self.nodes.iter_mut().find(|node| node.is_alive()).ok_or("no node is left")?;
        node.kill()?;
        println!("a node was killed, after {} reports", self.reports.len());
        Ok(())
    }

    /// Waits until no job is left. Returns how many are left after all.
    fn wait_until_silent(&mut self, client: &Client) -> Result<u64> {
        let limit = now() + span(self.plan.silence + 2 * self.plan.notice());
        loop {
            let left = client.count()?;
            let left = left.pending + left.running;
            if left == 0 || now() > limit {
                return Ok(left);
            }
            self.wait_until(now() + 50_000);
        }
    }

    /// Takes what the nodes answer until then.
    fn wait_until(&mut self, time: u64) {
        loop {
            let left = Duration::from_micros(time.saturating_sub(now()));
            match self.stored.recv_timeout(left) {
                Ok(answer) => self.take(answer),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(left),
            }
        }
    }

    fn take_answers(&mut self) {
        while let Ok(answer) = self.stored.try_recv() {
            self.take(answer);
        }
    }

    fn take(&mut self, (number, at): Stored) {
        if let Some(report) = self.reports.get_mut(number as usize) {
            report.stored = Some(at);
        }
    }
}

fn now() -> u64 {
    micros(SystemTime::now())
}

fn span(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Numbers at random, the same each time: splitmix64 (Steele, Lea and Flood, 2014).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }
}
