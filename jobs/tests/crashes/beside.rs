//! What a job that ends its process does to the jobs beside it: children run them on a file, and die.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, thread};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs, Run};

use crate::node::{Killer, LONG, Long, Node, say};

const MS: Duration = Duration::from_millis(1);
/// The environment variable with the file of a child.
const FILE: &str = "TICKWHEEL_NEIGHBOURS_FILE";

/// Was inserted after the crash.
#[derive(Serialize, Deserialize)]
struct Fresh;

impl Job for Fresh {
    const KIND: &'static str = "fresh";
}

/// Is handled in batches. One of them ends its process.
#[derive(Serialize, Deserialize)]
struct Row(u32);

impl Job for Row {
    const KIND: &'static str = "row";
}

/// A batch holds this many rows, and the test inserts as many.
const ROWS: usize = 40;
const POISON: u32 = 7;

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
        // The rows fill one batch, so it starts whole even if a loaded machine takes long to collect it.
        .handle_batch(ROWS, Duration::from_secs(10), |rows: &[(Row, Run)]| {
            let numbers: Vec<String> = rows.iter().map(|(Row(n), _)| n.to_string()).collect();
            say(&numbers.join(" "));
            if rows.iter().any(|(Row(n), _)| *n == POISON) {
                std::process::abort();
            }
            Ok(())
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

fn start(folder: &Path) -> Node {
    Node::start("beside::a_child", FILE, folder.join("jobs.db"))
}

impl Node {
    fn tell(&mut self, what: &str) {
        writeln!(self.process.child.stdin.as_mut().unwrap(), "{what}").unwrap();
    }

    /// Returns what the child says next, or `None` once it has ended.
    fn next(&self) -> Option<String> {
        match self.said.recv_timeout(LONG) {
            Ok(what) => Some(what),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("a child says nothing any more"),
        }
    }
}

const RUNS: u32 = 60;

/// P6, P17: Long runs that two crashes interrupted delay no new job, and each of them starts again.
#[test]
fn long_runs_that_were_interrupted_twice_hold_back_no_new_job() {
    let folder = tempfile::tempdir().unwrap();
    let client = Jobs::open(folder.path().join("jobs.db")).unwrap().client().unwrap();
    for n in 0..RUNS {
        client.insert(Duration::ZERO, Long(n)).unwrap();
    }
    for _ in 0..2 {
        let mut node = start(folder.path());
        let started = (0..RUNS).map_while(|_| node.next()).count();
        assert_eq!(started, RUNS as usize);
        node.process.kill();
    }
    let mut node = start(folder.path());
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
    let folder = tempfile::tempdir().unwrap();
    let client = Jobs::open(folder.path().join("jobs.db")).unwrap().client().unwrap();
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
        let mut node = start(folder.path());
        // It is dead when the next child has taken the file over.
        let mut says = node.next();
        let dead: Vec<_> = client.dead().map(|job| job.id).collect();
        assert!(dead.is_empty() || dead == [killer], "{ms} ms: after {deaths} crashes: {dead:?}");
        if dead == [killer] {
            break;
        }
        assert!(begun.elapsed() < LONG, "{ms} ms: the killer is not dead after {deaths} crashes");
        while says.is_some_and(|what| what != "killed") {
            says = node.next();
        }
        let _ = node.process.wait();
        deaths += 1;
    }
    assert!(deaths >= 5, "{ms} ms: {deaths}");
    assert_eq!(client.count().unwrap().dead, 1);
    client.check().unwrap();
}

/// P17: A job that ends its process 50 ms, 500 ms or 5 s after its start takes no neighbour with it.
#[test]
fn job_that_kills_its_process_takes_no_neighbour_with_it() {
    thread::scope(|scope| {
        for ms in [50, 500, 5000] {
            scope.spawn(move || no_neighbour_dies(ms));
        }
    });
}

/// P43: A job that ends its process takes the others of its batch along once, and not twice: from then on it is a batch
/// by itself. It is dead after five crashes, and the others are done.
#[test]
fn poisonous_job_takes_its_batch_along_once() {
    let folder = tempfile::tempdir().unwrap();
    let client = Jobs::open(folder.path().join("jobs.db")).unwrap().client().unwrap();
    client.insert_batch((0..ROWS as u32).map(|n| (Duration::ZERO, Row(n)))).unwrap();
    let mut with_poison = Vec::new();
    for _life in 0..5 {
        let node = start(folder.path());
        while let Some(said) = node.next() {
            let rows: Vec<u32> = said.split(' ').map(|n| n.parse().unwrap()).collect();
            if rows.contains(&POISON) {
                with_poison.push(rows.len());
            }
        }
    }
    assert_eq!(with_poison, [ROWS, 1, 1, 1, 1]);
    let _node = start(folder.path());
    let begun = Instant::now();
    loop {
        let counts = client.count().unwrap();
        if (counts.pending, counts.running, counts.dead) == (0, 0, 1) {
            break;
        }
        assert!(begun.elapsed() < LONG, "{counts:?}");
        thread::sleep(5 * MS);
    }
    client.check().unwrap();
}
