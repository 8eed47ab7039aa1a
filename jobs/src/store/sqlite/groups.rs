//! Groups on a file: their rows, how members join and leave them, and their check.
//!
//! Ground rules:
//!
//! - A job without a group leads to no statement here.
//! - A row of `member` is an open member, so a member that has left cannot leave again.
//! - Each member is counted when it joins, and not with others later: a job that replaces another member under its key
//!   must not find the group empty.
//! - The check compares each group with its members.

use foldhash::{HashMap, HashSet};
use rusqlite::{Row, params};

use super::State;
use super::ended::EndedRow;
use super::kept::ending_at;
use super::schema::{
    KindRow, Table, id_bytes, id_of, kind_row, millis_of, out_of_range, store_error,
};
use super::sql::REMEMBER;
use super::statement::{job_of, parameter};
use super::tables::Tables;
use crate::store::group::{GROUPS_LOOKED_AT, RESULTS_PURGED, result_row};
use crate::store::{Answer, Ending, MOST_EACH, NewGroup, NewJob, Tally, Unreadable, results_page};
use crate::values::error::{StoreError, Violation};
use crate::values::group::{GroupError, GroupId, GroupInfo};
use crate::values::id::JobId;
use crate::values::info::MemberResult;
use crate::values::job::{Extra, group_of};
use crate::values::time::Millis;

const PUT_MEMBER: &str = "INSERT OR IGNORE INTO {p}member VALUES (?1, ?2)";

const SEALED: i64 = 1;
const CANCELLED: i64 = 2;
const WAITS_FOR_THE_DEAD: i64 = 4;
const KEEPS_RESULTS: i64 = 8;

/// A row of `grp`.
#[derive(Clone, Copy)]
pub(super) struct GroupRow {
    pub(super) id: GroupId,
    pub(super) tally: Tally,
    pub(super) callback: Option<JobId>,
}

fn refused(error: GroupError) -> Answer {
    Answer::Refused(StoreError::Group(error))
}

fn bytes(id: GroupId) -> [u8; 16] {
    id.to_u128().to_be_bytes()
}

pub(super) fn group_at(row: &Row<'_>, column: usize) -> rusqlite::Result<GroupId> {
    Ok(GroupId::from_u128(id_of(row, column)?.to_u128()))
}

/// Returns the group of which a job with this extra is a member.
pub(super) fn group_in(extra: Option<&[u8]>) -> Option<GroupId> {
    group_of(Extra::read(extra).ok().flatten().as_deref())
}

impl GroupRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<GroupRow> {
        let count = |column| {
            let count: i64 = row.get(column)?;
            u64::try_from(count).map_err(|_| out_of_range(column, count))
        };
        let flags: i64 = row.get(3)?;
        let has_ended = row.get::<_, Option<i64>>(2)?.is_some();
        let has_callback = row.get::<_, Option<Vec<u8>>>(10)?.is_some();
        let tally = Tally {
            made: millis_of(row, 1)?,
            ended: has_ended.then(|| millis_of(row, 2)).transpose()?,
            total: count(4)?,
            completed: count(5)?,
            dead: count(6)?,
            cancelled: count(7)?,
            expired: count(8)?,
            dead_left: count(9)?,
            is_sealed: flags & SEALED != 0,
            is_cancelled: flags & CANCELLED != 0,
            waits_for_the_dead: flags & WAITS_FOR_THE_DEAD != 0,
            keeps_results: flags & KEEPS_RESULTS != 0,
        };
        let callback = has_callback.then(|| id_of(row, 10)).transpose()?;
        Ok(GroupRow { id: group_at(row, 0)?, tally, callback })
    }

    fn info(&self) -> GroupInfo {
        self.tally.info(self.id, self.callback)
    }

    fn flags(&self) -> i64 {
        let Tally { is_sealed, is_cancelled, waits_for_the_dead, keeps_results, .. } = self.tally;
        let marks = [
            (is_sealed, SEALED),
            (is_cancelled, CANCELLED),
            (waits_for_the_dead, WAITS_FOR_THE_DEAD),
            (keeps_results, KEEPS_RESULTS),
        ];
        marks.into_iter().map(|(is_set, flag)| if is_set { flag } else { 0 }).sum()
    }
}

