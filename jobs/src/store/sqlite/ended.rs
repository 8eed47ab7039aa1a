//! Jobs that have ended: which are kept, for how long, and how they are removed. Ids that are remembered alone.
//!
//! Ground rules:
//!
//! - Each end, and each removal from the table `ended`, changes the counts of the kind and the groups of
//!   `dead_by_error` in the same transaction. So no question has to count rows.
//! - A job that is dead, that completed, or that was cancelled while a caller waited for its end, has one form: a row
//!   of `ended`, and a place in a list (`kept.rs`). The row of a completed job is copied (`run_ends.rs`).

use rusqlite::{Row, params};

use super::State;
use super::claim::HeldClaim;
use super::kept::{KeptList, Listed, ending_at, is_wanted};
use super::run_ends::{Completed, ToKeep};
use super::schema::{JobRow, KindCounts, Place, id_bytes, kind_row, millis_of, store_error};
use super::sql::REMEMBER;
use super::tables::{Tables, with_columns};
use crate::store::{Ending, Finish, kept_until};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::job::{Extra, group_of};
use crate::values::node::NODE_KEPT;
use crate::values::time::Millis;

/// A job that has ended and is kept: a row of `ended`.
#[derive(Debug)]
pub(super) struct EndedRow {
    pub(super) job: JobRow,
    pub(super) kind: i64,
    pub(super) ending: Ending,
    pub(super) at: Millis,
    pub(super) took: u64,
    pub(super) result: Option<Vec<u8>>,
}

impl State {
    /// Removes a cancelled job from its table. Keeps it if a caller waits for its end, or else its id if its caller
    /// chose that. `took`: the time of its run in milliseconds. Returns `false` if there is no such job.
    pub(super) fn end_cancelled(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        took: u64,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let Some(job) = tables.job(place)? else { return Ok(false) };
        tables.remove_job(kind_row(&self.kinds, place.kind)?, place, job.key.as_deref())?;
        self.cancelled(tables, place.kind, job, took, now)?;
        Ok(true)
    }

    /// Keeps a cancelled job that is in its table no longer, or its id.
    pub(super) fn cancelled(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        job: JobRow,
        took: u64,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.count(kind, -KindCounts::of_job(job.tries.failures));
        let extra = Extra::read(job.extra.as_deref())?;
        let wanted = extra.as_ref().is_some_and(|extra| extra.wanted);
        let (id, group) = (job.id, group_of(extra.as_deref()));
        let remembered = job.callers_id || self.unknown.contains(&job.id);
        match kept_until(None, wanted, now) {
            Some(until) => {
                let mut job = JobRow { callers_id: remembered, ..job };
                job.drop_progress();
                let ending = Ending::Cancelled;
                let row = EndedRow { job, kind, ending, at: now, took, result: None };
                self.put_ended(tables, &row, until)?;
            }
            None if remembered => self.remember(tables, job.id, now)?,
            None => {}
        }
        match group {
            Some(of) => self.leave_group(tables, of, (id, kind), Ending::Cancelled, &[], now),
            None => Ok(()),
        }
    }

    /// Ends the claim of a job that has completed or expired, and notes that the job is kept.
    pub(super) fn keep_completed(
        &mut self,
        tables: Tables<'_>,
        held: &HeldClaim,
        finish: &Finish,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(until) = kept_until(finish.keep, finish.wanted, now) else { return Ok(()) };
        tables.drop_key(finish.id, held.key.as_deref())?;
        let mut bytes = held.bytes + finish.result.as_ref().map_or(0, Vec::len);
        if held.has_progress
            && let Some(mut job) = tables.job(held.place)?
        {
            bytes -= held.bytes;
            job.drop_progress();
            bytes += job.kept_bytes();
            self.rewrite(tables, held.place, &job)?;
        }
        let listed = Listed {
            id: finish.id,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            callers_id: held.callers_id || self.unknown.contains(&finish.id),
            wanted: finish.wanted,
        };
        let (result, keep) = (finish.result.clone(), finish.keep);
        let took = i64::try_from(finish.took).unwrap_or(i64::MAX);
        let ending = finish.end.ending().unwrap_or(Ending::Completed);
        let kept = Some(Box::new(ToKeep { ending, took, result, listed, until, keep }));
        let (place, failed) = (held.place, held.failed);
        self.completed.push(Completed { place, failed, remembered: false, kept });
        Ok(())
    }

