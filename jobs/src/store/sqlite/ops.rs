//! Each operation of the store, in an open transaction.
//!
//! Ground rules:
//!
//! - An operation that returns an error fails its whole transaction.
//! - A function that makes a job pending calls `State::note_added`, which moves the scan cursor back
//!   ([`Claims::note_added`](super::claims::Claims)). One that changes the number of jobs calls
//!   `State::count`.

use std::collections::HashSet;

use rusqlite::params;

use super::State;
use super::rows::{InsertedAt, JobRow, KindRow, Place, id_bytes, kind_row};
use super::tables::Tables;
use crate::store::{Answer, End, Finish, Inserted, JobSet, NewJob, Op, Page};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::Cancel;
use crate::values::time::Millis;

impl State {
    fn count(&mut self, kind: i64, by: i64) {
        match self.deltas.iter_mut().find(|(of, _)| *of == kind) {
            Some((_, delta)) => *delta += by,
            None => self.deltas.push((kind, by)),
        }
    }

    pub(crate) fn apply(
        &mut self,
        tables: Tables<'_>,
        op: &Op,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        Ok(match op {
            Op::Insert(job) => Answer::Inserted(self.insert(tables, job, now)?),
            Op::InsertMany(jobs) => {
                let mut taken = Vec::new();
                for (n, job) in jobs.iter().enumerate() {
                    if let Inserted::Taken(by) = self.insert(tables, job, now)? {
                        taken.push((n, by));
                    }
                }
                Answer::InsertedMany(taken)
            }
            Op::Cancel(id) => Answer::Cancelled(self.cancel(tables, *id, now)?),
            Op::CancelKey(key) => {
                let place = self.pending_holder(tables, key)?;
                if let Some(place) = place {
                    self.delete_pending(tables, place, now)?;
                }
                Answer::Changed(place.is_some())
            }
            Op::Reschedule(id, due) => Answer::Changed(match tables.find(&self.kinds, *id)? {
                Some(place) if !self.claims.is_claimed(tables, *id)? => {
                    self.reschedule(tables, place, *due)?
                }
                _ => false,
            }),
            Op::RescheduleKey(key, due) => {
                Answer::Changed(match self.pending_holder(tables, key)? {
                    Some(place) => self.reschedule(tables, place, *due)?,
                    None => false,
                })
            }
            Op::Retry(id, due) => self.retry(tables, *id, *due)?,
            Op::Delete(id) => Answer::Changed(self.delete_dead(tables, *id, now)?),
            Op::Each(ops) => {
                let answers = ops.iter().map(|op| self.apply(tables, op, now));
                Answer::Each(answers.collect::<Result<_, StoreError>>()?)
            }
            Op::PutSchedule(new) => Answer::Changed(self.put_schedule(tables, new)?),
            Op::DropSchedule(name) => {
                Answer::Changed(tables.execute(&tables.sql.drop_schedule, [name])? > 0)
            }
            Op::Occur { name, expected, jobs, next } => {
                Answer::Changed(self.occur(tables, name, *expected, jobs, *next, now)?)
            }
            Op::Finish(finish) => self.finish(tables, finish, now)?,
            Op::Release(id, _) => {
                if let Some(place) = self.claims.end(*id, false) {
                    if self.take_cancel_request(tables, *id)? {
                        self.delete_pending(tables, place, now)?;
                    } else {
                        self.note_added(place);
                    }
                }
                Answer::Done
            }
            Op::Extend(_) => Answer::ClaimsLost(Vec::new()),
            Op::Purge(before) => Answer::Changed(self.purge(tables, *before)?),
            Op::Flush => {
                tables.execute(&tables.sql.flush, [])?;
                Answer::Done
            }
            Op::Get(id) => Answer::Info(self.get(tables, *id)?),
            Op::GetKey(key) => Answer::Info(match tables.key_holder(key)? {
                Some(id) => self.get(tables, id)?,
                None => None,
            }),
            Op::Page(request) => Answer::Page(match request.set {
                JobSet::Alive => self.alive_page(tables, request)?,
                JobSet::Dead => self.dead_page(tables, request)?,
            }),
            Op::Claimed => {
                let mut ids: Vec<JobId> = self.claims.all(tables)?.into_iter().collect();
                ids.sort_unstable();
                let mut page = Page::default();
                for id in ids {
                    page.jobs.extend(self.get(tables, id)?);
                }
                Answer::Page(page)
            }
            Op::Counts => Answer::Counts(self.counts(tables)?),
            Op::Kinds => {
                let jobs = |kind: &KindRow| {
                    let delta = self.deltas.iter().find(|(of, _)| *of == kind.n);
                    kind.jobs + delta.map_or(0, |(_, by)| *by)
                };
                let count = |kind: &KindRow| u64::try_from(jobs(kind)).unwrap_or(0);
                let kinds = self.kinds.iter().map(|kind| (kind.name.clone(), count(kind)));
                Answer::Kinds(kinds.collect())
            }
            Op::Schedules => Answer::Schedules(self.schedules(tables)?),
        })
    }

