//! What the model has found, one small history each.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickwheel_jobs::rusqlite::Connection;
use tickwheel_jobs::{Builder, Driver, Event, JobState, Jobs};

use crate::ops::{Ending, Plan, Task};

const MS: Duration = Duration::from_millis(1);

fn task(tag: u64) -> Task<0> {
    Task(Plan { tag, acts: Vec::new(), ends: vec![Ending::Done], partition: None })
}

/// Returns jobs whose runs are listed, by tag.
fn listed(builder: Builder) -> (Jobs, Driver, Arc<Mutex<Vec<u64>>>) {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&ran);
    let on = move |job: Task<0>, _: &tickwheel_jobs::Run| {
        list.lock().unwrap().push(job.0.tag);
        Ok(())
    };
    let (jobs, driver) = builder.handle(on).manual().unwrap();
    (jobs, driver, ran)
}

/// Returns a folder, which is removed when it is dropped, and the path of a file in it.
fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    (folder, path)
}

/// P16: Overdue jobs start in the order of their due times. The wheel promises no order of timers that are due at
/// one tick, as all overdue ones are, so the latest of the missed jobs ran first.
#[test]
fn overdue_jobs_start_in_the_order_of_their_due_times() {
    let (jobs, driver, ran) = listed(Jobs::memory());
    let now = driver.wall_now();
    for tag in [3, 1, 2] {
        jobs.insert(now - (10 - tag as u32) * MS, task(tag)).unwrap();
    }
    assert_eq!(driver.advance(MS), 3);
    assert_eq!(*ran.lock().unwrap(), [1, 2, 3]);
}

/// P7: A clock that is set back by less than a second delays a claimed job. If a job was overdue when it was
/// claimed, its timer fired after a millisecond, and did not look at the wall clock.
#[test]
fn clock_set_back_by_less_than_a_second_delays_a_claimed_job() {
    let (jobs, driver, ran) = listed(Jobs::memory());
    jobs.insert(Duration::ZERO, task(1)).unwrap();
    driver.set_wall(driver.wall_now() - 500 * MS);
    assert_eq!(driver.advance(499 * MS), 0, "early: {:?}", ran.lock().unwrap());
    assert_eq!(driver.advance(2 * MS), 1);
}

/// P8: A clock that is set back by less than a second holds no job of a partition that is due. The turn of such a job
/// was at the time of its claim, and the job waited until the clock read that time again.
#[test]
fn clock_set_back_holds_no_due_job_of_a_partition() {
    let (jobs, driver, ran) = listed(Jobs::memory());
    let of_partition = |tag| Task::<0>(Plan { partition: Some(0), ..task(tag).0 });
    let begun = driver.wall_now();
    jobs.insert(Duration::ZERO, of_partition(1)).unwrap();
    driver.set_wall(begun - 999 * MS);
    jobs.insert_batch((2..=4).map(|tag| (49 * MS, of_partition(tag)))).unwrap();
    driver.set_wall(begun);
    driver.set_wall(begun - 400 * MS);
    driver.advance(50 * MS);
    assert_eq!(*ran.lock().unwrap(), [2, 3, 4]);
    driver.advance(350 * MS);
    assert_eq!(*ran.lock().unwrap(), [2, 3, 4, 1]);
}

/// A retried job is not held by its old claim. A job that died left its id in the row of the claims that were
/// made with its own, as long as one of those was held. If it was retried meanwhile and claimed again, it was
/// claimed twice in the file: a crash counted as two interruptions, and another process saw it as running
/// although it was not due.
#[test]
fn retried_job_is_not_held_by_its_old_claim() {
    let (_folder, path) = file();
    let seen = Arc::new(Mutex::new(None));
    let (see, file) = (Arc::clone(&seen), path.clone());
    let (jobs, driver) = Jobs::open(&path)
        .unwrap()
        .handle(|_: Task<0>, _| Err(tickwheel_jobs::Fail::dead("dies")))
        .handle(move |_: Task<1>, run| {
            let client = run.client();
            let dead = client.dead().next().unwrap().id;
            assert!(client.retry(dead).unwrap() && client.reschedule(dead, 1000 * MS).unwrap());
            let other = Jobs::open(&file).unwrap().client().unwrap();
            *see.lock().unwrap() = other.get(dead).unwrap();
            Ok(())
        })
        .manual()
        .unwrap();
    jobs.insert(60 * MS, task(1)).unwrap();
    jobs.insert(60 * MS, Task::<1>(task(2).0)).unwrap();
    driver.advance(70 * MS);
    let seen = seen.lock().unwrap().take().unwrap();
    assert_eq!(seen.state, JobState::Pending);
}

