//! The tables, their rows, and how values are written in them.
//!
//! | table | a row is | grows with |
//! | --- | --- | --- |
//! | `job` | a job that has not ended, in the order of kind, due time, id | pending jobs |
//! | `later` | such a job of a later hour, in the order of kind, hour, id | pending jobs |
//! | `moved` | the place of a job whose id does not lead to it | jobs that were rescheduled, retried, or named by the caller |
//! | `key` | a key and the id of its pending or claimed job | jobs with keys |
//! | `claim` | the ids of jobs that were claimed together, until all of them have ended; the number of the row tells when | jobs in flight |
//! | `cancel_requested` | a claimed job whose cancel was requested | such requests, until the run ends |
//! | `progress` | a claimed job, and the progress that its run has set | such jobs, until the run ends: the end moves it to the row of the job |
//! | `ended` | a job that has ended and is kept: it is dead, has completed or expired, or was cancelled while a caller waits for its end | such jobs, until they are trimmed or purged |
//! | `ended_list` | the jobs of `ended` of one kind that ended in one way together, and until when they are kept (`kept.rs`) | commits that ended such jobs |
//! | `remembered` | an id that the caller chose and whose job has ended, or the id of a callback that is to come; and until when no job may have it | such ids, until they are purged |
//! | `dead_by_error` | a kind, the first line of an error, the number of dead jobs with both, and when the first and the last of them died | such groups |
//! | `kind` | the number of a kind, its name, its counts, and the latest minute of its history | kinds |
//! | `node` | the process that runs the jobs, and when it was last seen (`values/node.rs`) | nothing |
//! | `setting` | a setting of the queue: its name and its value (`values/setting.rs`) | settings |
//! | `history` | what happened in an hour or a day, by kind (`store/history.rs`) | kinds, for 48 hours and for 90 days |
//! | `schedule` | a schedule, and its next occurrence | schedules |
//! | `outbox` | a job that a statement of the application has stored (`statement.rs`) | such jobs, until the next transaction of this store |
//! | `lane` | a job with a partition that is due, in the order of kind, due time, id (`lane_table.rs`) | such jobs |
//! | `grp` | a group, with its counts (`groups.rs`) | groups, until they have ended, are purged, and no dead job names them |
//! | `member` | a group, and a member of it that is pending or claimed; or a callback of another group that is to come | such members |
//! | `callback` | a group, and the job that its end inserts | groups that have not ended |
//! | `grp_result` | a group that keeps results, a member of it that has ended, and how (`store/group.rs`) | such members, until the callback of the group is gone |
//! | `tokens` | the tokens of a scope with a rate: the name of its limit, and a text (`values/limit.rs`) | scopes with a rate that was used lately |
//! | `meta` | the version of the tables; how often a process started to run the jobs; a count of flushes; the last hour that is in `job`; a number that identifies the file | nothing |
//!
//! Each job that is written at a random place of a B-tree costs a page. So a job of a later hour goes to
//! `later`, where the jobs of an hour lie in the order of their ids, which ascend: one place to write for
//! each hour, not for each job. `later_jobs.rs` moves an hour to `job`, sorted, before the hour begins. A
//! job that is due after all other jobs of its kind in `job` goes to the end of `job` at once: if every
//! delay is the same, no job is ever moved. There is no index of ids (see `values/id.rs`).
//!
//! `job`, `later`, `lane` and `ended` have the same columns of a job, in the same order (`{columns}` and `{row}` in
//! `sql.rs`). So a statement can copy a row, and one reader reads it. The hour of `later` stands before them: if it
//! stood last, `PRAGMA integrity_check` of SQLite 3.40 would report values that are NULL, and are not.
//!
//! The index of the jobs with a partition is made with the first of them: a queue without partitions would pay for it
//! with each insert and each delete.
//!
//! The column `extra` holds the settings that few jobs have (`values/job.rs`). It is NULL for all others.

