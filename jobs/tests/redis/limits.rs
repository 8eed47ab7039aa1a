//! What scripts may not do: touch a key that was not named, or do much, however many jobs there are.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::view::View;
use tickwheel_jobs::{
    Builder, Durability, Fail, Job, JobId, Jobs, Limit, Missed, NewJob, PendingReason, Retry, Run,
    Schedule, Step, Until,
};

use crate::scenarios::limits::{Charge as Bill, charge, noted};
use crate::server::{Server, wait_until};
use crate::support::{Log, MS, Order, in_hand, noting, open, wall_now};

const HOUR: Duration = Duration::from_secs(3600);

/// Does every verb once.
pub(crate) fn everything(open: impl Fn() -> Builder) {
    let log = Log::default();
    let jobs = noting(open(), &log);
    let client = open().client().unwrap();
    jobs.insert(Duration::ZERO, Order(1)).unwrap();
    let id = client.insert(HOUR, Order(2)).unwrap();
    assert!(client.reschedule(id, 2 * HOUR).unwrap());
    assert!(client.cancel(id).unwrap().is_cancelled());
    let some = client.insert_batch((0..300).map(|n| (HOUR, Order(n)))).unwrap();
    assert!(client.cancel_batch(some).unwrap().iter().all(|answer| answer.is_cancelled()));
    let by_key = |n: u64| NewJob::new(Order(n)).at(HOUR).key(format!("{n}"));
    client.insert_batch((0..300).map(by_key)).unwrap();
    let cancelled = client.cancel_keys((0..300).map(|n| n.to_string())).unwrap();
    assert_eq!(cancelled, [true; 300]);
    client.insert_batch((0..300).map(|n| (HOUR, Order(n)))).unwrap();
    let keyed = client.keyed("k");
    keyed.insert(HOUR, Order(3)).unwrap();
    keyed.insert_keeping_time(HOUR, Order(4)).unwrap();
    assert!(keyed.insert_if_absent(HOUR, Order(5)).is_err());
    assert!(keyed.reschedule(2 * HOUR).unwrap() && keyed.get().unwrap().is_some());
    assert!(keyed.cancel().unwrap());
    let held = NewJob::new(Order(7)).at(HOUR).key("k").unique_until(Until::Ended);
    let held = client.insert_job(held.retry(Retry::never())).unwrap();
    assert!(held.is_new && keyed.cancel().unwrap());
    let every = Schedule::every(20 * MS).missed(Missed::Once);
    jobs.schedule("often", every.clone(), Order(6)).unwrap();
    wait_until("occurrences ran", || log.of(6) > 3);
    jobs.schedule("often", every.without_overlap(), Order(9)).unwrap();
    wait_until("occurrences ran, one after the other", || log.of(9) > 3);
    client.schedules().pause("often").unwrap();
    client.schedules().resume("often").unwrap();
    assert!(jobs.schedules().remove("often").unwrap());
    let kind = client.kind_named("order");
    kind.head_start(HOUR).unwrap();
    kind.pause().unwrap();
    kind.resume().unwrap();
    assert!(!client.nodes().unwrap().is_empty() && client.dead_by_error(9).unwrap().is_empty());
    let ever = SystemTime::UNIX_EPOCH..wall_now() + HOUR;
    assert!(!client.queue().history(Step::Minute, ever).unwrap().is_empty());
    client.metrics().unwrap();
    client.queue().pause().unwrap();
    assert!(client.queue().is_paused().unwrap());
    client.queue().resume().unwrap();
    let page = client.pending().next_page().unwrap();
    let later = client.by_ids(page.iter().map(|job| job.id)).reschedule_all(2 * HOUR).unwrap();
    assert!(later.at_most(9).run().unwrap().changed <= 9);
    client.schedule("seldom", HOUR, Order(6)).unwrap();
    assert!(client.schedules().run_once("seldom", JobId::new()).unwrap().is_some());
    assert!(client.schedules().remove("seldom").unwrap());
    View::new(client.clone()).overview().unwrap();
    let copy = client.insert_copy(&page[0], 2 * HOUR).unwrap();
    assert!(client.cancel(copy).unwrap().is_cancelled());
    wait_until("the occurrence is claimed", || client.pending().count() == 300);
    wait_until("all ended", || in_hand(&client) == 0);
    assert_eq!(client.unhandled().unwrap().len(), 1);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    let dying = |_: Order, run: &Run| -> Result<(), Fail> {
        let before: Option<u64> = run.progress()?;
        run.store_progress(&before.map_or(1, |before| before + 1))?;
        Err(Fail::dead("dies"))
    };
    let jobs = open().handle(dying).start().unwrap();
    let dead = jobs.insert(Duration::ZERO, Order(7)).unwrap();
    wait_until("it died", || client.count().unwrap().dead == 1);
    assert_eq!(client.dead().count(), 1);
    assert!(client.retry(dead).unwrap());
    wait_until("it died again", || client.count().unwrap().dead == 1);
    assert_eq!(client.get(dead).unwrap().unwrap().progress.as_deref(), Some(&b"2"[..]));
    assert!(client.delete(dead).unwrap());
    client.check().unwrap();
    jobs.shutdown().unwrap();
    let follows = |order: Order, run: &Run| -> Result<(), Fail> {
        if order.0 == 8 {
            run.next().keyed("k").insert(HOUR, Order(9))?;
            run.then(HOUR, Order(10))?;
        }
        Ok(())
    };
    let jobs = open().handle(follows).start().unwrap();
    jobs.insert(Duration::ZERO, Order(8)).unwrap();
    wait_until("it was followed", || client.keyed("k").get().unwrap().is_some());
    assert!(client.keyed("k").cancel().unwrap());
    client.check().unwrap();
    jobs.shutdown().unwrap();
    let jobs = open().handle(|_: Bill, _: &Run| Ok(())).start().unwrap();
    let (bills, before) = (client.kind_named("charge"), client.count().unwrap().pending);
    client.queue().limit(Limit::running(9)).unwrap();
    bills.limit(Limit::running(5)).unwrap();
    bills.limit_each(Limit::running(1)).unwrap();
    bills.partition("acme").limit(Limit::running(2).weight(3)).unwrap();
    let late = bills.partition("late");
    late.pause().unwrap();
    let of = |name| (0..10).map(move |_| (Duration::ZERO, charge(name)));
    let ids = client.insert_batch(of("late").chain(of("acme")).chain(of("beta"))).unwrap();
    let pending = || {
        let counts = client.count().unwrap();
        counts.pending + counts.claimed + counts.running - before
    };
    wait_until("the others ran", || pending() == 10);
    assert_eq!(client.why_pending(ids[0]).unwrap(), [PendingReason::PartitionPaused]);
    assert_eq!(client.queue().limits().unwrap().len(), 4);
    assert!(client.cancel(ids[0]).unwrap().is_cancelled());
    assert!(client.reschedule(ids[1], MS).unwrap());
    client.check().unwrap();
    late.resume().unwrap();
    wait_until("all ran", || pending() == 0);
    bills.limit(Limit::none().rate(20, 100 * MS).burst(2)).unwrap();
    bills.partition("acme").limit(Limit::none().rate(10, 100 * MS)).unwrap();
    bills.partition("beta").hold(50 * MS).unwrap();
    bills.hold(20 * MS).unwrap();
    client.queue().hold(10 * MS).unwrap();
    client.insert_batch(of("acme").chain(of("beta")).chain(of("nobody"))).unwrap();
    wait_until("all ran at their rates", || pending() == 0);
    assert!(client.queue().limits().unwrap().len() >= 4);
    let group = client.group().then(Order(11)).add_all(of("acme")).open().unwrap();
    group.add(HOUR, Order(12)).unwrap();
    assert!(group.seal().unwrap());
    group.cancel().unwrap();
    wait_until("the group has ended", || group.info().unwrap().unwrap().ended.is_some());
    assert_eq!(client.groups().unwrap().len(), 1);
    client.check().unwrap();
    jobs.shutdown().unwrap();
}

