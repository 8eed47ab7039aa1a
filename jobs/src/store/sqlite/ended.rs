//! Jobs that have ended: which are kept, for how long, and how they are removed.
//!
//! Ground rules:
//!
//! - Each end, and each removal from the tables `ended` and `kept`, changes the counts of the kind and the groups of
//!   `dead_by_error` in the same transaction. So no question has to count rows.
//! - A job that is dead, or cancelled and waited for, is in `ended`; a completed one is in `kept` (`kept.rs`).
//! - A kind has at most as many kept jobs as it asks for (`kept.rs`).

use rusqlite::{Row, params};

use super::State;
use super::claim::HeldClaim;
use super::kept::{KeptList, Listed};
use super::run_ends::{Completed, ToKeep};
use super::schema::{
    JobRow, KindCounts, KindRow, Place, id_bytes, kind_row, millis_of, out_of_range, store_error,
};
use super::sql::{DROP_ENDED, HAS_ENDED, REMEMBER};
use super::tables::{EndedRow, Tables};
use crate::store::{Ending, Finish, kept_until};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::job::{Extra, group_of};
use crate::values::node::NODE_KEPT;
use crate::values::time::Millis;

const ENDED: &str =
    "SELECT {row}, kind, at, ending, took, result FROM {p}ended WHERE id = ?1 AND ending > 0";

