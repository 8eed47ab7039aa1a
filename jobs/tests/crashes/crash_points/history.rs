//! A history: calls on jobs whose disk is recorded, and what each call was answered at which position
//! of the record.
//!
//! Ground rules:
//!
//! - One thread, a manual clock: between two calls nothing happens.
//! - The contents of the store after each call are kept. That they are right is the subject of `tests/model`.
//! - No job runs twice in one call: an advance is shorter than the wait between two tries.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Durability, InsertErrorKind, JobId, Jobs, NewJob};

use crate::disk::dump::Dump;
use crate::disk::process::{Process, Ran};
use crate::disk::task::{Plan, Task};
use crate::disk::{Disk, Event, Files};

/// A call. A cancel and a reschedule are of the job that was inserted `back` inserts ago. With a restart the process ends
/// in an orderly way, with a kill it is killed, and another one starts.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Insert { ms: u64, plan: Plan },
    InsertWithId { name: u8, ms: u64, plan: Plan },
    Batch { jobs: u8, ms: u64 },
    Keyed { key: u8, ms: u64, how: How },
    CancelKey { key: u8 },
    Cancel { back: usize },
    Reschedule { back: usize, ms: u64 },
    Advance { ms: u64 },
    Schedule { name: u8, ms: u64 },
    Unschedule { name: u8 },
    Retry { nth: usize },
    Delete { nth: usize },
    Flush,
    Restart,
    Kill,
}

/// What a keyed insert does to the job that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Replace,
    ReplaceKeepingTime,
    Leave,
}

/// A call that was answered.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) step: Step,
    /// The end of the record before the call, and when it was answered.
    pub(crate) began: usize,
    pub(crate) answered: usize,
    /// The end of the record before the next call: what was due at once is claimed meanwhile.
    pub(crate) ended: usize,
    pub(crate) before: Arc<Dump>,
    pub(crate) after: Arc<Dump>,
    /// Where in the record everything before is on stable storage, by what the answer says.
    pub(crate) synced: Option<usize>,
    pub(crate) runs: Vec<Ran>,
    /// The wall clock at the end.
    pub(crate) now: SystemTime,
}

/// A history, and the record of its disk.
pub(crate) struct History {
    pub(crate) durability: Durability,
    pub(crate) calls: Vec<Call>,
    pub(crate) log: Vec<Event>,
}

impl History {
    /// Makes the calls.
    pub(crate) fn record(durability: Durability, steps: &[Step]) -> History {
        let process = Process::start(Disk::new(Files::new()), durability, None);
        let (answered, now) = (process.disk.position(), process.driver.wall_now());
        let mut recorder = Recorder {
            process: Some(process),
            durability,
            calls: Vec::new(),
            ids: Vec::new(),
            next_n: 0,
            last: Arc::new(Dump::default()),
            shut_down_at: answered,
        };
        recorder.keep(Step::Restart, 0, answered, false, now);
        for step in steps {
            recorder.call(step.clone());
        }
        let log = recorder.process().disk.log();
        History { durability, calls: recorder.calls, log }
    }
}

struct Recorder {
    /// None while it is replaced by the next one.
    process: Option<Process>,
    durability: Durability,
    calls: Vec<Call>,
    /// The ids of the jobs, in the order of their inserts.
    ids: Vec<JobId>,
    next_n: u64,
    last: Arc<Dump>,
    /// Where in the record the last orderly end was.
    shut_down_at: usize,
}

impl Recorder {
    fn process(&self) -> &Process {
        self.process.as_ref().expect("a process runs")
    }

    fn jobs(&self) -> &Jobs {
        &self.process().jobs
    }

    fn task(&mut self, plan: Plan) -> Task {
        self.next_n += 1;
        Task::new(self.next_n, plan)
    }

    fn call(&mut self, step: Step) {
        let began = self.process().disk.position();
        let changed = self.answer(&step);
        let process = self.process();
        let (answered, now) = (process.disk.position(), process.driver.wall_now());
        self.keep(step, began, answered, changed, now);
    }

    fn keep(&mut self, step: Step, began: usize, answered: usize, changed: bool, now: SystemTime) {
        let synced = match &step {
            Step::Restart => Some(self.shut_down_at),
            Step::Flush => Some(answered),
            _ if changed && self.durability == Durability::Synced => Some(answered),
            _ => None,
        };
        let process = self.process();
        let runs = process.take_runs();
        process.jobs.check().expect("the store is in order");
        let after = Arc::new(Dump::of(&process.jobs));
        let ended = process.disk.position();
        let before = std::mem::replace(&mut self.last, Arc::clone(&after));
        if matches!(step, Step::Restart | Step::Kill) {
            let lost: Vec<_> =
                before.jobs.keys().filter(|id| !after.jobs.contains_key(id)).collect();
            assert!(lost.is_empty(), "a process that starts has lost {lost:?}");
        }
        let call = Call { step, began, answered, ended, before, after, synced, runs, now };
        self.calls.push(call);
    }

