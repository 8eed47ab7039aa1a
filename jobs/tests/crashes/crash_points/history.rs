//! A history: calls on jobs whose disk is recorded, and what each call was answered at which position
//! of the record.
//!
//! Ground rules:
//!
//! - One thread, a manual clock: between two calls nothing happens.
//! - The answer to each call is compared with a ledger that knows nothing of the store. The
//!   contents of the store after each call are kept, and compared with the ledger too.
//! - No job runs twice in one call: an advance is shorter than the wait between two tries.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Durability, InsertErrorKind, JobId, NewJob};

use super::ledger::Ledger;
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
        let mut recorder = Recorder {
            process: Some(Process::start(Disk::new(Files::new()), durability, None)),
            durability,
            ledger: Ledger::default(),
            calls: Vec::new(),
            next_n: 0,
            last: Arc::new(Dump::default()),
            shut_down_at: 0,
        };
        let answered = recorder.process().disk.position();
        let now = recorder.process().driver.wall_now();
        recorder.keep(Step::Restart, 0, answered, Some(answered), Vec::new(), now);
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
    ledger: Ledger,
    calls: Vec<Call>,
    next_n: u64,
    last: Arc<Dump>,
    /// Where in the record the last orderly end was.
    shut_down_at: usize,
}

impl Recorder {
    fn process(&self) -> &Process {
        self.process.as_ref().expect("a process runs")
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
        let runs = process.take_runs();
        let synced = match &step {
            Step::Restart => Some(self.shut_down_at),
            Step::Flush => Some(answered),
            _ if changed && self.durability == Durability::Synced => Some(answered),
            _ => None,
        };
        for run in &runs {
            self.ledger.ran(run);
        }
        self.keep(step, began, answered, synced, runs, now);
    }

    fn keep(
        &mut self,
        step: Step,
        began: usize,
        answered: usize,
        synced: Option<usize>,
        runs: Vec<Ran>,
        now: SystemTime,
    ) {
        let process = self.process();
        process.jobs.check().expect("the store is in order");
        let after = Arc::new(Dump::of(&process.jobs));
        let ended = process.disk.position();
        self.ledger.compare(&after, now);
        let before = std::mem::replace(&mut self.last, Arc::clone(&after));
        let call = Call { step, began, answered, ended, before, after, synced, runs, now };
        self.calls.push(call);
    }

    /// Makes a call, and compares its answer. Returns whether the answer stands for a change.
    fn answer(&mut self, step: &Step) -> bool {
        let after = |ms: u64| Duration::from_millis(ms);
        let now = self.process().driver.wall_now();
        match *step {
            Step::Insert { ms, plan } => {
                let task = self.task(plan);
                let id = self.process().jobs.insert(after(ms), task.clone()).expect("an insert");
                self.ledger.inserted(id, task, now + after(ms), None);
                true
            }
            Step::InsertWithId { name, ms, plan } => {
                let (id, task) = (JobId::named(&format!("job {name}")), self.task(plan));
                let same =
                    self.process().jobs.insert_job(NewJob::new(task.clone()).at(after(ms)).id(id));
                assert_eq!(same.expect("an insert").id, id);
                self.ledger.inserted_with_id(id, task, now + after(ms))
            }
            Step::Batch { jobs, ms } => {
                let tasks: Vec<Task> = (0..jobs).map(|_| self.task(Plan::Succeed)).collect();
                let at = |n: usize| after(ms + 7 * n as u64);
                let batch: Vec<_> =
                    tasks.iter().enumerate().map(|(n, task)| (at(n), task.clone())).collect();
                let ids = self.process().jobs.insert_batch(batch).expect("a batch");
                for ((n, task), id) in tasks.into_iter().enumerate().zip(ids) {
                    self.ledger.inserted(id, task, now + at(n), None);
                }
                jobs > 0
            }
            Step::Keyed { key, ms, how } => {
                let (key, task) = (format!("key {key}"), self.task(Plan::Succeed));
                let keyed = self.process().jobs.keyed(&key);
                let answer = match how {
                    How::Replace => keyed.insert(after(ms), task.clone()),
                    How::ReplaceKeepingTime => keyed.insert_keeping_time(after(ms), task.clone()),
                    How::Leave => keyed.insert_if_absent(after(ms), task.clone()),
                };
                let answer = answer.map_err(|refused| match refused.kind() {
                    InsertErrorKind::Occupied => (),
                    other => panic!("an insert under a key: {other}"),
                });
                self.ledger.inserted_under_key(&key, how, answer.ok(), task, now + after(ms))
            }
            Step::CancelKey { key } => {
                let key = format!("key {key}");
                let cancelled = self.process().jobs.keyed(&key).cancel().expect("a cancel");
                assert_eq!(cancelled, self.ledger.cancelled_key(&key));
                cancelled
            }
            Step::Cancel { back } => {
                let Some(id) = self.ledger.nth_last(back) else { return false };
                let cancelled = self.process().jobs.cancel(id).expect("a cancel").is_cancelled();
                assert_eq!(cancelled, self.ledger.cancelled(id), "the cancel of {id}");
                cancelled
            }
            Step::Reschedule { back, ms } => {
                let Some(id) = self.ledger.nth_last(back) else { return false };
                let moved = self.process().jobs.reschedule(id, after(ms)).expect("a reset");
                assert_eq!(moved, self.ledger.moved(id, now + after(ms)), "the reset of {id}");
                moved
            }
            Step::Advance { ms } => {
                self.process().driver.advance(after(ms));
                false
            }
            Step::Schedule { name, ms } => {
                let task = Task::new(1_000_000 + u64::from(name), Plan::Succeed);
                let name = format!("repeat {name}");
                self.process().jobs.schedule(&name, after(ms), task.clone()).expect("a repeat");
                self.ledger.schedules(&name, task, ms, now)
            }
            Step::Unschedule { name } => {
                let name = format!("repeat {name}");
                let ended =
                    self.process().jobs.schedules().remove(&name).expect("the end of a repeat");
                assert_eq!(ended, self.ledger.repeat_cancelled(&name));
                ended
            }
            Step::Retry { nth } => {
                let Some(id) = self.ledger.nth_dead(nth) else { return false };
                assert!(self.process().jobs.retry(id).expect("a revival"), "{id} is dead");
                self.ledger.retried(id, now);
                true
            }
            Step::Delete { nth } => {
                let Some(id) = self.ledger.nth_dead(nth) else { return false };
                assert!(self.process().jobs.delete(id).expect("a delete"), "{id} is dead");
                self.ledger.deleted(id);
                true
            }
            Step::Flush => {
                self.process().jobs.flush().expect("a flush");
                true
            }
            Step::Restart => {
                let disk = self.process.take().expect("a process runs").shut_down();
                self.shut_down_at = disk.position();
                self.process = Some(Process::start(disk, self.durability, Some(now)));
                false
            }
            Step::Kill => {
                let disk = self.process.take().expect("a process runs").kill();
                self.process = Some(Process::start(disk, self.durability, Some(now)));
                false
            }
        }
    }
}
