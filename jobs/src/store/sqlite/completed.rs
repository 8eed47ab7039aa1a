//! Jobs that have completed leave the table of jobs.
//!
//! Ground rules:
//!
//! - A run that completes notes its job here, and so does a cancelled one that is not kept. The noted jobs are deleted
//!   together, before another operation of the transaction could find them. An insert finds a job by its key, which goes
//!   at once, or by an id that the caller chose: then the noted jobs are deleted first.
//! - Jobs are claimed in the order of the table. So most of those that end together are neighbours (`neighbours.rs`).

use super::State;
use super::neighbours::delete_in_parts;
use super::rows::{KindCounts, KindRow, Place, Table, id_bytes, kind_row};
use super::tables::Tables;
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// A job that has completed, whose row is still there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    pub(super) place: Place,
    /// It has failed before.
    pub(super) failed: bool,
    /// Its id is remembered.
    pub(super) remembered: bool,
}

impl State {
    /// Deletes the jobs that have completed since the last call.
    pub(super) fn remove_completed(
        &mut self,
        tables: Tables<'_>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut completed = core::mem::take(&mut self.completed);
        completed.sort_unstable_by_key(|job| (job.place.table, job.place.key()));
        let of = |job: &Completed| (job.place.table, job.place.kind);
        for jobs in completed.chunk_by(|a, b| of(a) == of(b)) {
            let kind = kind_row(&self.kinds, jobs[0].place.kind)?.clone();
            delete_in_parts(
                jobs,
                |jobs| tables.neighbours(jobs),
                |jobs, are_neighbours| self.remove(tables, &kind, jobs, are_neighbours, now),
            )?;
        }
        Ok(())
    }

    /// Deletes jobs of a kind that lie in one table, and counts them no longer.
    fn remove(
        &mut self,
        tables: Tables<'_>,
        kind: &KindRow,
        jobs: &[Completed],
        are_neighbours: bool,
        now: Millis,
    ) -> Result<(), StoreError> {
        if let ([first, .., last], true) = (jobs, are_neighbours) {
            tables.execute(&tables.sql.delete_between, range(first.place, last.place))?;
        }
        let mut gone = KindCounts::default();
        for job in jobs {
            if are_neighbours {
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
    /// Returns how many of these jobs are neighbours in the table of jobs, from the first on. The jobs are of one kind
    /// and lie in one table, in its order. Of jobs in another table, the answer is 0.
    fn neighbours(&self, jobs: &[Completed]) -> Result<usize, StoreError> {
        let [first, .., last] = jobs else { return Ok(0) };
        if first.place.table != Table::Job {
            return Ok(0);
        }
        // A row that cannot be read is that of another job.
        self.expected_rows(&self.sql.between, range(first.place, last.place), |n, row| {
            jobs.get(n).is_some_and(|job| {
                row.get(0).is_ok_and(|due: i64| due == job.place.due.get())
                    && row.get(1).is_ok_and(|id: [u8; 16]| id == id_bytes(job.place.id))
            })
        })
    }
}

fn range(first: Place, last: Place) -> (i64, i64, [u8; 16], i64, [u8; 16]) {
    let ((kind, due, id), (_, last_due, last_id)) = (first.key(), last.key());
    (kind, due, id, last_due, last_id)
}
