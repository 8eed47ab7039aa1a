//! What scripts may not do: touch a key that was not named, or do much, however many jobs there are.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, Jobs, Missed, Schedule};

use crate::server::{Server, wait_until};
use crate::support::{Log, MS, Order, noting, open, wall_now};

const HOUR: Duration = Duration::from_secs(3600);

/// Does every verb once.
fn everything(server: &Server) {
    let log = Log::default();
    let jobs = noting(open(server).queue("all"), &log);
    let client = open(server).queue("all").client().unwrap();
    jobs.insert(Duration::ZERO, Order(1)).unwrap();
    let id = client.insert(HOUR, Order(2)).unwrap();
    assert!(client.reset(id, 2 * HOUR).unwrap());
    assert!(client.cancel(id).unwrap().is_cancelled());
    client.insert_batch((0..300).map(|n| (HOUR, Order(n)))).unwrap();
    let keyed = client.keyed("k");
    keyed.insert(HOUR, Order(3)).unwrap();
    keyed.insert_keeping_time(HOUR, Order(4)).unwrap();
    assert!(keyed.insert_if_absent(HOUR, Order(5)).is_err());
    assert!(keyed.reset(2 * HOUR).unwrap() && keyed.get().unwrap().is_some());
    assert!(keyed.cancel().unwrap());
    let every = Schedule::every(20 * MS).missed(Missed::Once);
    jobs.repeat("often", every, Order(6)).unwrap();
    wait_until("occurrences ran", || log.of(6) > 3);
    assert!(jobs.cancel_repeat("often").unwrap());
    assert_eq!(client.pending().count(), 300);
    wait_until("all ended", || client.count().unwrap().running == 0);
    assert_eq!(client.unhandled().unwrap().len(), 1);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    let dying = |_: Order, _: &tickwheel_jobs::Run| Err(tickwheel_jobs::Fail::dead("dies"));
    let jobs = open(server).queue("all").on(dying).start().unwrap();
    let dead = jobs.insert(Duration::ZERO, Order(7)).unwrap();
    wait_until("it died", || client.count().unwrap().dead == 1);
    assert_eq!(client.dead().count(), 1);
    assert!(client.revive(dead).unwrap());
    wait_until("it died again", || client.count().unwrap().dead == 1);
    assert!(client.discard(dead).unwrap());
    client.check().unwrap();
    jobs.shutdown().unwrap();
}

/// The words of a line of `MONITOR` that are in quotes.
fn words(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

#[test]
fn every_script_touches_only_keys_that_it_names_and_all_have_one_hash_tag() {
    let server = Server::start();
    let mut monitor = server.connection();
    monitor.send_packed_command(&redis::cmd("MONITOR").get_packed_command()).unwrap();
    everything(&server);
    let _: String = server.ask(&["ECHO", "the end"]);
    let mut named: HashSet<String> = HashSet::new();
    let mut touched = BTreeMap::new();
    loop {
        let redis::Value::SimpleString(line) = monitor.recv_response().unwrap() else { continue };
        let words = words(&line);
        match words.first().copied().unwrap_or("").to_ascii_uppercase().as_str() {
            "EVALSHA" => {
                let many: usize = words[2].parse().unwrap();
                named = words[3..3 + many].iter().map(|key| (*key).to_owned()).collect();
                assert!(named.iter().all(|key| key.starts_with("tw:{all}:")), "{named:?}");
            }
            "ECHO" => break,
            command if line.contains(" lua] ") && !["TIME", "PUBLISH"].contains(&command) => {
                assert!(named.contains(words[1]), "{line}");
                *touched.entry(command.to_owned()).or_insert(0) += 1;
            }
            _ => {}
        }
    }
    println!("{touched:?}");
    assert!(touched.len() > 15, "{touched:?}");
}

#[test]
fn a_node_of_a_cluster_runs_every_script() {
    let server = Server::with(&["--cluster-enabled", "yes", "--save", "", "--appendonly", "no"]);
    let _: String = server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    wait_until("the cluster is up", || {
        let info: String = server.ask(&["CLUSTER", "INFO"]);
        info.contains("cluster_state:ok")
    });
    everything(&server);
}

/// Returns how many words in quotes a line of `MONITOR` has.
fn count_words(line: &str) -> usize {
    let mut quotes = 0;
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => quotes += 1,
            _ => {}
        }
    }
    quotes / 2
}

