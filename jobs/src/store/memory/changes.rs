//! The operations of the store in memory on single jobs and schedules, and its pages.

use std::sync::Arc;

use super::{Memory, Record};
use crate::store::{
    Answer, End, Finish, IfTaken, Inserted, JobSet, NewJob, NewSchedule, Page, PageRequest,
    StoredSchedule,
};
use crate::values::attempt_errors::AttemptErrors;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{Cancel, JobInfo, JobState};
use crate::values::time::Millis;

impl Memory {
    pub(super) fn insert(&mut self, new: &NewJob, now: Millis) -> Inserted {
        let id = new.id;
        let known = self.alive.contains_key(&id)
            || self.dead.contains_key(&id)
            || self.done.contains_key(&id);
        if known && new.callers_id {
            return Inserted::Known;
        }
        let mut due = new.due;
        if let Some((key, if_taken)) = &new.key {
            if let Some(&holder) = self.keys.get(key) {
                let is_claimed = self.claims.contains_key(&holder);
                let holds = |record: &Record| record.extra.as_ref().is_some_and(|it| it.holds_key);
                let keeps = match is_claimed {
                    true => self.alive.get(&holder).is_some_and(holds),
                    false => *if_taken == IfTaken::Leave,
                };
                if keeps {
                    return Inserted::Taken(holder);
                }
                if is_claimed {
                    if let Some(record) = self.alive.get_mut(&holder) {
                        record.key = None;
                    }
                } else {
                    if *if_taken == IfTaken::ReplaceKeepingTime {
                        due = self.alive.get(&holder).map_or(due, |record| record.due);
                    }
                    self.end(holder, now);
                }
            }
            self.keys.insert(key.clone(), id);
        }
        self.kinds.insert(Arc::clone(&new.kind));
        let record = Record {
            kind: Arc::clone(&new.kind),
            due,
            failures: 0,
            interruptions: 0,
            attempts: 0,
            key: new.key.as_ref().map(|(key, _)| key.clone()),
            errors: AttemptErrors::default(),
            callers_id: new.callers_id,
            extra: new.extra.clone(),
            payload: new.payload.clone(),
        };
        self.alive.insert(id, record);
        self.wait(id);
        Inserted::New
    }

    /// Removes a job for good.
    pub(super) fn end(&mut self, id: JobId, now: Millis) -> Option<Record> {
        let record = self.alive.remove(&id)?;
        self.waiting.remove(&(record.due, id));
        self.claims.remove(&id);
        if let Some(key) = &record.key {
            self.keys.remove(key);
        }
        if record.callers_id {
            self.done.insert(id, now);
        }
        Some(record)
    }

