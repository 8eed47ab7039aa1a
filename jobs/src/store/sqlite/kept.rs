//! Completed jobs that are kept: a row for each job, lists that have their order, and the bounds of each kind, beyond
//! which the oldest are removed.
//!
//! Ground rules:
//!
//! - A kept job is a row of `kept`, which is found by its id. The order in which the jobs of a kind ended lies in
//!   `kept_list`: a list has up to [`MOST_JOBS`] jobs that one commit has ended. So a commit that ends many jobs writes
//!   one row for each, and few lists: no index has an entry for each job.
//! - The jobs of a list have one kind, one time of their end, and one date until when they are kept.
//! - Each job is in one list (F14). A list has for each job the bytes that count and whether its id is remembered. So a
//!   job that goes is deleted and not read.
//! - The jobs of several lists may have ended in the same millisecond. Then their order is that of their ids.
//! - `run_ends.rs` writes the rows of kept jobs, and notes each job for a list. The lists are written and the oldest
//!   jobs are deleted once for all ends of a transaction, before another operation of it could read them.
//! - All ends of a kind in a transaction have the same bound, because a program reads the bound only after a commit.
//! - The jobs on whose end a caller waits do not count. They are few, and known to the process that ends runs: it reads
//!   them once from the lists of the last minute.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use foldhash::HashMap;
use rusqlite::{Params, Row, params};

use super::State;
use super::schema::{KEPT, KindCounts, id_bytes, id_of, kind_row, millis_of, store_error};
use super::sql::HAS_ENDED;
use super::tables::Tables;
use crate::store::{TRIM_LOOKS, TRIMMED, is_waited_for};
use crate::values::error::{StoreError, Violation};
use crate::values::id::JobId;
use crate::values::job::Extra;
use crate::values::setting::Keep;
use crate::values::time::Millis;

const DROP_KEPT: &str = "DELETE FROM {p}kept WHERE id = ?1";

const ALL_KEPT: &str = "SELECT id, kind, at, callers_id, {bytes}, extra FROM {p}kept ORDER BY id";

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
    pub(super) at: Millis,
    n: i64,
    pub(super) jobs: Vec<Listed>,
}

/// Jobs of a kind that a transaction keeps until one date, and that are in no list yet.
#[derive(Debug)]
pub(crate) struct NewlyKept {
    pub(super) kind: i64,
    pub(super) at: Millis,
    pub(super) until: Millis,
    pub(super) jobs: Vec<Listed>,
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

    /// Reads a kept job from its row: its id, and from the column `callers_id` on that, its bytes and its extra.
    fn of_row(row: &Row<'_>, callers_id: usize) -> rusqlite::Result<Listed> {
        let extra: Option<Vec<u8>> = row.get(callers_id + 2)?;
        // An extra that cannot be read keeps no job.
        let extra = Extra::read(extra.as_deref()).ok().flatten();
        Ok(Listed {
            id: id_of(row, 0)?,
            bytes: row.get(callers_id + 1)?,
            callers_id: row.get(callers_id)?,
            wanted: extra.is_some_and(|extra| extra.wanted),
        })
    }
}

impl KeptList {
    /// Reads a list. A part of a job at its end is left out: `check` reports the job.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<KeptList> {
        let bytes = row.get_ref(3)?.as_blob()?;
        let jobs = bytes.as_chunks().0.iter().map(Listed::read).collect();
        Ok(KeptList { kind: row.get(0)?, at: millis_of(row, 1)?, n: row.get(2)?, jobs })
    }
}

