//! Queues in a cluster: found, followed when their slot moves, and when their master dies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tickwheel_jobs::{Client, Jobs};

use crate::cluster_servers::Cluster;
use crate::server::{pause, wait_until};
use crate::support::{Events, Log, MS, Order, each_runs_once, in_hand, noting, now};

/// Longer than a busy machine keeps a node silent.
const PATIENT: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);

/// P102: A queue is found on the node of its slot, and no other node has a key of it.
#[test]
fn queue_is_found_on_its_node_of_the_cluster() {
    let cluster = Cluster::start(3, PATIENT);
    // One node knows all of them.
    let url = cluster.url(&[1]);
    let mut of_nodes = [0; 3];
    for n in 0..8 {
        let queue = format!("queue_{n}");
        let log = Log::default();
        let jobs = noting(Jobs::redis(&url).unwrap().queue(&queue), &log);
        let client = Jobs::redis(&url).unwrap().queue(&queue).client().unwrap();
        client.insert(Duration::ZERO, Order(1)).unwrap();
        client.insert(10 * MS, Order(2)).unwrap();
        client.insert(60 * MINUTE, Order(3)).unwrap();
        wait_until("both ran", || log.len() == 2);
        wait_until("both ended", || in_hand(&client) == 0);
        client.check().unwrap();
        let node = cluster.node_of(&queue, 0);
        of_nodes[node] += 1;
        let pattern = format!("tw:{{{queue}}}:*");
        for (other, server) in cluster.nodes.iter().enumerate() {
            let keys: Vec<String> = server.ask(&["KEYS", &pattern]);
            assert_eq!(keys.is_empty(), other != node, "{queue} on {other}: {keys:?}");
        }
        jobs.shutdown().unwrap();
        log.each_once(2);
    }
    println!("queues of the nodes: {of_nodes:?}");
    assert!(of_nodes.iter().filter(|queues| **queues > 0).count() > 1, "{of_nodes:?}");
}

/// Redis P6: A slot that moves while jobs are inserted and run loses no job, and no job runs twice.
#[test]
fn slot_that_moves_under_load_runs_every_job_once() {
    let cluster = Cluster::start(3, PATIENT);
    let (url, queue) = (cluster.url(&[0, 1, 2]), "moves");
    let (log, events) = (Log::default(), Events::default());
    let jobs = noting(events.of(Jobs::redis(&url).unwrap().queue(queue)), &log);
    let client = Jobs::redis(&url).unwrap().queue(queue).call_timeout(MINUTE).client().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let inserting = std::thread::spawn({
        let ended = Arc::clone(&ended);
        move || {
            let mut many = 0;
            while !ended.load(Ordering::Acquire) {
                client.insert(Duration::from_millis(many % 50), Order(many)).unwrap();
                many += 1;
                pause(MS);
            }
            many
        }
    });
    let slot = cluster.slot_of(queue);
    for _ in 0..3 {
        let many = log.len();
        wait_until("jobs run", || log.len() > many + 20);
        let from = cluster.node_of(queue, 0);
        cluster.migrate(slot, from, (from + 1) % 3, 40 * MS);
        assert_eq!(cluster.node_of(queue, 0), (from + 1) % 3);
    }
    let many = log.len();
    wait_until("jobs run on the last node", || log.len() > many + 20);
    ended.store(true, Ordering::Release);
    let many = inserting.join().unwrap() as usize;
    each_runs_once(&jobs.client(), jobs, &log, many);
    let errors = events.errors();
    let met = |code: &str| errors.iter().filter(|error| error.contains(code)).count();
    println!(
        "{many} jobs; MOVED {}, ASK {}, TRYAGAIN {}",
        met("MOVED"),
        met("ASK"),
        met("TRYAGAIN")
    );
    assert!(met("MOVED") + met("ASK") + met("TRYAGAIN") > 0, "nobody noticed: {errors:?}");
}

/// When each order was asked for, and when it was answered.
type Answered = BTreeMap<u64, (Instant, Instant)>;

