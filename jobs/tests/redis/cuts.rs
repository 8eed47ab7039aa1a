//! Connections that end in the midst of a request or of a reply, that are closed on one side, or
//! reset.

use std::time::Duration;

use tickwheel_jobs::Jobs;

use crate::lost::hash_of;
use crate::proxy::{End, Fate, Proxy};
use crate::server::{Server, wait_until};
use crate::support::{Log, Order, in_hand, noting, open};

/// Every fate of a connection: cut after a number of bytes of the request, or of the reply.
pub(crate) fn fates() -> Vec<Fate> {
    let mut fates = vec![Fate::CloseToServer, Fate::CloseToClient];
    for how in [End::Close, End::Reset] {
        fates.extend((0..1600).step_by(79).map(|bytes| Fate::CutRequest(bytes, how)));
        fates.extend((0..64).step_by(5).map(|bytes| Fate::CutReply(bytes, how)));
    }
    fates
}

/// Redis P5, D18: A batch whose request or reply is cut at any byte is stored once.
#[test]
fn insert_that_is_cut_anywhere_is_stored_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    let client = Jobs::redis(proxy.url()).unwrap().client().unwrap();
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
    let jobs = noting(Jobs::redis(proxy.url()).unwrap(), &log);
    let client = open(&server).client().unwrap();
    let fates = fates();
    for (n, fate) in fates.iter().enumerate() {
        let script = if n % 2 == 0 { "claim" } else { "complete" };
        proxy.plan(&hash_of(script), &[*fate]);
        client.insert(Duration::ZERO, Order(n as u64)).unwrap();
        wait_until("it ran", || log.of(n as u64) > 0);
    }
    wait_until("all ended", || in_hand(&client) == 0);
    assert!(proxy.met() as usize >= fates.len() * 3 / 4, "{}", proxy.met());
    client.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(fates.len());
}
