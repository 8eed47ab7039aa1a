//! Opens what a crash has left, and compares it with what was answered.
//!
//! | rule | must hold |
//! | --- | --- |
//! | kill | what a kill leaves after `n` events is what the calls answered by then add up to, and of the call under way all or nothing; of an advance, all or nothing of each run that has started, and its follow-up with its end |
//! | prefix | what a power cut leaves is what a kill would have left at some earlier event, and no earlier than the last answer that stands for stable storage |
//! | reopened | to open it again changes nothing, and `check` passes each time |
//! | drained | what is pending runs once, and nothing else does |

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use tickwheel_jobs::{Durability, Job, JobId};

use super::history::{Call, History, Step};
use crate::disk::cut::Cut;
use crate::disk::dump::{Dump, Row};
use crate::disk::process::{Process, Ran, client};
use crate::disk::task::{Plan, Task};
use crate::disk::{Disk, Files};

/// What a disk has, as someone sees it who does not run the jobs.
#[derive(PartialEq, Eq, Debug)]
struct Seen {
    dump: Dump,
    claimed: BTreeSet<JobId>,
}

/// How much to look at.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Up to how many pending events every subset of them is looked at.
    pub(crate) most_bits: u32,
    /// How many sets of fates are drawn at random for each event.
    pub(crate) random: usize,
    /// Of every `drained` images one is reopened and drained too.
    pub(crate) drained: usize,
    /// Of every `stride` events one is followed by power cuts too; each is followed by a kill.
    pub(crate) stride: usize,
}

/// What was looked at.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) events: usize,
    pub(crate) images: usize,
    pub(crate) drained: usize,
}

pub(crate) struct Checker<'a> {
    history: &'a History,
    effort: Effort,
    seen: HashMap<u64, Rc<Seen>>,
    tally: Tally,
}

impl<'a> Checker<'a> {
    /// Looks at a crash after each event of a history.
    pub(crate) fn check(history: &'a History, effort: Effort, seed: u64) -> Tally {
        let mut random = Rng::with_seed(seed);
        let mut checker =
            Checker { history, effort, seen: HashMap::new(), tally: Tally::default() };
        let mut cut = Cut::default();
        // What a kill leaves after each number of events.
        let mut killed = vec![checker.open(&cut.all, 0)];
        for (n, event) in (1..).zip(&history.log) {
            cut.take(event);
            let seen = checker.open(&cut.all, n);
            checker.kill(n, &seen);
            killed.push(seen);
            if n % effort.stride != 0 {
                continue;
            }
            let from = checker.last_synced(n);
            for fates in cut.fates(effort.most_bits, effort.random, &mut random) {
                let seen = checker.open(&cut.image(&fates), n);
                let at = killed[from..].iter().position(|killed| *killed == seen);
                assert!(
                    at.is_some(),
                    "a power cut after event {n} leaves what no kill after events {from} to {n} \
                     does: {fates:?} of {}\n{seen:#?}\nbut after {from}:\n{:#?}\nin {}",
                    cut.told(),
                    killed[from],
                    checker.calls_around(n),
                );
            }
        }
        checker.tally.events = history.log.len();
        checker.tally
    }

    /// Returns the last event that an answer says is on stable storage, of the first `n`.
    fn last_synced(&self, n: usize) -> usize {
        let calls = self.history.calls.iter();
        let answered = calls.filter_map(|call| call.synced);
        let synced = self.history.durability == Durability::Synced;
        let runs = self.history.calls.iter().flat_map(|call| &call.runs);
        let inside = runs.filter_map(|run| run.inserted).filter(|_| synced).map(|(_, at)| at);
        answered.chain(inside).filter(|at| *at <= n).max().unwrap_or(0)
    }

    fn calls_around(&self, n: usize) -> String {
        let near = |call: &&Call| call.began <= n + 20 && call.ended + 20 >= n;
        let calls = self.history.calls.iter().filter(near);
        let told = |call: &Call| {
            format!("\n  {} to {}, to {}: {:?}", call.began, call.answered, call.ended, call.step)
        };
        calls.map(told).collect()
    }

    /// Opens an image, or remembers what it was when it was opened first.
    fn open(&mut self, image: &Files, n: usize) -> Rc<Seen> {
        let mut hasher = DefaultHasher::new();
        image.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(seen) = self.seen.get(&hash) {
            return Rc::clone(seen);
        }
        self.tally.images += 1;
        let (seen, disk) = look(Disk::new(image.clone()));
        if self.tally.images.is_multiple_of(self.effort.drained) {
            self.tally.drained += 1;
            let (again, disk) = look(disk);
            assert_eq!(seen, again, "to open it twice changes something, after event {n}");
            self.drain(disk, &seen, n);
        }
        let seen = Rc::new(seen);
        self.seen.insert(hash, Rc::clone(&seen));
        seen
    }

