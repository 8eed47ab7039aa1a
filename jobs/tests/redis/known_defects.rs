//! Defects that other queues have had, each in the form that it could take here.
//!
//! The table in `docs/invariants.md` has all of them: whose they are, and the rule. A test carries the number of its
//! defect (`D4`), and may be in another file.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Fail, JobId, JobState, Jobs, NewJob, Run, Schedule};

use crate::proxy::Proxy;
use crate::server::{Server, pause, wait_until};
use crate::support::{
    Events, Log, MS, Order, bytes, each_runs_once, in_hand, notes, noting, now, open,
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A process claims some jobs, and is gone before it starts one. Returns when the leases have
/// ended.
fn claimed_by_the_dead(server: &Server, many: u64) -> SystemTime {
    let (jobs, driver) = open(server)
        .lease(1000 * MS)
        .handle(|_: Order, _| panic!("its process is gone before it starts"))
        .manual()
        .unwrap();
    jobs.insert_batch((0..many).map(|n| (MS, Order(n)))).unwrap();
    driver.set_wall(driver.wall_now() + 2 * MS);
    jobs.nudge();
    assert_eq!(jobs.stats().in_flight as u64, many);
    let end = driver.wall_now() + 2000 * MS;
    core::mem::forget((jobs, driver));
    end
}

/// Returns the ids of the claimed jobs.
fn claimed(server: &Server) -> Vec<Vec<u8>> {
    server.by_hand("ZRANGE", "run", &[b"0", b"-1"])
}

fn remove(server: &Server, command: &str, key: &str, id: &[u8]) {
    let _: i64 = server.by_hand(command, key, &[id]);
}

/// D2: `check` finds a job that is in no set, and the job runs after a reschedule. hibiken/asynq#1144, #1051: tasks
/// were active for ever, without a lease that could end.
#[test]
fn check_finds_a_job_in_no_set_and_a_reschedule_mends_it() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    claimed_by_the_dead(&server, 3);
    let id = claimed(&server).remove(0);
    remove(&server, "ZREM", "run", &id);
    let found = client.check().unwrap_err().to_string();
    assert!(found.contains("R1") || found.contains("R6"), "{found}");
    let id = JobId::from_u128(u128::from_be_bytes(id.try_into().unwrap()));
    assert!(client.reschedule(id, Duration::ZERO).unwrap());
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    each_runs_once(&client, jobs, &log, 3);
}

/// D3: A claim without a fence or a record blocks no other job. The same issues: one entry that made no sense kept the
/// leases of all others from ending.
#[test]
fn claim_without_a_fence_or_record_blocks_no_other_job() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let end = claimed_by_the_dead(&server, 5);
    let ids = claimed(&server);
    remove(&server, "HDEL", "fence", &ids[0]);
    remove(&server, "HDEL", "jobs", &ids[1]);
    let waiting = client.insert(HOUR, Order(9)).unwrap();
    client.insert(2 * HOUR, Order(10)).unwrap();
    remove(&server, "HDEL", "jobs", &bytes(waiting));
    let log = Log::default();
    let (jobs, driver) = open(&server).handle(notes(&log)).manual().unwrap();
    driver.set_wall(end + DAY);
    driver.advance(2000 * MS);
    // All but the two without a record.
    log.each_once(5);
    assert_eq!(client.count().unwrap().pending + in_hand(&client), 0);
    client.check().unwrap();
    drop((jobs, driver));
}

/// D7: Jobs that are due in a year stay, while dead jobs are deleted. oxanus 2.0.0 deleted jobs a week after their
/// creation, also if they were due later.
#[test]
fn maintenance_leaves_jobs_that_are_due_much_later() {
    let server = Server::start();
    let log = Log::default();
    let noted = log.clone();
    let note = move |order: Order, _: &Run| match order.0 {
        0 => Err(Fail::dead("dies")),
        _ => {
            noted.add(order.0);
            Ok(())
        }
    };
    let (jobs, driver) = open(&server).keep_dead(DAY).handle(note).manual().unwrap();
    jobs.insert(Duration::ZERO, Order(0)).unwrap();
    jobs.insert_job(NewJob::new(Order(1)).at(400 * DAY).id(JobId::named("chosen"))).unwrap();
    jobs.keyed("k").insert(400 * DAY, Order(2)).unwrap();
    jobs.insert(400 * DAY, Order(3)).unwrap();
    driver.advance(MS);
    assert_eq!(jobs.count().unwrap().dead, 1);
    for days in 1..400 {
        driver.set_wall(driver.wall_now() + DAY - MS);
        driver.advance(MS);
        assert_eq!(log.len(), 0, "day {days}");
    }
    assert_eq!((jobs.count().unwrap().dead, jobs.count().unwrap().pending), (0, 3));
    driver.set_wall(driver.wall_now() + 2 * DAY);
    driver.advance(MS);
    log.each_once(3);
    jobs.check().unwrap();
}

