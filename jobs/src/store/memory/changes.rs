//! The operations of the store in memory on single jobs, and its pages.

use core::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::{Ended, KeptJob, Memory, Record};
use crate::store::figures::Figure;
use crate::store::{
    Answer, End, Ending, Finish, IfTaken, Inserted, JobSet, Left, NewJob, Page, PageRequest,
    TRIM_LOOKS, TRIMMED, is_waited_for, kept_until,
};
use crate::values::attempt_errors::AttemptErrors;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{Cancel, JobInfo, JobState};
use crate::values::keep::Keep;
use crate::values::time::Millis;

impl KeptJob {
    /// Returns how many bytes count against the bound of its kind.
    fn bytes(&self) -> usize {
        let extra = self.record.extra.as_ref().map_or(0, |extra| extra.to_bytes().len());
        let result = self.result.as_ref().map_or(0, Vec::len);
        self.record.payload.len() + result + self.record.errors.as_text().len() + extra
    }
}

impl Memory {
    pub(super) fn insert(&mut self, new: &NewJob, now: Millis) -> Inserted {
        let id = new.id;
        let known = self.alive.contains_key(&id) || self.ended.contains_key(&id);
        if known && new.callers_id {
            return Inserted::Known;
        }
        let (mut due, mut extra) = (new.due, new.extra.clone());
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
                    if let Some(record) = self.alive.get(&holder) {
                        let its = record.extra.as_deref();
                        (due, extra) = new.replacing(record.due, its, record.attempts);
                    }
                    self.cancelled(holder, now);
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
            extra,
            payload: new.payload.clone(),
        };
        self.alive.insert(id, record);
        self.note(id, Figure::Inserted);
        self.wait(id);
        Inserted::New
    }

    pub(super) fn insert_many(&mut self, jobs: &[NewJob], now: Millis) -> Answer {
        let mut taken = Vec::new();
        for (n, job) in jobs.iter().enumerate() {
            match self.insert(job, now) {
                Inserted::Taken(by) => taken.push((n, by)),
                Inserted::New => self.join_group(job),
                Inserted::Known => {}
            }
        }
        Answer::InsertedMany(taken)
    }

    /// Removes a job from the living.
    fn take(&mut self, id: JobId) -> Option<Record> {
        self.end_claim(id);
        let record = self.alive.remove(&id)?;
        self.leave(record.due, id, &record);
        if let Some(key) = &record.key {
            self.keys.remove(key);
        }
        Some(record)
    }

    /// Removes a job that was cancelled or replaced.
    pub(super) fn cancelled(&mut self, id: JobId, now: Millis) {
        self.note(id, Figure::Cancelled);
        let group = self.group_of_alive(id);
        self.end(id, Ending::Cancelled, (0, None), None, now);
        self.leave_group(group, id, Left::Cancelled, now);
    }

    /// Removes a job that has completed or was cancelled, and keeps what is kept of it.
    fn end(
        &mut self,
        id: JobId,
        ending: Ending,
        (took, result): (u64, Option<Vec<u8>>),
        keep: Option<Keep>,
        now: Millis,
    ) {
        let Some(record) = self.take(id) else { return };
        let wanted = record.extra.as_ref().is_some_and(|extra| extra.wanted);
        let (callers_id, kind) = (record.callers_id, Arc::clone(&record.kind));
        match kept_until(keep, wanted, now) {
            Some(until) => {
                let job = Some(KeptJob { ending, record, took, result });
                self.ended.insert(id, Ended { until, at: now, job });
            }
            None if callers_id => self.remember(id, now),
            None => {}
        }
        if let Some(keep) = keep {
            self.trim(&kind, keep, now);
        }
    }

    /// Removes the oldest completed jobs of a kind that has more than it keeps.
    fn trim(&mut self, kind: &str, keep: Keep, now: Millis) {
        let of_kind = |(_, _, kept): &(JobId, Millis, &KeptJob)| *kept.record.kind == *kind;
        let mut kept: Vec<_> = self.kept(Ending::Completed).filter(of_kind).collect();
        kept.sort_unstable_by_key(|(id, at, _)| (*at, *id));
        let mut jobs = kept.len() as u64;
        let mut bytes: usize = kept.iter().map(|(.., kept)| kept.bytes()).sum();
        let is_waited_for = |at: Millis, kept: &KeptJob| {
            is_waited_for(kept.record.extra.as_ref().is_some_and(|extra| extra.wanted), at, now)
        };
        for (.., waited) in kept.iter().filter(|(_, at, kept)| is_waited_for(*at, kept)) {
            (jobs, bytes) = (jobs - 1, bytes - waited.bytes());
        }
        let mut over = Vec::new();
        for (id, at, oldest) in kept.into_iter().take(TRIM_LOOKS) {
            if over.len() == TRIMMED || jobs <= keep.last && bytes as u64 <= keep.bytes {
                break;
            }
            if !is_waited_for(at, oldest) {
                (jobs, bytes) = (jobs - 1, bytes - oldest.bytes());
                over.push(id);
            }
        }
        over.into_iter().for_each(|id| self.drop_ended(id, now));
    }

    /// Remembers an id whose job has ended.
    pub(super) fn remember(&mut self, id: JobId, now: Millis) {
        let until = now.plus(self.keep_dead);
        self.ended.insert(id, Ended { until, at: now, job: None });
    }

    /// Removes the entry of a job that has ended. Its id stays if its caller chose it and its time is not over.
    pub(super) fn drop_ended(&mut self, id: JobId, now: Millis) {
        let Some(ended) = self.ended.remove(&id) else { return };
        if let Some(kept) = &ended.job {
            self.dead_is_gone(kept, now);
        }
        let until = ended.at.plus(self.keep_dead);
        if ended.job.is_some_and(|kept| kept.record.callers_id) && until >= now {
            self.ended.insert(id, Ended { until, at: ended.at, job: None });
        }
    }

    /// Returns the jobs that ended so and are kept, each with its id and the time of its end.
    pub(super) fn kept(&self, ending: Ending) -> impl Iterator<Item = (JobId, Millis, &KeptJob)> {
        let kept = |(id, ended): (&JobId, &'_ Ended)| (*id, ended.at);
        self.ended.iter().filter_map(move |(id, ended)| {
            let job = ended.job.as_ref().filter(|job| job.ending == ending)?;
            let (id, at) = kept((id, ended));
            Some((id, at, job))
        })
    }

    pub(super) fn cancel(&mut self, id: JobId, now: Millis) -> Cancel {
        if !self.alive.contains_key(&id) {
            return Cancel::Gone;
        }
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.asked = true;
            return Cancel::Running;
        }
        self.cancelled(id, now);
        Cancel::Cancelled
    }

    pub(super) fn pending_holder(&self, key: &str) -> Option<JobId> {
        self.keys.get(key).copied().filter(|id| !self.claims.contains_key(id))
    }

    pub(super) fn reschedule(&mut self, id: JobId, due: Millis) -> bool {
        if self.claims.contains_key(&id) {
            return false;
        }
        let Some(record) = self.alive.get(&id).cloned() else { return false };
        self.leave(record.due, id, &record);
        self.alive.insert(id, Record { due, ..record });
        self.wait(id);
        true
    }

    pub(super) fn retry(&mut self, id: JobId, due: Millis) -> Answer {
        let dead = self.ended.get(&id).and_then(|ended| ended.job.as_ref());
        let Some(dead) = dead.filter(|dead| dead.ending == Ending::Dead) else {
            return Answer::Changed(false);
        };
        let mut record = dead.record.clone();
        if let Some(key) = &record.key
            && let Some(&by) = self.keys.get(key)
        {
            return Answer::Refused(StoreError::KeyTaken { key: key.clone(), by });
        }
        self.ended.remove(&id);
        record.extra = self.retry_member(id, record.extra);
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

    pub(super) fn finish(&mut self, finish: &Finish, now: Millis) -> Answer {
        let id = finish.id;
        if !self.claims.contains_key(&id) {
            return Answer::Done;
        }
        // A job whose cancel was requested is deleted, whatever the result of its run.
        let is_cancelled = self.claims[&id].asked && finish.end != End::Completed;
        let end = if is_cancelled { &End::Cancelled } else { &finish.end };
        if let Some(record) = self.alive.get(&id) {
            self.noted.note_run(&record.kind, Figure::of(end), finish.run);
        }
        let group = self.group_of_alive(id);
        match end {
            End::Cancelled => self.end(id, Ending::Cancelled, (finish.took, None), None, now),
            End::Completed => {
                let run = (finish.took, finish.result.clone());
                self.end(id, Ending::Completed, run, finish.keep, now);
            }
            End::Retry { due, errors } => {
                self.end_claim(id);
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
                self.end_claim(id);
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
                self.bury(id, finish.took, now);
            }
        }
        // The follow-ups join the group before this member leaves it.
        let answer = match &finish.then {
            Some(jobs) => self.insert_many(jobs, now),
            None => Answer::Done,
        };
        if let Some(left) = Left::by(end) {
            self.leave_group(group, id, left, now);
        }
        answer
    }

    pub(super) fn bury(&mut self, id: JobId, took: u64, now: Millis) {
        if let Some(record) = self.take(id) {
            let until = now.plus(self.keep_dead);
            let job = Some(KeptJob { ending: Ending::Dead, record, took, result: None });
            self.ended.insert(id, Ended { until, at: now, job });
        }
    }

    pub(super) fn get(&self, id: JobId) -> Option<JobInfo> {
        if let Some(record) = self.alive.get(&id) {
            let Some(claim) = self.claims.get(&id) else {
                return Some(record.info(id, JobState::Pending));
            };
            let progress = claim.progress.clone();
            let claimed = Some(claim.at.to_system());
            return Some(JobInfo { progress, claimed, ..record.info(id, JobState::Running) });
        }
        let ended = self.ended.get(&id)?;
        let kept = ended.job.as_ref()?;
        let at = ended.at.to_system();
        Some(JobInfo {
            died: (kept.ending == Ending::Dead).then_some(at),
            ended: Some(at),
            took: Some(Duration::from_millis(kept.took)),
            result: kept.result.clone(),
            ..kept.record.info(id, kept.ending.state())
        })
    }

    pub(super) fn page(&self, request: &PageRequest) -> Page {
        let is_asked_for = |record: &Record| {
            (request.from..=request.to).contains(&record.due)
                && request.kind.as_ref().is_none_or(|kind| **kind == *record.kind)
        };
        let mut found: Vec<(Millis, JobId)> = match request.set {
            JobSet::Alive | JobSet::Claimed => {
                let is_in_set = |id| request.set == JobSet::Alive || self.claims.contains_key(id);
                let alive = self.alive.iter().filter(|(id, _)| is_in_set(id));
                let alive = alive.map(|(id, record)| (record.due, *id, record));
                let alive = alive.filter(|(due, id, it)| request.has_due(*due, *id, &it.kind));
                alive.map(|(due, id, _)| (due, id)).collect()
            }
            JobSet::Ended(_) => {
                let endings = Ending::ALL.into_iter().filter(|ending| request.set.has(*ending));
                let kept = endings.flat_map(|ending| self.kept(ending));
                let asked_for = kept.filter(|(.., kept)| is_asked_for(&kept.record));
                asked_for.map(|(id, at, _)| (at, id)).collect()
            }
        };
        found.sort_unstable();
        if matches!(request.set, JobSet::Ended(_)) {
            found.reverse();
            found.retain(|at| request.after.is_none_or(|after| *at < after));
        }
        found.truncate(request.limit);
        let next = found.last().copied().filter(|_| found.len() == request.limit);
        let found = found.into_iter().map(|at| (at, ()));
        let Ok(page) = Page::read(found, next, |(_, id), ()| Ok::<_, Infallible>(self.get(id)));
        page
    }
}
