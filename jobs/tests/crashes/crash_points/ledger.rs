//! What the answers of all calls add up to, without a look at the store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickwheel_jobs::{Job, JobId};

use super::history::How;
use crate::disk::dump::Dump;
use crate::disk::process::Ran;
use crate::disk::task::{CHAIN_MS, Plan, RETRY_MS, Task};

/// The jobs that there should be.
#[derive(Default)]
pub(crate) struct Ledger {
    jobs: BTreeMap<JobId, Entry>,
    /// Ids in the order of their inserts.
    order: Vec<JobId>,
    callers_ids: BTreeSet<JobId>,
    schedules: BTreeMap<String, Schedule>,
    /// The fence of the last run of each job.
    fences: BTreeMap<JobId, u64>,
    /// Occurrences that have been seen.
    occurred: BTreeSet<JobId>,
}

struct Entry {
    task: Task,
    due: SystemTime,
    key: Option<String>,
    failures: u32,
    dead: bool,
}

struct Schedule {
    task: Task,
    ms: u64,
    /// The next occurrence that was not seen.
    next: SystemTime,
}

/// How long before its time an occurrence becomes a job.
const AHEAD: Duration = Duration::from_millis(50);

impl Ledger {
    pub(crate) fn inserted(&mut self, id: JobId, task: Task, due: SystemTime, key: Option<String>) {
        self.order.push(id);
        let entry = Entry { task, due, key, failures: 0, dead: false };
        assert!(self.jobs.insert(id, entry).is_none(), "{id} is new");
    }

    /// Returns whether the id is new.
    pub(crate) fn inserted_with_id(&mut self, id: JobId, task: Task, due: SystemTime) -> bool {
        let new = self.callers_ids.insert(id);
        if new {
            self.inserted(id, task, due, None);
        }
        new
    }

    /// Returns whether something was inserted.
    pub(crate) fn inserted_under_key(
        &mut self,
        key: &str,
        how: How,
        answer: Option<JobId>,
        task: Task,
        due: SystemTime,
    ) -> bool {
        let holder = self.holder(key);
        let leaves = matches!(how, How::Leave);
        assert_eq!(answer.is_none(), leaves && holder.is_some(), "the key {key:?} is taken");
        let Some(id) = answer else { return false };
        let replaced = holder.and_then(|holder| self.jobs.remove(&holder));
        let due = match (how, replaced) {
            (How::ReplaceKeepingTime, Some(replaced)) => replaced.due,
            _ => due,
        };
        self.inserted(id, task, due, Some(key.to_owned()));
        true
    }

    fn holder(&self, key: &str) -> Option<JobId> {
        let holds = |entry: &Entry| !entry.dead && entry.key.as_deref() == Some(key);
        self.jobs.iter().find(|(_, entry)| holds(entry)).map(|(id, _)| *id)
    }

    pub(crate) fn cancelled_key(&mut self, key: &str) -> bool {
        self.holder(key).is_some_and(|id| self.jobs.remove(&id).is_some())
    }

    pub(crate) fn cancelled(&mut self, id: JobId) -> bool {
        let pending = self.jobs.get(&id).is_some_and(|entry| !entry.dead);
        if pending {
            self.jobs.remove(&id);
        }
        pending
    }

    pub(crate) fn moved(&mut self, id: JobId, to: SystemTime) -> bool {
        let entry = self.jobs.get_mut(&id).filter(|entry| !entry.dead);
        entry.map(|entry| entry.due = to).is_some()
    }

    pub(crate) fn nth_last(&self, back: usize) -> Option<JobId> {
        self.order.iter().rev().nth(back).copied()
    }

    pub(crate) fn nth_dead(&self, nth: usize) -> Option<JobId> {
        let dead: Vec<JobId> =
            self.jobs.iter().filter(|(_, entry)| entry.dead).map(|(id, _)| *id).collect();
        dead.get(nth % dead.len().max(1)).copied()
    }

    pub(crate) fn retried(&mut self, id: JobId, now: SystemTime) {
        let key = self.jobs.get(&id).and_then(|entry| entry.key.clone());
        let free = key.as_ref().is_none_or(|key| self.holder(key).is_none());
        let entry = self.jobs.get_mut(&id).expect("it is dead");
        (entry.dead, entry.failures, entry.due) = (false, 0, now);
        if !free {
            entry.key = None;
        }
    }