/// D8: Jobs whose due times are three milliseconds apart run in their order and not early. apalis-redis,
/// hibiken/asynq: times were whole seconds.
#[test]
fn jobs_a_few_milliseconds_apart_keep_their_order_and_none_is_early() {
    let server = Server::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    let handler = move |order: Order, run: &Run| {
        list.lock().unwrap().push((order.0, run.due(), run.late()));
        Ok(())
    };
    let jobs = open(&server).threads(1).handle(handler).start().unwrap();
    let times: Vec<String> = server.ask(&["TIME"]);
    let micros = times[0].parse::<u64>().unwrap() * 1_000_000 + times[1].parse::<u64>().unwrap();
    let base = SystemTime::UNIX_EPOCH + Duration::from_millis(micros / 1000 + 400);
    // Backwards, so that the order is not that of insertion.
    let batch = (0..100_u64).rev().map(|n| (base + 3 * n as u32 * MS, Order(n)));
    jobs.insert_batch(batch).unwrap();
    wait_until("all ran", || seen.lock().unwrap().len() == 100);
    for (n, (order, due, _)) in seen.lock().unwrap().iter().enumerate() {
        assert_eq!((*order, *due), (n as u64, base + 3 * n as u32 * MS));
    }
    jobs.shutdown().unwrap();
}

/// D11: A job starts within seconds although every notification is lost. taskforcesh/bullmq#1656, #2466, #2534: the
/// loss of a wake-up left due jobs where they were.
#[test]
fn job_starts_although_every_notification_is_lost() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let jobs = noting(Jobs::redis(proxy.url()).unwrap(), &log);
    let client = open(&server).client().unwrap();
    client.insert(Duration::ZERO, Order(0)).unwrap();
    wait_until("it ran", || log.of(0) == 1);
    proxy.deafen(true);
    let mut waits = Vec::new();
    for n in 1..4 {
        pause(100 * MS);
        let began = now();
        client.insert(Duration::ZERO, Order(n)).unwrap();
        wait_until("it ran", || log.of(n) == 1);
        waits.push(began.elapsed());
    }
    println!("without hints, from insert to start: {waits:?}");
    // A second each; the rest is for a loaded machine. A listener that hears nothing may connect anew, and
    // look then, but only after ten.
    assert!(waits.iter().all(|wait| *wait < Duration::from_secs(5)), "{waits:?}");
    jobs.shutdown().unwrap();
}

/// D10: A node goes on after its connections have died in silence. taskforcesh/bullmq#648, #3088, #4384: such a worker
/// never came back.
#[test]
fn node_whose_connections_died_in_silence_goes_on() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let log = Log::default();
    let jobs = noting(Jobs::redis(proxy.url()).unwrap().lease(2000 * MS), &log);
    let client = open(&server).client().unwrap();
    for n in 0..3 {
        client.insert(Duration::ZERO, Order(n)).unwrap();
        wait_until("it ran", || log.of(n) == 1);
        wait_until("it ended", || in_hand(&client) == 0);
        // Nothing is closed, and nothing comes any more.
        proxy.hold_all();
    }
    client.insert(Duration::ZERO, Order(3)).unwrap();
    wait_until("it ran", || log.of(3) == 1);
    jobs.shutdown().unwrap();
    log.each_once(4);
}

/// D12: A schedule goes on when an occurrence is lost. taskforcesh/bullmq#3272, #393, #2744: each run made the next
/// occurrence.
#[test]
fn schedule_goes_on_when_an_occurrence_is_lost() {
    let server = Server::start();
    let times = Arc::new(Mutex::new(BTreeSet::new()));
    let note = || {
        let seen = Arc::clone(&times);
        move |_: Order, run: &Run| {
            seen.lock().unwrap().insert(run.due());
            Ok(())
        }
    };
    let (jobs, driver) = open(&server).handle(note()).manual().unwrap();
    jobs.schedule("hourly", Schedule::every(HOUR), Order(1)).unwrap();
    driver.advance(HOUR);
    assert_eq!(times.lock().unwrap().len(), 1);
    // The next process makes an occurrence, is gone before it runs, and the job is lost with it.
    core::mem::forget((jobs, driver));
    let (jobs, driver) =
        open(&server).handle(|_: Order, _| panic!("not run here")).manual().unwrap();
    driver.set_wall(jobs.schedules().list().unwrap()[0].next + MS);
    core::mem::forget((jobs, driver));
    assert!(server.by_hand::<u64>("HLEN", "jobs", &[]) > 0, "no occurrence was made");
    for key in ["jobs", "run", "fence", "due:order"] {
        let _: i64 = server.by_hand("DEL", key, &[]);
    }
    let _: i64 = server.ask(&["HSET", "tw:{jobs}:kinds", "order", "0"]);
    let (jobs, driver) = open(&server).handle(note()).manual().unwrap();
    driver.set_wall(jobs.schedules().list().unwrap()[0].next - MINUTE);
    for _ in 0..4 {
        driver.advance(HOUR);
    }
    let runs = times.lock().unwrap().len();
    assert!(runs >= 4, "{runs} runs");
    jobs.check().unwrap();
}

