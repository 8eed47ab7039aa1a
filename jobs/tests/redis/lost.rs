//! Requests and replies that are lost or cut, connections that break, servers that go away and come back.

use std::time::{Duration, SystemTime};

use tickwheel_jobs::{
    BulkCounts, Client, HistoryEntry, InsertErrorKind, JobId, Jobs, NewJob, Step, StoreError, Until,
};

use crate::proxy::{End, Fate, Proxy};
use crate::scenarios::holding;
use crate::server::{Server, wait_until};
use crate::support::{Log, MS, Order, each_runs_once, in_hand, noting, now, open};

/// The way through a proxy.
fn through(proxy: &Proxy) -> tickwheel_jobs::Builder {
    Jobs::redis(proxy.url()).unwrap()
}

pub(crate) fn hash_of(script: &str) -> Vec<u8> {
    tickwheel_jobs::hook::hash_of(script).unwrap().into_bytes()
}

/// Adds up all that the history of a queue has.
fn summed(client: &Client, of: impl Fn(&HistoryEntry) -> u64) -> u64 {
    let ever =
        SystemTime::UNIX_EPOCH..SystemTime::UNIX_EPOCH + Duration::from_secs(100 * 365 * 86_400);
    client.queue().history(Step::Hour, ever).unwrap().iter().map(of).sum()
}

/// Every fate of a connection: cut after a number of bytes of the request, or of the reply.
pub(crate) fn fates() -> Vec<Fate> {
    let mut fates = vec![Fate::CloseToServer, Fate::CloseToClient];
    for how in [End::Close, End::Reset] {
        fates.extend((0..1600).step_by(79).map(|bytes| Fate::CutRequest(bytes, how)));
        fates.extend((0..64).step_by(5).map(|bytes| Fate::CutReply(bytes, how)));
    }
    fates
}

/// Redis P5, D18: A batch whose request or reply is cut at any byte is stored once, and the history counts it once.
#[test]
fn insert_that_is_cut_anywhere_is_stored_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    let client = through(&proxy).client().unwrap();
    client.insert(Duration::ZERO, Order(0)).unwrap();
    let fates = fates();
    let mut order = 1;
    for fate in &fates {
        proxy.plan(&hash_of("insert_many"), &[*fate]);
        let batch = (order..order + 5).map(|n| (Duration::ZERO, Order(n)));
        client.insert_batch(batch).unwrap();
        order += 5;
    }
    assert_eq!(proxy.met(), fates.len() as u64);
    assert_eq!(summed(&client, |entry| entry.inserted), order);
    wait_until("all ran", || log.len() as u64 == order);
    wait_until("all ended", || in_hand(&jobs) == 0);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(order as usize);
}

/// Redis P6, D18: No job runs twice if the request or reply of a claim or of an end is cut at any byte.
#[test]
fn claim_or_end_that_is_cut_anywhere_runs_no_job_twice() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let jobs = noting(through(&proxy), &log);
    let client = open(&server).client().unwrap();
    let fates = fates();
    for (n, fate) in fates.iter().enumerate() {
        let script = if n % 2 == 0 { "claim" } else { "complete" };
        proxy.plan(&hash_of(script), &[*fate]);
        client.insert(Duration::ZERO, Order(n as u64)).unwrap();
        wait_until("it ran", || log.of(n as u64) > 0);
        wait_until("it was cut", || proxy.met() as usize > n);
    }
    wait_until("all ended", || in_hand(&client) == 0);
    assert_eq!(proxy.met() as usize, fates.len());
    client.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(fates.len());
}

