//! Which jobs are claimed, and how far each kind was read.
//!
//! Ground rules:
//!
//! - Every job of a handled kind that lies before the kind's `start` is claimed. What is written
//!   before `start` moves it back. So a scan begins at `start`, skips what is claimed, and misses
//!   nothing.
//! - `next` is a lower bound: no job of the kind that is not claimed is due before it.
//! - A job that was interrupted once is a suspect: it may be what ended the process. Only so many
//!   suspects are claimed at once, and a job that was interrupted more often is claimed when no other
//!   suspect is. So a job that ends its process is soon claimed alone, and its neighbours do not die
//!   with it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::params;

use super::State;
use super::rows::{JobRow, Place, id_bytes, store_error};
use super::tables::Tables;
use crate::store::words::{ClaimRequest, Claimed, Fence};
use crate::values::error::StoreError;
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
    /// The next job is a suspect that has to wait for others.
    blocked: bool,
}

enum Change {
    Added(JobId),
    Removed(JobId, Held),
}

/// The batch of claims whose row is not written yet.
const UNWRITTEN: i64 = -1;

/// How many bits of a fence count the claims since the process took over.
const CLAIM_BITS: u32 = 40;

const BEGINNING: (Millis, JobId) = (Millis::ZERO, JobId::from_u128(0));
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

    /// Says whether a claim up to `until` could find anything.
    pub(crate) fn may_have_due(&self, until: Millis) -> bool {
        self.cursors.iter().any(|cursor| cursor.next.is_some_and(|next| next <= until))
    }

    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.cursors.iter().filter(|cursor| !cursor.blocked).filter_map(|cursor| cursor.next).min()
    }

    pub(crate) fn suspects_wait(&self) -> bool {
        self.cursors.iter().any(|cursor| cursor.blocked)
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
            cursor.blocked = false;
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
        request: ClaimRequest,
    ) -> Result<Vec<Claimed>, StoreError> {
        let Claims { held, cursors, starts, claimed: fences, journal, fresh, .. } =
            &mut self.claims;
        let scanned: Vec<usize> = (0..cursors.len())
            .filter(|&at| cursors[at].next.is_some_and(|next| next <= request.until))
            .collect();
        let prepare = |_: &usize| tables.conn.prepare_cached(&tables.sql.scan).map_err(store_error);
        let mut statements = scanned.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let mut scans = Vec::with_capacity(scanned.len());
        for (statement, &at) in statements.iter_mut().zip(&scanned) {
            let (due, id) = cursors[at].start;
            let key = params![cursors[at].kind, due.get(), id_bytes(id)];
            let rows = statement.query(key).map_err(store_error)?;
            let mut scan = Scan { rows, head: None };
            scan.advance(held, request.until)?;
            scans.push(scan);
        }
        let mut claimed = Vec::new();
        let (mut suspects, mut repeat_offender) = (request.suspects, request.repeat_offender);
        let mut blocked = vec![false; scans.len()];
        while claimed.len() < request.limit {
            let earliest = (0..scans.len())
                .filter(|&at| !blocked[at])
                .filter_map(|at| match &scans[at].head {
                    Some(Head::Due(job)) => Some(((job.due, job.id), at)),
                    _ => None,
                })
                .min();
            let Some((_, at)) = earliest else { break };
            let Some(Head::Due(job)) = &scans[at].head else { break };
            match job.interruptions {
                0 => {}
                1 if suspects > 0 => suspects -= 1,
                2.. if repeat_offender && suspects == request.suspects => suspects = 0,
                _ => {
                    blocked[at] = true;
                    continue;
                }
            }
            repeat_offender &= job.interruptions == 0;
            let Some(Head::Due(job)) = scans[at].head.take() else { break };
            let cursor = &cursors[scanned[at]];
            let place = Place { kind: cursor.kind, due: job.due, id: job.id, later: false };
            let (key, callers_id) = (job.key.clone(), job.callers_id);
            let claim = Held { place, key, callers_id, batch: UNWRITTEN };
            held.insert(job.id, claim);
            journal.push(Change::Added(job.id));
            fresh.push(job.id);
            *fences += 1;
            claimed.push(Claimed {
                id: job.id,
                kind: Arc::clone(&cursor.name),
                due: job.due,
                tries: job.tries,
                interruptions: job.interruptions,
                runs: job.runs,
                key: job.key,
                payload: job.payload,
                fence: Fence::new(*starts << CLAIM_BITS | *fences, 0),
            });
            scans[at].advance(held, request.until)?;
        }
        for ((scan, blocked), &at) in scans.iter().zip(blocked).zip(&scanned) {
            let cursor = &mut cursors[at];
            cursor.blocked = blocked;
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
        for n in claims.touched.drain() {
            let Some(batch) = claims.batches.get_mut(&n) else { continue };
            if batch.left == 0 {
                tables.execute(&tables.sql.drop_claim, [n])?;
                claims.batches.remove(&n);
            } else if core::mem::take(&mut batch.stale) {
                let held = claims.held.iter().filter(|(_, held)| held.batch == n);
                let ids: Vec<u8> = held.flat_map(|(id, _)| id_bytes(*id)).collect();
                tables.execute(&tables.sql.set_claim, params![n, ids])?;
            }
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

    /// Makes this process the one that runs the jobs of these kinds: jobs that are claimed in the
    /// file were interrupted.
    pub(crate) fn take_over(
        &mut self,
        tables: Tables<'_>,
        kinds: &[Arc<str>],
        now: Millis,
    ) -> Result<(), StoreError> {
        for kind in kinds {
            tables.add_kind(kind)?;
        }
        self.kinds = tables.kinds()?;
        tables.execute(&tables.sql.add_start, [])?;
        self.claims.starts = tables.starts()?;
        let asked: HashSet<JobId> = self.asked(tables)?.clone();
        for id in tables.claimed_ids()? {
            let Some(place) = tables.find(&self.kinds, id)? else { continue };
            self.interrupted(tables, place, asked.contains(&id), now)?;
        }
        tables.execute(&tables.sql.drop_claims, [])?;
        tables.execute(&tables.sql.drop_all_asked, [])?;
        self.asked = Some(HashSet::new());
        let number = |name: &Arc<str>| {
            let row = self.kinds.iter().find(|kind| *kind.name == **name);
            row.map(|row| (row.n, Arc::clone(name)))
        };
        self.claims.cursors = kinds
            .iter()
            .filter_map(number)
            .map(|(kind, name)| Cursor {
                kind,
                name,
                start: BEGINNING,
                next: Some(Millis::ZERO),
                blocked: false,
            })
            .collect();
        Ok(())
    }
}

/// A scan of one kind, and the first job of it that is not taken.
struct Scan<'a> {
    rows: rusqlite::Rows<'a>,
    head: Option<Head>,
}

enum Head {
    Due(JobRow),
    /// The next job is due later than what is claimed.
    Later((Millis, JobId)),
}

impl Scan<'_> {
    fn advance(&mut self, held: &HashMap<JobId, Held>, until: Millis) -> Result<(), StoreError> {
        self.head = loop {
            let Some(row) = self.rows.next().map_err(store_error)? else { break None };
            let position = JobRow::read_position(row).map_err(store_error)?;
            if held.contains_key(&position.1) {
                continue;
            }
            if position.0 > until {
                break Some(Head::Later(position));
            }
            break Some(Head::Due(JobRow::read(row).map_err(store_error)?));
        };
        Ok(())
    }
}
