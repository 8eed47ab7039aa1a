//! Claims the jobs that are due, and writes the claims that a transaction has made and ended.

use std::ops::Bound;
use std::sync::Arc;

use foldhash::HashMap;
use rusqlite::params;

use super::claims::{Batch, Change, Claims, Cursor, Held, admits_suspects};
use super::lane_table::{First, LaneTable, MOVES_PER_COMMIT};
use super::rows::{Place, RowNumber, Table, id_bytes, store_error};
use super::scan::{Head, Scan};
use super::state::State;
use super::tables::Tables;
use crate::store::{ClaimRequest, Claimed, Fence, Unreadable};
use crate::values::error::StoreError;
use crate::values::extra::Extra;
use crate::values::head_start::Rank;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A claim ends once the payloads of its jobs reach this many bytes. The next step claims the rest.
const BYTES_PER_CLAIM: usize = 4 << 20;

/// How many bits of a fence count the claims since the process started.
const CLAIM_BITS: u32 = 40;

const END: (Millis, JobId) = (Millis::MAX, JobId::from_u128(u128::MAX));

impl State {
    /// Claims the first jobs, in the order of rank.
    pub(crate) fn claim(
        &mut self,
        tables: Tables<'_>,
        request: &mut ClaimRequest,
    ) -> Result<Vec<Claimed>, StoreError> {
        let latest = request.until;
        // Later jobs may be in the table of later hours.
        request.until = latest.min(self.hours.end());
        let now = request.now.min(request.until);
        self.prepare_lanes(tables, now)?;
        let State { lane_table, unreadable, .. } = self;
        let Claims { held, cursors, starts, claimed: fences, journal, fresh, .. } =
            &mut self.claims;
        let scanned: Vec<usize> = (0..cursors.len())
            .filter(|&at| {
                let until = cursors[at].claimable_until(request, &lane_table.lanes);
                cursors[at].next.is_some_and(|next| next <= until)
            })
            .filter(|&at| has_room(request, lane_table, &cursors[at]))
            .collect();
        let prepare = |_: &usize| tables.conn.prepare_cached(&tables.sql.scan).map_err(store_error);
        let mut statements = scanned.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let mut scans: Vec<Option<Scan<'_>>> = cursors.iter().map(|_| None).collect();
        for (statement, &at) in statements.iter_mut().zip(&scanned) {
            let cursor = &mut cursors[at];
            let (due, id) = cursor.start;
            let key = params![cursor.kind, due.get(), id_bytes(id)];
            let rows = statement.query(key).map_err(store_error)?;
            let mut scan = Scan { rows, head: None, any_part: false };
            let until = cursor.claimable_until(request, &lane_table.lanes);
            scan.advance(held, &mut cursor.waiting, until, unreadable)?;
            scans[at] = Some(scan);
        }
        let (mut claimed, mut bytes, mut back) = (Vec::new(), 0, Vec::new());
        let mut heads: Vec<Option<LaneHead>> = cursors.iter().map(|_| None).collect();
        cursors.iter_mut().for_each(|cursor| cursor.passed = Bound::Unbounded);
        while claimed.len() < request.limit && bytes < BYTES_PER_CLAIM {
            let innocent = scans.iter().enumerate().filter_map(|(at, scan)| match scan {
                Some(Scan { head: Some(Head::Due(job)), .. })
                    if has_room(request, lane_table, &cursors[at]) =>
                {
                    Some(((request.rank(&cursors[at].name, job.due), job.id), at))
                }
                _ => None,
            });
            let innocent = innocent.min();
            let mut in_lanes: Option<((Rank, JobId), usize)> = None;
            for (at, cursor) in cursors.iter().enumerate() {
                if !lane_table.lanes.any_in_turn(&cursor.name)
                    || !request.has_room_in_lanes(&cursor.name)
                    || !lane_table.lanes.has_room(&cursor.name)
                {
                    continue;
                }
                let head = lane_head(
                    tables,
                    cursor,
                    lane_table,
                    (&*held, now),
                    heads[at].take(),
                    &mut back,
                )?;
                let Some(head) = head else { continue };
                let rank = (request.rank(&cursor.name, head.at.0), head.at.1);
                heads[at] = Some(head);
                in_lanes = in_lanes.into_iter().chain([(rank, at)]).min();
            }
            let suspect = match admits_suspects(request) {
                true => first_waiting(cursors, request, lane_table)
                    .filter(|(next, _)| innocent.is_none_or(|(first, _)| *next < first)),
                false => None,
            };
            let plain = suspect.or(innocent).map(|(rank, _)| rank);
            let in_lanes = in_lanes.filter(|(rank, _)| plain.is_none_or(|plain| *rank < plain));
            let (at, mut job, table) = match (in_lanes, suspect, innocent) {
                (Some((_, at)), ..) => {
                    let cursor = &cursors[at];
                    let Some(LaneHead { part, at: (due, id) }) = heads[at].take() else { break };
                    let place = Place { kind: cursor.kind, due, id, table: Table::Lane };
                    let job = match tables.job(place) {
                        Err(error @ StoreError::Damaged(_)) => {
                            unreadable.push(Unreadable { what: format!("job {id}"), error });
                            lane_table.pass(cursor.kind, &part, (due, id));
                            continue;
                        }
                        read => read?,
                    };
                    let Some(job) = job else {
                        lane_table.pass(cursor.kind, &part, (due, id));
                        continue;
                    };
                    if !request.admits(job.interruptions) {
                        lane_table.lanes.pass_over(&cursor.name, &part);
                        continue;
                    }
                    lane_table.pass(cursor.kind, &part, (due, id));
                    (at, job, Table::Lane)
                }
                (_, Some((_, at)), _) => {
                    let cursor = &mut cursors[at];
                    let Some(position) = cursor.next_waiting(request.until) else { break };
                    cursor.passed = Bound::Excluded(position);
                    let interruptions = cursor.waiting.get(&position).copied().unwrap_or(0);
                    let mut without = request.clone();
                    if !without.admits(interruptions) {
                        continue;
                    }
                    cursor.waiting.remove(&position);
                    let (due, id) = position;
                    let place = Place { kind: cursor.kind, due, id, table: Table::Job };
                    let job = match tables.job(place) {
                        Err(error @ StoreError::Damaged(_)) => {
                            let what = format!("job {id}");
                            unreadable.push(Unreadable { what, error });
                            continue;
                        }
                        read => read?,
                    };
                    match job {
                        Some(job) if job.interruptions == interruptions => {
                            *request = without;
                            (at, job, Table::Job)
                        }
                        // The job has gone, or its row has changed: then a scan finds the new row.
                        _ => continue,
                    }
                }
                (_, None, Some((_, at))) => {
                    let Some(scan) = &mut scans[at] else { break };
                    let Some(Head::Due(job)) = scan.head.take() else { break };
                    (at, job, Table::Job)
                }
                (None, None, None) => break,
            };
            let cursor = &mut cursors[at];
            *fences += 1;
            let part = job.part.take().filter(|_| table == Table::Lane);
            request.takes(&cursor.name, part.is_some() || lane_table.lanes.has_rate(&cursor.name));
            lane_table.lanes.claimed((job.id, &cursor.name, part.as_ref()));
            let place = Place { kind: cursor.kind, due: job.due, id: job.id, table };
            let extra = Extra::read(job.extra.as_deref())?;
            held.insert(job.id, Held { part, order: *fences, ..Held::of(place, &job) });
            journal.push(Change::Added(job.id));
            fresh.push(job.id);
            let is_innocent = job.interruptions == 0;
            bytes += job.payload.len();
            claimed.push(Claimed {
                id: job.id,
                kind: Arc::clone(&cursor.name),
                due: job.due,
                failures: job.failures,
                interruptions: job.interruptions,
                attempts: job.attempts,
                key: job.key,
                errors: job.errors,
                extra,
                payload: job.payload,
                fence: fence_of(*starts, *fences),
            });
            if is_innocent
                && table == Table::Job
                && let Some(scan) = &mut scans[at]
            {
                let until = cursor.claimable_until(request, &lane_table.lanes);
                scan.advance(held, &mut cursor.waiting, until, unreadable)?;
            }
        }
        for (scan, cursor) in scans.iter().zip(cursors) {
            let Some(scan) = scan else { continue };
            let head = match &scan.head {
                None => None,
                Some(Head::Due(job)) => Some((job.due, job.id)),
                Some(Head::Later(position)) => Some(*position),
            };
            cursor.start = head.unwrap_or(END);
            cursor.next = head.map(|(due, _)| due);
            lane_table.is_wanted |= scan.any_part && !tables.sql.has_lanes.get();
        }
        request.until = latest;
        drop(scans);
        drop(statements);
        let are_more_left = back.len() >= MOVES_PER_COMMIT;
        for (kind, at) in back {
            self.move_back(tables, kind, at)?;
        }
        if are_more_left {
            self.claims.cursors.iter_mut().for_each(|cursor| cursor.next_part = Some(now));
        }
        Ok(claimed)
    }