const KEPT_JOB: &str = "SELECT {row}, kind, at, 1, took, result FROM {p}kept WHERE id = ?1";

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
        let kind = kind_row(&self.kinds, place.kind)?.clone();
        tables.remove_job(&kind, place, job.key.as_deref())?;
        self.cancelled(tables, &kind, job, took, now)?;
        Ok(true)
    }

    /// Keeps a cancelled job that is in its table no longer, or its id.
    pub(super) fn cancelled(
        &mut self,
        tables: Tables<'_>,
        kind: &KindRow,
        job: JobRow,
        took: u64,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.count(kind.n, -KindCounts::of_job(job.failures));
        let extra = Extra::read(job.extra.as_deref())?;
        let wanted = extra.as_ref().is_some_and(|extra| extra.wanted);
        let (id, group) = (job.id, group_of(extra.as_deref()));
        let remembered = job.callers_id || self.unknown.contains(&job.id);
        match kept_until(None, wanted, now) {
            Some(until) => {
                let job = JobRow { callers_id: remembered, ..job };
                let ending = Ending::Cancelled;
                let row =
                    EndedRow { job, kind: kind.n, ending, until, at: now, took, result: None };
                self.put_ended(tables, &row)?;
            }
            None if remembered => self.remember(tables, job.id, now)?,
            None => {}
        }
        match group {
            Some(group) => self.leave_group(tables, group, id, Ending::Cancelled, now),
            None => Ok(()),
        }
    }

    /// Ends the run of a claimed job that has completed, and notes that the job is kept.
    pub(super) fn keep_completed(
        &mut self,
        tables: Tables<'_>,
        held: &HeldClaim,
        finish: &Finish,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(until) = kept_until(finish.keep, finish.wanted, now) else { return Ok(()) };
        tables.drop_key(finish.id, held.key.as_deref())?;
        let bytes = held.bytes + finish.result.as_ref().map_or(0, Vec::len);
        let listed = Listed {
            id: finish.id,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            callers_id: held.callers_id || self.unknown.contains(&finish.id),
            wanted: finish.wanted,
        };
        let (result, keep) = (finish.result.clone(), finish.keep);
        let took = i64::try_from(finish.took).unwrap_or(i64::MAX);
        let kept = Some(Box::new(ToKeep { took, result, listed, until, keep }));
        let (place, failed) = (held.place, held.failed);
        self.completed.push(Completed { place, failed, remembered: false, kept });
        Ok(())
    }

    /// Makes a job dead.
    pub(super) fn die(
        &mut self,
        tables: Tables<'_>,
        kind: &KindRow,
        place: Place,
        (job, failed_before): (JobRow, bool),
        took: u64,
        now: Millis,
    ) -> Result<(), StoreError> {
        tables.remove_job(kind, place, job.key.as_deref())?;
        self.count(kind.n, -KindCounts::of_job(u32::from(failed_before)));
        let until = now.plus(self.keep_dead);
        let ending = Ending::Dead;
        let row = EndedRow { job, kind: kind.n, ending, until, at: now, took, result: None };
        self.put_ended(tables, &row)
    }

    fn put_ended(&mut self, tables: Tables<'_>, row: &EndedRow) -> Result<(), StoreError> {
        tables.put_ended(row)?;
        if row.ending == Ending::Dead {
            let error = row.job.errors.first_line();
            tables.execute(
                "INSERT INTO {p}dead_by_error VALUES (?1, ?2, 1, ?3, ?3) ON CONFLICT DO UPDATE \
                 SET jobs = jobs + 1, first = min(first, ?3), last = max(last, ?3)",
                params![row.kind, error, row.at.get()],
            )?;
        }
        self.count(row.kind, row.counts());
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
        let row = params![id_bytes(id), until.get(), ended.get()];
        tables.execute(REMEMBER, row).map(drop)
    }

    /// Removes the entry of a job that has ended, and everything that counts it.
    pub(super) fn take_ended(
        &mut self,
        tables: Tables<'_>,
        row: &EndedRow,
    ) -> Result<(), StoreError> {
        if tables.execute(DROP_ENDED, [id_bytes(row.job.id)])? == 0 {
            tables.drop_kept_job(row.kind, row.at, row.job.id)?;
            self.waited_for.remove(&row.kind);
        }
        if row.ending == Ending::Dead {
            let group = params![row.kind, row.job.errors.first_line()];
            let left = tables.one(
                "UPDATE {p}dead_by_error SET jobs = jobs - 1 \
                 WHERE kind = ?1 AND error = ?2 RETURNING jobs",
                group,
                |row| row.get(0),
            )?;
            if left.is_some_and(|left: i64| left <= 0) {
                tables.execute(
                    "DELETE FROM {p}dead_by_error WHERE kind = ?1 AND error = ?2 AND jobs <= 0",
                    group,
                )?;
            }
        }
        self.count(row.kind, -row.counts());
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

    /// Removes an entry whose time is over, or for which there is no room. The id stays if its caller chose it and
    /// it may not be forgotten yet.
    fn drop_ended(
        &mut self,
        tables: Tables<'_>,
        row: &EndedRow,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.take_ended(tables, row)?;
        self.dead_is_gone(tables, row, now)?;
        if row.job.callers_id && row.at.plus(self.keep_dead) >= now {
            self.remember(tables, row.job.id, row.at)?;
        }
        Ok(())
    }

    /// Removes entries whose time is over, as many as [`Pace`](super::later_jobs::Pace) allows. Returns whether more
    /// may be left.
    pub(super) fn purge(&mut self, tables: Tables<'_>, now: Millis) -> Result<bool, StoreError> {
        let (rows, begun) = self.purges.begin();
        let limit = params![now.get(), i64::try_from(rows).unwrap_or(i64::MAX)];
        let over = tables.all(
            "SELECT id FROM {p}ended WHERE until < ?1 ORDER BY until LIMIT ?2",
            limit,
            |row| row.get::<_, Vec<u8>>(0),
        )?;
        for id in &over {
            match tables.one(ENDED, [id], EndedRow::read)? {
                Some(row) => self.drop_ended(tables, &row, now)?,
                None => drop(tables.execute(DROP_ENDED, [id])?),
            }
        }
        let mut purged = over.len();
        for list in self.lists_over(tables, rows.saturating_sub(purged), now)? {
            tables.drop_list(&list)?;
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

    /// Returns the lists of kept jobs whose time is over. It stops once they have `rows` jobs.
    fn lists_over(
        &self,
        tables: Tables<'_>,
        rows: usize,
        now: Millis,
    ) -> Result<Vec<KeptList>, StoreError> {
        let (mut lists, mut jobs) = (Vec::new(), 0);
        if rows == 0 || !tables.sql.has_kept.get() {
            return Ok(lists);
        }
        let statement = tables
            .prepare("SELECT kind, at, n, jobs FROM {p}kept_list WHERE until < ?1 ORDER BY until");
        let mut statement = statement.map_err(store_error)?;
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

impl EndedRow {
    /// Reads a row of a statement on `ended` or `kept`.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<EndedRow> {
        let ending: i64 = row.get(13)?;
        let ending = Ending::of_number(ending).ok_or_else(|| out_of_range(13, ending))?;
        Ok(EndedRow {
            job: JobRow::read(row)?,
            kind: row.get(11)?,
            at: millis_of(row, 12)?,
            ending,
            until: Millis::MAX,
            took: u64::try_from(row.get::<_, i64>(14)?).unwrap_or(0),
            result: row.get(15)?,
        })
    }

    /// Returns the counts of this entry.
    fn counts(&self) -> KindCounts {
        match self.ending {
            Ending::Dead => KindCounts { dead: 1, ..KindCounts::default() },
            Ending::Cancelled => KindCounts::default(),
            Ending::Completed => KindCounts::of_kept(
                self.job.kept_bytes() + self.result.as_ref().map_or(0, Vec::len),
            ),
        }
    }
}

impl Tables<'_> {
    /// Says whether the job with this id has ended, and is kept or its id remembered.
    pub(super) fn has_ended(&self, id: JobId) -> Result<bool, StoreError> {
        let id = [id_bytes(id)];
        Ok(self.has(HAS_ENDED, id)?
            || self.sql.has_kept.get() && self.has("SELECT 1 FROM {p}kept WHERE id = ?1", id)?)
    }

    /// Returns the entry of a job that is dead or kept.
    pub(super) fn ended(&self, id: JobId) -> Result<Option<EndedRow>, StoreError> {
        let found = self.one(ENDED, [id_bytes(id)], EndedRow::read)?;
        match found {
            None if self.sql.has_kept.get() => self.one(KEPT_JOB, [id_bytes(id)], EndedRow::read),
            found => Ok(found),
        }
    }

    fn put_ended(&self, row: &EndedRow) -> Result<(), StoreError> {
        let EndedRow { job, kind, ending, until, at, took, result } = row;
        let errors = Some(job.errors.as_text()).filter(|text| !text.is_empty());
        self.execute(
            "INSERT INTO {p}ended (id, ending, until, at, kind, due, took, failures, \
             interruptions, attempts, callers_id, part, key, errors, extra, result, payload) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
             ?17)",
            params![
                id_bytes(job.id),
                *ending as i64,
                until.get(),
                at.get(),
                kind,
                job.due.get(),
                i64::try_from(*took).unwrap_or(i64::MAX),
                job.failures,
                job.interruptions,
                job.attempts,
                job.callers_id,
                job.part,
                job.key,
                errors,
                job.extra,
                result,
                job.payload
            ],
        )
        .map(drop)
    }
}
