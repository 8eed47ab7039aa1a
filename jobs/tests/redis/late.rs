//! What arrives late: a copy of a request that was sent again on another connection, and answered
//! there.
//!
//! A network that was cut in two delivers what its hosts have sent meanwhile, in any order, and even if no
//! process waits for it any more.

use std::time::Duration;

use tickwheel_jobs::{InsertErrorKind, Jobs, NewJob, Run};

use crate::lost::hash_of;
use crate::proxy::{Fate, Proxy};
use crate::server::{Server, wait_until};
use crate::support::{Gate, Log, MS, Order, bytes, in_hand, noting, open};

/// An answer may take an eighth of it.
const LEASE: Duration = Duration::from_millis(2000);

fn through(proxy: &Proxy) -> tickwheel_jobs::Builder {
    Jobs::redis(proxy.url()).unwrap().lease(LEASE)
}

/// Redis P5: A late copy of an insert inserts nothing. The server once compared the number of a batch with that of the
/// last batch alone, and took a copy of an earlier one for a new one: the job ran a second time.
#[test]
fn insert_copy_that_is_late_inserts_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    let client = through(&proxy).client().unwrap();
    client.insert(Duration::ZERO, Order(0)).unwrap();
    for n in 0..3 {
        proxy.plan(&hash_of("insert_many"), &[Fate::Hold]);
        client.insert(Duration::ZERO, Order(1 + 2 * n)).unwrap();
        client.insert(Duration::ZERO, Order(2 + 2 * n)).unwrap();
        wait_until("both ran", || log.len() as u64 == 3 + 2 * n);
        wait_until("both ended", || in_hand(&jobs) == 0);
        assert_eq!(proxy.met(), 1 + n);
        proxy.deliver_all();
    }
    server.do_what_has_arrived();
    wait_until("nothing runs", || in_hand(&jobs) == 0);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(7);
}

/// Redis P6: A late copy of a claim claims nothing. Before a fix, it claimed the jobs that were due then, without the
/// knowledge of its process: a job waited for the end of its lease, and was interrupted once more.
#[test]
fn claim_copy_that_is_late_claims_nothing() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    for claims_something in [false, true] {
        let proxy = Proxy::to(server.port);
        let log = Log::default();
        let jobs = noting(through(&proxy), &log);
        proxy.plan(&hash_of("claim"), &[Fate::Hold, Fate::Arrive]);
        if claims_something {
            client.insert(Duration::ZERO, Order(0)).unwrap();
            wait_until("it ran", || log.of(0) == 1);
        }
        // Requests of a new connection come before the copy.
        wait_until("a claim is held, and its copy has come", || proxy.met() == 2);
        let before = proxy.requests();
        if claims_something {
            for n in 1..4 {
                client.insert(Duration::ZERO, Order(n)).unwrap();
                wait_until("the next ran", || log.of(n) == 1);
            }
        }
        // The copy may be among them. What follows it comes after its answer.
        wait_until("the process goes on", || proxy.requests() >= before + 2);
        wait_until("all ended", || in_hand(&client) == 0);
        proxy.stall(true);
        client.insert(Duration::ZERO, Order(4)).unwrap();
        proxy.deliver_first();
        server.do_what_has_arrived();
        let counts = client.count().unwrap();
        assert_eq!(
            (counts.pending, counts.claimed + counts.running),
            (1, 0),
            "a copy of an old claim took it"
        );
        proxy.stall(false);
        proxy.go_on();
        wait_until("it ran", || log.of(4) == 1);
        wait_until("it ended", || in_hand(&client) == 0);
        assert_eq!(log.highest_attempt(), 1, "interrupted by nothing");
        client.check().unwrap();
        jobs.shutdown().unwrap();
    }
}

