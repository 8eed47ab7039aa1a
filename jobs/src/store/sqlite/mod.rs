//! The store on a file: SQLite in WAL mode, one commit for a batch.
//!
//! Ground rules:
//!
//! - The file is the truth. The state in memory (the claims, a scan cursor for each kind) follows from the file, and
//!   is undone when a commit fails.
//! - A claim is a row with the ids of all jobs that were claimed together; it does not touch the rows of the jobs. So
//!   a job costs two writes in its life.
//! - A claim need not be on stable storage before the job starts, nor a finish before its slot is free. If a power
//!   cut loses either, the job runs again, and that counts as an interruption.

pub(crate) mod schema;
pub(crate) mod sql;
pub(crate) mod tables;
pub(crate) mod callers_transaction;
mod connection;
pub(crate) mod open;
mod lane_table;
mod claim;
mod state;
pub(crate) mod later_jobs;
pub(crate) mod apply_op;
mod groups;
mod run_ends;
mod kept;
mod ended;
mod history;
mod reads;
mod schedules;
pub(crate) mod statement;
mod check;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::{ApplyError, Batch, BatchOutcome, Hurry, Op, PollResult, Store, StoreStats};
use crate::values::error::{OpenError, StoreError, Violation};
use crate::values::id::JobId;
use crate::values::time::Millis;
use connection::{Access, Identity, LONGEST_WAIT, set_waiting, waiting_until};
use open::{Location, RunnerLock};
use schema::store_error;
use sql::{DROP_NODES, Sql};
pub(crate) use state::State;
use statement::Filed;
use tables::Tables;

/// The store on a file.
pub(crate) struct Sqlite {
    sql: Sql,
    /// `None` after an error, until the next batch opens it again.
    conn: Option<Connection>,
    state: State,
    /// Ends the waits for other connections.
    hurry: Hurry,
    /// The lock that is held while this process runs the jobs of the file.
    _runner: Option<RunnerLock>,
    /// The identity of the file that was opened, and that of the log which this connection has found.
    identity: Option<Identity>,
    log: Option<Identity>,
    /// When that was last compared with the file under the name.
    compared: Millis,
    /// The file under the name is another one now, or gone.
    removed: bool,
    pid: u32,
    /// The connection waits for the disk at each commit.
    syncs: bool,
    stats: StoreStats,
    /// The file may have free pages, because rows were deleted.
    needs_maintenance: bool,
    /// The log has commits that were not moved to the file.
    behind: bool,
    /// Dropped after the connection and the lock, since it may be the last user of a temporary file.
    location: Location,
}

/// How many pages one call of `maintain` gives back to the file system.
const PAGES_PER_VACUUM: u32 = 256;

/// If the store is idle for this long, it moves the log to the file. That takes some milliseconds, which a later
/// commit would take otherwise.
const CHECKPOINT_IDLE: Duration = Duration::from_millis(100);

impl Sqlite {
    /// Makes a store of a connection that was opened and checked. `runner`: the lock of the process that runs the
    /// jobs.
    pub(crate) fn new(
        location: Location,
        conn: Connection,
        runs_jobs: bool,
        runner: Option<RunnerLock>,
    ) -> Sqlite {
        let sql = Sql::new(location.queue.as_deref());
        Sqlite {
            identity: location.identity(),
            log: None,
            compared: Millis::ZERO,
            removed: false,
            hurry: Hurry::default(),
            state: State::new(&location, runs_jobs),
            location,
            sql,
            conn: Some(conn),
            _runner: runner,
            pid: std::process::id(),
            syncs: true,
            stats: StoreStats::default(),
            needs_maintenance: true,
            behind: true,
        }
    }

    /// Drops rows of `cancel_requested` whose jobs are not claimed. Only another program writes such rows.
    fn drop_cancel_request(&mut self, stale: Vec<JobId>) -> Result<(), StoreError> {
        if stale.is_empty() || !self.state.claims.runner {
            return Ok(());
        }
        let dropped = self.transact(Access::Write, false, |tables, state| {
            for id in stale {
                if !state.claims.held.contains_key(&id) {
                    state.cancel_requested.take(tables, id)?;
                }
            }
            Ok(((), true))
        });
        dropped.map_err(|failed| failed.error)
    }

