//! Pages of jobs that have ended, and the groups of dead jobs.

use rusqlite::params;

use super::State;
use super::kept::List;
use super::pages::BYTES_PER_PAGE;
use super::rows::{KindRow, id_bytes, kind_row, store_error};
use super::tables::{EndedRow, Tables};
use crate::store::{Ending, Page, PageRequest};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{DeadByError, JobInfo};
use crate::values::time::Millis;

impl State {
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
        let mut lists: Vec<(Ending, Option<i64>)> = Vec::new();
        for ending in Ending::ALL.into_iter().filter(|ending| request.set.has(*ending)) {
            match (ending, kind) {
                // No index has the completed jobs of all kinds: it would cost more than the merge of their lists.
                (Ending::Completed, None) => {
                    let keeps = |kind: &&KindRow| self.counts_of(kind).kept > 0;
                    let kinds = self.kinds.iter().filter(keeps);
                    lists.extend(kinds.map(|kind| (ending, Some(kind.n))));
                }
                _ => lists.push((ending, kind)),
            }
        }
        let (mut rows, mut full) = (Vec::new(), false);
        let is_merged = lists.len() > 1;
        // A list may stop early. The other lists are cut there: this one may have jobs between theirs.
        let mut stop = None;
        for (ending, kind) in lists {
            if self.read_ended(tables, request, ending, kind, &mut rows)? {
                full = true;
                stop = stop.max(rows.last().map(|row| (row.at, row.job.id)));
            }
        }
        if is_merged {
            rows.retain(|row: &EndedRow| Some((row.at, row.job.id)) >= stop);
            rows.sort_by_key(|row| core::cmp::Reverse((row.at, row.job.id)));
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
        if let (Ending::Completed, Some(kind)) = (ending, kind)
            && tables.sql.kept.has_tables.get()
        {
            return tables.read_kept(request, kind, rows);
        }
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

impl Tables<'_> {
    /// Reads the kept jobs of a page: of one kind, the latest end first. Returns whether more may be left.
    fn read_kept(
        &self,
        request: &PageRequest,
        kind: i64,
        rows: &mut Vec<EndedRow>,
    ) -> Result<bool, StoreError> {
        let (before, mut bytes) = (rows.len(), 0);
        let (from, to) = (request.from.get(), request.to.get());
        let latest = request.after.map_or(i64::MAX, |(at, _)| at.get());
        let sql = &self.sql.kept;
        self.lists_by_time(&sql.latest_lists, params![kind, latest], |lists| {
            let of =
                |list: &List| list.jobs.iter().map(|job| (list.at, job.id)).collect::<Vec<_>>();
            let mut jobs: Vec<(Millis, JobId)> = lists.iter().flat_map(of).collect();
            jobs.sort_unstable();
            for (at, id) in jobs.into_iter().rev() {
                if request.after.is_some_and(|after| (at, id) >= after) {
                    continue;
                }
                let row = params![id_bytes(id), from, to];
                let Some(row) = self.one(&sql.get_if_due, row, EndedRow::read)? else { continue };
                bytes += row.job.payload.len();
                rows.push(row);
                if rows.len() - before >= request.limit || bytes >= BYTES_PER_PAGE {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}
