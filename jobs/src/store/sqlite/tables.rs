//! Single changes to the tables, each complete: a job with its key and its place.
//!
//! Ground rules:
//!
//! - No function here begins or ends a transaction or keeps state between calls. So the same code serves
//!   the dispatcher, another process, and a transaction of the caller.
//! - A job whose id does not lead to its place has a row in `moved`; every other job has none.
//! - A row of `key` names a job that exists and has that key.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, ToSql, params};

use super::schema::{
    InsertedAt, JobRow, KindCounts, KindRow, Place, RowNumber, Table, id_bytes, id_of, kind_row,
    millis_of, out_of_range, store_error,
};
use super::sql::{Sql, Text};
use crate::store::{IfTaken, Inserted, NewJob, Tries};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::job::{Extra, partition_of};
use crate::values::time::Millis;

/// A kind that counts more jobs than this is damaged. So counts can be added without an overflow.
const MOST_JOBS: i64 = 1 << 53;

/// Calls `put` with the values of the columns of a job: the kind, and those of `{row}`.
pub(super) fn with_columns<T>(
    kind: i64,
    job: &JobRow,
    payload: &[u8],
    put: impl FnOnce(&[&dyn ToSql]) -> T,
) -> T {
    let (due, id) = (job.due.get(), id_bytes(job.id));
    // NULL if the job has not failed.
    let errors = Some(job.tries.errors.as_text()).filter(|text| !text.is_empty());
    put(&[
        &kind,
        &due,
        &id,
        &job.tries.failures,
        &job.tries.interruptions,
        &job.tries.attempts,
        &job.callers_id,
        &job.part,
        &job.key,
        &errors,
        &job.extra,
        &payload,
    ])
}

/// The tables of one queue, as one connection sees them.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) sql: &'a Sql,
}