    pub(super) fn kind(&mut self, tables: Tables<'_>, name: &str) -> Result<KindRow, StoreError> {
        if let Some(row) = self.kinds.iter().find(|row| row.name == name) {
            return Ok(row.clone());
        }
        tables.add_kind(name)?;
        self.kinds = tables.kinds()?;
        let row = self.kinds.iter().find(|row| row.name == name);
        row.cloned().ok_or_else(|| StoreError::Damaged(format!("no number for kind {name:?}")))
    }

    pub(super) fn insert(
        &mut self,
        tables: Tables<'_>,
        new: &NewJob,
        now: Millis,
    ) -> Result<Inserted, StoreError> {
        let kind = self.kind(tables, &new.kind)?;
        let State { claims, hours, kinds, .. } = self;
        let is_claimed = |id| claims.is_claimed(tables, id);
        let is_later = |kind, due| hours.is_later(tables, kind, due);
        let InsertedAt { inserted, place, replaced } =
            tables.insert(kinds, &kind, new, is_claimed, is_later, now)?;
        if let Some(place) = replaced {
            self.count(place.kind, -1);
        }
        if let Some(place) = place {
            self.count(place.kind, 1);
            self.note_added(place);
            if new.callers_id {
                // A cancel of an earlier job with this id must not cancel this job.
                self.take_cancel_request(tables, new.id)?;
            }
        }
        Ok(inserted)
    }

    /// Returns the ids in `cancel_requested`.
    pub(super) fn cancel_requested(
        &mut self,
        tables: Tables<'_>,
    ) -> Result<&HashSet<JobId>, StoreError> {
        let cancel_requested = match self.cancel_requested.take() {
            Some(cancel_requested) => cancel_requested,
            None => tables.ids(&tables.sql.cancel_requests)?.into_iter().collect(),
        };
        Ok(self.cancel_requested.insert(cancel_requested))
    }

    /// Says whether a cancel of this job was requested, by this process or another, and drops the request.
    pub(super) fn take_cancel_request(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
    ) -> Result<bool, StoreError> {
        if self.cancel_requested.is_none() {
            self.cancel_requested(tables)?;
        }
        // The set is almost always empty: then the id is not hashed.
        let cancel_requested = self.cancel_requested.as_mut().is_some_and(|cancel_requested| {
            !cancel_requested.is_empty() && cancel_requested.remove(&id)
        });
        if cancel_requested {
            tables.execute(&tables.sql.drop_cancel_request, [id_bytes(id)])?;
        }
        Ok(cancel_requested)
    }

    fn cancel(&mut self, tables: Tables<'_>, id: JobId, now: Millis) -> Result<Cancel, StoreError> {
        let Some(place) = tables.find(&self.kinds, id)? else { return Ok(Cancel::Gone) };
        if self.claims.is_claimed(tables, id)? {
            tables.execute(&tables.sql.put_cancel_request, [id_bytes(id)])?;
            if let Some(cancel_requested) = &mut self.cancel_requested {
                cancel_requested.insert(id);
            }
            return Ok(Cancel::Running);
        }
        self.delete_pending(tables, place, now)?;
        Ok(Cancel::Cancelled)
    }

    /// Returns the job that has the key, or `None` if that job is claimed.
    fn pending_holder(&self, tables: Tables<'_>, key: &str) -> Result<Option<Place>, StoreError> {
        let Some(id) = tables.key_holder(key)? else { return Ok(None) };
        if self.claims.is_claimed(tables, id)? {
            return Ok(None);
        }
        tables.find(&self.kinds, id)
    }

    /// Deletes a job that is not claimed.
    pub(super) fn delete_pending(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(job) = tables.job(place)? else { return Ok(()) };
        let remembered = job.callers_id || self.unknown.contains(&job.id);
        let kind = kind_row(&self.kinds, place.kind)?;
        tables.end_job(kind, place, job.key.as_deref(), remembered, now)?;
        self.take_cancel_request(tables, job.id)?;
        self.count(place.kind, -1);
        Ok(())
    }

    /// Gives a job that is not claimed another due time.
    fn reschedule(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        due: Millis,
    ) -> Result<bool, StoreError> {
        let Some(job) = tables.job(place)? else { return Ok(false) };
        let kind = kind_row(&self.kinds, place.kind)?;
        tables.delete_job(kind, place)?;
        let later = self.hours.is_later(tables, place.kind, due)?;
        let place = tables.put_job(kind, &JobRow { due, ..job }, later)?;
        self.note_added(place);
        Ok(true)
    }

