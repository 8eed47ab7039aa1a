//! The ends of claims: a run has ended, or its claim goes back.
//!
//! Ground rules:
//!
//! - The end of a run changes the job's row, its key, the counts, the history and the kept jobs, and inserts the
//!   run's follow-ups. All of this is one transaction.
//! - A transaction of the caller may have ended the run before ([`EndedIn`](super::ended_in::EndedIn)). Then all of
//!   this is in the file, so only the claim ends here.

use super::State;
use super::completed::Completed;
use super::rows::{JobRow, KindCounts, kind_row};
use super::tables::Tables;
use crate::store::figures::Figure;
use crate::store::{Answer, End, Finish, Left};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::Cancel;
use crate::values::time::Millis;

impl State {
    /// Ends a run whose claim is held.
    pub(super) fn finish(
        &mut self,
        tables: Tables<'_>,
        finish: &Finish,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        let id = finish.id;
        let Some(held) = self.claims.get(id).cloned() else { return Ok(Answer::Done) };
        if self.has_ended_in(tables, id)? {
            return self.end_claim_after(tables, id, now);
        }
        let place = held.place;
        let kind = kind_row(&self.kinds, place.kind)?.clone();
        let remembered = held.callers_id || self.unknown.contains(&id);
        let cancelled = self.take_cancel_request(tables, id)? && finish.end != End::Completed;
        let end = if cancelled { &End::Cancelled } else { &finish.end };
        self.noted.note_run(&place.kind, Figure::of(end), finish.run);
        // A completed job may stay in the row of its claim. Any other may become pending again, and a row that
        // still names it would count as an interruption of it.
        let is_over = matches!(end, End::Completed | End::Cancelled);
        self.end_claim(id, is_over);
        self.drop_progress(tables, id)?;
        match end {
            End::Completed if finish.wanted || finish.keep.is_some() => {
                self.keep_completed(tables, &held, finish, now)?;
            }
            End::Cancelled if finish.wanted => {
                self.end_cancelled(tables, place, finish.took, now)?;
            }
            // Nothing is kept of it, so its row is not read.
            End::Completed | End::Cancelled => {
                tables.drop_key(id, held.key.as_deref())?;
                let failed = held.failed;
                self.completed.push(Completed { place, failed, remembered, kept: None });
            }
            End::Retry { due, errors } => {
                let Some(job) = tables.job(place)? else { return Ok(Answer::Done) };
                let errors = errors.clone();
                let failures = job.failures.saturating_add(1);
                let attempts = job.attempts.saturating_add(1);
                if job.failures == 0 {
                    self.count(kind.n, KindCounts { retrying: 1, ..KindCounts::default() });
                }
                let again =
                    JobRow { due: *due, failures, interruptions: 0, attempts, errors, ..job };
                self.file_again(tables, &kind, place, &again)?;
            }
            End::Snoozed { due } => {
                let Some(job) = tables.job(place)? else { return Ok(Answer::Done) };
                let again = JobRow { due: *due, interruptions: 0, ..job };
                self.file_again(tables, &kind, place, &again)?;
            }
            End::Dead { errors } => {
                let Some(mut job) = tables.job(place)? else { return Ok(Answer::Done) };
                let failed_before = job.failures > 0;
                job.failures = job.failures.saturating_add(1);
                job.attempts = job.attempts.saturating_add(1);
                job.errors = errors.clone();
                self.die(tables, &kind, place, (job, failed_before), finish.took, now)?;
            }
        }
        let answer = match (&finish.then, finish.group) {
            // The follow-ups join the group before this member leaves it.
            (Some(jobs), Some(group)) => self.insert_members(tables, group, jobs, now)?,
            (Some(jobs), None) => self.insert_many(tables, jobs, now)?,
            (None, _) if cancelled => Answer::Cancelled(Cancel::Cancelled),
            (None, _) => Answer::Done,
        };
        if let (Some(group), Some(left)) = (finish.group, Left::by(end)) {
            self.leave_group(tables, group, id, left, now)?;
        }
        Ok(answer)
    }

    /// Writes what the ends of runs have left to be done together: completed jobs are deleted, and kept ones listed.
    pub(super) fn settle(&mut self, tables: Tables<'_>, now: Millis) -> Result<(), StoreError> {
        self.remove_completed(tables, now)?;
        self.trim(tables, now)
    }

    /// Gives a claim back. `interrupted`: a run was under way.
    pub(super) fn release(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
        interrupted: bool,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        if self.has_ended_in(tables, id)? {
            return self.end_claim_after(tables, id, now);
        }
        if let Some((place, part)) = self.end_claim(id, false) {
            self.drop_progress(tables, id)?;
            if self.take_cancel_request(tables, id)? {
                self.delete_pending(tables, place, now)?;
            } else {
                if interrupted {
                    self.noted.note(&place.kind, Figure::Interrupted);
                }
                self.note_added(place, part.as_ref());
            }
        }
        Ok(Answer::Done)
    }

    /// Says whether a transaction of the caller has ended this claimed job of this process. The transaction of this
    /// call writes, so the caller's transaction is over. If the job is in the file, that transaction was rolled back.
    pub(super) fn has_ended_in(&self, tables: Tables<'_>, id: JobId) -> Result<bool, StoreError> {
        if !self.claims.of_runner() || self.claims.get(id).is_none() || !self.ended_in.has(id) {
            return Ok(false);
        }
        let is_there = tables.find(&self.kinds, id)?.is_some();
        if is_there {
            self.ended_in.forget([id].into_iter());
        }
        Ok(!is_there)
    }

    /// Ends the claim of a job that a transaction of the caller has ended.
    fn end_claim_after(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        self.end_claim(id, true);
        self.drop_progress(tables, id)?;
        self.take_cancel_request(tables, id)?;
        if self.unknown.contains(&id) && !tables.has_ended(id)? {
            self.remember(tables, id, now)?;
        }
        Ok(Answer::EndedBefore)
    }
}