    /// Writes the claims that this transaction has made and ended.
    pub(crate) fn write_claims(
        &mut self,
        tables: Tables<'_>,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.write_tokens(tables)?;
        let claims = &mut self.claims;
        let mut stale: HashMap<RowNumber, Vec<(u64, JobId)>> = HashMap::default();
        for n in claims.touched.drain() {
            let Some(batch) = claims.batches.get_mut(&n) else { continue };
            if batch.left == 0 {
                tables.execute(&tables.sql.drop_claim, [n.0])?;
                claims.batches.remove(&n);
            } else if core::mem::take(&mut batch.stale) {
                stale.insert(n, Vec::with_capacity(batch.left));
            }
        }
        if !stale.is_empty() {
            for (id, held) in &claims.held {
                if let Some(left) = stale.get_mut(&held.batch) {
                    left.push((held.order, *id));
                }
            }
        }
        for (n, mut left) in stale {
            // In the order of claiming, by which a restart tells which job may have ended the process.
            left.sort_unstable();
            let ids: Vec<u8> = left.iter().flat_map(|(_, id)| id_bytes(*id)).collect();
            tables.execute(&tables.sql.set_claim, params![n.0, ids])?;
        }
        if claims.fresh.is_empty() {
            return Ok(());
        }
        let ids: Vec<u8> = claims.fresh.iter().flat_map(|id| id_bytes(*id)).collect();
        let n = RowNumber::after(claims.last_row, now);
        claims.last_row = n;
        tables.execute(&tables.sql.put_claim, params![n.0, ids])?;
        claims.batches.insert(n, Batch { left: claims.fresh.len(), stale: false });
        for id in claims.fresh.drain(..) {
            if let Some(held) = claims.held.get_mut(&id) {
                held.batch = n;
            }
        }
        Ok(())
    }
}

