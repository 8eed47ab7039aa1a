//! Changes that wait for replicas: `Builder::replicas`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use tickwheel_jobs::{
    Builder, Cancel, Client, InsertErrorKind, JobId, Jobs, NewJob, OpenError, Run,
};

use crate::proxy::Proxy;
use crate::sentinel_servers::{master, replica_of};
use crate::server::{Server, pause, wait_until};
use crate::support::{Log, MS, Order, each_runs_once, in_hand, noting, now, open, signal};

const HOUR: Duration = Duration::from_secs(3600);
/// Longer than inserts are answered in the test below.
const LONG: Duration = Duration::from_secs(8);
/// With it an answer of the replicas may take a quarter of a second.
const LEASE: Duration = Duration::from_secs(4);
/// The job that another node cancels.
const CANCELLED: u64 = 1000;

fn waiting(server: &Server) -> Builder {
    open(server).replicas(1).lease(LEASE)
}

/// Redis P4: An insert waits for a replica that stands still, and fails with `Unknown` at its limit. Clients without
/// replicas do not wait.
#[test]
fn insert_is_unknown_if_its_replica_stands_still() {
    let server = master();
    let replica = replica_of(server.port);
    let limit = Duration::from_secs(3);
    let client = waiting(&server).call_timeout(limit).client().unwrap();
    client.insert(HOUR, Order(1)).unwrap();
    signal(&replica, Signal::SIGSTOP);
    let began = now();
    let refused = client.insert(HOUR, Order(2)).unwrap_err();
    let took = began.elapsed();
    assert!(took >= limit, "{took:?}");
    let InsertErrorKind::Unknown(id) = *refused.kind() else { panic!("{refused:?}") };
    // A client that waits for no replica is not delayed, and neither is a question.
    let other = open(&server).client().unwrap();
    other.insert(HOUR, Order(3)).unwrap();
    assert_eq!(other.count().unwrap().pending, 3);
    signal(&replica, Signal::SIGCONT);
    assert_eq!(
        client.insert_job(NewJob::new(refused.into_inner()).at(HOUR).id(id)).unwrap().id,
        id
    );
    assert!(client.cancel(id).unwrap().is_cancelled());
    assert_eq!(client.count().unwrap().pending, 2);
    client.check().unwrap();
}

/// Inserts until the replica has nothing more, and an insert is not answered. Returns what was
/// acknowledged, and how many inserts were not: a busy machine has some before.
fn insert_until_the_end(client: &Client, stalled: &AtomicBool) -> (Vec<JobId>, u64) {
    let (mut acknowledged, mut unknown) = (Vec::new(), 0);
    let began = now();
    for n in (0..).take_while(|_| began.elapsed() < LONG) {
        match client.insert(HOUR, Order(n)) {
            Ok(id) => acknowledged.push(id),
            Err(refused) => {
                assert!(matches!(refused.kind(), InsertErrorKind::Unknown(_)), "{refused:?}");
                unknown += 1;
                if stalled.load(Ordering::Acquire) {
                    break;
                }
            }
        }
    }
    (acknowledged, unknown)
}

/// Redis P4: A promoted replica has every job whose insert was acknowledged.
#[test]
fn replica_that_is_promoted_has_every_acknowledged_job() {
    let mut server = master();
    let proxy = Proxy::to(server.port);
    let replica = replica_of(proxy.port);
    let stalled = Arc::new(AtomicBool::new(false));
    let inserting: Vec<_> = (0..4)
        .map(|_| {
            let client = waiting(&server).call_timeout(800 * MS).client().unwrap();
            let stalled = Arc::clone(&stalled);
            std::thread::spawn(move || insert_until_the_end(&client, &stalled))
        })
        .collect();
    wait_until("jobs are there", || server.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]) > 200);
    // Nothing comes to the replica any more, and the server goes on.
    proxy.stall(true);
    stalled.store(true, Ordering::Release);
    let (mut acknowledged, mut unknown) = (Vec::new(), 0);
    for thread in inserting {
        let (ids, many) = thread.join().unwrap();
        acknowledged.extend(ids);
        unknown += many;
    }
    let stored: u64 = server.ask(&["HLEN", "tw:{jobs}:jobs"]);
    server.kill();
    let _: () = replica.ask(&["REPLICAOF", "NO", "ONE"]);
    let found = open(&replica).client().unwrap();
    let pending = found.count().unwrap().pending;
    println!("{} acknowledged, {stored} stored, {pending} found", acknowledged.len());
    for id in &acknowledged {
        assert!(found.get(*id).unwrap().is_some(), "{id} was acknowledged");
    }
    assert!(acknowledged.len() as u64 + unknown >= stored, "more was stored than was asked for");
    found.check().unwrap();
}

