//! Nodes in processes of their own, whose clocks are ten minutes apart from the server's and drift.
//!
//! The library of `faketime` tells a process another wall clock. The monotonic clock stays as it
//! is: it counts from an origin of its own on each machine, and waits go by the kernel's.

use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickwheel_jobs::{Jobs, NewJob, Run};

use crate::fake_time::library;
use crate::server::{Server, pause, wait_until};
use crate::support::{MS, Order, in_hand, open, wall_now};

/// The environment variable with the URL and the name of a node.
const NODE: &str = "TICKWHEEL_REDIS_CLOCK";
const LEASE: Duration = Duration::from_millis(2000);
const HOUR: Duration = Duration::from_secs(3600);
/// Jobs expire after it. The clocks of the nodes are wrong by more.
const EXPIRY: Duration = Duration::from_secs(300);
/// Orders from here on take longer than a lease.
const LONG: u64 = 1_000_000;
/// How many jobs each node inserts, and the test.
const MANY: u64 = 40;

fn micros(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

fn servers_time(server: &mut redis::Connection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(server).unwrap();
    seconds * 1_000_000 + micros
}

/// Runs in a process of its own: inserts jobs, runs jobs, and says when by the server's clock.
#[test]
fn node() {
    let Ok(told) = std::env::var(NODE) else { return };
    let (url, name) = told.split_once(' ').unwrap();
    let connect = || redis::Client::open(url).unwrap().get_connection().unwrap();
    let (says, mut server) = (Mutex::new(connect()), connect());
    let own = name.to_owned();
    let handler = move |order: Order, run: &Run| {
        let mut says = says.lock().unwrap();
        let (now, due) = (servers_time(&mut says), micros(run.due()));
        let entry = format!("{own} {} {due} {now}", order.0);
        redis::cmd("RPUSH").arg("starts").arg(entry).exec(&mut says).unwrap();
        if order.0 >= LONG {
            pause(LEASE * 5 / 3);
        }
        Ok(())
    };
    let jobs = Jobs::redis(url).unwrap().lease(LEASE).threads(1).handle(handler).start().unwrap();
    let first = name.bytes().map(u64::from).sum::<u64>() * 1000;
    for n in 0..MANY {
        let (wait, before) = ((3000 + 40 * n as u32) * MS, servers_time(&mut server));
        jobs.insert_job(NewJob::new(Order(first + n)).at(wait).expires(EXPIRY)).unwrap();
        let (after, wait) = (servers_time(&mut server), wait.as_micros());
        let entry = format!("{} {} {}", first + n, before as u128 + wait, after as u128 + wait);
        redis::cmd("RPUSH").arg("asked").arg(entry).exec(&mut server).unwrap();
    }
    let entry = micros(wall_now());
    redis::cmd("RPUSH").arg("clocks").arg(entry).exec(&mut server).unwrap();
    // Until it is killed, or the server is gone.
    while redis::cmd("PING").exec(&mut server).is_ok() {
        pause(50 * MS);
    }
}

struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn numbers(list: &[String]) -> Vec<Vec<u64>> {
    let number = |word: &str| word.parse().unwrap_or(0);
    list.iter().map(|entry| entry.split(' ').map(number).collect()).collect()
}

/// Redis P7, P107, D9: Nodes whose clocks are ten minutes wrong and drift run every job once, in order and not early. A
/// job expires by the server's clock.
#[test]
fn nodes_with_wrong_and_drifting_clocks_run_jobs_once_in_time() {
    let Some(library) = library() else { return };
    let server = Server::start();
    let start = |name: &str, clock: &str| {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "clocks::node"])
            .env(NODE, format!("{} {name}", server.url()))
            .env("LD_PRELOAD", &library)
            .env("FAKETIME", clock)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Node(child.unwrap())
    };
    let nodes = [start("early", "+10m x1.1"), start("late", "-10m x0.9")];
    let list = |name: &str| -> Vec<String> { server.ask(&["LRANGE", name, "0", "-1"]) };
    wait_until("both are there", || list("clocks").len() == 2);
    for clock in list("clocks") {
        let off = micros(wall_now()).abs_diff(clock.parse().unwrap());
        assert!(off > 500_000_000, "the clock of a node is only {off} us off");
    }
    let client = open(&server).client().unwrap();
    for n in 0..4 {
        client.insert(Duration::ZERO, Order(LONG + n)).unwrap();
    }
    // Each node runs the long ones first, so this one becomes too old.
    client.insert_job(NewJob::new(Order(LONG - 1)).expires(LEASE / 2)).unwrap();
    let now = servers_time(&mut server.connection());
    let at = |n: u64| UNIX_EPOCH + Duration::from_millis(now / 1000 + 20 * n);
    for n in 0..MANY {
        client.insert_job(NewJob::new(Order(n)).at(at(n)).expires(EXPIRY)).unwrap();
    }
    let all = 4 + 3 * MANY as usize;
    wait_until("all ran", || list("starts").len() >= all);
    wait_until("all ended", || in_hand(&client) == 0);
    client.check().unwrap();
    let mut orders = std::collections::BTreeMap::new();
    for name in ["early", "late"] {
        let starts = list("starts");
        let own: Vec<String> = starts.into_iter().filter(|it| it.starts_with(name)).collect();
        let own = numbers(&own);
        println!("{name}: {} starts", own.len());
        for start in &own {
            let [_, order, due, started] = start[..] else { panic!("{start:?}") };
            assert!(started >= due, "order {order} started {} us early", due - started);
            assert!(orders.insert(order, due).is_none(), "order {order} ran twice");
        }
        assert!(own.is_sorted_by_key(|start| start[2]), "{name} started jobs out of order");
    }
    assert_eq!(orders.len(), all);
    for (n, order) in (0..MANY).map(|n| (n, orders[&n])) {
        assert_eq!(order, micros(at(n)));
    }
    // A wait counts from the server's time, not from the node's.
    for asked in numbers(&list("asked")) {
        let [order, from, to] = asked[..] else { panic!("{asked:?}") };
        let due = orders[&order];
        let in_time = from <= due + 1000 && due <= to + 1_000_000;
        assert!(in_time, "order {order} was due at {due}, not from {from} to {to}");
    }
    drop(nodes);
}

/// Redis P7: A client that was idle reads the server's time before it computes a due time. Meanwhile the server's clock
/// may have been set, or the two clocks have drifted: before a fix, the due time was then ten minutes off, or late by a
/// thousandth of the idle time.
#[test]
fn client_that_was_idle_reads_the_servers_time_first() {
    let server = Server::start();
    let scripts = || server.commands()["evalsha"];
    let client = open(&server).client().unwrap();
    client.insert(Duration::ZERO, Order(0)).unwrap();
    for verb in 0..4 {
        // What was heard a moment ago counts, and no longer than two seconds.
        pause(2500 * MS);
        let before = scripts();
        match verb {
            0 => drop(client.insert(HOUR, Order(1)).unwrap()),
            1 => drop(client.insert_batch([(HOUR, Order(2))]).unwrap()),
            2 => drop(client.keyed("k").insert(HOUR, Order(3)).unwrap()),
            _ => drop(client.keyed("k").reschedule(HOUR).unwrap()),
        }
        assert_eq!(scripts() - before, 2, "verb {verb}");
    }
    let before = scripts();
    for n in 0..20 {
        client.insert(HOUR, Order(n)).unwrap();
    }
    // A busy machine may have made one or the other wait.
    assert!(scripts() - before < 40, "a busy client asks each time");
}
