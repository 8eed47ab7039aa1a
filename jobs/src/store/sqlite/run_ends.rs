//! The ends of claims: a run has ended, its claim goes back, or its process has died. And how completed jobs leave the
//! table of jobs.
//!
//! Ground rules:
//!
//! - The end of a run changes the job's row, its key, the counts, the history and the kept jobs, and inserts the
//!   run's follow-ups. All of this is one transaction.
//! - A transaction of the caller may have ended the run before ([`EndedIn`](super::callers_transaction::EndedIn)). Then
//!   all of this is in the file, so only the claim ends here.
//! - Jobs that are claimed when a process starts to run the jobs of the file were interrupted.
//! - A run that completes notes its job here. So do a cancelled run whose job is not kept, and a job that has expired.
//!   The noted jobs are deleted or moved to `ended` together, before another operation of the transaction could find
//!   them.
//! - An insert could find such a job by its key or by its id. The key is deleted at once. Before an insert with an id
//!   that the caller chose, the noted jobs are kept or deleted.
//! - Jobs are claimed in the order of the table. So most jobs that end together are neighbours in it. A statement for
//!   each job would look for the same place again and again. One statement deletes or moves those that are
//!   neighbours.
//! - A statement moves or deletes several jobs only if the rows from the first to the last are theirs, and no others.
//!   So each row is compared first.
//! - A kept job is not read. SQLite copies its row and adds the time and the result of its run. One statement copies
//!   neighbours for which it adds the same values. Short runs mostly take the same number of milliseconds.

use std::sync::Arc;

use foldhash::HashSet;
use rusqlite::{Row, params};