impl Tables<'_> {
    fn group(&self, id: GroupId) -> Result<Option<GroupRow>, StoreError> {
        self.one("SELECT {tally} FROM {p}grp WHERE id = ?1", [bytes(id)], GroupRow::read)
    }

    fn set_group(&self, group: &GroupRow) -> Result<(), StoreError> {
        let Tally { ended, total, completed, dead, cancelled, expired, dead_left, .. } =
            group.tally;
        let row = params![
            bytes(group.id),
            ended.map(Millis::get),
            group.flags(),
            total.cast_signed(),
            completed.cast_signed(),
            dead.cast_signed(),
            cancelled.cast_signed(),
            dead_left.cast_signed(),
            expired.cast_signed(),
        ];
        self.execute(
            "UPDATE {p}grp SET ended = ?2, flags = ?3, total = ?4, completed = ?5, dead = ?6, \
             cancelled = ?7, dead_left = ?8, expired = ?9 WHERE id = ?1",
            row,
        )
        .map(drop)
    }

    /// Counts a new open member.
    pub(super) fn join_group(&self, id: GroupId, member: JobId) -> Result<(), StoreError> {
        if let Some(mut group) = self.group(id)? {
            let sql = PUT_MEMBER;
            self.execute(sql, params![bytes(id), id_bytes(member)])?;
            self.drop_result(&group, member)?;
            group.tally.total += 1;
            self.set_group(&group)?;
        }
        Ok(())
    }

    /// Removes the result of a member that is open again.
    fn drop_result(&self, group: &GroupRow, member: JobId) -> Result<(), StoreError> {
        if group.tally.keeps_results {
            let row = params![bytes(group.id), id_bytes(member)];
            self.execute("DELETE FROM {p}grp_result WHERE grp = ?1 AND id = ?2", row)?;
        }
        Ok(())
    }

    /// Says whether a job is pending, claimed or dead.
    fn is_alive_or_dead(&self, kinds: &[KindRow], id: JobId) -> Result<bool, StoreError> {
        let sql = "SELECT ending FROM {p}ended WHERE id = ?1";
        let ending = self.one(sql, [id_bytes(id)], |row| ending_at(row, 0))?;
        Ok(ending == Some(Ending::Dead) || self.find(kinds, id)?.is_some())
    }

    /// Returns why the group takes no member.
    fn refusal(&self, id: GroupId) -> Result<Option<GroupError>, StoreError> {
        let group = self.group(id)?;
        Ok(group.map_or(Some(GroupError::Unknown), |group| group.tally.refuses()))
    }
}

impl State {
    pub(super) fn insert_group(
        &mut self,
        tables: Tables<'_>,
        new: &NewGroup,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        if tables.group(new.id)?.is_some() {
            return Ok(refused(GroupError::Exists));
        }
        let outer = new.callback.as_ref().and_then(|job| group_of(job.extra.as_deref()));
        if let Some(outer) = outer
            && let Some(error) = tables.refusal(outer)?
        {
            return Ok(refused(error));
        }
        if let Some(job) = new.callback.as_ref().filter(|job| job.callers_id) {
            self.settle(tables, now)?;
            if tables.is_known(&self.kinds, job.id)? {
                return Ok(refused(GroupError::CallbackKnown));
            }
        }
        let callback = new.callback.as_ref().map(|job| job.id);
        let tally = Tally::new(now, new);
        let group = GroupRow { id: new.id, tally, callback };
        let row = params![bytes(new.id), now.get(), group.flags(), callback.map(id_bytes)];
        tables
            .execute("INSERT INTO {p}grp VALUES (?1, ?2, NULL, ?3, 0, 0, 0, 0, 0, 0, ?4)", row)?;
        if let Some(job) = &new.callback {
            let row = params![bytes(new.id), id_bytes(job.id), parameter(job)?];
            tables.execute("INSERT INTO {p}callback VALUES (?1, ?2, ?3)", row)?;
            let reserved = params![id_bytes(job.id), Millis::MAX.get()];
            tables.execute(REMEMBER, reserved)?;
            if let Some(outer) = outer {
                tables.join_group(outer, job.id)?;
            }
        }
        let answer = self.insert_many(tables, &new.members, Some(new.id), now)?;
        if new.is_sealed {
            self.change_group(tables, new.id, now, |tally| tally.is_sealed = true)?;
        }
        Ok(answer)
    }

