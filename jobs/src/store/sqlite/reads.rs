//! Questions to the store: one job, pages of dead jobs, counts.

use rusqlite::params;

use super::State;
use super::pages::BYTES_PER_PAGE;
use super::rows::{JobRow, id_bytes, kind_row, millis_of, store_error};
use super::tables::Tables;
use crate::store::{Page, PageRequest};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{Counts, JobInfo, JobState};
use crate::values::time::Millis;

impl State {
    pub(super) fn get(&self, tables: Tables<'_>, id: JobId) -> Result<Option<JobInfo>, StoreError> {
        if let Some(place) = tables.find(&self.kinds, id)? {
            let Some(job) = tables.job(place)? else { return Ok(None) };
            let claimed = self.claims.is_claimed(tables, id)?;
            return self.alive_info(place.kind, job, claimed).map(Some);
        }
        let Some((job, n, died)) = tables.dead(id)? else { return Ok(None) };
        let kind = kind_row(&self.kinds, n)?.name.clone();
        Ok(Some(job.info(kind, JobState::Dead, Some(died))))
    }

    pub(super) fn dead_page(
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
        // An empty blob comes before every id, also before the id 0.
        let after = request.after.map(|(_, id)| id_bytes(id));
        let after = after.as_ref().map_or(&[][..], |id| &id[..]);
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        let filter = params![after, request.from.get(), request.to.get(), kind, limit];
        let statement = tables.conn.prepare_cached(&tables.sql.dead_page);
        let mut statement = statement.map_err(store_error)?;
        let mut found = statement.query(filter).map_err(store_error)?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next().map_err(store_error)?
            && bytes < BYTES_PER_PAGE
        {
            let read = |row| Ok((JobRow::read(row)?, row.get::<_, i64>(10)?, millis_of(row, 11)?));
            let (job, kind, died) = read(row).map_err(store_error)?;
            bytes += job.payload.len();
            rows.push((job, kind, died));
        }
        let full = rows.len() == request.limit || bytes >= BYTES_PER_PAGE;
        let next = rows.last().filter(|_| full).map(|(job, ..)| (job.due, job.id));
        let info = |(job, kind, died): (JobRow, i64, Millis)| {
            let kind = kind_row(&self.kinds, kind)?.name.clone();
            Ok(job.info(kind, JobState::Dead, Some(died)))
        };
        Ok(Page { jobs: rows.into_iter().map(info).collect::<Result<_, StoreError>>()?, next })
    }

    pub(super) fn counts(&self, tables: Tables<'_>) -> Result<Counts, StoreError> {
        let jobs: i64 = self.kinds.iter().map(|kind| kind.jobs).sum();
        let changed: i64 = self.deltas.iter().map(|(_, by)| by).sum();
        let alive = u64::try_from(jobs + changed).unwrap_or(0);
        let mut running = 0;
        for id in self.claims.all(tables)? {
            running += u64::from(tables.find(&self.kinds, id)?.is_some());
        }
        let others = tables.one(&tables.sql.counts, [], |row| {
            Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?))
        })?;
        let (dead, schedules) = others.unwrap_or((0, 0));
        let (dead, schedules) = (u64::from(dead), u64::from(schedules));
        let pending = alive.saturating_sub(running);
        Ok(Counts { pending, claimed: 0, running, dead, schedules })
    }
}
