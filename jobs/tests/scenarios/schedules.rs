//! The promises about paused schedules, and about schedules without overlap, for every store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime};

use tickwheel_jobs::{
    Builder, Client, Driver, Event, Fail, InvalidInput, JobId, JobState, Missed, Run, Schedule,
    ScheduleInfo, StoreError,
};

use super::{Charge, LONG, MINUTE, MS, Mail, SECOND, Store, holding, manual, pause};
use crate::support::{on_stores, wait_until};

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
        // A pause goes on with another rule, and ends with its schedule. A name without a schedule is an error.
        jobs.schedules().pause("a").unwrap();
        jobs.schedule("a", MINUTE / 2, Charge(2)).unwrap();
        assert!(of(&jobs, "a").is_paused);
        assert!(jobs.schedules().remove("a").unwrap());
        let none = Err(StoreError::NoSchedule("a".to_owned()));
        assert_eq!(
            (jobs.schedules().pause("a"), jobs.schedules().resume("a")),
            (none.clone(), none)
        );
        minutely(&jobs, "a");
        assert!(!of(&jobs, "a").is_paused);
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

/// The schedule, the number of skipped occurrences, and the occurrence that has not ended, of each event.
type Skipped = Arc<Mutex<Vec<(String, usize, JobId)>>>;

/// Jobs whose events about skipped occurrences are noted.
fn noting(store: &Store) -> (Builder, Skipped) {
    let skipped = Skipped::default();
    let noted = Arc::clone(&skipped);
    let builder = store.open().on_event(move |event| {
        if let Event::OccurrencesSkipped { schedule, occurrences, by } = event {
            noted.lock().unwrap().push((schedule, occurrences, by));
        }
    });
    (builder, skipped)
}

fn without_overlap(client: &Client, number: u64) {
    let rule = Schedule::every(MINUTE).missed(Missed::Burst(100)).without_overlap();
    client.schedule("a", rule, Charge(number)).unwrap();
}

/// P18: While an occurrence waits for its start or its retry, or runs, the schedule makes no other one. That holds by
/// hand and for missed occurrences too. An event counts the skipped ones.
#[test]
fn schedule_without_overlap_skips_occurrences() {
    on_stores(|store| {
        let run = |charge: Charge, run: &Run| match charge.0 {
            1 if run.attempt() == 1 => Err(Fail::after(150 * SECOND, "busy")),
            1 => {
                let by_hand = run.client().schedules().run("a")?;
                assert_eq!(by_hand, Some(run.id()), "it has not ended");
                Ok(())
            }
            _ => Err(Fail::dead("bad luck")),
        };
        let start = || {
            let (builder, skipped) = noting(store);
            let (jobs, driver) = builder.handle(run).manual().unwrap();
            (jobs, driver, skipped)
        };
        let (jobs, driver, skipped) = start();
        without_overlap(&jobs, 1);
        assert!(of(&jobs, "a").without_overlap);
        assert_eq!(driver.advance(MINUTE), 1, "it fails");
        let waits = jobs.keyed("schedule a").get().unwrap().expect("it waits for its retry").id;
        assert_eq!(driver.advance(2 * MINUTE), 0);
        let one = ("a".to_owned(), 1, waits);
        assert_eq!(*skipped.lock().unwrap(), [one.clone(), one.clone()]);
        assert_eq!(jobs.schedules().run("a"), Ok(Some(waits)));
        assert_eq!(jobs.schedules().run_once("a", JobId::new()), Ok(Some(waits)));
        assert_eq!(driver.advance(MINUTE), 2, "the retry, and the next occurrence, which fails");
        assert_eq!(jobs.count().unwrap().pending, 1);
        jobs.check().unwrap();
        let (jobs, driver, skipped) = match store.keeps {
            false => (jobs, driver, skipped),
            true => {
                let wall = driver.wall_now();
                drop((jobs, driver));
                let again = start();
                again.1.set_wall(wall);
                again
            }
        };
        skipped.lock().unwrap().clear();
        // Eleven occurrences are due by then, and all but the first were missed. The retry is due before each of them.
        driver.set_wall(driver.wall_now() + 11 * MINUTE);
        without_overlap(&jobs, 2);
        let runs = driver.advance(MS);
        let all: usize = skipped.lock().unwrap().iter().map(|skipped| skipped.1).sum();
        assert!((1..=2).contains(&runs), "{runs}");
        assert!(all >= 10, "{all}");
        driver.advance(5 * MINUTE);
        assert_eq!(jobs.count().unwrap().pending, 0, "a dead one holds no other back");
        assert!(jobs.count().unwrap().dead >= 3);
        jobs.check().unwrap();
    });
}