/// Redis P9, D14: The end of a run on a node that was cut off does not end the next run of the job, if it arrives
/// during that run.
#[test]
fn end_that_is_late_does_not_end_another_run() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let client = open(&server).client().unwrap();
    let (log, slow) = (Log::default(), Log::default());
    let first = noting(through(&proxy).lease(3000 * MS), &log);
    client.insert(Duration::ZERO, Order(0)).unwrap();
    wait_until("a job ran", || first.stats().completed == 1);
    // Its end is a commit of its own, which would be held too.
    wait_until("it ended", || in_hand(&client) == 0);
    proxy.plan(&hash_of("complete"), &[Fate::Hold; 100]);
    let id = client.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("its end is under way", || proxy.met() > 0);
    let gate = Gate::default();
    let (its_gate, noted) = (gate.clone(), slow.clone());
    let handler = move |order: Order, _: &Run| {
        noted.add(order.0);
        its_gate.wait();
        Ok(())
    };
    let second = open(&server).handle(handler).start().unwrap();
    wait_until("it runs again", || slow.of(1) == 1);
    proxy.plan(b"", &[]);
    proxy.deliver_all();
    server.do_what_has_arrived();
    assert_eq!(in_hand(&client), 1, "a late end has ended it");
    client.check().unwrap();
    gate.open();
    wait_until("it ended", || client.get(id).unwrap().is_none());
    client.check().unwrap();
    first.shutdown().unwrap();
    second.shutdown().unwrap();
    assert_eq!((log.of(1), slow.of(1)), (1, 1));
}

/// Redis P9: Among ends that one call brings, one whose claim is no longer held does nothing, and the others end their
/// jobs.
#[test]
fn ends_beside_one_without_its_claim_end_their_jobs() {
    const JOBS: usize = 6;
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let client = open(&server).client().unwrap();
    let (log, begun, gate) = (Log::default(), Log::default(), Gate::default());
    let (noted, noted_begun, its_gate) = (log.clone(), begun.clone(), gate.clone());
    let handler = move |order: Order, _: &Run| {
        noted_begun.add(order.0);
        its_gate.wait();
        noted.add(order.0);
        Ok(())
    };
    let builder = Jobs::redis(proxy.url()).unwrap().lease(2 * LEASE).threads(JOBS);
    let jobs = builder.handle(handler).start().unwrap();
    let orders = (0..JOBS as u64).map(|n| (Duration::ZERO, Order(n)));
    let ids = client.insert_batch(orders).unwrap();
    wait_until("all run", || begun.len() == JOBS);
    // The ends gather while the first of them waits for its answer.
    proxy.stall(true);
    gate.open();
    wait_until("all have ended", || log.len() == JOBS);
    let removed: i64 = server.by_hand("HDEL", "fence", &[&bytes(ids[JOBS / 2])]);
    assert_eq!(removed, 1);
    proxy.stall(false);
    wait_until("the others have ended", || in_hand(&client) == 1);
    wait_until("it has run again", || log.of(JOBS as u64 / 2) == 2 && in_hand(&client) == 0);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    let runs: Vec<u32> = (0..JOBS as u64).map(|n| log.of(n)).collect();
    assert_eq!(runs, [1, 1, 1, 2, 1, 1]);
}

/// Redis P5: An insert that arrives after its caller stopped waiting is stored once, under the id in the error.
#[test]
fn insert_that_arrives_after_its_caller_left_is_stored_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let direct = open(&server).client().unwrap();
    let client = through(&proxy).call_timeout(2000 * MS).client().unwrap();
    let hour = Duration::from_secs(3600);
    // Now the client needs only one request for an insert.
    client.insert(hour, Order(0)).unwrap();
    proxy.plan(&hash_of("insert_many"), &[Fate::Hold; 100]);
    let refused = client.insert(hour, Order(1)).unwrap_err();
    let InsertErrorKind::Unknown(id) = *refused.kind() else { panic!("{refused:?}") };
    drop(client);
    assert_eq!(direct.count().unwrap().pending, 1);
    proxy.plan(b"", &[]);
    proxy.deliver_all();
    wait_until("the insert has arrived", || direct.get(id).unwrap().is_some());
    direct.insert_job(NewJob::new(refused.into_inner()).at(hour).id(id)).unwrap();
    assert_eq!(direct.count().unwrap().pending, 2);
    direct.check().unwrap();
}
