//! Questions to the store: one job, pages of jobs, counts, gauges of each kind, dead jobs by error.
//!
//! Ground rules:
//!
//! - Pages of pending and of claimed jobs are in the order of due time, then of id. Those of jobs that have ended begin
//!   with the latest end.
//! - The jobs of a later hour lie in the order of their ids. To list them in the order of due time, a page
//!   reads the positions of the whole hour. It keeps them for the next pages, so that an hour of many
//!   jobs is not read again for each page.
//! - A page reads the payloads of its own jobs only, and at most about
//!   [`BYTES_PER_PAGE`](crate::store::BYTES_PER_PAGE).
//! - A kept position may be out of date: a page leaves out a job that is no longer at its position.

use std::collections::VecDeque;

use foldhash::{HashMap, HashSet};
use rusqlite::params;

use super::State;
use super::apply_op::nodes;
use super::ended::EndedRow;
use super::kept::{KeptList, LATEST_LISTS};
use super::schema::{
    ClaimedAt, JobRow, KindCounts, KindRow, MILLIS_PER_HOUR, Place, Table, hour_of, id_bytes,
    kind_row, millis_of, store_error,
};
use super::sql::{DEAD_BY_ERROR, PROGRESS};
use super::tables::Tables;
use crate::store::{Ending, JobSet, KindGauges, MOST_COUNTED, Page, PageKey, PageRequest};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{Counts, DeadByError, JobInfo, JobState, Number};
use crate::values::time::Millis;

impl State {
    pub(super) fn get(&self, tables: Tables<'_>, id: JobId) -> Result<Option<JobInfo>, StoreError> {
        if let Some(place) = tables.find(&self.kinds, id)? {
            let Some(job) = tables.job(place)? else { return Ok(None) };
            let claimed = self.claims.claimed_at(tables, id)?;
            let claimed = claimed.map(|at| (at, runner(tables)));
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
        let schedules =
            tables.one("SELECT count(*) FROM {p}schedule", [], |row| row.get::<_, u32>(0))?;
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
    ) -> Result<(Number, Option<Millis>), StoreError> {
        let (mut overdue, mut first) = (Number::default(), None);
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
    ) -> Result<(Number, Option<Millis>), StoreError> {
        let limit = i64::try_from(left.max(1) + claimed.len() as u64).unwrap_or(i64::MAX);
        let until = params![kind.n, now.get(), limit];
        let (mut read, mut dues) = (0, Vec::new());
        for table in Table::BY_DUE {
            let overdue = "SELECT due, id FROM {by_due} WHERE kind = ?1 AND due < ?2 \
                 ORDER BY due, id LIMIT ?3";
            let rows = tables.all((table, overdue), until, JobRow::read_position)?;
            read = read.max(rows.len() as i64);
            let unclaimed = rows.into_iter().filter(|position| !claimed.contains(position));
            dues.extend(unclaimed.map(|(due, _)| due));
        }
        // While no process runs the jobs, no job leaves `later`. Its rows have no order within an hour, so the
        // first of them is asked for by itself: that reads the jobs of one hour.
        let until = params![kind.n, hour_of(now), now.get(), limit];
        let later = tables.all(
            "SELECT due FROM {p}later WHERE kind = ?1 AND hour <= ?2 AND due < ?3 LIMIT ?4",
            until,
            |row| millis_of(row, 0),
        )?;
        read = read.max(later.len() as i64);
        let mut first = None;
        if !later.is_empty() {
            first = tables.one(
                "SELECT min(due) FROM {p}later WHERE kind = ?1 AND hour = (SELECT min(hour) \
                 FROM {p}later WHERE kind = ?1)",
                [kind.n],
                |row| millis_of(row, 0),
            )?;
        }
        dues.extend(later);
        first = first.into_iter().chain(dues.iter().copied().min()).min();
        Ok((Number { count: dues.len() as u64, is_exact: read < limit }, first))
    }
}

/// The most positions of an hour that are kept: 2 MiB. Behind them, the hour is read again.
const MOST_KEPT: usize = 1 << 16;
/// Fewer rows than this are not kept: the next page reads them again.
const CHEAP_ROWS: usize = 4096;

/// A due time in milliseconds, and an id. The time -1 comes before every job.
type PagePosition = (i64, JobId);

/// The positions of later jobs of one kind that follow a page.
pub(crate) struct Ahead {
    kind: i64,
    /// `rest` has every later job of the kind between `from` and `to`, less those of earlier pages.
    from: PagePosition,
    to: PagePosition,
    rest: VecDeque<PagePosition>,
}

impl State {
    pub(super) fn alive_page(
        &mut self,
        tables: Tables<'_>,
        request: &PageRequest,
    ) -> Result<Page, StoreError> {
        if request.after.is_none() {
            self.ahead.clear();
        }
        let after = match request.after {
            Some((due, id)) if due >= request.from => (due.get(), id),
            _ => (request.from.get() - 1, JobId::from_u128(u128::MAX)),
        };
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        let mut found: Vec<(PageKey, Place)> = Vec::new();
        let wanted = |name: &str| request.kind.as_ref().is_none_or(|kind| kind == name);
        let kinds = self.kinds.iter().filter(|kind| wanted(&kind.name));
        for kind in kinds.map(|kind| kind.n).collect::<Vec<i64>>() {
            let at = |(due, id): PageKey, table| ((due, id), Place { kind, due, id, table });
            let key = params![kind, after.0, id_bytes(after.1), request.to.get(), limit];
            for table in Table::BY_DUE {
                let page = "SELECT due, id FROM {by_due} WHERE kind = ?1 AND (due, id) > (?2, ?3) \
                     AND due <= ?4 ORDER BY due, id LIMIT ?5";
                let jobs = tables.all((table, page), key, JobRow::read_position)?;
                found.extend(jobs.into_iter().map(|key| at(key, table)));
            }
            let later = self.later_after(tables, kind, after, request.to, request.limit)?;
            let later = later.into_iter().map(|(due, id)| (Millis::clamped(due), id));
            found.extend(later.map(|key| at(key, Table::Later)));
        }
        found.sort_unstable_by_key(|(key, _)| *key);
        self.page_at(tables, found, request.limit)
    }

