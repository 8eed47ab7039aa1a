//! The jobs of later hours: which jobs go there, how an hour moves to the table of jobs, and how many rows a commit
//! moves or deletes beside its operations: as many as it can in about 20 ms.
//!
//! Ground rules:
//!
//! - Every job of an hour up to `last` is in the table of jobs, so a claim that ends with that hour
//!   misses nothing. A job of an hour after `last` may be in either table.
//! - `last` rises in the transaction that moves the last row of its hour. It never falls.
//! - An hour starts to move before it begins. Each commit moves as many rows as [`Pace`] allows, so that none takes
//!   long.
//! - The cost of a row depends on how many rows share its page: a row on a page of its own costs a hundred
//!   times as much. So no fixed number of rows is both short and fast. If the rows of a commit took longer than
//!   [`LONGEST`], the number is halved. If they took less than a third of it, the number is doubled.
//! - Only the time of these rows counts. That of the operations beside them, of the disk and of a checkpoint does not
//!   become shorter with fewer rows. It would be spent more often, and so would be the pages that the rows share.

use std::time::{Duration, Instant};

use foldhash::HashMap;
use rusqlite::params;
use rusqlite::types::Value;

use super::State;
use super::schema::{JobRow, MILLIS_PER_HOUR, Place, Table, hour_of, out_of_range, store_error};
use super::tables::Tables;
use crate::store::ClaimRequest;
use crate::values::error::StoreError;
use crate::values::time::Millis;

/// The rows that a commit moves or deletes should not take longer than this. The `COMMIT` takes about as long again.
const LONGEST: Duration = Duration::from_millis(20);
const FEWEST_ROWS: usize = 256;
const FIRST_ROWS: usize = 1024;
const MOST_ROWS: usize = 16_384;

/// How many rows the next commit may move or delete.
pub(crate) struct Pace {
    rows: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { rows: FIRST_ROWS }
    }
}

impl Pace {
    /// Begins the moves or deletions of a commit. Returns how many rows it may move or delete, and the present.
    #[expect(clippy::disallowed_methods, reason = "no decision about a job depends on it")]
    pub(crate) fn begin(&self) -> (usize, Instant) {
        (self.rows, Instant::now())
    }

    /// Adjusts the number of rows to the time since `begun`, in which a commit has moved or deleted `done` rows.
    pub(crate) fn end(&mut self, done: usize, begun: Instant) {
        self.took(done, begun.elapsed());
    }

    fn took(&mut self, done: usize, took: Duration) {
        if done == 0 {
            return;
        }
        if took > LONGEST {
            self.rows = (self.rows.min(done) / 2).max(FEWEST_ROWS);
        } else if done >= self.rows && took < LONGEST / 3 {
            self.rows = (self.rows * 2).min(MOST_ROWS);
        }
    }
}

/// Which hours have moved to the table of jobs.
pub(crate) struct Hours {
    last: i64,
    /// A lower bound of the first hour that has jobs in the table of later hours.
    first_later: Option<i64>,
    /// An upper bound of the latest due time in the table of jobs, by kind.
    newest: HashMap<i64, Option<Millis>>,
    pub(crate) pace: Pace,
}

/// An hour starts to move this long before it begins.
const LEAD: Duration = Duration::from_secs(600);

impl Default for Hours {
    fn default() -> Hours {
        Hours { last: -1, first_later: Some(0), newest: HashMap::default(), pace: Pace::default() }
    }
}

impl Hours {
    /// Reads which hours of the file have moved. The first later hour is read when it is needed.
    pub(crate) fn read(&mut self, tables: Tables<'_>) -> Result<(), StoreError> {
        self.last = tables.hour()?;
        self.forget();
        Ok(())
    }

    /// Resets the bounds to values that are right for any file.
    pub(crate) fn forget(&mut self) {
        self.first_later = Some(0);
        self.newest.clear();
    }

    /// Returns the end of the hour `last`: every job that is due by then is in the table of jobs.
    pub(crate) fn end(&self) -> Millis {
        Millis::clamped((self.last + 1).saturating_mul(MILLIS_PER_HOUR) - 1)
    }

    /// Returns the table of the road for a job that is pending from now on.
    pub(super) fn table_for(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        due: Millis,
    ) -> Result<Table, StoreError> {
        if hour_of(due) <= self.last {
            return Ok(Table::Job);
        }
        let newest = match self.newest.get(&kind) {
            Some(newest) => *newest,
            None => tables.newest(kind)?,
        };
        let appended = newest.is_none_or(|newest| due >= newest);
        self.newest.insert(kind, if appended { Some(due) } else { newest });
        Ok(if appended { Table::Job } else { Table::Later })
    }

    /// Notes that a job is in the table of later hours now.
    pub(crate) fn note_added(&mut self, due: Millis) {
        let hour = hour_of(due);
        self.first_later = Some(self.first_later.map_or(hour, |first| first.min(hour)));
    }