use super::State;
use super::groups::group_in;
use super::kept::Listed;
use super::schema::{JobRow, KindCounts, KindRow, Place, Table, id_bytes, kind_row, store_error};
use super::sql::DROP_NODES;
use super::tables::Tables;
use crate::store::history::Figure;
use crate::store::{Answer, End, Ending, Finish};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::Cancel;
use crate::values::setting::Keep;
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
        let Some(held) = self.claims.held.get(&id).cloned() else { return Ok(Answer::Done) };
        if self.has_ended_in(tables, id)? {
            return self.end_claim_after(tables, id, now);
        }
        let place = held.place;
        let remembered = held.callers_id || self.unknown.contains(&id);
        let cancelled = self.cancel_requested.take(tables, id)? && finish.end != End::Completed;
        let end = if cancelled { &End::Cancelled } else { &finish.end };
        self.noted.note_run(&place.kind, Figure::of(end.outcome()), finish.run);
        // A completed job may stay in the row of its claim. Any other may become pending again, and a row that
        // still names it would count as an interruption of it.
        let is_over = matches!(end, End::Completed | End::Cancelled | End::Expired);
        self.end_claim(id, is_over);
        let progress = match is_over {
            false => self.take_progress(tables, id)?,
            // No later run reads it.
            true => self.progress.take(tables, id).map(|_| None)?,
        };
        match end {
            End::Completed | End::Expired if finish.wanted || finish.keep.is_some() => {
                self.keep_completed(tables, &held, finish, now)?;
            }
            End::Cancelled if finish.wanted => {
                self.end_cancelled(tables, place, finish.took, now)?;
            }
            // Nothing is kept of it, so its row is not read.
            End::Completed | End::Cancelled | End::Expired => {
                tables.drop_key(id, held.key.as_deref())?;
                let failed = held.failed;
                self.completed.push(Completed { place, failed, remembered, kept: None });
            }
            End::Retry { due, .. } | End::Snoozed { due } => {
                let Some(mut job) = tables.job(place)? else { return Ok(Answer::Done) };
                if matches!(end, End::Retry { .. }) && job.tries.failures == 0 {
                    self.count(place.kind, KindCounts { retrying: 1, ..KindCounts::default() });
                }
                job.tries.end(end);
                job.set_progress(progress);
                self.file_again(tables, place, &JobRow { due: *due, ..job })?;
            }
            End::Dead { .. } => {
                let Some(mut job) = tables.job(place)? else { return Ok(Answer::Done) };
                let failed_before = job.tries.failures > 0;
                job.tries.end(end);
                job.set_progress(progress);
                self.die(tables, place, (job, failed_before), finish.took, now)?;
            }
        }
        let answer = match (&finish.then, finish.group) {
            // The follow-ups join the group before this member leaves it.
            (Some(jobs), group) => self.insert_many(tables, jobs, group, now)?,
            (None, _) if cancelled => Answer::Cancelled(Cancel::Cancelled),
            (None, _) => Answer::Done,
        };
        if let (Some(group), Some(ending)) = (finish.group, end.ending()) {
            let rest = end.result_or_errors(&finish.result);
            self.leave_group(tables, group, (id, place.kind), ending, rest, now)?;
        }
        Ok(answer)
    }

    /// Writes what the ends of runs have left to be done together: completed jobs are deleted, and kept ones listed.
    pub(super) fn settle(&mut self, tables: Tables<'_>, now: Millis) -> Result<(), StoreError> {
        self.remove_completed(tables, now)?;
        self.trim(tables, now)
    }

    /// Writes what a transaction has left to its end: see [`State::settle`], and the history and the counts.
    pub(super) fn write_rest(&mut self, tables: Tables<'_>, now: Millis) -> Result<(), StoreError> {
        self.settle(tables, now)?;
        self.write_history(tables, now)?;
        self.write_counts(tables)
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
            let progress = self.take_progress(tables, id)?;
            if self.cancel_requested.take(tables, id)? {
                self.delete_pending(tables, place, now)?;
            } else {
                if progress.is_some()
                    && let Some(mut job) = tables.job(place)?
                {
                    job.set_progress(progress);
                    self.rewrite(tables, place, &job)?;
                }
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
        if !self.claims.runner || !self.claims.held.contains_key(&id) || !self.ended_in.has(id) {
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
        if let Some((place, _)) = self.end_claim(id, true) {
            // That transaction may have kept the job for a caller.
            self.waited_for.remove(&place.kind);
        }
        self.progress.take(tables, id)?;
        self.cancel_requested.take(tables, id)?;
        if self.unknown.contains(&id) && !tables.has_ended(id)? {
            self.remember(tables, id, now)?;
        }
        Ok(Answer::EndedBefore)
    }
}

/// To compare fewer rows costs more than it saves.
const FEW: usize = 4;

/// After a comparison that found fewer than [`FEW`] neighbours, this many jobs are deleted one by one.
const ONE_BY_ONE: usize = 8;

/// A job that has completed, whose row is still there.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) place: Place,
    /// It has failed before.
    pub(super) failed: bool,
    /// Its id is remembered.
    pub(super) remembered: bool,
    pub(super) kept: Option<Box<ToKeep>>,
}

/// A completed or expired job that is kept, and the values that its row in `ended` gets.
#[derive(Debug)]
pub(super) struct ToKeep {
    pub(super) ending: Ending,
    /// How long its run took, in milliseconds.
    pub(super) took: i64,
    pub(super) result: Option<Vec<u8>>,
    pub(super) listed: Listed,
    pub(super) until: Millis,
    /// The bound of its kind. It is `None` if the kind keeps no jobs: then a caller waits for the end of this one.
    pub(super) keep: Option<Keep>,
}

impl State {
    /// Deletes the jobs that have completed since the last call, and copies those that are kept.
    pub(super) fn remove_completed(
        &mut self,
        tables: Tables<'_>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut completed = core::mem::take(&mut self.completed);
        completed.sort_unstable_by_key(|job| (job.place.table, job.place.key()));
        let of = |job: &Completed| (job.place.table, job.place.kind);
        for mut jobs in completed.chunk_by(|a, b| of(a) == of(b)) {
            let kind = kind_row(&self.kinds, jobs[0].place.kind)?.clone();
            while !jobs.is_empty() {
                let neighbours = tables.neighbours(jobs)?;
                let together = neighbours >= FEW;
                let many = if together { neighbours } else { ONE_BY_ONE.min(jobs.len()) };
                let (first, rest) = jobs.split_at(many);
                self.keep(tables, kind.n, first, together, now)?;
                self.remove(tables, &kind, first, together, now)?;
                jobs = rest;
            }
        }
        Ok(())
    }

