//! Follow-ups on a server: when it is full, when a reply is lost, and when a lease is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Client, Event, Fail, Job, Jobs, Run};

use crate::lost::hash_of;
use crate::proxy::Proxy;
use crate::server::{Server, pause, wait_until};
use crate::support::{Log, MS, Order, in_hand, open};

const HOUR: Duration = Duration::from_secs(3600);

/// The follow-up of an order.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
struct Receipt(u64);

impl Job for Receipt {
    const KIND: &'static str = "receipt";
}

/// The receipts that are pending, by number.
fn receipts(client: &Client) -> Vec<u64> {
    let pending = client.pending().kind::<Receipt>();
    let mut numbers: Vec<u64> = pending.map(|info| info.job::<Receipt>().unwrap().0).collect();
    numbers.sort_unstable();
    numbers
}

/// Redis P30: A full server refuses an end with follow-ups as a whole. Its run keeps its claim, so no other node runs
/// the job, and its place, so the node does not claim ever more jobs. The end is stored once there is memory.
#[test]
fn end_with_follow_ups_waits_for_memory_as_a_whole() {
    let server = Server::start();
    let (log, lost) = (Log::default(), Arc::new(AtomicU64::new(0)));
    let full = Arc::new(AtomicBool::new(false));
    let (noted, told, goes_on) = (log.clone(), Arc::clone(&lost), Arc::clone(&full));
    let handler = move |order: Order, run: &Run| -> Result<(), Fail> {
        noted.add(order.0);
        while !goes_on.load(Ordering::Acquire) {
            pause(MS);
        }
        run.then(HOUR, Receipt(order.0))?;
        Ok(())
    };
    let on_event = move |event| {
        told.fetch_add(u64::from(matches!(event, Event::LeaseLost { .. })), Ordering::AcqRel);
    };
    let builder = open(&server).threads(4).max_in_flight(4).lease(4000 * MS);
    let jobs = builder.handle(handler).on_event(on_event).start().unwrap();
    jobs.insert_batch((0..40).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    wait_until("four run", || log.len() == 4);
    let limit = |limit: &str| -> String { server.ask(&["CONFIG", "SET", "maxmemory", limit]) };
    limit("1mb");
    full.store(true, Ordering::Release);
    // Longer than a lease.
    for _ in 0..60 {
        pause(100 * MS);
        let in_flight = jobs.stats().in_flight;
        assert!(in_flight <= 8, "{in_flight} in flight: their slots were given away");
    }
    assert!(receipts(&jobs).is_empty(), "a full server takes no job");
    assert!(jobs.stats().completed >= 4 && in_hand(&jobs) >= 4, "their ends are not stored");
    jobs.check().unwrap();
    limit("0");
    wait_until("all ended", || receipts(&jobs).len() == 40 && in_hand(&jobs) == 0);
    assert_eq!(receipts(&jobs), (0..40).collect::<Vec<_>>());
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    assert_eq!(lost.load(Ordering::Acquire), 0, "a lease was lost");
    log.each_once(40);
}

/// Redis P30: If the reply to an end with follow-ups is lost, it is sent again, and they are stored once.
#[test]
fn follow_ups_are_stored_once_though_the_reply_of_the_end_is_lost() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let noted = log.clone();
    let handler = move |order: Order, run: &Run| -> Result<(), Fail> {
        // Under a key too: the second attempt must not replace what the first one has stored.
        run.then(HOUR, Receipt(order.0))?;
        run.next().keyed(&format!("{}", order.0)).insert(HOUR, Receipt(100 + order.0))?;
        noted.add(order.0);
        Ok(())
    };
    let builder = Jobs::redis(proxy.url()).unwrap().lease(Duration::from_secs(60));
    let jobs = builder.handle(handler).start().unwrap();
    let client = open(&server).client().unwrap();
    for n in 0..20 {
        proxy.swallow(&hash_of("change"), 1);
        client.insert(Duration::ZERO, Order(n)).unwrap();
        wait_until("it ran", || log.of(n) > 0);
        wait_until("a reply was lost", || proxy.met() > n);
    }
    wait_until("all ended", || in_hand(&jobs) == 0);
    let expected: Vec<u64> = (0..20).chain(100..120).collect();
    assert_eq!(receipts(&client), expected);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(20);
}

/// Redis P30: A run that has lost its lease stores no follow-up, although its handler returns well. The next run of the
/// job stores its own.
#[test]
fn follow_ups_of_a_run_that_lost_its_lease_are_dropped() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let (log, release) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let node = |builder: tickwheel_jobs::Builder, receipt: u64| {
        let (noted, release) = (log.clone(), Arc::clone(&release));
        let handler = move |_: Order, run: &Run| -> Result<(), Fail> {
            run.then(HOUR, Receipt(receipt))?;
            noted.add(receipt);
            while receipt == 1 && !release.load(Ordering::Acquire) {
                pause(5 * MS);
            }
            Ok(())
        };
        builder.lease(1000 * MS).handle(handler).start().unwrap()
    };
    let first = node(Jobs::redis(proxy.url()).unwrap(), 1);
    first.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it started", || log.of(1) == 1);
    proxy.stall(true);
    let second = node(open(&server), 2);
    wait_until("it ran elsewhere", || log.of(2) == 1);
    wait_until("it ended", || in_hand(&second) == 0);
    // The end is on its way before the node learns that the lease was lost.
    release.store(true, Ordering::Release);
    pause(100 * MS);
    proxy.stall(false);
    wait_until("the slot is free", || first.stats().in_flight == 0);
    assert_eq!(receipts(&second), [2]);
    second.check().unwrap();
    first.shutdown().unwrap();
    second.shutdown().unwrap();
}

/// Redis P30: An end that reaches the server after its claim is gone stores no follow-up. Here an operator removes the
/// fence while the handler runs. The next run of the job stores its own.
#[test]
fn follow_ups_of_an_end_without_its_claim_are_not_stored() {
    let server = Arc::new(Server::start());
    let log = Log::default();
    let (noted, shared) = (log.clone(), Arc::clone(&server));
    let handler = move |order: Order, run: &Run| -> Result<(), Fail> {
        noted.add(order.0);
        run.then(HOUR, Receipt(u64::from(noted.of(order.0))))?;
        if noted.of(order.0) == 1 {
            let id = run.id().to_u128().to_be_bytes();
            let mut removal = redis::cmd("HDEL");
            removal.arg("tw:{jobs}:fence").arg(&id);
            assert_eq!(removal.query::<i64>(&mut shared.connection()).unwrap(), 1);
        }
        Ok(())
    };
    let jobs = open(&server).lease(1000 * MS).handle(handler).start().unwrap();
    jobs.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it ran again, and ended", || log.of(1) == 2 && in_hand(&jobs) == 0);
    assert_eq!(receipts(&jobs), [2]);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}
