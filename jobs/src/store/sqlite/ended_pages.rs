//! Pages of jobs that have ended, and the groups of dead jobs.

use rusqlite::params;

use super::State;
use super::kept::List;
use super::rows::{id_bytes, kind_row, store_error};
use super::tables::{EndedRow, Tables};
use crate::store::{BYTES_PER_PAGE, Ending, Page, PageKey, PageRequest};
use crate::values::error::StoreError;
use crate::values::info::{DeadByError, JobInfo};

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
        let (mut rows, mut stop) = (Vec::new(), None);
        // A list may stop early. The other lists are cut there: this one may have jobs between theirs.
        for ending in Ending::ALL.into_iter().filter(|ending| request.set.has(*ending)) {
            let stopped = match ending {
                Ending::Completed if tables.sql.kept.has_tables.get() => {
                    self.read_kept(tables, request, kind, &mut rows)?
                }
                _ => read_ended(tables, request, ending, kind, &mut rows)?,
            };
            stop = stop.max(stopped);
        }
        rows.retain(|row: &EndedRow| Some((row.at, row.job.id)) >= stop);
        rows.sort_by_key(|row| core::cmp::Reverse((row.at, row.job.id)));
        if rows.len() > request.limit {
            rows.truncate(request.limit);
            stop = rows.last().map(|row| (row.at, row.job.id));
        }
        let rows = rows.into_iter().map(|row| ((row.at, row.job.id), row));
        Page::read(rows, stop, |_, row| self.ended_info(row).map(Some))
    }

    /// Reads the kept jobs of a page, of one kind or of all. Returns where it stopped, if more may be left.
    fn read_kept(
        &self,
        tables: Tables<'_>,
        request: &PageRequest,
        kind: Option<i64>,
        rows: &mut Vec<EndedRow>,
    ) -> Result<Option<PageKey>, StoreError> {
        // No index has the completed jobs of all kinds: it would cost more than the merge of their lists.
        let kinds = self.kinds.iter().filter(|it| match kind {
            Some(kind) => it.n == kind,
            None => self.counts_of(it).kept > 0,
        });
        let sql = &tables.sql.kept;
        let latest = request.after.map_or(i64::MAX, |(at, _)| at.get());
        let mut found: Vec<PageKey> = Vec::new();
        for kind in kinds {
            let end = found.len() + request.limit;
            tables.lists_by_time(&sql.latest_lists, params![kind.n, latest], |lists| {
                let of = |list: &List| {
                    list.jobs.iter().map(|job| (list.at, job.id)).collect::<Vec<PageKey>>()
                };
                let jobs = lists.iter().flat_map(of);
                found.extend(jobs.filter(|key| request.after.is_none_or(|after| *key < after)));
                Ok(found.len() >= end)
            })?;
        }
        found.sort_unstable_by_key(|key| core::cmp::Reverse(*key));
        let is_full = found.len() >= request.limit;
        found.truncate(request.limit);
        let (from, to) = (request.from.get(), request.to.get());
        let mut bytes = 0;
        for (at, id) in &found {
            let row = params![id_bytes(*id), from, to];
            let Some(row) = tables.one(&sql.get_if_due, row, EndedRow::read)? else { continue };
            bytes += row.bytes();
            rows.push(row);
            if bytes >= BYTES_PER_PAGE {
                return Ok(Some((*at, *id)));
            }
        }
        Ok(found.pop().filter(|_| is_full))
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

/// Reads the rows of a page that ended in one way. Returns where it stopped, if more may be left.
fn read_ended(
    tables: Tables<'_>,
    request: &PageRequest,
    ending: Ending,
    kind: Option<i64>,
    rows: &mut Vec<EndedRow>,
) -> Result<Option<PageKey>, StoreError> {
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
    while let Some(row) = found.next().map_err(store_error)? {
        let row = EndedRow::read(row).map_err(store_error)?;
        bytes += row.bytes();
        let at = (row.at, row.job.id);
        rows.push(row);
        if rows.len() - before == request.limit || bytes >= BYTES_PER_PAGE {
            return Ok(Some(at));
        }
    }
    Ok(None)
}
