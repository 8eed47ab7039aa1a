//! Questions to the store: one job, counts.

use super::State;
use super::rows::KindCounts;
use super::tables::Tables;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{Counts, JobInfo};

impl State {
    pub(super) fn get(&self, tables: Tables<'_>, id: JobId) -> Result<Option<JobInfo>, StoreError> {
        if let Some(place) = tables.find(&self.kinds, id)? {
            let Some(job) = tables.job(place)? else { return Ok(None) };
            let claimed = self.claims.is_claimed(tables, id)?;
            return self.alive_info(tables, place.kind, job, claimed).map(Some);
        }
        tables.ended(id)?.map(|row| self.ended_info(row)).transpose()
    }

    pub(super) fn counts(&self, tables: Tables<'_>) -> Result<Counts, StoreError> {
        let mut all = KindCounts::default();
        self.kinds.iter().for_each(|kind| all.add(self.counts_of(kind)));
        let of = |count: i64| u64::try_from(count).unwrap_or(0);
        let (alive, dead) = (of(all.jobs), of(all.dead));
        let mut running = 0;
        for id in self.claims.all(tables)? {
            running += u64::from(tables.find(&self.kinds, id)?.is_some());
        }
        let schedules = tables.one(&tables.sql.counts, [], |row| row.get::<_, u32>(0))?;
        let schedules = u64::from(schedules.unwrap_or(0));
        let pending = alive.saturating_sub(running);
        Ok(Counts { pending, claimed: 0, running, dead, schedules })
    }
}
