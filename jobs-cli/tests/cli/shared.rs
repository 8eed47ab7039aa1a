//! An application and calls of the command, on a file or on a server: [`place`] of the test is where the jobs are.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tickwheel_jobs::{Fail, Job, JobId, Jobs, Retry};

use crate::{Place, place};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// Longer than anything takes on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
pub(crate) struct Close(pub(crate) u64);

impl Job for Close {
    const KIND: &'static str = "close-order";
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Push {
    pub(crate) to: String,
}

impl Job for Push {
    const KIND: &'static str = "push";
}

/// A job whose payload is no text.
#[derive(Serialize, Deserialize)]
pub(crate) struct Raw;

impl Job for Raw {
    const KIND: &'static str = "raw";

    fn encode(&self) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(vec![0xff, 0x00, 0x1b])
    }
}

/// What a call of the command gave.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn command(store: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel-jobs"));
    command.arg(store).args(args);
    command
}

impl Ended {
    pub(crate) fn of(command: &mut Command) -> Ended {
        let is_of_many = command.get_args().any(|arg| arg == "--all");
        let ended = loop {
            match command.output() {
                // Another test has started a process while this program was being copied, and that process still
                // has the copy open.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                    thread::sleep(Duration::from_millis(5));
                }
                ended => break ended.unwrap(),
            }
        };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = ended.status.code().unwrap();
        // A change of many jobs tells how far it is if it takes more than a second, as on a loaded machine.
        let is_progress = |line: &&str| {
            let words: Vec<&str> = line.split(' ').collect();
            is_of_many
                && matches!(words[..], ["tickwheel-jobs:", n, "of", _, "jobs\n"] if n.parse::<u64>().is_ok())
        };
        let err =
            text(ended.stderr).split_inclusive('\n').filter(|line| !is_progress(line)).collect();
        Ended { code, out: text(ended.stdout), err }
    }

    /// Returns the output of a call that had nothing to complain about.
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, &*self.err), (0, ""), "{}", self.out);
        self.out
    }
}

pub(crate) fn call(store: impl AsRef<OsStr>, args: &[&str]) -> Ended {
    Ended::of(&mut command(store, args))
}

/// Calls the command, which has nothing to complain about.
pub(crate) fn ok(store: impl AsRef<OsStr>, args: &[&str]) -> String {
    call(store, args).ok()
}

pub(crate) fn lines(json: &str) -> Vec<Value> {
    json.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn json(store: impl AsRef<OsStr>, args: &[&str]) -> Vec<Value> {
    lines(&ok(store, args))
}

pub(crate) fn ids(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["id"].as_str().unwrap()).collect()
}

/// An application that closes orders, and whose pushes fail unless they are allowed.
pub(crate) struct Application {
    pub(crate) jobs: Jobs,
    pub(crate) store: String,
    pub(crate) closed: Receiver<u64>,
    pub(crate) allow: Sender<()>,
    /// Removed after the jobs.
    pub(crate) place: Place,
}

/// Returns an application, unless its store cannot be had here.
pub(crate) fn application() -> Option<Application> {
    let place = place()?;
    let (closing, closed) = mpsc::channel();
    let (allow, allowed) = mpsc::channel();
    let allowed = std::sync::Mutex::new(allowed);
    let jobs = place
        .builder()
        .handle(move |close: Close, _| Ok(closing.send(close.0)?))
        .handle_with(Retry::never(), move |push: Push, _| {
            let allowed = allowed.lock().unwrap().try_recv();
            allowed.map_err(|_| Fail::dead(format!("no route to {:?}", push.to)))
        })
        .start()
        .unwrap();
    Some(Application { jobs, store: place.store(), closed, allow, place })
}

impl Application {
    pub(crate) fn wait_for_dead(&self, wanted: u64) {
        wait_until(|| self.jobs.count().unwrap().dead == wanted);
    }

    pub(crate) fn wait_for_gone(&self, id: &str) {
        let id: JobId = id.parse().unwrap();
        wait_until(|| self.jobs.get(id).unwrap().is_none());
    }
}

pub(crate) fn push(to: &str) -> Push {
    Push { to: to.to_owned() }
}

pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LONG, "what was waited for never came");
        thread::sleep(Duration::from_millis(5));
    }
}
