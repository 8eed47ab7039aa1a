//! The claimed jobs, and a scan cursor for each kind.
//!
//! Ground rules:
//!
//! - Every job of a handled kind before the cursor's `start` is claimed or in `waiting`. A write before
//!   `start` moves it back. So a scan begins at `start`, skips the claimed jobs, and misses nothing.
//! - A job that was interrupted is a suspect: it may have ended its process. A scan puts the due suspects
//!   that it meets into `waiting`, as positions, and goes on to the jobs behind them.
//!   [`ClaimRequest::admits`] decides which suspects a claim takes from there. So a job that ends its
//!   process is soon claimed alone, its neighbours do not die with it, and no other job waits for it.
//! - An entry of `waiting` may be out of date, so a claim reads the row before it takes the job.
//! - `next` is a lower bound: every job of the kind that is due before it is claimed or in `waiting`.

use core::ops::Bound;
use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::rows::{ClaimedAt, JobRow, KindRow, Place, RowNumber, Table};
use super::tables::Tables;
use crate::store::ClaimRequest;
use crate::store::lanes::{Lanes, Opens};
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// The claims of this process.
pub(crate) struct Claims {
    pub(super) runner: bool,
    pub(super) held: HashMap<JobId, Held>,
    pub(super) batches: HashMap<RowNumber, Batch>,
    pub(super) cursors: Vec<Cursor>,
    /// The upper part of each fence: how often a process started to run the jobs of the file.
    pub(crate) starts: u64,
    pub(super) claimed: u64,
    /// The changes of this transaction to `held`, to undo them if it fails.
    pub(super) journal: Vec<Change>,
    /// Batches with claims that have ended in this transaction.
    pub(super) touched: HashSet<RowNumber>,
    /// The jobs that this transaction has claimed: one row to write.
    pub(super) fresh: Vec<JobId>,
    /// The number of the row that this process wrote last.
    pub(super) last_row: RowNumber,
}

/// A claimed job.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) place: Place,
    pub(crate) key: Option<String>,
    pub(crate) callers_id: bool,
    /// Its partition, if it is in a lane.
    pub(super) part: Option<Arc<str>>,
    /// It has failed before.
    pub(crate) failed: bool,
    /// How many bytes of its row count against the bound of its kind if it is kept.
    pub(super) bytes: usize,
    /// The number of the claim, in the order in which this process made them.
    pub(super) order: u64,
    pub(super) batch: RowNumber,
}

impl Held {
    /// Returns the claim of a job that is in no row yet.
    pub(super) fn of(place: Place, job: &JobRow) -> Held {
        Held {
            place,
            key: job.key.clone(),
            callers_id: job.callers_id,
            part: job.part.clone().filter(|_| place.table == Table::Lane),
            failed: job.failures > 0,
            bytes: job.kept_bytes(),
            order: 0,
            batch: RowNumber::UNWRITTEN,
        }
    }
}

/// The jobs that were claimed together, and whose ids are in one row of `claim`.
pub(super) struct Batch {
    /// How many of its claims are held.
    pub(super) left: usize,
    /// Its row names a job that exists but is no longer claimed.
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

pub(super) enum Change {
    Added(JobId),
    Removed(JobId, Held),
}

const BEGINNING: (Millis, JobId) = (Millis::ZERO, JobId::from_u128(0));

impl Claims {
    pub(crate) fn new(runner: bool) -> Claims {
        Claims {
            runner,
            held: HashMap::default(),
            batches: HashMap::default(),
            cursors: Vec::new(),
            starts: 0,
            claimed: 0,
            journal: Vec::new(),
            touched: HashSet::default(),
            fresh: Vec::new(),
            last_row: RowNumber::default(),
        }
    }

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

    /// Says whether any suspects are in `waiting`.
    pub(crate) fn suspects_wait(&self) -> bool {
        self.cursors.iter().any(|cursor| !cursor.waiting.is_empty())
    }

    pub(crate) fn held(&self) -> &HashMap<JobId, Held> {
        &self.held
    }

    pub(crate) fn get(&self, id: JobId) -> Option<&Held> {
        self.held.get(&id)
    }

    /// Holds a claim, for a transaction that ends it.
    pub(super) fn hold(&mut self, id: JobId, held: Held) {
        self.held.insert(id, held);
    }

    /// Says whether this process runs the jobs.
    pub(crate) fn of_runner(&self) -> bool {
        self.runner
    }

    /// Says whether a job is claimed.
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
        self.journal.push(Change::Removed(id, held));
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

    /// Returns the jobs whose claims have ended in this transaction.
    pub(super) fn ended(&self) -> impl Iterator<Item = JobId> {
        self.journal.iter().filter_map(|change| match change {
            Change::Removed(id, _) => Some(*id),
            Change::Added(_) => None,
        })
    }

    pub(crate) fn accept(&mut self) {
        self.journal.clear();
        self.touched.clear();
    }

    /// Undoes the changes of this transaction.
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

/// Says whether a claim may take any suspects.
pub(super) fn admits_suspects(request: &ClaimRequest) -> bool {
    request.crashed_once > 0 || request.poison_pill
}