    pub(super) fn add_to_group(
        &mut self,
        tables: Tables<'_>,
        id: GroupId,
        jobs: &[NewJob],
        now: Millis,
    ) -> Result<Answer, StoreError> {
        match tables.refusal(id)? {
            Some(error) => Ok(refused(error)),
            None => self.insert_many(tables, jobs, Some(id), now),
        }
    }

    /// Seals or cancels a group. Says whether that changes it.
    pub(super) fn change_group(
        &mut self,
        tables: Tables<'_>,
        id: GroupId,
        now: Millis,
        change: impl FnOnce(&mut Tally),
    ) -> Result<Answer, StoreError> {
        let Some(mut group) = tables.group(id)? else { return Ok(refused(GroupError::Unknown)) };
        match group.tally.change(change) {
            Err(error) => Ok(refused(error)),
            Ok(has_changed) => {
                self.settle_group(tables, group, now)?;
                Ok(Answer::Changed(has_changed))
            }
        }
    }

    /// Counts a member that has ended. `rest`: [`End::result_or_errors`](crate::store::End::result_or_errors).
    pub(super) fn leave_group(
        &mut self,
        tables: Tables<'_>,
        of: GroupId,
        (member, kind): (JobId, i64),
        ending: Ending,
        rest: &[u8],
        now: Millis,
    ) -> Result<(), StoreError> {
        let row = params![bytes(of), id_bytes(member)];
        let was_open = tables.execute("DELETE FROM {p}member WHERE grp = ?1 AND id = ?2", row)? > 0;
        if was_open && let Some(mut group) = tables.group(of)? {
            group.tally.leave(ending);
            if group.tally.keeps_results {
                let row = result_row(ending, &kind_row(&self.kinds, kind)?.name, rest);
                let row = params![bytes(of), id_bytes(member), row];
                tables.execute("INSERT OR REPLACE INTO {p}grp_result VALUES (?1, ?2, ?3)", row)?;
            }
            self.settle_group(tables, group, now)?;
        }
        Ok(())
    }

    /// Counts a dead member as cancelled, because it was deleted.
    pub(super) fn dead_is_gone(
        &mut self,
        tables: Tables<'_>,
        row: &EndedRow,
        now: Millis,
    ) -> Result<(), StoreError> {
        if row.ending == Ending::Dead
            && let Some(of) = group_in(row.job.extra.as_deref())
            && let Some(mut group) = tables.group(of)?
        {
            group.tally.dead_is_gone();
            self.settle_group(tables, group, now)?;
        }
        Ok(())
    }

    /// Opens a dead member again. Returns its extra: if its group has ended, the job is a member no longer.
    pub(super) fn retry_member(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
        extra: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(of) = group_in(extra.as_deref()) else { return Ok(extra) };
        if let Some(mut group) = tables.group(of)? {
            let is_member = group.tally.reopen();
            tables.set_group(&group)?;
            if is_member {
                let row = params![bytes(of), id_bytes(id)];
                tables.execute(PUT_MEMBER, row)?;
                tables.drop_result(&group, id)?;
                return Ok(extra);
            }
        }
        let extra = Extra::read(extra.as_deref())?;
        let extra = extra.and_then(|extra| Extra { group: None, ..*extra }.boxed());
        Ok(extra.map(|extra| extra.to_bytes()))
    }

    /// Writes a group that was changed. If it is over, it ends: its callback is inserted.
    fn settle_group(
        &mut self,
        tables: Tables<'_>,
        mut group: GroupRow,
        now: Millis,
    ) -> Result<(), StoreError> {
        let is_over = group.tally.end_if_over(now);
        tables.set_group(&group)?;
        if !is_over || group.callback.is_none() {
            return Ok(());
        }
        let of = [bytes(group.id)];
        let job = tables.one("SELECT job FROM {p}callback WHERE grp = ?1", of, |row| {
            row.get::<_, Vec<u8>>(0)
        })?;
        let Some(mut job) = job.as_deref().and_then(job_of) else {
            return Err(StoreError::Damaged(format!("group {} has no callback", group.id)));
        };
        tables.execute("DELETE FROM {p}callback WHERE grp = ?1", of)?;
        job.due = job.due.max(now);
        tables.execute("DELETE FROM {p}remembered WHERE id = ?1", [id_bytes(job.id)])?;
        self.insert(tables, &job, now).map(drop)
    }

