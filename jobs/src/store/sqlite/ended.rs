//! Jobs that have ended: which are kept, for how long, and how they are read and removed.
//!
//! Ground rules:
//!
//! - Each end, and each removal from the table `ended`, changes the counts of the kind and the groups of
//!   `dead_by_error` in the same transaction. So no question has to count rows.
//! - A kind has at most as many kept jobs as it asks for: a transaction that adds one removes two at most, so a
//!   lower bound is reached without a long transaction.

use rusqlite::{OptionalExtension, Row, params};

use super::State;
use super::pages::BYTES_PER_PAGE;
use super::rows::{
    JobRow, KindCounts, KindRow, Place, id_bytes, kind_row, millis_of, out_of_range, store_error,
};
use super::tables::{EndedRow, Tables};
use crate::store::{
    Ending, JobSet, Page, PageRequest, TRIM_LOOKS, TRIMMED, is_waited_for, kept_until,
};
use crate::values::error::StoreError;
use crate::values::extra::Extra;
use crate::values::id::JobId;
use crate::values::info::{DeadByError, JobInfo};
use crate::values::keep::Keep;
use crate::values::node::NODE_KEPT;
use crate::values::time::Millis;

/// How a run ended: how long it took, in milliseconds, its result, and how much its kind keeps.
#[derive(Default)]
pub(super) struct RunOf<'a> {
    pub(super) took: u64,
    pub(super) result: Option<&'a [u8]>,
    pub(super) keep: Option<Keep>,
}

impl State {
    /// Removes a job that has completed or was cancelled from the living, and keeps what is kept of it. Returns
    /// `false` if there is no such job.
    pub(super) fn end(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        ending: Ending,
        run: RunOf<'_>,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let Some(job) = tables.job(place)? else { return Ok(false) };
        let kind = kind_row(&self.kinds, place.kind)?.clone();
        tables.remove_job(&kind, place, job.key.as_deref())?;
        self.ended(tables, &kind, job, ending, run, now)?;
        Ok(true)
    }

    /// Keeps what is kept of a job that has completed or was cancelled, and is no longer among the living.
    pub(super) fn ended(
        &mut self,
        tables: Tables<'_>,
        kind: &KindRow,
        job: JobRow,
        ending: Ending,
        run: RunOf<'_>,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.count(kind.n, -KindCounts::of_job(job.failures));
        let wanted = Extra::read(job.extra.as_deref())?.is_some_and(|extra| extra.wanted);
        let remembered = job.callers_id || self.unknown.contains(&job.id);
        match kept_until(run.keep, wanted, now) {
            Some(until) => {
                let (took, result) = (run.took, run.result.map(<[u8]>::to_vec));
                let job = JobRow { callers_id: remembered, ..job };
                let row = EndedRow { job, kind: kind.n, ending, until, at: now, took, result };
                self.put_ended(tables, &row)?;
            }
            None if remembered => self.remember(tables, job.id, now)?,
            None => {}
        }
        if let Some(keep) = run.keep {
            self.trim(tables, kind, keep, now)?;
        }
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
            tables.execute(&tables.sql.add_dead_by_error, params![row.kind, error])?;
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
        tables.execute(&tables.sql.put_remembered, row).map(drop)
    }