    pub(crate) fn deleted(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    /// Returns whether the schedule is new or another one. If it stands as it is, the call commits nothing, so it says
    /// nothing about the commits before it.
    pub(crate) fn schedules(&mut self, name: &str, task: Task, ms: u64, now: SystemTime) -> bool {
        match self.schedules.get_mut(name) {
            Some(schedule) if schedule.ms == ms => {
                std::mem::replace(&mut schedule.task, task.clone()) != task
            }
            _ => {
                let next = now + Duration::from_millis(ms);
                self.schedules.insert(name.to_owned(), Schedule { task, ms, next });
                true
            }
        }
    }

    pub(crate) fn repeat_cancelled(&mut self, name: &str) -> bool {
        self.schedules.remove(name).is_some()
    }

    /// A handler has run.
    pub(crate) fn ran(&mut self, run: &Ran) {
        let id = run.id;
        assert!(run.at >= run.due, "{id} starts before its time");
        let before = self.fences.insert(id, run.fence);
        assert!(before < Some(run.fence), "the fences of {id} ascend");
        if run.task.n >= 1_000_000 && !self.jobs.contains_key(&id) {
            self.occurs(id, &run.task, run.due);
        }
        let entry = self.jobs.get_mut(&id).unwrap_or_else(|| panic!("{id} runs: a ghost"));
        assert!(!entry.dead, "{id} is dead, and runs");
        assert_eq!(entry.task, run.task);
        assert_eq!(entry.due, run.due, "{id} runs at its time");
        entry.failures += 1;
        match run.task.plan {
            Plan::Succeed | Plan::Chain | Plan::Then => drop(self.jobs.remove(&id)),
            Plan::Fail if entry.failures == 1 => {
                entry.due = run.at + Duration::from_millis(RETRY_MS);
            }
            Plan::Fail | Plan::Die => entry.dead = true,
        }
        if let Some(next) = run.inserted.map(|(next, _)| next).or(run.follow_up) {
            let task = Task::new(run.task.n + 500_000, Plan::Succeed);
            self.inserted(next, task, run.at + Duration::from_millis(CHAIN_MS), None);
        }
    }

    /// Takes an occurrence of a schedule. No call inserted it.
    fn occurs(&mut self, id: JobId, task: &Task, due: SystemTime) {
        let (name, schedule) = self
            .schedules
            .iter_mut()
            .find(|(_, schedule)| schedule.task == *task)
            .unwrap_or_else(|| panic!("{id} is of no schedule: a ghost"));
        let since_1970 = due.duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        assert_eq!(
            id,
            JobId::named(&format!("schedule  {since_1970} {name}")),
            "the id of an occurrence"
        );
        assert!(self.occurred.insert(id), "{name} occurs twice at one time");
        assert_eq!(due, schedule.next, "{name} occurs at each of its times, in order");
        schedule.next += Duration::from_millis(schedule.ms);
        let (task, key) = (task.clone(), None);
        self.jobs.insert(id, Entry { task, due, key, failures: 0, dead: false });
    }

    /// Compares what there should be with what the store says.
    pub(crate) fn compare(&mut self, dump: &Dump, now: SystemTime) {
        let mut strange: Vec<_> =
            dump.jobs.iter().filter(|(id, _)| !self.jobs.contains_key(id)).collect();
        strange.sort_by_key(|(_, row)| row.due);
        for (id, row) in strange {
            let task = Task::decode(&row.payload).expect("a task");
            assert!(task.n >= 1_000_000, "{id} is in the store: a ghost ({task:?})");
            self.occurs(*id, &task, row.due);
        }
        for (id, entry) in &self.jobs {
            let row = dump.jobs.get(id).unwrap_or_else(|| panic!("{id} is lost"));
            let task = Task::decode(&row.payload).expect("a task");
            assert_eq!(task, entry.task);
            assert_eq!((row.dead, row.failures), (entry.dead, entry.failures), "{id}: {row:?}");
            assert_eq!(row.key, entry.key, "{id}");
            assert!(row.dead || row.due == entry.due, "{id}: {row:?}, not {:?}", entry.due);
        }
        for (name, schedule) in &self.schedules {
            assert!(schedule.next > now, "{name} has occurred at each time that has come");
            let stored = dump.schedules.iter().find(|(stored, ..)| stored == name);
            let (.., next) = stored.unwrap_or_else(|| panic!("{name} is lost"));
            assert_eq!(*next, schedule.next, "{name}");
            assert!(schedule.next + Duration::from_millis(schedule.ms) > now - AHEAD);
        }
        assert_eq!(dump.schedules.len(), self.schedules.len(), "schedules");
    }
}