    /// Copies the rows of those jobs that are kept. The jobs lie in one table. `together`: they are neighbours.
    fn keep(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        jobs: &[Completed],
        together: bool,
        now: Millis,
    ) -> Result<(), StoreError> {
        for jobs in jobs.chunk_by(are_kept_alike) {
            let Some(to_keep) = &jobs[0].kept else { continue };
            let together = together && jobs.len() >= FEW;
            for part in jobs.chunks(if together { jobs.len() } else { 1 }) {
                let copied = tables.copy_kept(part, to_keep, now)?;
                // A user has deleted a job that has no row.
                if copied == 0 && !together {
                    continue;
                }
                if copied != part.len() {
                    let wrong = format!("{copied} of {} kept jobs could be written", part.len());
                    return Err(StoreError::Damaged(wrong));
                }
                for its in part.iter().filter_map(|job| job.kept.as_ref()) {
                    let of = (kind, Ending::Completed);
                    self.note_kept(of, (now, its.until), its.keep, its.listed);
                }
            }
        }
        Ok(())
    }

    /// Deletes jobs of a kind that lie in one table, and counts them no longer. `together`: they are neighbours.
    fn remove(
        &mut self,
        tables: Tables<'_>,
        kind: &KindRow,
        jobs: &[Completed],
        together: bool,
        now: Millis,
    ) -> Result<(), StoreError> {
        if together {
            tables.execute("DELETE FROM {p}job WHERE {between}", range(jobs))?;
        }
        let mut gone = KindCounts::default();
        for job in jobs {
            if together {
                tables.drop_moved(kind, job.place)?;
            } else if !tables.delete_job(kind, job.place)? {
                continue;
            }
            gone.add(KindCounts::of_job(u32::from(job.failed)));
            if job.remembered {
                self.remember(tables, job.place.id, now)?;
            }
        }
        self.count(kind.n, -gone);
        Ok(())
    }
}

impl Tables<'_> {
    /// Copies a job, or neighbours, to `ended`. Their rows there get the same values. Returns how many were copied. A
    /// trigger of a user can cause that they are fewer. `OR FAIL`, because SQLite keeps a journal for each `INSERT ..
    /// SELECT` that it may have to undo alone: if some rows are missing, the whole transaction is rolled back.
    fn copy_kept(
        &self,
        jobs: &[Completed],
        to_keep: &ToKeep,
        now: Millis,
    ) -> Result<usize, StoreError> {
        let (kind, first, first_id, last, last_id) = range(jobs);
        let ToKeep { ending, took, result, listed, .. } = to_keep;
        let (ending, at, callers_id) = (*ending as i64, now.get(), listed.callers_id);
        let copy = "INSERT OR FAIL INTO {p}ended SELECT ?10, ?6, ?7, ?9, kind, due, id, failures, \
             interruptions, attempts, ?8, part, key, errors, extra, payload FROM {by_due} \
             WHERE {between}";
        self.execute(
            (jobs[0].place.table, copy),
            params![kind, first, first_id, last, last_id, at, took, callers_id, result, ending],
        )
    }

    /// Returns how many of these jobs are neighbours in the table of jobs, from the first on. The jobs are of one kind
    /// and lie in one table, in its order. Of few jobs, and of jobs in another table, the answer is 0.
    fn neighbours(&self, jobs: &[Completed]) -> Result<usize, StoreError> {
        if jobs.len() < FEW || jobs[0].place.table != Table::Job {
            return Ok(0);
        }
        let mut statement = self
            .prepare("SELECT due, id FROM {p}job WHERE {between} ORDER BY due, id")
            .map_err(store_error)?;
        let mut rows = statement.query(range(jobs)).map_err(store_error)?;
        let mut neighbours = 0;
        while let Some(row) = rows.next().map_err(store_error)?
            && jobs.get(neighbours).is_some_and(|job| is_at(row, job.place))
        {
            neighbours += 1;
        }
        Ok(neighbours)
    }
}

/// Says whether two jobs are kept, and their rows in `ended` get the same values.
fn are_kept_alike(a: &Completed, b: &Completed) -> bool {
    let (Some(a), Some(b)) = (&a.kept, &b.kept) else { return false };
    let columns = |of: &'_ ToKeep| (of.ending, of.took, of.listed.callers_id);
    columns(a) == columns(b) && a.result == b.result
}