    pub(super) fn claimed_page(
        &self,
        tables: Tables<'_>,
        request: &PageRequest,
    ) -> Result<Page, StoreError> {
        let mut found = Vec::new();
        self.claimed(tables, |place| found.push(((place.due, place.id), place)))?;
        let is_wanted = |place: &Place| {
            let kind = kind_row(&self.kinds, place.kind);
            kind.is_ok_and(|kind| request.has_due(place.due, place.id, &kind.name))
        };
        found.retain(|(_, place)| is_wanted(place));
        found.sort_unstable_by_key(|(key, _)| *key);
        self.page_at(tables, found, request.limit)
    }

    /// Returns the page of the jobs at the first `limit` of these places.
    fn page_at(
        &self,
        tables: Tables<'_>,
        places: Vec<(PageKey, Place)>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let (claimed, runner) = (self.claims.all(tables)?, runner(tables));
        Page::read(places, limit, |(due, id), place| {
            let job = tables.job(place)?.filter(|job| job.due == due);
            let claimed = claimed.get(&id).map(|at| (*at, runner.clone()));
            let info = |job| self.alive_info(tables, place.kind, job, claimed);
            job.map(info).transpose()
        })
    }

    pub(super) fn alive_info(
        &self,
        tables: Tables<'_>,
        kind: i64,
        job: JobRow,
        claimed: Option<(ClaimedAt, Option<String>)>,
    ) -> Result<JobInfo, StoreError> {
        let kind = kind_row(&self.kinds, kind)?.name.clone();
        let Some((claimed, node)) = claimed else { return Ok(job.info(kind, JobState::Pending)) };
        let claimed = claimed.map(Millis::to_system);
        let progress = tables.one(PROGRESS, [id_bytes(job.id)], |row| row.get(0))?;
        let info = job.info(kind, JobState::Running);
        Ok(JobInfo { claimed, progress: progress.or(info.progress), node, ..info })
    }