impl<'a> Tables<'a> {
    /// Prepares a statement, or takes it from the cache of the connection.
    pub(super) fn prepare(&self, sql: impl Into<Text>) -> rusqlite::Result<CachedStatement<'a>> {
        self.conn.prepare_cached(&self.sql.text(sql.into()))
    }

    /// Runs several statements, which make tables.
    pub(super) fn make(&self, sql: &'static str) -> Result<(), StoreError> {
        self.conn.execute_batch(&self.sql.text(sql.into())).map_err(store_error)
    }

    pub(crate) fn execute(
        &self,
        sql: impl Into<Text>,
        params: impl rusqlite::Params,
    ) -> Result<usize, StoreError> {
        self.prepare(sql).and_then(|mut sql| sql.execute(params)).map_err(store_error)
    }

    pub(crate) fn one<T>(
        &self,
        sql: impl Into<Text>,
        params: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let statement = self.prepare(sql);
        statement.and_then(|mut sql| sql.query_row(params, read).optional()).map_err(store_error)
    }

    pub(crate) fn all<T>(
        &self,
        sql: impl Into<Text>,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare(sql).map_err(store_error)?;
        let rows = statement.query_map(params, read).map_err(store_error)?;
        rows.collect::<rusqlite::Result<_>>().map_err(store_error)
    }

    pub(super) fn has(
        &self,
        sql: impl Into<Text>,
        params: impl rusqlite::Params,
    ) -> Result<bool, StoreError> {
        Ok(self.one(sql, params, |_| Ok(()))?.is_some())
    }

    /// Reads all of a table. Others find their rows by an index.
    pub(crate) fn whole<T>(
        &self,
        sql: impl Into<Text>,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.all(sql, [], read)
    }

    pub(crate) fn kinds(&self) -> Result<Vec<KindRow>, StoreError> {
        self.all(
            "SELECT n, name, jobs, retrying, dead, kept, kept_bytes FROM {p}kind ORDER BY n",
            [],
            |row| {
                let count = |column| match row.get(column)? {
                    count @ 0..=MOST_JOBS => Ok(count),
                    count => Err(out_of_range(column, count)),
                };
                let counts = KindCounts {
                    jobs: count(2)?,
                    retrying: count(3)?,
                    dead: count(4)?,
                    kept: count(5)?,
                    kept_bytes: count(6)?,
                };
                Ok(KindRow { n: row.get(0)?, name: row.get(1)?, counts })
            },
        )
    }

    pub(crate) fn add_kind(&self, name: &str) -> Result<(), StoreError> {
        self.execute(
            "INSERT OR IGNORE INTO {p}kind (name, jobs, retrying, dead, kept, kept_bytes) \
             VALUES (?1, 0, 0, 0, 0, 0)",
            [name],
        )
        .map(drop)
    }

    /// Adds to the counts of a kind, and sets the minute of its history if there is one: one statement costs less than
    /// two.
    pub(crate) fn add_counts(
        &self,
        kind: i64,
        by: KindCounts,
        minute: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let KindCounts { jobs, retrying, dead, kept, kept_bytes } = by;
        self.execute(
            "UPDATE {p}kind SET jobs = jobs + ?2, retrying = retrying + ?3, dead = dead + ?4, \
             kept = kept + ?5, kept_bytes = kept_bytes + ?6, minute = coalesce(?7, minute) \
             WHERE n = ?1",
            params![kind, jobs, retrying, dead, kept, kept_bytes, minute],
        )
        .map(drop)
    }

    pub(crate) fn find(&self, kinds: &[KindRow], id: JobId) -> Result<Option<Place>, StoreError> {
        if let Some(due) = id.due_hint() {
            for kind in kinds.iter().filter(|kind| id.may_be_of(&kind.name)) {
                if let Some(place) = self.find_at(kind.n, due, id)? {
                    return Ok(Some(place));
                }
            }
        }
        let moved =
            self.one("SELECT kind, due FROM {p}moved WHERE id = ?1", [id_bytes(id)], |row| {
                Ok((row.get(0)?, millis_of(row, 1)?))
            })?;
        match moved {
            Some((kind, due)) => self.find_at(kind, due, id),
            None => Ok(None),
        }
    }

    /// Returns the place of the job, if it has this kind and this due time.
    fn find_at(&self, kind: i64, due: Millis, id: JobId) -> Result<Option<Place>, StoreError> {
        for table in self.with_jobs() {
            let place = Place { kind, due, id, table };
            if self.has((table, "SELECT 1 FROM {table} WHERE {at}"), place.key())? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    pub(crate) fn job(&self, place: Place) -> Result<Option<JobRow>, StoreError> {
        let job = (place.table, "SELECT {row} FROM {table} WHERE {at}");
        self.one(job, place.key(), JobRow::read)
    }

    /// Writes a job to a table; and its place to `moved`, if its id does not lead there. The caller writes the key.
    pub(crate) fn put_job(
        &self,
        kind: &KindRow,
        job: &JobRow,
        payload: &[u8],
        table: Table,
    ) -> Result<Place, StoreError> {
        self.put_row_alone(kind.n, job, payload, table)?;
        if !job.id.hints_at(&kind.name, job.due) {
            let place = params![id_bytes(job.id), kind.n, job.due.get()];
            self.execute("INSERT OR REPLACE INTO {p}moved VALUES (?1, ?2, ?3)", place)?;
        }
        Ok(Place { kind: kind.n, due: job.due, id: job.id, table })
    }

    /// Writes the row of a job and no row of `moved`.
    pub(crate) fn put_row_alone(
        &self,
        kind: i64,
        job: &JobRow,
        payload: &[u8],
        table: Table,
    ) -> Result<(), StoreError> {
        let put = "INSERT INTO {table} \
             VALUES ({hour}?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        with_columns(kind, job, payload, |columns| self.execute((table, put), columns)).map(drop)
    }

    /// Deletes a job, and its row of `moved`. The caller deletes the key.
    pub(crate) fn delete_job(&self, kind: &KindRow, place: Place) -> Result<bool, StoreError> {
        let found = self.delete_row(place)?;
        self.drop_moved(kind, place)?;
        Ok(found)
    }

    fn delete_row(&self, place: Place) -> Result<bool, StoreError> {
        Ok(self.execute((place.table, "DELETE FROM {table} WHERE {at}"), place.key())? > 0)
    }

    /// Moves the row of a job from the table of jobs to that of lanes, or back.
    pub(super) fn move_row(&self, place: Place) -> Result<(), StoreError> {
        let copy = "INSERT OR FAIL INTO {other} SELECT kind, {row} FROM {by_due} WHERE {at}";
        self.execute((place.table, copy), place.key())?;
        self.delete_row(place).map(drop)
    }

    /// Deletes the row of `moved` of a job that is gone, if it had one.
    pub(super) fn drop_moved(&self, kind: &KindRow, place: Place) -> Result<(), StoreError> {
        if !place.id.hints_at(&kind.name, place.due) {
            self.execute("DELETE FROM {p}moved WHERE id = ?1", [id_bytes(place.id)])?;
        }
        Ok(())
    }

    /// Deletes a job and its key.
    pub(crate) fn remove_job(
        &self,
        kind: &KindRow,
        place: Place,
        key: Option<&str>,
    ) -> Result<(), StoreError> {
        self.delete_job(kind, place)?;
        self.drop_key(place.id, key)
    }

    pub(super) fn drop_key(&self, id: JobId, key: Option<&str>) -> Result<(), StoreError> {
        if let Some(key) = key {
            let row = params![key, id_bytes(id)];
            self.execute("DELETE FROM {p}key WHERE name = ?1 AND id = ?2", row)?;
        }
        Ok(())
    }

    pub(crate) fn key_holder(&self, key: &str) -> Result<Option<JobId>, StoreError> {
        self.one("SELECT id FROM {p}key WHERE name = ?1", [key], |row| id_of(row, 0))
    }

    pub(crate) fn put_key(&self, key: &str, id: JobId) -> Result<(), StoreError> {
        self.execute("INSERT OR REPLACE INTO {p}key VALUES (?1, ?2)", params![key, id_bytes(id)])
            .map(drop)
    }

    /// Inserts a job by the rules of [`NewJob`] and [`IfTaken`].
    pub(crate) fn insert(
        &self,
        kinds: &[KindRow],
        kind: &KindRow,
        new: &NewJob,
        is_claimed: impl Fn(JobId) -> Result<bool, StoreError>,
        table_for: impl FnOnce(i64, Millis) -> Result<Table, StoreError>,
    ) -> Result<InsertedAt, StoreError> {
        let refused = |inserted| InsertedAt { inserted, place: None, replaced: None };
        if new.callers_id && self.is_known(kinds, new.id)? {
            return Ok(refused(Inserted::Known));
        }
        let (mut due, mut extra) = (new.due, new.extra.clone());
        let mut replaced = None;
        if let Some((key, if_taken)) = &new.key {
            if let Some(holder) = self.key_holder(key)?
                && let Some(place) = self.find(kinds, holder)?
            {
                let is_claimed = is_claimed(holder)?;
                let keeps =
                    if is_claimed { self.holds_key(place)? } else { *if_taken == IfTaken::Leave };
                if keeps {
                    return Ok(refused(Inserted::Taken(holder)));
                }
                if is_claimed {
                    let drop_key = (place.table, "UPDATE {table} SET key = NULL WHERE {at}");
                    self.execute(drop_key, place.key())?;
                } else {
                    let job = self.job(place)?;
                    if let Some(job) = &job {
                        // An extra that makes no sense has no burst.
                        let its = Extra::read(job.extra.as_deref()).unwrap_or_default();
                        (due, extra) = new.replacing(place.due, its.as_deref(), job.tries.attempts);
                    }
                    replaced = job.map(|job| (place.kind, job));
                    self.remove_job(kind_row(kinds, place.kind)?, place, None)?;
                }
            }
            self.put_key(key, new.id)?;
        }
        let row = JobRow {
            due,
            id: new.id,
            tries: Tries::default(),
            callers_id: new.callers_id,
            part: partition_of(new.extra.as_deref()).cloned(),
            key: new.key.as_ref().map(|(key, _)| key.clone()),
            extra: extra.map(|extra| extra.to_bytes()),
            payload: Vec::new(),
        };
        let table = table_for(kind.n, due)?;
        let place = self.put_job(kind, &row, &new.payload, table)?;
        Ok(InsertedAt { inserted: Inserted::New, place: Some(place), replaced })
    }

    /// Says whether a job holds its key until its end.
    fn holds_key(&self, place: Place) -> Result<bool, StoreError> {
        let extra = self.job(place)?.and_then(|job| job.extra);
        Ok(Extra::read(extra.as_deref())?.is_some_and(|extra| extra.holds_key))
    }

    pub(super) fn is_known(&self, kinds: &[KindRow], id: JobId) -> Result<bool, StoreError> {
        Ok(self.find(kinds, id)?.is_some() || self.has_ended(id)?)
    }

    pub(crate) fn ids(&self, sql: &'static str) -> Result<Vec<JobId>, StoreError> {
        self.all(sql, [], |row| id_of(row, 0))
    }

    /// Returns the tables that may have jobs. There are lanes only once the file has the index.
    pub(super) fn with_jobs(&self) -> impl Iterator<Item = Table> {
        let has_lanes = self.sql.has_lanes.get();
        Table::ALL.into_iter().filter(move |table| has_lanes || *table != Table::Lane)
    }

    /// Reads whether the file has the index of the jobs with a partition.
    pub(super) fn look_for_lanes(&self) -> Result<(), StoreError> {
        let has = self.has("SELECT 1 FROM sqlite_schema WHERE name = '{p}job_part'", [])?;
        self.sql.has_lanes.set(has);
        Ok(())
    }

    pub(super) fn meta(&self, name: &str) -> Result<Option<i64>, StoreError> {
        self.one("SELECT value FROM {p}meta WHERE name = ?1", [name], |row| row.get(0))
    }

    /// Returns how often a process has started to run the jobs.
    pub(super) fn starts(&self) -> Result<u64, StoreError> {
        Ok(u64::try_from(self.meta("starts")?.unwrap_or(0)).unwrap_or(0))
    }

    /// Returns the ids in the table `claim` with the number of their row, in the order of claiming. Some of these jobs
    /// may have ended.
    pub(crate) fn claims(&self) -> Result<Vec<(JobId, RowNumber)>, StoreError> {
        let read = |row: &Row<'_>| Ok((RowNumber(row.get(0)?), row.get::<_, Vec<u8>>(1)?));
        let mut claims = Vec::new();
        for (n, ids) in self.whole("SELECT n, ids FROM {p}claim ORDER BY n", read)? {
            let ids = ids.chunks_exact(16).filter_map(|id| id.try_into().ok());
            claims.extend(ids.map(|id| (JobId::from_u128(u128::from_be_bytes(id)), n)));
        }
        Ok(claims)
    }
}
