//! Completed jobs leave the table of jobs: one statement deletes those that are neighbours, or moves them to `kept`.
//!
//! Ground rules:
//!
//! - A run that completes notes its job here, and so does a cancelled run whose job is not kept. The noted jobs are kept
//!   and deleted together, before another operation of the transaction could find them.
//! - An insert could find such a job by its key or by its id. The key is deleted at once. Before an insert with an id that
//!   the caller chose, the noted jobs are kept or deleted.
//! - Jobs are claimed in the order of the table. So most jobs that end together are neighbours in it. A statement for each
//!   job would look for the same place again and again.
//! - A statement moves or deletes several jobs only if the rows from the first to the last are theirs, and no others. So
//!   each row is compared first.
//! - A kept job is not read. SQLite copies its row and adds the time and the result of its run. One statement copies
//!   neighbours for which it adds the same values. Short runs mostly take the same number of milliseconds.

use rusqlite::{Row, params};

use super::State;
use super::kept::Listed;
use super::rows::{KindCounts, KindRow, Place, Table, id_bytes, kind_row, store_error};
use super::tables::Tables;
use crate::values::error::StoreError;
use crate::values::keep::Keep;
use crate::values::time::Millis;

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

/// A completed job that is kept, and the values that its row in `kept` gets.
#[derive(Debug)]
pub(super) struct ToKeep {
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
            tables.make_kept()?;
            let copied_together = together && jobs.len() >= FEW;
            if copied_together {
                tables.copy_to_kept(jobs, to_keep, now)?;
            }
            for job in jobs {
                let Some(its) = &job.kept else { continue };
                // A user has deleted a job that has no row.
                if copied_together || tables.copy_one_to_kept(job.place, its, now)? {
                    self.count(kind, KindCounts::of_kept(its.listed.bytes as usize));
                    self.note_kept(kind, (now, its.until), its.keep, its.listed);
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
            tables.execute(&tables.sql.delete_between, range(jobs))?;
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
    /// Copies neighbours to `kept`. Their rows there get the same values. If SQLite copies fewer rows, this is an error,
    /// so the transaction is rolled back. A trigger of a user can cause that.
    fn copy_to_kept(
        &self,
        jobs: &[Completed],
        to_keep: &ToKeep,
        now: Millis,
    ) -> Result<(), StoreError> {
        let (kind, first, first_id, last, last_id) = range(jobs);
        let ToKeep { took, result, listed, .. } = to_keep;
        let (at, callers_id) = (now.get(), listed.callers_id);
        let row = params![kind, first, first_id, last, last_id, at, took, callers_id, result];
        match self.execute(&self.sql.kept.keep_between, row)? {
            copied if copied == jobs.len() => Ok(()),
            copied => {
                let wrong = format!("{copied} of {} kept jobs could be written", jobs.len());
                Err(StoreError::Damaged(wrong))
            }
        }
    }

    /// Copies a job that is kept. Returns whether it is there.
    fn copy_one_to_kept(
        &self,
        place: Place,
        to_keep: &ToKeep,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let (kind, due, id) = place.key();
        let ToKeep { took, result, listed, .. } = to_keep;
        let keep = match place.table {
            Table::Lane => &self.sql.kept.keep_of_lane,
            Table::Job | Table::Later => &self.sql.kept.keep,
        };
        let row = params![kind, due, id, now.get(), took, listed.callers_id, result];
        Ok(self.execute(keep, row)? > 0)
    }

    /// Returns how many of these jobs are neighbours in the table of jobs, from the first on. The jobs are of one kind
    /// and lie in one table, in its order. Of few jobs, and of jobs in another table, the answer is 0.
    fn neighbours(&self, jobs: &[Completed]) -> Result<usize, StoreError> {
        if jobs.len() < FEW || jobs[0].place.table != Table::Job {
            return Ok(0);
        }
        let mut statement = self.conn.prepare_cached(&self.sql.between).map_err(store_error)?;
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

/// Says whether two jobs are kept, and their rows in `kept` get the same values.
fn are_kept_alike(a: &Completed, b: &Completed) -> bool {
    let (Some(a), Some(b)) = (&a.kept, &b.kept) else { return false };
    (a.took, a.listed.callers_id, &a.result) == (b.took, b.listed.callers_id, &b.result)
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