use std::sync::Arc;

use rusqlite::{Row, ffi};

use crate::store::{Ending, Inserted, StoredSchedule, Tries, Unreadable};
use crate::values::error::StoreError;
use crate::values::fail_and_retry::AttemptErrors;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::job::{Extra, Shown};
use crate::values::schedule::Schedule;
use crate::values::time::Millis;

/// The version of the tables that this code writes and reads.
pub(crate) const VERSION: i64 = 5;

/// The application id of a file that this code makes: "TWJ1".
pub(crate) const APPLICATION_ID: i64 = 0x5457_4a31;

/// The size of a page of a file that this code makes, in bytes.
pub(crate) const PAGE_BYTES: i64 = 4096;

pub(super) const TABLES: &str = "
CREATE TABLE {p}meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}kind (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, jobs INTEGER NOT NULL,
    retrying INTEGER NOT NULL, dead INTEGER NOT NULL, kept INTEGER NOT NULL, kept_bytes INTEGER NOT NULL,
    minute BLOB
);
CREATE TABLE {p}job (
    {columns},
    PRIMARY KEY (kind, due, id)
) WITHOUT ROWID;
CREATE TABLE {p}later (
    hour INTEGER NOT NULL, {columns},
    PRIMARY KEY (kind, hour, id)
) WITHOUT ROWID;
CREATE TABLE {p}lane (
    {columns},
    CHECK (part IS NOT NULL), PRIMARY KEY (kind, due, id)
) WITHOUT ROWID;
CREATE INDEX {p}lane_next ON {p}lane (kind, part, due, id);
CREATE TABLE {p}moved (
    id BLOB PRIMARY KEY, kind INTEGER NOT NULL, due INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE {p}key (name TEXT PRIMARY KEY, id BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}claim (n INTEGER PRIMARY KEY, ids BLOB NOT NULL);
CREATE TABLE {p}cancel_requested (id BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE {p}progress (id BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}ended (
    ending INTEGER NOT NULL, at INTEGER NOT NULL, took INTEGER NOT NULL, result BLOB,
    {columns},
    PRIMARY KEY (id)
) WITHOUT ROWID;
CREATE TABLE {p}ended_list (
    kind INTEGER NOT NULL, ending INTEGER NOT NULL, at INTEGER NOT NULL, n INTEGER NOT NULL,
    until INTEGER NOT NULL, jobs BLOB NOT NULL,
    PRIMARY KEY (kind, ending, at, n)
) WITHOUT ROWID;
CREATE INDEX {p}ended_until ON {p}ended_list (until);
CREATE TABLE {p}remembered (id BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX {p}remembered_until ON {p}remembered (until);
CREATE TABLE {p}dead_by_error (
    kind INTEGER NOT NULL, error TEXT NOT NULL, jobs INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (kind, error)
) WITHOUT ROWID;
CREATE INDEX {p}dead_by_error_jobs ON {p}dead_by_error (jobs);
CREATE TABLE {p}node (id TEXT PRIMARY KEY, seen INTEGER NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}history (key BLOB NOT NULL UNIQUE, value BLOB NOT NULL);
CREATE TABLE {p}schedule (
    name TEXT PRIMARY KEY, kind INTEGER NOT NULL, rule TEXT NOT NULL, missed INTEGER NOT NULL,
    next INTEGER NOT NULL, payload BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE {p}outbox (
    n INTEGER PRIMARY KEY, made_for_this_file INTEGER NOT NULL,
    job BLOB NOT NULL CHECK (typeof(job) = 'blob' AND substr(job, 1, 4) IS X'54574a31')
);
CREATE TABLE {p}tokens (scope TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE {p}grp (
    id BLOB PRIMARY KEY, made INTEGER NOT NULL, ended INTEGER, flags INTEGER NOT NULL,
    total INTEGER NOT NULL, completed INTEGER NOT NULL, dead INTEGER NOT NULL, cancelled INTEGER NOT NULL,
    expired INTEGER NOT NULL, dead_left INTEGER NOT NULL, callback BLOB
) WITHOUT ROWID;
CREATE INDEX {p}grp_made ON {p}grp (made, id);
CREATE TABLE {p}member (grp BLOB NOT NULL, id BLOB NOT NULL, PRIMARY KEY (grp, id)) WITHOUT ROWID;
CREATE TABLE {p}grp_result (
    grp BLOB NOT NULL, id BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (grp, id)
) WITHOUT ROWID;
CREATE TABLE {p}callback (grp BLOB PRIMARY KEY, id BLOB NOT NULL, job BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX {p}grp_ended ON {p}grp (ended) WHERE ended IS NOT NULL AND dead_left = 0;
INSERT INTO {p}meta VALUES
    ('version', 5), ('starts', 0), ('flushes', 0), ('hour', -1), ('file', random());
";

/// The index of the jobs with a partition. A claim reads it to move due jobs to the table of lanes.
pub(super) const PART_INDEX: &str = "
CREATE INDEX {p}job_part ON {p}job (kind, due, id) WHERE part IS NOT NULL;
";

/// A kind and its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KindRow {
    pub(crate) n: i64,
    pub(crate) name: String,
    pub(crate) counts: KindCounts,
}

/// The counts of a kind, or the changes of these counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct KindCounts {
    /// Jobs that are not dead.
    pub(crate) jobs: i64,
    /// Those of them that have failed.
    pub(crate) retrying: i64,
    pub(crate) dead: i64,
    /// Completed and expired jobs that are kept, and their bytes.
    pub(crate) kept: i64,
    pub(crate) kept_bytes: i64,
}

impl KindCounts {
    /// Returns the counts of one job that is not dead.
    pub(crate) fn of_job(failures: u32) -> KindCounts {
        KindCounts { jobs: 1, retrying: i64::from(failures > 0), ..KindCounts::default() }
    }

    /// Returns the counts of one job that has ended and is kept.
    pub(super) fn of_ended(ending: Ending, bytes: u32) -> KindCounts {
        match ending {
            Ending::Dead => KindCounts { dead: 1, ..KindCounts::default() },
            Ending::Cancelled => KindCounts::default(),
            Ending::Completed | Ending::Expired => {
                KindCounts { kept: 1, kept_bytes: bytes.into(), ..KindCounts::default() }
            }
        }
    }

    pub(crate) fn add(&mut self, by: KindCounts) {
        self.jobs += by.jobs;
        self.retrying += by.retrying;
        self.dead += by.dead;
        self.kept += by.kept;
        self.kept_bytes += by.kept_bytes;
    }
}

impl core::ops::Neg for KindCounts {
    type Output = KindCounts;

    fn neg(self) -> KindCounts {
        KindCounts {
            jobs: -self.jobs,
            retrying: -self.retrying,
            dead: -self.dead,
            kept: -self.kept,
            kept_bytes: -self.kept_bytes,
        }
    }
}

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) kind: i64,
    pub(crate) due: Millis,
    pub(crate) id: JobId,
    pub(crate) table: Table,
}

/// In which table a job is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Table {
    Job,
    /// That of later hours.
    Later,
    /// That of lanes.
    Lane,
}

impl Table {
    pub(super) const ALL: [Table; 3] = [Table::Job, Table::Later, Table::Lane];
    /// The tables that have their jobs in the order of due time.
    pub(super) const BY_DUE: [Table; 2] = [Table::Job, Table::Lane];
}

/// The row of a job.
#[derive(Clone, Debug)]
pub(crate) struct JobRow {
    pub(crate) due: Millis,
    pub(crate) id: JobId,
    pub(crate) tries: Tries,
    pub(crate) callers_id: bool,
    pub(crate) part: Option<Arc<str>>,
    pub(crate) key: Option<String>,
    /// The bytes of an `Extra`, which few jobs have.
    pub(crate) extra: Option<Vec<u8>>,
    pub(crate) payload: Vec<u8>,
}

/// The result of an insert.
pub(crate) struct InsertedAt {
    pub(crate) inserted: Inserted,
    /// The place of the new job.
    pub(crate) place: Option<Place>,
    /// The kind of the job that it replaced, and that job.
    pub(crate) replaced: Option<(i64, JobRow)>,
}

pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    let text = error.to_string();
    if error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_BUSY_SNAPSHOT) {
        return StoreError::BusySnapshot;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied,
        ) => StoreError::Io(text),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(text),
        _ => match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => StoreError::Damaged(text),
            _ => StoreError::Other(text),
        },
    }
}