    pub(super) fn die(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        (job, failed_before): (JobRow, bool),
        took: u64,
        now: Millis,
    ) -> Result<(), StoreError> {
        let kind = place.kind;
        tables.remove_job(kind_row(&self.kinds, kind)?, place, job.key.as_deref())?;
        self.count(kind, -KindCounts::of_job(u32::from(failed_before)));
        let until = now.plus(self.keep_dead);
        let ending = Ending::Dead;
        let callers_id = job.callers_id || self.unknown.contains(&job.id);
        let job = JobRow { callers_id, ..job };
        let row = EndedRow { job, kind, ending, at: now, took, result: None };
        self.put_ended(tables, &row, until)?;
        tables.execute(
            "INSERT INTO {p}dead_by_error VALUES (?1, ?2, 1, ?3, ?3) ON CONFLICT DO UPDATE \
             SET jobs = jobs + 1, first = min(first, ?3), last = max(last, ?3)",
            params![kind, row.job.tries.errors.first_line(), now.get()],
        )?;
        Ok(())
    }

    /// Writes a job that has ended and was read before, and notes that it is kept until then.
    fn put_ended(
        &mut self,
        tables: Tables<'_>,
        row: &EndedRow,
        until: Millis,
    ) -> Result<(), StoreError> {
        let took = i64::try_from(row.took).unwrap_or(i64::MAX);
        let (ending, at) = (row.ending as i64, row.at.get());
        with_columns(row.kind, &row.job, &row.job.payload, |columns| {
            let columns = [columns, params![ending, at, took, row.result]].concat();
            tables.execute(
                "INSERT INTO {p}ended VALUES (?13, ?14, ?15, ?16, \
                 ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                &*columns,
            )
        })?;
        self.note_kept((row.kind, row.ending), (row.at, until), None, row.listed());
        Ok(())
    }

    /// Remembers an id whose job has ended.
    pub(super) fn remember(
        &self,
        tables: Tables<'_>,
        id: JobId,
        ended: Millis,
    ) -> Result<(), StoreError> {
        let until = ended.plus(self.keep_dead);
        tables.execute(REMEMBER, params![id_bytes(id), until.get()]).map(drop)
    }

    /// Removes the entry of a job that has ended, and everything that counts it.
    pub(super) fn take_ended(
        &mut self,
        tables: Tables<'_>,
        row: &EndedRow,
    ) -> Result<(), StoreError> {
        tables.drop_job((row.kind, row.ending.list(), row.at), row.job.id)?;
        match row.ending {
            Ending::Completed | Ending::Expired => drop(self.waited_for.remove(&row.kind)),
            Ending::Dead => tables.drop_death(row)?,
            Ending::Cancelled => {}
        }
        self.count(row.kind, -KindCounts::of_ended(row.ending, row.listed().bytes));
        Ok(())
    }

    /// Deletes a job that is dead or kept.
    pub(super) fn delete_ended(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let Some(row) = tables.ended(id)? else { return Ok(false) };
        self.take_ended(tables, &row)?;
        self.dead_is_gone(tables, &row, now)?;
        if row.job.callers_id {
            self.remember(tables, id, now)?;
        }
        Ok(true)
    }

    /// Removes entries whose time is over, as many as [`Pace`](super::later_jobs::Pace) allows. Returns whether more
    /// may be left.
    pub(super) fn purge(&mut self, tables: Tables<'_>, now: Millis) -> Result<bool, StoreError> {
        let (rows, begun) = self.purges.begin();
        let limit = params![now.get(), i64::try_from(rows).unwrap_or(i64::MAX)];
        let mut purged = tables.execute(
            "DELETE FROM {p}remembered WHERE id IN \
             (SELECT id FROM {p}remembered WHERE until < ?1 ORDER BY until LIMIT ?2)",
            limit,
        )?;
        for mut list in tables.lists_over(rows.saturating_sub(purged), now)? {
            let left = self.take_readable(tables, &mut list, now)?;
            if list.jobs.is_empty() {
                continue;
            }
            tables.drop_jobs(&list, &left)?;
            self.kept_are_gone(tables, &list, now)?;
            purged += list.jobs.len();
        }
        self.purges.end(purged, begun);
        let are_groups_left = self.purge_groups(tables, now)?;
        tables.execute("DELETE FROM {p}node WHERE seen < ?1", [now.minus(NODE_KEPT).get()])?;
        tables.execute(
            "DELETE FROM {p}setting WHERE name >= 'hold' AND name < 'hole' \
             AND CAST(value AS INTEGER) < ?1",
            [now.get()],
        )?;
        for scope in self.lane_table.lanes.tokens.purge(now) {
            tables.execute("DELETE FROM {p}tokens WHERE scope = ?1", [scope])?;
        }
        Ok(purged >= rows || are_groups_left)
    }

