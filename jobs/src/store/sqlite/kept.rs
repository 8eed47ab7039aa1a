//! Jobs that have ended and are kept: a row for each job, lists that have their order, and the bounds of each kind,
//! beyond which the oldest completed ones are removed.
//!
//! Ground rules:
//!
//! - A kept job is a row of `ended`, which is found by its id. The order in which the jobs of a kind ended lies in
//!   `ended_list`: a list has up to [`MOST_JOBS`] jobs that one commit has ended. So a commit that ends many jobs
//!   writes one row for each, and few lists: no index has an entry for each job.
//! - The jobs of a list have one kind, one ending, one time of their end, and one date until when they are kept.
//! - Each job is in one list (F14). A list has for each job the bytes that count and whether its id is remembered. So a
//!   completed job that goes is deleted and not read.
//! - The jobs of several lists may have ended in the same millisecond. Then their order is that of their ids.
//! - `run_ends.rs` and `ended.rs` write the rows of kept jobs, and note each job for a list. The lists are written and
//!   the oldest jobs are deleted once for all ends of a transaction, before another operation of it could read them.
//! - All ends of a kind in a transaction have the same bound, because a program reads the bound only after a commit.
//! - The completed jobs on whose end a caller waits do not count. They are few, and known to the process that ends
//!   runs: it reads them once from the lists of the last minute.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use foldhash::HashMap;
use rusqlite::{Params, Row, params};

use super::State;
use super::schema::{
    KindCounts, errors_at, id_bytes, id_of, kind_row, millis_of, out_of_range, store_error,
};
use super::tables::Tables;
use crate::store::{Ending, TRIM_LOOKS, TRIMMED, is_waited_for};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::job::Extra;
use crate::values::setting::Keep;
use crate::values::time::Millis;

/// The lists of a kind and an ending up to a time, the latest first.
pub(super) const LATEST_LISTS: &str = "SELECT {list} FROM {p}ended_list \
     WHERE kind = ?1 AND ending = ?2 AND at <= ?3 ORDER BY at DESC, n DESC";

const DROP_ENDED: &str = "DELETE FROM {p}ended WHERE id = ?1";

/// How many jobs a list has at most. The row of such a list fits into its page of the B-tree.
const MOST_JOBS: usize = 40;

/// The bytes of a job in a list: its id, the bytes that count, the marks.
const JOB_BYTES: usize = 16 + 4 + 1;

/// The marks of a job in a list.
const CALLERS_ID: u8 = 1;
const WANTED: u8 = 2;

/// A kept job in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) id: JobId,
    /// How many bytes of it count against the bound of its kind.
    pub(super) bytes: u32,
    /// The caller chose its id.
    pub(super) callers_id: bool,
    /// A caller waits for its end.
    pub(super) wanted: bool,
}

/// A list of kept jobs, in the order of their ids.
#[derive(Debug)]
pub(super) struct KeptList {
    pub(super) kind: i64,
    pub(super) ending: Ending,
    pub(super) at: Millis,
    n: i64,
    pub(super) jobs: Vec<Listed>,
}

/// Jobs of a kind that a transaction has ended in one way and keeps until one date, and that are in no list yet.
#[derive(Debug)]
pub(crate) struct NewlyKept {
    kind: i64,
    ending: Ending,
    at: Millis,
    until: Millis,
    jobs: Vec<Listed>,
}

/// A row of `ended`, as `check` reads it.
#[derive(Debug)]
pub(super) struct EndedSeen {
    pub(super) kind: i64,
    pub(super) ending: Ending,
    at: Millis,
    pub(super) job: Listed,
    /// The first line of its error.
    pub(super) error: String,
}

/// What a trim does with a kept job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    Goes,
    Stays,
    /// It stays, and the trim ends here.
    Ends,
}

impl Listed {
    fn to_bytes(self) -> [u8; JOB_BYTES] {
        let mut bytes = [0; JOB_BYTES];
        bytes[..16].copy_from_slice(&id_bytes(self.id));
        bytes[16..20].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[20] =
            if self.callers_id { CALLERS_ID } else { 0 } | if self.wanted { WANTED } else { 0 };
        bytes
    }

