//! What is promised of paused schedules, for every store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tickwheel_jobs::{Client, Driver, Missed, Run, Schedule, ScheduleInfo, StoreError};

use super::{Charge, DAY, LONG, MS, SECOND, manual, pause};
use crate::support::on_stores;

const MINUTE: Duration = Duration::from_secs(60);

fn of(client: &Client, name: &str) -> ScheduleInfo {
    client.schedules().list().unwrap().into_iter().find(|it| it.name == name).expect("it is there")
}

fn minutely(client: &Client, name: &str) {
    let rule = Schedule::every(MINUTE).missed(Missed::Burst(100));
    client.schedule(name, rule, Charge(1)).unwrap();
}

/// Asserts that the next run comes at this time, and not before.
fn goes_on_at(driver: &Driver, next: SystemTime) {
    let left = next.duration_since(driver.wall_now()).unwrap();
    assert!(left > Duration::ZERO && left <= MINUTE, "{left:?}");
    assert_eq!(driver.advance(left - MS), 0, "no occurrence is made up for");
    assert_eq!(driver.advance(MS), 1);
}

/// P28: A paused schedule makes no occurrence, also after a restart and after the same call of `schedule`. Occurrences
/// that fell into the pause are not made up for; the times stay those of the series. The metrics leave it out
/// meanwhile.
#[test]
fn paused_schedules_make_no_occurrence() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        minutely(&jobs, "a");
        assert!(!of(&jobs, "a").is_paused);
        assert_eq!(driver.advance(MINUTE), 1);
        let first = of(&jobs, "a").next;
        let has_sample = || jobs.metrics().unwrap().to_string().contains("name=\"a\"");
        assert!(has_sample());
        jobs.schedules().pause("a").unwrap();
        jobs.schedules().pause("a").unwrap();
        assert!(of(&jobs, "a").is_paused && !has_sample());
        assert_eq!(driver.advance(5 * MINUTE + 20 * SECOND), 0);
        minutely(&jobs, "a");
        jobs.schedules().run("a").unwrap().expect("it is there");
        assert_eq!(driver.advance(MINUTE), 1, "the one by hand");
        let (jobs, driver) = match store.keeps {
            false => (jobs, driver),
            true => {
                drop((jobs, driver));
                manual(store.open())
            }
        };
        assert!(of(&jobs, "a").is_paused);
        assert_eq!(driver.advance(2 * MINUTE), 0);
        jobs.schedules().resume("a").unwrap();
        let ScheduleInfo { is_paused, next, .. } = of(&jobs, "a");
        assert!(!is_paused);
        let passed = next.duration_since(first).unwrap();
        assert_eq!(passed.as_millis() % MINUTE.as_millis(), 0, "{passed:?}");
        goes_on_at(&driver, next);
        // A schedule that is not paused stays as it is.
        jobs.schedules().resume("a").unwrap();
        assert_eq!(of(&jobs, "a").next, next + MINUTE);
        // A pause into which no occurrence falls leaves the next one.
        jobs.schedules().pause("a").unwrap();
        assert_eq!(driver.advance(20 * SECOND), 0);
        jobs.schedules().resume("a").unwrap();
        goes_on_at(&driver, next + MINUTE);
        jobs.check().unwrap();
    });
}

/// P28: The pause belongs to a schedule that is there: a name without one is an error, and nothing is stored. A pause
/// ends with its schedule, and goes on with another rule.
#[test]
fn pause_of_a_schedule_ends_with_it() {
    on_stores(|store| {
        let (jobs, driver) = manual(store.open());
        let none = StoreError::NoSchedule("a".to_owned());
        assert_eq!(jobs.schedules().pause("a"), Err(none.clone()));
        assert_eq!(jobs.schedules().resume("a"), Err(none.clone()));
        minutely(&jobs, "a");
        minutely(&jobs, "b");
        assert!(!of(&jobs, "a").is_paused);
        jobs.schedules().pause("a").unwrap();
        assert!(of(&jobs, "a").is_paused && !of(&jobs, "b").is_paused);
        assert_eq!(driver.advance(MINUTE), 1, "the other one");
        assert!(jobs.schedules().remove("a").unwrap());
        minutely(&jobs, "a");
        assert!(!of(&jobs, "a").is_paused);
        jobs.schedules().pause("a").unwrap();
        jobs.schedules().remove("b").unwrap();
        jobs.schedule("a", Schedule::every(DAY).missed(Missed::Burst(9)), Charge(2)).unwrap();
        assert!(of(&jobs, "a").is_paused, "the pause belongs to the name");
        assert_eq!(driver.advance(3 * DAY + MINUTE), 0);
        jobs.schedules().resume("a").unwrap();
        assert_eq!(driver.advance(DAY), 1);
        jobs.check().unwrap();
    });
}

/// P28: A pause by another process holds in the process that runs the jobs, and so does its end.
#[test]
#[expect(clippy::disallowed_methods, reason = "real time is the subject")]
fn pause_of_a_schedule_reaches_other_processes() {
    on_stores(|store| {
        if !store.keeps {
            return;
        }
        let runs = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&runs);
        let handler = move |_: Charge, _: &Run| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let jobs = store.open().handle(handler).start().unwrap();
        jobs.schedule("a", Schedule::every(10 * MS).missed(Missed::Burst(1000)), Charge(1))
            .unwrap();
        let (begun, mut last, mut still) = (Instant::now(), 0, 0);
        let other = store.open().client().unwrap();
        // Waits until the number of runs has stood still, or has grown, for this many looks one after the other.
        let mut wait = |looks: u32, grows: bool| {
            still = 0;
            while still < looks {
                assert!(begun.elapsed() < LONG, "{last} runs, and no change");
                pause(20 * MS);
                let now = runs.load(Ordering::Relaxed);
                still = if (now > last) == grows { still + 1 } else { 0 };
                last = now;
            }
        };
        wait(3, true);
        other.schedules().pause("a").unwrap();
        wait(20, false);
        other.schedules().resume("a").unwrap();
        wait(3, true);
        jobs.shutdown().unwrap();
    });
}