    /// Counts the dead jobs of a list as gone. A job whose row cannot be read stays in the store: it leaves the list,
    /// and is returned.
    fn take_readable(
        &mut self,
        tables: Tables<'_>,
        list: &mut KeptList,
        now: Millis,
    ) -> Result<Vec<Listed>, StoreError> {
        let mut left = Vec::new();
        if list.ending != Ending::Dead {
            return Ok(left);
        }
        for job in core::mem::take(&mut list.jobs) {
            let found = tables.ended(job.id).and_then(|row| {
                // Its group must be readable, too.
                row.map(|row| self.dead_is_gone(tables, &row, now).map(|()| row)).transpose()
            });
            let Some(row) = self.readable(format!("job {}", job.id), found)? else {
                left.push(job);
                continue;
            };
            list.jobs.push(job);
            if let Some(row) = row {
                tables.drop_death(&row)?;
            }
        }
        Ok(left)
    }
}

impl EndedRow {
    /// Reads the columns `{ended}`.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<EndedRow> {
        Ok(EndedRow {
            job: JobRow::read(row)?,
            kind: row.get(11)?,
            ending: ending_at(row, 12)?,
            at: millis_of(row, 13)?,
            took: u64::try_from(row.get::<_, i64>(14)?).unwrap_or(0),
            result: row.get(15)?,
        })
    }

    /// Returns its entry in a list.
    fn listed(&self) -> Listed {
        let bytes = self.job.kept_bytes() + self.result.as_ref().map_or(0, Vec::len);
        Listed {
            id: self.job.id,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            callers_id: self.job.callers_id,
            wanted: is_wanted(self.job.extra.as_deref()),
        }
    }
}

impl Tables<'_> {
    /// Says whether the job with this id has ended, and is kept or its id remembered.
    pub(super) fn has_ended(&self, id: JobId) -> Result<bool, StoreError> {
        self.has(
            "SELECT 1 FROM {p}remembered WHERE id = ?1 UNION ALL \
             SELECT 1 FROM {p}ended WHERE id = ?1",
            [id_bytes(id)],
        )
    }

    /// Returns the entry of a job that has ended and is kept.
    pub(super) fn ended(&self, id: JobId) -> Result<Option<EndedRow>, StoreError> {
        self.one("SELECT {ended} FROM {p}ended WHERE id = ?1", [id_bytes(id)], EndedRow::read)
    }

    /// Takes a dead job out of its group by error.
    fn drop_death(&self, row: &EndedRow) -> Result<(), StoreError> {
        let group = params![row.kind, row.job.tries.errors.first_line()];
        let left = self.one(
            "UPDATE {p}dead_by_error SET jobs = jobs - 1 \
             WHERE kind = ?1 AND error = ?2 RETURNING jobs",
            group,
            |row| row.get(0),
        )?;
        if left.is_some_and(|left: i64| left <= 0) {
            self.execute(
                "DELETE FROM {p}dead_by_error WHERE kind = ?1 AND error = ?2 AND jobs <= 0",
                group,
            )?;
        }
        Ok(())
    }

    /// Returns the lists of kept jobs whose time is over. It stops once they have `rows` jobs.
    fn lists_over(&self, rows: usize, now: Millis) -> Result<Vec<KeptList>, StoreError> {
        let (mut lists, mut jobs) = (Vec::new(), 0);
        let mut statement = self
            .prepare("SELECT {list} FROM {p}ended_list WHERE until < ?1 ORDER BY until")
            .map_err(store_error)?;
        let mut over = statement.query([now.get()]).map_err(store_error)?;
        while jobs < rows
            && let Some(row) = over.next().map_err(store_error)?
        {
            let list = KeptList::read(row).map_err(store_error)?;
            jobs += list.jobs.len();
            lists.push(list);
        }
        Ok(lists)
    }
}
