//! The table of lanes: the due jobs that have a partition, and how they come there.
//!
//! Ground rules:
//!
//! - Only the process that runs the jobs writes jobs to the table. Any other inserts to the *road*, the tables of jobs
//!   and of later hours, as if there were no partitions.
//! - A claim first moves the due jobs with a partition from the road to the table, whether or not their lanes may
//!   run. An index finds them on the road. So no later claim reads them there. It reads the jobs of a lane, by
//!   another index, when the lane has its turn.
//! - That index is made with the first job that has a partition. A file without one has no lanes, so no claim asks for
//!   them.
//! - The list of lanes is in memory (`store/lanes.rs`). After a start, and after a rollback, it is read anew, with
//!   one step of the index for each lane.
//! - Every job of a lane before its entry in `starts` is claimed, or cannot be read.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::params;

use super::State;
use super::claim::{FileClaims, HeldClaim};
use super::schema::{
    JobRow, PART_INDEX, Place, Table, id_bytes, id_of, store_error, unreadable_job,
};
use super::tables::Tables;
use crate::store::lanes::Lanes;
use crate::store::{ClaimRequest, Unreadable};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::limit::Tokens;
use crate::values::time::Millis;

/// How many jobs a commit moves to their lanes, and how many back.
pub(super) const MOVES_PER_COMMIT: usize = 1024;

/// The due time and the id of a job.
type Position = (Millis, JobId);

/// The lanes, as the process that runs the jobs knows them.
#[derive(Default)]
pub(crate) struct LaneTable {
    pub(super) lanes: Lanes,
    /// Where to read on in a lane: by kind and partition.
    starts: HashMap<i64, HashMap<Arc<str>, Position>>,
    /// The lanes were read from the file.
    are_read: bool,
    /// The tokens were read from the file.
    are_tokens_read: bool,
    /// A scan has met a job for the table, and the index is not made.
    pub(super) is_wanted: bool,
}

/// The first job of a lane that a claim may take.
pub(super) enum First {
    Due(Position),
    /// It is not due, because the clock was set back.
    Later(Position),
    None,
}

impl LaneTable {
    /// Forgets every lane: the state in memory may be wrong.
    pub(super) fn forget(&mut self, claims: &FileClaims) {
        self.lanes.forget(claims.by_lane());
        self.starts.clear();
        (self.are_read, self.are_tokens_read, self.is_wanted) = (false, false, false);
    }

    /// An unclaimed job of the lane is in the table.
    pub(super) fn file(&mut self, kind: i64, name: &Arc<str>, part: &Arc<str>, at: Position) {
        self.lanes.file(name, part);
        if let Some(starts) = self.starts.get_mut(&kind)
            && starts.get(part).is_some_and(|start| at < *start)
        {
            starts.remove(part);
        }
    }

    /// The job of the lane at this position is claimed, or cannot be read: later claims begin behind it.
    pub(super) fn pass(&mut self, kind: i64, part: &Arc<str>, (due, id): Position) {
        let behind = (due, JobId::from_u128(id.to_u128().saturating_add(1)));
        self.starts.entry(kind).or_default().insert(Arc::clone(part), behind);
    }

    /// Reads the lanes of a kind.
    fn read(
        &mut self,
        tables: Tables<'_>,
        (kind, name): (i64, &Arc<str>),
    ) -> Result<(), StoreError> {
        let mut after: Arc<str> = Arc::from("");
        loop {
            let next = tables.one(
                "SELECT part FROM {p}lane WHERE kind = ?1 AND part > ?2 ORDER BY part LIMIT 1",
                params![kind, after],
                |row| row.get(0),
            )?;
            let Some(part) = next else { return Ok(()) };
            self.lanes.file(name, &part);
            after = part;
        }
    }