    /// Returns the positions of the first `limit` later jobs of a kind behind `after`.
    fn later_after(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        after: PagePosition,
        to: Millis,
        limit: usize,
    ) -> Result<Vec<PagePosition>, StoreError> {
        let end = (to.get(), JobId::from_u128(u128::MAX));
        if let Some(ahead) = self.ahead.iter_mut().find(|ahead| ahead.kind == kind)
            && (ahead.from..=ahead.to).contains(&after)
        {
            while ahead.rest.front().is_some_and(|position| *position <= after) {
                ahead.rest.pop_front();
            }
            if ahead.rest.len() >= limit || ahead.to >= end {
                let rest = ahead.rest.iter().take_while(|position| **position <= end);
                return Ok(rest.take(limit).copied().collect());
            }
        }
        self.ahead.retain(|ahead| ahead.kind != kind);
        let Reading { found, rows, complete } = read_later(tables, kind, after, to, limit)?;
        let page = found.iter().take(limit).copied().collect();
        if rows >= CHEAP_ROWS {
            let last = if complete { Some(end) } else { found.last().copied() };
            let to = last.unwrap_or(end);
            self.ahead.push(Ahead { kind, from: after, to, rest: found.into() });
        }
        Ok(page)
    }
}

/// Positions of later jobs of a kind.
struct Reading {
    found: Vec<PagePosition>,
    rows: usize,
    /// No more positions follow.
    complete: bool,
}

/// Reads the positions behind `after`, hour by hour, until there are `limit` of them. Of an hour with
/// more than [`MOST_KEPT`] jobs it keeps the earliest ones.
fn read_later(
    tables: Tables<'_>,
    kind: i64,
    after: PagePosition,
    to: Millis,
    limit: usize,
) -> Result<Reading, StoreError> {
    let statement = tables.prepare(
        "SELECT due, id, hour FROM {p}later WHERE kind = ?1 AND hour BETWEEN ?2 AND ?3 \
         ORDER BY hour, id",
    );
    let mut statement = statement.map_err(store_error)?;
    let hours = params![kind, after.0.div_euclid(MILLIS_PER_HOUR), hour_of(to)];
    let mut found = statement.query(hours).map_err(store_error)?;
    let mut reading = Reading { found: Vec::new(), rows: 0, complete: true };
    let (mut hour, mut of_hour, mut cut) = (None, Vec::new(), false);
    while let Some(row) = found.next().map_err(store_error)? {
        let (due, id) = JobRow::read_position(row).map_err(store_error)?;
        let row_hour: i64 = row.get(2).map_err(store_error)?;
        if hour.replace(row_hour).is_some_and(|hour| hour != row_hour) {
            keep(&mut reading.found, &mut of_hour, cut);
            if cut || reading.found.len() >= limit {
                reading.complete = false;
                return Ok(reading);
            }
        }
        reading.rows += 1;
        let position = (due.get(), id);
        if position > after && due <= to {
            of_hour.push(position);
        }
        if of_hour.len() == 2 * MOST_KEPT {
            of_hour.select_nth_unstable(MOST_KEPT);
            of_hour.truncate(MOST_KEPT);
            cut = true;
        }
    }
    keep(&mut reading.found, &mut of_hour, cut);
    reading.complete = !cut;
    Ok(reading)
}

/// Appends the positions of an hour, sorted, to those of the hours before it.
fn keep(found: &mut Vec<PagePosition>, of_hour: &mut Vec<PagePosition>, cut: bool) {
    of_hour.sort_unstable();
    if cut {
        of_hour.truncate(MOST_KEPT);
    }
    found.append(of_hour);
}

impl State {
    /// Returns a page of jobs that have ended, the latest end first.
    pub(super) fn ended_page(
        &self,
        tables: Tables<'_>,
        request: &PageRequest,
    ) -> Result<Page, StoreError> {
        let wanted = |kind: &&KindRow| request.kind.as_ref().is_none_or(|name| *name == kind.name);
        let mut found = Vec::new();
        for kind in self.kinds.iter().filter(wanted) {
            for list in request.set.lists() {
                self.latest_ended(tables, request, (kind, list), &mut found)?;
                found.sort_unstable_by_key(|key| core::cmp::Reverse(*key));
                found.truncate(request.limit);
            }
        }
        let found = found.into_iter().map(|key| (key, ())).collect();
        let JobSet::Ended(only) = request.set else { return Ok(Page::default()) };
        let only = only.map(|ending| ending as i64);
        Page::read(found, request.limit, |(_, id), ()| {
            // The row of a job that is left out is not read: it may have 64 MiB.
            let row = tables.one(
                "SELECT {ended} FROM {p}ended WHERE id = ?1 AND due BETWEEN ?2 AND ?3 \
                 AND ending = coalesce(?4, ending)",
                params![id_bytes(id), request.from.get(), request.to.get(), only],
                EndedRow::read,
            )?;
            row.map(|row| self.ended_info(row)).transpose()
        })
    }

