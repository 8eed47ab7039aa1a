//! The questions to the store: one job, pages of jobs, counts.

use rusqlite::params;

use super::State;
use super::rows::{JobRow, MILLIS_PER_HOUR, id_bytes, kind_row};
use super::tables::Tables;
use crate::store::words::{Page, PageRequest};
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

    pub(super) fn alive_info(
        &self,
        kind: i64,
        job: JobRow,
        claimed: bool,
    ) -> Result<JobInfo, StoreError> {
        let state = if claimed { JobState::Running } else { JobState::Pending };
        Ok(job.info(kind_row(&self.kinds, kind)?.name.clone(), state, None))
    }

    pub(super) fn alive_page(
        &self,
        tables: Tables<'_>,
        request: &PageRequest,
    ) -> Result<Page, StoreError> {
        let before_first = request.from.get() - 1;
        let (due, id) = match request.after {
            Some((due, id)) if due >= request.from => (due.get(), id),
            _ => (before_first, JobId::from_u128(u128::MAX)),
        };
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        let mut rows = Vec::new();
        for kind in &self.kinds {
            if request.kind.as_ref().is_some_and(|name| *name != kind.name) {
                continue;
            }
            let key = params![kind.n, due, id_bytes(id), limit];
            let jobs = tables.all(&tables.sql.page, key, JobRow::read)?;
            rows.extend(jobs.into_iter().map(|job| (kind.n, job)));
            let hour = due.div_euclid(MILLIS_PER_HOUR);
            let key = params![kind.n, hour, due, id_bytes(id), limit];
            let jobs = tables.all(&tables.sql.later_page, key, JobRow::read)?;
            rows.extend(jobs.into_iter().map(|job| (kind.n, job)));
        }
        rows.sort_by_key(|(_, job)| (job.due, job.id));
        rows.retain(|(_, job)| job.due <= request.to);
        let last = rows.get(request.limit.wrapping_sub(1));
        let next = last.map(|(_, job)| (job.due, job.id));
        rows.truncate(request.limit);
        let claimed = self.claims.all(tables)?;
        let info = |(kind, job): (i64, JobRow)| {
            let claimed = claimed.contains(&job.id);
            self.alive_info(kind, job, claimed)
        };
        Ok(Page { jobs: rows.into_iter().map(info).collect::<Result<_, _>>()?, next })
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
        // Nothing at all comes before the id 0.
        let after = request.after.map(|(_, id)| id_bytes(id));
        let after = after.as_ref().map_or(&[][..], |id| &id[..]);
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        let filter = params![after, request.from.get(), request.to.get(), kind, limit];
        let rows = tables.all(&tables.sql.dead_page, filter, |row| {
            Ok((JobRow::read(row)?, row.get::<_, i64>(9)?, row.get::<_, i64>(10)?))
        })?;
        let full = rows.len() == request.limit;
        let next = rows.last().filter(|_| full).map(|(job, ..)| (job.due, job.id));
        let info = |(job, kind, died): (JobRow, i64, i64)| {
            let kind = kind_row(&self.kinds, kind)?.name.clone();
            Ok(job.info(kind, JobState::Dead, Some(Millis::clamped(died))))
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
        Ok(Counts { pending: alive.saturating_sub(running), running, dead, schedules })
    }
}
