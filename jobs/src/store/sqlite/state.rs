//! The state in memory that belongs to the file.

use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashSet};

use super::callers_transaction::EndedIn;
use super::claim::FileClaims;
use super::history::KindMinute;
use super::kept::{NewlyKept, ToTrim, WaitedFor};
use super::lane_table::LaneTable;
use super::later_jobs::{Hours, Pace};
use super::open::Location;
use super::reads::Ahead;
use super::run_ends::Completed;
use super::schema::{JobRow, KindCounts, KindRow, Place, Table, id_bytes, kind_row};
use super::sql::{ALL_PROGRESS, CANCEL_REQUESTS};
use super::tables::Tables;
use crate::store::Unreadable;
use crate::store::history::Noted;
use crate::values::error::StoreError;
use crate::values::group::GroupId;
use crate::values::id::JobId;

/// The ids in a table that almost always has none. They are read once, and again if another connection may have changed
/// them.
#[derive(Default)]
pub(crate) struct FewIds {
    all: &'static str,
    drop: &'static str,
    ids: Option<HashSet<JobId>>,
}

impl FewIds {
    fn of(all: &'static str, drop: &'static str) -> FewIds {
        FewIds { all, drop, ids: None }
    }

    pub(super) fn read(&mut self, tables: Tables<'_>) -> Result<&mut HashSet<JobId>, StoreError> {
        let ids = match self.ids.take() {
            Some(ids) => ids,
            None => tables.ids(self.all)?.into_iter().collect(),
        };
        Ok(self.ids.insert(ids))
    }

    /// Notes that the table has a row of this job now.
    pub(super) fn add(&mut self, id: JobId) {
        if let Some(ids) = &mut self.ids {
            ids.insert(id);
        }
    }

    /// Deletes the row of a job. Returns whether there was one. If no job has a row, the id is not hashed.
    pub(super) fn take(&mut self, tables: Tables<'_>, id: JobId) -> Result<bool, StoreError> {
        let ids = self.read(tables)?;
        let has = !ids.is_empty() && ids.remove(&id);
        if has {
            tables.execute(self.drop, [id_bytes(id)])?;
        }
        Ok(has)
    }

    pub(super) fn forget(&mut self) {
        self.ids = None;
    }
}

/// The state in memory that belongs to the file.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) kinds: Vec<KindRow>,
    /// For each kind by number: by how much its counts have changed in this batch.
    pub(crate) deltas: Vec<(i64, KindCounts)>,
    /// The figures that this batch adds to the history, by the number of the kind.
    pub(crate) noted: Noted<i64>,
    /// The latest minute of each kind's history.
    pub(crate) minutes: Vec<KindMinute>,
    /// How long dead jobs, and ids that callers chose, are kept.
    pub(crate) keep_dead: Duration,
    pub(crate) claims: FileClaims,
    pub(super) ended_in: Arc<EndedIn>,
    pub(crate) hours: Hours,
    pub(super) lane_table: LaneTable,
    /// How many rows a purge deletes at once.
    pub(crate) purges: Pace,
    /// The group at whose results a purge has looked last.
    pub(super) results_looked_at: Option<GroupId>,
    /// The next transaction reads the kinds again.
    pub(crate) reload: bool,
    /// `None`: the connection has read nothing of the file.
    pub(super) data_version: Option<i64>,
    /// Another connection has changed the file since the last poll.
    pub(crate) changed: bool,
    /// Ids of jobs whose insert may or may not have been committed. The store remembers them when the jobs
    /// end, as it does ids that the caller chose.
    pub(crate) unknown: HashSet<JobId>,
    pub(super) cancel_requested: FewIds,
    /// Only the process that runs the jobs writes them.
    pub(super) progress: FewIds,
    /// The table `outbox` may hold jobs.
    pub(crate) outbox: bool,
    /// Another process runs the jobs of the file now.
    pub(crate) overtaken: bool,
    /// Positions that were read ahead for the next pages of a list.
    pub(crate) ahead: Vec<Ahead>,
    /// The jobs that have ended in this batch, and whose rows are still in the table of jobs.
    pub(super) completed: Vec<Completed>,
    /// The jobs that this batch keeps, and that are in no list yet.
    pub(super) newly_kept: Vec<NewlyKept>,
    /// The kinds that have got kept jobs in this batch.
    pub(super) to_trim: Vec<ToTrim>,
    /// By kind, once it was read.
    pub(super) waited_for: HashMap<i64, WaitedFor>,
    /// Rows that could not be read in this batch.
    pub(crate) unreadable: Vec<Unreadable>,
}