    /// Gives free pages back to the file system. Returns whether more may be left.
    fn shrink(&mut self) -> Result<bool, StoreError> {
        let conn = self.connect()?;
        let (free, pages) = (pragma_of(conn, "freelist_count")?, pragma_of(conn, "page_count")?);
        if free * 4 < pages || free < i64::from(PAGES_PER_VACUUM) {
            return Ok(false);
        }
        let vacuum = format!("PRAGMA incremental_vacuum({PAGES_PER_VACUUM})");
        conn.execute_batch(&vacuum).map_err(store_error)?;
        self.needs_maintenance = pragma_of(conn, "freelist_count")? < free;
        Ok(self.needs_maintenance)
    }

    /// Moves the log to the file, as far as no reader prevents it.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        crate::values::hook::at("checkpoint: before");
        let moved = self.move_log();
        crate::values::hook::at("checkpoint: after");
        moved
    }

    fn move_log(&mut self) -> Result<(), StoreError> {
        let conn = self.connect()?;
        conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(store_error)
    }
}

impl Store for Sqlite {
    fn start_runner(&mut self, kinds: &[Arc<str>], now: Millis) -> Result<(), StoreError> {
        // The log is renewed, because an fsync of the previous process may have failed. If a connection that
        // reads prevents that, the process starts all the same.
        let (until, longest) = (self.location.start_until, self.location.call_timeout);
        let taken = waiting_until(until, longest, &self.hurry.clone(), || {
            self.connect()?;
            let Some(conn) = &mut self.conn else { return Err(StoreError::Closed.into()) };
            self.location.renew_log(conn).map_err(OpenError::into_store_error)?;
            self.transact(Access::Write, true, |tables, state| {
                let interrupted = state.start_runner(tables, kinds, now)?;
                crate::values::hook::at("recovery: before the commit");
                Ok((interrupted, true))
            })
        });
        self.stats.interruptions += taken.map_err(|failed| failed.error)?;
        Ok(())
    }

