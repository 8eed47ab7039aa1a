//! The machine's own work, which no caller asks for: occurrences of schedules, purges, the progress of runs, the
//! reports that this node is alive, and one event for each name that cannot be read.
//!
//! Ground rules:
//!
//! - A step writes the latest progress of each run, at most once a second: all that has come since the last step. So it
//!   is in the store a second later at most: the dispatcher makes a step each second.
//! - The step that ends a run writes its latest progress before the end, in the same commit, unless the run completed.
//! - The progress of a run that has ended or lost its lease is dropped here. The store refuses it too, by the fence.
//! - The memory of reported names is bounded: a hash for each name, and at most [`MOST_TOLD`] of them. When it is full,
//!   it is cleared, and names that are found again are reported again.
//! - Two names with one hash are reported as one: the chance is 1 in 2^64.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;

use super::commit::{Commit, FollowUp};
use super::{
    CLOCK_STEP, GRACE, Machine, MachineSettings, OCCURRENCES_PER_STEP, PURGE_INTERVAL, StepOutput,
};
use crate::dispatch::command::{Command, Latest, RunEnd};
use crate::store::{Answer, NewJob, Op, Store, StoredSchedule};
use crate::values::error::StoreError;
use crate::values::id::{Claim, JobId};
use crate::values::job::is_in_time;
use crate::values::node::{self, NODE_INTERVAL};
use crate::values::time::{Millis, Now};

pub(super) struct OwnWork {
    pub(super) schedules: Vec<StoredSchedule>,
    pub(super) load_schedules: bool,
    /// The schedules may be ahead of the clock: at the start, and when the clock was set back.
    pub(super) clock_was_set: bool,
    pub(super) purge_at: Millis,
    /// The description of this node, and when it says next that it is there.
    node: node::StoredNode,
    node_at: Millis,
    progress: ProgressWrites,
}

impl OwnWork {
    pub(super) fn new(settings: &MachineSettings, now: Millis) -> OwnWork {
        let policies = settings.policies.iter();
        let max_retries = policies.map(|(kind, retry)| (kind.to_string(), retry.most())).collect();
        let MachineSettings { threads, most_runs, max_in_flight, .. } = *settings;
        let described =
            node::StoredNode::of_this_process(max_retries, threads, most_runs, max_in_flight, now);
        OwnWork {
            schedules: Vec::new(),
            load_schedules: true,
            clock_was_set: true,
            purge_at: now,
            node: described,
            node_at: now,
            progress: ProgressWrites::default(),
        }
    }
}

impl Machine {
    /// Reads the stored settings before the first claim. A claim that does not know the stored limits would go back,
    /// and its tokens would be lost.
    pub(crate) fn read_settings(
        &mut self,
        now: Millis,
        store: &mut dyn Store,
    ) -> Result<(), StoreError> {
        let mut commit = self.commits.begin();
        commit.push(Op::Settings, FollowUp::SettingsLoaded);
        let outcome = store.apply(&commit.batch(None, now)).map_err(|failed| failed.error)?;
        if let Some(Answer::Settings(stored)) = outcome.answers.first() {
            self.follow_settings(stored);
        }
        Ok(())
    }

    pub(super) fn do_own_work(&mut self, now: Millis, commit: &mut Commit) {
        if !self.runs_jobs() {
            return;
        }
        self.make_occurrences(now, commit);
        self.purge(now, commit);
        self.note_node(now, commit);
        if core::mem::take(&mut self.own_work.load_schedules) {
            commit.push(Op::Schedules, FollowUp::SchedulesLoaded);
            commit.push(Op::Settings, FollowUp::SettingsLoaded);
        }
    }