impl State {
    /// Returns the state of a process that has not read the file yet.
    pub(super) fn new(location: &Location, runs_jobs: bool) -> State {
        State {
            noted: Noted::new(location.history),
            keep_dead: location.keep_dead,
            claims: FileClaims { runner: runs_jobs, ..FileClaims::default() },
            ended_in: Arc::clone(&location.ended_in),
            cancel_requested: FewIds::of(
                CANCEL_REQUESTS,
                "DELETE FROM {p}cancel_requested WHERE id = ?1",
            ),
            progress: FewIds::of(ALL_PROGRESS, "DELETE FROM {p}progress WHERE id = ?1"),
            ..State::default()
        }
    }

    /// Begins a transaction: reads again what other connections have changed. Fails if another process
    /// runs the jobs now, so that this one writes nothing more.
    pub(crate) fn begin(&mut self, tables: Tables<'_>) -> Result<(), StoreError> {
        let version = tables.one("PRAGMA data_version", [], |row| row.get(0))?;
        if version != self.data_version {
            self.data_version = version;
            self.reload = true;
            self.changed = true;
            self.cancel_requested.forget();
            self.outbox = true;
            self.claims.rewind();
            self.hours.forget();
        }
        if self.reload {
            self.kinds = tables.kinds()?;
            tables.look_for_lanes()?;
            self.read_minutes(tables)?;
            self.hours.read(tables)?;
            self.overtaken |= self.claims.starts > 0 && tables.starts()? != self.claims.starts;
            self.reload = false;
        }
        if self.overtaken {
            return Err(StoreError::Overtaken);
        }
        Ok(())
    }

    /// Keeps the changes of a transaction that was committed.
    pub(crate) fn accept(&mut self) {
        let changes = self.claims.journal.drain(..);
        self.ended_in.forget(changes.filter_map(|(id, before)| before.map(|_| id)));
        self.claims.touched.clear();
    }

    /// Undoes the changes of a transaction that was rolled back.
    pub(crate) fn undo(&mut self) {
        self.claims.undo();
        self.lane_table.forget(&self.claims);
        self.hours.forget();
        self.deltas.clear();
        self.completed.clear();
        self.newly_kept.clear();
        self.to_trim.clear();
        self.waited_for.clear();
        self.noted.take();
        self.cancel_requested.forget();
        self.progress.forget();
        self.outbox = true;
        self.reload = true;
    }

    /// Notes that an unclaimed job is at this place now. `part`: its partition.
    pub(super) fn note_added(&mut self, place: Place, part: Option<&Arc<str>>) {
        match (place.table, part) {
            (Table::Later, _) => self.hours.note_added(place.due),
            (Table::Job, part) => self.claims.note_added(place, part.is_some()),
            (Table::Lane, Some(part)) => {
                if let Some(name) = self.claims.name_of(place.kind) {
                    self.lane_table.file(place.kind, name, part, (place.due, place.id));
                }
            }
            (Table::Lane, None) => {}
        }
    }

    /// Says whether any suspects have to wait, in a lane too.
    pub(super) fn suspects_wait(&self) -> bool {
        self.claims.cursors.iter().any(|cursor| !cursor.waiting.is_empty())
            || self.lane_table.lanes.any_passed_over()
    }

    /// Notes that counts of a kind have changed by this much.
    pub(super) fn count(&mut self, kind: i64, by: KindCounts) {
        match self.deltas.iter_mut().find(|(of, _)| *of == kind) {
            Some((_, delta)) => delta.add(by),
            None => self.deltas.push((kind, by)),
        }
    }

    /// Returns the counts of a kind, with the changes of this batch.
    pub(super) fn counts_of(&self, kind: &KindRow) -> KindCounts {
        let mut counts = kind.counts;
        if let Some((_, delta)) = self.deltas.iter().find(|(of, _)| *of == kind.n) {
            counts.add(*delta);
        }
        counts
    }

    pub(crate) fn write_counts(&mut self, tables: Tables<'_>) -> Result<(), StoreError> {
        for (kind, by) in core::mem::take(&mut self.deltas) {
            if by != KindCounts::default() {
                tables.add_counts(kind, by, None)?;
                self.has_counted(kind, by);
            }
        }
        Ok(())
    }

    /// Notes that the counts of a kind were changed by this much in the file.
    pub(super) fn has_counted(&mut self, kind: i64, by: KindCounts) {
        if let Some(row) = self.kinds.iter_mut().find(|row| row.n == kind) {
            row.counts.add(by);
        }
    }

    /// Moves a job that is not claimed, or whose claim has ended, to its next due time.
    pub(super) fn file_again(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        again: &JobRow,
    ) -> Result<(), StoreError> {
        tables.delete_job(kind_row(&self.kinds, place.kind)?, place)?;
        self.file(tables, place.kind, again)
    }

    /// Writes a job that is pending from now on.
    pub(super) fn file(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        job: &JobRow,
    ) -> Result<(), StoreError> {
        let table = self.hours.table_for(tables, kind, job.due)?;
        let place = tables.put_job(kind_row(&self.kinds, kind)?, job, &job.payload, table)?;
        self.note_added(place, job.part.as_ref());
        Ok(())
    }
}