    fn read(bytes: &[u8; JOB_BYTES]) -> Listed {
        let [id @ .., a, b, c, d, marks] = bytes;
        Listed {
            id: JobId::from_u128(u128::from_be_bytes(*id)),
            bytes: u32::from_be_bytes([*a, *b, *c, *d]),
            callers_id: marks & CALLERS_ID != 0,
            wanted: marks & WANTED != 0,
        }
    }
}

/// Says whether a caller waits for the end of a job with this extra. An extra that cannot be read keeps no job.
pub(super) fn is_wanted(extra: Option<&[u8]>) -> bool {
    Extra::read(extra).ok().flatten().is_some_and(|extra| extra.wanted)
}

pub(super) fn ending_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Ending> {
    let ending: i64 = row.get(column)?;
    Ending::of_number(ending).ok_or_else(|| out_of_range(column, ending))
}

impl KeptList {
    /// Reads a list. A part of a job at its end is left out: `check` reports the job.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<KeptList> {
        let bytes = row.get_ref(4)?.as_blob()?;
        let jobs = bytes.as_chunks().0.iter().map(Listed::read).collect();
        let (kind, ending, n) = (row.get(0)?, ending_at(row, 1)?, row.get(3)?);
        Ok(KeptList { kind, ending, at: millis_of(row, 2)?, n, jobs })
    }
}

