//! The claimed jobs, a scan cursor for each kind, and a claim of the jobs that are due.
//!
//! Ground rules:
//!
//! - Every job of a handled kind before the cursor's `start` is claimed or in `waiting`. A write before `start` moves
//!   it back. So a scan begins at `start`, skips the claimed jobs and the jobs with a partition, and misses nothing.
//! - A job that was interrupted is a suspect: it may have ended its process. A scan puts the due suspects
//!   that it meets into `waiting`, as positions, and goes on to the jobs behind them.
//!   [`ClaimRequest::admits`] decides which suspects a claim takes from there. So a job that ends its
//!   process is soon claimed alone, its neighbours do not die with it, and no other job waits for it.
//! - An entry of `waiting` may be out of date, so a claim reads the row before it takes the job.
//! - `next` is a lower bound: every job of the kind that is due before it is claimed or in `waiting`.
//! - The claims that a transaction has made and ended are written once, at its end.

use core::ops::Bound;
use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use rusqlite::params;

use super::lane_table::{First, LaneTable, MOVES_PER_COMMIT};
use super::schema::{
    ClaimedAt, JobRow, KindRow, Place, RowNumber, Table, id_bytes, store_error, unreadable_job,
};
use super::state::State;
use super::tables::Tables;
use crate::store::lanes::{Lanes, Opens};
use crate::store::{ClaimRequest, Claimed, Fence, Unreadable};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::job::Extra;
use crate::values::setting::Rank;
use crate::values::time::Millis;

/// The claims of this process.
#[derive(Default)]
pub(crate) struct FileClaims {
    /// This process runs the jobs.
    pub(super) runner: bool,
    pub(super) held: HashMap<JobId, HeldClaim>,
    pub(super) batches: HashMap<RowNumber, ClaimBatch>,
    pub(super) cursors: Vec<Cursor>,
    /// The upper part of each fence: how often a process started to run the jobs of the file.
    pub(crate) starts: u64,
    pub(super) claimed: u64,
    /// The changes of this transaction to `held`, to undo them if it fails: each job, and its claim if that has ended.
    pub(super) journal: Vec<(JobId, Option<HeldClaim>)>,
    /// Batches with claims that have ended in this transaction.
    pub(super) touched: HashSet<RowNumber>,
    /// The jobs that this transaction has claimed: one row to write.
    pub(super) fresh: Vec<JobId>,
    /// The number of the row that this process wrote last.
    pub(super) last_row: RowNumber,
}

/// A claimed job.
#[derive(Clone)]
pub(crate) struct HeldClaim {
    pub(crate) place: Place,
    pub(crate) key: Option<String>,
    pub(crate) callers_id: bool,
    /// Its partition, if it is in a lane.
    pub(super) part: Option<Arc<str>>,
    /// It has failed before.
    pub(crate) failed: bool,
    /// Its earlier runs have left progress.
    pub(super) has_progress: bool,
    /// How many bytes of its row count against the bound of its kind if it is kept.
    pub(super) bytes: usize,
    /// The number of the claim, in the order in which this process made them.
    pub(super) order: u64,
    pub(super) batch: RowNumber,
}

impl HeldClaim {
    /// Returns the claim of a job that is in no row yet.
    pub(super) fn of(place: Place, job: &JobRow, extra: Option<&Extra>) -> HeldClaim {
        HeldClaim {
            place,
            key: job.key.clone(),
            callers_id: job.callers_id,
            part: job.part.clone().filter(|_| place.table == Table::Lane),
            failed: job.tries.failures > 0,
            has_progress: extra.is_some_and(|extra| extra.progress.is_some()),
            bytes: job.kept_bytes(),
            order: 0,
            batch: RowNumber::UNWRITTEN,
        }
    }
}

/// The jobs that were claimed together, and whose ids are in one row of `claim`.
pub(super) struct ClaimBatch {
    /// How many of its claims are held.
    pub(super) left: usize,
    /// Its row names a job that exists and whose claim has ended.
    pub(super) stale: bool,
}