    /// Adds the latest jobs of a kind in the lists of this ending: as many as a page may have, and a few more. If a
    /// page has been found already, it adds the jobs that ended later than the last one of that page. No index has the
    /// jobs of all kinds or endings: it would cost more than the merge of their lists.
    fn latest_ended(
        &self,
        tables: Tables<'_>,
        request: &PageRequest,
        (kind, ending): (&KindRow, Ending),
        found: &mut Vec<PageKey>,
    ) -> Result<(), StoreError> {
        let counts = self.counts_of(kind);
        let has_none = match ending {
            Ending::Completed | Ending::Expired => counts.kept == 0,
            Ending::Dead => counts.dead == 0,
            Ending::Cancelled => false,
        };
        if has_none {
            return Ok(());
        }
        let last = request.limit.checked_sub(1).and_then(|last| found.get(last)).copied();
        let end = found.len() + request.limit;
        let latest = request.after.map_or(i64::MAX, |(at, _)| at.get());
        tables
            .lists_by_time(LATEST_LISTS, params![kind.n, ending as i64, latest], |lists| {
                if last.is_some_and(|last| lists[0].at < last.0) {
                    return Ok(true);
                }
                let of = |list: KeptList| {
                    let jobs = list.jobs.into_iter();
                    jobs.map(move |job| (list.at, job.id))
                };
                let jobs = lists.into_iter().flat_map(of);
                found.extend(jobs.filter(|key| request.after.is_none_or(|after| *key < after)));
                Ok(found.len() >= end)
            })
            .map(drop)
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
        let groups = tables.all(DEAD_BY_ERROR, [most], |row| {
            let deaths: [i64; 2] = [row.get(3)?, row.get(4)?];
            Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, u32>(2)?, deaths))
        })?;
        let group = |(kind, error, jobs, deaths): (_, _, _, [i64; 2])| {
            let kind = kind_row(&self.kinds, kind)?.name.clone();
            let [first, last] = deaths.map(|at| Some(Millis::clamped(at).to_system()));
            let (first_died, last_died) = (first, last);
            Ok(DeadByError { kind, error, jobs: u64::from(jobs), first_died, last_died })
        };
        let mut groups = groups.into_iter().map(group).collect::<Result<Vec<_>, StoreError>>()?;
        groups.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.cmp(b)));
        Ok(groups)
    }
}

/// Returns the name of the process that runs the jobs of the file, if it is noted.
fn runner(tables: Tables<'_>) -> Option<String> {
    nodes(tables).ok()?.pop().map(|node| node.name())
}
