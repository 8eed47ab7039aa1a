//! Single changes to the tables, each complete: a job with its key and its place.
//!
//! Ground rules:
//!
//! - No function here begins or ends a transaction or keeps state between calls. So the same code serves
//!   the dispatcher, another process, and a transaction of the caller.
//! - A job whose id does not lead to its place has a row in `moved`; every other job has none.
//! - A row of `key` names a job that exists and has that key.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::schema::{
    InsertedAt, JobRow, KindCounts, KindRow, Place, RowNumber, Table, hour_of, id_bytes, id_of,
    kind_row, millis_of, out_of_range, store_error,
};
use super::sql::Sql;
use crate::store::{Ending, IfTaken, Inserted, NewJob};
use crate::values::error::StoreError;
use crate::values::fail_and_retry::AttemptErrors;
use crate::values::id::JobId;
use crate::values::job::{Extra, partition_of};
use crate::values::time::Millis;

/// A kind that counts more jobs than this is damaged. So counts can be added without an overflow.
const MOST_JOBS: i64 = 1 << 53;

/// Returns the value of the column `errors`: NULL if the job has not failed.
fn errors_column(errors: &AttemptErrors) -> Option<&str> {
    Some(errors.as_text()).filter(|text| !text.is_empty())
}

/// A job that is dead or kept: a row of `ended` or of `kept`.
#[derive(Debug)]
pub(super) struct EndedRow {
    pub(super) job: JobRow,
    pub(super) kind: i64,
    pub(super) ending: Ending,
    pub(super) until: Millis,
    pub(super) at: Millis,
    pub(super) took: u64,
    pub(super) result: Option<Vec<u8>>,
}

impl EndedRow {
    /// Returns how many bytes were read for it.
    pub(super) fn bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, Vec::len);
        let extra = self.job.extra.as_ref().map_or(0, Vec::len);
        self.job.payload.len() + result + extra + self.job.errors.as_text().len()
    }
}

/// The tables of one queue, as one connection sees them.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) sql: &'a Sql,
}

