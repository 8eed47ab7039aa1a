//! Records that cannot be read, and commands that fail: they harm nothing else, and are reported by name.

use std::time::{Duration, SystemTime};

use tickwheel_jobs::{JobId, Limit, NewJob, Schedule};

use crate::server::{Server, wait_until};
use crate::support::{Events, Log, MS, Order, bytes, in_hand, notes, noting, open};

const HOUR: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(1);

/// P109: A limit that a user has written, and that is no limit, can be replaced: also one that is no text, which no
/// process reads.
#[test]
fn limit_that_cannot_be_read_can_be_replaced() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let orders = client.kind::<Order>();
    for senseless in [&b"{\"running\":\xff}"[..], b"\xff", b"{}", b"{", b"none", b""] {
        let _: i64 = server.by_hand("HSET", "flow", &[b"limit-flow:order", senseless]);
        assert_eq!(client.queue().limits().unwrap().len(), 0);
        orders.limit(Limit::running(3)).unwrap();
        let limits = client.queue().limits().unwrap();
        assert_eq!((limits.len(), limits[0].limit), (1, Limit::running(3)));
    }
}

/// Redis P6: An unreadable schedule costs no claim, and is reported once. Before a fix, a row of another version made
/// every step fail after its claim: the jobs were claimed at each step, never ran, and were dead after five leases.
#[test]
fn unreadable_schedule_costs_no_claim_and_is_reported_once() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    client.schedule("good", Schedule::every(HOUR), Order(100)).unwrap();
    let _: i64 = server.by_hand("HSET", "schedules", &[b"bad", b"something else"]);
    let (log, events) = (Log::default(), Events::default());
    let jobs = noting(events.of(open(&server).lease(LEASE)), &log);
    client.insert_batch((0..50).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    wait_until("all ran", || log.len() == 50);
    wait_until("all ended", || in_hand(&client) == 0);
    // A change of any schedule makes the nodes read all schedules again.
    client.schedule("good", Schedule::every(2 * HOUR), Order(100)).unwrap();
    client.insert(Duration::ZERO, Order(50)).unwrap();
    wait_until("it ran", || log.of(50) == 1);
    assert_eq!(log.highest_attempt(), 1);
    assert_eq!(events.unreadable(), ["schedule \"bad\""]);
    let names: Vec<String> =
        client.schedules().list().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["good"]);
    jobs.shutdown().unwrap();
    log.each_once(51);
}

/// D3: An unreadable record is set aside and reported, and blocks no other job. Before a fix, every claim failed in
/// the script that read it: no job of its kind ran, inserts of a node were unknown, and no error named the job.
#[test]
fn unreadable_record_is_set_aside_and_blocks_no_other_job() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let ids: Vec<JobId> =
        (0..20).map(|n| client.insert(Duration::ZERO, Order(n)).unwrap()).collect();
    let whole: Vec<u8> = server.by_hand("HGET", "jobs", &[&bytes(ids[0])]);
    let mut unknown_flags = whole.clone();
    unknown_flags[0] = 0x80;
    let mut endless_key = whole.clone();
    endless_key[14] = 255;
    let mut other_kind = whole.clone();
    other_kind[17] = b'O';
    let senseless: [&[u8]; 5] = [b"short", b"", &unknown_flags, &endless_key, &other_kind];
    for (id, record) in ids.iter().zip(senseless) {
        let _: i64 = server.by_hand("HSET", "jobs", &[&bytes(*id), record]);
    }
    // Questions and changes pass over them too.
    assert_eq!(client.pending().count(), 15);
    for id in &ids[..5] {
        assert_eq!(client.get(*id).unwrap(), None);
        assert!(!client.reschedule(*id, HOUR).unwrap());
        assert!(!client.cancel(*id).unwrap().is_cancelled());
    }
    assert!(client.check().unwrap_err().to_string().starts_with(&ids_of(&ids[..5], &client)));
    let (log, events) = (Log::default(), Events::default());
    let jobs = noting(events.of(open(&server)), &log);
    wait_until("the others ran", || log.len() == 15);
    wait_until("the others ended", || in_hand(&client) == 0);
    jobs.insert(Duration::ZERO, Order(100)).unwrap();
    wait_until("a new one ran", || log.of(100) == 1);
    let mut wanted: Vec<String> = ids[..5].iter().map(|id| format!("job {id}")).collect();
    let mut found = events.unreadable();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
    wait_until("it ended", || in_hand(&client) == 0);
    assert_eq!(client.count().unwrap().pending, 0);
    for (id, record) in ids.iter().zip(senseless) {
        let name = [b"jobs:", &bytes(*id)[..]].concat();
        assert_eq!(server.by_hand::<Vec<u8>>("HGET", "unreadable", &[&name]), record);
    }
    let found = client.check().unwrap_err().to_string();
    assert!(found.starts_with("R14: "), "{found}");
    let _: i64 = server.ask(&["DEL", "tw:{jobs}:unreadable"]);
    client.check().unwrap();
    jobs.shutdown().unwrap();
}

