//! A replica that takes over, or a server that comes back, and lacks what was answered last.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_jobs::{Fence, Jobs, Run};

use crate::proxy::Proxy;
use crate::server::{Server, wait_until};
use crate::slow_disk::SlowDisk;
use crate::stoppable_replica::Replica;
use crate::support::{Events, Gate, Log, MS, Order, each_runs_once, noting, now};

/// Redis P9, D10, D19: A job whose claim a failover forgot is claimed again, and the end of its first run is refused.
/// Both claims have one number, because the clock of the server was ahead once. Their nonces differ.
#[test]
fn claim_that_a_failover_forgot_has_its_first_end_refused() {
    let mut primary = Server::start();
    let replica = Replica::of(&primary);
    let front = Proxy::to(primary.port);
    let fences: Arc<Mutex<Vec<Fence>>> = Arc::default();
    let (gate, events) = (Gate::default(), Events::default());
    let (list, its_gate) = (Arc::clone(&fences), gate.clone());
    let handler = move |_: Order, run: &Run| {
        list.lock().unwrap().push(run.fence());
        its_gate.wait();
        Ok(())
    };
    let builder = Jobs::redis(front.url()).unwrap().lease(2000 * MS).threads(4);
    let jobs = events.of(builder).handle(handler).start().unwrap();
    let ahead = "3000000000000000";
    let _: u64 = primary.ask(&["HSET", "tw:{jobs}:meta", "claims", ahead]);
    let id = jobs.insert(2500 * MS, Order(1)).unwrap();
    wait_until("the replica has it", || {
        replica.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]) == 1
            && replica.ask::<String>(&["HGET", "tw:{jobs}:meta", "claims"]) == ahead
    });
    replica.stop_link();
    wait_until("it started", || fences.lock().unwrap().len() == 1);
    primary.kill();
    let primary = replica.promote();
    front.retarget(primary.port);
    wait_until("it started again", || fences.lock().unwrap().len() == 2);
    wait_until("the first is told", || events.leases_lost() >= 1);
    let [first, second] = fences.lock().unwrap()[..] else { panic!("{fences:?}") };
    assert_ne!(first, second);
    assert_eq!(first.get(), second.get(), "the number was forgotten, and is given again");
    gate.open();
    wait_until("it ended", || jobs.get(id).unwrap().is_none());
    wait_until("both have ended", || jobs.stats().in_flight == 0);
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}

/// Redis P4: A failover loses the batches that the replica did not have, each as a whole, and nothing else.
#[test]
fn failover_loses_only_what_the_replica_did_not_have() {
    let mut primary = Server::start();
    let replica = Replica::of(&primary);
    let front = Proxy::to(primary.port);
    let client = Jobs::redis(front.url()).unwrap().client().unwrap();
    let batch = |part: u64| (0..5).map(move |n| (1500 * MS, Order(5 * part + n)));
    for part in 0..20 {
        client.insert_batch(batch(part)).unwrap();
    }
    let stored = || replica.ask::<u64>(&["HLEN", "tw:{jobs}:jobs"]);
    wait_until("the replica has them", || stored() == 100);
    replica.stop_link();
    for part in 20..40 {
        client.insert_batch(batch(part)).unwrap();
    }
    primary.kill();
    let primary = replica.promote();
    front.retarget(primary.port);
    client.insert(Duration::ZERO, Order(1000)).unwrap();
    assert_eq!(client.count().unwrap().pending, 101);
    client.check().unwrap();
    let log = Log::default();
    let jobs = noting(Jobs::redis(front.url()).unwrap(), &log);
    each_runs_once(&client, jobs, &log, 101);
    assert!((0..100).all(|order| log.of(order) == 1));
}

const HOUR: Duration = Duration::from_secs(3600);

fn syncing(policy: &str) -> Server {
    Server::with(&["--save", "", "--appendonly", "yes", "--appendfsync", policy])
}

/// Redis P4: A killed server loses nothing that it has written, whichever its `appendfsync` is: the system has the
/// data.
#[test]
fn server_kill_loses_nothing_that_was_written() {
    for policy in ["no", "everysec", "always"] {
        let mut server = syncing(policy);
        let client = Jobs::redis(server.url()).unwrap().client().unwrap();
        for n in 0..200 {
            client.insert(HOUR, Order(n)).unwrap();
        }
        server.kill();
        server.run();
        assert_eq!(client.count().unwrap().pending, 200, "{policy}");
        client.check().unwrap();
    }
}

/// Redis P4: With `everysec` and a slow disk, a kill loses the latest inserts: the server answers before it writes.
#[test]
fn sync_each_second_loses_the_latest_inserts_on_a_slow_disk() {
    let mut server = syncing("everysec");
    let client = Jobs::redis(server.url()).unwrap().client().unwrap();
    let Some(disk) = SlowDisk::of(&server) else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let (inserting, stopped) = (client.clone(), Arc::clone(&stop));
    let inserts = std::thread::spawn(move || {
        let mut answered = Vec::new();
        while !stopped.load(Ordering::Acquire) {
            match inserting.insert(HOUR, Order(answered.len() as u64)) {
                Ok(id) => answered.push((now(), id)),
                Err(_) => break,
            }
        }
        answered
    });
    let is_unwritten = disk.wait_for_unwritten(20_000);
    stop.store(true, Ordering::Release);
    disk.kill(&mut server);
    let killed = now();
    server.run();
    let answered = inserts.join().unwrap();
    assert!(is_unwritten, "it has written all that it answered");
    let is_there = |id| client.get(id).unwrap().is_some();
    let first_lost = answered.iter().position(|(_, id)| !is_there(*id)).unwrap_or(answered.len());
    let lost = &answered[first_lost..];
    let back: Vec<Duration> = lost.iter().map(|(at, _)| killed.duration_since(*at)).collect();
    println!("{} of {} lost, from {:?} before the kill", lost.len(), answered.len(), back.first());
    assert!(lost.len() > 1, "nothing was lost");
    // The last one may have been sent again to the server that came back.
    let there: Vec<_> = lost.iter().filter(|(_, id)| is_there(*id)).collect();
    assert!(there.len() <= 1, "not the latest were lost: {} of them are there", there.len());
    // Redis waits for two seconds, as its log says.
    assert!(back.iter().all(|back| *back < Duration::from_secs(10)), "{back:?}");
    client.check().unwrap();
}
