//! What a script has written stays if it fails: so each fails before its first write, or not at
//! all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_jobs::{
    Cancel, Durability, Event, Fail, JobId, Jobs, NewJob, Run, Schedule, StoreError,
};

use crate::lost::hash_of;
use crate::proxy::{End, Fate, Proxy};
use crate::server::{Server, pause, wait_until};
use crate::support::{Events, Log, MS, Order, in_hand, noting, open};

const SOON: Duration = Duration::from_secs(3);
const HOUR: Duration = Duration::from_secs(3600);

/// Redis P10, D5: A full server renews leases. It refused that before a fix, because `ZADD` may need memory: the lease
/// ended, and the job ran elsewhere beside the first run.
#[test]
fn lease_is_renewed_on_a_full_server() {
    let server = Server::start();
    let (log, events) = (Log::default(), Events::default());
    let node = || {
        let noted = log.clone();
        let handler = move |order: Order, _: &Run| {
            noted.add(order.0);
            pause(4500 * MS);
            Ok(())
        };
        events.of(open(&server)).lease(2000 * MS).handle(handler).start().unwrap()
    };
    let nodes = [node(), node()];
    nodes[0].insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("it started", || log.of(1) == 1);
    server.limit_memory("1mb");
    wait_until("it ended", || nodes.iter().any(|node| node.stats().completed == 1));
    assert_eq!((events.leases_lost(), log.of(1)), (0, 1));
    server.limit_memory("0");
    nodes.into_iter().for_each(|node| node.shutdown().unwrap());
}

/// A buffered insert that a full server refuses is named in an event, and the next flush fails. Before a fix it was
/// gone without a word.
#[test]
fn buffered_insert_that_a_full_server_refuses_is_reported() {
    let server = Server::start();
    let events = Events::default();
    let builder = events.of(open(&server)).durability(Durability::Buffered);
    let jobs = builder.handle(|_: Order, _| Ok(())).start().unwrap();
    let dropped = |event: &Event| match event {
        Event::InsertsDropped { ids } => Some(ids.clone()),
        _ => None,
    };
    server.limit_memory("1mb");
    let id = jobs.insert(HOUR, Order(1)).unwrap();
    wait_until("the event came", || events.all(dropped).concat() == [id]);
    server.limit_memory("0");
    assert!(jobs.get(id).unwrap().is_none());
    let stored = jobs.insert(HOUR, Order(2)).unwrap();
    assert_eq!(jobs.flush(), Err(StoreError::Full));
    jobs.flush().unwrap();
    assert!(jobs.get(stored).unwrap().is_some());
    jobs.shutdown().unwrap();
}

/// D5: A full server stores the ends of runs, also in a batch with calls. Before a fix, a reschedule that it refused
/// took the ends in the same batch with it.
#[test]
fn ends_of_runs_are_stored_on_a_full_server() {
    let server = Server::start();
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    let far = jobs.insert(HOUR, Order(1000)).unwrap();
    let batch = (0..200).map(|n| ((200 + n as u32) * MS, Order(n)));
    jobs.insert_batch(batch).unwrap();
    server.limit_memory("1mb");
    std::thread::scope(|scope| {
        let (jobs, log) = (&jobs, &log);
        for n in 0..4 {
            scope.spawn(move || {
                while log.len() < 200 {
                    assert!(
                        jobs.reschedule(far, HOUR + n * MS).unwrap(),
                        "a reset needs no more memory"
                    );
                    assert_eq!(jobs.cancel(JobId::new()).unwrap(), Cancel::Gone);
                }
            });
        }
    });
    wait_until("all ended", || in_hand(&jobs) == 0);
    assert_eq!(jobs.count().unwrap().pending, 1);
    jobs.check().unwrap();
    server.limit_memory("0");
    jobs.shutdown().unwrap();
    log.each_once(200);
}

/// Every key of the queue with its value, but for the answers to processes.
fn contents(server: &Server) -> BTreeMap<String, Vec<u8>> {
    let keys: Vec<String> = server.ask(&["KEYS", "tw:{jobs}:*"]);
    let lasting = keys.into_iter().filter(|key| !key.starts_with("tw:{jobs}:sent:"));
    let dump = |key: String| {
        let of: String = server.ask(&["TYPE", &key]);
        if of == "hash" {
            // A dump of a large hash follows the order of its table, which reads may change.
            let fields: BTreeMap<Vec<u8>, Vec<u8>> =
                redis::cmd("HGETALL").arg(&key).query(&mut server.connection()).unwrap();
            return (key, format!("{fields:?}").into_bytes());
        }
        let value = redis::cmd("DUMP").arg(&key).query(&mut server.connection()).unwrap();
        (key, value)
    };
    lasting.map(dump).collect()
}

const NAMES: [&str; 16] = [
    "jobs",
    "run",
    "fence",
    "keys",
    "ended",
    "over",
    "counters",
    "settings",
    "dead_by_error",
    "schedules",
    "cancel_requested",
    "progress",
    "history",
    "meta",
    "kinds",
    "due:order",
];

