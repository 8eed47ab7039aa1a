//! Jobs whose record was removed by hand: there is nothing to run, and they delay no other job.

use std::sync::Arc;
use std::time::Duration;

use tickwheel_jobs::{Fail, JobId, Run};

use crate::server::Server;
use crate::support::{Log, MS, Order, bytes, notes, open};

const HOUR: Duration = Duration::from_secs(3600);

fn remove_record(server: &Server, id: JobId) {
    assert_eq!(server.by_hand::<i64>("HDEL", "jobs", &[&bytes(id)]), 1);
}

/// A key whose job has no record is free. Before a fix, every call for such a key failed.
#[test]
fn key_whose_job_has_no_record_is_free() {
    let server = Server::start();
    let log = Log::default();
    let (jobs, driver) = open(&server).handle(notes(&log)).manual().unwrap();
    let key = jobs.keyed("k");
    remove_record(&server, key.insert(HOUR, Order(1)).unwrap());
    assert!(!key.cancel().unwrap());
    assert!(!key.reschedule(HOUR).unwrap());
    assert_eq!(key.get().unwrap(), None);
    let second = key.insert(HOUR, Order(2)).unwrap();
    assert_eq!(key.get().unwrap().unwrap().id, second);
    remove_record(&server, second);
    remove_record(&server, key.insert_keeping_time(HOUR, Order(3)).unwrap());
    let last = key.insert_if_absent(HOUR, Order(4)).unwrap();
    assert_eq!(key.get().unwrap().unwrap().id, last);
    // Those without a record are due too, and passed over.
    driver.set_wall(driver.wall_now() + 2 * HOUR);
    driver.advance(2000 * MS);
    assert_eq!((log.len(), log.of(4)), (1, 1));
    jobs.check().unwrap();
    drop((jobs, driver));
}

/// A run whose record is gone ends. Before a fix, its end failed, and the whole commit with it.
#[test]
fn run_whose_record_is_gone_can_end() {
    let server = Arc::new(Server::start());
    let shared = Arc::clone(&server);
    let handler = move |order: Order, run: &Run| {
        remove_record(&shared, run.id());
        match order.0 {
            0 => Ok(()),
            1 => Err(Fail::after(HOUR, "fails")),
            _ => Err(Fail::dead("dies")),
        }
    };
    let (jobs, driver) = open(&server).handle(handler).manual().unwrap();
    for n in 0..3 {
        jobs.insert(Duration::ZERO, Order(n)).unwrap();
        jobs.keyed(&format!("key {n}")).insert(Duration::ZERO, Order(n)).unwrap();
    }
    driver.advance(MS);
    let counts = jobs.count().unwrap();
    assert_eq!(
        (counts.pending, counts.claimed + counts.running, counts.dead),
        (0, 0, 0),
        "{counts:?}"
    );
    assert_eq!(jobs.stats().in_flight, 0);
    jobs.check().unwrap();
    // The handler has the server, which ends with the test.
    drop((jobs, driver));
}

/// A dead job without a record can be neither retried nor deleted. `check` finds it, and it goes at its date.
#[test]
fn dead_job_without_a_record_goes_at_its_date() {
    let server = Server::start();
    let dies = |_: Order, _: &Run| Err(Fail::dead("dies"));
    let (jobs, driver) = open(&server).handle(dies).manual().unwrap();
    let ids = [0, 1].map(|n| jobs.insert(Duration::ZERO, Order(n)).unwrap());
    driver.advance(MS);
    assert_eq!(jobs.count().unwrap().dead, 2);
    for id in ids {
        remove_record(&server, id);
    }
    assert!(!jobs.retry(ids[0]).unwrap());
    assert!(!jobs.delete(ids[1]).unwrap());
    let found = jobs.check().unwrap_err().to_string();
    assert!(found.contains("R9"), "{found}");
    driver.set_wall(driver.wall_now() + 100 * 24 * HOUR);
    driver.advance(Duration::from_secs(601));
    let counts = jobs.count().unwrap();
    assert_eq!((counts.pending, counts.dead), (0, 0), "{counts:?}");
    jobs.check().unwrap();
    drop((jobs, driver));
}

/// `check` finds a pending job without a record, however many jobs are dead. An earlier version read the first
/// page of dead jobs again and again, and did not end.
#[test]
fn check_finds_a_pending_job_without_a_record_beside_many_dead_ones() {
    let server = Server::start();
    let dies = |_: Order, _: &Run| Err(Fail::dead("no use"));
    let (jobs, driver) = open(&server).handle(dies).manual().unwrap();
    jobs.insert_batch((0..300).map(|n| (MS, Order(n)))).unwrap();
    driver.advance(1000 * MS);
    assert_eq!(jobs.count().unwrap().dead, 300);
    jobs.insert_batch((0..600).map(|n| (HOUR + n as u32 * MS, Order(n)))).unwrap();
    jobs.check().unwrap();
    let id = jobs.insert(2 * HOUR, Order(300)).unwrap();
    remove_record(&server, id);
    let found = jobs.check().unwrap_err().to_string();
    assert!(found.contains("R5") && found.contains(&id.to_string()), "{found}");
}