/// Redis P10, D13: Leases are renewed while every thread is busy. taskforcesh/bullmq#3056, #3183: locks were not
/// renewed while handlers kept the process busy.
#[test]
fn leases_are_renewed_while_every_thread_is_busy() {
    /// It may be renewed two seconds late, and ends several times before the runs do.
    const LEASE: Duration = Duration::from_secs(4);
    const MANY: usize = 3;
    let server = Server::start();
    let (log, events) = (Log::default(), Events::default());
    let noted = log.clone();
    let slow = move |order: Order, _: &Run| {
        noted.add(order.0);
        pause(3 * LEASE);
        Ok(())
    };
    let builder = events.of(open(&server)).lease(LEASE).threads(MANY);
    let first = builder.handle(slow).start().unwrap();
    first.insert_batch((0..MANY as u64).map(|n| (Duration::ZERO, Order(n)))).unwrap();
    wait_until("every thread is busy", || log.len() == MANY);
    // It would take what is not renewed.
    let other = Log::default();
    let second = noting(open(&server).lease(LEASE), &other);
    wait_until("all ended", || first.stats().completed + second.stats().completed >= MANY as u64);
    assert_eq!(events.leases_lost(), 0);
    assert_eq!((log.len(), other.len()), (MANY, 0));
    first.shutdown().unwrap();
    second.shutdown().unwrap();
    log.each_once(MANY);
}

/// D16: No key of the server expires, except those of the last answers to processes. Without these, a chosen id still
/// stands for one job. hibiken/asynq: keys expired, and an id with them.
#[test]
fn keys_never_expire_except_those_of_the_last_answers() {
    let server = Server::start();
    let log = Log::default();
    let jobs = noting(open(&server), &log);
    let client = open(&server).client().unwrap();
    client.schedule("often", Schedule::every(HOUR), Order(0)).unwrap();
    client.keyed("k").insert(HOUR, Order(1)).unwrap();
    let id = JobId::named("chosen");
    client.insert_job(NewJob::new(Order(2)).at(Duration::ZERO).id(id)).unwrap();
    wait_until("it ran", || log.of(2) == 1);
    wait_until("it ended", || in_hand(&client) == 0);
    let keys: Vec<String> = server.ask(&["KEYS", "*"]);
    for key in keys {
        let lives: i64 = server.ask(&["PTTL", &key]);
        if key.starts_with("tw:{jobs}:sent:") {
            assert!(lives > 3_000_000, "{key} is gone in {lives} ms");
            let _: i64 = server.ask(&["DEL", &key]);
        } else {
            assert_eq!(lives, -1, "{key} expires");
        }
    }
    client.insert_job(NewJob::new(Order(2)).at(Duration::ZERO).id(id)).unwrap();
    client.insert(Duration::ZERO, Order(3)).unwrap();
    wait_until("the next ran", || log.of(3) == 1);
    jobs.shutdown().unwrap();
    log.each_once(2);
}

/// D17: A late reply is not taken for the reply to the next call. redis-rs/redis-rs#1252: it was, after a call was
/// given up.
#[test]
fn reply_that_is_late_is_not_taken_for_the_next_one() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let builder = Jobs::redis(proxy.url()).unwrap().lease(6400 * MS).call_timeout(400 * MS);
    let client = builder.client().unwrap();
    // Its replies may take longer than that.
    let patient = open(&server).client().unwrap();
    let ids: Vec<JobId> = (0..4).map(|n| patient.insert(HOUR, Order(n)).unwrap()).collect();
    for round in 0..3 {
        proxy.stall(true);
        // Several calls, and one question.
        drop(client.insert_batch((0..600).map(|n| (HOUR, Order(100 + n)))).unwrap_err());
        drop(client.get(ids[0]));
        proxy.stall(false);
        for (n, id) in ids.iter().enumerate() {
            let found = loop {
                match client.get(*id) {
                    Ok(found) => break found.unwrap(),
                    Err(_) => pause(10 * MS),
                }
            };
            assert_eq!((found.id, found.job::<Order>().unwrap().0), (*id, n as u64), "{round}");
            assert_eq!(found.state, JobState::Pending);
        }
    }
    assert_eq!(patient.count().unwrap().pending, 4 + 3 * 600);
    patient.check().unwrap();
}
