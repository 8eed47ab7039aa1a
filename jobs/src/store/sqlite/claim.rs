//! Claims the jobs that are due, and writes the claims that a transaction has made and ended.

use std::ops::Bound;
use std::sync::Arc;

use foldhash::HashMap;
use rusqlite::params;

use super::claims::{Batch, Change, Claims, Cursor, Held, admits_suspects};
use super::rows::{Place, id_bytes, store_error};
use super::scan::{Head, Scan};
use super::state::State;
use super::tables::Tables;
use crate::store::{ClaimRequest, Claimed, Fence, Unreadable};
use crate::values::error::StoreError;
use crate::values::extra::Extra;
use crate::values::head_start::Rank;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// The batch of claims whose row is not written yet.
const UNWRITTEN: i64 = -1;

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
        let Claims { held, cursors, starts, claimed: fences, journal, fresh, .. } =
            &mut self.claims;
        let scanned: Vec<usize> = (0..cursors.len())
            .filter(|&at| cursors[at].next.is_some_and(|next| next <= request.until))
            .filter(|&at| request.has_room(&cursors[at].name))
            .collect();
        let prepare = |_: &usize| tables.conn.prepare_cached(&tables.sql.scan).map_err(store_error);
        let mut statements = scanned.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let mut scans: Vec<Option<Scan<'_>>> = cursors.iter().map(|_| None).collect();
        for (statement, &at) in statements.iter_mut().zip(&scanned) {
            let cursor = &mut cursors[at];
            let (due, id) = cursor.start;
            let key = params![cursor.kind, due.get(), id_bytes(id)];
            let rows = statement.query(key).map_err(store_error)?;
            let mut scan = Scan { rows, head: None };
            scan.advance(held, &mut cursor.waiting, request.until, &mut self.unreadable)?;
            scans[at] = Some(scan);
        }
        let (mut claimed, mut bytes) = (Vec::new(), 0);
        cursors.iter_mut().for_each(|cursor| cursor.passed = Bound::Unbounded);
        while claimed.len() < request.limit && bytes < BYTES_PER_CLAIM {
            let innocent = scans.iter().enumerate().filter_map(|(at, scan)| match scan {
                Some(Scan { head: Some(Head::Due(job)), .. })
                    if request.has_room(&cursors[at].name) =>
                {
                    Some(((request.rank(&cursors[at].name, job.due), job.id), at))
                }
                _ => None,
            });
            let innocent = innocent.min();
            let suspect = match admits_suspects(request) {
                true => first_waiting(cursors, request)
                    .filter(|(next, _)| innocent.is_none_or(|(first, _)| *next < first)),
                false => None,
            };
            let (at, job) = match (suspect, innocent) {
                (Some((_, at)), _) => {
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
                    let place = Place { kind: cursor.kind, due, id, later: false };
                    let job = match tables.job(place) {
                        Err(error @ StoreError::Damaged(_)) => {
                            let what = format!("job {id}");
                            self.unreadable.push(Unreadable { what, error });
                            continue;
                        }
                        read => read?,
                    };
                    match job {
                        Some(job) if job.interruptions == interruptions => {
                            *request = without;
                            (at, job)
                        }
                        // The job has gone, or its row has changed: then a scan finds the new row.
                        _ => continue,
                    }
                }
                (None, Some((_, at))) => {
                    let Some(scan) = &mut scans[at] else { break };
                    let Some(Head::Due(job)) = scan.head.take() else { break };
                    (at, job)
                }
                (None, None) => break,
            };
            let cursor = &mut cursors[at];
            *fences += 1;
            request.takes(&cursor.name);
            let place = Place { kind: cursor.kind, due: job.due, id: job.id, later: false };
            let extra = Extra::read(job.extra.as_deref())?;
            held.insert(job.id, Held { order: *fences, batch: UNWRITTEN, ..Held::of(place, &job) });
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
            if is_innocent && let Some(scan) = &mut scans[at] {
                scan.advance(held, &mut cursor.waiting, request.until, &mut self.unreadable)?;
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
        }
        Ok(claimed)
    }

    /// Writes the claims that this transaction has made and ended.
    pub(crate) fn write_claims(&mut self, tables: Tables<'_>) -> Result<(), StoreError> {
        let claims = &mut self.claims;
        let mut stale: HashMap<i64, Vec<(u64, JobId)>> = HashMap::default();
        for n in claims.touched.drain() {
            let Some(batch) = claims.batches.get_mut(&n) else { continue };
            if batch.left == 0 {
                tables.execute(&tables.sql.drop_claim, [n])?;
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
            tables.execute(&tables.sql.set_claim, params![n, ids])?;
        }
        if claims.fresh.is_empty() {
            return Ok(());
        }
        let ids: Vec<u8> = claims.fresh.iter().flat_map(|id| id_bytes(*id)).collect();
        tables.execute(&tables.sql.put_claim, [ids])?;
        let n = tables.conn.last_insert_rowid();
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

/// Returns the rank and the id of the first due suspect that the claim has not considered yet, and the index of its
/// cursor.
fn first_waiting(cursors: &[Cursor], request: &ClaimRequest) -> Option<((Rank, JobId), usize)> {
    let first = |cursor: &Cursor| {
        if !request.has_room(&cursor.name) {
            return None;
        }
        let (due, id) = cursor.next_waiting(request.until)?;
        Some((request.rank(&cursor.name, due), id))
    };
    cursors.iter().enumerate().filter_map(|(at, cursor)| Some((first(cursor)?, at))).min()
}