/// The scan cursor of one kind.
pub(super) struct Cursor {
    pub(super) kind: i64,
    pub(super) name: Arc<str>,
    pub(super) start: (Millis, JobId),
    pub(super) next: Option<Millis>,
    /// The same for the jobs of the road that have a partition. `None`: there are none.
    pub(super) next_part: Option<Millis>,
    /// Due suspects that a scan has passed over, and how often each was interrupted.
    pub(super) waiting: BTreeMap<(Millis, JobId), u32>,
    /// The last of them that the claim under way has considered.
    pub(super) passed: Bound<(Millis, JobId)>,
}

impl Cursor {
    /// Returns the latest due time of the jobs of the road that a claim may take.
    pub(super) fn claimable_until(&self, request: &ClaimRequest, lanes: &Lanes) -> Millis {
        let is_limited = lanes.is_limited(&self.name);
        if is_limited { request.until.min(request.now) } else { request.until }
    }

    /// Returns the position of the next of the waiting suspects that is due by `until` and that the claim under way
    /// has not considered.
    pub(super) fn next_waiting(&self, until: Millis) -> Option<(Millis, JobId)> {
        let next = self.waiting.range((self.passed, Bound::Unbounded)).next();
        next.map(|(position, _)| *position).filter(|(due, _)| *due <= until)
    }
}

const BEGINNING: (Millis, JobId) = (Millis::ZERO, JobId::from_u128(0));

impl FileClaims {
    /// Says whether a claim might find a job.
    pub(super) fn may_have_due(&self, request: &ClaimRequest, lanes: &Lanes) -> bool {
        let admits = |(position, interruptions): (&(Millis, JobId), &u32)| {
            position.0 <= request.until && request.clone().admits(*interruptions)
        };
        let has_room =
            |cursor: &&Cursor| request.has_room(&cursor.name) && lanes.has_room(&cursor.name);
        self.cursors.iter().filter(has_room).any(|cursor| {
            let has_room = request.has_room_of(&cursor.name, lanes.has_rate(&cursor.name));
            has_room
                && cursor.next.is_some_and(|next| next <= cursor.claimable_until(request, lanes))
                || cursor.next_part.is_some_and(|next| next <= request.now)
                || request.has_room_in_lanes(&cursor.name) && lanes.any_in_turn(&cursor.name)
                || admits_suspects(request) && cursor.waiting.iter().any(admits)
        })
    }

    /// Returns a lower bound of the times at which a claim may take jobs that are neither claimed nor in `waiting`,
    /// and whose kind has room. For a job that is not claimed ahead, the time is later: see
    /// `ClaimRequest::not_ahead`.
    pub(super) fn next_due(&self, request: Option<&ClaimRequest>, lanes: &Lanes) -> Option<Millis> {
        let not_ahead = |next| request.map_or(next, |request| request.not_ahead(next));
        let next = |cursor: &Cursor| {
            let name = &cursor.name;
            let has_room = |is_bounded| request.is_none_or(|it| it.has_room_of(name, is_bounded));
            if !has_room(false) {
                return None;
            }
            // The earliest time by the limits of the kind.
            let opens = match lanes.opens(name) {
                Opens::Now => Millis::ZERO,
                Opens::At(time) => not_ahead(time),
                Opens::Later => return None,
            };
            let plain = cursor.next.filter(|_| has_room(lanes.has_rate(name)));
            let plain =
                plain.map(|next| if lanes.is_limited(name) { not_ahead(next) } else { next });
            let waiting = lanes.next_waiting(name).map(not_ahead);
            let in_turn = lanes.any_in_turn(name).then_some(Millis::ZERO);
            let of_lanes = in_turn.into_iter().chain(waiting).filter(|_| has_room(true));
            let next = of_lanes.chain(plain).chain(cursor.next_part.map(not_ahead)).min()?;
            Some(next.max(opens))
        };
        self.cursors.iter().filter_map(next).min()
    }