/// Returns the hour of a due time, counted from 1970.
pub(crate) fn hour_of(due: Millis) -> i64 {
    due.get() / MILLIS_PER_HOUR
}

pub(crate) const MILLIS_PER_HOUR: i64 = 3_600_000;

impl Place {
    /// Returns the parameters of a statement that finds the job's row.
    pub(super) fn key(self) -> (i64, i64, [u8; 16]) {
        (self.kind, self.due.get(), id_bytes(self.id))
    }
}

pub(crate) fn id_bytes(id: JobId) -> [u8; 16] {
    id.to_u128().to_be_bytes()
}

pub(super) fn id_of(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(JobId::from_u128(u128::from_be_bytes(bytes)))
}

pub(super) fn millis_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Millis> {
    let ms: i64 = row.get(column)?;
    let time = Millis::clamped(ms);
    if time.get() == ms { Ok(time) } else { Err(out_of_range(column, ms)) }
}

/// Reads the column `errors`, which is NULL if the job has not failed.
pub(super) fn errors_at(row: &Row<'_>, column: usize) -> rusqlite::Result<AttemptErrors> {
    Ok(AttemptErrors::from_text(row.get::<_, Option<String>>(column)?.unwrap_or_default()))
}

/// Returns the error for a number that no program writes: the file is damaged.
pub(super) fn out_of_range(column: usize, found: i64) -> rusqlite::Error {
    rusqlite::Error::IntegralValueOutOfRange(column, found)
}

