//! The rows of the tables, and how values are written in them.

use std::sync::Arc;

use rusqlite::{Row, ffi};

use crate::store::{Inserted, StoredSchedule, Unreadable};
use crate::values::attempt_errors::AttemptErrors;
use crate::values::error::StoreError;
use crate::values::extra::Shown;
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::schedule::{Missed, Rule, Schedule};
use crate::values::time::Millis;

/// A kind and its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KindRow {
    pub(crate) n: i64,
    pub(crate) name: String,
    pub(crate) counts: KindCounts,
}

/// What is counted of a kind, or by how much the counts change.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct KindCounts {
    /// Jobs that are not dead.
    pub(crate) jobs: i64,
    /// Those of them that have failed.
    pub(crate) retrying: i64,
    pub(crate) dead: i64,
    /// Completed jobs that are kept, and their bytes.
    pub(crate) kept: i64,
    pub(crate) kept_bytes: i64,
}

impl KindCounts {
    /// Returns the counts of one job that is not dead.
    pub(crate) fn of_job(failures: u32) -> KindCounts {
        KindCounts { jobs: 1, retrying: i64::from(failures > 0), ..KindCounts::default() }
    }

    /// Returns the counts of one completed job that is kept.
    pub(super) fn of_kept(bytes: usize) -> KindCounts {
        let kept_bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        KindCounts { kept: 1, kept_bytes, ..KindCounts::default() }
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Table {
    Job,
    /// That of later hours.
    Later,
    /// That of lanes.
    Lane,
}

/// The row of a job.
#[derive(Clone, Debug)]
pub(crate) struct JobRow {
    pub(crate) due: Millis,
    pub(crate) id: JobId,
    pub(crate) failures: u32,
    pub(crate) interruptions: u32,
    /// How often it failed or was interrupted in all, also before a retry by hand.
    pub(crate) attempts: u32,
    pub(crate) callers_id: bool,
    pub(crate) part: Option<Arc<str>>,
    pub(crate) key: Option<String>,
    pub(crate) errors: AttemptErrors,
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
    /// Returns the key of the job's row in its table.
    pub(super) fn key(self) -> (i64, i64, [u8; 16]) {
        let is_later = self.table == Table::Later;
        let second = if is_later { hour_of(self.due) } else { self.due.get() };
        (self.kind, second, id_bytes(self.id))
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

/// Returns the error for a number that no program writes: the file is damaged.
pub(super) fn out_of_range(column: usize, found: i64) -> rusqlite::Error {
    rusqlite::Error::IntegralValueOutOfRange(column, found)
}

impl JobRow {
    /// Reads the first columns of a statement on jobs, which are the same in all of them.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<JobRow> {
        Ok(JobRow {
            due: millis_of(row, 0)?,
            id: id_of(row, 1)?,
            failures: row.get(2)?,
            interruptions: row.get(3)?,
            callers_id: row.get(4)?,
            key: row.get(5)?,
            errors: AttemptErrors::from_text(row.get::<_, Option<String>>(6)?.unwrap_or_default()),
            payload: row.get(7)?,
            attempts: row.get(8)?,
            extra: row.get(9)?,
            part: row.get(10)?,
        })
    }

    /// Reads only the due time and the id.
    pub(crate) fn read_position(row: &Row<'_>) -> rusqlite::Result<(Millis, JobId)> {
        Ok((millis_of(row, 0)?, id_of(row, 1)?))
    }

    /// Returns how many of its bytes count against the bound of its kind if it is kept. Its result counts too.
    pub(super) fn kept_bytes(&self) -> usize {
        let extra = self.extra.as_ref().map_or(0, Vec::len);
        self.payload.len() + self.errors.as_text().len() + extra
    }

    pub(crate) fn info(self, kind: String, state: JobState) -> JobInfo {
        let Shown { partition, group, headers } = Shown::read(self.extra.as_deref());
        JobInfo {
            id: self.id,
            kind,
            state,
            due: self.due.to_system(),
            failures: self.failures,
            attempt: state.attempts(self.attempts),
            interruptions: self.interruptions,
            key: self.key,
            partition,
            group,
            error: self.errors.latest(),
            errors: self.errors.list(),
            headers,
            claimed: None,
            lease_ends: None,
            died: None,
            ended: None,
            took: None,
            result: None,
            progress: None,
            payload: self.payload,
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

/// Reads a schedule.
pub(super) fn schedule_of(row: &Row<'_>, kinds: &[KindRow]) -> rusqlite::Result<StoredSchedule> {
    let kind: i64 = row.get(1)?;
    let name = kinds.iter().find(|known| known.n == kind).map(|kind| kind.name.clone());
    let rule_text: String = row.get(2)?;
    let missed = Missed::from_number(row.get(3)?);
    Ok(StoredSchedule {
        name: row.get(0)?,
        kind: name.unwrap_or_default(),
        schedule: Schedule { rule: Rule::from_text(&rule_text), missed },
        rule_text,
        next: millis_of(row, 4)?,
        payload: row.get(5)?,
    })
}

/// Returns the row of the kind with this number.
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