    /// Returns the name of a kind that is handled here.
    pub(super) fn name_of(&self, kind: i64) -> Option<&Arc<str>> {
        self.cursors.iter().find(|cursor| cursor.kind == kind).map(|cursor| &cursor.name)
    }

    pub(crate) fn is_claimed(&self, tables: Tables<'_>, id: JobId) -> Result<bool, StoreError> {
        Ok(self.claimed_at(tables, id)?.is_some())
    }

    /// Returns when a job was claimed, if it is claimed. The process that runs the jobs knows that itself; any other
    /// reads the file.
    pub(crate) fn claimed_at(
        &self,
        tables: Tables<'_>,
        id: JobId,
    ) -> Result<Option<ClaimedAt>, StoreError> {
        if self.runner {
            return Ok(self.held.get(&id).map(|held| held.batch.time()));
        }
        let claims = tables.claims()?;
        Ok(claims.into_iter().find(|(its, _)| *its == id).map(|(_, row)| row.time()))
    }

    /// Returns all claimed jobs, and when they were claimed. In a process that does not run the jobs, some of them may
    /// have ended.
    pub(crate) fn all(&self, tables: Tables<'_>) -> Result<HashMap<JobId, ClaimedAt>, StoreError> {
        if self.runner {
            return Ok(self.held.iter().map(|(id, held)| (*id, held.batch.time())).collect());
        }
        Ok(tables.claims()?.into_iter().map(|(id, row)| (id, row.time())).collect())
    }

    /// Sets the kinds of which this process claims jobs.
    pub(super) fn handle(&mut self, kinds: &[Arc<str>], rows: &[KindRow]) {
        let cursor = |name: &Arc<str>| {
            let row = rows.iter().find(|kind| *kind.name == **name)?;
            Some(Cursor {
                kind: row.n,
                name: Arc::clone(name),
                start: BEGINNING,
                next: Some(Millis::ZERO),
                next_part: Some(Millis::ZERO),
                waiting: BTreeMap::new(),
                passed: Bound::Unbounded,
            })
        };
        self.cursors = kinds.iter().filter_map(cursor).collect();
    }

    /// Notes that an unclaimed job is at this place in the table of jobs now, and whether it may have a partition.
    pub(crate) fn note_added(&mut self, place: Place, may_have_part: bool) {
        let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.kind == place.kind) else {
            return;
        };
        cursor.start = cursor.start.min((place.due, place.id));
        let earlier =
            |next: Option<Millis>| Some(next.map_or(place.due, |next| next.min(place.due)));
        cursor.next = earlier(cursor.next);
        if may_have_part {
            cursor.next_part = earlier(cursor.next_part);
        }
    }

    /// Ends the claim of a job. `gone`: the job itself has ended too.
    pub(crate) fn end(&mut self, id: JobId, gone: bool) -> Option<Place> {
        let held = self.held.remove(&id)?;
        let place = held.place;
        if let Some(batch) = self.batches.get_mut(&held.batch) {
            batch.left -= 1;
            batch.stale |= !gone;
            self.touched.insert(held.batch);
        }
        self.journal.push((id, Some(held)));
        Some(place)
    }

    /// Moves every cursor back to the beginning.
    pub(crate) fn rewind(&mut self) {
        for cursor in &mut self.cursors {
            cursor.start = BEGINNING;
            cursor.next = Some(Millis::ZERO);
            cursor.next_part = Some(Millis::ZERO);
            cursor.waiting.clear();
        }
    }

    /// Undoes the changes of this transaction.
    pub(crate) fn undo(&mut self) {
        for (id, before) in self.journal.drain(..).rev() {
            match before {
                None => drop(self.held.remove(&id)),
                Some(held) => drop(self.held.insert(id, held)),
            }
        }
        self.touched.clear();
        self.fresh.clear();
        self.batches.clear();
        for held in self.held.values() {
            let empty = ClaimBatch { left: 0, stale: true };
            self.batches.entry(held.batch).or_insert(empty).left += 1;
        }
        self.rewind();
    }
}