/// Redis P5: A call whose reply is lost returns the answer of its first execution, and the history counts what it did
/// once.
#[test]
fn call_whose_reply_is_lost_returns_the_same_answer() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let client = through(&proxy).client().unwrap();
    let id = client.insert(3_600_000 * MS, Order(1)).unwrap();
    client.keyed("k").insert(3_600_000 * MS, Order(2)).unwrap();
    proxy.swallow(&hash_of("change"), 1);
    assert!(client.cancel(id).unwrap().is_cancelled());
    proxy.swallow(&hash_of("change"), 1);
    assert!(client.keyed("k").cancel().unwrap());
    proxy.swallow(&hash_of("change"), 2);
    client.keyed("k").insert_if_absent(3_600_000 * MS, Order(3)).unwrap();
    assert_eq!(proxy.met(), 4);
    assert_eq!(summed(&client, |entry| entry.inserted), 3);
    assert_eq!(summed(&client, |entry| entry.cancelled), 2);
    assert_eq!(client.count().unwrap().pending, 1);
    client.check().unwrap();
}

/// P63: A step of a bulk whose reply is lost is sent again, and returns the counts of the first time.
#[test]
fn bulk_step_whose_reply_is_lost_counts_its_jobs_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let client = through(&proxy).client().unwrap();
    client.insert_batch((0..600).map(|n| (3_600_000 * MS, Order(n)))).unwrap();
    let mut bulk = client.pending().cancel_all().unwrap();
    let changed = |step: Option<Result<BulkCounts, StoreError>>| step.unwrap().unwrap().changed;
    assert_eq!(changed(bulk.next()), 256);
    proxy.swallow(&hash_of("change"), 1);
    assert_eq!((changed(bulk.next()), proxy.met()), (256, 1));
    let all = bulk.run().unwrap();
    assert_eq!((all.seen, all.changed, all.passed_over), (600, 600, 0));
    client.check().unwrap();
}

/// Redis P14: While a node runs a job that holds its key, no node inserts another job under that key: neither if a reply
/// is lost, nor in a batch that goes in several parts. The answer names the job that has the key.
#[test]
fn key_that_is_held_takes_no_second_job_on_any_node() {
    let held = |order| NewJob::new(Order(order)).key("import-7").unique_until(Until::Ended);
    let server = Server::start();
    let (handler, starts, let_go) = holding(|_: &Order| true);
    let node = open(&server).handle(handler).start().unwrap();
    let first = node.insert_job(held(1)).unwrap().id;
    starts.recv_timeout(Duration::from_secs(60)).unwrap();
    let proxy = Proxy::to(server.port);
    let client = through(&proxy).client().unwrap();
    assert_eq!(client.insert_job(held(2)).unwrap().id, first);
    proxy.swallow(&hash_of("change"), 1);
    assert_eq!(client.insert_job(held(3)).unwrap().id, first, "the answer that was lost");
    assert_eq!(proxy.met(), 1);
    let mut batch: Vec<NewJob<Order>> =
        (0..600).map(|n| (3_600_000 * MS, Order(n)).into()).collect();
    (batch[300], batch[599]) = (held(5), held(6));
    let ids = client.insert_batch(batch).unwrap();
    assert_eq!((ids[300], ids[599]), (first, first));
    assert_eq!(client.count().unwrap().pending, 598);
    client.check().unwrap();
    let_go.send(()).unwrap();
    let last = || held(7).at(3_600_000 * MS);
    wait_until("the key is free", || client.insert_job(last()).unwrap().is_new);
    client.check().unwrap();
    node.shutdown().unwrap();
}

/// Redis P6: Scripts that the server has forgotten are loaded again.
#[test]
fn scripts_that_the_server_has_forgotten_are_loaded_again() {
    let server = Server::start();
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    for n in 0..20 {
        let _: String = server.ask(&["SCRIPT", "FLUSH"]);
        jobs.insert((n % 3) as u32 * MS, Order(n)).unwrap();
    }
    each_runs_once(&jobs.client(), jobs, &log, 20);
}

/// Redis P6, D10: Connections that the server kills are made anew, and each job runs once.
#[test]
fn connections_that_are_killed_are_made_anew() {
    let server = Server::start();
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    for n in 0..20 {
        let _: i64 = server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        let _: i64 = server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        jobs.insert(Duration::ZERO, Order(n)).unwrap();
        wait_until("it ran", || log.of(n) > 0);
    }
    jobs.shutdown().unwrap();
    log.each_once(20);
}