    /// Moves jobs of a kind that are due by then to their lanes. Returns when the next one is due.
    fn fill(
        &mut self,
        tables: Tables<'_>,
        (kind, name): (i64, &Arc<str>),
        now: Millis,
        (moves, unreadable): (&mut usize, &mut Vec<Unreadable>),
    ) -> Result<Option<Millis>, StoreError> {
        let most = i64::try_from(*moves + 1).unwrap_or(i64::MAX);
        let rows = tables.all(
            "SELECT due, id, part FROM {p}job WHERE kind = ?1 AND part IS NOT NULL \
             ORDER BY due, id LIMIT ?2",
            params![kind, most],
            |row| {
                let found = JobRow::read_position(row).and_then(|at| Ok((at, row.get(2)?)));
                Ok(found.map_err(|error| unreadable_job(row, error)))
            },
        )?;
        let (is_full, mut last) = (rows.len() as i64 == most, None);
        for found in rows {
            // A row that cannot be read stays where it is.
            let (at, part): (Position, Arc<str>) = match found {
                Ok(found) => found,
                Err(error) => {
                    unreadable.push(error);
                    continue;
                }
            };
            if at.0 > now || *moves == 0 {
                return Ok(Some(at.0));
            }
            *moves -= 1;
            last = Some(at.0);
            tables.move_row(Place { kind, due: at.0, id: at.1, table: Table::Job })?;
            self.file(kind, name, &part, at);
        }
        // Some of the rows could not be read, so others may follow that are due.
        Ok(last.filter(|_| is_full))
    }

    /// Returns the first job of a lane that is not claimed.
    pub(super) fn first(
        &mut self,
        tables: Tables<'_>,
        (kind, name): (i64, &Arc<str>),
        part: &Arc<str>,
        (held, now): (&foldhash::HashMap<JobId, HeldClaim>, Millis),
    ) -> Result<First, StoreError> {
        let start = self.starts.get(&kind).and_then(|starts| starts.get(part)).copied();
        let (due, id) = start.unwrap_or((Millis::ZERO, JobId::from_u128(0)));
        let statement = tables.prepare(
            "SELECT due, id FROM {p}lane WHERE kind = ?1 AND part = ?2 AND (due, id) >= \
             (?3, ?4) ORDER BY due, id",
        );
        let mut statement = statement.map_err(store_error)?;
        let from = params![kind, part, due.get(), id_bytes(id)];
        let mut rows = statement.query(from).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let at = JobRow::read_position(row).map_err(store_error)?;
            match held.contains_key(&at.1) {
                true => self.pass(kind, part, at),
                false if at.0 > now => return Ok(First::Later(at)),
                false => return Ok(First::Due(at)),
            }
        }
        self.lanes.drained(name, part);
        if let Some(starts) = self.starts.get_mut(&kind) {
            starts.remove(part);
        }
        Ok(First::None)
    }
}

impl FileClaims {
    /// Returns the claims, as the lanes count them.
    pub(super) fn by_lane(&self) -> impl Iterator<Item = crate::store::lanes::ScopedClaim<'_>> {
        self.held.iter().filter_map(|(id, held)| {
            Some((*id, self.name_of(held.place.kind)?, held.part.as_ref()))
        })
    }
}

impl Tables<'_> {
    pub(super) fn tokens(&self, scopes: &[String]) -> Result<Vec<Option<Tokens>>, StoreError> {
        let tokens = |scope: &String| {
            let text =
                self.one("SELECT value FROM {p}tokens WHERE scope = ?1", [scope], |row| {
                    row.get::<_, String>(0)
                })?;
            Ok(text.and_then(|text| Tokens::from_text(&text)))
        };
        scopes.iter().map(tokens).collect()
    }
}

impl State {
    /// Takes the limits of a claim.
    pub(super) fn follow_limits(&mut self, request: &ClaimRequest) {
        let LaneTable { lanes, .. } = &mut self.lane_table;
        lanes.begin(&request.limits, request.now, self.claims.by_lane());
    }

    /// Makes the index of the jobs that go to lanes, if the file has none.
    pub(super) fn make_lanes(&mut self, tables: Tables<'_>) -> Result<(), StoreError> {
        if !tables.sql.has_lanes.get() {
            tables.make(PART_INDEX)?;
            tables.sql.has_lanes.set(true);
            let cursors = self.claims.cursors.iter_mut();
            cursors.for_each(|cursor| cursor.next_part = Some(Millis::ZERO));
        }
        self.lane_table.is_wanted = false;
        Ok(())
    }