    /// Notes that a job of the kind, due then, has moved to the table of jobs.
    pub(super) fn note_newest(&mut self, kind: i64, due: Millis) {
        if let Some(known) = self.newest.get_mut(&kind) {
            *known = Some(known.map_or(due, |known| known.max(due)));
        }
    }

    /// Returns when the next hour starts to move.
    fn next_move(&self) -> Option<Millis> {
        let start = |hour: i64| Millis::clamped(hour.saturating_mul(MILLIS_PER_HOUR)).minus(LEAD);
        self.first_later.map(start)
    }
}

impl State {
    /// Says whether a claim might find a job, or an hour has to move.
    pub(crate) fn may_have_due(&self, request: &ClaimRequest) -> bool {
        let until = request.until;
        let moves = self.hours.next_move().is_some_and(|next| next <= until);
        moves
            || self.hours.end() < until
            || self.lane_table.is_wanted
            || self.claims.may_have_due(request, &self.lane_table.lanes)
    }

    /// Returns when the next job is due that `request` admits, or when the next hour starts to move, if that
    /// is earlier.
    pub(crate) fn next_due(&self, request: Option<&ClaimRequest>) -> Option<Millis> {
        let next = match self.lane_table.is_wanted {
            true => Some(Millis::ZERO),
            false => self.claims.next_due(request, &self.lane_table.lanes),
        };
        next.into_iter().chain(self.hours.next_move()).min()
    }

    /// Moves rows of the hours that begin soon. Returns whether it wrote anything.
    pub(crate) fn move_hours(
        &mut self,
        tables: Tables<'_>,
        until: Millis,
    ) -> Result<bool, StoreError> {
        let wanted = hour_of(until.plus(LEAD));
        if self.hours.last >= wanted && self.hours.first_later.is_none_or(|hour| hour > wanted) {
            return Ok(false);
        }
        let (all, begun) = self.hours.pace.begin();
        let mut room = all;
        let kinds: Vec<i64> = self.kinds.iter().map(|kind| kind.n).collect();
        let before = self.hours.last;
        let first = loop {
            let mut first: Option<(i64, i64)> = None;
            for &kind in &kinds {
                let hour = tables.one(
                    "SELECT min(hour) FROM {p}later WHERE kind = ?1",
                    [kind],
                    |row| row.get(0),
                )?;
                let hour: Option<i64> = hour.flatten();
                first = first.into_iter().chain(hour.map(|hour| (hour, kind))).min();
            }
            let Some((hour, kind)) = first else { break None };
            // Every hour before this one is in the table of jobs.
            self.hours.last = self.hours.last.max(hour.saturating_sub(1).min(wanted));
            if hour > wanted || room == 0 {
                break Some(hour);
            }
            room -= self.move_rows(tables, kind, hour, room)?;
        };
        if first.is_none_or(|hour| hour > wanted) {
            self.hours.last = self.hours.last.max(wanted);
        }
        self.hours.first_later = first;
        self.hours.pace.end(all - room, begun);
        if self.hours.last != before {
            tables
                .execute("UPDATE {p}meta SET value = ?1 WHERE name = 'hour'", [self.hours.last])?;
        }
        Ok(self.hours.last != before || room != all)
    }

    /// Moves at most `room` jobs of one hour and kind to the table of jobs. Returns how many.
    fn move_rows(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        hour: i64,
        room: usize,
    ) -> Result<usize, StoreError> {
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let key = params![kind, hour, limit];
        let rows = tables.all(
            "SELECT {row} FROM {p}later WHERE kind = ?1 AND hour = ?2 ORDER BY id LIMIT ?3",
            key,
            |row| Ok((row.get::<_, Value>(1)?, JobRow::read(row).ok())),
        )?;
        let Some(last) = rows.last().map(|(id, _)| id.clone()) else { return Ok(0) };
        // A row that cannot be read is moved as it is. The claim that meets it reports it.
        for (id, _) in rows.iter().filter(|(_, job)| job.is_none()) {
            tables.execute(
                "INSERT INTO {p}job SELECT kind, {row} FROM {p}later \
                 WHERE kind = ?1 AND hour = ?2 AND id = ?3",
                params![kind, hour, id],
            )?;
        }
        tables.execute(
            "DELETE FROM {p}later WHERE kind = ?1 AND hour = ?2 AND id <= ?3",
            params![kind, hour, last],
        )?;
        let moved = rows.len();
        let mut jobs: Vec<JobRow> = rows.into_iter().filter_map(|(_, job)| job).collect();
        jobs.sort_unstable_by_key(|job| (job.due, job.id));
        for job in &jobs {
            tables.put_row_alone(kind, job, &job.payload, Table::Job)?;
        }
        if let Some(newest) = jobs.last().map(|job| job.due) {
            self.hours.note_newest(kind, newest);
        }
        if let Some(first) = jobs.first() {
            let place = Place { kind, due: first.due, id: first.id, table: Table::Job };
            self.claims.note_added(place, true);
        }
        Ok(moved)
    }
}

