//! A child process of the tests about neighbours, on a file and on a server, and the jobs that it runs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::Job;

/// Longer than anything takes on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// Runs until it is told to stop.
#[derive(Serialize, Deserialize)]
pub(crate) struct Long(pub(crate) u32);

impl Job for Long {
    const KIND: &'static str = "long";
}

/// Ends its process after so many milliseconds.
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

/// A process that runs one test of this program. It is killed when it is dropped.
pub(crate) struct Node {
    pub(crate) child: Child,
    pub(crate) said: Receiver<String>,
}

impl Node {
    /// Starts the test, with a place for its jobs in an environment variable.
    pub(crate) fn start(test: &str, variable: &str, place: impl AsRef<OsStr>) -> Node {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(variable, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, what)) = line.split_once("said ") {
                    let _ = sender.send(what.to_owned());
                }
            }
        });
        Node { child, said }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