/// Says whether a claim may take any suspects.
pub(super) fn admits_suspects(request: &ClaimRequest) -> bool {
    request.crashed_once > 0 || request.poison_pill
}

/// A scan of one kind, and the next job that a claim may take from it.
pub(super) struct Scan<'a> {
    pub(super) rows: rusqlite::Rows<'a>,
    pub(super) head: Option<ScanHead>,
    /// It has met a job with a partition.
    pub(super) any_part: bool,
}

pub(super) enum ScanHead {
    Due(JobRow),
    /// The next job is due after the latest due time of the claim.
    Later((Millis, JobId)),
}

/// How a scan treats a row.
enum ScannedRow {
    Held,
    HasPart,
    Head(ScanHead),
    Suspect((Millis, JobId), u32),
}

fn read(
    row: &rusqlite::Row<'_>,
    held: &HashMap<JobId, HeldClaim>,
    until: Millis,
) -> rusqlite::Result<ScannedRow> {
    let position = JobRow::read_position(row)?;
    if held.contains_key(&position.1) {
        return Ok(ScannedRow::Held);
    }
    if position.0 > until {
        return Ok(ScannedRow::Head(ScanHead::Later(position)));
    }
    if row.get_ref(PART)? != rusqlite::types::ValueRef::Null {
        return Ok(ScannedRow::HasPart);
    }
    match row.get(3)? {
        0 => Ok(ScannedRow::Head(ScanHead::Due(JobRow::read(row)?))),
        interruptions => Ok(ScannedRow::Suspect(position, interruptions)),
    }
}

/// The column of the partition.
const PART: usize = 6;

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
        let FileClaims { held, cursors, starts, claimed: fences, journal, fresh, .. } =
            &mut self.claims;
        let scanned: Vec<usize> = (0..cursors.len())
            .filter(|&at| {
                let until = cursors[at].claimable_until(request, &lane_table.lanes);
                cursors[at].next.is_some_and(|next| next <= until)
            })
            .filter(|&at| has_room(request, lane_table, &cursors[at]))
            .collect();
        let prepare = |_: &usize| {
            tables
                .prepare(
                    "SELECT {row} FROM {p}job WHERE kind = ?1 AND (due, id) >= (?2, ?3) \
                     ORDER BY due, id",
                )
                .map_err(store_error)
        };
        let mut statements = scanned.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        cursors.iter_mut().for_each(|cursor| cursor.passed = Bound::Unbounded);
        let mut picker = Picker {
            scans: cursors.iter().map(|_| None).collect(),
            heads: cursors.iter().map(|_| None).collect(),
            back: Vec::new(),
            tables,
            now,
            request,
            held,
            cursors,
            lane_table,
            unreadable,
        };
        picker.scan(&mut statements, &scanned)?;
        let (mut claimed, mut bytes) = (Vec::new(), 0);
        while claimed.len() < picker.request.limit && bytes < BYTES_PER_CLAIM {
            let mut picked = match picker.next()? {
                NextPick::Job(picked) => picked,
                NextPick::Other => continue,
                NextPick::None => break,
            };
            *fences += 1;
            let extra = Extra::read(picked.job.extra.as_deref())?;
            let kind = picker.hold(&mut picked, extra.as_deref(), *fences);
            let Picked { at, job, table } = picked;
            journal.push((job.id, None));
            fresh.push(job.id);
            bytes += job.payload.len();
            if job.tries.interruptions == 0 && table == Table::Job {
                picker.scan_on(at)?;
            }
            claimed.push(Claimed {
                id: job.id,
                kind,
                due: job.due,
                tries: job.tries,
                key: job.key,
                extra,
                payload: job.payload,
                fence: fence_of(*starts, *fences),
            });
        }
        let back = picker.end();
        request.until = latest;
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
                tables.execute("DELETE FROM {p}claim WHERE n = ?1", [n.0])?;
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
            tables.execute("UPDATE {p}claim SET ids = ?2 WHERE n = ?1", params![n.0, ids])?;
        }
        if claims.fresh.is_empty() {
            return Ok(());
        }
        let ids: Vec<u8> = claims.fresh.iter().flat_map(|id| id_bytes(*id)).collect();
        let n = RowNumber::after(claims.last_row, now);
        claims.last_row = n;
        tables.execute("INSERT INTO {p}claim VALUES (?1, ?2)", params![n.0, ids])?;
        claims.batches.insert(n, ClaimBatch { left: claims.fresh.len(), stale: false });
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

