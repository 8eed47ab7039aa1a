//! Verbs for every job of a list, on a server.

use std::time::Duration;

use tickwheel_jobs::{BulkCounts, Client, Fail, NewJob, Run};

use crate::lost::hash_of;
use crate::proxy::Proxy;
use crate::server::{Server, wait_until};
use crate::support::{MS, Order, open};

const HOUR: Duration = Duration::from_secs(3600);
const JOBS: u64 = 600;

fn numbers(counts: BulkCounts) -> [u64; 4] {
    let BulkCounts { seen, changed, asked_to_stop, passed_over, .. } = counts;
    [seen, changed, asked_to_stop, passed_over]
}

fn insert(client: &Client, due: Duration) {
    let keyed = |n: u64| NewJob::new(Order(n)).at(due).key(format!("order-{n}"));
    client.insert_batch((0..JOBS).map(keyed)).unwrap();
}

/// P62: Each step of a bulk verb is one call of a script, and each job has its own result: a key that is taken keeps
/// only its own job dead.
#[test]
fn bulk_is_one_call_for_256_jobs_and_each_has_its_result() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    insert(&client, HOUR);
    let before = client.stats().commits;
    let steps: Vec<u64> = client
        .pending()
        .reschedule_all(2 * HOUR)
        .unwrap()
        .map(|step| step.unwrap().changed)
        .collect();
    assert_eq!((steps, client.stats().commits - before), (vec![256, 256, 88], 3));
    let counts = client.pending().reschedule_all(Duration::ZERO).unwrap().run();
    assert_eq!(counts.map(numbers), Ok([JOBS, JOBS, 0, 0]));
    let dies = |_: Order, _: &Run| Err(Fail::dead("no route"));
    let node = open(&server).handle(dies).start().unwrap();
    wait_until("all are dead", || client.count().unwrap().dead == JOBS);
    node.shutdown().unwrap();
    for taken in [0, 13, 255, 256, 599] {
        client.keyed(&format!("order-{taken}")).insert(HOUR, Order(taken)).unwrap();
    }
    let counts = client.dead().retry_all().unwrap().run();
    assert_eq!(counts.map(numbers), Ok([JOBS, JOBS - 5, 0, 5]));
    let mut dead: Vec<u64> = client.dead().map(|job| job.job::<Order>().unwrap().0).collect();
    dead.sort_unstable();
    assert_eq!(dead, [0, 13, 255, 256, 599]);
    assert_eq!(client.dead().delete_all().unwrap().run().map(numbers), Ok([5, 5, 0, 0]));
    let counts = client.pending().cancel_all().unwrap().run();
    assert_eq!(counts.map(numbers), Ok([JOBS, JOBS, 0, 0]));
    client.check().unwrap();
}

/// P63: A step whose reply is lost is sent again, and returns the counts of the first time.
#[test]
fn bulk_step_whose_reply_is_lost_counts_its_jobs_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let client = tickwheel_jobs::Jobs::redis(proxy.url()).unwrap().client().unwrap();
    insert(&client, HOUR);
    let mut bulk = client.pending().cancel_all().unwrap();
    assert_eq!(bulk.next().unwrap().map(numbers), Ok([256, 256, 0, 0]));
    proxy.swallow(&hash_of("change"), 1);
    assert_eq!(bulk.next().unwrap().map(numbers), Ok([256, 256, 0, 0]));
    assert_eq!(proxy.met(), 1);
    assert_eq!(bulk.run().map(numbers), Ok([JOBS, JOBS, 0, 0]));
    client.check().unwrap();
}

/// P65: `cancel_all` of the running jobs asks the runs of every node to stop.
#[test]
fn bulk_cancel_reaches_the_runs_of_every_node() {
    let server = Server::start();
    let stops = |_: Order, run: &Run| {
        wait_until("the run is told", || run.is_cancelled());
        Err(Fail::after(MS, "stopped"))
    };
    let nodes = [0, 1].map(|_| open(&server).threads(2).handle(stops).start().unwrap());
    let client = open(&server).client().unwrap();
    client.insert_batch((0..4).map(|n| (MS, Order(n)))).unwrap();
    wait_until("all run", || nodes.iter().map(|node| node.stats().started).sum::<u64>() == 4);
    let counts = client.running().cancel_all().unwrap().run();
    assert_eq!(counts.map(numbers), Ok([4, 0, 4, 0]));
    wait_until("all are gone", || client.count().unwrap().claimed == 0);
    assert_eq!(client.count().unwrap().pending, 0);
    client.check().unwrap();
}