    /// Makes jobs of the occurrences that are due.
    fn make_occurrences(&mut self, now: Millis, commit: &mut Commit) {
        let until = now.plus(self.settings.ahead);
        let in_order = until.plus(CLOCK_STEP);
        let clock_was_set = self.own_work.clock_was_set && !self.own_work.schedules.is_empty();
        let mut made = 0;
        for schedule in &mut self.own_work.schedules {
            let Some((kind, _)) = self.settings.policies.get_key_value(&*schedule.kind) else {
                continue;
            };
            let expected = schedule.next;
            if expected > until {
                // The clock was ahead, so the schedule has skipped some occurrences. Those that became jobs
                // nevertheless do not become jobs twice, because the store knows their ids.
                if let Some(next) =
                    schedule.schedule.left_out(expected, now, in_order, clock_was_set)
                {
                    let (name, jobs) = (schedule.name.clone(), Vec::new());
                    schedule.next = next;
                    commit.push(
                        Op::Occur { name, expected, jobs, next: Some(next) },
                        FollowUp::Occurred,
                    );
                }
                continue;
            }
            if self.stored.settings.paused_schedules.contains(&schedule.name) {
                continue;
            }
            // The next step makes the rest at once, because they are due.
            let room = OCCURRENCES_PER_STEP.saturating_sub(made);
            if room == 0 {
                return;
            }
            let (mut times, next) = schedule.schedule.due(expected, now.minus(GRACE), until, room);
            made += times.len().max(1);
            let queue = &self.settings.queue;
            let expiry = self.settings.expiries.get(kind).copied();
            if let Some(after) = expiry.filter(|_| schedule.schedule.without_overlap) {
                // An occurrence that is too old already would only keep out the ones in time.
                times.retain(|due| is_in_time(due.plus(after), now));
            }
            let job = |due: Millis| {
                let id = JobId::named(&format!("schedule {queue} {} {}", due.get(), schedule.name));
                let mut job = NewJob::occurrence(schedule, Arc::clone(kind), due, (id, true));
                if let Some(after) = expiry {
                    job.extra.get_or_insert_default().expires = Some(due.plus(after));
                }
                job
            };
            let jobs = times.into_iter().map(job).collect();
            let name = schedule.name.clone();
            // No later step makes these occurrences again. If the commit fails, the schedules are read anew.
            schedule.next = next.unwrap_or(Millis::MAX);
            commit.push(Op::Occur { name, expected, jobs, next }, FollowUp::Occurred);
        }
        self.own_work.clock_was_set &= !clock_was_set;
    }

    fn purge(&mut self, now: Millis, commit: &mut Commit) {
        if now >= self.own_work.purge_at {
            self.own_work.purge_at = now.plus(PURGE_INTERVAL);
            commit.push(Op::Purge, FollowUp::Purged);
        }
    }

    /// Says that this node is there, at most every ten seconds. On a file only together with another change: an idle
    /// process writes nothing.
    fn note_node(&mut self, now: Millis, commit: &mut Commit) {
        let changes = || commit.ops.iter().any(|op| !op.is_question());
        // A time that lies further ahead was set before the clock was set back.
        let is_due =
            now >= self.own_work.node_at || self.own_work.node_at.since(now) > NODE_INTERVAL;
        if is_due && (self.settings.lease.is_some() || changes()) {
            self.own_work.node_at = now.plus(NODE_INTERVAL);
            self.own_work.node.in_flight = self.runs.by_id.len();
            let node = self.own_work.node.to_text();
            commit.push(Op::PutNode { node }, FollowUp::NodeNoted);
        }
    }
}

/// The shortest time between two writes of the progress of one run.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// The progress of runs that the machine has taken.
#[derive(Default)]
pub(super) struct ProgressWrites {
    unwritten: Latest,
    /// When the progress of a run was written, within the last [`WRITE_INTERVAL`].
    written: HashMap<Claim, Instant>,
}