/// Redis P5: An insert without an answer fails with `Unknown` and its id when the call timeout is over. Under that id
/// it is stored once.
#[test]
fn insert_is_unknown_when_the_call_timeout_is_over() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let client = through(&proxy).call_timeout(500 * MS).client().unwrap();
    client.insert(3_600_000 * MS, Order(0)).unwrap();
    proxy.stall(true);
    let began = now();
    let refused = client.insert(3_600_000 * MS, Order(1)).unwrap_err();
    let took = began.elapsed();
    // The call timeout that is the default would take 10 s.
    assert!(took >= 500 * MS && took < 9500 * MS, "{took:?}");
    let InsertErrorKind::Unknown(id) = *refused.kind() else { panic!("{refused:?}") };
    proxy.stall(false);
    // It is there once, whether it is inserted again or not.
    client.insert_job(NewJob::new(refused.into_inner()).at(3_600_000 * MS).id(id)).unwrap();
    assert_eq!(client.count().unwrap().pending, 2);
    client.check().unwrap();
}

/// Redis P5: An insert that was never sent fails with `Store`, not `Unknown`, and gives the job back.
#[test]
fn insert_that_was_never_sent_is_not_unknown() {
    let mut server = Server::start();
    let client = open(&server).call_timeout(300 * MS).client().unwrap();
    server.kill();
    let refused = client.insert(Duration::ZERO, Order(1)).unwrap_err();
    let unknown = matches!(refused.kind(), InsertErrorKind::Unknown(_));
    // The first attempt may have met the connection that was open.
    assert!(unknown || matches!(refused.kind(), InsertErrorKind::Store(_)), "{refused:?}");
    let id = JobId::new();
    let refused = client.insert_job(NewJob::new(Order(2)).at(Duration::ZERO).id(id)).unwrap_err();
    assert!(matches!(refused.kind(), InsertErrorKind::Store(_)), "{refused:?}");
    assert_eq!(refused.into_inner().into_job(), Order(2));
}

/// P104: A server that has lost all its data takes and runs jobs again. Before a fix, processes went on with the kinds
/// that they knew: the script that stored a job had no key for its due time, wrote its record all the same, and
/// failed. A process that only runs jobs claimed none.
#[test]
fn server_that_has_lost_everything_takes_jobs_again() {
    let server = Server::start();
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    let client = open(&server).client().unwrap();
    client.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it ran", || log.of(1) == 1);
    for n in 2..10 {
        let _: String = server.ask(&["FLUSHALL"]);
        if n % 2 == 0 {
            jobs.insert(Duration::ZERO, Order(n)).unwrap();
        } else {
            // Now the node only runs jobs and inserts none: its next poll finds the loss.
            client.insert(Duration::ZERO, Order(n)).unwrap();
        }
        wait_until("the next ran", || log.of(n) == 1);
    }
    wait_until("all ended", || in_hand(&client) == 0);
    client.check().unwrap();
    assert_eq!(server.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]), 0);
    jobs.shutdown().unwrap();
    log.each_once(9);
}

/// A node that runs many jobs needs less than a tenth of a round trip for each. Round trips are the cost of a
/// queue on a server.
#[test]
fn round_trips_are_fewer_than_a_tenth_of_the_jobs() {
    const MANY: u64 = 5000;
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let client = open(&server).client().unwrap();
    client.insert_batch((0..MANY).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    let before = proxy.requests();
    let jobs = noting(through(&proxy), &log);
    wait_until("all ran", || log.len() as u64 == MANY);
    jobs.shutdown().unwrap();
    // A large request comes in several pieces, each of which counts.
    let trips = proxy.requests() - before;
    println!("{trips} pieces of requests for {MANY} jobs");
    assert!(trips * 10 <= MANY, "{trips}");
    assert_eq!(client.count().unwrap().pending, 0);
}
