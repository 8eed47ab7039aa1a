//! Servers that stand still for a while, or are busy: jobs run late, errors name the cause, and nothing is
//! lost.

use std::time::Duration;

use tickwheel_jobs::{InsertErrorKind, Jobs, StoreError};

use crate::proxy::Proxy;
use crate::server::{Server, pause, wait_until};
use crate::support::{Events, Log, MS, Order, in_hand, noting, now, open};

/// An answer may take an eighth of it, so a pause of two seconds is noticed.
const LEASE: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3600);

/// Each order ran, and none more often than leases were lost.
fn all_ran(log: &Log, events: &Events, many: usize) {
    wait_until("all ran", || log.len() == many);
    assert!(log.runs() <= many + events.leases_lost(), "{} runs of {many} jobs", log.runs());
}

/// Redis P6: A server that pauses its clients for two seconds loses no job. Inserts during the pause wait and succeed.
#[test]
fn server_that_pauses_its_clients_loses_nothing() {
    for mode in ["ALL", "WRITE"] {
        let server = Server::start();
        let (log, events) = (Log::default(), Events::default());
        let jobs = noting(events.of(open(&server).lease(LEASE)), &log);
        let client = open(&server).lease(LEASE).client().unwrap();
        for n in 0..20 {
            client.insert(n as u32 * 100 * MS, Order(n)).unwrap();
        }
        let _: String = server.ask(&["CLIENT", "PAUSE", "2000", mode]);
        // They wait, and not longer than they may.
        for n in 20..40 {
            client.insert(Duration::ZERO, Order(n)).unwrap();
        }
        all_ran(&log, &events, 40);
        wait_until("all ended", || in_hand(&client) == 0);
        let errors = events.errors();
        let is_named = errors.iter().any(|error| error.contains("it does not answer in time"));
        assert!(is_named, "{mode}: {errors:?}");
        client.check().unwrap();
        jobs.shutdown().unwrap();
    }
}

/// D15: While a server is busy with a script, short calls fail and the error names it. No job is lost.
#[test]
fn server_that_is_busy_with_a_script_says_so_and_loses_nothing() {
    let server = Server::start();
    let _: String = server.ask(&["CONFIG", "SET", "lua-time-limit", "50"]);
    let (log, events) = (Log::default(), Events::default());
    let jobs = noting(events.of(open(&server)), &log);
    let client = open(&server).client().unwrap();
    let hasty = open(&server).call_timeout(200 * MS).client().unwrap();
    client.insert(300 * MS, Order(0)).unwrap();
    let mut busy = server.connection();
    let script = std::thread::spawn(move || {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg("while true do end").arg(0).exec(&mut busy)
    });
    let is_busy = || {
        let asked = redis::cmd("TIME").exec(&mut server.connection());
        asked.is_err_and(|error| error.code() == Some("BUSY"))
    };
    wait_until("it is busy", is_busy);
    // On a slow machine an answer may take longer than the call: such an insert is unknown.
    let mut unknown = Vec::new();
    wait_until("an insert is answered", || {
        match hasty.insert(HOUR, Order(9)).unwrap_err().kind() {
            InsertErrorKind::Unknown(id) => {
                unknown.push(*id);
                false
            }
            InsertErrorKind::Store(StoreError::Io(text)) if text.contains("BUSY") => true,
            other => panic!("{other:?}"),
        }
    });
    let refused = Jobs::redis(server.url()).unwrap_err();
    assert!(refused.to_string().contains("BUSY"), "{refused}");
    let inserting = std::thread::spawn(move || {
        for n in 1..6 {
            client.insert(Duration::ZERO, Order(n)).unwrap();
        }
        client
    });
    let says_so = || events.errors().iter().any(|error| error.contains("BUSY"));
    wait_until("the node says so", says_so);
    pause(500 * MS);
    let _: String = server.ask(&["SCRIPT", "KILL"]);
    assert!(script.join().unwrap().is_err());
    let client = inserting.join().unwrap();
    all_ran(&log, &events, 6);
    wait_until("all ended", || in_hand(&client) == 0);
    for id in unknown {
        let _ = client.cancel(id).unwrap();
    }
    assert_eq!(client.count().unwrap().pending, 0, "what was refused is not there");
    client.check().unwrap();
    jobs.shutdown().unwrap();
}

/// A batch that takes many calls waits no longer than one call. Before a fix, it waited for each answer as long as
/// one may take.
#[test]
fn batch_of_many_calls_waits_no_longer_than_one_call() {
    let server = Server::start();
    let proxy = Proxy::to(server.port);
    let builder = Jobs::redis(proxy.url()).unwrap().lease(8000 * MS).call_timeout(500 * MS);
    let client = builder.client().unwrap();
    client.insert(HOUR, Order(0)).unwrap();
    proxy.stall(true);
    let began = now();
    let refused = client.insert_batch((0..20 * 256).map(|n| (HOUR, Order(n)))).unwrap_err();
    let took = began.elapsed();
    assert!(matches!(refused.kind(), InsertErrorKind::Unknown(_)), "{:?}", refused.kind());
    assert!(took < Duration::from_secs(12), "{took:?}");
    proxy.stall(false);
}
