//! `tickwheel-jobs top` in a real terminal: keys, another size, and the terminal given back at every end.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "another process is the subject, so time is real")]

#[path = "terminal/tmux.rs"]
mod tmux;

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tickwheel_jobs::{Client, Fail, Job, Jobs, Retry};

use tmux::Tmux;

#[derive(Serialize, Deserialize)]
struct Push;

impl Job for Push {
    const KIND: &'static str = "push";
}

/// A terminal with `top` in it, over a file with three dead jobs.
struct Top {
    tmux: Tmux,
    client: Client,
    pid: Pid,
    _folder: TempDir,
}

impl Top {
    /// Waits until the process has gone, and asserts that the shell saw this status and has its terminal back.
    ///
    /// The shell is asked afterwards: it throws away the rest of a line whose command dies of an interrupt.
    fn assert_ended(&self, status: u8) {
        while kill(self.pid, None).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.tmux.type_line("echo \"ended: $?\"");
        self.tmux.assert_given_back(&format!("ended: {status}"));
    }
}

/// Makes a file with three dead jobs, and starts `top` on it.
fn start(name: &str) -> Option<Top> {
    let tmux = Tmux::start(name)?;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let jobs = Jobs::open(&file).unwrap();
    let jobs =
        jobs.handle_with(Retry::never(), |_: Push, _| Err(Fail::dead("no route"))).start().unwrap();
    jobs.insert_batch((0..3).map(|_| (Duration::ZERO, Push))).unwrap();
    while jobs.count().unwrap().dead < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    jobs.shutdown().unwrap();
    let client = Jobs::open(&file).unwrap().client().unwrap();
    let (command, pid) = (env!("CARGO_BIN_EXE_tickwheel-jobs"), folder.path().join("pid"));
    tmux.type_line(&format!(
        "sh -c 'echo $$ >{}; exec {command} top {}'",
        pid.display(),
        file.display()
    ));
    tmux.wait_for("push");
    assert!(tmux.is_taken());
    let pid = std::fs::read_to_string(pid).unwrap();
    Some(Top { tmux, client, pid: Pid::from_raw(pid.trim().parse().unwrap()), _folder: folder })
}

/// Keys turn to the tables, the help follows a new size, dead jobs are retried after a question, and `q` gives the
/// terminal back.
#[test]
fn terminal_shows_top_and_takes_its_keys() {
    let Some(top) = start("keys") else { return };
    let Top { tmux, client, .. } = &top;
    tmux.press("2");
    tmux.wait_for("no nodes");
    tmux.press("?");
    tmux.wait_for("delete dead jobs: it asks first");
    tmux.resize(120, 30);
    tmux.wait_until("the footer in the last row", |screen| {
        let lines: Vec<&str> = screen.lines().collect();
        lines.len() == 30 && lines[29].contains("q quit")
    });
    tmux.press("Escape");
    tmux.press("4");
    tmux.wait_for("no route");
    tmux.press("R");
    tmux.wait_for("Retry 3 dead jobs of push with the error \"no route\"?");
    tmux.press("n");
    tmux.wait_for("nothing was changed");
    assert_eq!(client.count().unwrap().dead, 3);
    tmux.press("R");
    tmux.wait_for("Sure?");
    tmux.press("y");
    tmux.wait_for("3 jobs were retried");
    assert_eq!((client.count().unwrap().dead, client.count().unwrap().pending), (0, 3));
    tmux.wait_for("no dead jobs");
    tmux.press("q");
    top.assert_ended(0);
}

/// Each signal that ends a program gives the terminal back, and the shell sees which signal it was.
#[test]
fn terminal_is_given_back_after_a_signal() {
    for (signal, status) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        let Some(top) = start(signal.as_ref()) else { return };
        kill(top.pid, signal).unwrap();
        top.assert_ended(status);
    }
}

/// An error before the view begins leaves the terminal as it is.
#[test]
fn terminal_stays_as_it_is_after_an_error() {
    let Some(tmux) = Tmux::start("error") else { return };
    let command = env!("CARGO_BIN_EXE_tickwheel-jobs");
    tmux.type_line(&format!("{command} top absent.db; echo \"failed: $?\""));
    tmux.assert_given_back("failed: 2");
    assert!(tmux.screen().contains("absent.db"), "{}", tmux.screen());
}