/// Gives a key another type. Returns what the queue is then.
pub(crate) fn spoil(server: &Server, name: &str) -> BTreeMap<String, Vec<u8>> {
    let _: i64 = server.by_hand("DEL", name, &[]);
    let _: String = server.by_hand("SET", name, &[b"something else"]);
    contents(server)
}

#[track_caller]
pub(crate) fn unchanged(server: &Server, before: &BTreeMap<String, Vec<u8>>, what: &str) {
    let now = contents(server);
    let changed = now.iter().filter(|(key, value)| before.get(*key) != Some(value));
    let changed: Vec<&String> = changed.map(|(key, _)| key).collect();
    let gone: Vec<&String> = before.keys().filter(|key| !now.contains_key(*key)).collect();
    assert!(changed.is_empty() && gone.is_empty(), "{what}: {changed:?} changed, {gone:?} gone");
}

/// D4: A call or a claim that meets a key of another type changes nothing. Before a fix, a job whose claim was half
/// done was in no set, so no node would run it.
#[test]
fn operations_are_not_half_done_if_a_key_has_another_type() {
    let server = Server::start();
    for name in NAMES {
        let _: String = server.ask(&["FLUSHALL"]);
        let dies = |order: Order, _: &Run| match order.0 {
            1 => Err(Fail::dead("dies")),
            _ => Ok(()),
        };
        let (jobs, driver) = open(&server).handle(dies).manual().unwrap();
        jobs.insert(Duration::ZERO, Order(1)).unwrap();
        driver.advance(MS);
        jobs.insert(HOUR, Order(2)).unwrap();
        jobs.keyed("k").insert(HOUR, Order(3)).unwrap();
        jobs.insert_job(NewJob::new(Order(3)).at(HOUR).id(JobId::named("chosen"))).unwrap();
        jobs.insert(SOON, Order(2)).unwrap();
        jobs.schedule("often", Schedule::every(SOON), Order(4)).unwrap();
        let client = open(&server).client().unwrap();
        let dead = client.dead().next().unwrap().id;
        let pending: Vec<JobId> = client.pending().map(|job| job.id).collect();
        let mut before = spoil(&server, name);
        let mut many = 0;
        let mut refused = |verb: &str, is_done: bool| {
            // Inserts without keys or chosen ids look at these types and no others.
            let is_list = ["insert", "insert_batch"].contains(&verb);
            let may_be_done = is_list && !["jobs", "kinds", "due:order", "history"].contains(&name);
            assert_eq!(is_done, may_be_done, "{verb}, {name}");
            match is_done {
                true => before = contents(&server),
                false => {
                    many += 1;
                    unchanged(&server, &before, &format!("{verb}, {name}"));
                }
            }
        };
        refused("insert", client.insert(HOUR, Order(5)).is_ok());
        refused("insert_batch", client.insert_batch((6..9).map(|n| (HOUR, Order(n)))).is_ok());
        refused(
            "insert with an id",
            client.insert_job(NewJob::new(Order(9)).at(HOUR).id(JobId::new())).is_ok(),
        );
        refused("insert under a key", client.keyed("k").insert(HOUR, Order(10)).is_ok());
        for id in pending {
            refused("reschedule", client.reschedule(id, 2 * HOUR).is_ok());
            refused("cancel", client.cancel(id).is_ok());
        }
        refused("cancel of a key", client.keyed("k").cancel().is_ok());
        refused("retry", client.retry(dead).is_ok());
        refused("delete", client.delete(dead).is_ok());
        refused("schedule", client.schedule("often", Schedule::every(MS), Order(4)).is_ok());
        refused("pause_schedule", client.schedules().pause("often").is_ok());
        refused("unschedule", client.schedules().remove("often").is_ok());
        // Occurrences and a purge are refused, and so is a claim that would be half done.
        driver.advance(2 * SOON);
        if ["jobs", "run", "fence", "meta", "kinds", "due:order"].contains(&name) {
            unchanged(&server, &before, &format!("a claim, {name}"));
        } else if name != "ended" {
            type Members = BTreeSet<Vec<u8>>;
            let fields = |key: &str| server.by_hand::<Members>("HKEYS", key, &[]);
            let members = |key: &str| server.by_hand::<Members>("ZRANGE", key, &[b"0", b"-1"]);
            let mut placed = members("run");
            placed.extend(members("due:order"));
            // The id of a dead job is near the end of its list.
            let lists = members("ended").into_iter();
            placed.extend(lists.map(|list| list[list.len() - 20..list.len() - 4].to_vec()));
            assert_eq!(fields("jobs"), placed, "a claim, {name}");
            assert_eq!(fields("fence"), members("run"), "a claim, {name}");
        }
        assert!(many > 5, "{name}: only {many} verbs were refused");
        core::mem::forget((jobs, driver));
    }
}