impl Tables<'_> {
    /// Writes the lists of jobs whose rows are there.
    fn put_lists(&self, kept: NewlyKept) -> Result<(), StoreError> {
        let NewlyKept { kind, ending, at, until, mut jobs } = kept;
        jobs.sort_unstable_by_key(|job| job.id);
        for jobs in jobs.chunks(MOST_JOBS) {
            let row = params![kind, ending as i64, at.get(), until.get(), bytes_of(jobs)];
            self.execute(
                "INSERT INTO {p}ended_list VALUES (?1, ?2, ?3, (SELECT coalesce(max(n), 0) + 1 \
                 FROM {p}ended_list WHERE kind = ?1 AND ending = ?2 AND at = ?3), ?4, ?5)",
                row,
            )?;
        }
        Ok(())
    }

    /// Asks `look` about the completed jobs of a kind, the oldest first. Deletes the jobs that go, and takes them off
    /// their lists. Returns them by the lists.
    pub(super) fn drop_oldest(
        &self,
        kind: i64,
        mut look: impl FnMut(Millis, &Listed) -> Look,
    ) -> Result<Vec<KeptList>, StoreError> {
        let mut gone = Vec::new();
        self.lists_by_time(
            "SELECT {list} FROM {p}ended_list WHERE kind = ?1 AND ending = 1 ORDER BY at, n",
            [kind],
            |lists| Ok(take_gone(lists, &mut gone, &mut look)),
        )?;
        for (list, left) in &gone {
            self.drop_jobs(list, left)?;
        }
        Ok(gone.into_iter().map(|(list, _)| list).collect())
    }

    /// Reads lists in the order of the statement. Calls `each` with all lists of one time together, until it returns
    /// `true`. Returns whether it has.
    pub(super) fn lists_by_time(
        &self,
        sql: &'static str,
        params: impl Params,
        mut each: impl FnMut(Vec<KeptList>) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let mut statement = self.prepare(sql).map_err(store_error)?;
        let mut rows = statement.query(params).map_err(store_error)?;
        let mut lists: Vec<KeptList> = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            let list = KeptList::read(row).map_err(store_error)?;
            if lists.first().is_some_and(|first| first.at != list.at)
                && each(core::mem::take(&mut lists))?
            {
                return Ok(true);
            }
            lists.push(list);
        }
        Ok(!lists.is_empty() && each(lists)?)
    }

    /// Deletes the rows of these jobs. `left`: the jobs that stay in their list.
    pub(super) fn drop_jobs(&self, gone: &KeptList, left: &[Listed]) -> Result<(), StoreError> {
        let mut drop_row = self.prepare(DROP_ENDED).map_err(store_error)?;
        for job in &gone.jobs {
            drop_row.execute([id_bytes(job.id)]).map_err(store_error)?;
        }
        self.set_list(gone, left)
    }

    /// Deletes a job and takes it off its list. The list is not found by its jobs, so this compares its first and its
    /// last one: many lists may have one time.
    pub(super) fn drop_job(
        &self,
        (kind, ending, at): (i64, Ending, Millis),
        id: JobId,
    ) -> Result<(), StoreError> {
        self.execute(DROP_ENDED, [id_bytes(id)])?;
        let last = -(JOB_BYTES as i64);
        for list in self.all(
            "SELECT {list} FROM {p}ended_list WHERE kind = ?1 AND ending = ?2 AND at = ?3 \
             AND substr(jobs, 1, 16) <= ?4 AND substr(jobs, ?5, 16) >= ?4",
            params![kind, ending as i64, at.get(), id_bytes(id), last],
            KeptList::read,
        )? {
            let left: Vec<Listed> = list.jobs.iter().copied().filter(|job| job.id != id).collect();
            if left.len() < list.jobs.len() {
                return self.set_list(&list, &left);
            }
        }
        Ok(())
    }

    fn set_list(&self, list: &KeptList, jobs: &[Listed]) -> Result<(), StoreError> {
        let key = params![list.kind, list.ending as i64, list.at.get(), list.n, bytes_of(jobs)];
        match jobs {
            [] => self.execute(
                "DELETE FROM {p}ended_list WHERE kind = ?1 AND ending = ?2 AND at = ?3 AND n = ?4",
                &key[..4],
            ),
            _ => self.execute(
                "UPDATE {p}ended_list SET jobs = ?5 \
                 WHERE kind = ?1 AND ending = ?2 AND at = ?3 AND n = ?4",
                key,
            ),
        }
        .map(drop)
    }

    /// Reads every row of `ended`, for `check`.
    pub(super) fn all_ended(&self) -> Result<Vec<EndedSeen>, StoreError> {
        self.whole(
            "SELECT id, kind, ending, at, callers_id, octet_length(payload) \
             + coalesce(octet_length(result), 0) + coalesce(octet_length(errors), 0) \
             + coalesce(octet_length(extra), 0), extra, errors FROM {p}ended ORDER BY id",
            |row| {
                let extra: Option<Vec<u8>> = row.get(6)?;
                Ok(EndedSeen {
                    kind: row.get(1)?,
                    ending: ending_at(row, 2)?,
                    at: millis_of(row, 3)?,
                    job: Listed {
                        id: id_of(row, 0)?,
                        bytes: row.get(5)?,
                        callers_id: row.get(4)?,
                        wanted: is_wanted(extra.as_deref()),
                    },
                    error: errors_at(row, 7)?.first_line(),
                })
            },
        )
    }

    /// Compares kept jobs with their lists (F14).
    pub(super) fn lists_agree(&self, rows: &[EndedSeen]) -> Result<(), Violation> {
        let mut listed: HashMap<JobId, (i64, Ending, Millis, Listed)> = HashMap::default();
        for list in self.whole("SELECT {list} FROM {p}ended_list", KeptList::read)? {
            let (kind, ending, at) = (list.kind, list.ending, list.at);
            if list.jobs.is_empty() || !list.jobs.is_sorted_by_key(|job| job.id) {
                return Err(Violation(format!("F14: a list in no order: {list:?}")));
            }
            for job in list.jobs {
                if listed.insert(job.id, (kind, ending, at, job)).is_some() {
                    return Err(Violation(format!("F14: {} is in two lists", job.id)));
                }
            }
        }
        for EndedSeen { kind, ending, at, job, .. } in rows {
            let row = (*kind, ending.list(), *at, *job);
            let (id, found) = (job.id, listed.remove(&job.id));
            if found != Some(row) {
                return Err(Violation(format!("F14: the kept job {row:?} is listed as {found:?}")));
            }
            if self.has("SELECT 1 FROM {p}remembered WHERE id = ?1", [id_bytes(id)])? {
                return Err(Violation(format!("F14: {id} is kept, and its id is remembered too")));
            }
        }
        match listed.keys().next() {
            Some(id) => Err(Violation(format!("F14: {id} is in a list, and is not kept"))),
            None => Ok(()),
        }
    }
}