/// P9: Attempts increase over interruptions and failures. The number of an attempt was the sum of the failures
/// and of the interruptions in a row. A failure set the latter to zero, and two runs had the number 2.
#[test]
fn attempts_increase_over_interruptions_and_failures() {
    let (folder, path) = file();
    let copy = folder.path().join("copy.db");
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let open = |path: &PathBuf| {
        let (list, from, to) = (Arc::clone(&attempts), folder.path().join("jobs.db"), copy.clone());
        let handler = move |_: Task<0>, run: &tickwheel_jobs::Run| {
            list.lock().unwrap().push(run.attempt());
            if run.attempt() == 1 {
                // What a crash leaves now.
                std::fs::copy(&from, &to).unwrap();
                let log = |path: &PathBuf| PathBuf::from(format!("{}-wal", path.display()));
                std::fs::copy(log(&from), log(&to)).unwrap();
            }
            Err(tickwheel_jobs::Fail::after(MS, "fails"))
        };
        Jobs::open(path).unwrap().handle(handler).manual().unwrap()
    };
    let (jobs, driver) = open(&path);
    jobs.insert(Duration::ZERO, task(1)).unwrap();
    driver.advance(Duration::ZERO);
    drop((jobs, driver));
    let (_jobs, driver) = open(&copy);
    // The copy is as of within the first run, and its process ended there.
    driver.advance(10_000 * MS);
    assert_eq!(attempts.lock().unwrap()[..4], [1, 2, 3, 4]);
}

/// A key stays with its job when the job that had it before is moved. Another process takes the key of a
/// claimed job, so two claimed jobs had borne it here. When the former was moved, the machine forgot that the
/// latter has the key: it was claimed, so a replacement left it there, and both ran.
#[test]
fn key_stays_with_its_job_when_the_former_holder_is_moved() {
    let (_folder, path) = file();
    let (jobs, driver, ran) = listed(Jobs::open(&path).unwrap());
    let other = Jobs::open(&path).unwrap().client().unwrap();
    let first = jobs.keyed("k").insert(10 * MS, task(1)).unwrap();
    other.keyed("k").insert(driver.wall_now() + 20 * MS, task(2)).unwrap();
    jobs.nudge();
    assert!(jobs.reschedule(first, 1000 * MS).unwrap());
    jobs.keyed("k").insert(30 * MS, task(3)).unwrap();
    driver.advance(2000 * MS);
    assert_eq!(*ran.lock().unwrap(), [3, 1]);
}

/// P77: A row that cannot be read is reported once, stays unchanged, and blocks no other job. A row of a job with text for
/// a number made every claim fail: no job of the file ran any more. One of a schedule made every commit fail: every
/// insert was refused. A schedule with an unknown rule became a job at its time, and was deleted: a program without
/// feature `cron` ended the schedules of one that has it.
#[test]
fn row_that_cannot_be_read_blocks_no_other_job() {
    let of_jobs = [
        "failures = 'many'",
        "interruptions = -1",
        "interruptions = 2, payload = 'text'",
        "payload = 'text'",
        "key = x'ff'",
        "attempts = -1",
        "attempts = 4294967296",
        "callers_id = 'yes'",
    ];
    let of_schedules = [
        "next = 'soon'",
        "next = -5",
        "payload = 7",
        "missed = 'all'",
        "rule = x'ff'",
        "rule = 'at full moon'",
    ];
    for (of_job, of_schedule) in of_jobs.iter().zip(of_schedules.iter().cycle()) {
        let (_folder, path) = file();
        let (tell, told) = std::sync::mpsc::channel();
        let builder = Jobs::open(&path).unwrap().on_event(move |event| match event {
            Event::Unreadable { what, .. } => tell.send(what).unwrap(),
            other => panic!("{other:?}"),
        });
        let (jobs, driver, ran) = listed(builder);
        let wrong = jobs.insert(1000 * MS, task(1)).unwrap();
        let later = jobs.insert(7_200_000 * MS, task(2)).unwrap();
        jobs.insert(7_100_000 * MS, task(4)).unwrap();
        jobs.schedule("sound", 3_600_000 * MS, task(5)).unwrap();
        jobs.schedule("wrong", 1000 * MS, task(6)).unwrap();
        let file = Connection::open(&path).unwrap();
        for id in [wrong, later] {
            let changed = ["job", "later"].map(|table| {
                let change = format!("UPDATE tickwheel_{table} SET {of_job} WHERE id = ?1");
                file.execute(&change, [id.to_u128().to_be_bytes()]).unwrap()
            });
            assert_eq!(changed[0] + changed[1], 1);
        }
        let change = format!("UPDATE tickwheel_schedule SET {of_schedule} WHERE name = 'wrong'");
        assert_eq!(file.execute(&change, []).unwrap(), 1);
        jobs.nudge();
        driver.advance(7_300_000 * MS);
        jobs.insert(MS, task(7)).unwrap();
        driver.advance(10 * MS);
        assert_eq!(*ran.lock().unwrap(), [5, 4, 5, 7], "{of_job}, {of_schedule}");
        let mut all: Vec<String> = [wrong, later].map(|id| format!("job {id}")).into();
        all.push("schedule \"wrong\"".to_owned());
        let mut told: Vec<String> = told.try_iter().collect();
        all.sort();
        told.sort();
        assert_eq!(told, all, "{of_job}, {of_schedule}");
        let found = jobs.check().unwrap_err().to_string();
        assert!(found.starts_with("F10: job "), "{of_job}: {found}");
        assert_eq!(file.execute(&change, []).unwrap(), 1, "{of_schedule}: the schedule is gone");
    }
}