impl Tables<'_> {
    /// Returns the last hour whose jobs are all in the table of jobs.
    pub(super) fn hour(&self) -> Result<i64, StoreError> {
        let hour = self.meta("hour")?.unwrap_or(-1);
        let known = -1..=hour_of(Millis::MAX);
        if known.contains(&hour) { Ok(hour) } else { Err(store_error(out_of_range(0, hour))) }
    }

    /// Returns the latest due time of a kind in the table of jobs.
    fn newest(&self, kind: i64) -> Result<Option<Millis>, StoreError> {
        let newest = self.one("SELECT max(due) FROM {p}job WHERE kind = ?1", [kind], |row| {
            row.get::<_, Option<i64>>(0)
        })?;
        Ok(newest.flatten().map(Millis::clamped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::Sqlite;
    use crate::store::sqlite::tests::support;
    use crate::store::{BatchOutcome, NewJob, Op, Store};
    use crate::values::id::JobId;

    const MS: Duration = Duration::from_millis(1);

    /// P79: After a long commit the next one moves or deletes fewer rows, after a short one more, within bounds.
    #[test]
    fn rows_of_a_commit_follow_the_time_of_the_one_before() {
        let mut pace = Pace::default();
        let mut commit = |rows: usize, took: Duration| {
            pace.took(rows, took);
            pace.rows
        };
        assert_eq!(commit(1024, 50 * MS), 512);
        assert_eq!(commit(512, 9 * MS), 512);
        assert_eq!(commit(512, MS), 1024);
        assert_eq!(commit(0, 50 * MS), 1024, "it had no such rows");
        assert_eq!(commit(10, MS), 1024, "a commit of few rows says nothing of many");
        assert_eq!(commit(600, 50 * MS), 300);
        for rows in [300, 600, 1200, 2400, 4800, 9600, 16_384, 16_384] {
            commit(rows, MS);
        }
        assert_eq!(commit(16_384, MS), MOST_ROWS);
        for _ in 0..20 {
            commit(MOST_ROWS, 50 * MS);
        }
        assert_eq!(commit(0, MS), FEWEST_ROWS);
    }

    const KIND: &str = "push";
    const JOBS: i64 = 3_000;

    fn apply(store: &mut Sqlite, ops: &[Op], now: Millis) -> BatchOutcome {
        let claim = Some(ClaimRequest::new(now, 5_000, 5_000, Vec::new()));
        support::apply(store, ops, claim, now)
    }

    fn rows(store: &Sqlite, table: &str) -> i64 {
        support::selected(store, &format!("SELECT count(*) FROM tickwheel_{table}"))
    }

    /// An hour moves in parts, and starts to before it begins. No job of it is claimed before all have moved: the
    /// claims follow the due times. A job can be cancelled meanwhile, in either table.
    #[test]
    fn hour_moves_in_parts() {
        let begin = Millis::clamped(500_000 * MILLIS_PER_HOUR);
        let early = begin.minus(5 * Duration::from_secs(3600));
        let mut store = support::opened(&[KIND], early);
        // The latest comes first and goes to the table of jobs. All others are due before it, and wait with their hour.
        let due = |n: i64| Millis::clamped(begin.get() + JOBS - n);
        let jobs: Vec<NewJob> = (0..JOBS).map(|n| support::new_job(KIND, due(n))).collect();
        let mut expected: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        apply(&mut store, &[Op::InsertMany(jobs)], early);
        assert_eq!((rows(&store, "job"), rows(&store, "later")), (1, JOBS - 1));
        assert_eq!(apply(&mut store, &[], begin.minus(LEAD * 2)).claimed.len(), 0);
        assert_eq!(rows(&store, "later"), JOBS - 1);

        assert_eq!(apply(&mut store, &[], begin.minus(LEAD)).claimed.len(), 0);
        let left = rows(&store, "later");
        assert!(0 < left && left < JOBS - 1, "{left}");
        store.check().unwrap();
        // The rows move in the order of their ids.
        let cancelled = [expected[2_999], expected[1]];
        for id in cancelled {
            let outcome = apply(&mut store, &[Op::Cancel(id)], early);
            assert!(
                format!("{:?}", outcome.answers).contains("Cancelled"),
                "{:?}",
                outcome.answers
            );
        }
        expected.retain(|id| !cancelled.contains(id));
        expected.reverse();

        let (later, mut claimed) = (begin.plus(Duration::from_secs(60)), Vec::new());
        for n in 0..100 {
            let outcome = apply(&mut store, &[], later);
            assert!(outcome.claimed.is_empty() || rows(&store, "later") == 0);
            claimed.extend(outcome.claimed.into_iter().map(|job| job.id));
            if n % 10 == 0 {
                store.check().unwrap();
            }
        }
        assert!(
            claimed == expected,
            "{} of {} jobs, or another order",
            claimed.len(),
            expected.len()
        );
    }
}
