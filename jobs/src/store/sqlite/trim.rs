//! Keeps completed jobs: writes their lists, and removes the oldest ones of a kind that has more than it keeps.
//!
//! Ground rules:
//!
//! - `completed.rs` writes the rows of kept jobs, and notes each job for a list. The lists are written and the oldest
//!   jobs are deleted once for all ends of a transaction, before another operation of it could read them.
//! - All ends of a kind in a transaction have the same bound, because a program reads the bound only after a commit.
//! - The jobs that go are not read: their lists tell how many bytes they count (`kept.rs`).
//! - The jobs on whose end a caller waits do not count. They are few, and known to the process that ends runs: it reads
//!   them once from the lists of the last minute.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

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

/// The kept jobs of a kind on whose end a caller waits, in the order of their ends: when each ended, and how many bytes it
/// counts.
#[derive(Default)]
pub(crate) struct WaitedFor {
    jobs: VecDeque<(Millis, i64)>,
    bytes: i64,
}

impl WaitedFor {
    fn add_later(&mut self, at: Millis, bytes: i64) {
        self.jobs.push_back((at, bytes));
        self.bytes += bytes;
    }

    fn add_earlier(&mut self, at: Millis, bytes: i64) {
        self.jobs.push_front((at, bytes));
        self.bytes += bytes;
    }

    /// Drops the jobs whose time is over.
    fn settle(&mut self, now: Millis) {
        while let Some((at, bytes)) = self.jobs.front().copied()
            && !is_waited_for(true, at, now)
        {
            self.jobs.pop_front();
            self.bytes -= bytes;
        }
    }
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
        if job.wanted
            && let Some(waited) = self.waited_for.get_mut(&kind)
        {
            waited.settle(at);
            waited.add_later(at, job.bytes.into());
        }
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
        counts.add(-self.counts_of_waited_for(tables, kind, now)?);
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

    /// Returns the counts of the jobs of a kind on whose end a caller waits.
    fn counts_of_waited_for(
        &mut self,
        tables: Tables<'_>,
        kind: i64,
        now: Millis,
    ) -> Result<KindCounts, StoreError> {
        let waited = match self.waited_for.entry(kind) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let mut waited = WaitedFor::default();
                let lists = &tables.sql.kept.latest_lists;
                tables.lists_by_time(lists, [kind, i64::MAX], |lists| {
                    let jobs =
                        lists.iter().flat_map(|list| list.jobs.iter().map(|job| (list.at, job)));
                    for (at, job) in jobs.filter(|(_, job)| job.wanted) {
                        waited.add_earlier(at, job.bytes.into());
                    }
                    Ok(lists.iter().all(|list| !is_waited_for(true, list.at, now)))
                })?;
                unknown.insert(waited)
            }
        };
        waited.settle(now);
        let kept = i64::try_from(waited.jobs.len()).unwrap_or(i64::MAX);
        Ok(KindCounts { kept, kept_bytes: waited.bytes, ..KindCounts::default() })
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