/// P103: Claims and ends of runs wait for no replica.
#[test]
fn claims_and_ends_wait_for_no_replica() {
    let server = master();
    let replica = replica_of(server.port);
    let log = Log::default();
    let noted = log.clone();
    let handler = move |order: Order, run: &Run| {
        noted.add(order.0);
        if order.0 == CANCELLED {
            wait_until("it is told", || run.is_cancelled());
        }
        Ok(())
    };
    let jobs = waiting(&server).threads(2).handle(handler).start().unwrap();
    signal(&replica, Signal::SIGSTOP);
    let client = open(&server).client().unwrap();
    let id = client.insert(Duration::ZERO, Order(CANCELLED)).unwrap();
    wait_until("it runs", || log.of(CANCELLED) == 1);
    // The node carries the cancel out, and no caller on the node waits for an answer.
    assert_eq!(client.cancel(id).unwrap(), Cancel::Running);
    for n in 0..19 {
        client.insert(Duration::ZERO, Order(n)).unwrap();
    }
    wait_until("all ran", || log.len() == 20);
    wait_until("all ended", || in_hand(&client) == 0);
    signal(&replica, Signal::SIGCONT);
    jobs.shutdown().unwrap();
    log.each_once(20);
}

/// P103: A node claims nothing while one of its inserts waits for a replica.
#[test]
fn node_whose_insert_waits_for_a_replica_claims_nothing() {
    let server = master();
    let replica = replica_of(server.port);
    let log = Log::default();
    let jobs = noting(waiting(&server).call_timeout(HOUR), &log);
    jobs.flush().unwrap();
    signal(&replica, Signal::SIGSTOP);
    let waiting = std::thread::spawn({
        let client = jobs.client();
        move || client.insert(Duration::ZERO, Order(1)).unwrap()
    });
    wait_until("it is stored", || server.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]) == 1);
    let client = open(&server).client().unwrap();
    client.insert(Duration::ZERO, Order(2)).unwrap();
    pause(1000 * MS);
    let counts = client.count().unwrap();
    assert_eq!(
        (counts.pending, counts.claimed + counts.running, log.len()),
        (2, 0, 0),
        "{counts:?}"
    );
    signal(&replica, Signal::SIGCONT);
    waiting.join().unwrap();
    each_runs_once(&client, jobs, &log, 2);
}

/// An insert that wants more replicas than a server can have waits, and fails with `Unknown`. Before a fix, the
/// server refused the number, but only after it had stored the job.
#[test]
fn replicas_beyond_the_number_of_redis_are_waited_for() {
    let server = master();
    let patience = 400 * MS;
    let client = waiting(&server).replicas(usize::MAX).call_timeout(patience).client().unwrap();
    let began = now();
    let refused = client.insert(HOUR, Order(1)).unwrap_err();
    assert!(matches!(refused.kind(), InsertErrorKind::Unknown(_)), "{refused:?}");
    assert!(began.elapsed() >= patience, "{:?}", began.elapsed());
}

/// `replicas` is refused for a store that is no server.
#[test]
fn replicas_are_refused_without_a_server() {
    let refused = Jobs::memory().replicas(1).handle(|_: Order, _| Ok(())).start().unwrap_err();
    assert!(matches!(&refused, OpenError::Config(reason) if reason.contains("replicas(1)")));
}

/// A full server whose replicas are missing fails an insert with `Full`.
#[test]
fn full_server_without_replicas_says_that_it_is_full() {
    let server = master();
    let client = waiting(&server).call_timeout(800 * MS).client().unwrap();
    // The kind is known.
    open(&server).client().unwrap().insert(HOUR, Order(0)).unwrap();
    server.limit_memory("1mb");
    let refused = client.insert(HOUR, Order(1)).unwrap_err();
    let is_full =
        matches!(refused.kind(), InsertErrorKind::Store(tickwheel_jobs::StoreError::Full));
    assert!(is_full, "{refused:?}");
}
