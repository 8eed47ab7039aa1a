//! Figures for `docs/redis.md`: they print, and assert nothing that a busy machine could break.
//!
//! `cargo test --release --features redis --test redis -- --ignored --nocapture --test-threads 1`

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs};

use crate::limits::longest;
use crate::server::{Server, pause, wait_until};
use crate::support::{Log, Order, noting, now, open};

#[derive(Serialize, Deserialize)]
pub(crate) struct Mail(String);

impl Job for Mail {
    const NAME: &'static str = "mail";
}

fn used(server: &Server) -> u64 {
    let info: String = server.ask(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    used.trim().parse().unwrap()
}

fn commands(server: &Server) -> u64 {
    let info: String = server.ask(&["INFO", "stats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap().trim().parse().unwrap()
}

fn everysec() -> Server {
    Server::with(&["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"])
}

#[test]
#[ignore = "a measurement"]
fn memory_a_pending_job() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let before = used(&server);
    let hour = Duration::from_secs(3600);
    for part in 0..200 {
        let mail = |n: u64| (hour + Duration::from_millis(part * 500 + n), Mail("m".repeat(98)));
        client.insert_batch((0..500).map(mail)).unwrap();
    }
    println!("{} bytes a pending job of 100 bytes", (used(&server) - before) / 100_000);
}

#[test]
#[ignore = "a measurement"]
fn the_whole_life_of_jobs() {
    const MANY: u64 = 100_000;
    let server = everysec();
    let _: String = server.ask(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    let _: String = server.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "500"]);
    let client = open(&server).client().unwrap();
    let began = now();
    for part in 0..MANY / 500 {
        let jobs = (0..500).map(|n| (Duration::ZERO, Order(part * 500 + n)));
        client.insert_batch(jobs).unwrap();
    }
    let inserted = began.elapsed();
    println!("insert in bulks of 500: {:.0} a second", MANY as f64 / inserted.as_secs_f64());
    let before = commands(&server);
    let began = now();
    let jobs = open(&server).on(|_: Order, _| Ok(())).start().unwrap();
    wait_until("all ended", || jobs.stats().completed == MANY);
    jobs.shutdown().unwrap();
    let took = began.elapsed();
    println!("run and finish: {:.0} a second", MANY as f64 / took.as_secs_f64());
    println!("both: {:.0} a second", MANY as f64 / (inserted + took).as_secs_f64());
    println!("commands a job, those in scripts too: {}", (commands(&server) - before) / MANY);
    println!("longest scripts, in us: {:?}", longest(&server));
}

#[test]
#[ignore = "a measurement"]
fn from_insert_to_start() {
    let server = everysec();
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    let client = open(&server).client().unwrap();
    for (name, client) in [("the same process", jobs.client()), ("another process", client)] {
        let mut trips: Vec<Duration> = Vec::new();
        for n in 0..1000 {
            let before = jobs.stats().started;
            let began = now();
            client.insert(Duration::ZERO, Order(n)).unwrap();
            while jobs.stats().started == before {
                std::thread::yield_now();
            }
            trips.push(began.elapsed());
        }
        trips.sort_unstable();
        println!("insert to start, {name}: p50 {:?}, p99 {:?}", trips[500], trips[990]);
    }
    jobs.shutdown().unwrap();
}

#[test]
#[ignore = "a measurement"]
fn idle_nodes() {
    let server = Server::start();
    let log = Log::default();
    let nodes: Vec<Jobs> = (0..3).map(|_| noting(open(&server), &log)).collect();
    let client = open(&server).client().unwrap();
    client.insert_batch((0..10_000).map(|n| (Duration::from_secs(3600), Order(n)))).unwrap();
    pause(Duration::from_secs(2));
    let calls = || -> u64 {
        let info: String = server.ask(&["INFO", "commandstats"]);
        let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha")).unwrap();
        let calls = line.split("calls=").nth(1).unwrap();
        calls.split(',').next().unwrap().parse().unwrap()
    };
    let before = calls();
    pause(Duration::from_secs(10));
    println!("idle: {:.2} calls a second and node", (calls() - before) as f64 / 30.0);
    drop(nodes);
}