    /// Prepares the lanes for a claim: makes the index if a scan wants it, reads the lanes, and moves the jobs that
    /// are due by then.
    pub(super) fn prepare_lanes(
        &mut self,
        tables: Tables<'_>,
        now: Millis,
    ) -> Result<(), StoreError> {
        if !core::mem::replace(&mut self.lane_table.are_tokens_read, true) {
            let all = tables.all("SELECT scope, value FROM {p}tokens", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            self.lane_table.lanes.load_tokens(all.into_iter());
        }
        if self.lane_table.is_wanted {
            self.make_lanes(tables)?;
        }
        let are_read = core::mem::replace(&mut self.lane_table.are_read, true);
        if !tables.sql.has_lanes.get() {
            self.claims.cursors.iter_mut().for_each(|cursor| cursor.next_part = None);
            return Ok(());
        }
        let mut moves = MOVES_PER_COMMIT;
        for cursor in &mut self.claims.cursors {
            let kind = (cursor.kind, &cursor.name);
            if !are_read {
                self.lane_table.read(tables, kind)?;
            }
            if cursor.next_part.is_some_and(|next| next <= now) {
                cursor.next_part =
                    self.lane_table.fill(tables, kind, now, (&mut moves, &mut self.unreadable))?;
            }
        }
        Ok(())
    }

    /// Writes the tokens that have changed.
    pub(super) fn write_tokens(&mut self, tables: Tables<'_>) -> Result<(), StoreError> {
        for (scope, tokens) in self.lane_table.lanes.tokens.changed() {
            tables.execute(
                "INSERT INTO {p}tokens VALUES (?1, ?2) ON CONFLICT (scope) DO UPDATE \
                 SET value = excluded.value",
                [scope, tokens],
            )?;
        }
        Ok(())
    }

    /// Ends the claim of a job. `gone`: the job itself has ended too.
    pub(super) fn end_claim(&mut self, id: JobId, gone: bool) -> Option<(Place, Option<Arc<str>>)> {
        let part = self.claims.held.get(&id)?.part.clone();
        let place = self.claims.end(id, gone)?;
        if let Some(name) = self.claims.name_of(place.kind) {
            self.lane_table.lanes.ended((id, name, part.as_ref()));
        }
        Some((place, part))
    }

    /// Moves a job that is not due from its lane back to the table of jobs: the clock was set back.
    pub(super) fn move_back(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        at: Position,
    ) -> Result<(), StoreError> {
        tables.move_row(Place { kind, due: at.0, id: at.1, table: Table::Lane })?;
        self.hours.note_newest(kind, at.0);
        let mut cursors = self.claims.cursors.iter_mut();
        if let Some(cursor) = cursors.find(|cursor| cursor.kind == kind) {
            cursor.next_part = Some(cursor.next_part.map_or(at.0, |next| next.min(at.0)));
        }
        Ok(())
    }

    /// Checks what this process knows of the lanes: F13.
    pub(super) fn lanes_agree(&self, tables: Tables<'_>) -> Result<(), Violation> {
        if !self.claims.runner {
            return Ok(());
        }
        let LaneTable { lanes, are_read, .. } = &self.lane_table;
        if let Some(wrong) = lanes.violation(self.claims.by_lane()) {
            return Err(Violation(format!("F13: {wrong}")));
        }
        if !are_read || !tables.sql.has_lanes.get() {
            return Ok(());
        }
        let of_lane = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, i64>(0)?, id_of(row, 1)?, row.get::<_, Arc<str>>(2)?))
        };
        for (kind, id, part) in tables.whole("SELECT kind, id, part FROM {p}lane", of_lane)? {
            let Some(name) = self.claims.name_of(kind) else { continue };
            if !self.claims.held.contains_key(&id) && !lanes.has(name, &part) {
                return Err(Violation(format!("F13: {id} is in the lane {part:?}, which is lost")));
            }
        }
        Ok(())
    }
}