/// What one script did at most.
#[derive(Default, Debug)]
struct Most {
    calls: usize,
    commands: usize,
    words: usize,
}

/// Returns what each script did at most, from what a monitor has heard up to `ECHO`.
fn most(monitor: &mut redis::Connection) -> BTreeMap<String, Most> {
    let mut scripts: BTreeMap<String, Most> = BTreeMap::new();
    let (mut script, mut commands) = (String::new(), 0);
    loop {
        let value = monitor.recv_response().unwrap();
        let redis::Value::SimpleString(line) = value else { continue };
        let command = words(&line);
        if command.first() == Some(&"EVALSHA") {
            command[1][..8].clone_into(&mut script);
            scripts.entry(script.clone()).or_default().calls += 1;
            commands = 0;
        } else if command.first() == Some(&"ECHO") {
            return scripts;
        } else if line.contains(" lua] ") {
            commands += 1;
            let most = scripts.entry(script.clone()).or_default();
            most.commands = most.commands.max(commands);
            most.words = most.words.max(count_words(&line));
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Mail(String);

impl Job for Mail {
    const NAME: &'static str = "mail";
}

/// The limit of Lua's stack is 8,000, and the rivals' scripts fail there for good.
#[test]
fn twenty_thousand_jobs_at_one_instant_pass_every_script() {
    const MANY: u64 = 20_000;
    let server = Server::start();
    let mut monitor = server.connection();
    monitor.send_packed_command(&redis::cmd("MONITOR").get_packed_command()).unwrap();
    let client = open(&server).client().unwrap();
    let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let ids = client.insert_batch((0..MANY).map(|n| (at, Order(n)))).unwrap();
    assert_eq!(client.pending().count() as u64, MANY);
    client.check().unwrap();
    // All of them are due, at one time, and all are claimed by a process that is gone.
    let (jobs, driver) = open(&server)
        .lease(Duration::from_secs(30))
        .in_flight(MANY as usize)
        .on(|_: Order, _| Err(tickwheel_jobs::Fail::dead("dies")))
        .manual()
        .unwrap();
    driver.set_wall(at);
    for _ in 0..MANY / 256 + 2 {
        jobs.nudge();
    }
    assert_eq!(jobs.stats().in_flight as u64, MANY);
    client.check().unwrap();
    core::mem::forget((jobs, driver));
    // Another process finds that the leases have ended, and handles another kind.
    let (jobs, driver) = open(&server).on(|_: Mail, _| Ok(())).manual().unwrap();
    driver.set_wall(at + Duration::from_secs(10_000));
    assert_eq!(client.count().unwrap().running, 0, "the leases have ended");
    client.check().unwrap();
    drop((jobs, driver));
    let (jobs, driver) = open(&server)
        .retention(Duration::ZERO)
        .on(|_: Order, _| Err(tickwheel_jobs::Fail::dead("dies")))
        .manual()
        .unwrap();
    for id in &ids[..1000] {
        assert!(client.cancel(*id).unwrap().is_cancelled());
    }
    driver.set_wall(at + Duration::from_secs(20_000));
    let counts = jobs.count().unwrap();
    assert_eq!(counts.pending + counts.running, MANY - 1000, "{counts:?}");
    client.check().unwrap();
    drop((jobs, driver));
    let _: String = server.ask(&["ECHO", "the end"]);
    for (script, most) in most(&mut monitor) {
        println!("{script}: {most:?}");
        assert!(most.commands <= 256 * 10 && most.words <= 2 + 128, "{script}: {most:?}");
    }
}

/// The whole life of 20,000 jobs on three nodes: none waits for the others.
#[test]
fn twenty_thousand_jobs_run_on_three_nodes() {
    let server = Server::start();
    let log = Log::default();
    let nodes: Vec<Jobs> = (0..3).map(|_| noting(open(&server), &log)).collect();
    let client = open(&server).client().unwrap();
    let at = wall_now() + 700 * MS;
    client.insert_batch((0..20_000).map(|n| (at, Order(n)))).unwrap();
    wait_until("all ran", || log.len() == 20_000);
    println!("all had started {:?} after their time", at.elapsed().unwrap_or_default());
    for node in &nodes {
        println!("{:?}", node.stats());
    }
    wait_until("all ended", || client.count().unwrap().running == 0);
    client.check().unwrap();
    for node in nodes {
        node.shutdown().unwrap();
    }
    log.each_once(20_000);
}
