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
use std::sync::Arc;

use super::rows::{KindRow, Place};
use super::tables::Tables;
use crate::store::ClaimRequest;
use crate::values::error::StoreError;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// What is claimed by this process.
pub(crate) struct Claims {
    pub(super) runner: bool,
    pub(super) held: HashMap<JobId, Held>,
    pub(super) batches: HashMap<i64, Batch>,
    pub(super) cursors: Vec<Cursor>,
    /// The upper part of each fence: how often a process took the file over.
    pub(crate) starts: u64,
    pub(super) claimed: u64,
    /// What this transaction has done to `held`, to be undone if it fails.
    pub(super) journal: Vec<Change>,
    /// Batches with claims that have ended in this transaction.
    pub(super) touched: HashSet<i64>,
    /// What this transaction has claimed: a row to write.
    pub(super) fresh: Vec<JobId>,
}

/// A claimed job.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) place: Place,
    pub(crate) key: Option<String>,
    pub(crate) callers_id: bool,
    /// The how-manieth claim of this process it is.
    pub(super) order: u64,
    pub(super) batch: i64,
}

pub(super) struct Batch {
    /// How many of its claims are held.
    pub(super) left: usize,
    /// A job that is not claimed any more, and not gone either, is in its row.
    pub(super) stale: bool,
}

pub(super) struct Cursor {
    pub(super) kind: i64,
    pub(super) name: Arc<str>,
    pub(super) start: (Millis, JobId),
    pub(super) next: Option<Millis>,
    /// Due suspects that were passed over, and how often each was interrupted.
    pub(super) waiting: BTreeMap<(Millis, JobId), u32>,
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
    pub(crate) fn note_added(&mut self, place: Place) {
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

    pub(crate) fn accept(&mut self) {
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

/// Says whether a claim may take suspects at all.
pub(super) fn admits_suspects(request: &ClaimRequest) -> bool {
    request.crashed_once > 0 || request.poison_pill
}
