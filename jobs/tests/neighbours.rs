//! What a job that ends its process does to the jobs beside it: children run them on a file, and die.
#![cfg(unix)]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs, Run};

const MS: Duration = Duration::from_millis(1);
/// Longer than anything takes on a loaded machine.
const LONG: Duration = Duration::from_secs(240);
/// The file of a child.
const FILE: &str = "TICKWHEEL_NEIGHBOURS_FILE";

/// Runs until it is asked to stop.
#[derive(Serialize, Deserialize)]
struct Long(u32);

impl Job for Long {
    const KIND: &'static str = "long";
}

/// Ends its process after this number of milliseconds.
#[derive(Serialize, Deserialize)]
struct Killer(u64);

impl Job for Killer {
    const KIND: &'static str = "killer";
}

/// Was inserted after the crash.
#[derive(Serialize, Deserialize)]
struct Fresh;

impl Job for Fresh {
    const KIND: &'static str = "fresh";
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "said {what}").and_then(|()| out.flush());
}

/// Not a test: the child processes of the tests below run it.
#[test]
fn a_child() {
    let Some(path) = env::var_os(FILE) else { return };
    let wait = |run: &Run| {
        while !run.is_cancelled() {
            thread::sleep(5 * MS);
        }
    };
    let jobs = Jobs::open(PathBuf::from(path))
        .unwrap()
        .threads(80)
        .handle(move |Long(n): Long, run| {
            say(&format!("long {n}"));
            wait(run);
            Ok(())
        })
        .handle(|Killer(ms): Killer, _| {
            thread::sleep(Duration::from_millis(ms));
            say("killed");
            std::process::abort()
        })
        .handle(|_: Fresh, _| {
            say("fresh");
            Ok(())
        })
        .start()
        .unwrap();
    // Ends with the parent, or by it.
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if line.trim() == "fresh" {
            jobs.insert(Duration::ZERO, Fresh).unwrap();
        }
        line.clear();
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("tickwheel-jobs-neighbours-{name}-{}", std::process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("jobs.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Node {
    child: Child,
    said: Receiver<String>,
}

impl Node {
    fn start(path: &Path) -> Node {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["a_child", "--exact", "--nocapture", "--test-threads=1"])
            .env(FILE, path)
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

    fn tell(&mut self, what: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
    }

    /// Returns what the child says next, or `None` once it has ended.
    fn next(&self) -> Option<String> {
        match self.said.recv_timeout(LONG) {
            Ok(what) => Some(what),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("a child says nothing any more"),
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

const RUNS: u32 = 60;

/// Long runs that two crashes interrupted delay no new job, and each of them starts again.
#[test]
fn long_runs_that_were_interrupted_twice_hold_back_no_new_job() {
    let folder = Folder::new("long");
    let client = Jobs::open(folder.file()).unwrap().client().unwrap();
    for n in 0..RUNS {
        client.insert(Duration::ZERO, Long(n)).unwrap();
    }
    for _ in 0..2 {
        let mut node = Node::start(&folder.file());
        let started = (0..RUNS).map_while(|_| node.next()).count();
        assert_eq!(started, RUNS as usize);
        node.kill();
    }
    let mut node = Node::start(&folder.file());
    let mut said = vec![node.next().unwrap()];
    node.tell("fresh");
    while said.len() <= RUNS as usize {
        said.push(node.next().unwrap());
    }
    let fresh = said.iter().position(|what| what == "fresh").unwrap();
    let last = said.len() - 1;
    assert!(fresh < last, "the new job waited for all {last} long runs");
    assert!(client.dead().next().is_none());
}

/// Lets children die until the killer is dead. No other job is dead then.
fn no_neighbour_dies(ms: u64) {
    let folder = Folder::new(&ms.to_string());
    let client = Jobs::open(folder.file()).unwrap().client().unwrap();
    // Two that start before the killer, and some behind it.
    for n in 0..2 {
        client.insert(Duration::ZERO, Long(n)).unwrap();
    }
    let killer = client.insert(Duration::ZERO, Killer(ms)).unwrap();
    for n in 2..10 {
        client.insert(Duration::ZERO, Long(n)).unwrap();
    }
    let begun = Instant::now();
    let mut deaths = 0;
    loop {
        let mut node = Node::start(&folder.file());
        // It is dead when the next child has taken the file over.
        let says = node.next();
        let dead: Vec<_> = client.dead().map(|job| job.id).collect();
        assert!(dead.is_empty() || dead == [killer], "after {deaths} crashes: {dead:?}");
        if dead == [killer] {
            break;
        }
        assert!(begun.elapsed() < LONG, "the killer is not dead after {deaths} crashes");
        let mut says = says;
        while says.is_some_and(|what| what != "killed") {
            says = node.next();
        }
        let _ = node.child.wait();
        deaths += 1;
    }
    assert!(deaths >= 5, "{deaths}");
    assert_eq!(client.count().unwrap().dead, 1);
    client.check().unwrap();
}

/// A job that ends its process 50 ms after its start takes no neighbour with it.
#[test]
fn job_that_kills_after_50_ms_takes_no_neighbour_with_it() {
    no_neighbour_dies(50);
}

/// A job that ends its process 500 ms after its start takes no neighbour with it.
#[test]
fn job_that_kills_after_500_ms_takes_no_neighbour_with_it() {
    no_neighbour_dies(500);
}

/// A job that ends its process 5 s after its start takes no neighbour with it.
#[test]
fn job_that_kills_after_5_s_takes_no_neighbour_with_it() {
    no_neighbour_dies(5000);
}
