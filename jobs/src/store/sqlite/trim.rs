//! Keeps completed jobs: writes their lists, and removes the oldest ones of a kind that has more than it keeps.
//!
//! Ground rules:
//!
//! - `completed.rs` writes the rows of kept jobs, and notes each job for a list. The lists are written and the oldest
//!   jobs are deleted once for all ends of a transaction, before another operation of it could read them.
//! - All ends of a kind in a transaction have the same bound, because a program reads the bound only after a commit.
//! - The jobs that go are not read: their lists tell how many bytes they count (`kept.rs`).

use super::State;
use super::kept::{List, Listed, Look, NewlyKept};
use super::rows::{KindCounts, kind_row};
use super::tables::Tables;
use crate::store::{TRIM_LOOKS, TRIMMED, is_waited_for};
use crate::values::error::StoreError;
use crate::values::keep::Keep;
use crate::values::time::Millis;

/// A kind that has got kept jobs since it was trimmed last.
pub(crate) struct ToTrim {
    kind: i64,
    keep: Keep,
    added: usize,
}

impl State {
    /// Notes a kept job whose row was written. It is listed by the next call of [`trim`](State::trim). `keep`: what the
    /// kind keeps, or `None` if this job alone is kept, since a caller waits for its end.
    pub(super) fn note_kept(
        &mut self,
        kind: i64,
        (at, until): (Millis, Millis),
        keep: Option<Keep>,
        job: Listed,
    ) {
        let of = |its: &&mut NewlyKept| (its.kind, its.at, its.until) == (kind, at, until);
        match self.newly_kept.iter_mut().find(of) {
            Some(its) => its.jobs.push(job),
            None => self.newly_kept.push(NewlyKept { kind, at, until, jobs: vec![job] }),
        }
        let Some(keep) = keep else { return };
        match self.to_trim.iter_mut().find(|its| its.kind == kind) {
            Some(its) => *its = ToTrim { kind, keep, added: its.added + 1 },
            None => self.to_trim.push(ToTrim { kind, keep, added: 1 }),
        }
    }

    /// Lists the jobs that are kept since the last call. Removes the oldest kept jobs of the kinds that have got some, as
    /// far as they have more than they keep.
    pub(super) fn trim(&mut self, tables: Tables<'_>, now: Millis) -> Result<(), StoreError> {
        for mut its in core::mem::take(&mut self.newly_kept) {
            tables.put_lists(&mut its)?;
        }
        for its in core::mem::take(&mut self.to_trim) {
            self.trim_kind(tables, &its, now)?;
        }
        Ok(())
    }

    fn trim_kind(
        &mut self,
        tables: Tables<'_>,
        its: &ToTrim,
        now: Millis,
    ) -> Result<(), StoreError> {
        let ToTrim { kind, keep, added } = *its;
        let of = |bound: u64| i64::try_from(bound).unwrap_or(i64::MAX);
        let (last, bytes) = (of(keep.last), of(keep.bytes));
        let has_room = |counts: KindCounts| counts.kept <= last && counts.kept_bytes <= bytes;
        let mut counts = self.counts_of(kind_row(&self.kinds, kind)?);
        if has_room(counts) {
            return Ok(());
        }
        let (mut looks, mut goes) = (TRIM_LOOKS * added, TRIMMED * added);
        let gone = tables.drop_oldest(kind, |at, job| {
            if has_room(counts) || looks == 0 || goes == 0 {
                return Look::Ends;
            }
            looks -= 1;
            if is_waited_for(job.wanted, at, now) {
                return Look::Stays;
            }
            goes -= 1;
            counts.kept -= 1;
            counts.kept_bytes -= i64::from(job.bytes);
            Look::Goes
        })?;
        gone.iter().try_for_each(|list| self.kept_are_gone(tables, list, now))
    }

    /// Counts kept jobs no longer that were deleted. An id stays if its caller chose it and it may not be forgotten yet.
    pub(super) fn kept_are_gone(
        &mut self,
        tables: Tables<'_>,
        list: &List,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut gone = KindCounts::default();
        for job in &list.jobs {
            gone.add(KindCounts::of_kept(job.bytes as usize));
            if job.callers_id && list.at.plus(self.keep_dead) >= now {
                self.remember(tables, job.id, list.at)?;
            }
        }
        self.count(list.kind, -gone);
        Ok(())
    }
}
