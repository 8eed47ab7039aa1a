//! The machine's own work, which no caller asks for: occurrences of schedules, purges, and the reports that this node
//! is alive.

use std::sync::Arc;

use super::commit::{Commit, FollowUp};
use super::{CLOCK_STEP, GRACE, Machine, OCCURRENCES_PER_STEP, PURGE_INTERVAL};
use crate::store::{Answer, NewJob, Op, Store};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::node::NODE_INTERVAL;
use crate::values::time::Millis;

impl Machine {
    /// Reads the stored settings before the first claim. A claim that does not know the stored limits would go back,
    /// and its tokens would be lost.
    pub(crate) fn read_settings(
        &mut self,
        now: Millis,
        store: &mut dyn Store,
    ) -> Result<(), StoreError> {
        let mut commit = Commit::default();
        commit.push(Op::Settings, FollowUp::SettingsLoaded);
        self.batches += 1;
        let batch = commit.batch(self.batches, None, None, now);
        let outcome = store.apply(&batch).map_err(|failed| failed.error)?;
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
        if core::mem::take(&mut self.load_schedules) {
            commit.push(Op::Schedules, FollowUp::SchedulesLoaded);
            commit.push(Op::Settings, FollowUp::SettingsLoaded);
        }
    }

    /// Makes jobs of the occurrences that are due.
    fn make_occurrences(&mut self, now: Millis, commit: &mut Commit) {
        let until = now.plus(self.settings.ahead);
        let in_order = until.plus(CLOCK_STEP);
        let clock_was_set = self.clock_was_set && !self.schedules.is_empty();
        let mut made = 0;
        for schedule in &mut self.schedules {
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
            if self.stored.paused_schedules.contains(&schedule.name) {
                continue;
            }
            // The next step makes the rest at once, because they are due.
            let room = OCCURRENCES_PER_STEP.saturating_sub(made);
            if room == 0 {
                return;
            }
            let (times, next) = schedule.schedule.due(expected, now.minus(GRACE), until, room);
            made += times.len().max(1);
            let queue = &self.settings.queue;
            let job = |due: Millis| NewJob {
                id: JobId::named(&format!("schedule {queue} {} {}", due.get(), schedule.name)),
                kind: Arc::clone(kind),
                due,
                key: None,
                callers_id: true,
                extra: None,
                payload: schedule.payload.clone(),
            };
            let jobs = times.into_iter().map(job).collect();
            let name = schedule.name.clone();
            // No later step makes these occurrences again. If the commit fails, the schedules are read anew.
            schedule.next = next.unwrap_or(Millis::MAX);
            commit.push(Op::Occur { name, expected, jobs, next }, FollowUp::Occurred);
        }
        self.clock_was_set &= !clock_was_set;
    }

    fn purge(&mut self, now: Millis, commit: &mut Commit) {
        if now >= self.purge_at {
            self.purge_at = now.plus(PURGE_INTERVAL);
            commit.push(Op::Purge, FollowUp::Purged);
        }
    }

    /// Says that this node is there, at most every ten seconds. On a file only together with another change: an idle
    /// process writes nothing.
    fn note_node(&mut self, now: Millis, commit: &mut Commit) {
        let changes = || commit.ops.iter().any(|op| !op.is_question());
        // A time that lies further ahead was set before the clock was set back.
        let is_due = now >= self.node_at || self.node_at.since(now) > NODE_INTERVAL;
        if is_due && (self.settings.lease.is_some() || changes()) {
            self.node_at = now.plus(NODE_INTERVAL);
            let (id, node) = &mut self.node;
            node.in_flight = self.runs.len();
            let (id, node) = (id.clone(), node.to_text());
            commit.push(Op::PutNode { id, node }, FollowUp::NodeNoted);
        }
    }
}
