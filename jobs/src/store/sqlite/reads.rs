//! Questions to the store: one job, counts, gauges of each kind.

use foldhash::{HashMap, HashSet};

use rusqlite::params;

use super::State;
use super::rows::{JobRow, KindCounts, KindRow, Place, hour_of, millis_of};
use super::tables::Tables;
use crate::store::KindGauges;
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
            let claimed = self.claims.claimed_at(tables, id)?;
            return self.alive_info(tables, place.kind, job, claimed).map(Some);
        }
        tables.ended(id)?.map(|row| self.ended_info(row)).transpose()
    }

    pub(super) fn counts(&self, tables: Tables<'_>, now: Millis) -> Result<Counts, StoreError> {
        let mut all = KindCounts::default();
        self.kinds.iter().for_each(|kind| all.add(self.counts_of(kind)));
        let of = |count: i64| u64::try_from(count).unwrap_or(0);
        let (alive, dead) = (of(all.jobs), of(all.dead));
        let mut claimed = HashSet::default();
        self.claimed(tables, |place| claimed.extend([(place.due, place.id)]))?;
        let schedules = tables.one(&tables.sql.counts, [], |row| row.get::<_, u32>(0))?;
        let schedules = u64::from(schedules.unwrap_or(0));
        let running = claimed.len() as u64;
        let pending = alive.saturating_sub(running);
        let (overdue, first) = self.overdue(tables, &claimed, now)?;
        let oldest_overdue = first.map(|due| now.since(due));
        Ok(Counts { pending, claimed: 0, running, dead, schedules, overdue, oldest_overdue })
    }

    /// Calls the function with the place of each claimed job.
    pub(super) fn claimed(
        &self,
        tables: Tables<'_>,
        mut of: impl FnMut(Place),
    ) -> Result<(), StoreError> {
        for id in self.claims.all(tables)?.into_keys() {
            tables.find(&self.kinds, id)?.into_iter().for_each(&mut of);
        }
        Ok(())
    }

    /// Returns each kind with its jobs by state. It reads as many rows as [`State::counts`].
    pub(super) fn gauges(
        &self,
        tables: Tables<'_>,
        now: Millis,
    ) -> Result<Vec<KindGauges>, StoreError> {
        let (mut positions, mut by_kind) = (HashSet::default(), HashMap::<i64, u64>::default());
        self.claimed(tables, |place| {
            positions.insert((place.due, place.id));
            *by_kind.entry(place.kind).or_default() += 1;
        })?;
        let (mut gauges, mut left) = (Vec::new(), MOST_COUNTED);
        let of = |count: i64| u64::try_from(count).unwrap_or(0);
        for kind in &self.kinds {
            let counts = self.counts_of(kind);
            let claimed = by_kind.get(&kind.n).copied().unwrap_or(0);
            let (overdue, first) = self.overdue_of(tables, kind, &positions, left, now)?;
            let overdue = overdue.count.min(left.max(1));
            left = left.saturating_sub(overdue);
            gauges.push(KindGauges {
                kind: kind.name.clone(),
                pending: of(counts.jobs).saturating_sub(claimed),
                claimed,
                dead: of(counts.dead),
                overdue,
                oldest_overdue: first.map(|due| now.since(due)),
            });
        }
        Ok(gauges)
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
            let left = MOST_COUNTED.saturating_sub(overdue.count);
            let (of_kind, its_first) = self.overdue_of(tables, kind, claimed, left, now)?;
            first = first.into_iter().chain(its_first).min();
            overdue.is_exact &= of_kind.is_exact;
            overdue.count += of_kind.count;
        }
        if !overdue.is_exact {
            overdue.count = overdue.count.min(MOST_COUNTED);
        }
        Ok((overdue, first))
    }

    /// Does the same for one kind: it counts as many as are `left` of the rows to look at, and looks at one at least,
    /// since the first job of the kind may be the oldest of all.
    fn overdue_of(
        &self,
        tables: Tables<'_>,
        kind: &KindRow,
        claimed: &HashSet<(Millis, JobId)>,
        left: u64,
        now: Millis,
    ) -> Result<(Overdue, Option<Millis>), StoreError> {
        let limit = i64::try_from(left.max(1) + claimed.len() as u64).unwrap_or(i64::MAX);
        let until = params![kind.n, now.get(), limit];
        let rows = tables.all(&tables.sql.overdue, until, JobRow::read_position)?;
        let mut read = rows.len() as i64;
        let unclaimed = rows.into_iter().filter(|position| !claimed.contains(position));
        let mut dues: Vec<Millis> = unclaimed.map(|(due, _)| due).collect();
        if tables.sql.has_lanes.get() {
            let rows = tables.all(&tables.sql.overdue_lane, until, JobRow::read_position)?;
            read = read.max(rows.len() as i64);
            let unclaimed = rows.into_iter().filter(|position| !claimed.contains(position));
            dues.extend(unclaimed.map(|(due, _)| due));
        }
        // While no process runs the jobs, no job leaves `later`. Its rows have no order within an hour, so the
        // first of them is asked for by itself: that reads the jobs of one hour.
        let until = params![kind.n, hour_of(now), now.get(), limit];
        let later = tables.all(&tables.sql.overdue_later, until, |row| millis_of(row, 0))?;
        read = read.max(later.len() as i64);
        let mut first = None;
        if !later.is_empty() {
            first = tables.one(&tables.sql.first_later, [kind.n], |row| millis_of(row, 0))?;
        }
        dues.extend(later);
        first = first.into_iter().chain(dues.iter().copied().min()).min();
        Ok((Overdue { count: dues.len() as u64, is_exact: read < limit }, first))
    }
}