/// Returns how often a process had started to run the jobs of the file when the claim with this fence was made.
pub(super) fn starts_of(fence: Fence) -> u64 {
    fence.get() >> CLAIM_BITS
}

/// Returns the fence of the claim with this number, counted since the process started.
pub(super) fn fence_of(starts: u64, claims: u64) -> Fence {
    Fence::new(starts << CLAIM_BITS | claims, 0)
}

/// The first job of the lane of a kind that is next in turn.
struct LaneHead {
    part: Arc<str>,
    at: (Millis, JobId),
}

/// Returns the first job of the lane of a kind that is next in turn. `found`: what it was before. Adds to `back` the
/// jobs of lanes that are not due, up to [`MOVES_PER_COMMIT`].
fn lane_head(
    tables: Tables<'_>,
    cursor: &Cursor,
    lane_table: &mut LaneTable,
    (held, now): (&HashMap<JobId, Held>, Millis),
    found: Option<LaneHead>,
    back: &mut Vec<(i64, (Millis, JobId))>,
) -> Result<Option<LaneHead>, StoreError> {
    let kind = (cursor.kind, &cursor.name);
    while let Some(part) = lane_table.lanes.next(&cursor.name) {
        if let Some(found) = found.as_ref().filter(|found| found.part == part) {
            return Ok(Some(LaneHead { part, at: found.at }));
        }
        match lane_table.first(tables, kind, &part, (held, now))? {
            First::Due(at) => return Ok(Some(LaneHead { part, at })),
            // The next commit goes on here.
            First::Later(_) if back.len() >= MOVES_PER_COMMIT => return Ok(None),
            First::Later(at) => {
                lane_table.pass(cursor.kind, &part, at);
                back.push((cursor.kind, at));
            }
            First::None => {}
        }
    }
    Ok(None)
}

/// Says whether one more job of the kind may be claimed.
fn has_room(request: &ClaimRequest, lane_table: &LaneTable, cursor: &Cursor) -> bool {
    let lanes = &lane_table.lanes;
    request.has_room_of(&cursor.name, lanes.has_rate(&cursor.name)) && lanes.has_room(&cursor.name)
}

/// Returns the rank and the id of the first due suspect that the claim has not considered yet, and the index of its
/// cursor.
fn first_waiting(
    cursors: &[Cursor],
    request: &ClaimRequest,
    lane_table: &LaneTable,
) -> Option<((Rank, JobId), usize)> {
    let first = |cursor: &Cursor| {
        if !has_room(request, lane_table, cursor) {
            return None;
        }
        let until = cursor.claimable_until(request, &lane_table.lanes);
        let (due, id) = cursor.next_waiting(until)?;
        Some((request.rank(&cursor.name, due), id))
    };
    cursors.iter().enumerate().filter_map(|(at, cursor)| Some((first(cursor)?, at))).min()
}