    fn apply(&mut self, batch: &Batch<'_>) -> Result<BatchOutcome, ApplyError> {
        self.compare_file(batch.now);
        if let Some(request) = &batch.claim {
            self.state.follow_limits(request);
        }
        let claim = batch.claim.as_ref().filter(|claim| self.state.may_have_due(claim));
        if batch.ops.is_empty() && claim.is_none() {
            return Ok(BatchOutcome {
                next_due: self.state.next_due(batch.claim.as_ref()),
                suspects_wait: self.state.suspects_wait(),
                ..BatchOutcome::default()
            });
        }
        let writes = batch.ops.iter().any(|op| !op.is_question());
        let access = if writes || claim.is_some() { Access::Write } else { Access::Read };
        let body = |tables: Tables<'_>, state: &mut State| {
            let filed = match access {
                Access::Write => state.file_outbox(tables, batch.now)?,
                Access::Read => Filed::default(),
            };
            let answers = batch.ops.iter().map(|op| state.apply(tables, op, batch.now));
            let answers = answers.collect::<Result<Vec<_>, _>>()?;
            state.settle(tables, batch.now)?;
            let mut moved = false;
            let mut claimed = Vec::new();
            let mut request = batch.claim.clone();
            if let (Some(_), Some(request)) = (claim, &mut request) {
                moved = state.move_hours(tables, request.until)?;
                claimed = state.claim(tables, request)?;
            }
            state.write_claims(tables, batch.now)?;
            state.write_history(tables, batch.now)?;
            let changed = writes || moved || filed.any || !claimed.is_empty();
            let next_due = state.next_due(request.as_ref());
            let suspects_wait = state.suspects_wait();
            let mut unreadable = core::mem::take(&mut state.unreadable);
            unreadable.extend(filed.unreadable);
            Ok((BatchOutcome { answers, claimed, next_due, suspects_wait, unreadable }, changed))
        };
        // Without a caller, a wait that takes long is reported, and the step is made again later.
        let most = if batch.awaited { Duration::MAX } else { LONGEST_WAIT };
        let (longest, hurry) = (self.location.call_timeout.min(most), self.hurry.clone());
        let applied = waiting_until(batch.until, longest, &hurry, || {
            if access == Access::Read {
                self.file_for_question(batch.now);
            }
            self.transact(access, batch.synced, body)
        });
        if applied.as_ref().is_err_and(|failed| failed.unknown) {
            let ids = batch.ops.iter().flat_map(|op| match op {
                Op::Insert(job) => core::slice::from_ref(job),
                Op::InsertMany(jobs) | Op::AddToGroup(_, jobs) => jobs,
                _ => &[],
            });
            self.state.unknown.extend(ids.map(|job| job.id));
        }
        self.needs_maintenance |= writes;
        #[cfg(all(test, feature = "sqlite"))]
        tests::steps::note(self);
        applied
    }

    fn poll(&mut self, now: Millis) -> Result<PollResult, StoreError> {
        self.compare_file(now);
        self.connect()?;
        let Some(conn) = &self.conn else { return Err(StoreError::Closed) };
        let tables = Tables { conn, sql: &self.sql };
        self.state.begin(tables)?;
        if !core::mem::take(&mut self.state.changed) {
            return Ok(PollResult::default());
        }
        let cancel_requested: Vec<JobId> =
            self.state.cancel_requested.read(tables)?.iter().copied().collect();
        let (cancel_requested, stale) =
            cancel_requested.into_iter().partition(|id| self.state.claims.held.contains_key(id));
        self.drop_cancel_request(stale)?;
        Ok(PollResult { changed: true, cancel_requested })
    }

    fn maintain(&mut self, idle: Duration) -> Result<bool, StoreError> {
        if core::mem::take(&mut self.needs_maintenance) && self.shrink()? {
            return Ok(true);
        }
        if self.behind && idle >= CHECKPOINT_IDLE {
            self.behind = false;
            return self.checkpoint().inspect_err(|error| self.after(error)).map(|()| false);
        }
        Ok(false)
    }

    fn check(&mut self) -> Result<(), Violation> {
        self.connect()?;
        let Some(conn) = &self.conn else { return Err(StoreError::Closed.into()) };
        let checked = check::check(Tables { conn, sql: &self.sql }, &self.state);
        if !self.state.claims.runner && !self.location.only_looks {
            // While the check read, no checkpoint could move later commits to the file. Without this, the
            // next commit of the process that runs the jobs would move them all, and be slow.
            let _ = self.move_log().inspect_err(|error| self.after(error));
        }
        checked
    }

    fn check_claims(&mut self) -> Result<(), Violation> {
        self.connect()?;
        let Some(conn) = &self.conn else { return Err(StoreError::Closed.into()) };
        check::check_claims(Tables { conn, sql: &self.sql }, &self.state)
    }

    fn hurry(&self) -> Hurry {
        self.hurry.clone()
    }

    fn stats(&self) -> StoreStats {
        self.stats
    }

    fn close(mut self: Box<Self>) -> Result<(), StoreError> {
        let is_in_place = self.is_in_place();
        let Some(mut conn) = self.conn.take() else { return Ok(()) };
        if std::process::id() != self.pid {
            core::mem::forget(conn);
            return Err(StoreError::Forked);
        }
        // If another process reads or writes, the log cannot be emptied. That loses nothing, so this does
        // not wait. Commits that were written without an fsync must reach stable storage in that case too.
        let _ = conn.pragma_update(None, "synchronous", "FULL");
        let _ = set_waiting(&mut conn, false);
        if self.state.claims.runner && !self.state.overtaken {
            // If another connection writes, the next start does it.
            let _ = Tables { conn: &conn, sql: &self.sql }.execute(DROP_NODES, []);
        }
        crate::values::hook::at("closing: before the checkpoint");
        let emptied = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        if !matches!(emptied, Ok(false)) && self.location.vfs.is_none() && is_in_place {
            // To open and close the log drops no lock: SQLite holds none on it.
            let synced = File::open(self.location.log()).and_then(|log| log.sync_all());
            synced.map_err(|error| StoreError::Io(error.to_string()))?;
        }
        let closed = conn.close().map_err(|(_, error)| store_error(error));
        if !is_in_place {
            return Err(self.location.removed());
        }
        emptied.map_err(store_error).map(|_| ()).and(closed)
    }
}

impl Drop for Sqlite {
    /// Leaks a connection that a fork has copied: to close it would release the locks of the parent.
    fn drop(&mut self) {
        if std::process::id() != self.pid
            && let Some(conn) = self.conn.take()
        {
            core::mem::forget(conn);
        }
    }
}

fn pragma_of(conn: &Connection, name: &str) -> Result<i64, StoreError> {
    conn.pragma_query_value(None, name, |row| row.get(0)).map_err(store_error)
}
