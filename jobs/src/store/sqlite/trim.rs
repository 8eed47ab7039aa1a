//! Removes kept jobs of a kind that has more than it keeps: the oldest first.
//!
//! Ground rules:
//!
//! - An end that keeps a job only notes its kind. The oldest jobs go once for all ends of a transaction, before anything
//!   else is done or read in it. So one statement looks for all of them, and the bound holds after each operation.
//! - The jobs that go are not read: their places, and how many bytes they count, are enough.

use rusqlite::{Row, params};

use super::State;
use super::rows::{KindCounts, id_bytes, id_of, kind_row, millis_of, store_error};
use super::tables::Tables;
use crate::store::{TRIM_LOOKS, TRIMMED, is_waited_for};
use crate::values::error::StoreError;
use crate::values::extra::Extra;
use crate::values::id::JobId;
use crate::values::keep::Keep;
use crate::values::time::Millis;

/// A kind that has got kept jobs since it was trimmed last.
pub(crate) struct ToTrim {
    kind: i64,
    keep: Keep,
    added: usize,
}

/// The jobs that a kind has too many, the oldest first.
#[derive(Default)]
struct Excess {
    jobs: Vec<Oldest>,
    /// Older ones stay, since a caller waits for their end.
    has_gaps: bool,
}

/// A kept job that may go.
struct Oldest {
    id: JobId,
    at: Millis,
    callers_id: bool,
    wanted: bool,
    bytes: i64,
}

impl State {
    /// Notes that a kind with this bound has got one more kept job.
    pub(super) fn has_kept(&mut self, kind: i64, keep: Keep) {
        match self.to_trim.iter_mut().find(|its| its.kind == kind) {
            Some(its) => *its = ToTrim { kind, keep, added: its.added + 1 },
            None => self.to_trim.push(ToTrim { kind, keep, added: 1 }),
        }
    }

    /// Removes the oldest kept jobs of the kinds that have got some since the last call, as far as they have more than
    /// they keep.
    pub(super) fn trim(&mut self, tables: Tables<'_>, now: Millis) -> Result<(), StoreError> {
        for its in core::mem::take(&mut self.to_trim) {
            let counts = self.counts_of(kind_row(&self.kinds, its.kind)?);
            let excess = its.excess(tables, counts, now)?;
            tables.drop_kept(its.kind, &excess)?;
            for oldest in &excess.jobs {
                let kept_bytes = oldest.bytes;
                self.count(its.kind, -KindCounts { kept: 1, kept_bytes, ..KindCounts::default() });
                if oldest.callers_id && oldest.at.plus(self.keep_dead) >= now {
                    self.remember(tables, oldest.id, oldest.at)?;
                }
            }
        }
        Ok(())
    }
}

impl ToTrim {
    /// Returns the jobs that the kind has too many.
    fn excess(
        &self,
        tables: Tables<'_>,
        mut counts: KindCounts,
        now: Millis,
    ) -> Result<Excess, StoreError> {
        let of = |bound: u64| i64::try_from(bound).unwrap_or(i64::MAX);
        let (last, bytes) = (of(self.keep.last), of(self.keep.bytes));
        let has_room = |counts: KindCounts| counts.kept <= last && counts.kept_bytes <= bytes;
        let mut found = Excess::default();
        if has_room(counts) {
            return Ok(found);
        }
        let mut statement =
            tables.conn.prepare_cached(&tables.sql.oldest_kept).map_err(store_error)?;
        let mut rows = statement.query(params![self.kind]).map_err(store_error)?;
        for _ in 0..TRIM_LOOKS * self.added {
            if has_room(counts) || found.jobs.len() == TRIMMED * self.added {
                break;
            }
            let Some(row) = rows.next().map_err(store_error)? else { break };
            let oldest = Oldest::read(row).map_err(store_error)?;
            if is_waited_for(oldest.wanted, oldest.at, now) {
                found.has_gaps = true;
                continue;
            }
            counts.kept -= 1;
            counts.kept_bytes -= oldest.bytes;
            found.jobs.push(oldest);
        }
        Ok(found)
    }
}

impl Tables<'_> {
    /// Deletes kept jobs of a kind: by one statement, if no older one stays.
    fn drop_kept(&self, kind: i64, excess: &Excess) -> Result<(), StoreError> {
        match excess.jobs.last() {
            Some(last) if !excess.has_gaps => {
                let last = params![kind, last.at.get(), id_bytes(last.id)];
                self.execute(&self.sql.drop_oldest_kept, last).map(drop)
            }
            _ => excess.jobs.iter().try_for_each(|job| {
                self.execute(&self.sql.drop_ended, [id_bytes(job.id)]).map(drop)
            }),
        }
    }
}

impl Oldest {
    fn read(row: &Row<'_>) -> rusqlite::Result<Oldest> {
        let extra: Option<Vec<u8>> = row.get(3)?;
        // An extra that cannot be read keeps no job.
        let extra = Extra::read(extra.as_deref()).ok().flatten();
        Ok(Oldest {
            at: millis_of(row, 0)?,
            id: id_of(row, 1)?,
            callers_id: row.get(2)?,
            wanted: extra.is_some_and(|extra| extra.wanted),
            bytes: row.get(4)?,
        })
    }
}
