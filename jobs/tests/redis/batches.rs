//! Batches on a server, where the jobs of a claim have the same fence.

use std::time::Duration;

use tickwheel_jobs::{Fail, Job, Run};

use crate::server::{Server, wait_until};
use crate::support::{Log, MS, Order, open};

/// Data of another form, under the kind of an order.
#[derive(serde::Serialize, serde::Deserialize)]
struct NoOrder(String);

impl Job for NoOrder {
    const KIND: &'static str = Order::KIND;
}

/// P43: Each job of a batch ends by itself: one that does not decode dies, one that fails is retried, the others
/// complete. The batch that they leave behind holds no slot.
#[test]
fn each_job_of_a_claimed_batch_has_its_own_end() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    client.insert(Duration::ZERO, NoOrder("no number".to_owned())).unwrap();
    client.insert_batch((0..9).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    let log = Log::default();
    let noted = log.clone();
    let jobs = open(&server)
        .handle_batch(10, 20 * MS, move |orders: &[(Order, Run)]| {
            for (order, run) in orders {
                noted.add(order.0);
                if order.0 == 4 && run.attempt() == 1 {
                    run.fail(Fail::after(MS, "once more"));
                }
            }
            Ok(())
        })
        .start()
        .unwrap();
    // The counts come from one reading: a job may be claimed between two readings.
    wait_until("all ended", || {
        let counts = client.count().unwrap();
        counts.pending + counts.claimed + counts.running == 0
    });
    let counts = client.count().unwrap();
    assert_eq!((counts.pending, counts.dead), (0, 1));
    wait_until("the process knows it", || jobs.stats().in_flight == 0);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    let runs: Vec<u32> = (0..9).map(|n| log.of(n)).collect();
    assert_eq!(runs, [1, 1, 1, 1, 2, 1, 1, 1, 1]);
}