impl JobRow {
    /// Reads the columns `{row}`, with which a statement on jobs begins.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<JobRow> {
        Ok(JobRow {
            due: millis_of(row, 0)?,
            id: id_of(row, 1)?,
            tries: Tries {
                failures: row.get(2)?,
                interruptions: row.get(3)?,
                attempts: row.get(4)?,
                errors: errors_at(row, 8)?,
            },
            callers_id: row.get(5)?,
            part: row.get(6)?,
            key: row.get(7)?,
            extra: row.get(9)?,
            payload: row.get(10)?,
        })
    }

    /// Reads only the due time and the id.
    pub(crate) fn read_position(row: &Row<'_>) -> rusqlite::Result<(Millis, JobId)> {
        Ok((millis_of(row, 0)?, id_of(row, 1)?))
    }

    /// Returns how many of its bytes count against the bound of its kind if it is kept. Its result counts too.
    pub(super) fn kept_bytes(&self) -> usize {
        let extra = self.extra.as_ref().map_or(0, Vec::len);
        self.payload.len() + self.tries.errors.as_text().len() + extra
    }

    /// Gives the job the progress of its run, if the run has set one. An extra that cannot be read stays as it is.
    pub(super) fn set_progress(&mut self, progress: Option<Vec<u8>>) {
        if progress.is_some()
            && let Ok(extra) = Extra::read(self.extra.as_deref())
        {
            self.extra = Extra::with_progress(extra, progress).map(|extra| extra.to_bytes());
        }
    }

    /// Removes the progress from a job that has ended.
    pub(super) fn drop_progress(&mut self) {
        if let Ok(Some(extra)) = Extra::read(self.extra.as_deref())
            && extra.progress.is_some()
        {
            self.extra = Extra::with_progress(Some(extra), None).map(|extra| extra.to_bytes());
        }
    }

    pub(crate) fn info(self, kind: String, state: JobState) -> JobInfo {
        let shown = Shown::read(self.extra.as_deref());
        JobInfo {
            key: self.key,
            payload: self.payload,
            ..self.tries.info(self.id, kind, state, self.due, shown)
        }
    }
}