/// P18: An occurrence that is pending holds the next ones back too. It is cancelled under the key of the schedule. A
/// name with which that key is too long is refused.
#[test]
fn pending_occurrence_holds_the_next_ones_back() {
    on_stores(|store| {
        let (builder, skipped) = noting(store);
        let (jobs, driver) = manual(builder);
        let kind = jobs.kind::<Charge>();
        kind.pause().unwrap();
        without_overlap(&jobs, 7);
        assert_eq!(driver.advance(3 * MINUTE), 0);
        assert_eq!((jobs.count().unwrap().pending, skipped.lock().unwrap().len()), (1, 2));
        assert!(jobs.keyed("schedule a").cancel().unwrap());
        let by_hand = jobs.schedules().run("a").unwrap().expect("there is a schedule");
        assert_eq!(jobs.get(by_hand).unwrap().map(|job| job.state), Some(JobState::Pending));
        assert_eq!(driver.advance(MINUTE), 0);
        assert_eq!(skipped.lock().unwrap().last(), Some(&("a".to_owned(), 1, by_hand)));
        kind.resume().unwrap();
        assert_eq!(driver.advance(MINUTE), 2);
        // The same rule without this choice: the choice is taken back.
        minutely(&jobs, "a");
        assert!(!of(&jobs, "a").without_overlap);
        let rule = || Schedule::every(MINUTE).without_overlap();
        jobs.schedule(&"n".repeat(246), rule(), Charge(1)).unwrap();
        let refused = jobs.schedule(&"n".repeat(247), rule(), Charge(1));
        let too_long = |error: &StoreError| {
            matches!(error, StoreError::Invalid(InvalidInput::TooLong { bytes: 256, .. }))
        };
        assert!(refused.as_ref().is_err_and(too_long), "{refused:?}");
        jobs.check().unwrap();
    });
}

/// P18: Occurrences of a schedule run one at a time in real time too, also on two nodes of a server.
#[test]
fn occurrences_without_overlap_run_one_at_a_time() {
    on_stores(|store| {
        let (handler, starts, let_go) = holding(|_: &Mail| true);
        let handler = Arc::new(handler);
        let start = || {
            let (builder, skipped) = noting(store);
            let its = Arc::clone(&handler);
            let jobs = builder.handle(move |mail: Mail, run: &Run| its(mail, run)).threads(4);
            (jobs.start().unwrap(), skipped)
        };
        let is_server = store.keeps && !store.claims_ahead;
        let (jobs, skipped) = start();
        let other = is_server.then(start);
        jobs.schedule("a", Schedule::every(10 * MS).without_overlap(), Mail(1)).unwrap();
        let mut all = vec![&skipped];
        all.extend(other.as_ref().map(|(_, skipped)| skipped));
        for _ in 0..3 {
            starts.recv_timeout(LONG).unwrap();
            all.iter().for_each(|skipped| skipped.lock().unwrap().clear());
            let many = || all.iter().map(|of| of.lock().unwrap().len()).sum::<usize>() >= 5;
            wait_until("occurrences are skipped", many);
            assert_eq!(starts.try_recv(), Err(mpsc::TryRecvError::Empty), "a second one runs");
            let_go.send(()).unwrap();
        }
        starts.recv_timeout(LONG).unwrap();
        jobs.schedules().remove("a").unwrap();
        drop(let_go);
        for jobs in [Some(jobs), other.map(|(jobs, _)| jobs)].into_iter().flatten() {
            jobs.check().unwrap();
            jobs.shutdown().unwrap();
        }
    });
}