    /// Removes the entry of a job that has ended, and everything that counts it.
    pub(super) fn take_ended(
        &mut self,
        tables: Tables<'_>,
        row: &EndedRow,
    ) -> Result<(), StoreError> {
        tables.execute(&tables.sql.drop_ended, [id_bytes(row.job.id)])?;
        if row.ending == Ending::Dead {
            let group = params![row.kind, row.job.errors.first_line()];
            let left = tables.one(&tables.sql.drop_dead_by_error, group, |row| row.get(0))?;
            if left.is_some_and(|left: i64| left <= 0) {
                tables.execute(&tables.sql.drop_empty_group, group)?;
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
        if row.job.callers_id && row.at.plus(self.keep_dead) >= now {
            self.remember(tables, row.job.id, row.at)?;
        }
        Ok(())
    }

    /// Removes the oldest kept jobs of a kind that has more than it keeps.
    fn trim(
        &mut self,
        tables: Tables<'_>,
        kind: &KindRow,
        keep: Keep,
        now: Millis,
    ) -> Result<(), StoreError> {
        let of = |bound: u64| i64::try_from(bound).unwrap_or(i64::MAX);
        let mut removed = 0;
        let mut before = (i64::MIN, [0; 16]);
        for _ in 0..TRIM_LOOKS {
            let counts = self.counts_of(kind);
            let has_room = counts.kept <= of(keep.last) && counts.kept_bytes <= of(keep.bytes);
            if has_room || removed == TRIMMED {
                break;
            }
            let behind = params![kind.n, before.0, before.1];
            let oldest = tables.one(&tables.sql.oldest_kept, behind, EndedRow::read)?;
            let Some(oldest) = oldest else { break };
            before = (oldest.at.get(), id_bytes(oldest.job.id));
            let wanted = Extra::read(oldest.job.extra.as_deref())?.is_some_and(|it| it.wanted);
            if !is_waited_for(wanted, oldest.at, now) {
                self.drop_ended(tables, &oldest, now)?;
                removed += 1;
            }
        }
        Ok(())
    }

    /// Removes entries whose time is over, as many as [`Pace`](super::pace::Pace) allows. Returns whether more may
    /// be left.
    pub(super) fn purge(&mut self, tables: Tables<'_>, now: Millis) -> Result<bool, StoreError> {
        let rows = self.purges.rows();
        let limit = params![now.get(), i64::try_from(rows).unwrap_or(i64::MAX)];
        let over = tables.all(&tables.sql.over, limit, |row| row.get::<_, Vec<u8>>(0))?;
        for id in &over {
            match tables.one(&tables.sql.ended, [id], EndedRow::read)? {
                Some(row) => self.drop_ended(tables, &row, now)?,
                None => drop(tables.execute(&tables.sql.drop_ended, [id])?),
            }
        }
        tables.execute(&tables.sql.purge_nodes, [now.minus(NODE_KEPT).get()])?;
        self.purges.takes(over.len());
        Ok(over.len() >= rows)
    }

    /// Returns a page of jobs that have ended, the latest end first.
    pub(super) fn ended_page(
        &self,
        tables: Tables<'_>,
        request: &PageRequest,
    ) -> Result<Page, StoreError> {
        let kind = match &request.kind {
            None => None,
            Some(name) => match self.kinds.iter().find(|kind| kind.name == *name) {
                None => return Ok(Page::default()),
                Some(kind) => Some(kind.n),
            },
        };
        let (mut rows, mut full) = (Vec::new(), false);
        for ending in Ending::ALL.into_iter().filter(|ending| request.set.has(*ending)) {
            full |= self.read_ended(tables, request, ending, kind, &mut rows)?;
        }
        if let JobSet::Ended(None) = request.set {
            // Each list may have stopped early. What lies before the earliest stop would be out of order.
            rows.sort_by_key(|row: &EndedRow| core::cmp::Reverse((row.at, row.job.id)));
        }
        full |= rows.len() > request.limit;
        rows.truncate(request.limit);
        let next = rows.last().filter(|_| full).map(|row| (row.at, row.job.id));
        let jobs = rows.into_iter().map(|row| self.ended_info(row)).collect::<Result<_, _>>()?;
        Ok(Page { jobs, next })
    }

    /// Reads the jobs of a page that ended in one way. Returns whether more may be left.
    fn read_ended(
        &self,
        tables: Tables<'_>,
        request: &PageRequest,
        ending: Ending,
        kind: Option<i64>,
        rows: &mut Vec<EndedRow>,
    ) -> Result<bool, StoreError> {
        let first = (i64::MAX, [0xff; 16]);
        let (at, id) = request.after.map_or(first, |(at, id)| (at.get(), id_bytes(id)));
        let (from, to) = (request.from.get(), request.to.get());
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        let sql = match kind {
            None => &tables.sql.ended_page,
            Some(_) => &tables.sql.ended_page_of_kind,
        };
        let mut statement = tables.conn.prepare_cached(sql).map_err(store_error)?;
        let mut found = match kind {
            None => statement.query(params![ending as i64, at, id, from, to, limit]),
            Some(kind) => statement.query(params![ending as i64, at, id, from, to, limit, kind]),
        }
        .map_err(store_error)?;
        let (before, mut bytes) = (rows.len(), 0);
        while let Some(row) = found.next().map_err(store_error)?
            && bytes < BYTES_PER_PAGE
        {
            let row = EndedRow::read(row).map_err(store_error)?;
            bytes += row.job.payload.len();
            rows.push(row);
        }
        Ok(rows.len() - before == request.limit || bytes >= BYTES_PER_PAGE)
    }

    pub(super) fn ended_info(&self, row: EndedRow) -> Result<JobInfo, StoreError> {
        let kind = kind_row(&self.kinds, row.kind)?.name.clone();
        Ok(JobInfo {
            died: (row.ending == Ending::Dead).then(|| row.at.to_system()),
            ended: Some(row.at.to_system()),
            took: Some(core::time::Duration::from_millis(row.took)),
            result: row.result,
            ..row.job.info(kind, row.ending.state())
        })
    }

    /// Returns the groups of dead jobs, the largest first.
    pub(super) fn dead_by_error(
        &self,
        tables: Tables<'_>,
        most: usize,
    ) -> Result<Vec<DeadByError>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let groups = tables.all(&tables.sql.dead_by_error, [most], |row| {
            Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, u32>(2)?))
        })?;
        let group = |(kind, error, jobs)| {
            let kind = kind_row(&self.kinds, kind)?.name.clone();
            Ok(DeadByError { kind, error, jobs: u64::from(jobs) })
        };
        let mut groups = groups.into_iter().map(group).collect::<Result<Vec<_>, StoreError>>()?;
        groups.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.cmp(b)));
        Ok(groups)
    }
}