/// When a job was claimed, if the row of its claim tells that.
pub(crate) type ClaimedAt = Option<Millis>;

/// The number of a row of `claim`: of two rows the later has the greater number. It tells the time of the claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct RowNumber(pub(crate) i64);

impl RowNumber {
    /// The number of a row that is not written yet.
    pub(crate) const UNWRITTEN: RowNumber = RowNumber(-1);
    /// A row with a number below this tells no time.
    const BEGINNING: i64 = 1 << 60;
    /// How many rows of one millisecond tell its time. Any further row tells a time that is too late.
    const PER_MILLI: i64 = 1 << 10;

    /// Returns the number of the first row of this time, or the one after `last`.
    pub(crate) fn after(last: RowNumber, now: Millis) -> RowNumber {
        RowNumber((RowNumber::BEGINNING + now.get() * RowNumber::PER_MILLI).max(last.0 + 1))
    }

    /// Returns the time that it tells.
    pub(crate) fn time(self) -> Option<Millis> {
        let since = self.0.checked_sub(RowNumber::BEGINNING).filter(|since| *since >= 0)?;
        Some(Millis::clamped(since / RowNumber::PER_MILLI))
    }
}

/// Returns the report of a row of a job that cannot be read. Its second column is the id.
pub(super) fn unreadable_job(row: &Row<'_>, error: rusqlite::Error) -> Unreadable {
    let id = id_of(row, 1).map_or_else(|_| "without an id".to_owned(), |id| id.to_string());
    Unreadable { what: format!("job {id}"), error: store_error(error) }
}

pub(super) fn schedule_of(row: &Row<'_>, kinds: &[KindRow]) -> rusqlite::Result<StoredSchedule> {
    let kind: i64 = row.get(1)?;
    let name = kinds.iter().find(|known| known.n == kind).map(|kind| kind.name.clone());
    let rule_text: String = row.get(2)?;
    Ok(StoredSchedule {
        name: row.get(0)?,
        kind: name.unwrap_or_default(),
        schedule: Schedule::read(&rule_text, row.get(3)?),
        rule_text,
        next: millis_of(row, 4)?,
        payload: row.get(5)?,
    })
}

pub(crate) fn kind_row(kinds: &[KindRow], n: i64) -> Result<&KindRow, StoreError> {
    kinds
        .iter()
        .find(|kind| kind.n == n)
        .ok_or_else(|| StoreError::Damaged(format!("a job is of kind {n}, which has no name")))
}

#[cfg(test)]
mod tests {
    use super::RowNumber;
    use crate::values::time::Millis;

    /// P39: The number of a row of `claim` tells the time of the claim to the millisecond, and ascends when the clock
    /// is set back. A row that was numbered from one tells no time.
    #[test]
    fn row_of_a_claim_tells_its_time() {
        let at = |ms: i64| Millis::clamped(ms);
        let mut last = RowNumber::default();
        for (clock, told) in [(1_000, 1_000), (1_000, 1_000), (2_500, 2_500), (700, 2_500)] {
            let row = RowNumber::after(last, at(clock));
            assert!(row > last);
            assert_eq!(row.time(), Some(at(told)));
            last = row;
        }
        let end = RowNumber::after(last, Millis::MAX);
        assert_eq!((end.time(), RowNumber::after(end, at(0)) > end), (Some(Millis::MAX), true));
        assert_eq!([RowNumber(1), RowNumber::UNWRITTEN].map(RowNumber::time), [None, None]);
    }
}