impl Machine {
    /// Writes the progress that is due. `commands`: those of this step, which may end runs.
    pub(super) fn write_progress(
        &mut self,
        now: Instant,
        commands: &mut [Command],
        commit: &mut Commit,
    ) {
        let latest = self.settings.progress.take();
        let writes = &mut self.own_work.progress;
        if latest.is_none() && writes.unwritten.is_empty() {
            return;
        }
        writes.unwritten.extend(latest.unwrap_or_default());
        writes.written.retain(|_, at| now.saturating_duration_since(*at) < WRITE_INTERVAL);
        // For each run that ends: whether it completes. If it does, no later run reads its progress.
        let mut ending: HashMap<Claim, bool> = HashMap::default();
        let mut ends_all = false;
        let mut called = Vec::new();
        for command in commands {
            match command {
                // The call writes the latest progress of its run: its own, or a later one.
                Command::Call { op: Op::PutProgress { id, fence, value }, .. } => {
                    if let Some(latest) = writes.unwritten.get(&(*id, *fence)) {
                        value.clone_from(latest);
                        called.push((*id, *fence));
                    }
                }
                Command::Ended { id, fence, end, .. } => {
                    ending.insert((*id, *fence), matches!(end, RunEnd::Done));
                }
                Command::Overrun { id, fence, .. } => drop(ending.insert((*id, *fence), false)),
                Command::Abandon => ends_all = true,
                _ => {}
            }
        }
        // The caller may give its call up, and a run that ends has no later step.
        for claim in called.into_iter().filter(|it| !ends_all && !ending.contains_key(it)) {
            writes.unwritten.remove(&claim);
            writes.written.insert(claim, now);
        }
        let runs = &self.runs;
        writes.unwritten.retain(|claim, value| {
            let (id, fence) = *claim;
            let run = runs.get(id, fence).filter(|run| !run.lease_has_ended(now));
            let Some(run) = run else { return false };
            let waits = match ending.get(claim) {
                Some(completes) => *completes && !run.follow_ups.were_refused(),
                None => writes.written.contains_key(claim) && !ends_all,
            };
            if waits {
                return true;
            }
            writes.written.insert(*claim, now);
            let value = core::mem::take(value);
            commit.push(Op::PutProgress { id, fence, value }, FollowUp::ProgressPut);
            false
        });
    }

    /// Keeps the progress that a commit has not written, unless the run has set another since.
    pub(super) fn keep_progress(&mut self, op: Op) {
        if let Op::PutProgress { id, fence, value } = op {
            self.own_work.progress.unwritten.entry((id, fence)).or_insert(value);
        }
    }

    pub(super) fn wake_for_progress(&self, present: Now, output: &mut StepOutput) {
        let ProgressWrites { unwritten, written } = &self.own_work.progress;
        let due = unwritten.keys().filter_map(|claim| written.get(claim)).min();
        if let Some(at) = due.filter(|_| self.commits.unsettled.is_none()) {
            let wait = (*at + WRITE_INTERVAL).saturating_duration_since(present.instant);
            output.wake_by(present.millis().plus(wait + Duration::from_millis(1)));
        }
    }
}

/// How many names are kept: 16 KiB or so.
const MOST_TOLD: usize = 1024;

/// The names that were reported, as hashes.
#[derive(Default)]
pub(super) struct Told {
    hasher: RandomState,
    hashes: HashSet<u64>,
}

impl Told {
    /// Says whether this name is to be reported, and notes it.
    pub(super) fn is_new(&mut self, name: &str) -> bool {
        let hash = self.hasher.hash_one(name);
        if self.hashes.contains(&hash) {
            return false;
        }
        if self.hashes.len() >= MOST_TOLD {
            self.hashes.clear();
        }
        self.hashes.insert(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each unreadable job or schedule is reported once, and the number of remembered names has a bound.
    #[test]
    fn unreadable_names_are_reported_once_and_few_are_kept() {
        let mut told = Told::default();
        assert!(told.is_new("job 1") && !told.is_new("job 1"));
        for n in 0..10 * MOST_TOLD {
            told.is_new(&format!("schedule {n}"));
            assert!(told.hashes.len() <= MOST_TOLD);
            assert!(!told.is_new(&format!("schedule {n}")), "{n}");
        }
    }
}