/// A call in a later part of a batch changes nothing if it meets a key of another type. Before a fix, the types
/// were checked before the first call alone, and not even there if that was a list of inserts: a cancel in the
/// second call removed its job, and then failed.
#[test]
fn batch_of_calls_is_not_half_done_if_a_key_has_another_type() {
    let server = Server::start();
    let jobs = noting(open(&server), &Log::default());
    let chosen =
        jobs.insert_job(NewJob::new(Order(1)).at(HOUR).id(JobId::named("chosen"))).unwrap().id;
    spoil(&server, "ended");
    let _: String = server.ask(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    std::thread::scope(|scope| {
        // While the first is under way the others come, and go together.
        let first = scope.spawn(|| jobs.insert(HOUR, Order(2)));
        let waits = || server.ask::<String>(&["CLIENT", "LIST"]).contains(" flags=b ");
        wait_until("the server keeps the first one waiting", waits);
        scope.spawn(|| jobs.insert(HOUR, Order(3)));
        pause(100 * MS);
        let cancel = scope.spawn(|| jobs.cancel(chosen));
        pause(100 * MS);
        let _: String = server.ask(&["CLIENT", "UNPAUSE"]);
        // If the claims of a second fell together with it, they were refused, and it is unknown.
        drop(first.join().unwrap());
        cancel.join().unwrap().unwrap_err();
    });
    let _: i64 = server.ask(&["DEL", "tw:{jobs}:ended"]);
    assert!(jobs.get(chosen).unwrap().is_some(), "it is half cancelled");
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}

/// A full server answers a claim that is sent again after its reply was lost. Before a fix, it refused: the job
/// waited for the end of its lease, and was interrupted once more.
#[test]
fn claim_whose_reply_was_lost_is_answered_by_a_full_server() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let jobs = noting(Jobs::redis(proxy.url()).unwrap(), &log);
    let client = open(&server).client().unwrap();
    proxy.plan(&hash_of("claim"), &[Fate::CutReply(0, End::Close), Fate::Hold]);
    client.insert(Duration::ZERO, Order(1)).unwrap();
    wait_until("the claim is sent again", || proxy.met() == 2);
    server.limit_memory("1mb");
    proxy.deliver_first();
    wait_until("it ran", || log.of(1) == 1);
    wait_until("it ended", || in_hand(&client) == 0);
    assert_eq!(log.highest_attempt(), 1);
    server.limit_memory("0");
    client.check().unwrap();
    jobs.shutdown().unwrap();
    log.each_once(1);
}

/// D4: The end of a run changes nothing if it meets a key of another type.
#[test]
fn end_of_a_run_is_not_half_done_if_a_key_has_another_type() {
    let server = Arc::new(Server::start());
    for (name, end) in NAMES.into_iter().flat_map(|name| (0..3).map(move |end| (name, end))) {
        let _: String = server.ask(&["FLUSHALL"]);
        let before = Arc::new(Mutex::new(BTreeMap::new()));
        let (shared, noted) = (Arc::clone(&server), Arc::clone(&before));
        let handler = move |_: Order, _: &Run| {
            *noted.lock().unwrap() = spoil(&shared, name);
            match end {
                0 => Ok(()),
                1 => Err(Fail::after(HOUR, "fails")),
                _ => Err(Fail::dead("dies")),
            }
        };
        let (jobs, driver) = open(&server).handle(handler).manual().unwrap();
        jobs.insert_job(NewJob::new(Order(1)).at(Duration::ZERO).id(JobId::named("chosen")))
            .unwrap();
        jobs.keyed("k").insert(Duration::from_secs(60), Order(2)).unwrap();
        driver.advance(MS);
        unchanged(&server, &before.lock().unwrap(), &format!("end {end}, {name}"));
        // The handler has the server, which ends with the test.
        drop((jobs, driver));
    }
}

/// D4: The end of a lease changes nothing if it meets a key of another type.
#[test]
fn end_of_a_lease_is_not_half_done_if_a_key_has_another_type() {
    let server = Server::start();
    for name in NAMES {
        let _: String = server.ask(&["FLUSHALL"]);
        let open = |handler: fn(Order, &Run) -> Result<(), Fail>| {
            open(&server).lease(60_000 * MS).handle(handler).manual().unwrap()
        };
        let (jobs, driver) = open(|_, _| panic!("its process is gone before it starts"));
        jobs.insert(MS, Order(1)).unwrap();
        driver.set_wall(driver.wall_now() + 2 * MS);
        assert_eq!(in_hand(&jobs) + jobs.stats().in_flight as u64, 1);
        let late = driver.wall_now() + 180_000 * MS;
        core::mem::forget((jobs, driver));
        let (jobs, driver) = open(|_, _| Ok(()));
        let before = spoil(&server, name);
        driver.set_wall(late);
        jobs.nudge();
        unchanged(&server, &before, name);
        core::mem::forget((jobs, driver));
    }
}