    /// Makes a call. Returns whether its answer stands for a change.
    fn answer(&mut self, step: &Step) -> bool {
        let after = Duration::from_millis;
        match *step {
            Step::Insert { ms, plan } => {
                let task = self.task(plan);
                self.ids.push(self.jobs().insert(after(ms), task).expect("an insert"));
                true
            }
            Step::InsertWithId { name, ms, plan } => {
                let id = JobId::named(&format!("job {name}"));
                let new = NewJob::new(self.task(plan)).at(after(ms)).id(id);
                let inserted = self.jobs().insert_job(new).expect("an insert");
                assert_eq!(inserted.id, id);
                self.ids.extend(inserted.is_new.then_some(id));
                inserted.is_new
            }
            Step::Batch { jobs, ms } => {
                let at = |n: u8| after(ms + 7 * u64::from(n));
                let batch: Vec<_> = (0..jobs).map(|n| (at(n), self.task(Plan::Succeed))).collect();
                self.ids.extend(self.jobs().insert_batch(batch).expect("a batch"));
                jobs > 0
            }
            Step::Keyed { key, ms, how } => {
                let task = self.task(Plan::Succeed);
                let keyed = self.jobs().keyed(&format!("key {key}"));
                let answer = match how {
                    How::Replace => keyed.insert(after(ms), task),
                    How::ReplaceKeepingTime => keyed.insert_keeping_time(after(ms), task),
                    How::Leave => keyed.insert_if_absent(after(ms), task),
                };
                let refused = answer.as_ref().err().map(|refused| refused.kind().clone());
                assert!(matches!(refused, None | Some(InsertErrorKind::Occupied)), "{refused:?}");
                self.ids.extend(answer.iter());
                refused.is_none()
            }
            Step::CancelKey { key } => {
                self.jobs().keyed(&format!("key {key}")).cancel().expect("a cancel")
            }
            Step::Cancel { back } => {
                let Some(&id) = self.ids.iter().rev().nth(back) else { return false };
                self.jobs().cancel(id).expect("a cancel").is_cancelled()
            }
            Step::Reschedule { back, ms } => {
                let Some(&id) = self.ids.iter().rev().nth(back) else { return false };
                self.jobs().reschedule(id, after(ms)).expect("a reset")
            }
            Step::Advance { ms } => {
                self.process().driver.advance(after(ms));
                false
            }
            Step::Schedule { name, ms } => {
                let task = Task::new(1_000_000 + u64::from(name), Plan::Succeed);
                let (name, rule) = (format!("repeat {name}"), format!("every {ms} ms"));
                self.jobs().schedule(&name, after(ms), task).expect("a repeat");
                // If the schedule stands as it is, the call commits nothing, so it says nothing about earlier commits.
                !self.last.schedules.iter().any(|(its, of, _)| *its == name && *of == rule)
            }
            Step::Unschedule { name } => {
                self.jobs().schedules().remove(&format!("repeat {name}")).expect("the end")
            }
            Step::Retry { nth } => {
                let Some(id) = self.dead(nth) else { return false };
                assert!(self.jobs().retry(id).expect("a retry"), "{id} is dead");
                true
            }
            Step::Delete { nth } => {
                let Some(id) = self.dead(nth) else { return false };
                assert!(self.jobs().delete(id).expect("a delete"), "{id} is dead");
                true
            }
            Step::Flush => {
                self.jobs().flush().expect("a flush");
                true
            }
            Step::Restart | Step::Kill => {
                let now = self.process().driver.wall_now();
                let process = self.process.take().expect("a process runs");
                let disk = if matches!(step, Step::Kill) {
                    process.kill()
                } else {
                    let disk = process.shut_down();
                    self.shut_down_at = disk.position();
                    disk
                };
                self.process = Some(Process::start(disk, self.durability, Some(now)));
                false
            }
        }
    }

    fn dead(&self, nth: usize) -> Option<JobId> {
        let dead = || self.last.jobs.iter().filter(|(_, row)| row.dead).map(|(id, _)| *id);
        dead().nth(nth % dead().count().max(1))
    }
}