/// Says whether a row is that of the job at a place. A row that cannot be read is that of another job.
fn is_at(row: &Row<'_>, place: Place) -> bool {
    row.get(0).is_ok_and(|due: i64| due == place.due.get())
        && row.get(1).is_ok_and(|id: [u8; 16]| id == id_bytes(place.id))
}

/// Returns the kind of these jobs, and the places of the first and the last.
fn range(jobs: &[Completed]) -> (i64, i64, [u8; 16], i64, [u8; 16]) {
    let [first, last] = [&jobs[0], &jobs[jobs.len() - 1]].map(|job| job.place.key());
    (first.0, first.1, first.2, last.1, last.2)
}

impl State {
    /// Makes this process the one that runs the jobs of the file, of these kinds. Jobs that are claimed in
    /// the file were interrupted. Returns how many.
    pub(crate) fn start_runner(
        &mut self,
        tables: Tables<'_>,
        kinds: &[Arc<str>],
        now: Millis,
    ) -> Result<u64, StoreError> {
        for kind in kinds {
            tables.add_kind(kind)?;
        }
        self.kinds = tables.kinds()?;
        tables.execute("UPDATE {p}meta SET value = value + 1 WHERE name = 'starts'", [])?;
        // A file has one node: the process before is none any more.
        tables.execute(DROP_NODES, [])?;
        self.claims.starts = tables.starts()?;
        let cancel_requested: HashSet<JobId> = self.cancel_requested.read(tables)?.clone();
        // Backwards from the latest claim: of two suspects, the one claimed later is the more likely cause, so
        // the earlier one does not die.
        let (mut suspect_after, mut interrupted) = (false, 0);
        for (id, _) in tables.claims()?.into_iter().rev() {
            let Some(place) = tables.find(&self.kinds, id)? else { continue };
            let cancel_requested = cancel_requested.contains(&id);
            interrupted += 1;
            suspect_after |=
                self.interrupted(tables, place, cancel_requested, suspect_after, now)?;
        }
        tables.execute("DELETE FROM {p}claim", [])?;
        tables.execute("DELETE FROM {p}cancel_requested", [])?;
        self.cancel_requested.forget();
        tables.execute("DELETE FROM {p}progress", [])?;
        self.progress.forget();
        self.claims.handle(kinds, &self.kinds);
        self.lane_table.forget(&self.claims);
        self.write_rest(tables, now)?;
        Ok(interrupted)
    }

    /// Counts an interruption of a job that a process had claimed when it ended. `suspect_after`: a suspect was
    /// claimed after it, so this job does not die. Returns whether this job was a suspect itself.
    fn interrupted(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        cancel_requested: bool,
        suspect_after: bool,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let Some(mut job) = tables.job(place)? else { return Ok(false) };
        let was_suspect = job.tries.interruptions > 0;
        if cancel_requested {
            self.delete_pending(tables, place, now)?;
            return Ok(was_suspect);
        }
        job.set_progress(self.take_progress(tables, place.id)?);
        let dies = job.tries.interrupt(suspect_after, now);
        self.noted.note(&place.kind, if dies { Figure::Dead } else { Figure::Interrupted });
        if !dies {
            self.rewrite(tables, place, &job)?;
            return Ok(was_suspect);
        }
        let (failed_before, group) = (job.tries.failures > 0, group_in(job.extra.as_deref()));
        let errors = job.tries.errors.clone();
        self.die(tables, place, (job, failed_before), 0, now)?;
        if let Some(group) = group {
            let (member, errors) = ((place.id, place.kind), errors.as_text().as_bytes());
            self.leave_group(tables, group, member, Ending::Dead, errors, now)?;
        }
        Ok(was_suspect)
    }

    /// Writes the row of a job anew, at its place.
    pub(super) fn rewrite(
        &self,
        tables: Tables<'_>,
        place: Place,
        job: &JobRow,
    ) -> Result<(), StoreError> {
        let kind = kind_row(&self.kinds, place.kind)?;
        tables.delete_job(kind, place)?;
        tables.put_job(kind, job, &job.payload, place.table).map(drop)
    }
}
