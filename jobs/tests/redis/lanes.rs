//! Limits and partitions on a server: several nodes, nodes that die, keys that someone changes by hand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_jobs::{Builder, Client, Driver, Jobs, Limit, Run};

use crate::half_done::{spoil, unchanged};
use crate::proxy::Proxy;
use crate::scenarios::limits::{Charge, charge, noted};
use crate::scenarios::{Mail, holding};
use crate::server::{Server, pause, wait_until};
use crate::support::{MS, in_hand, open};

const SECOND: Duration = Duration::from_secs(1);

/// How many runs are under way on all nodes, how many there were at most, and how many have ended.
#[derive(Clone, Default)]
struct Running(Arc<[AtomicUsize; 3]>);

impl Running {
    fn node(&self, builder: Builder) -> Jobs {
        let running = self.clone();
        let handler = move |_: Charge, _: &Run| {
            let [now, most, ended] = &*running.0;
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            pause(5 * MS);
            now.fetch_sub(1, Ordering::SeqCst);
            ended.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        builder.threads(4).handle(handler).start().unwrap()
    }

    fn most(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }

    fn ended(&self) -> usize {
        self.0[2].load(Ordering::SeqCst)
    }
}

fn all_end(client: &Client, running: &Running, many: usize) {
    wait_until("all ran", || running.ended() == many);
    wait_until("all ended", || in_hand(client) == 0);
    client.check().unwrap();
}

/// Redis P23: Three nodes together run as many jobs of a flow as its limit, and no more, also of those that were
/// claimed before there was a limit.
#[test]
fn nodes_together_keep_a_limit() {
    let server = Server::start();
    let running = Running::default();
    let nodes: Vec<Jobs> = (0..3).map(|_| running.node(open(&server))).collect();
    let client = open(&server).client().unwrap();
    let charges = client.kind::<Charge>();
    let batch = || (0..300).map(|n| (Duration::ZERO, charge(["acme", "beta", "nobody"][n % 3])));
    client.insert_batch(batch()).unwrap();
    wait_until("some ran", || running.ended() > 20);
    charges.limit(Limit::running(3)).unwrap();
    all_end(&client, &running, 300);
    assert!(running.most() > 3, "{}", running.most());
    running.0[1].store(0, Ordering::SeqCst);
    client.insert_batch(batch()).unwrap();
    all_end(&client, &running, 600);
    assert_eq!(running.most(), 3);
    charges.limit(Limit::none()).unwrap();
    charges.limit_each(Limit::running(1)).unwrap();
    running.0[1].store(0, Ordering::SeqCst);
    let batch = (0..200).map(|n| (Duration::ZERO, charge(["acme", "beta"][n % 2])));
    client.insert_batch(batch).unwrap();
    all_end(&client, &running, 800);
    assert_eq!(running.most(), 2);
    nodes.into_iter().for_each(|node| node.shutdown().unwrap());
}

/// Redis P23: The jobs of a node that is cut off keep their places until their leases end, and not longer.
#[test]
fn places_of_a_node_that_is_cut_off_are_free_once_its_leases_end() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let (started, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let first = Arc::clone(&started);
    let stuck = move |_: Charge, run: &Run| {
        first.fetch_add(1, Ordering::SeqCst);
        while !run.is_cancelled() {
            pause(5 * MS);
        }
        Ok(())
    };
    let cut_off = Jobs::redis(proxy.url()).unwrap().lease(SECOND).threads(1);
    let cut_off = cut_off.handle(stuck).start().unwrap();
    let client = open(&server).client().unwrap();
    client.kind::<Charge>().limit_each(Limit::running(1)).unwrap();
    client.insert_batch((0..3).map(|_| (Duration::ZERO, charge("acme")))).unwrap();
    wait_until("one runs", || started.load(Ordering::SeqCst) == 1);
    let noted = Arc::clone(&begun);
    let note = move |job: Charge, _: &Run| {
        noted.lock().unwrap().push(job.0);
        Ok(())
    };
    let second = open(&server).lease(SECOND).handle(note).start().unwrap();
    client.insert(Duration::ZERO, charge("beta")).unwrap();
    wait_until("another partition runs", || !begun.lock().unwrap().is_empty());
    pause(2 * SECOND);
    assert_eq!(*begun.lock().unwrap(), ["beta"]);
    proxy.cut(true);
    wait_until("all ran", || begun.lock().unwrap().len() == 4);
    wait_until("all ended", || in_hand(&client) == 0);
    client.check().unwrap();
    assert_eq!(started.load(Ordering::SeqCst), 1);
    second.shutdown().unwrap();
    drop(cut_off);
}

/// Redis P23: The places of a node that has died are free after its leases, also if the last limit was removed
/// meanwhile. A leaked place is named by `check` until then. Later limits count the claims anew.
#[test]
fn places_are_free_although_the_limit_was_removed_meanwhile() {
    let server = Server::start();
    let held = || server.ask::<u64>(&["ZCARD", "tw:{jobs}:held"]);
    let mails = || open(&server).lease(SECOND).handle(|_: Mail, _: &Run| Ok(())).manual().unwrap();
    let (dies, driver) = mails();
    dies.queue().limit(Limit::running(5)).unwrap();
    dies.insert_batch((0..3).map(|n| (Duration::ZERO, Mail(n)))).unwrap();
    dies.nudge();
    assert_eq!(held(), 3);
    dies.queue().limit(Limit::none()).unwrap();
    let after = driver.wall_now() + 10 * SECOND;
    core::mem::forget((dies, driver));
    let _: u64 = server.ask(&["HDEL", "tw:{jobs}:flow", ""]);
    let (jobs, driver) = mails();
    driver.set_wall(after);
    for _ in 0..3 {
        driver.advance(SECOND);
    }
    assert_eq!(held(), 0);
    assert_eq!(in_hand(&open(&server).client().unwrap()), 0);
    jobs.check().unwrap();
    let _: u64 =
        server.ask(&["ZADD", "tw:{jobs}:held", "0", "\u{4}mail\u{4}mail\x000123456789abcdef"]);
    assert!(jobs.check().unwrap_err().to_string().contains("R24"));
    for _ in 0..3 {
        driver.advance(SECOND);
    }
    assert_eq!(held(), 0);
    jobs.check().unwrap();
}

/// A fence whose scope is cut short counts as none: its job runs again when the lease ends, and other claims go on.
#[test]
fn fence_with_a_broken_scope_stops_no_claim() {
    let server = Server::start();
    let (dies, driver, _) = noted(open(&server).lease(SECOND));
    dies.kind::<Charge>().limit_each(Limit::running(5)).unwrap();
    dies.insert_batch((0..2).map(|_| (Duration::ZERO, charge("acme")))).unwrap();
    dies.nudge();
    const CUT: &str = "local fences = redis.call('HGETALL', KEYS[1])
        redis.call('HSET', KEYS[1], fences[1], string.sub(fences[2], 1, 56) .. '\\23{')
        return redis.call('ZREMRANGEBYRANK', KEYS[2], 0, 0)";
    let keys = ["2", "tw:{jobs}:fence", "tw:{jobs}:held"];
    assert_eq!(server.ask::<i64>(&["EVAL", CUT, keys[0], keys[1], keys[2]]), 1);
    let after = driver.wall_now() + 10 * SECOND;
    core::mem::forget((dies, driver));
    let (jobs, driver, ran) = noted(open(&server).lease(SECOND));
    driver.set_wall(after);
    jobs.insert(Duration::ZERO, charge("beta")).unwrap();
    for _ in 0..5 {
        driver.advance(SECOND);
    }
    assert_eq!(ran.lock().unwrap().len(), 3);
    assert_eq!(in_hand(&open(&server).client().unwrap()), 0);
}

/// Redis P23: Each job runs, also after someone removes data from the keys of partitions and limits, or adds data to
/// them.
#[test]
fn keys_of_partitions_that_someone_changes_heal() {
    let server = Server::start();
    let lane = "\u{6}charge\u{4}acme";
    let phantom = format!("\u{6}stripe{lane}0123456789abcdef");
    let waits = format!("{lane}\0\0\0\0\0\0\0\u{1}0123456789abcdef");
    let turn = "\u{6}charge\0\0\0\0\0\0\0\u{1}\u{4}acme";
    let due = "tw:{jobs}:due:charge";
    let changes: [&[&str]; 11] = [
        &["ZUNIONSTORE", "due:charge", "1", due, "WEIGHTS", "inf"],
        &["DEL", "wait"],
        &["DEL", "turn"],
        &["DEL", "lanes"],
        &["DEL", "held"],
        &["ZADD", "wait", "0", &waits],
        &["ZADD", "wait", "0", "x"],
        &["ZADD", "turn", "0", turn],
        &["HSET", "lanes", lane, "\0\0\0\0\0\0\0\u{1}p"],
        &["HSET", "lanes", lane, "x"],
        &["ZADD", "held", "0", &phantom],
    ];
    for change in changes {
        let _: String = server.ask(&["FLUSHALL"]);
        let (jobs, driver, ran) = noted(open(&server));
        let charges = jobs.kind::<Charge>();
        charges.limit_each(Limit::running(1)).unwrap();
        charges.partition("acme").pause().unwrap();
        for name in ["acme", "beta", "nobody"] {
            jobs.insert_batch((0..5).map(|_| (Duration::ZERO, charge(name)))).unwrap();
        }
        assert_eq!(driver.advance(MS), 10);
        let key = format!("tw:{{jobs}}:{}", change[1]);
        let mut words = change.to_vec();
        words[1] = &key;
        let _: redis::Value = server.ask(&words);
        charges.partition("acme").resume().unwrap();
        driver.advance(MS);
        let _: redis::Value = server.ask(&words);
        for _ in 0..8 {
            driver.advance(SECOND);
        }
        assert_eq!(ran.lock().unwrap().len(), 15, "{change:?}");
        let held: u64 = server.ask(&["ZCARD", "tw:{jobs}:held"]);
        assert_eq!(held, 0, "{change:?}");
        let _: i64 = server.ask(&["DEL", "tw:{jobs}:unreadable"]);
        jobs.check().unwrap();
        drop((jobs, driver));
    }
}

/// Redis P23: A claim that meets a key of another type changes nothing.
#[test]
fn claim_with_partitions_is_not_half_done_if_a_key_has_another_type() {
    let server = Server::start();
    let names =
        ["flow", "wait", "turn", "lanes", "held", "run", "fence", "jobs", "keys", "unreadable"];
    for name in names {
        let _: String = server.ask(&["FLUSHALL"]);
        let (jobs, driver, ran) = noted(open(&server));
        jobs.kind::<Charge>().limit_each(Limit::running(1)).unwrap();
        jobs.insert_batch((0..4).map(|_| (SECOND, charge("acme")))).unwrap();
        driver.advance(MS);
        let before = spoil(&server, name);
        driver.advance(SECOND);
        unchanged(&server, &before, &format!("a claim, {name}"));
        assert!(ran.lock().unwrap().is_empty());
        core::mem::forget((jobs, driver));
    }
}

/// Redis P25: Without limits and partitions a claim asks for the number of fields of `flow`, and touches no other key
/// of them. Blocked jobs cost the others nothing.
#[test]
fn jobs_without_limits_cost_one_command_more_for_each_call() {
    let server = Server::start();
    let life = |jobs: &Jobs, driver: &Driver| {
        let hlens = || server.commands().get("hlen").copied().unwrap_or(0);
        let before = hlens();
        let all = server.cost(|| {
            jobs.insert(Duration::ZERO, Mail(1)).unwrap();
            assert_eq!(driver.advance(MS), 1);
        });
        (all, hlens() - before)
    };
    let (jobs, driver) = open(&server).handle(|_: Mail, _| Ok(())).manual().unwrap();
    driver.advance(SECOND);
    life(&jobs, &driver);
    let (plain, asked) = life(&jobs, &driver);
    println!("the life of a job: {plain} commands, {asked} of them HLEN");
    for key in ["wait", "turn", "lanes", "held", "flow"] {
        let exists: u64 = server.ask(&["EXISTS", &format!("tw:{{jobs}}:{key}")]);
        assert_eq!(exists, 0, "{key}");
    }
    drop((jobs, driver));
    let both = open(&server).handle(|_: Mail, _| Ok(())).handle(|_: Charge, _| Ok(()));
    let (jobs, driver) = both.manual().unwrap();
    jobs.kind::<Charge>().partition("acme").pause().unwrap();
    let costs = [200, 3000].map(|many| {
        jobs.insert_batch((0..many).map(|_| (Duration::ZERO, charge("acme")))).unwrap();
        for _ in 0..20 {
            driver.advance(100 * MS);
        }
        life(&jobs, &driver);
        life(&jobs, &driver).0
    });
    println!("with a paused partition: {costs:?}");
    assert!(costs[1] <= costs[0] + 20, "{costs:?}");
    jobs.check().unwrap();
    drop((jobs, driver));
}

/// Redis P25: Two versions of a program that disagree about the flow of a kind do not answer each other: each stores
/// its flow once, at its start.
#[test]
fn versions_that_disagree_about_a_flow_do_not_answer_each_other() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct OldCharge(String);

