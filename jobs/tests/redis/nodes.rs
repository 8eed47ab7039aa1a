//! Several nodes on one queue: each is a `Jobs` of its own, with connections of its own.

use std::thread;
use std::time::Duration;

use tickwheel_jobs::Jobs;

use crate::scenarios::holding;
use crate::server::{Server, pause, wait_until};
use crate::support::{Log, MS, Order, in_hand, noting, open};

/// Redis P14: A key has at most one pending job, whichever nodes insert under it. A job that was replaced never starts.
#[test]
fn key_has_one_job_although_every_node_replaces_it() {
    const KEYS: u64 = 20;
    let server = Server::start();
    let log = Log::default();
    let nodes: Vec<_> = (0..3).map(|_| noting(open(&server), &log)).collect();
    thread::scope(|scope| {
        for (node, number) in nodes.iter().zip(1..) {
            scope.spawn(move || {
                for n in 0..10 * KEYS {
                    let (key, replaced) = (n % KEYS, Order(1000 * number + n));
                    node.keyed(&key.to_string()).insert(3_600_000 * MS, replaced).unwrap();
                }
            });
        }
    });
    assert_eq!(nodes[0].count().unwrap().pending, KEYS);
    for key in 0..KEYS {
        let node = &nodes[key as usize % nodes.len()];
        node.keyed(&key.to_string()).insert(10 * MS, Order(key)).unwrap();
    }
    wait_until("all ran", || (0..KEYS).all(|key| log.of(key) > 0));
    wait_until("all ended", || in_hand(&nodes[0]) == 0);
    assert_eq!(nodes[0].count().unwrap().pending, 0);
    nodes[0].check().unwrap();
    for node in nodes {
        node.shutdown().unwrap();
    }
    log.each_once(KEYS as usize);
}

/// A process that runs no jobs calls one that another process runs. A pause by a third one reaches the node.
#[test]
fn calls_and_pauses_cross_processes() {
    let server = Server::start();
    let node = || open(&server).handle(|order: Order, run| run.set_result(&order.0)).start();
    let nodes: [Jobs; 2] = [node().unwrap(), node().unwrap()];
    let (caller, operator) = (open(&server).client().unwrap(), open(&server).client().unwrap());
    assert_eq!(caller.call::<_, u64>(Order(7), 60_000 * MS).unwrap(), 7);
    operator.kind::<Order>().pause().unwrap();
    pause(1500 * MS);
    let id = caller.insert(Duration::ZERO, Order(8)).unwrap();
    pause(300 * MS);
    assert!(caller.get(id).unwrap().is_some(), "a second after the pause nothing starts");
    operator.kind::<Order>().resume().unwrap();
    wait_until("it has run", || caller.get(id).unwrap().is_none());
    caller.check().unwrap();
    for node in nodes {
        node.shutdown().unwrap();
    }
}

/// P39: A claimed job names the node whose row has the number in the job's fence, and no other node.
#[test]
fn claimed_job_names_its_own_node() {
    let server = Server::start();
    let (handler, _starts, go_on) = holding(|_: &Order| true);
    let jobs = open(&server).handle(handler).start().unwrap();
    let id = jobs.insert(Duration::ZERO, Order(1)).unwrap();
    let client = open(&server).client().unwrap();
    let node = || client.get(id).unwrap().and_then(|job| job.node);
    wait_until("the node is known", || node().is_some());
    let mut rows: Vec<(Vec<u8>, String)> = server.ask(&["HGETALL", "tw:{jobs}:nodes"]);
    let (number, row) = rows.pop().unwrap();
    let put = |number: &[u8], row: String| {
        let _: i64 = server.by_hand("HSET", "nodes", &[number, row.as_bytes()]);
    };
    let host = client.nodes().unwrap().pop().unwrap().host;
    put(&[7; 8], row.replace(&host, "elsewhere"));
    assert_eq!(node(), Some(format!("{host}/{}", std::process::id())));
    put(&number, row.replace(&host, "moved"));
    assert_eq!(node(), Some(format!("moved/{}", std::process::id())));
    // A row that cannot be read leaves the job without a node, and in its list.
    put(&number, "no row".to_owned());
    assert_eq!((node(), client.running().count()), (None, 1));
    go_on.send(()).unwrap();
    jobs.shutdown().unwrap();
}
