//! A crash at every write of the life of a group: the callback is there if and only if the group has ended, and runs
//! once. The group has a result of each member that has ended.

use std::time::Duration;

use fastrand::Rng;
use tickwheel_jobs::{Durability, GroupId, JobId, MemberResult, NewJob};

use crate::disk::cut::Cut;
use crate::disk::process::Process;
use crate::disk::task::{Plan, Task};
use crate::disk::{Disk, Files};
use crate::stride;

const CALLBACK: u64 = 77;

fn group() -> GroupId {
    GroupId::named("the group")
}

fn callback() -> JobId {
    JobId::named("the callback")
}

/// Records the life of a group: members that complete, die, add a follow-up, are cancelled and are replaced.
fn record() -> Process {
    let process = Process::start(Disk::new(Files::new()), Durability::Written, None);
    let (jobs, driver) = (&process.jobs, &process.driver);
    let ms = Duration::from_millis;
    let then = NewJob::new(Task::new(CALLBACK, Plan::Succeed)).id(callback());
    let new = jobs.group().id(group()).then_job(then).keep_results();
    let new = new.add(ms(100), Task::new(1, Plan::Succeed)).add(ms(200), Task::new(2, Plan::Die));
    let open = new.add(ms(150), Task::new(3, Plan::Then)).open().expect("the disk works");
    open.add(ms(100), Task::new(4, Plan::Succeed)).expect("it is open");
    let cancelled = open.add(ms(5000), Task::new(5, Plan::Succeed)).expect("it is open");
    let replaced = NewJob::new(Task::new(6, Plan::Succeed)).at(ms(5000)).key("key");
    open.add_job(replaced).expect("it is open");
    driver.advance(ms(400));
    assert!(jobs.cancel(cancelled).expect("the disk works").is_cancelled());
    let other = NewJob::new(Task::new(7, Plan::Succeed)).at(ms(50)).key("key");
    jobs.insert_job(other).expect("the disk works");
    open.seal().expect("the disk works");
    driver.advance(Duration::from_secs(700));
    assert_eq!(open.info().unwrap().unwrap().total, 7);
    assert!(open.info().unwrap().unwrap().ended.is_some());
    process
}

/// Opens what a crash has left, ends the group, and returns how often its callback has run.
fn run_what_is_left(image: &Files, event: usize) {
    let process = Process::start(Disk::new(image.clone()), Durability::Written, None);
    let (jobs, driver) = (&process.jobs, &process.driver);
    jobs.check().unwrap_or_else(|wrong| panic!("after event {event}: {wrong}"));
    let handle = jobs.group_by_id(group());
    let Some(found) = handle.info().expect("it can be read") else {
        assert_eq!(jobs.count().unwrap().pending, 0, "members without a group, after {event}");
        return;
    };
    let is_there = jobs.get(callback()).expect("it can be read").is_some();
    assert!(!is_there || found.ended.is_some(), "too early after event {event}: {found:?}");
    if found.keeps_results {
        let results: Vec<_> = handle.results().map(|result| result.expect("it is kept")).collect();
        let is_of = |result: &&MemberResult| result.result.as_deref() == Some(b"1");
        let completed = results.iter().filter(is_of).count() as u64;
        let errors = results.iter().filter(|result| !result.errors.is_empty()).count() as u64;
        let counts = (found.total - found.open, found.completed, found.dead);
        let seen = (results.len() as u64, completed, errors);
        assert_eq!(seen, counts, "results after event {event}: {results:?}");
    }
    if found.ended.is_none() {
        handle.seal().expect("it has not ended");
    }
    driver.advance(Duration::from_secs(3600));
    let runs = process.take_runs().iter().filter(|run| run.task.n == CALLBACK).count();
    let expected = usize::from(is_there || found.ended.is_none());
    assert_eq!(runs, expected, "runs of the callback after event {event}: {found:?}");
    let left = handle.info().expect("it can be read").expect("it is kept");
    assert!(left.ended.is_some() && left.open == 0, "after event {event}: {left:?}");
    jobs.check().unwrap_or_else(|wrong| panic!("drained after event {event}: {wrong}"));
}

/// P31, P110: After a kill or a power cut at any write, the group is whole or not there, its callback comes exactly once,
/// and no result of a member that has ended is lost.
#[test]
fn crash_at_any_write_of_a_group_neither_loses_nor_doubles_its_callback() {
    let process = record();
    let log = process.disk.log();
    drop(process);
    let (mut cut, mut random) = (Cut::default(), Rng::with_seed(1987));
    for (n, event) in (1..).zip(&log) {
        cut.take(event);
        run_what_is_left(&cut.all, n);
        if n % stride() != 0 {
            continue;
        }
        for fates in cut.fates(1, 1, &mut random) {
            run_what_is_left(&cut.image(&fates), n);
        }
    }
    assert!(log.len() > 50, "{} events", log.len());
}
