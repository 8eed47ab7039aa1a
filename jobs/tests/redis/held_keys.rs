//! Keys that are held until their job has ended, and policies of jobs, on a server that several processes
//! share.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tickwheel_jobs::{Fail, InsertErrorKind, JobId, JobState, Jobs, NewJob, Retry};
use tickwheel_jobs::{StoreError, Until};

use crate::lost::hash_of;
use crate::proxy::Proxy;
use crate::server::{Server, wait_until};
use crate::support::{MS, Order, open};

const HOUR: Duration = Duration::from_secs(3600);
const LONG: Duration = Duration::from_secs(60);

fn held(order: u64) -> NewJob<Order> {
    NewJob::new(Order(order)).key("import-7").unique_until(Until::Ended)
}

/// Redis P14: While a node runs a job that holds its key, no node inserts another job under that key, by any call. A
/// lost reply does not change that. The answer names the job that has the key. The key is free once the job has ended.
#[test]
fn key_that_is_held_takes_no_second_job_on_any_node() {
    let server = Server::start();
    let (started, at_start) = mpsc::channel();
    let (end, at_end) = mpsc::channel::<()>();
    let at_end = Mutex::new(at_end);
    let node = open(&server)
        .handle(move |_: Order, _| {
            started.send(())?;
            Ok(at_end.lock().unwrap().recv_timeout(LONG)?)
        })
        .start()
        .unwrap();
    let first = node.insert_job(held(1)).unwrap().id;
    at_start.recv_timeout(LONG).unwrap();
    let proxy = Proxy::to(server.port);
    let client = Jobs::redis(proxy.url()).unwrap().client().unwrap();
    for new in [held(2), NewJob::new(Order(2)).key("import-7"), held(2).if_absent()] {
        let inserted = client.insert_job(new).unwrap();
        assert_eq!((inserted.id, inserted.is_new), (first, false));
    }
    proxy.swallow(&hash_of("change"), 1);
    assert_eq!(client.insert_job(held(3)).unwrap().id, first, "the answer that was lost");
    assert_eq!(proxy.met(), 1);
    let refused = client.keyed("import-7").insert(HOUR, Order(4)).unwrap_err();
    assert_eq!(*refused.kind(), InsertErrorKind::Occupied);
    // A batch that goes in several parts.
    let mut batch: Vec<NewJob<Order>> = (0..600).map(|n| (HOUR, Order(n)).into()).collect();
    batch[300] = held(5);
    batch[599] = held(6);
    let ids = client.insert_batch(batch).unwrap();
    assert_eq!((ids[300], ids[599]), (first, first));
    assert_eq!(client.count().unwrap().pending, 598);
    client.check().unwrap();
    end.send(()).unwrap();
    wait_until("the key is free", || client.insert_job(held(7).at(HOUR)).unwrap().is_new);
    client.check().unwrap();
    node.shutdown().unwrap();
}

/// Redis P14: A job is retried by a policy of its own, on every node. A dead job whose key is taken is not retried, and
/// the error names the job that has the key.
#[test]
fn retry_policy_goes_with_its_job_and_retry_needs_its_key() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let own = Retry::fixed(MS).max_retries(2);
    let job = client.insert_job(held(1).id(JobId::named("own")).retry(own)).unwrap();
    let of_kind = client.insert(Duration::ZERO, Order(2)).unwrap();
    let node = open(&server)
        .retry(Retry::never())
        .handle(|_: Order, _| Err(Fail::from(std::io::Error::other("no"))))
        .start()
        .unwrap();
    wait_until("both are dead", || client.count().unwrap().dead == 2);
    assert_eq!(client.get(job.id).unwrap().unwrap().failures, 3);
    assert_eq!(client.get(of_kind).unwrap().unwrap().failures, 1);
    let other = client.insert_job(held(3).at(HOUR)).unwrap();
    assert!(other.is_new, "a dead job has no key");
    let taken = StoreError::KeyTaken { key: "import-7".to_owned(), by: other.id };
    assert_eq!(client.retry(job.id).unwrap_err(), taken);
    assert_eq!(client.get(job.id).unwrap().unwrap().state, JobState::Dead);
    client.check().unwrap();
    assert!(client.cancel(other.id).unwrap().is_cancelled());
    assert!(client.retry(job.id).unwrap());
    wait_until("it is dead again", || client.count().unwrap().dead == 2);
    client.check().unwrap();
    node.shutdown().unwrap();
}
