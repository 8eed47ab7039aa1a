//! Which jobs are claimed, and how far each kind was read.
//!
//! Ground rules:
//!
//! - Every job of a handled kind that lies before the kind's `start` is claimed, or waits. What is written
//!   before `start` moves it back. So a scan begins at `start`, skips what is claimed, and misses
//!   nothing.
//! - A job that was interrupted is a suspect: it may be what ended the process. A scan files the due
//!   suspects that it meets in `waiting`, by position alone, and goes on to the jobs behind them. Which
//!   suspects a claim takes from there is the rule of [`ClaimRequest::admits`]. So a job that ends its
//!   process is soon claimed alone, its neighbours do not die with it, and nobody waits for it.
//! - An entry of `waiting` may be out of date: the row is looked at before the job is claimed.
//! - `next` is a lower bound: no job of the kind is due before it that is neither claimed nor in
//!   `waiting`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use rusqlite::params;

use super::State;
use super::rows::{KindRow, Place, id_bytes, store_error};
use super::scan::{Head, Scan};
use super::tables::Tables;
use crate::store::words::{ClaimRequest, Claimed, Fence, Unreadable};
use crate::values::error::StoreError;
use crate::values::extra::Extra;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// What is claimed by this process.
pub(crate) struct Claims {
    runner: bool,
    held: HashMap<JobId, Held>,
    batches: HashMap<i64, Batch>,
    cursors: Vec<Cursor>,
    /// The upper part of each fence: how often a process took the file over.
    pub(crate) starts: u64,
    claimed: u64,
    /// What this transaction has done to `held`, to be undone if it fails.
    journal: Vec<Change>,
    /// Batches with claims that have ended in this transaction.
    touched: HashSet<i64>,
    /// What this transaction has claimed: a row to write.
    fresh: Vec<JobId>,
}

/// A claimed job.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) place: Place,
    pub(crate) key: Option<String>,
    pub(crate) callers_id: bool,
    /// The how-manieth claim of this process it is.
    order: u64,
    batch: i64,
}

struct Batch {
    /// How many of its claims are held.
    left: usize,
    /// A job that is not claimed any more, and not gone either, is in its row.
    stale: bool,
}

struct Cursor {
    kind: i64,
    name: Arc<str>,
    start: (Millis, JobId),
    next: Option<Millis>,
    /// Due suspects that were passed over, and how often each was interrupted.
    waiting: BTreeMap<(Millis, JobId), u32>,
}

enum Change {
    Added(JobId),
    Removed(JobId, Held),
}

/// The batch of claims whose row is not written yet.
const UNWRITTEN: i64 = -1;

/// A claim ends with the job whose payload reaches so many bytes. The next step claims the rest.
const BYTES_PER_CLAIM: usize = 4 << 20;

/// How many bits of a fence count the claims since the process took over.
const CLAIM_BITS: u32 = 40;

const BEGINNING: (Millis, JobId) = (Millis::ZERO, JobId::from_u128(0));
const BEFORE_ALL: Bound<(Millis, JobId)> = Bound::Unbounded;
const END: (Millis, JobId) = (Millis::MAX, JobId::from_u128(u128::MAX));

impl Claims {
    pub(crate) fn new(runner: bool) -> Claims {
        Claims {
            runner,
            held: HashMap::new(),
            batches: HashMap::new(),
            cursors: Vec::new(),
            starts: 0,
            claimed: 0,
            journal: Vec::new(),
            touched: HashSet::new(),
            fresh: Vec::new(),
        }
    }

    /// Says whether a claim could find anything.
    pub(crate) fn may_have_due(&self, request: &ClaimRequest) -> bool {
        let admits = |(position, interruptions): (&(Millis, JobId), &u32)| {
            position.0 <= request.until && request.clone().admits(*interruptions)
        };
        self.cursors.iter().filter(|cursor| request.has_room(&cursor.name)).any(|cursor| {
            cursor.next.is_some_and(|next| next <= request.until)
                || admits_suspects(request) && cursor.waiting.iter().any(admits)
        })
    }

    /// Returns the earliest deadline of a job that is not claimed, of a kind that has room, and not a suspect
    /// that waits.
    pub(crate) fn next_due(&self, request: Option<&ClaimRequest>) -> Option<Millis> {
        let has_room =
            |cursor: &&Cursor| request.is_none_or(|request| request.has_room(&cursor.name));
        self.cursors.iter().filter(has_room).filter_map(|cursor| cursor.next).min()
    }

    /// Says whether due suspects were passed over.
    pub(crate) fn suspects_wait(&self) -> bool {
        self.cursors.iter().any(|cursor| !cursor.waiting.is_empty())
    }

    pub(crate) fn held(&self) -> &HashMap<JobId, Held> {
        &self.held
    }

    pub(crate) fn get(&self, id: JobId) -> Option<&Held> {
        self.held.get(&id)
    }

    /// Says whether this process runs the jobs.
    pub(crate) fn of_runner(&self) -> bool {
        self.runner
    }

    /// Says whether a job is claimed: by this process, if it is the one that runs the jobs, or as the
    /// file says.
    pub(crate) fn is_claimed(&self, tables: Tables<'_>, id: JobId) -> Result<bool, StoreError> {
        if self.runner {
            return Ok(self.held.contains_key(&id));
        }
        Ok(tables.claimed_ids()?.contains(&id))
    }

