//! Every write, sync and read of a history fails, once or for a while.
//!
//! The rules: no thread panics. A refused insert gives its job back and leaves nothing. A job whose
//! insert has no known outcome is there once or not at all, and inserting it again under its id
//! makes exactly one. Once the disk works again, so does the store, without a restart. A change
//! that was answered is there, after a power cut too. A job that has run does not run again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tickwheel_jobs::{
    Durability, InsertError, InsertErrorKind, Job, JobId, NewJob, OpenError, StoreError,
};

use crate::disk::cut::Cut;
use crate::disk::dump::Dump;
use crate::disk::process::{Process, client};
use crate::disk::task::{Plan, Task};
use crate::disk::{Disk, Error, Fault, Files, Operation};
use crate::stride;

/// What is known of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// It was stored.
    Stored(JobId),
    /// It was refused.
    Refused,
    /// It was stored under this id, or not.
    Unknown(JobId),
    /// It was cancelled or replaced.
    Gone,
    /// It was cancelled or replaced, or not.
    MayBeGone,
}

struct Scene {
    process: Process,
    tasks: BTreeMap<u64, (Task, Known)>,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Scene {
    fn open(disk: &Arc<Disk>) -> Result<Scene, OpenError> {
        let process = Process::open(disk, Durability::Synced)?;
        Ok(Scene { process, tasks: BTreeMap::new() })
    }

    /// Returns how often each task ran.
    fn runs(&self) -> BTreeMap<u64, u32> {
        let mut runs = BTreeMap::new();
        self.process.runs().iter().for_each(|run| *runs.entry(run.task.n).or_default() += 1);
        runs
    }

    fn keep(&mut self, task: Task, answer: Result<JobId, InsertError<Task>>) {
        let known = match answer {
            Ok(id) => Known::Stored(id),
            Err(refused) => {
                let known = known(refused.kind());
                assert_eq!(refused.into_inner(), task, "the job comes back");
                known
            }
        };
        self.tasks.insert(task.n, (task, known));
    }

    fn insert(&mut self, n: u64, delay: u64, plan: Plan) {
        let task = Task::new(n, plan);
        let answer = self.process.jobs.insert(ms(delay), task.clone());
        self.keep(task, answer);
    }

    fn batch(&mut self, from: u64, delay: u64) {
        let tasks: Vec<Task> = (from..from + 20).map(|n| Task::new(n, Plan::Succeed)).collect();
        let answer =
            self.process.jobs.insert_batch(tasks.iter().map(|task| (ms(delay), task.clone())));
        let known: Vec<Known> = match answer {
            Ok(ids) => ids.into_iter().map(Known::Stored).collect(),
            Err(refused) => {
                let known = match known(refused.kind()) {
                    Known::Unknown(_) => Known::MayBeGone,
                    other => other,
                };
                let back: Vec<Task> =
                    refused.into_inner().into_iter().map(NewJob::into_job).collect();
                assert_eq!(back, tasks, "the batch comes back");
                vec![known; 20]
            }
        };
        for (task, known) in tasks.into_iter().zip(known) {
            self.tasks.insert(task.n, (task, known));
        }
    }

    /// Inserts under the key, which the task `before` has.
    fn replace(&mut self, before: u64, n: u64, delay: u64) {
        let task = Task::new(n, Plan::Succeed);
        let answer = self.process.jobs.keyed("key").insert(ms(delay), task.clone());
        self.keep(task, answer);
        let replaced = match self.tasks[&n].1 {
            Known::Stored(_) => Known::Gone,
            Known::Unknown(_) => Known::MayBeGone,
            _ => return,
        };
        if let Some((_, known @ (Known::Stored(_) | Known::Unknown(_)))) =
            self.tasks.get_mut(&before)
        {
            *known = replaced;
        }
    }

    fn cancel(&mut self, n: u64) {
        let (_, known) = self.tasks.get_mut(&n).expect("it was inserted");
        let Known::Stored(id) = *known else { return };
        match self.process.jobs.cancel(id) {
            Ok(cancel) => {
                assert!(cancel.is_cancelled(), "it is pending");
                *known = Known::Gone;
            }
            Err(StoreError::Unknown) => *known = Known::MayBeGone,
            Err(StoreError::Full | StoreError::Io(_)) => {}
            Err(other) => panic!("a cancel: {other}"),
        }
    }

    fn reschedule(&mut self, n: u64, delay: u64) {
        let Known::Stored(id) = self.tasks[&n].1 else { return };
        match self.process.jobs.reschedule(id, ms(delay)) {
            Ok(moved) => assert!(moved, "it is pending"),
            Err(StoreError::Full | StoreError::Io(_) | StoreError::Unknown) => {}
            Err(other) => panic!("a reset: {other}"),
        }
    }

    /// The calls during which the disk fails.
    fn play(&mut self) {
        self.insert(1, 100, Plan::Succeed);
        self.insert(2, 200, Plan::Fail);
        self.insert(3, 60_000, Plan::Succeed);
        self.batch(100, 300);
        self.replace(0, 4, 60_000);
        self.replace(4, 5, 50_000);
        self.insert(15, 150, Plan::Die);
        self.cancel(3);
        self.process.driver.advance(ms(250));
        self.insert(6, 500, Plan::Succeed);
        self.reschedule(6, 700);
        self.process.driver.advance(ms(400));
        self.insert(7, 30_000, Plan::Succeed);
        self.batch(200, 40_000);
        let _ = self.process.jobs.flush();
    }

    /// The disk works again: what may be there is inserted again. Nothing else is, so that an answer
    /// has to hold by itself.
    fn settle(&mut self) {
        let tasks: Vec<(u64, (Task, Known))> =
            self.tasks.iter().map(|(n, known)| (*n, known.clone())).collect();
        for (n, (task, known)) in tasks {
            if let Known::Unknown(id) = known {
                // What was replaced meanwhile is not to be inserted again.
                let answer =
                    self.process.jobs.insert_job(NewJob::new(task.clone()).at(ms(20_000)).id(id));
                assert_eq!(answer.expect("the disk works again").id, id);
                self.tasks.insert(n, (task, Known::Stored(id)));
            }
        }
    }

    /// What was answered is in these jobs, and what was refused is not.
    fn compare(&self, dump: &Dump, at: &str) {
        let runs = self.runs();
        let mut there: BTreeMap<u64, u32> = BTreeMap::new();
        for row in dump.jobs.values() {
            let task = Task::decode(&row.payload).expect("a task");
            *there.entry(task.n).or_default() += 1;
        }
        for (n, (task, known)) in &self.tasks {
            let here = there.remove(n).unwrap_or(0);
            let ran = runs.get(n).copied().unwrap_or(0);
            match known {
                Known::Stored(_) if ran > 0 => assert!(here <= 1, "{n} is there twice {at}"),
                Known::Stored(_) => assert_eq!(here, 1, "{n} is lost {at}"),
                Known::Refused | Known::Gone => {
                    assert_eq!((here, ran), (0, 0), "{n} is there {at}: {task:?}");
                }
                Known::MayBeGone => assert!(here <= 1, "{n} is there twice {at}"),
                Known::Unknown(_) => panic!("{n} was inserted again"),
            }
        }
        assert!(there.is_empty(), "ghosts {at}: {there:?}");
        for batch in [100..120, 200..220] {
            let kept = batch.map(|n| match self.tasks[&n].1 {
                Known::MayBeGone => {
                    dump.jobs
                        .values()
                        .any(|row| Task::decode(&row.payload).is_ok_and(|task| task.n == n))
                        || runs.contains_key(&n)
                }
                _ => true,
            });
            let kept: Vec<bool> = kept.collect();
            assert!(kept.iter().all(|one| *one == kept[0]), "a part of a batch {at}: {kept:?}");
        }
    }

    /// Everything that is pending runs, and nothing runs more often than it should.
    fn drain(&mut self) {
        self.process.driver.advance(Duration::from_secs(3600));
        let runs = self.runs();
        for (n, (task, known)) in &self.tasks {
            let wanted = if task.plan == Plan::Fail { 2 } else { 1 };
            let ran = runs.get(n).copied().unwrap_or(0);
            match known {
                Known::Stored(_) => assert_eq!(ran, wanted, "runs of {n}"),
                Known::MayBeGone => assert!(ran <= wanted, "runs of {n}"),
                _ => assert_eq!(ran, 0, "runs of {n}"),
            }
        }
        let counts = self.process.jobs.count().expect("the disk works again");
        assert_eq!((counts.pending, counts.running), (0, 0));
        self.process.jobs.check().expect("the store is in order");
    }
}

fn known(kind: &InsertErrorKind) -> Known {
    match kind {
        InsertErrorKind::Unknown(id) => Known::Unknown(*id),
        InsertErrorKind::Store(StoreError::Full | StoreError::Io(_)) => Known::Refused,
        other => panic!("an insert: {other}"),
    }
}

/// Returns whether the fault struck.
fn play_with(fault: Fault) -> bool {
    let disk = Arc::new(Disk::new(Files::new()));
    disk.fail(Some(fault));
    let mut opened = true;
    let mut scene = match Scene::open(&disk) {
        Ok(scene) => scene,
        Err(OpenError::Io { .. } | OpenError::Store(StoreError::Full | StoreError::Io(_))) => {
            assert!(disk.failed() > 0, "the disk works");
            opened = false;
            disk.fail(None);
            Scene::open(&disk).expect("the disk works again")
        }
        Err(other) => panic!("{other:?}"),
    };
    scene.play();
    let struck = !opened || disk.failed() > 0;
    disk.fail(None);
    scene.settle();
    scene.process.jobs.check().expect("the store is in order");
    scene.compare(&Dump::of(&scene.process.jobs), "in the running store");
    for (files, at) in
        [(disk.files(), "after a kill"), (Cut::worst(&disk.log()), "after a power cut")]
    {
        scene.compare(&Dump::of(&client(&Disk::new(files))), at);
    }
    scene.drain();
    scene.process.shut_down();
    struck
}

/// Fails one of `step` operations in its turn, until the history has none left. By day it fails one of 16 of these,
/// and all of them with `TICKWHEEL_STRIDE=1`.
fn at_every(fault: Fault, step: usize) {
    let step = step * stride();
    let mut struck = 0;
    for after in (0..).step_by(step) {
        let fault = Fault { after, ..fault };
        let played = std::panic::catch_unwind(|| play_with(fault));
        match played {
            Ok(true) => struck += 1,
            Ok(false) => break,
            Err(panic) => {
                eprintln!("with {fault:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{fault:?}: {struck} times");
    assert!(struck > 0, "nothing has failed");
}

const ONCE: Fault = Fault {
    on: Operation::Write,
    error: Error::Io,
    after: 0,
    times: 1,
    cut_short: false,
    forgets: false,
};

/// P5: A write that fails once, in whole or in part, loses nothing, at every write of the history.
#[test]
fn writes_that_fail_once_lose_nothing() {
    at_every(ONCE, 1);
    at_every(Fault { cut_short: true, ..ONCE }, 3);
}

/// P5: A write that finds the disk full loses nothing, at every write of the history.
#[test]
fn writes_that_find_the_disk_full_lose_nothing() {
    at_every(Fault { error: Error::Full, ..ONCE }, 1);
    at_every(Fault { error: Error::Full, cut_short: true, times: 9, ..ONCE }, 3);
}

/// Writes that fail for a while, by an error or a full disk, lose nothing.
#[test]
fn writes_that_fail_for_a_while_lose_nothing() {
    at_every(Fault { times: 30, ..ONCE }, 3);
    at_every(Fault { error: Error::Full, times: 60, ..ONCE }, 3);
}

/// P5: Syncs that fail 1 to 6 times and then work lose nothing.
#[test]
fn syncs_that_fail_and_may_work_later_lose_nothing() {
    for times in [1, 2, 3, 6] {
        at_every(Fault { on: Operation::Sync, times, ..ONCE }, 1);
    }
}

/// P1: Syncs that fail and drop the writes before them lose nothing.
#[test]
fn syncs_that_fail_and_forget_the_writes_lose_nothing() {
    for times in [1, 2, 3, 6] {
        at_every(Fault { on: Operation::Sync, times, forgets: true, ..ONCE }, 1);
    }
}

/// Reads that fail once or four times lose nothing.
#[test]
fn reads_that_fail_lose_nothing() {
    for times in [1, 4] {
        at_every(Fault { on: Operation::Read, times, ..ONCE }, 1);
    }
}

/// A disk whose every operation fails for a while loses nothing.
#[test]
fn disk_that_fails_for_a_while_loses_nothing() {
    at_every(Fault { on: Operation::Any, times: 40, ..ONCE }, 7);
}

/// P62: If a write fails during a batch of cancels, the error says how many of the first jobs are cancelled, and no
/// other job is. A second call cancels the rest.
#[test]
fn batch_of_cancels_says_what_it_has_done() {
    let mut partly = 0;
    for after in (0..).step_by(3) {
        let disk = Arc::new(Disk::new(Files::new()));
        let process = Process::open(&disk, Durability::Synced).expect("the disk works");
        let jobs = &process.jobs;
        let tasks = (0..600).map(|n| (ms(60_000), Task::new(n, Plan::Succeed)));
        let ids = jobs.insert_batch(tasks).expect("the disk works");
        disk.fail(Some(Fault { after, ..ONCE }));
        let answer = jobs.cancel_batch(ids.iter().copied());
        let struck = disk.failed() > 0;
        disk.fail(None);
        let is_there = |id: &JobId| jobs.get(*id).expect("the disk works again").is_some();
        let left = ids.iter().filter(|id| is_there(id)).count();
        let (done, error) = match answer {
            Ok(answers) => (answers.len(), None),
            Err(StoreError::Incomplete { done, error }) => (done, Some(*error)),
            Err(error) => (0, Some(error)),
        };
        partly += usize::from(error.is_some() && done > 0);
        assert!(!ids[..done].iter().any(is_there), "{done} were cancelled: {error:?}");
        let more = match error {
            Some(StoreError::Unknown) => left == 0 || left % 256 == 600 % 256,
            _ => left == 600 - done,
        };
        assert!(more, "{done} were cancelled, and {left} are there: {error:?}");
        let again = jobs.cancel_batch(ids).expect("the disk works again");
        assert_eq!(again.iter().filter(|answer| answer.is_cancelled()).count(), left);
        process.shut_down();
        if !struck {
            break;
        }
    }
    assert!(partly > 0, "no batch was cancelled in part");
}