    /// Removes results that may go. Returns whether more may be left.
    fn purge_results(&mut self, tables: Tables<'_>, before: Millis) -> Result<bool, StoreError> {
        let mut left = RESULTS_PURGED;
        for _ in 0..GROUPS_LOOKED_AT {
            let after = self.results_looked_at.map_or(Vec::new(), |id| bytes(id).to_vec());
            let next = "SELECT grp FROM {p}grp_result WHERE grp > ?1 ORDER BY grp LIMIT 1";
            let Some(id) = tables.one(next, [after], |row| group_at(row, 0))? else {
                self.results_looked_at = None;
                return Ok(false);
            };
            if self.lets_results_go(tables, id, before)? {
                left -= tables.execute(
                    "DELETE FROM {p}grp_result WHERE grp = ?1 AND id IN \
                     (SELECT id FROM {p}grp_result WHERE grp = ?1 LIMIT ?2)",
                    params![bytes(id), left.cast_signed()],
                )?;
            }
            if left == 0 {
                break;
            }
            self.results_looked_at = Some(id);
        }
        Ok(true)
    }

    /// Lets a group keep no results any more, if they may go. Returns whether they may. What cannot be read is reported,
    /// and the results stay.
    fn lets_results_go(
        &mut self,
        tables: Tables<'_>,
        id: GroupId,
        before: Millis,
    ) -> Result<bool, StoreError> {
        let group = self.readable(format!("group {id}"), tables.group(id))?;
        let Some(group) = group else { return Ok(false) };
        let Some(mut group) = group else { return Ok(true) };
        let callback_is_left = match group.callback {
            None => None,
            Some(job) => {
                let is_left = tables.is_alive_or_dead(&self.kinds, job);
                Some(self.readable(format!("job {job}"), is_left)?.unwrap_or(true))
            }
        };
        let may_go = group.tally.results_may_go(callback_is_left, before);
        if may_go && core::mem::take(&mut group.tally.keeps_results) {
            tables.set_group(&group)?;
        }
        Ok(may_go)
    }