impl Tables<'_> {
    pub(crate) fn execute(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<usize, StoreError> {
        self.conn.prepare_cached(sql).and_then(|mut sql| sql.execute(params)).map_err(store_error)
    }

    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let statement = self.conn.prepare_cached(sql);
        statement.and_then(|mut sql| sql.query_row(params, read).optional()).map_err(store_error)
    }

    pub(crate) fn all<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.conn.prepare_cached(sql).map_err(store_error)?;
        let rows = statement.query_map(params, read).map_err(store_error)?;
        rows.collect::<rusqlite::Result<_>>().map_err(store_error)
    }

    pub(crate) fn kinds(&self) -> Result<Vec<KindRow>, StoreError> {
        self.all(&self.sql.kinds, [], |row| {
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
        })
    }

    pub(crate) fn add_kind(&self, name: &str) -> Result<(), StoreError> {
        self.execute(&self.sql.add_kind, [name]).map(drop)
    }

    pub(crate) fn add_counts(&self, kind: i64, by: KindCounts) -> Result<(), StoreError> {
        let KindCounts { jobs, retrying, dead, kept, kept_bytes } = by;
        let row = params![kind, jobs, retrying, dead, kept, kept_bytes];
        self.execute(&self.sql.kind_counts, row).map(drop)
    }

    /// Returns the place of the job with this id.
    pub(crate) fn find(&self, kinds: &[KindRow], id: JobId) -> Result<Option<Place>, StoreError> {
        if let Some(due) = id.due_hint() {
            for kind in kinds.iter().filter(|kind| id.may_be_of(&kind.name)) {
                if let Some(place) = self.find_at(kind.n, due, id)? {
                    return Ok(Some(place));
                }
            }
        }
        let moved =
            self.one(&self.sql.moved, [id_bytes(id)], |row| Ok((row.get(0)?, millis_of(row, 1)?)))?;
        match moved {
            Some((kind, due)) => self.find_at(kind, due, id),
            None => Ok(None),
        }
    }

    /// Returns the place of the job, if it has this kind and this due time.
    fn find_at(&self, kind: i64, due: Millis, id: JobId) -> Result<Option<Place>, StoreError> {
        let bytes = id_bytes(id);
        let here = |table| Ok(Some(Place { kind, due, id, table }));
        let key = params![kind, due.get(), bytes];
        if self.one(&self.sql.job_exists, key, |_| Ok(()))?.is_some() {
            return here(Table::Job);
        }
        let hour = params![kind, hour_of(due), bytes, due.get()];
        if self.one(&self.sql.later_exists, hour, |_| Ok(()))?.is_some() {
            return here(Table::Later);
        }
        if self.sql.has_lanes.get() && self.one(&self.sql.lane_exists, key, |_| Ok(()))?.is_some() {
            return here(Table::Lane);
        }
        Ok(None)
    }

    pub(crate) fn job(&self, place: Place) -> Result<Option<JobRow>, StoreError> {
        let sql = match place.table {
            Table::Job => &self.sql.job,
            Table::Later => &self.sql.later,
            Table::Lane => &self.sql.lane,
        };
        self.one(sql, place.key(), JobRow::read)
    }

    /// Writes a job to a table; and its place to `moved`, if its id does not lead there. The caller writes the key.
    pub(crate) fn put_job(
        &self,
        kind: &KindRow,
        job: &JobRow,
        table: Table,
    ) -> Result<Place, StoreError> {
        self.put_row(kind, job, &job.payload, table)
    }

    fn put_row(
        &self,
        kind: &KindRow,
        job: &JobRow,
        payload: &[u8],
        table: Table,
    ) -> Result<Place, StoreError> {
        self.put_row_alone(kind.n, job, payload, table)?;
        if !job.id.hints_at(&kind.name, job.due) {
            let place = params![id_bytes(job.id), kind.n, job.due.get()];
            self.execute(&self.sql.put_moved, place)?;
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
        let (due, id) = (job.due.get(), id_bytes(job.id));
        let JobRow {
            failures, interruptions, attempts, callers_id, key, errors, extra, part, ..
        } = job;
        let errors = errors_column(errors);
        if table == Table::Later {
            let hour = hour_of(job.due);
            self.execute(
                &self.sql.insert_later,
                params![
                    kind,
                    hour,
                    id,
                    due,
                    failures,
                    interruptions,
                    attempts,
                    callers_id,
                    key,
                    errors,
                    extra,
                    payload,
                    part
                ],
            )?;
        } else {
            let lane = table == Table::Lane;
            self.execute(
                if lane { &self.sql.insert_lane } else { &self.sql.insert },
                params![
                    kind,
                    due,
                    id,
                    failures,
                    interruptions,
                    attempts,
                    callers_id,
                    key,
                    errors,
                    extra,
                    payload,
                    part
                ],
            )?;
        }
        Ok(())
    }

    /// Deletes a job, and its row of `moved`. The caller deletes the key.
    pub(crate) fn delete_job(&self, kind: &KindRow, place: Place) -> Result<bool, StoreError> {
        let sql = match place.table {
            Table::Job => &self.sql.delete,
            Table::Later => &self.sql.delete_later,
            Table::Lane => &self.sql.delete_lane,
        };
        let found = self.execute(sql, place.key())? > 0;
        self.drop_moved(kind, place)?;
        Ok(found)
    }

    /// Deletes the row of `moved` of a job that is gone, if it had one.
    pub(super) fn drop_moved(&self, kind: &KindRow, place: Place) -> Result<(), StoreError> {
        if !place.id.hints_at(&kind.name, place.due) {
            self.execute(&self.sql.drop_moved, [id_bytes(place.id)])?;
        }
        Ok(())
    }

    /// Deletes a job and its key.
    pub(crate) fn remove_job(
        &self,
        kind: &KindRow,
        place: Place,
        key: Option<&str>,
    ) -> Result<bool, StoreError> {
        let found = self.delete_job(kind, place)?;
        self.drop_key(place.id, key)?;
        Ok(found)
    }

    /// Lets the key of a job go.
    pub(super) fn drop_key(&self, id: JobId, key: Option<&str>) -> Result<(), StoreError> {
        match key {
            Some(key) => self.execute(&self.sql.drop_key, params![key, id_bytes(id)]).map(drop),
            None => Ok(()),
        }
    }

    pub(crate) fn key_holder(&self, key: &str) -> Result<Option<JobId>, StoreError> {
        self.one(&self.sql.key, [key], |row| id_of(row, 0))
    }

    pub(crate) fn put_key(&self, key: &str, id: JobId) -> Result<(), StoreError> {
        self.execute(&self.sql.put_key, params![key, id_bytes(id)]).map(drop)
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
                    let sql = match place.table {
                        Table::Job => &self.sql.clear_key,
                        Table::Later => &self.sql.clear_later_key,
                        Table::Lane => &self.sql.clear_lane_key,
                    };
                    self.execute(sql, place.key())?;
                } else {
                    let job = self.job(place)?;
                    if let Some(job) = &job {
                        // An extra that makes no sense has no burst.
                        let its = Extra::read(job.extra.as_deref()).unwrap_or_default();
                        (due, extra) = new.replacing(place.due, its.as_deref(), job.attempts);
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
            failures: 0,
            interruptions: 0,
            attempts: 0,
            callers_id: new.callers_id,
            part: partition_of(new.extra.as_deref()).cloned(),
            key: new.key.as_ref().map(|(key, _)| key.clone()),
            errors: AttemptErrors::default(),
            extra: extra.map(|extra| extra.to_bytes()),
            payload: Vec::new(),
        };
        let table = table_for(kind.n, due)?;
        let place = self.put_row(kind, &row, &new.payload, table)?;
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

    pub(crate) fn ids(&self, sql: &str) -> Result<Vec<JobId>, StoreError> {
        self.all(sql, [], |row| id_of(row, 0))
    }

    /// Reads whether the file has the tables of lanes, of tokens and of kept jobs.
    pub(super) fn look_for_tables(&self) -> Result<(), StoreError> {
        let exists = |sql: &str| {
            let found = self.one(sql, [], |row| row.get::<_, i64>(0))?;
            Ok::<bool, StoreError>(found == Some(1))
        };
        self.sql.has_lanes.set(exists(&self.sql.has_lane_table)?);
        self.sql.tokens.has_table.set(exists(&self.sql.tokens.table_exists)?);
        self.sql.kept.has_tables.set(exists(&self.sql.kept.tables_exist)?);
        Ok(())
    }

    /// Returns how often a process has started to run the jobs.
    pub(crate) fn starts(&self) -> Result<u64, StoreError> {
        let starts = self.one(&self.sql.starts, [], |row| row.get::<_, i64>(0))?;
        Ok(u64::try_from(starts.unwrap_or(0)).unwrap_or(0))
    }

    /// Returns the ids in the table `claim` with the number of their row, in the order of claiming. Some of these jobs
    /// may have ended.
    pub(crate) fn claims(&self) -> Result<Vec<(JobId, RowNumber)>, StoreError> {
        let read = |row: &Row<'_>| Ok((RowNumber(row.get(0)?), row.get::<_, Vec<u8>>(1)?));
        let mut claims = Vec::new();
        for (n, ids) in self.all(&self.sql.claims, [], read)? {
            let ids = ids.chunks_exact(16).filter_map(|id| id.try_into().ok());
            claims.extend(ids.map(|id| (JobId::from_u128(u128::from_be_bytes(id)), n)));
        }
        Ok(claims)
    }
}