    fn retry(&mut self, tables: Tables<'_>, id: JobId, due: Millis) -> Result<Answer, StoreError> {
        let Some((job, n, _)) = tables.dead(id)? else { return Ok(Answer::Changed(false)) };
        if let Some(key) = &job.key {
            if let Some(by) = tables.key_holder(key)? {
                return Ok(Answer::Refused(StoreError::KeyTaken { key: key.clone(), by }));
            }
            tables.put_key(key, id)?;
        }
        tables.execute(&tables.sql.drop_dead, [id_bytes(id)])?;
        self.take_cancel_request(tables, id)?;
        let kind = kind_row(&self.kinds, n)?;
        let later = self.hours.is_later(tables, n, due)?;
        let alive = JobRow { due, failures: 0, interruptions: 0, ..job };
        let place = tables.put_job(kind, &alive, later)?;
        self.count(n, 1);
        self.note_added(place);
        Ok(Answer::Changed(true))
    }

    fn delete_dead(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let Some((job, ..)) = tables.dead(id)? else { return Ok(false) };
        tables.execute(&tables.sql.drop_dead, [id_bytes(id)])?;
        if job.callers_id {
            tables.remember(id, now)?;
        }
        Ok(true)
    }

    fn finish(
        &mut self,
        tables: Tables<'_>,
        finish: &Finish,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        let id = finish.id;
        let Some(held) = self.claims.get(id).cloned() else { return Ok(Answer::Done) };
        let place = held.place;
        let kind = kind_row(&self.kinds, place.kind)?.clone();
        let remembered = held.callers_id || self.unknown.contains(&id);
        let cancelled = self.take_cancel_request(tables, id)? && finish.end != End::Completed;
        let end = if cancelled { &End::Completed } else { &finish.end };
        // A completed job may stay in the row of its claim. Any other may become pending again, and a row that
        // still names it would count as an interruption of it.
        self.claims.end(id, *end == End::Completed);
        match end {
            End::Completed => {
                let key = held.key.as_deref();
                if tables.end_job(&kind, place, key, remembered, now)? {
                    self.count(place.kind, -1);
                }
            }
            End::Retry { due, error } => {
                let Some(job) = tables.job(place)? else { return Ok(Answer::Done) };
                let error = Some(error.clone());
                let failures = job.failures.saturating_add(1);
                let attempts = job.attempts.saturating_add(1);
                let again =
                    JobRow { due: *due, failures, interruptions: 0, attempts, error, ..job };
                self.file_again(tables, &kind, place, &again)?;
            }
            End::Snoozed { due } => {
                let Some(job) = tables.job(place)? else { return Ok(Answer::Done) };
                let again = JobRow { due: *due, interruptions: 0, ..job };
                self.file_again(tables, &kind, place, &again)?;
            }
            End::Dead { error } => {
                let Some(mut job) = tables.job(place)? else { return Ok(Answer::Done) };
                job.failures = job.failures.saturating_add(1);
                job.attempts = job.attempts.saturating_add(1);
                job.error = Some(error.clone());
                self.die(tables, &kind, place, &job, now)?;
            }
        }
        Ok(if cancelled { Answer::Cancelled(Cancel::Cancelled) } else { Answer::Done })
    }

    /// Moves a job whose claim has ended to its next due time.
    fn file_again(
        &mut self,
        tables: Tables<'_>,
        kind: &KindRow,
        place: Place,
        again: &JobRow,
    ) -> Result<(), StoreError> {
        tables.delete_job(kind, place)?;
        let later = self.hours.is_later(tables, kind.n, again.due)?;
        let place = tables.put_job(kind, again, later)?;
        self.note_added(place);
        Ok(())
    }

    pub(super) fn die(
        &mut self,
        tables: Tables<'_>,
        kind: &KindRow,
        place: Place,
        job: &JobRow,
        now: Millis,
    ) -> Result<(), StoreError> {
        tables.end_job(kind, place, job.key.as_deref(), false, now)?;
        tables.put_dead(place.kind, job, now)?;
        self.count(place.kind, -1);
        Ok(())
    }

    /// Notes that an unclaimed job is at this place now.
    fn note_added(&mut self, place: Place) {
        if place.later {
            self.hours.note_added(place.due);
        } else {
            self.claims.note_added(place);
        }
    }
    /// Deletes old dead jobs and old remembered ids, as many as [`Pace`](super::pace::Pace) allows. Returns
    /// whether more may be left.
    fn purge(&mut self, tables: Tables<'_>, before: Millis) -> Result<bool, StoreError> {
        let rows = self.purges.rows();
        let limit = params![before.get(), i64::try_from(rows).unwrap_or(i64::MAX)];
        let dead = tables.execute(&tables.sql.purge_dead, limit)?;
        let done = tables.execute(&tables.sql.purge_done, limit)?;
        self.purges.takes(dead.max(done));
        Ok(dead.max(done) >= rows)
    }
}