impl Tables<'_> {
    /// Makes the tables of kept jobs, if the file has none.
    pub(super) fn make_kept(&self) -> Result<(), StoreError> {
        if self.sql.has_kept.replace(true) {
            return Ok(());
        }
        self.make(KEPT)
    }

    /// Writes the lists of jobs whose rows are there.
    pub(super) fn put_lists(&self, kept: &mut NewlyKept) -> Result<(), StoreError> {
        kept.jobs.sort_unstable_by_key(|job| job.id);
        for jobs in kept.jobs.chunks(MOST_JOBS) {
            let row = params![kept.kind, kept.at.get(), kept.until.get(), bytes_of(jobs)];
            self.execute(
                "INSERT INTO {p}kept_list VALUES (?1, ?2, (SELECT coalesce(max(n), 0) + 1 \
                 FROM {p}kept_list WHERE kind = ?1 AND at = ?2), ?3, ?4)",
                row,
            )?;
        }
        Ok(())
    }

    /// Asks `look` about the kept jobs of a kind, the oldest first. Deletes the jobs that go, and takes them off their
    /// lists. Returns them by the lists.
    pub(super) fn drop_oldest(
        &self,
        kind: i64,
        mut look: impl FnMut(Millis, &Listed) -> Look,
    ) -> Result<Vec<KeptList>, StoreError> {
        let mut gone = Vec::new();
        self.lists_by_time(
            "SELECT kind, at, n, jobs FROM {p}kept_list WHERE kind = ?1 ORDER BY at, n",
            [kind],
            |lists| Ok(take_gone(lists, &mut gone, &mut look)),
        )?;
        for (list, left) in &gone {
            self.drop_kept(list)?;
            self.set_list(list, left)?;
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

    /// Deletes a list and the rows of its jobs.
    pub(super) fn drop_list(&self, list: &KeptList) -> Result<(), StoreError> {
        self.drop_kept(list)?;
        self.set_list(list, &[])
    }

    /// Deletes a job and takes it off its list.
    pub(super) fn drop_kept_job(&self, kind: i64, at: Millis, id: JobId) -> Result<(), StoreError> {
        self.execute(DROP_KEPT, [id_bytes(id)])?;
        for mut list in self.all(
            "SELECT kind, at, n, jobs FROM {p}kept_list WHERE kind = ?1 AND at = ?2 ORDER BY n",
            params![kind, at.get()],
            KeptList::read,
        )? {
            let jobs = list.jobs.len();
            list.jobs.retain(|job| job.id != id);
            if list.jobs.len() < jobs {
                return self.set_list(&list, &list.jobs);
            }
        }
        Ok(())
    }

    fn drop_kept(&self, list: &KeptList) -> Result<(), StoreError> {
        let mut drop = self.prepare(DROP_KEPT).map_err(store_error)?;
        for job in &list.jobs {
            drop.execute([id_bytes(job.id)]).map_err(store_error)?;
        }
        Ok(())
    }

    /// Gives a list these jobs.
    fn set_list(&self, list: &KeptList, jobs: &[Listed]) -> Result<(), StoreError> {
        let KeptList { kind, at, n, .. } = list;
        match jobs {
            [] => self
                .execute(
                    "DELETE FROM {p}kept_list WHERE kind = ?1 AND at = ?2 AND n = ?3",
                    params![kind, at.get(), n],
                )
                .map(drop),
            _ => self
                .execute(
                    "UPDATE {p}kept_list SET jobs = ?4 WHERE kind = ?1 AND at = ?2 AND n = ?3",
                    params![kind, at.get(), n, bytes_of(jobs)],
                )
                .map(drop),
        }
    }

    /// Returns the kind of every kept job, and how many bytes of it count.
    pub(super) fn kept_jobs(&self) -> Result<Vec<(i64, i64)>, StoreError> {
        match self.sql.has_kept.get() {
            true => self.whole(ALL_KEPT, |row| Ok((row.get(1)?, row.get(4)?))),
            false => Ok(Vec::new()),
        }
    }

    /// Compares kept jobs with their lists (F14).
    pub(super) fn lists_agree(&self) -> Result<(), Violation> {
        if !self.sql.has_kept.get() {
            return Ok(());
        }
        let mut listed: HashMap<JobId, (i64, Millis, Listed)> = HashMap::default();
        for list in self.whole("SELECT kind, at, n, jobs FROM {p}kept_list", KeptList::read)? {
            let (kind, at) = (list.kind, list.at);
            if list.jobs.is_empty() || !list.jobs.is_sorted_by_key(|job| job.id) {
                return Err(Violation(format!("F14: a list in no order: {list:?}")));
            }
            for job in list.jobs {
                if listed.insert(job.id, (kind, at, job)).is_some() {
                    return Err(Violation(format!("F14: {} is in two lists", job.id)));
                }
            }
        }
        let rows = self.whole(ALL_KEPT, |row| {
            Ok((row.get(1)?, millis_of(row, 2)?, Listed::of_row(row, 3)?))
        })?;
        for row in rows {
            let (id, found) = (row.2.id, listed.remove(&row.2.id));
            if found != Some(row) {
                return Err(Violation(format!("F14: the kept job {row:?} is listed as {found:?}")));
            }
            if self.has(HAS_ENDED, [id_bytes(id)])? {
                return Err(Violation(format!("F14: {id} is kept, and has a row of `ended`")));
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

    /// Lists the jobs that are kept since the last call. Removes the oldest kept jobs of the kinds that have got some,
    /// as far as they have more than they keep.
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
                let lists = "SELECT kind, at, n, jobs FROM {p}kept_list \
                     WHERE kind = ?1 AND at <= ?2 ORDER BY at DESC, n DESC";
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
            gone.add(KindCounts::of_kept(job.bytes as usize));
            if job.callers_id && list.at.plus(self.keep_dead) >= now {
                self.remember(tables, job.id, list.at)?;
            }
        }
        self.count(list.kind, -gone);
        Ok(())
    }
}