impl EndedRow {
    /// Reads a row of a statement on `ended`.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<EndedRow> {
        let ending: i64 = row.get(12)?;
        let ending = Ending::of_number(ending).ok_or_else(|| out_of_range(12, ending))?;
        Ok(EndedRow {
            job: JobRow::read(row)?,
            kind: row.get(10)?,
            at: millis_of(row, 11)?,
            ending,
            until: Millis::MAX,
            took: u64::try_from(row.get::<_, i64>(13)?).unwrap_or(0),
            result: row.get(14)?,
        })
    }

    /// Returns the counts of this entry.
    fn counts(&self) -> KindCounts {
        match self.ending {
            Ending::Dead => KindCounts { dead: 1, ..KindCounts::default() },
            Ending::Cancelled => KindCounts::default(),
            Ending::Completed => {
                let of = |bytes: Option<usize>| bytes.unwrap_or(0);
                let bytes = self.job.payload.len()
                    + of(self.result.as_ref().map(Vec::len))
                    + self.job.errors.as_text().len()
                    + of(self.job.extra.as_ref().map(Vec::len));
                let kept_bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                KindCounts { kept: 1, kept_bytes, ..KindCounts::default() }
            }
        }
    }
}

impl Tables<'_> {
    /// Returns the entry of a job that is dead or kept.
    pub(super) fn ended(&self, id: JobId) -> Result<Option<EndedRow>, StoreError> {
        let statement = self.conn.prepare_cached(&self.sql.ended);
        let row =
            statement.and_then(|mut sql| sql.query_row([id_bytes(id)], EndedRow::read).optional());
        row.map_err(store_error)
    }

    fn put_ended(&self, row: &EndedRow) -> Result<(), StoreError> {
        let EndedRow { job, kind, ending, until, at, took, result } = row;
        let errors = Some(job.errors.as_text()).filter(|text| !text.is_empty());
        self.execute(
            &self.sql.put_ended,
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
