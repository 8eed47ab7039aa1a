//! A child process that tells its parent something, a line for each thing, and the jobs that the tests about neighbours
//! run in it, on a file and on a server.

use std::ffi::OsStr;
use std::io::Write;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::Job;

use super::process::Process;

/// Longer than anything takes on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// A job whose run ends when the jobs ask it to stop.
#[derive(Serialize, Deserialize)]
pub(crate) struct Long(pub(crate) u32);

impl Job for Long {
    const KIND: &'static str = "long";
}

/// A job whose run ends its process. The number is the delay in milliseconds.
#[derive(Serialize, Deserialize)]
pub(crate) struct Killer(pub(crate) u64);

impl Job for Killer {
    const KIND: &'static str = "killer";
}

/// Tells the parent.
pub(crate) fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "said {what}").and_then(|()| out.flush());
}

/// A process, and what it says.
pub(crate) struct Node {
    pub(crate) process: Process,
    pub(crate) said: Receiver<String>,
}

impl Node {
    /// Starts the test, with a place for its jobs in an environment variable.
    pub(crate) fn start(test: &str, variable: &str, place: impl AsRef<OsStr>) -> Node {
        let (sender, said) = mpsc::channel();
        let process = Process::start(test, variable, place, move |line| {
            if let Some((_, what)) = line.split_once("said ") {
                let _ = sender.send(what.to_owned());
            }
        });
        Node { process: process.unwrap(), said }
    }
}