/// Looks at the jobs of lists of one time, in the order of their ids. Adds to `gone`, for each list, the jobs that go
/// and those that are left. Returns whether the trim ends here.
fn take_gone(
    lists: Vec<KeptList>,
    gone: &mut Vec<(KeptList, Vec<Listed>)>,
    look: &mut impl FnMut(Millis, &Listed) -> Look,
) -> bool {
    let lists_and_numbers = lists.iter().enumerate();
    let mut jobs: Vec<(JobId, usize, Listed)> = lists_and_numbers
        .flat_map(|(n, list)| list.jobs.iter().map(move |job| (job.id, n, *job)))
        .collect();
    jobs.sort_unstable_by_key(|(id, ..)| *id);
    // For each list: the jobs that go, and the jobs that are left.
    let mut parts = vec![(Vec::new(), Vec::new()); lists.len()];
    let mut ends = false;
    for (_, n, job) in jobs {
        let looked = if ends { Look::Ends } else { look(lists[n].at, &job) };
        ends = looked == Look::Ends;
        match looked {
            Look::Goes => parts[n].0.push(job),
            Look::Stays | Look::Ends => parts[n].1.push(job),
        }
    }
    for (list, (goes, left)) in lists.into_iter().zip(parts) {
        if !goes.is_empty() {
            gone.push((KeptList { jobs: goes, ..list }, left));
        }
    }
    ends
}

fn bytes_of(jobs: &[Listed]) -> Vec<u8> {
    jobs.iter().flat_map(|job| job.to_bytes()).collect()
}

/// A kind that has got kept jobs since it was trimmed last.
pub(crate) struct ToTrim {
    kind: i64,
    keep: Keep,
    added: usize,
}

/// The kept jobs of a kind on whose end a caller waits, in the order of their ends: when each ended, and how many bytes
/// it counts.
#[derive(Default)]
pub(crate) struct WaitedFor {
    jobs: VecDeque<(Millis, i64)>,
    bytes: i64,
}

impl WaitedFor {
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
    /// Counts a kept job whose row was written. It is listed by the next call of [`trim`](State::trim). `keep`: what
    /// the kind keeps, or `None` if this job is kept for another reason.
    pub(super) fn note_kept(
        &mut self,
        (kind, ending): (i64, Ending),
        (at, until): (Millis, Millis),
        keep: Option<Keep>,
        job: Listed,
    ) {
        self.count(kind, KindCounts::of_ended(ending, job.bytes));
        if job.wanted
            && ending == Ending::Completed
            && let Some(waited) = self.waited_for.get_mut(&kind)
        {
            waited.settle(at);
            waited.jobs.push_back((at, job.bytes.into()));
            waited.bytes += i64::from(job.bytes);
        }
        let of = |its: &&mut NewlyKept| {
            (its.kind, its.ending, its.at, its.until) == (kind, ending, at, until)
        };
        match self.newly_kept.iter_mut().find(of) {
            Some(its) => its.jobs.push(job),
            None => self.newly_kept.push(NewlyKept { kind, ending, at, until, jobs: vec![job] }),
        }
        let Some(keep) = keep else { return };
        match self.to_trim.iter_mut().find(|its| its.kind == kind) {
            Some(its) => *its = ToTrim { kind, keep, added: its.added + 1 },
            None => self.to_trim.push(ToTrim { kind, keep, added: 1 }),
        }
    }

    /// Lists the jobs that are kept since the last call. Removes the oldest kept jobs of the kinds that have got some,
    /// as far as they have more than they keep.
    pub(super) fn trim(&mut self, tables: Tables<'_>, now: Millis) -> Result<(), StoreError> {
        for its in core::mem::take(&mut self.newly_kept) {
            tables.put_lists(its)?;
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
                let latest = params![kind, Ending::Completed as i64, i64::MAX];
                tables.lists_by_time(LATEST_LISTS, latest, |lists| {
                    let jobs =
                        lists.iter().flat_map(|list| list.jobs.iter().map(|job| (list.at, job)));
                    for (at, job) in jobs.filter(|(_, job)| job.wanted) {
                        waited.jobs.push_front((at, job.bytes.into()));
                        waited.bytes += i64::from(job.bytes);
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

    /// Counts kept jobs no longer that were deleted. An id stays if its caller chose it and it may not be forgotten
    /// yet.
    pub(super) fn kept_are_gone(
        &mut self,
        tables: Tables<'_>,
        list: &KeptList,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut gone = KindCounts::default();
        for job in &list.jobs {
            gone.add(KindCounts::of_ended(list.ending, job.bytes));
            if job.callers_id && list.at.plus(self.keep_dead) >= now {
                self.remember(tables, job.id, list.at)?;
            }
        }
        self.count(list.kind, -gone);
        Ok(())
    }
}