    /// Returns all claimed jobs. In a process that does not run the jobs, some may be gone.
    pub(crate) fn all(&self, tables: Tables<'_>) -> Result<HashSet<JobId>, StoreError> {
        if self.runner {
            return Ok(self.held.keys().copied().collect());
        }
        Ok(tables.claimed_ids()?.into_iter().collect())
    }

    /// Claims jobs of these kinds from now on.
    pub(super) fn handle(&mut self, kinds: &[Arc<str>], rows: &[KindRow]) {
        let cursor = |name: &Arc<str>| {
            let row = rows.iter().find(|kind| *kind.name == **name)?;
            Some(Cursor {
                kind: row.n,
                name: Arc::clone(name),
                start: BEGINNING,
                next: Some(Millis::ZERO),
                waiting: BTreeMap::new(),
            })
        };
        self.cursors = kinds.iter().filter_map(cursor).collect();
    }

    /// A job is there now, and not claimed.
    pub(crate) fn appeared(&mut self, place: Place) {
        let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.kind == place.kind) else {
            return;
        };
        cursor.start = cursor.start.min((place.due, place.id));
        cursor.next = Some(cursor.next.map_or(place.due, |next| next.min(place.due)));
    }

    /// Ends the claim of a job. `gone`: its row is gone too, for good.
    pub(crate) fn end(&mut self, id: JobId, gone: bool) -> Option<Place> {
        let held = self.held.remove(&id)?;
        let place = held.place;
        if let Some(batch) = self.batches.get_mut(&held.batch) {
            batch.left -= 1;
            batch.stale |= !gone;
            self.touched.insert(held.batch);
        }
        self.journal.push(Change::Removed(id, held));
        Some(place)
    }

    /// Nothing is known of how far the kinds were read.
    pub(crate) fn rewind(&mut self) {
        for cursor in &mut self.cursors {
            cursor.start = BEGINNING;
            cursor.next = Some(Millis::ZERO);
            cursor.waiting.clear();
        }
    }

    pub(crate) fn keep(&mut self) {
        self.journal.clear();
        self.touched.clear();
    }

    /// Undoes what this transaction did.
    pub(crate) fn undo(&mut self) {
        for change in self.journal.drain(..).rev() {
            match change {
                Change::Added(id) => drop(self.held.remove(&id)),
                Change::Removed(id, held) => drop(self.held.insert(id, held)),
            }
        }
        self.touched.clear();
        self.fresh.clear();
        self.batches.clear();
        for held in self.held.values() {
            let empty = Batch { left: 0, stale: true };
            self.batches.entry(held.batch).or_insert(empty).left += 1;
        }
        self.rewind();
    }
}

impl State {
    /// Takes the earliest jobs.
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
        // Up to which of those that wait the claim has come.
        let mut passed = BEFORE_ALL;
        while claimed.len() < request.limit && bytes < BYTES_PER_CLAIM {
            let innocent = scans.iter().enumerate().filter_map(|(at, scan)| match scan {
                Some(Scan { head: Some(Head::Due(job)), .. })
                    if request.has_room(&cursors[at].name) =>
                {
                    Some(((job.due, job.id), at))
                }
                _ => None,
            });
            let innocent = innocent.min();
            let suspect = match admits_suspects(request) {
                true => earliest_waiting(cursors, request, passed).filter(|(next, _)| {
                    next.0 <= request.until && innocent.is_none_or(|(first, _)| *next < first)
                }),
                false => None,
            };
            let (at, job) = match (suspect, innocent) {
                (Some((position, at)), _) => {
                    passed = Bound::Excluded(position);
                    let cursor = &mut cursors[at];
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
                        // It has gone, or is another one, which a scan finds.
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
            let (key, callers_id) = (job.key.clone(), job.callers_id);
            let claim = Held { place, key, callers_id, order: *fences, batch: UNWRITTEN };
            held.insert(job.id, claim);
            journal.push(Change::Added(job.id));
            fresh.push(job.id);
            let is_innocent = job.interruptions == 0;
            bytes += job.payload.len();
            claimed.push(Claimed {
                id: job.id,
                kind: Arc::clone(&cursor.name),
                due: job.due,
                tries: job.tries,
                interruptions: job.interruptions,
                runs: job.runs,
                key: job.key,
                extra: Extra::read(job.extra.as_deref())?,
                payload: job.payload,
                fence: Fence::new(*starts << CLAIM_BITS | *fences, 0),
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

    /// Writes which claims this transaction has made and ended.
    pub(crate) fn write_claims(&mut self, tables: Tables<'_>) -> Result<(), StoreError> {
        let claims = &mut self.claims;
        let mut stale: HashMap<i64, Vec<(u64, JobId)>> = HashMap::new();
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
            // The order of claiming says who may have ended the process.
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

/// Says whether a claim may take suspects at all.
fn admits_suspects(request: &ClaimRequest) -> bool {
    request.suspects > 0 || request.repeat_offender
}

/// Returns the earliest suspect that waits behind a position, and its cursor.
fn earliest_waiting(
    cursors: &[Cursor],
    request: &ClaimRequest,
    passed: Bound<(Millis, JobId)>,
) -> Option<((Millis, JobId), usize)> {
    let first = |cursor: &Cursor| {
        if !request.has_room(&cursor.name) {
            return None;
        }
        cursor.waiting.range((passed, Bound::Unbounded)).next().map(|(position, _)| *position)
    };
    cursors.iter().enumerate().filter_map(|(at, cursor)| Some((first(cursor)?, at))).min()
}
