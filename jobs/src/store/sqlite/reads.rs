//! Questions to the store: one job, counts.

use std::collections::HashSet;

use rusqlite::params;

use super::State;
use super::rows::{JobRow, KindCounts, hour_of, millis_of};
use super::tables::Tables;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{Counts, JobInfo, Overdue};
use crate::values::time::Millis;

/// How many overdue jobs are counted.
const MOST_COUNTED: u64 = 10_000;

impl State {
    pub(super) fn get(&self, tables: Tables<'_>, id: JobId) -> Result<Option<JobInfo>, StoreError> {
        if let Some(place) = tables.find(&self.kinds, id)? {
            let Some(job) = tables.job(place)? else { return Ok(None) };
            let claimed = self.claims.is_claimed(tables, id)?;
            return self.alive_info(tables, place.kind, job, claimed).map(Some);
        }
        tables.ended(id)?.map(|row| self.ended_info(row)).transpose()
    }

    pub(super) fn counts(&self, tables: Tables<'_>, now: Millis) -> Result<Counts, StoreError> {
        let mut all = KindCounts::default();
        self.kinds.iter().for_each(|kind| all.add(self.counts_of(kind)));
        let of = |count: i64| u64::try_from(count).unwrap_or(0);
        let (alive, dead) = (of(all.jobs), of(all.dead));
        let mut claimed = HashSet::new();
        for id in self.claims.all(tables)? {
            claimed.extend(tables.find(&self.kinds, id)?.map(|place| (place.due, place.id)));
        }
        let schedules = tables.one(&tables.sql.counts, [], |row| row.get::<_, u32>(0))?;
        let schedules = u64::from(schedules.unwrap_or(0));
        let running = claimed.len() as u64;
        let pending = alive.saturating_sub(running);
        let (overdue, first) = self.overdue(tables, &claimed, now)?;
        let oldest_overdue = first.map(|due| now.since(due));
        Ok(Counts { pending, claimed: 0, running, dead, schedules, overdue, oldest_overdue })
    }

    /// Counts the unclaimed jobs that were due before now, and returns the first due time of them. It looks at
    /// [`MOST_COUNTED`] rows, and as many more as there are claims.
    fn overdue(
        &self,
        tables: Tables<'_>,
        claimed: &HashSet<(Millis, JobId)>,
        now: Millis,
    ) -> Result<(Overdue, Option<Millis>), StoreError> {
        let (mut overdue, mut first) = (Overdue::default(), None);
        for kind in &self.kinds {
            // Each kind is looked at, since its first job may be the oldest of all.
            let left = MOST_COUNTED.saturating_sub(overdue.count);
            let limit = i64::try_from(left.max(1) + claimed.len() as u64).unwrap_or(i64::MAX);
            let until = params![kind.n, now.get(), limit];
            let rows = tables.all(&tables.sql.overdue, until, JobRow::read_position)?;
            let mut read = rows.len() as i64;
            let unclaimed = rows.into_iter().filter(|position| !claimed.contains(position));
            let mut dues: Vec<Millis> = unclaimed.map(|(due, _)| due).collect();
            // While no process runs the jobs, no job leaves `later`. Its rows have no order within an hour, so the
            // first of them is asked for by itself: that reads the jobs of one hour.
            let until = params![kind.n, hour_of(now), now.get(), limit];
            let later = tables.all(&tables.sql.overdue_later, until, |row| millis_of(row, 0))?;
            read = read.max(later.len() as i64);
            if !later.is_empty() {
                let earliest =
                    tables.one(&tables.sql.first_later, [kind.n], |row| millis_of(row, 0))?;
                first = first.into_iter().chain(earliest).min();
            }
            dues.extend(later);
            first = first.into_iter().chain(dues.iter().copied().min()).min();
            overdue.is_exact &= read < limit;
            overdue.count += dues.len() as u64;
        }
        if !overdue.is_exact {
            overdue.count = overdue.count.min(MOST_COUNTED);
        }
        Ok((overdue, first))
    }
}