/// A claim under way: how far it has come in each kind. It picks the jobs one after the other, in the order of rank.
struct Picker<'a, 's> {
    tables: Tables<'a>,
    now: Millis,
    request: &'a mut ClaimRequest,
    held: &'a mut HashMap<JobId, HeldClaim>,
    cursors: &'a mut [Cursor],
    lane_table: &'a mut LaneTable,
    unreadable: &'a mut Vec<Unreadable>,
    /// By the number of the cursor of a kind, and so are `heads`.
    scans: Vec<Option<Scan<'s>>>,
    heads: Vec<Option<LaneHead>>,
    /// Jobs of lanes that are not due.
    back: Vec<(i64, (Millis, JobId))>,
}

/// The rank and the id of a job, and the number of the cursor of its kind.
type Ranked = ((Rank, JobId), usize);

enum NextPick {
    Job(Picked),
    /// The job that was the next is not claimed now.
    Other,
    None,
}

/// A job to be claimed, and the number of the cursor of its kind.
struct Picked {
    at: usize,
    job: JobRow,
    table: Table,
}

impl<'s> Picker<'_, 's> {
    /// Begins a scan of each of these kinds.
    fn scan<'c: 's>(
        &mut self,
        statements: &'s mut [rusqlite::CachedStatement<'c>],
        kinds: &[usize],
    ) -> Result<(), StoreError> {
        for (statement, &at) in statements.iter_mut().zip(kinds) {
            let cursor = &self.cursors[at];
            let (due, id) = cursor.start;
            let key = params![cursor.kind, due.get(), id_bytes(id)];
            let rows = statement.query(key).map_err(store_error)?;
            self.scans[at] = Some(Scan { rows, head: None, any_part: false });
            self.scan_on(at)?;
        }
        Ok(())
    }

    /// Goes on with the scan of a kind, to the next job without a partition that is neither claimed nor a due suspect.
    /// Adds the due suspects to `waiting`, without reading their payloads. A row that cannot be read stays where it is,
    /// and does not stop the scan.
    fn scan_on(&mut self, at: usize) -> Result<(), StoreError> {
        let Some(scan) = &mut self.scans[at] else { return Ok(()) };
        let cursor = &mut self.cursors[at];
        let until = cursor.claimable_until(self.request, &self.lane_table.lanes);
        scan.head = loop {
            let Some(row) = scan.rows.next().map_err(store_error)? else { break None };
            match read(row, self.held, until) {
                Ok(ScannedRow::Held) => {}
                Ok(ScannedRow::HasPart) => scan.any_part = true,
                Ok(ScannedRow::Head(head)) => break Some(head),
                Ok(ScannedRow::Suspect(position, interruptions)) => {
                    cursor.waiting.insert(position, interruptions);
                }
                Err(error) => self.unreadable.push(unreadable_job(row, error)),
            }
        };
        Ok(())
    }

    /// Picks the job of the lowest rank.
    fn next(&mut self) -> Result<NextPick, StoreError> {
        let innocent = self.first_innocent();
        let in_lanes = self.first_in_lanes()?;
        let suspect = self
            .first_suspect()
            .filter(|(next, _)| innocent.is_none_or(|(first, _)| *next < first));
        let plain = suspect.or(innocent).map(|(rank, _)| rank);
        let in_lanes = in_lanes.filter(|(rank, _)| plain.is_none_or(|plain| *rank < plain));
        match (in_lanes, suspect, innocent) {
            (Some((_, at)), ..) => self.pick_in_lanes(at),
            (_, Some((_, at)), _) => self.pick_suspect(at),
            (_, None, Some((_, at))) => Ok(self.pick_innocent(at)),
            (None, None, None) => Ok(NextPick::None),
        }
    }

    /// Returns the first job that the scans have met.
    fn first_innocent(&self) -> Option<Ranked> {
        let first = |(at, scan): (usize, &Option<Scan<'_>>)| {
            let Some(ScanHead::Due(job)) = &scan.as_ref()?.head else { return None };
            self.ranked(at, (job.due, job.id))
        };
        self.scans.iter().enumerate().filter_map(first).min()
    }

    /// Returns the first due suspect that the claim has not considered yet.
    fn first_suspect(&self) -> Option<Ranked> {
        let first = |(at, cursor): (usize, &Cursor)| {
            let until = cursor.claimable_until(self.request, &self.lane_table.lanes);
            self.ranked(at, cursor.next_waiting(until)?)
        };
        let cursors = self.cursors.iter().enumerate();
        cursors.take_while(|_| admits_suspects(self.request)).filter_map(first).min()
    }

    /// Returns a job with its rank, if one more job of its kind may be claimed.
    fn ranked(&self, at: usize, (due, id): (Millis, JobId)) -> Option<Ranked> {
        let cursor = &self.cursors[at];
        has_room(self.request, self.lane_table, cursor)
            .then(|| ((self.request.rank(&cursor.name, due), id), at))
    }

    /// Returns the first of the jobs whose lanes are next in turn.
    fn first_in_lanes(&mut self) -> Result<Option<Ranked>, StoreError> {
        let mut firsts: Option<Ranked> = None;
        for at in 0..self.cursors.len() {
            let (name, lanes) = (&self.cursors[at].name, &self.lane_table.lanes);
            if !lanes.any_in_turn(name)
                || !self.request.has_room_in_lanes(name)
                || !lanes.has_room(name)
            {
                continue;
            }
            let Some(head) = self.lane_head(at)? else { continue };
            let rank = (self.request.rank(&self.cursors[at].name, head.at.0), head.at.1);
            self.heads[at] = Some(head);
            firsts = firsts.into_iter().chain([(rank, at)]).min();
        }
        Ok(firsts)
    }

    /// Returns the first job of the lane of a kind that is next in turn. Adds to `back` the jobs of lanes that are not
    /// due, up to [`MOVES_PER_COMMIT`].
    fn lane_head(&mut self, at: usize) -> Result<Option<LaneHead>, StoreError> {
        let before = self.heads[at].take();
        let Picker { cursors, lane_table, back, .. } = self;
        let Cursor { kind, name, .. } = &cursors[at];
        while let Some(part) = lane_table.lanes.next(name) {
            if let Some(LaneHead { at, .. }) = before.as_ref().filter(|head| head.part == part) {
                return Ok(Some(LaneHead { part, at: *at }));
            }
            match lane_table.first(self.tables, (*kind, name), &part, (self.held, self.now))? {
                First::Due(at) => return Ok(Some(LaneHead { part, at })),
                // The next commit goes on here.
                First::Later(_) if back.len() >= MOVES_PER_COMMIT => return Ok(None),
                First::Later(at) => {
                    lane_table.pass(*kind, &part, at);
                    back.push((*kind, at));
                }
                First::None => {}
            }
        }
        Ok(None)
    }

    /// Picks the job of the lane that is next in turn, and gives the turn to the next lane.
    fn pick_in_lanes(&mut self, at: usize) -> Result<NextPick, StoreError> {
        let cursor = &self.cursors[at];
        let Some(LaneHead { part, at: (due, id) }) = self.heads[at].take() else {
            return Ok(NextPick::None);
        };
        let place = Place { kind: cursor.kind, due, id, table: Table::Lane };
        let job = self.read(place)?;
        if let Some(job) = &job
            && !self.request.admits(job.tries.interruptions)
        {
            self.lane_table.lanes.pass_over(&self.cursors[at].name, &part);
            return Ok(NextPick::Other);
        }
        self.lane_table.pass(place.kind, &part, (due, id));
        Ok(job.map_or(NextPick::Other, |job| NextPick::Job(Picked { at, job, table: Table::Lane })))
    }

    /// Picks the next of the suspects that wait.
    fn pick_suspect(&mut self, at: usize) -> Result<NextPick, StoreError> {
        let cursor = &mut self.cursors[at];
        let Some(position) = cursor.next_waiting(self.request.until) else {
            return Ok(NextPick::None);
        };
        cursor.passed = Bound::Excluded(position);
        let interruptions = cursor.waiting.get(&position).copied().unwrap_or(0);
        let mut without = self.request.clone();
        if !without.admits(interruptions) {
            return Ok(NextPick::Other);
        }
        cursor.waiting.remove(&position);
        let (due, id) = position;
        let place = Place { kind: cursor.kind, due, id, table: Table::Job };
        // If the job has gone, or its row has changed, a scan finds the new row.
        let job = self.read(place)?.filter(|job| job.tries.interruptions == interruptions);
        let Some(job) = job else { return Ok(NextPick::Other) };
        *self.request = without;
        Ok(NextPick::Job(Picked { at, job, table: Table::Job }))
    }

    /// Picks the job that the scan of a kind has met.
    fn pick_innocent(&mut self, at: usize) -> NextPick {
        match self.scans[at].as_mut().and_then(|scan| scan.head.take()) {
            Some(ScanHead::Due(job)) => NextPick::Job(Picked { at, job, table: Table::Job }),
            _ => NextPick::None,
        }
    }

    /// Reads a row. Notes it if it cannot be read.
    fn read(&mut self, place: Place) -> Result<Option<JobRow>, StoreError> {
        match self.tables.job(place) {
            Err(error @ StoreError::Damaged(_)) => {
                self.unreadable.push(Unreadable { what: format!("job {}", place.id), error });
                Ok(None)
            }
            read => read,
        }
    }

    /// Holds the claim of a job. Returns its kind. `order`: of the claim, among all of this process.
    fn hold(&mut self, picked: &mut Picked, extra: Option<&Extra>, order: u64) -> Arc<str> {
        let Picked { at, job, table } = picked;
        let Cursor { kind, name, .. } = &self.cursors[*at];
        let part = job.part.take().filter(|_| *table == Table::Lane);
        let lanes = &mut self.lane_table.lanes;
        self.request.takes(name, part.is_some() || lanes.has_rate(name));
        lanes.claimed((job.id, name, part.as_ref()), extra, self.request.now);
        let place = Place { kind: *kind, due: job.due, id: job.id, table: *table };
        self.held.insert(job.id, HeldClaim { part, order, ..HeldClaim::of(place, job, extra) });
        Arc::clone(name)
    }

    /// Moves each cursor to the first job that is not claimed. Returns the jobs of lanes that are not due.
    fn end(self) -> Vec<(i64, (Millis, JobId))> {
        for (scan, cursor) in self.scans.iter().zip(self.cursors) {
            let Some(scan) = scan else { continue };
            let head = match &scan.head {
                None => None,
                Some(ScanHead::Due(job)) => Some((job.due, job.id)),
                Some(ScanHead::Later(position)) => Some(*position),
            };
            cursor.start = head.unwrap_or(END);
            cursor.next = head.map(|(due, _)| due);
            self.lane_table.is_wanted |= scan.any_part && !self.tables.sql.has_lanes.get();
        }
        self.back
    }
}

/// The first job of the lane of a kind that is next in turn.
struct LaneHead {
    part: Arc<str>,
    at: (Millis, JobId),
}

/// Says whether one more job of the kind may be claimed.
fn has_room(request: &ClaimRequest, lane_table: &LaneTable, cursor: &Cursor) -> bool {
    let lanes = &lane_table.lanes;
    request.has_room_of(&cursor.name, lanes.has_rate(&cursor.name)) && lanes.has_room(&cursor.name)
}