    /// Compares what a kill leaves with what was answered.
    fn kill(&self, n: usize, seen: &Seen) {
        let calls = &self.history.calls;
        let at = calls.partition_point(|call| call.ended < n);
        let call = &calls[at];
        assert!(call.began < n && n <= call.ended, "event {n} belongs to a call");
        let whole = |dump: &Dump| seen.dump == *dump;
        let holds = match &call.step {
            _ if n >= call.answered => whole(&call.after),
            Step::Advance { .. } => return self.kill_in_advance(n, call, seen),
            _ => whole(&call.before) || whole(&call.after),
        };
        assert!(
            holds,
            "a kill after event {n}, in {:?} ({} to {}), leaves a part:\n{:#?}\nbefore: {:#?}\n\
             after: {:#?}",
            call.step, call.began, call.ended, seen.dump, call.before, call.after
        );
    }

    /// Of each run that has started, all or nothing; and what does not run stays.
    fn kill_in_advance(&self, n: usize, call: &Call, seen: &Seen) {
        let rows: [&BTreeMap<JobId, Row>; 3] =
            [&call.before.jobs, &seen.dump.jobs, &call.after.jobs];
        let ids: BTreeSet<JobId> = rows.iter().flat_map(|jobs| jobs.keys()).copied().collect();
        for id in ids {
            let [before, now, after] = rows.map(|jobs| jobs.get(&id));
            let run = call.runs.iter().find(|run| run.id == id);
            let inserted =
                call.runs.iter().filter_map(|run| run.inserted).find(|(job, _)| *job == id);
            let leads = |run: &&Ran| run.follow_up == Some(id);
            if let Some(run) = call.runs.iter().find(leads) {
                let has_ended = !seen.dump.jobs.contains_key(&run.id);
                assert_eq!(now.is_some(), has_ended, "{id} without the end of {run:?}, after {n}");
            }
            let is_follow_up = call.runs.iter().any(|run| leads(&run));
            let occurrence = now.is_some_and(|row| {
                Task::decode(&row.payload).is_ok_and(|task| task.n >= 1_000_000)
            });
            let holds = match (run, inserted) {
                _ if now == before && inserted.is_none_or(|(_, at)| n < at) => true,
                (Some(run), _) if run.position < n => now == after || occurrence && after.is_none(),
                (_, Some(_)) => now == after,
                _ if is_follow_up => now == after,
                // It was made from its schedule.
                _ => before.is_none() && occurrence,
            };
            assert!(
                holds,
                "a kill after event {n}, in {:?} ({} to {}), leaves of {id}:\n{now:#?}\nbefore: \
                 {before:#?}\nafter: {after:#?}\nrun: {run:?}",
                call.step, call.began, call.ended
            );
        }
    }

    /// Runs what is there, and sees that it is that and nothing else.
    fn drain(&self, disk: Disk, seen: &Seen, n: usize) {
        let call = self.history.calls.iter().rev().find(|call| call.began < n);
        let process = Process::start(disk, self.history.durability, call.map(|call| call.now));
        process.jobs.check().unwrap_or_else(|wrong| panic!("after event {n}: {wrong}"));
        let taken_over = Dump::of(&process.jobs);
        for (id, row) in &seen.dump.jobs {
            let interruptions = row.interruptions + u32::from(seen.claimed.contains(id));
            let taken = taken_over.jobs.get(id).unwrap_or_else(|| panic!("{id} is gone, {n}"));
            assert_eq!(taken.interruptions, interruptions, "{id} after event {n}");
        }
        assert!(taken_over.jobs.len() >= seen.dump.jobs.len(), "after event {n}");
        for (name, ..) in &seen.dump.schedules {
            assert!(process.jobs.schedules().remove(name).expect("the disk works"), "{name}");
        }
        let taken_over = Dump::of(&process.jobs);
        process.driver.advance(Duration::from_secs(3600));
        let mut left: BTreeMap<JobId, usize> = BTreeMap::new();
        for (id, row) in &taken_over.jobs {
            if row.dead {
                continue;
            }
            let task = Task::decode(&row.payload).expect("a task");
            let fails = task.plan == Plan::Fail;
            left.insert(*id, if fails { 2 - row.failures as usize } else { 1 });
        }
        for run in process.take_runs() {
            left.extend(run.inserted.map(|(id, _)| (id, 1)));
            left.extend(run.follow_up.map(|id| (id, 1)));
            let left = left.get_mut(&run.id).unwrap_or_else(|| panic!("{} runs, {n}", run.id));
            *left = left.checked_sub(1).unwrap_or_else(|| panic!("{} runs again, {n}", run.id));
        }
        left.retain(|_, left| *left > 0);
        assert!(left.is_empty(), "do not run after event {n}: {left:?}");
        process.jobs.check().unwrap_or_else(|wrong| panic!("after event {n}: {wrong}"));
        let counts = process.jobs.count().expect("the jobs are counted");
        assert_eq!((counts.pending, counts.running), (0, 0), "after event {n}");
    }
}

/// Opens a disk as a client. Returns the disk as it is then.
fn look(disk: Disk) -> (Seen, Disk) {
    let (dump, claimed) = Dump::with_claims(&client(&disk));
    (Seen { dump, claimed }, disk)
}
