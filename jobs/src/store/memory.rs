//! The store in memory: the reference, for tests and for programs that do not need their jobs back.
//!
//! Ground rules:
//!
//! - Maps that are obviously right, rather than fast ones.
//! - No operation fails, so nothing has to be undone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::{
    Answer, ApplyError, Batch, ClaimRequest, Claimed, End, Facts, Fence, Finish, IfTaken, Inserted,
    JobSet, Look, MOST_INTERRUPTIONS, NewJob, NewSchedule, Op, Outcome, Page, PageRequest, Store,
    StoredSchedule,
};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::info::{Cancel, Counts, JobInfo, JobState};
use crate::values::time::Millis;

/// The store in memory.
#[derive(Default)]
pub(crate) struct Memory {
    alive: BTreeMap<JobId, Record>,
    dead: BTreeMap<JobId, (Record, Millis)>,
    done: HashMap<JobId, Millis>,
    keys: HashMap<String, JobId>,
    /// With whether a cancel was asked for.
    claims: HashMap<JobId, bool>,
    /// Jobs that are not claimed, in the order of deadline, then of id.
    waiting: BTreeMap<(Millis, JobId), Arc<str>>,
    kinds: HashSet<Arc<str>>,
    handled: HashSet<Arc<str>>,
    schedules: BTreeMap<String, StoredSchedule>,
    starts: u64,
    claimed: u64,
    suspects_wait: bool,
    commits: u64,
}

#[derive(Clone)]
struct Record {
    kind: Arc<str>,
    due: Millis,
    tries: u32,
    interruptions: u32,
    /// How often it was claimed and the claim was not given back.
    runs: u32,
    key: Option<String>,
    error: Option<String>,
    callers_id: bool,
    payload: Vec<u8>,
}

impl Record {
    fn info(&self, id: JobId, state: JobState, died: Option<Millis>) -> JobInfo {
        JobInfo {
            id,
            kind: self.kind.to_string(),
            state,
            deadline: self.due.to_system(),
            tries: self.tries,
            interruptions: self.interruptions,
            key: self.key.clone(),
            error: self.error.clone(),
            died: died.map(Millis::to_system),
            payload: self.payload.clone(),
        }
    }
}

impl Memory {
    fn apply_one(&mut self, op: &Op, now: Millis) -> Answer {
        match op {
            Op::Insert(job) => Answer::Inserted(self.insert(job, now)),
            Op::InsertMany(jobs) => {
                for job in jobs {
                    self.insert(job, now);
                }
                Answer::Inserted(Inserted::New)
            }
            Op::Cancel(id) => Answer::Cancelled(self.cancel(*id, now)),
            Op::CancelKey(key) => {
                let holder = self.pending_holder(key);
                if let Some(id) = holder {
                    self.end(id, now);
                }
                Answer::Changed(holder.is_some())
            }
            Op::Reset(id, due) => Answer::Changed(self.relocate(*id, *due)),
            Op::ResetKey(key, due) => Answer::Changed(match self.pending_holder(key) {
                Some(id) => self.relocate(id, *due),
                None => false,
            }),
            Op::Revive(id, due) => Answer::Changed(self.revive(*id, *due)),
            Op::Discard(id) => {
                let found = self.dead.remove(id);
                if let Some((record, _)) = &found
                    && record.callers_id
                {
                    self.done.insert(*id, now);
                }
                Answer::Changed(found.is_some())
            }
            Op::PutSchedule(new) => Answer::Changed(self.put_schedule(new)),
            Op::DropSchedule(name) => Answer::Changed(self.schedules.remove(name).is_some()),
            Op::Occur { name, expected, jobs, next } => {
                Answer::Changed(self.occur(name, *expected, jobs, *next, now))
            }
            Op::Finish(finish) => {
                self.finish(finish, now);
                Answer::Done
            }
            Op::Release(id) => {
                self.claims.remove(id);
                self.wait(*id);
                Answer::Done
            }
            Op::Purge(before) => {
                self.dead.retain(|_, (_, died)| *died >= *before);
                self.done.retain(|_, at| *at >= *before);
                Answer::Changed(false)
            }
            Op::Flush => Answer::Done,
            Op::Get(id) => Answer::Info(self.get(*id)),
            Op::GetKey(key) => Answer::Info(self.keys.get(key).and_then(|id| self.get(*id))),
            Op::Page(request) => Answer::Page(self.page(request)),
            Op::Claimed => {
                let mut ids: Vec<JobId> = self.claims.keys().copied().collect();
                ids.sort_unstable();
                let jobs = ids.into_iter().filter_map(|id| self.get(id)).collect();
                Answer::Page(Page { jobs, next: None })
            }
            Op::Counts => {
                let running = self.claims.len() as u64;
                Answer::Counts(Counts {
                    pending: self.alive.len() as u64 - running,
                    running,
                    dead: self.dead.len() as u64,
                    schedules: self.schedules.len() as u64,
                })
            }
            Op::Kinds => {
                let count = |kind: &Arc<str>| {
                    self.alive.values().filter(|record| record.kind == *kind).count() as u64
                };
                let mut kinds: Vec<(String, u64)> =
                    self.kinds.iter().map(|kind| (kind.to_string(), count(kind))).collect();
                kinds.sort_unstable();
                Answer::Kinds(kinds)
            }
            Op::Schedules => Answer::Schedules(self.schedules.values().cloned().collect()),
        }
    }