    /// Returns `None` for what cannot be read, and reports that.
    pub(super) fn readable<T>(
        &mut self,
        what: String,
        found: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match found {
            Err(error @ StoreError::Damaged(_)) => {
                self.unreadable.push(Unreadable { what, error });
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Removes results that may go, and forgets groups whose retention is over and that no dead job names: at most
    /// 1,000 of both. Returns whether more may be left.
    pub(super) fn purge_groups(
        &mut self,
        tables: Tables<'_>,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let before = now.minus(self.keep_dead);
        let are_results_left = self.purge_results(tables, before)?;
        let forgotten = tables.execute(
            "DELETE FROM {p}grp WHERE id IN (SELECT id FROM {p}grp \
             WHERE ended IS NOT NULL AND dead_left = 0 AND ended < ?1 \
             AND NOT EXISTS (SELECT 1 FROM {p}grp_result WHERE grp = {p}grp.id) \
             ORDER BY ended LIMIT 1000)",
            [before.get()],
        )?;
        Ok(are_results_left || forgotten >= 1000)
    }
}

pub(super) fn group_info(
    tables: Tables<'_>,
    id: GroupId,
) -> Result<Option<Box<GroupInfo>>, StoreError> {
    Ok(tables.group(id)?.map(|group| Box::new(group.info())))
}

/// Returns the groups that were made last.
pub(super) fn latest_groups(tables: Tables<'_>, most: usize) -> Result<Vec<GroupInfo>, StoreError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let groups = tables.all(
        "SELECT {tally} FROM {p}grp WHERE made >= 0 ORDER BY made DESC, id DESC LIMIT ?1",
        [most],
        GroupRow::read,
    )?;
    Ok(groups.iter().map(GroupRow::info).collect())
}

/// Returns the first open members of a group behind this id.
pub(super) fn members(
    tables: Tables<'_>,
    id: GroupId,
    after: Option<JobId>,
) -> Result<Vec<JobId>, StoreError> {
    let after = after.map(id_bytes).map_or(Vec::new(), |bytes| bytes.to_vec());
    let page = params![bytes(id), after, MOST_EACH as i64];
    tables.all(
        "SELECT id FROM {p}member WHERE grp = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        page,
        |row| id_of(row, 0),
    )
}

/// Returns a page of the results of a group behind this member.
pub(super) fn results(
    tables: Tables<'_>,
    id: GroupId,
    after: Option<JobId>,
) -> Result<Option<Vec<MemberResult>>, StoreError> {
    if !tables.group(id)?.is_some_and(|group| group.tally.keeps_results) {
        return Ok(None);
    }
    let after = after.map(id_bytes).map_or(Vec::new(), |bytes| bytes.to_vec());
    let sql = "SELECT id, value FROM {p}grp_result WHERE grp = ?1 AND id > ?2 ORDER BY id";
    let mut statement = tables.prepare(sql).map_err(store_error)?;
    let row = |row: &Row<'_>| Ok((id_of(row, 0)?, row.get(1)?));
    let rows = statement.query_map(params![bytes(id), after], row).map_err(store_error)?;
    results_page(rows.map(|row| row.map_err(store_error))).map(Some)
}

/// G1: the counts of each group equal its members, and it has at most as many results as members that have ended.
pub(super) fn check_groups(tables: Tables<'_>) -> Result<(), Violation> {
    let wrong = |what: String| Err(Violation(format!("G1: {what}")));
    let pair = |row: &Row<'_>| Ok((group_at(row, 0)?, id_of(row, 1)?));
    let read = |row: &Row<'_>| Ok((id_of(row, 0)?, row.get::<_, Vec<u8>>(1)?));
    let mut alive = Vec::new();
    for table in Table::ALL {
        alive.extend(
            tables.whole((table, "SELECT id, extra FROM {table} WHERE extra IS NOT NULL"), read)?,
        );
    }
    let of = |(id, extra): (JobId, Vec<u8>)| Some((group_in(Some(&extra))?, id));
    let alive: HashSet<(GroupId, JobId)> = alive.into_iter().filter_map(of).collect();
    let mut dead: HashMap<GroupId, u64> = HashMap::default();
    let all_dead = tables
        .whole("SELECT id, extra FROM {p}ended WHERE ending = 2 AND extra IS NOT NULL", read)?;
    for (of, _) in all_dead.into_iter().filter_map(of) {
        *dead.entry(of).or_default() += 1;
    }
    let callbacks = tables.whole("SELECT grp, id FROM {p}callback", pair)?;
    let to_come: HashSet<JobId> = callbacks.iter().map(|(_, id)| *id).collect();
    for (of, id) in &callbacks {
        if !tables.has_ended(*id)? {
            return wrong(format!("the id of {id}, the callback of {of}, is free"));
        }
    }
    let members: HashSet<(GroupId, JobId)> =
        tables.whole("SELECT grp, id FROM {p}member", pair)?.into_iter().collect();
    if let Some((of, id)) = alive.difference(&members).next() {
        return wrong(format!("{id} is not among the members of {of}"));
    }
    if let Some((of, id)) = members.difference(&alive).find(|(_, id)| !to_come.contains(id)) {
        return wrong(format!("{id} of {of} is gone"));
    }
    let count = |row: &Row<'_>| Ok((group_at(row, 0)?, row.get::<_, i64>(1)?.cast_unsigned()));
    let results = tables.whole("SELECT grp, count(*) FROM {p}grp_result GROUP BY grp", count)?;
    let mut results: HashMap<GroupId, u64> = results.into_iter().collect();
    for group in tables.whole("SELECT {tally} FROM {p}grp", GroupRow::read)? {
        let (id, tally) = (group.id, group.tally);
        let open = members.iter().filter(|(of, _)| *of == id).count() as u64;
        if tally.total != open + tally.have_ended() {
            return wrong(format!("{id} has {open} open members, and counts {tally:?}"));
        }
        let kept = results.remove(&id).unwrap_or_default();
        if tally.keeps_results && kept > tally.have_ended() {
            return wrong(format!("{id} has {kept} results, and counts {tally:?}"));
        }
        let its_dead = dead.remove(&id).unwrap_or_default();
        if its_dead != tally.dead_left || tally.ended.is_none() && its_dead != tally.dead {
            return wrong(format!("{id} has {its_dead} dead members, and counts {tally:?}"));
        }
        let has_callback = callbacks.iter().any(|(of, _)| *of == id);
        if tally.is_over() || has_callback != (tally.ended.is_none() && group.callback.is_some()) {
            return wrong(format!("{id} has a callback to insert: {has_callback}, {tally:?}"));
        }
    }
    match dead.keys().chain(results.keys()).next() {
        Some(id) => wrong(format!("a dead job or a result names {id}, which is gone")),
        None => Ok(()),
    }
}