/// Inserts until `ended` is set.
fn insert_until(ended: &AtomicBool, client: &Client) -> Answered {
    let mut answered = Answered::new();
    for n in 0.. {
        if ended.load(Ordering::Acquire) {
            break;
        }
        let asked = now();
        client.insert(Duration::from_millis(n % 50), Order(n)).unwrap();
        answered.insert(n, (asked, now()));
        pause(2 * MS);
    }
    answered
}

/// Returns a number of `INFO replication`.
fn replicated(info: &str, name: &str) -> Option<u64> {
    let at = info.find(name)? + name.len();
    info[at..].split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
}

/// Redis P4, Redis P6: Jobs go on with the replica that follows a killed master. Only asynchronous replication explains
/// a lost insert or a second run.
#[test]
fn master_that_is_killed_is_followed_by_its_replica() {
    let mut cluster = Cluster::start(3, PATIENT);
    let queue = "followed";
    let master = cluster.node_of(queue, 0);
    let replica = cluster.add_replica_of(master);
    // The URL names the one node that will be gone: the others are known from it.
    let url = cluster.url(&[master]);
    let (log, events) = (Log::default(), Events::default());
    let jobs = noting(events.of(Jobs::redis(&url).unwrap().queue(queue)), &log);
    let client = Jobs::redis(&url).unwrap().queue(queue).call_timeout(MINUTE).client().unwrap();
    let later: Vec<_> =
        (0..50).map(|n| client.insert(60 * MINUTE, Order(1_000_000 + n)).unwrap()).collect();
    let ended = Arc::new(AtomicBool::new(false));
    let inserting = std::thread::spawn({
        let ended = Arc::clone(&ended);
        move || insert_until(&ended, &client)
    });
    wait_until("jobs run", || log.len() > 100);
    let early = log.clone_now();
    // This one was inserted after, so the ends of all those are stored with its claim or before.
    let next = early.last() + 100;
    wait_until("a later job runs", || log.of(next) > 0);
    let settled = now();
    let reached = {
        let info: String = cluster.nodes[master].ask(&["INFO", "replication"]);
        replicated(&info, "master_repl_offset:").unwrap()
    };
    wait_until("the replica has what was answered until then", || {
        let info: String = cluster.nodes[master].ask(&["INFO", "replication"]);
        replicated(&info, ",offset=").is_some_and(|has| has >= reached)
    });
    cluster.set_timeout(1500 * MS);
    cluster.nodes[master].kill();
    let (killed, before) = (now(), log.clone_now());
    wait_until("the replica is the master", || {
        let role: String = cluster.nodes[replica].ask(&["INFO", "replication"]);
        role.contains("role:master")
    });
    cluster.set_timeout(PATIENT);
    let many = log.len();
    wait_until("jobs run on the new master", || log.len() > many + 100);
    println!("{:?} from the kill to 100 runs", killed.elapsed());
    wait_until("hints come from the new master", || cluster.nodes[replica].listeners(queue) > 0);
    ended.store(true, Ordering::Release);
    let answered = inserting.join().unwrap();
    wait_until("nothing is left but what is due later", || {
        jobs.count()
            .is_ok_and(|counts| counts.running + counts.claimed == 0 && counts.pending <= 50)
    });
    jobs.check().unwrap();
    for id in later {
        assert!(jobs.get(id).unwrap().is_some(), "{id} is lost, and was there long before");
    }
    jobs.shutdown().unwrap();
    // What asynchronous replication explains: an insert that was answered between the last look and the
    // kill may be lost, and a job whose end was then may run again.
    let lost: Vec<&u64> = answered.keys().filter(|n| log.of(**n) == 0).collect();
    for n in &lost {
        let (asked, at) = answered[n];
        assert!(settled < at && asked < killed, "{n} is lost");
    }
    let twice: Vec<&u64> = answered.keys().filter(|n| log.of(**n) > 1).collect();
    for n in &twice {
        assert!(before.of(**n) > 0 && early.of(**n) == 0, "{n} ran {} times", log.of(**n));
    }
    println!("{} jobs, {} lost, {} twice", answered.len(), lost.len(), twice.len());
    assert!(!events.errors().is_empty(), "nobody noticed");
}