    pub(super) fn cancel(&mut self, id: JobId, now: Millis) -> Cancel {
        if !self.alive.contains_key(&id) {
            return Cancel::Gone;
        }
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.asked = true;
            return Cancel::Running;
        }
        self.end(id, now);
        Cancel::Cancelled
    }

    pub(super) fn pending_holder(&self, key: &str) -> Option<JobId> {
        self.keys.get(key).copied().filter(|id| !self.claims.contains_key(id))
    }

    pub(super) fn reschedule(&mut self, id: JobId, due: Millis) -> bool {
        if self.claims.contains_key(&id) {
            return false;
        }
        let Some(record) = self.alive.get_mut(&id) else { return false };
        let before = core::mem::replace(&mut record.due, due);
        self.waiting.remove(&(before, id));
        self.wait(id);
        true
    }

    pub(super) fn retry(&mut self, id: JobId, due: Millis) -> Answer {
        let Some((record, _)) = self.dead.get(&id) else { return Answer::Changed(false) };
        if let Some(key) = &record.key
            && let Some(&by) = self.keys.get(key)
        {
            return Answer::Refused(StoreError::KeyTaken { key: key.clone(), by });
        }
        let Some((mut record, _)) = self.dead.remove(&id) else { return Answer::Changed(false) };
        record.due = due;
        record.failures = 0;
        record.interruptions = 0;
        if let Some(key) = &record.key {
            self.keys.insert(key.clone(), id);
        }
        self.alive.insert(id, record);
        self.wait(id);
        Answer::Changed(true)
    }

    pub(super) fn put_schedule(&mut self, new: &NewSchedule) -> bool {
        let rule_text = new.schedule.rule.to_text();
        let known = self.schedules.get(&new.name);
        let same = known.filter(|known| *known.kind == *new.kind && known.rule_text == rule_text);
        let next = same.map_or(new.first, |same| same.next);
        let changed = same.is_none();
        self.kinds.insert(Arc::clone(&new.kind));
        let stored = StoredSchedule {
            name: new.name.clone(),
            kind: new.kind.to_string(),
            schedule: new.schedule.clone(),
            rule_text,
            payload: new.payload.clone(),
            next,
        };
        self.schedules.insert(new.name.clone(), stored);
        changed
    }

    pub(super) fn occur(
        &mut self,
        name: &str,
        expected: Millis,
        jobs: &[NewJob],
        next: Option<Millis>,
        now: Millis,
    ) -> bool {
        if self.schedules.get(name).is_none_or(|schedule| schedule.next != expected) {
            return false;
        }
        for job in jobs {
            self.insert(job, now);
        }
        match (next, self.schedules.get_mut(name)) {
            (Some(next), Some(schedule)) => schedule.next = next,
            _ => drop(self.schedules.remove(name)),
        }
        true
    }

    pub(super) fn finish(&mut self, finish: &Finish, now: Millis) {
        let id = finish.id;
        if !self.claims.contains_key(&id) {
            return;
        }
        // A job whose cancel was requested is deleted, whatever the result of its run.
        let end = if self.claims[&id].asked { &End::Completed } else { &finish.end };
        match end {
            End::Completed => drop(self.end(id, now)),
            End::Retry { due, errors } => {
                self.claims.remove(&id);
                if let Some(record) = self.alive.get_mut(&id) {
                    record.due = *due;
                    record.failures = record.failures.saturating_add(1);
                    record.interruptions = 0;
                    record.attempts = record.attempts.saturating_add(1);
                    record.errors = errors.clone();
                }
                self.wait(id);
            }
            End::Snoozed { due } => {
                self.claims.remove(&id);
                if let Some(record) = self.alive.get_mut(&id) {
                    record.due = *due;
                    record.interruptions = 0;
                }
                self.wait(id);
            }
            End::Dead { errors } => {
                if let Some(record) = self.alive.get_mut(&id) {
                    record.failures = record.failures.saturating_add(1);
                    record.attempts = record.attempts.saturating_add(1);
                    record.errors = errors.clone();
                }
                self.bury(id, now);
            }
        }
    }

    pub(super) fn bury(&mut self, id: JobId, now: Millis) {
        if let Some(record) = self.end(id, now) {
            self.done.remove(&id);
            self.dead.insert(id, (record, now));
        }
    }

    pub(super) fn get(&self, id: JobId) -> Option<JobInfo> {
        if let Some(record) = self.alive.get(&id) {
            let claimed = self.claims.contains_key(&id);
            let state = if claimed { JobState::Running } else { JobState::Pending };
            return Some(record.info(id, state, None));
        }
        let (record, died) = self.dead.get(&id)?;
        Some(record.info(id, JobState::Dead, Some(*died)))
    }

    pub(super) fn page(&self, request: &PageRequest) -> Page {
        let mut found: Vec<(Millis, JobId)> = match request.set {
            JobSet::Alive => self.alive.iter().map(|(id, record)| (record.due, *id)).collect(),
            JobSet::Dead => self.dead.iter().map(|(id, (record, _))| (record.due, *id)).collect(),
        };
        let kind_of = |id: &JobId| match self.alive.get(id) {
            Some(record) => Arc::clone(&record.kind),
            None => Arc::clone(&self.dead[id].0.kind),
        };
        found.retain(|(due, id)| {
            (request.from..=request.to).contains(due)
                && request.kind.as_ref().is_none_or(|kind| **kind == *kind_of(id))
        });
        match request.set {
            JobSet::Alive => {
                found.sort_unstable();
                found.retain(|at| request.after.is_none_or(|after| *at > after));
            }
            JobSet::Dead => {
                found.sort_unstable_by_key(|(_, id)| *id);
                found.retain(|(_, id)| request.after.is_none_or(|(_, after)| *id > after));
            }
        }
        found.truncate(request.limit);
        let next = found.last().copied().filter(|_| found.len() == request.limit);
        Page { jobs: found.iter().filter_map(|(_, id)| self.get(*id)).collect(), next }
    }
}
