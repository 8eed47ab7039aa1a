//! A gateway that watches devices, and raises an alarm when one of them falls silent.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --features redis --example devices             # a minute
//! cargo run --release -p tickwheel-jobs --features redis --example devices -- --short  # a few seconds
//! ```
//!
//! The gateway has three nodes, which share a queue on a `redis-server` that the example starts. Here a
//! node is a `Jobs` of this process; elsewhere it is a machine. A message may reach any node, one node
//! goes away in the midst, and one device comes back after its alarm. The exit code is 1 unless every
//! silence has raised exactly one alarm, and no device that spoke in time has raised any.
//!
//! What to know before this is copied:
//!
//! - **The key of an alarm is its device.** A key has one pending job, so each message replaces the alarm
//!   of the message before, whichever node took that.
//! - **Any node runs an alarm**, and one of them does. If a node crashes with one in its hands, another
//!   runs it after `Builder::lease`, which is 30 seconds unless it is set.
//! - **A message that comes within 50 ms of the alarm** may be too late: a node has claimed the alarm.
//! - **Each message is a write.** `reschedule` moves an alarm without sending its data again. Of devices
//!   that talk all the time, only one message in a while has to move the alarm.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "devices take their time")]

mod redis_server;

use std::error::Error;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use redis_server::RedisServer;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Client, Job, Jobs};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The job: a device has been silent since a message.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq)]
struct Silent {
    device: usize,
    message: usize,
}

impl Job for Silent {
    const KIND: &'static str = "silent";
}

fn key(device: usize) -> String {
    format!("device-{device}")
}

/// Takes a message of a device: the alarm comes so long after the latest one.
fn heard(node: &Client, silence: Duration, device: usize, message: usize) -> Result<()> {
    node.keyed(&key(device)).insert(silence, Silent { device, message })?;
    Ok(())
}

/// Returns whether a device has left before its alarm: nobody waits for its messages any more.
fn leave(node: &Client, device: usize) -> Result<bool> {
    Ok(node.keyed(&key(device)).cancel()?)
}

fn start(url: &str, number: usize, alarms: Sender<Silent>) -> Result<Jobs> {
    let jobs = Jobs::redis(url)?
        .handle(move |silent: Silent, run| {
            let Silent { device, message } = silent;
            let late = run.late();
            println!("    node {number}: device {device} is silent since message {message} ({late:.1?} late)");
            Ok(alarms.send(silent)?)
        })
        .start()?;
    Ok(jobs)
}

const NODES: usize = 3;
const DEVICES: usize = 12;
/// These devices fall silent after some messages.
const FAILING: [usize; 3] = [3, 6, 9];
const ROUNDS: usize = 12;
/// An alarm that is due so soon may have been claimed.
const CLAIMED_AHEAD: Duration = Duration::from_millis(100);
/// Longer than anything here takes on a loaded machine.
const LONG: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let silence = match env::args().nth(1).as_deref() {
        None => Duration::from_secs(15),
        Some("--short") => Duration::from_millis(1500),
        Some(_) => return Err("usage: devices [--short]".into()),
    };
    let folder = env::temp_dir().join(format!("tickwheel-devices-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let server = RedisServer::start(&folder);
    let result = server.map_err(Into::into).and_then(|it| watch(&it.url(), silence));
    fs::remove_dir_all(&folder)?;
    result
}

/// What a device did: when it sent each message and when that was stored, and when it left.
#[derive(Default, Clone)]
struct Device {
    messages: Vec<(Instant, Instant)>,
    left: Option<Instant>,
}

fn watch(url: &str, silence: Duration) -> Result<()> {
    let (sender, alarms) = mpsc::channel();
    let mut nodes: Vec<Jobs> =
        (1..=NODES).map(|number| start(url, number, sender.clone())).collect::<Result<_>>()?;
    let mut devices = vec![Device::default(); DEVICES];
    let speak = |node: &Client, number: usize, device: &mut Device| -> Result<()> {
        let sent = Instant::now();
        heard(node, silence, number, device.messages.len())?;
        device.messages.push((sent, Instant::now()));
        Ok(())
    };
    println!("{DEVICES} devices speak every {:?}, and {FAILING:?} soon stop", silence / 5);
    for round in 0..ROUNDS {
        for (number, device) in devices.iter_mut().enumerate() {
            if round < ROUNDS / 3 || !FAILING.contains(&number) {
                speak(&nodes[(number + round) % nodes.len()], number, device)?;
            }
        }
        if round == ROUNDS / 2 {
            println!("node {NODES} goes away, and the others have its alarms");
            nodes.pop().map_or(Ok(()), Jobs::shutdown)?;
        }
        thread::sleep(silence / 5);
    }

    let mut raised: Vec<Silent> = Vec::new();
    let mut await_alarm = |number: usize, device: &Device| -> Result<()> {
        let expected = Silent { device: number, message: device.messages.len() - 1 };
        while !raised.contains(&expected) {
            raised.push(alarms.recv_timeout(LONG)?);
        }
        Ok(())
    };
    for (number, device) in devices.iter_mut().enumerate() {
        if FAILING.contains(&number) {
            await_alarm(number, device)?;
        } else if leave(&nodes[0], number)? {
            device.left = Some(Instant::now());
        }
    }
    println!("device {0} comes back, and falls silent again; others have left", FAILING[0]);
    speak(&nodes[0], FAILING[0], &mut devices[FAILING[0]])?;
    await_alarm(FAILING[0], &devices[FAILING[0]])?;
    nodes.into_iter().try_for_each(Jobs::shutdown)?;
    raised.extend(alarms.try_iter());
    check(&devices, &raised, silence)?;
    println!("{} silences were noticed once each, and nothing else", raised.len());
    Ok(())
}

/// Compares the alarms with what the devices did.
fn check(devices: &[Device], raised: &[Silent], silence: Duration) -> Result<()> {
    for (number, device) in devices.iter().enumerate() {
        for (message, (sent, _)) in device.messages.iter().enumerate() {
            let next = device.messages.get(message + 1).map(|(_, stored)| *stored);
            let expected = match next.or(device.left) {
                None => 1..=1,
                Some(next) if next - *sent + CLAIMED_AHEAD < silence => 0..=0,
                Some(_) => 0..=1,
            };
            let alarm = Silent { device: number, message };
            let alarms = raised.iter().filter(|it| **it == alarm).count();
            if !expected.contains(&alarms) {
                let what = format!("device {number} after message {message}");
                return Err(format!("{what}: {alarms} alarms, and not {expected:?}").into());
            }
        }
    }
    Ok(())
}