    /// Files a job among those that are not claimed.
    fn wait(&mut self, id: JobId) {
        if let Some(record) = self.alive.get(&id) {
            self.waiting.insert((record.due, id), Arc::clone(&record.kind));
        }
    }

    fn insert(&mut self, new: &NewJob, now: Millis) -> Inserted {
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
                if self.claims.contains_key(&holder) {
                    if let Some(record) = self.alive.get_mut(&holder) {
                        record.key = None;
                    }
                } else if *if_taken == IfTaken::Leave {
                    return Inserted::Occupied;
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
            tries: 0,
            interruptions: 0,
            runs: 0,
            key: new.key.as_ref().map(|(key, _)| key.clone()),
            error: None,
            callers_id: new.callers_id,
            payload: new.payload.clone(),
        };
        self.alive.insert(id, record);
        self.wait(id);
        Inserted::New
    }

    /// Removes a job for good.
    fn end(&mut self, id: JobId, now: Millis) -> Option<Record> {
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

    fn cancel(&mut self, id: JobId, now: Millis) -> Cancel {
        if !self.alive.contains_key(&id) {
            return Cancel::Gone;
        }
        if let Some(asked) = self.claims.get_mut(&id) {
            *asked = true;
            return Cancel::Running;
        }
        self.end(id, now);
        Cancel::Cancelled
    }

    fn pending_holder(&self, key: &str) -> Option<JobId> {
        self.keys.get(key).copied().filter(|id| !self.claims.contains_key(id))
    }

    fn relocate(&mut self, id: JobId, due: Millis) -> bool {
        if self.claims.contains_key(&id) {
            return false;
        }
        let Some(record) = self.alive.get_mut(&id) else { return false };
        let before = core::mem::replace(&mut record.due, due);
        self.waiting.remove(&(before, id));
        self.wait(id);
        true
    }

    fn revive(&mut self, id: JobId, due: Millis) -> bool {
        let Some((mut record, _)) = self.dead.remove(&id) else { return false };
        record.due = due;
        record.tries = 0;
        record.interruptions = 0;
        record.key = record.key.filter(|key| !self.keys.contains_key(key));
        if let Some(key) = &record.key {
            self.keys.insert(key.clone(), id);
        }
        self.alive.insert(id, record);
        self.wait(id);
        true
    }

    fn put_schedule(&mut self, new: &NewSchedule) -> bool {
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

    fn occur(
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

    fn finish(&mut self, finish: &Finish, now: Millis) {
        let id = finish.id;
        if !self.claims.contains_key(&id) {
            return;
        }
        match &finish.end {
            End::Gone => drop(self.end(id, now)),
            End::Again { due, error } => {
                self.claims.remove(&id);
                if let Some(record) = self.alive.get_mut(&id) {
                    record.due = *due;
                    record.tries = record.tries.saturating_add(1);
                    record.interruptions = 0;
                    record.runs = record.runs.saturating_add(1);
                    record.error = Some(error.clone());
                }
                self.wait(id);
            }
            End::Dead { error } => {
                if let Some(record) = self.alive.get_mut(&id) {
                    record.tries = record.tries.saturating_add(1);
                    record.runs = record.runs.saturating_add(1);
                    record.error = Some(error.clone());
                }
                self.die(id, now);
            }
        }
    }

    fn die(&mut self, id: JobId, now: Millis) {
        if let Some(record) = self.end(id, now) {
            self.done.remove(&id);
            self.dead.insert(id, (record, now));
        }
    }

    fn get(&self, id: JobId) -> Option<JobInfo> {
        if let Some(record) = self.alive.get(&id) {
            let claimed = self.claims.contains_key(&id);
            let state = if claimed { JobState::Running } else { JobState::Pending };
            return Some(record.info(id, state, None));
        }
        let (record, died) = self.dead.get(&id)?;
        Some(record.info(id, JobState::Dead, Some(*died)))
    }

    fn page(&self, request: &PageRequest) -> Page {
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

    fn claim(&mut self, request: ClaimRequest) -> Vec<Claimed> {
        let (mut suspects, mut repeat_offender) = (request.suspects, request.repeat_offender);
        let mut blocked: HashSet<Arc<str>> = HashSet::new();
        let mut taken = Vec::new();
        for (&(due, id), kind) in &self.waiting {
            if due > request.until || taken.len() == request.limit {
                break;
            }
            if !self.handled.contains(kind) || blocked.contains(kind) {
                continue;
            }
            match self.alive[&id].interruptions {
                0 => {}
                1 if suspects > 0 => {
                    suspects -= 1;
                    repeat_offender = false;
                }
                2.. if repeat_offender && suspects == request.suspects => {
                    suspects = 0;
                    repeat_offender = false;
                }
                _ => {
                    blocked.insert(Arc::clone(kind));
                    continue;
                }
            }
            taken.push((due, id));
        }
        self.suspects_wait = !blocked.is_empty();
        let starts = self.starts;
        taken
            .into_iter()
            .map(|(due, id)| {
                self.waiting.remove(&(due, id));
                self.claims.insert(id, false);
                self.claimed += 1;
                let record = &self.alive[&id];
                Claimed {
                    id,
                    kind: Arc::clone(&record.kind),
                    due,
                    tries: record.tries,
                    interruptions: record.interruptions,
                    runs: record.runs,
                    key: record.key.clone(),
                    payload: record.payload.clone(),
                    fence: Fence(starts << 40 | self.claimed),
                }
            })
            .collect()
    }

    fn next_due(&self) -> Option<Millis> {
        let handled = |(_, kind): &(&(Millis, JobId), &Arc<str>)| self.handled.contains(*kind);
        self.waiting.iter().find(handled).map(|((due, _), _)| *due)
    }
}

impl Store for Memory {
    fn take_over(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError> {
        self.starts += 1;
        self.handled = kinds.iter().cloned().collect();
        self.kinds.extend(kinds.iter().cloned());
        for (id, asked) in core::mem::take(&mut self.claims) {
            if asked {
                self.end(id, now);
                continue;
            }
            let Some(record) = self.alive.get_mut(&id) else { continue };
            record.interruptions += 1;
            record.runs = record.runs.saturating_add(1);
            if record.interruptions >= MOST_INTERRUPTIONS {
                let reason = format!("its process ended {MOST_INTERRUPTIONS} times while it ran");
                record.error = Some(reason);
                self.die(id, now);
            } else {
                self.wait(id);
            }
        }
        Ok(())
    }

    fn apply(&mut self, batch: &Batch<'_>) -> Result<Outcome, ApplyError> {
        let answers = batch.ops.iter().map(|op| self.apply_one(op, batch.now)).collect();
        let claimed = batch.claim.map(|request| self.claim(request)).unwrap_or_default();
        let writes = batch.ops.iter().any(|op| !op.is_question()) || !claimed.is_empty();
        self.commits += u64::from(writes);
        // A blocked suspect is due, and is not what to wake up for.
        let next_due = self.next_due().filter(|_| !self.suspects_wait);
        Ok(Outcome { answers, claimed, next_due, suspects_wait: self.suspects_wait })
    }

    fn look(&mut self) -> Result<Look, StoreError> {
        Ok(Look::default())
    }

    fn tidy(&mut self, _idle: Duration) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn check(&mut self) -> Result<(), Violation> {
        for (id, record) in &self.alive {
            let filed = self.waiting.contains_key(&(record.due, *id));
            let claimed = self.claims.contains_key(id);
            if filed == claimed {
                return Err(Violation(format!("M1: {id} is filed: {filed}, claimed: {claimed}")));
            }
            if let Some(key) = &record.key
                && self.keys.get(key) != Some(id)
            {
                return Err(Violation(format!("M2: the key {key:?} does not name {id}")));
            }
            if self.dead.contains_key(id) || self.done.contains_key(id) {
                return Err(Violation(format!("M3: {id} is alive, and dead or done")));
            }
        }
        let keyed = self.alive.values().filter(|record| record.key.is_some()).count();
        if self.waiting.len() + self.claims.len() != self.alive.len() || keyed != self.keys.len() {
            return Err(Violation("M4: something is filed, claimed or named and gone".to_owned()));
        }
        Ok(())
    }

    fn facts(&self) -> Facts {
        Facts { commits: self.commits, ..Facts::default() }
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}