    impl tickwheel_jobs::Job for OldCharge {
        const KIND: &'static str = "charge";
    }

    let server = Server::start();
    let (new, new_driver, _) = noted(open(&server));
    let (old, old_driver) = open(&server).handle(|_: OldCharge, _| Ok(())).manual().unwrap();
    let changes = || {
        new_driver.advance(SECOND);
        old_driver.advance(SECOND);
        server.ask::<u64>(&["HGET", "tw:{jobs}:meta", "schedules"])
    };
    for _ in 0..3 {
        changes();
    }
    let before = changes();
    for _ in 0..5 {
        assert_eq!(changes(), before);
    }
    drop((new, old));
}

/// Redis P25: A full server answers the polls of a node while jobs of a partition wait for a place of the queue.
#[test]
fn full_server_answers_polls_while_partitions_wait() {
    let server = Server::start();
    let (holds, starts, release) = holding(|_: &Mail| true);
    let holder = open(&server).handle(holds).start().unwrap();
    holder.queue().limit(Limit::running(1)).unwrap();
    holder.insert(Duration::ZERO, Mail(1)).unwrap();
    starts.recv_timeout(Duration::from_secs(60)).unwrap();
    let (jobs, driver, ran) = noted(open(&server));
    jobs.insert_batch((0..9).map(|_| (MS, charge("acme")))).unwrap();
    driver.advance(SECOND);
    server.limit_memory("1");
    let failed = jobs.stats().failed_commits;
    for _ in 0..5 {
        driver.advance(SECOND);
    }
    assert_eq!(jobs.stats().failed_commits, failed);
    server.limit_memory("0");
    drop(release);
    wait_until("a full server has lost no job", || {
        driver.advance(SECOND);
        ran.lock().unwrap().len() == 9
    });
    holder.shutdown().unwrap();
    jobs.check().unwrap();
}
