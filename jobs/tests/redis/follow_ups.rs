//! Follow-ups on a server: when it is full, and when a claim is gone.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Client, Fail, Job, Run};

use crate::server::{Server, pause, wait_until};
use crate::support::{Events, Gate, Log, MS, Order, bytes, in_hand, open};

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
    let (log, events, gate) = (Log::default(), Events::default(), Gate::default());
    let (noted, its_gate) = (log.clone(), gate.clone());
    let handler = move |order: Order, run: &Run| -> Result<(), Fail> {
        noted.add(order.0);
        its_gate.wait();
        run.then(HOUR, Receipt(order.0))?;
        Ok(())
    };
    let builder = events.of(open(&server)).threads(4).max_in_flight(4).lease(4000 * MS);
    let jobs = builder.handle(handler).start().unwrap();
    jobs.insert_batch((0..40).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    wait_until("four run", || log.len() == 4);
    server.limit_memory("1mb");
    gate.open();
    // Longer than a lease.
    for _ in 0..60 {
        pause(100 * MS);
        let in_flight = jobs.stats().in_flight;
        assert!(in_flight <= 8, "{in_flight} in flight: their slots were given away");
    }
    assert!(receipts(&jobs).is_empty(), "a full server takes no job");
    assert!(jobs.stats().completed >= 4 && in_hand(&jobs) >= 4, "their ends are not stored");
    jobs.check().unwrap();
    server.limit_memory("0");
    wait_until("all ended", || receipts(&jobs).len() == 40 && in_hand(&jobs) == 0);
    assert_eq!(receipts(&jobs), (0..40).collect::<Vec<_>>());
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
    assert_eq!(events.leases_lost(), 0);
    log.each_once(40);
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
            assert_eq!(shared.by_hand::<i64>("HDEL", "fence", &[&bytes(run.id())]), 1);
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
