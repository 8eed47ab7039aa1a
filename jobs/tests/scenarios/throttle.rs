//! What is promised of jobs that come too often, for every store.

use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Client, Driver, Fail, Jobs, Keep};

use super::{Charge, MINUTE, MS, Mail, SECOND, asker, manual, run_all, run_for};
use crate::support::on_stores;

const QUIET: Duration = Duration::from_secs(10);
const AT_MOST: Duration = Duration::from_secs(25);

/// Advances to a full minute of the clock.
fn to_full_minute(driver: &Driver) {
    let now = driver.wall_now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    driver.advance(MINUTE - Duration::from_millis((now.as_millis() % 60_000) as u64));
}

/// P48: A key and a kind have one throttled job in each period, also after that job has ended.
#[test]
fn throttled_key_has_one_job_a_period() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        to_full_minute(&driver);
        let first = jobs.keyed("a").throttle(MINUTE, Charge(1)).unwrap();
        assert!(first.is_new);
        let again = jobs.keyed("a").throttle(MINUTE, Charge(2)).unwrap();
        assert_eq!((again.id, again.is_new), (first.id, false));
        assert!(jobs.keyed("b").throttle(MINUTE, Charge(3)).unwrap().is_new);
        assert!(jobs.keyed("a").throttle(MINUTE, Mail(4)).unwrap().is_new);
        assert!(jobs.keyed("a").throttle(2 * MINUTE, Charge(5)).unwrap().is_new);
        assert_eq!(driver.advance(MINUTE - MS), 4);
        assert!(!jobs.keyed("a").throttle(MINUTE, Charge(6)).unwrap().is_new, "it has ended");
        driver.advance(MS);
        assert!(jobs.keyed("a").throttle(MINUTE, Charge(7)).unwrap().is_new);
        assert!(jobs.keyed("a").throttle(Duration::ZERO, Charge(8)).unwrap().is_new);
        assert!(jobs.keyed(&"k".repeat(256)).throttle(MINUTE, Charge(9)).is_err());
        jobs.check().unwrap();
    });
}

/// P48: A throttled job and an occurrence have other ids in another queue, so that an id serves as an idempotency key.
#[test]
fn made_ids_of_two_queues_differ() {
    on_stores(|store| {
        let ids = |queue| {
            let (jobs, driver) = manual(store.open().queue(queue));
            jobs.kind::<Charge>().keep_completed(Keep::last(9)).unwrap();
            to_full_minute(&driver);
            jobs.schedule("minutely", MINUTE, Charge(1)).unwrap();
            run_for(&driver, MINUTE);
            jobs.keyed("a").throttle(MINUTE, Charge(2)).unwrap();
            run_all(&driver);
            jobs.ended().map(|job| (job.due, job.id)).collect::<Vec<_>>()
        };
        let (one, two) = (ids("one"), ids("two"));
        assert_eq!((one.len(), two.len()), (2, 2));
        assert!(one.iter().all(|(_, id)| two.iter().all(|(_, other)| id != other)));
    });
}

/// Returns how long it is until the job of the key is due.
fn left(jobs: &Jobs) -> Duration {
    jobs.keyed("a").remaining().unwrap().unwrap()
}

/// P48: A debounced job is due once the calls have been quiet for a while, and not later than its burst allows. The
/// data of the last call counts. A job that has run, also without success, begins no burst but the next one.
#[test]
fn debounced_job_runs_once_for_a_burst() {
    on_stores(|store| {
        let ran = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = ran.clone();
        let handler = move |charge: Charge, _: &tickwheel_jobs::Run| {
            noted.lock().unwrap().push(charge.0);
            if charge.0 == 13 { Err(Fail::after(60 * MINUTE, "later")) } else { Ok(()) }
        };
        let (jobs, driver) = store.open().handle(handler).manual().unwrap();
        let debounce = |cents| jobs.keyed("a").debounce(QUIET, AT_MOST, Charge(cents)).unwrap();
        for (cents, expected) in [(1, 10), (2, 10), (3, 9), (4, 1)] {
            debounce(cents);
            assert_eq!(left(&jobs), expected * SECOND, "{cents}");
            if cents < 4 {
                assert_eq!(driver.advance(8 * SECOND), 0);
            }
        }
        assert_eq!((jobs.count().unwrap().pending, driver.advance(SECOND)), (1, 1));
        // The next burst begins: its job fails, and waits for a retry.
        debounce(13);
        assert_eq!(left(&jobs), QUIET);
        run_for(&driver, QUIET);
        driver.advance(MINUTE);
        assert!(left(&jobs) > 58 * MINUTE);
        debounce(5);
        assert_eq!(left(&jobs), QUIET, "that burst is over");
        // A job that was stored in another way has no burst. A limit that has passed is no delay.
        jobs.keyed("a").insert(MINUTE, Charge(6)).unwrap();
        debounce(7);
        assert_eq!(left(&jobs), QUIET);
        driver.advance(SECOND);
        jobs.keyed("a").debounce(QUIET, MS, Charge(8)).unwrap();
        run_for(&driver, MS);
        // One that is claimed and has not started is replaced as well.
        jobs.keyed("a").debounce(20 * MS, AT_MOST, Charge(9)).unwrap();
        driver.advance(10 * MS);
        jobs.keyed("a").debounce(20 * MS, AT_MOST, Charge(10)).unwrap();
        assert_eq!(driver.advance(19 * MS), 0);
        assert_eq!(driver.advance(MS), 1);
        assert_eq!(*ran.lock().unwrap(), [4, 13, 8, 10]);
        jobs.check().unwrap();
    });
}

/// P48: Processes share the periods and the bursts of a key: on the real clock, and from a process that runs no jobs.
#[test]
fn throttled_and_debounced_keys_are_shared_by_processes() {
    on_stores(|store| {
        let jobs = store.open().handle(|_: Charge, _| Ok(())).start().unwrap();
        let other = asker(store, &jobs);
        // The test ends before this period.
        let century = Duration::from_secs(100 * 365 * 86_400);
        jobs.queue().pause().unwrap();
        let first = jobs.keyed("a").throttle(century, Charge(1)).unwrap();
        let again = other.keyed("a").throttle(century, Charge(2)).unwrap();
        assert_eq!((first.is_new, again.is_new, again.id), (true, false, first.id));
        for (client, cents) in [(&jobs as &Client, 3), (&other, 4)] {
            client.keyed("b").debounce(60 * MINUTE, 90 * MINUTE, Charge(cents)).unwrap();
        }
        let burst = jobs.keyed("b").get().unwrap().unwrap();
        assert_eq!(burst.job::<Charge>().unwrap(), Charge(4));
        assert_eq!(other.count().unwrap().pending, 2);
        jobs.check().unwrap();
        jobs.shutdown().unwrap();
    });
}