/// Returns how a violation begins that names the first of these jobs.
fn ids_of(ids: &[JobId], client: &tickwheel_jobs::Client) -> String {
    let found = client.check().unwrap_err().to_string();
    let named = ids.iter().find(|id| found.starts_with(&id.to_string()));
    format!("{}: R12", named.unwrap_or_else(|| panic!("{found}")))
}

/// D3: An unreadable record of a claimed job is set aside when its lease ends. Before a fix, the poll failed there,
/// and the other jobs were not polled.
#[test]
fn unreadable_record_of_a_claim_is_set_aside_at_its_lease_end() {
    let server = Server::start();
    let (jobs, driver) = open(&server)
        .lease(LEASE)
        .handle(|_: Order, _| panic!("its process is gone before it starts"))
        .manual()
        .unwrap();
    let ids = [0, 1].map(|n| jobs.keyed(&format!("k{n}")).insert(MS, Order(n)).unwrap());
    driver.set_wall(driver.wall_now() + 2 * MS);
    assert_eq!(jobs.stats().in_flight, 2);
    let late = driver.wall_now() + 3 * LEASE;
    core::mem::forget((jobs, driver));
    let _: i64 = server.by_hand("HSET", "jobs", &[&bytes(ids[0]), b"?"]);
    let (log, events) = (Log::default(), Events::default());
    let builder = events.of(open(&server).lease(LEASE)).handle(notes(&log));
    let (jobs, driver) = builder.manual().unwrap();
    driver.set_wall(late);
    jobs.nudge();
    driver.advance(MS);
    assert_eq!((log.len(), log.of(1)), (1, 1));
    assert_eq!(events.unreadable(), [format!("job {}", ids[0])]);
    let counts = jobs.count().unwrap();
    assert_eq!(
        (counts.pending, counts.claimed + counts.running, counts.dead),
        (0, 0, 0),
        "{counts:?}"
    );
    let _: i64 = server.ask(&["DEL", "tw:{jobs}:unreadable"]);
    jobs.check().unwrap();
    drop((jobs, driver));
}

/// Redis P6: A claim is kept if an insert in its round trip fails. Before a fix, the error of the insert dropped the
/// claim, and its job waited for the end of the lease.
#[test]
fn claim_is_kept_if_an_insert_in_its_round_trip_fails() {
    let server = Server::start();
    for name in ["ended", "over", "settings", "keys"] {
        let _: String = server.ask(&["FLUSHALL"]);
        let log = Log::default();
        let (jobs, driver) = open(&server).handle(notes(&log)).manual().unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        driver.set_wall(now);
        open(&server).client().unwrap().insert(now - HOUR, Order(1)).unwrap();
        let key = format!("tw:{{jobs}}:{name}");
        let _: String = server.ask(&["SET", &key, "something else"]);
        jobs.insert_job(NewJob::new(Order(2)).at(HOUR).id(JobId::new())).unwrap_err();
        assert_eq!(jobs.stats().in_flight, 1, "{name}: the claim was thrown away");
        let _: i64 = server.ask(&["DEL", &key]);
        driver.advance(Duration::from_secs(2));
        assert_eq!((log.of(1), log.highest_attempt()), (1, 1), "{name}");
        jobs.check().unwrap();
        drop((jobs, driver));
    }
}
