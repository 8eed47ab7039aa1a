//! What a job that ends its process does to the jobs beside it, on several nodes: `tests/crashes/beside.rs`
//! has the same on a file.
//!
//! Three nodes in processes of their own run ten long jobs and one that ends its process. A node that has
//! ended is followed by another one, until the killer is dead.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Client, Job, JobId, Jobs, Run};

use crate::node::{self, Killer, LONG, Long, say};
use crate::server::{Server, pause};
use crate::support::{MS, now, open};

/// The environment variable with the URL of a node.
const NODE: &str = "TICKWHEEL_REDIS_NEIGHBOURS";
const LEASE: Duration = Duration::from_millis(1500);
const NODES: usize = 3;
const NEIGHBOURS: u32 = 10;

/// Runs until it is told to stop, as a future.
#[derive(Serialize, Deserialize)]
struct Waits(u32);

impl Job for Waits {
    const KIND: &'static str = "waits";
}

/// Runs in a process of its own: says what starts and which run has lost its lease.
#[test]
fn node() {
    let Ok(url) = std::env::var(NODE) else { return };
    let builder = Jobs::redis(&url).unwrap().lease(LEASE).threads(16);
    let builder = builder
        .handle(|Long(n): Long, run: &Run| {
            say(&format!("start {n}"));
            while !run.is_cancelled() {
                pause(20 * MS);
            }
            say(&format!("lost {n}"));
            Ok(())
        })
        .handle(|Killer(ms): Killer, _: &Run| {
            pause(Duration::from_millis(ms));
            say("killed");
            std::process::abort()
        });
    #[cfg(feature = "tokio")]
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    #[cfg(feature = "tokio")]
    let builder =
        builder.runtime(runtime.handle().clone()).handle_async(|Waits(n): Waits, run| async move {
            say(&format!("start {n}"));
            run.cancelled().await;
            say(&format!("lost {n}"));
            Ok(())
        });
    let jobs = builder.start().unwrap();
    // Ends with the parent, or by it.
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(jobs);
}

struct Node {
    process: node::Node,
    /// The neighbours that started here and have not lost their lease.
    runs: BTreeSet<u32>,
    killed: bool,
}

impl Node {
    fn start(server: &Server) -> Node {
        let process = node::Node::start("neighbours::node", NODE, server.url());
        Node { process, runs: BTreeSet::new(), killed: false }
    }

    /// Takes note of what the node has said. `lost` counts leases that were lost while it lived.
    fn listen(&mut self, lost: &mut BTreeMap<u32, u32>) {
        while let Ok(said) = self.process.said.try_recv() {
            match said.split_once(' ') {
                Some(("start", n)) => drop(self.runs.insert(n.parse().unwrap())),
                Some((_, n)) => {
                    let n = n.parse().unwrap();
                    self.runs.remove(&n);
                    *lost.entry(n).or_default() += 1;
                }
                None => self.killed = true,
            }
        }
    }
}

fn insert_neighbour(client: &Client, n: u32) -> JobId {
    // Every third one is a future, where there are any.
    if cfg!(feature = "tokio") && n % 3 == 2 {
        return client.insert(Duration::ZERO, Waits(n)).unwrap();
    }
    client.insert(Duration::ZERO, Long(n)).unwrap()
}

/// Lets nodes die until the killer is dead. No other job is dead then, and none was interrupted but by a
/// death.
fn no_neighbour_dies(ms: u64) {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    // Two that start before the killer, and some behind it.
    let mut neighbours: Vec<JobId> = (0..2).map(|n| insert_neighbour(&client, n)).collect();
    let killer = client.insert(Duration::ZERO, Killer(ms)).unwrap();
    neighbours.extend((2..NEIGHBOURS).map(|n| insert_neighbour(&client, n)));
    let mut nodes: Vec<Node> = (0..NODES).map(|_| Node::start(&server)).collect();
    let begun = now();
    let (mut deaths, mut lost) = (0, BTreeMap::new());
    loop {
        for node in &mut nodes {
            // What it said last is read after its end.
            let has_ended = node.process.process.child.try_wait().unwrap().is_some();
            if has_ended {
                pause(50 * MS);
            }
            node.listen(&mut lost);
            if has_ended {
                assert!(node.killed, "a node ended by itself");
                deaths += 1;
                *node = Node::start(&server);
            }
        }
        let dead: Vec<_> = client.dead().map(|job| job.id).collect();
        assert!(dead.is_empty() || dead == [killer], "{ms} ms: after {deaths} crashes: {dead:?}");
        if dead == [killer] {
            break;
        }
        assert!(begun.elapsed() < LONG, "{ms} ms: the killer is not dead after {deaths} crashes");
        pause(20 * MS);
    }
    println!(
        "{ms} ms: dead after {deaths} crashes in {:?}, leases lost: {lost:?}",
        begun.elapsed()
    );
    assert!(deaths >= 5, "{ms} ms: {deaths}");
    let counts = client.count().unwrap();
    assert_eq!(
        (counts.pending + counts.claimed + counts.running, counts.dead),
        (NEIGHBOURS.into(), 1)
    );
    for (n, id) in (0..).zip(&neighbours) {
        let job = client.get(*id).unwrap().unwrap();
        let causes = deaths + lost.get(&n).copied().unwrap_or(0);
        assert!(
            job.interruptions <= causes,
            "{ms} ms: neighbour {n}, after {causes} causes: {job:?}"
        );
    }
    client.check().unwrap();
}

/// Redis P17: A job that ends its process 50 ms, 500 ms or 5 s after its start takes no job of any node with it.
#[test]
fn job_that_kills_its_node_spares_its_neighbours() {
    std::thread::scope(|scope| {
        for ms in [50, 500, 5000] {
            scope.spawn(move || no_neighbour_dies(ms));
        }
    });
}
