//! Pages of pending and of claimed jobs, in the order of due time, then of id.
//!
//! Ground rules:
//!
//! - The jobs of a later hour lie in the order of their ids. To list them in the order of due time, a page
//!   reads the positions of the whole hour. It keeps them for the next pages, so that an hour of many
//!   jobs is not read again for each page.
//! - A page reads the payloads of its own jobs only, and at most about [`BYTES_PER_PAGE`](crate::store::BYTES_PER_PAGE).
//! - A kept position may be out of date: a page leaves out a job that is no longer at its position.

use std::collections::VecDeque;

use rusqlite::params;

use super::State;
use super::rows::{
    ClaimedAt, JobRow, MILLIS_PER_HOUR, Place, Table, hour_of, id_bytes, kind_row, store_error,
};
use super::tables::Tables;
use crate::store::{Page, PageKey, PageRequest};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::time::Millis;

/// The most positions of an hour that are kept: 2 MiB. Behind them, the hour is read again.
const MOST_KEPT: usize = 1 << 16;
/// Fewer rows than this are not kept: the next page reads them again.
const CHEAP_ROWS: usize = 4096;

/// A due time in milliseconds, and an id. The time -1 comes before every job.
type Position = (i64, JobId);

/// The positions of later jobs of one kind that follow a page.
pub(crate) struct Ahead {
    kind: i64,
    /// `rest` has every later job of the kind between `from` and `to`, less those of earlier pages.
    from: Position,
    to: Position,
    rest: VecDeque<Position>,
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
        let mut found: Vec<(Position, i64, Table)> = Vec::new();
        let wanted = |name: &str| request.kind.as_ref().is_none_or(|kind| kind == name);
        let kinds = self.kinds.iter().filter(|kind| wanted(&kind.name));
        for kind in kinds.map(|kind| kind.n).collect::<Vec<i64>>() {
            let key = params![kind, after.0, id_bytes(after.1), request.to.get(), limit];
            let jobs = tables.all(&tables.sql.page, key, JobRow::read_position)?;
            found.extend(jobs.into_iter().map(|(due, id)| ((due.get(), id), kind, Table::Job)));
            if tables.sql.has_lanes.get() {
                let jobs = tables.all(&tables.sql.lane_page, key, JobRow::read_position)?;
                let in_lanes = jobs.into_iter().map(|(due, id)| ((due.get(), id), kind));
                found.extend(in_lanes.map(|(position, kind)| (position, kind, Table::Lane)));
            }
            let later = self.later_after(tables, kind, after, request.to, request.limit)?;
            found.extend(later.into_iter().map(|position| (position, kind, Table::Later)));
        }
        found.sort_unstable_by_key(|(position, ..)| *position);
        found.truncate(request.limit);
        let mut next = found.last().map(|(position, ..)| *position);
        if found.len() < request.limit {
            next = None;
        }
        let key = |(due, id): Position| (Millis::clamped(due), id);
        let places = found.into_iter().map(|(position, kind, table)| {
            let (due, id) = key(position);
            ((due, id), Place { kind, due, id, table })
        });
        self.page_at(tables, places, next.map(key))
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
        found.truncate(request.limit);
        let next = found.last().map(|(key, _)| *key).filter(|_| found.len() == request.limit);
        self.page_at(tables, found, next)
    }

    /// Returns the page of the jobs at these places.
    fn page_at(
        &self,
        tables: Tables<'_>,
        places: impl IntoIterator<Item = (PageKey, Place)>,
        next: Option<PageKey>,
    ) -> Result<Page, StoreError> {
        let claimed = self.claims.all(tables)?;
        Page::read(places, next, |(due, id), place| {
            let job = tables.job(place)?.filter(|job| job.due == due);
            let info = |job| self.alive_info(tables, place.kind, job, claimed.get(&id).copied());
            job.map(info).transpose()
        })
    }

    pub(super) fn alive_info(
        &self,
        tables: Tables<'_>,
        kind: i64,
        job: JobRow,
        claimed: Option<ClaimedAt>,
    ) -> Result<JobInfo, StoreError> {
        let kind = kind_row(&self.kinds, kind)?.name.clone();
        let Some(claimed) = claimed else { return Ok(job.info(kind, JobState::Pending)) };
        let claimed = claimed.map(Millis::to_system);
        let progress = tables.one(&tables.sql.progress, [id_bytes(job.id)], |row| row.get(0))?;
        Ok(JobInfo { claimed, progress, ..job.info(kind, JobState::Running) })
    }

    /// Returns the positions of the first `limit` later jobs of a kind behind `after`.
    fn later_after(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        after: Position,
        to: Millis,
        limit: usize,
    ) -> Result<Vec<Position>, StoreError> {
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
    found: Vec<Position>,
    rows: usize,
    /// No more positions follow.
    complete: bool,
}

/// Reads the positions behind `after`, hour by hour, until there are `limit` of them. Of an hour with
/// more than [`MOST_KEPT`] jobs it keeps the earliest ones.
fn read_later(
    tables: Tables<'_>,
    kind: i64,
    after: Position,
    to: Millis,
    limit: usize,
) -> Result<Reading, StoreError> {
    let statement = tables.conn.prepare_cached(&tables.sql.later_page);
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
fn keep(found: &mut Vec<Position>, of_hour: &mut Vec<Position>, cut: bool) {
    of_hour.sort_unstable();
    if cut {
        of_hour.truncate(MOST_KEPT);
    }
    found.append(of_hour);
}