/// Returns a connection that hears every command.
fn monitor(server: &Server) -> redis::Connection {
    let mut monitor = server.connection();
    monitor.send_packed_command(&redis::cmd("MONITOR").get_packed_command()).unwrap();
    monitor
}

/// The words of a line of `MONITOR` that are in quotes.
fn words(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

/// Calls `each` with every line that the monitor has heard of a call of a script (`true`), or of a command in it.
fn heard(server: &Server, mut monitor: redis::Connection, mut each: impl FnMut(bool, &str)) {
    let _: String = server.ask(&["ECHO", "the end"]);
    loop {
        let redis::Value::SimpleString(line) = monitor.recv_response().unwrap() else { continue };
        match words(&line).first().copied().unwrap_or_default() {
            "ECHO" => return,
            command if command.eq_ignore_ascii_case("EVALSHA") => each(true, &line),
            _ if line.contains(" lua] ") => each(false, &line),
            _ => {}
        }
    }
}

/// A script touches only the keys that its call names, and all of them have one hash tag. So a node of a cluster runs
/// every script.
#[test]
fn scripts_touch_only_keys_that_they_name_with_one_hash_tag() {
    let server = Server::start();
    let monitor = monitor(&server);
    everything(|| open(&server).queue("all"));
    let mut named: HashSet<String> = HashSet::new();
    let mut touched = BTreeMap::new();
    heard(&server, monitor, |is_call, line| {
        let words = words(line);
        let command = words[0].to_ascii_uppercase();
        if is_call {
            let many: usize = words[2].parse().unwrap();
            named = words[3..3 + many].iter().map(|key| (*key).to_owned()).collect();
            assert!(named.iter().all(|key| key.starts_with("tw:{all}:")), "{named:?}");
        } else if !["TIME", "PUBLISH"].contains(&&*command) {
            assert!(named.contains(words[1]), "{line}");
            *touched.entry(command).or_insert(0) += 1;
        }
    });
    println!("{touched:?}");
    assert!(touched.len() > 15, "{touched:?}");
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

/// Fails if a script has done more than so much for each of 256 items, or has called a command with
/// more of a list than 128 arguments. How long it took depends on the machine.
fn no_script_did_much(server: &Server, monitor: redis::Connection) {
    let mut scripts: BTreeMap<String, Most> = BTreeMap::new();
    let (mut script, mut commands) = (String::new(), 0);
    heard(server, monitor, |is_call, line| {
        if is_call {
            words(line)[1][..8].clone_into(&mut script);
            commands = 0;
        } else {
            commands += 1;
        }
        let most = scripts.entry(script.clone()).or_default();
        most.calls += usize::from(is_call);
        most.commands = most.commands.max(commands);
        if !is_call {
            most.words = most.words.max(count_words(line));
        }
    });
    for (script, most) in scripts {
        println!("{script}: {most:?}");
        assert!(most.commands <= 256 * 10 && most.words <= 2 + 128, "{script}: {most:?}");
    }
}

/// Redis P25: After the clock was set back, no script moves more than a page of the jobs of a partition that are not
/// due any more.
#[test]
fn scripts_move_back_thousands_of_jobs_of_a_partition_by_pages() {
    let server = Server::start();
    let (jobs, driver, ran) = noted(open(&server));
    let acme = jobs.kind_named("charge").partition("acme");
    acme.pause().unwrap();
    jobs.insert_batch((0..2_000).map(|_| (Duration::ZERO, charge("acme")))).unwrap();
    for _ in 0..20 {
        driver.advance(MS);
    }
    let monitor = monitor(&server);
    driver.set_wall(driver.wall_now() - HOUR);
    acme.resume().unwrap();
    assert_eq!(driver.advance(MS), 0);
    no_script_did_much(&server, monitor);
    jobs.check().unwrap();
    driver.advance(2 * HOUR);
    assert_eq!(ran.lock().unwrap().len(), 2_000);
    jobs.check().unwrap();
}

#[derive(Serialize, Deserialize)]
struct Mail(String);

impl Job for Mail {
    const KIND: &'static str = "mail";
}

/// D1: Each script does a bounded amount of work with 10,000 jobs that are due at one instant. The limit of Lua's
/// stack is 8,000, and the rivals' scripts fail there for good.
#[test]
fn scripts_take_ten_thousand_jobs_due_at_one_instant() {
    const MANY: u64 = 10_000;
    let server = Server::start();
    let monitor = monitor(&server);
    let client = open(&server).client().unwrap();
    let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let ids = client.insert_batch((0..MANY).map(|n| (at, Order(n)))).unwrap();
    assert_eq!(client.pending().count() as u64, MANY);
    client.check().unwrap();
    // All of them are due, at one time, and all are claimed by a process that is gone.
    let (jobs, driver) = open(&server)
        .lease(Duration::from_secs(30))
        .max_in_flight(MANY as usize)
        .handle(|_: Order, _| Err(tickwheel_jobs::Fail::dead("dies")))
        .manual()
        .unwrap();
    driver.set_wall(at);
    for _ in 0..MANY / 128 + 2 {
        jobs.nudge();
    }
    assert_eq!(jobs.stats().in_flight as u64, MANY);
    client.check().unwrap();
    core::mem::forget((jobs, driver));
    // Another process finds that the leases have ended, and handles another kind.
    let (jobs, driver) = open(&server).handle(|_: Mail, _| Ok(())).manual().unwrap();
    driver.set_wall(at + Duration::from_secs(10_000));
    assert_eq!(in_hand(&client), 0, "the leases have ended");
    client.check().unwrap();
    drop((jobs, driver));
    let (jobs, driver) = open(&server)
        .keep_dead(Duration::ZERO)
        .handle(|_: Order, _| Err(tickwheel_jobs::Fail::dead("dies")))
        .manual()
        .unwrap();
    for id in &ids[..1000] {
        assert!(client.cancel(*id).unwrap().is_cancelled());
    }
    driver.set_wall(at + Duration::from_secs(20_000));
    let counts = jobs.count().unwrap();
    assert_eq!(counts.pending + counts.claimed + counts.running, MANY - 1000, "{counts:?}");
    client.check().unwrap();
    drop((jobs, driver));
    no_script_did_much(&server, monitor);
}

fn size(server: &Server, command: &str, key: &str) -> u64 {
    server.ask(&[command, &format!("tw:{{jobs}}:{key}")])
}

/// D1: Each script does a bounded amount of work with 10,000 jobs, also in operations that the test above leaves out:
/// chosen ids, keys, renewals, cancel requests, ends, deaths, purges.
#[test]
fn scripts_renew_end_and_purge_ten_thousand_jobs() {
    const MANY: u64 = 10_000;
    let server = Server::start();
    let monitor = monitor(&server);
    let client = open(&server).durability(Durability::Buffered).client().unwrap();
    let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    for n in 0..MANY / 2 {
        client.insert_job(NewJob::new(Order(n)).at(at).id(JobId::named(&n.to_string()))).unwrap();
        client.keyed(&n.to_string()).insert(at, Order(MANY + n)).unwrap();
    }
    client.flush().unwrap();
    let stops = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&stops);
    let handler = move |order: Order, run: &Run| {
        told.fetch_add(u64::from(run.is_cancelled()), Ordering::Relaxed);
        if order.0 < MANY { Ok(()) } else { Err(Fail::dead("dies")) }
    };
    let lease = Duration::from_secs(30);
    let builder = open(&server).lease(lease).max_in_flight(MANY as usize).handle(handler);
    let (jobs, driver) = builder.manual().unwrap();
    driver.set_wall(at);
    (0..MANY / 128 + 2).for_each(|_| jobs.nudge());
    assert_eq!(jobs.stats().in_flight as u64, MANY);
    let claimed: Vec<Vec<u8>> = server.ask(&["ZRANGE", "tw:{jobs}:run", "0", "-1"]);
    assert_eq!(client.running().take(1000).map(|job| job.id).collect::<HashSet<_>>().len(), 1000);
    // The clock jumps, so all leases are renewed at once: none ends earlier than one that begins
    // now.
    driver.set_wall(at + lease / 2);
    jobs.nudge();
    let until = (at + lease + lease / 3).duration_since(std::time::UNIX_EPOCH).unwrap();
    let until = until.as_millis().to_string();
    let ends_earlier: u64 = server.ask(&["ZCOUNT", "tw:{jobs}:run", "-inf", &until]);
    assert_eq!(ends_earlier, 0, "leases were not renewed");
    // The cancel of a tenth of them is requested, all at once.
    let mut wish = redis::cmd("SADD");
    wish.arg("tw:{jobs}:cancel_requested");
    for id in claimed.iter().step_by(10) {
        wish.arg(id);
    }
    wish.exec(&mut server.connection()).unwrap();
    client.check().unwrap();
    driver.advance(Duration::from_millis(1));
    let dead = client.dead().count() as u64;
    println!("{dead} dead, {} told", stops.load(Ordering::Relaxed));
    assert_eq!(dead, client.count().unwrap().dead);
    assert!(dead >= MANY / 2 - MANY / 10, "{dead} dead");
    let remembered = size(&server, "ZCARD", "ended") - client.count().unwrap().dead;
    assert_eq!(remembered, MANY / 2);
    assert_eq!([size(&server, "SCARD", "cancel_requested"), size(&server, "HLEN", "keys")], [0, 0]);
    client.check().unwrap();
    jobs.shutdown().unwrap();
    let builder = open(&server).keep_dead(Duration::ZERO).handle(|_: Order, _| Ok(()));
    let (jobs, driver) = builder.manual().unwrap();
    driver.set_wall(at + 31 * 24 * HOUR);
    driver.advance(Duration::from_millis(1));
    let left = ["ended", "over", "dead_by_error"].map(|key| size(&server, "ZCARD", key));
    assert_eq!((left, size(&server, "HLEN", "jobs")), ([0; 3], 0));
    let counters: Vec<String> = server.ask(&["HKEYS", "tw:{jobs}:counters"]);
    assert!(!counters.iter().any(|name| name.starts_with("died:")), "{counters:?}");
    client.check().unwrap();
    drop((jobs, driver));
    no_script_did_much(&server, monitor);
}

/// Redis P6, D1: Three nodes exclude each other: they run 20,000 jobs of one instant, each job once.
#[test]
fn nodes_run_twenty_thousand_jobs_of_one_instant_once() {
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
    wait_until("all ended", || in_hand(&client) == 0);
    client.check().unwrap();
    for node in nodes {
        node.shutdown().unwrap();
    }
    log.each_once(20_000);
}
