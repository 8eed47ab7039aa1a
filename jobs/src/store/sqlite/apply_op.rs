//! Each operation of the store, in an open transaction; and the table `progress`, with what the runs of claimed jobs
//! have set.
//!
//! Ground rules:
//!
//! - An operation that returns an error fails its whole transaction.
//! - A function that makes a job pending calls `State::note_added`, which moves the scan cursor back
//!   ([`FileClaims::note_added`](super::claim::FileClaims)). One that changes the number of jobs calls
//!   `State::count`.

use rusqlite::{Row, params};

use super::State;
use super::claim::fence_of;
use super::groups::{group_info, latest_groups, members, results};
use super::history::read_history;
use super::schema::{InsertedAt, JobRow, KindCounts, KindRow, Place, Table, id_bytes, millis_of};
use super::sql::{DROP_SETTING, FLUSH, PROGRESS, PUT_SETTING, SETTING, SETTINGS};
use super::tables::Tables;
use crate::store::history::Figure;
use crate::store::{Answer, Ending, Fence, Inserted, JobSet, NewJob, Op, Page, Tally};
use crate::values::error::StoreError;
use crate::values::group::GroupId;
use crate::values::id::JobId;
use crate::values::info::{Cancel, JobInfo, JobState};
use crate::values::job::partition_of;
use crate::values::node::{NodeInfo, StoredNode};
use crate::values::time::Millis;

impl State {
    pub(crate) fn apply(
        &mut self,
        tables: Tables<'_>,
        op: &Op,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        match op {
            // An insert that could find a completed job settles first.
            Op::Finish(_) | Op::Insert(_) | Op::InsertMany(_) => {}
            _ => self.settle(tables, now)?,
        }
        Ok(match op {
            Op::Insert(job) => Answer::Inserted(self.insert(tables, job, now)?),
            Op::InsertMany(jobs) => self.insert_many(tables, jobs, None, now)?,
            Op::InsertGroup(group) => self.insert_group(tables, group, now)?,
            Op::AddToGroup(id, jobs) => self.add_to_group(tables, *id, jobs, now)?,
            Op::SealGroup(id) => {
                self.change_group(tables, *id, now, |tally| tally.is_sealed = true)?
            }
            Op::CancelGroup(id) => self.change_group(tables, *id, now, Tally::cancel)?,
            Op::Cancel(id) => Answer::Cancelled(self.cancel(tables, *id, now)?),
            Op::CancelKey(key) => Answer::Changed(self.cancel_key(tables, key, now)?),
            Op::Reschedule(id, due) => Answer::Changed(match tables.find(&self.kinds, *id)? {
                Some(place) if !self.claims.is_claimed(tables, *id)? => {
                    self.reschedule(tables, place, *due)?
                }
                _ => false,
            }),
            Op::RescheduleKey(key, due) => {
                Answer::Changed(match self.pending_holder(tables, key)? {
                    Some(place) => self.reschedule(tables, place, *due)?,
                    None => false,
                })
            }
            Op::Retry(id, due) => self.retry(tables, *id, *due)?,
            Op::Delete(id) => Answer::Changed(self.delete_ended(tables, *id, now)?),
            Op::Each(ops) => {
                let answers = ops.iter().map(|op| self.apply(tables, op, now));
                Answer::Each(answers.collect::<Result<_, StoreError>>()?)
            }
            Op::PutSchedule(new) => Answer::Changed(self.put_schedule(tables, new)?),
            Op::DropSchedule(name) => Answer::Changed(tables.drop_schedule(name)?),
            Op::PauseSchedule(name, at) => Answer::Changed(tables.pause_schedule(name, *at)?),
            Op::ResumeSchedule { name, expected, next } => {
                Answer::Changed(tables.resume_schedule(name, *expected, *next)?)
            }
            Op::PutSetting { name, value } => Answer::Changed(put_setting(tables, name, value)?),
            Op::ReplaceSetting { name, expected, value } => {
                let stored: Option<String> = tables.one(SETTING, [name], |row| row.get(0))?;
                let (is_there, is_expected) = (stored == *value, stored == *expected);
                Answer::Changed(is_there || is_expected && put_setting(tables, name, value)?)
            }
            Op::Hold { name, until } => {
                let set = tables.execute(
                    "INSERT INTO {p}setting VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE \
                     SET value = excluded.value \
                     WHERE CAST(value AS INTEGER) < CAST(excluded.value AS INTEGER)",
                    [name, &until.get().to_string()],
                )?;
                Answer::Changed(set > 0)
            }
            // One process runs the jobs of a file.
            Op::PutNode { node } => {
                tables.execute(
                    "INSERT OR REPLACE INTO {p}node VALUES ('runner', ?1, ?2)",
                    params![now.get(), node],
                )?;
                Answer::Done
            }
            Op::PutProgress { id, fence, value } => {
                Answer::Changed(self.put_progress(tables, *id, *fence, value)?)
            }
            Op::Occur { name, expected, jobs, next } => {
                self.occur(tables, name, *expected, jobs, *next, now)?
            }
            Op::Finish(finish) => self.finish(tables, finish, now)?,
            Op::Release { id, interrupted, .. } => self.release(tables, *id, *interrupted, now)?,
            Op::Extend(_) => Answer::ClaimsLost(Vec::new()),
            Op::Purge => Answer::Changed(self.purge(tables, now)?),
            Op::Flush => {
                tables.execute(FLUSH, [])?;
                Answer::Done
            }
            Op::Get(id) => Answer::Info(self.get(tables, *id)?.map(Box::new)),
            Op::GetKey(key) => Answer::Info(match tables.key_holder(key)? {
                Some(id) => self.get(tables, id)?.map(Box::new),
                None => None,
            }),
            Op::Page(request) => Answer::Page(match request.set {
                JobSet::Alive => self.alive_page(tables, request)?,
                JobSet::Claimed => self.claimed_page(tables, request)?,
                JobSet::Ended(_) => self.ended_page(tables, request)?,
            }),
            Op::Claimed => Answer::Page(self.claimed_jobs(tables)?),
            Op::Counts => Answer::Counts(self.counts(tables, now)?),
            Op::Kinds => {
                let count = |kind: &KindRow| u64::try_from(self.counts_of(kind).jobs).unwrap_or(0);
                let kinds = self.kinds.iter().map(|kind| (kind.name.clone(), count(kind)));
                Answer::Kinds(kinds.collect())
            }
            Op::Gauges => Answer::Gauges(self.gauges(tables, now)?),
            Op::DeadByError(most) => Answer::DeadByError(self.dead_by_error(tables, *most)?),
            Op::Nodes => Answer::Nodes(nodes(tables)?),
            Op::Tokens(scopes) => Answer::Tokens(tables.tokens(scopes)?),
            Op::Settings => {
                Answer::Settings(tables.all(SETTINGS, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
            }
            Op::Schedules => Answer::Schedules(self.schedules(tables)?),
            Op::Group(id) => Answer::Group(group_info(tables, *id)?),
            Op::Groups(most) => Answer::Groups(latest_groups(tables, *most)?),
            Op::Members(id, after) => Answer::Members(members(tables, *id, *after)?),
            Op::Results(id, after) => Answer::Results(results(tables, *id, *after)?),
            Op::History { kind, from, to } => {
                Answer::History(read_history(tables, kind.as_deref(), *from, *to)?)
            }
        })
    }

    pub(super) fn kind(&mut self, tables: Tables<'_>, name: &str) -> Result<KindRow, StoreError> {
        if let Some(row) = self.kinds.iter().find(|row| row.name == name) {
            return Ok(row.clone());
        }
        tables.add_kind(name)?;
        self.kinds = tables.kinds()?;
        let row = self.kinds.iter().find(|row| row.name == name);
        row.cloned().ok_or_else(|| StoreError::Damaged(format!("no number for kind {name:?}")))
    }

    pub(super) fn insert(
        &mut self,
        tables: Tables<'_>,
        new: &NewJob,
        now: Millis,
    ) -> Result<Inserted, StoreError> {
        if new.callers_id {
            self.settle(tables, now)?;
        }
        let kind = self.kind(tables, &new.kind)?;
        let part = partition_of(new.extra.as_deref());
        // A job that is due goes to its lane at once. Only the process that runs the jobs knows the lanes.
        let has_lane =
            part.is_some() && self.claims.runner && self.claims.name_of(kind.n).is_some();
        if has_lane {
            self.make_lanes(tables)?;
        }
        let State { claims, hours, kinds, .. } = self;
        let is_claimed = |id| claims.is_claimed(tables, id);
        let table_for = |kind, due| match has_lane && due <= now {
            true => Ok(Table::Lane),
            false => hours.table_for(tables, kind, due),
        };
        let InsertedAt { inserted, place, replaced } =
            tables.insert(kinds, &kind, new, is_claimed, table_for)?;
        if let Some((kind, job)) = replaced {
            self.noted.note(&kind, Figure::Cancelled);
            self.cancelled(tables, kind, job, 0, now)?;
        }
        if let Some(place) = place {
            self.count(place.kind, KindCounts::of_job(0));
            self.noted.note(&place.kind, Figure::Inserted);
            self.note_added(place, part);
            if new.callers_id {
                // A cancel of an earlier job with this id must not cancel this job.
                self.cancel_requested.take(tables, new.id)?;
            }
        }
        Ok(inserted)
    }

    /// Inserts jobs, which are members of the group if there is one.
    pub(super) fn insert_many(
        &mut self,
        tables: Tables<'_>,
        jobs: &[NewJob],
        group: Option<GroupId>,
        now: Millis,
    ) -> Result<Answer, StoreError> {
        let mut taken = Vec::new();
        for (n, job) in jobs.iter().enumerate() {
            match (self.insert(tables, job, now)?, group) {
                (Inserted::Taken(by), _) => taken.push((n, by)),
                (Inserted::New, Some(group)) => tables.join_group(group, job.id)?,
                (Inserted::New | Inserted::Known, _) => {}
            }
        }
        Ok(Answer::InsertedMany(taken))
    }

    fn cancel(&mut self, tables: Tables<'_>, id: JobId, now: Millis) -> Result<Cancel, StoreError> {
        let Some(place) = tables.find(&self.kinds, id)? else { return Ok(Cancel::Gone) };
        if self.claims.is_claimed(tables, id)? {
            tables
                .execute("INSERT OR IGNORE INTO {p}cancel_requested VALUES (?1)", [id_bytes(id)])?;
            self.cancel_requested.add(id);
            return Ok(Cancel::Running);
        }
        self.delete_pending(tables, place, now)?;
        Ok(Cancel::Cancelled)
    }

    fn cancel_key(
        &mut self,
        tables: Tables<'_>,
        key: &str,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let Some(place) = self.pending_holder(tables, key)? else { return Ok(false) };
        self.delete_pending(tables, place, now)?;
        Ok(true)
    }

    fn claimed_jobs(&mut self, tables: Tables<'_>) -> Result<Page, StoreError> {
        let mut ids: Vec<JobId> = self.claims.all(tables)?.into_keys().collect();
        ids.sort_unstable();
        let mut page = Page::default();
        // A job that has ended may stay in the row of its claim.
        let is_claimed = |job: &JobInfo| job.state == JobState::Running;
        for id in ids {
            page.jobs.extend(self.get(tables, id)?.filter(is_claimed));
        }
        Ok(page)
    }

    /// Returns the job that has the key, or `None` if that job is claimed.
    fn pending_holder(&self, tables: Tables<'_>, key: &str) -> Result<Option<Place>, StoreError> {
        let Some(id) = tables.key_holder(key)? else { return Ok(None) };
        if self.claims.is_claimed(tables, id)? {
            return Ok(None);
        }
        tables.find(&self.kinds, id)
    }

    /// Deletes a job that is not claimed.
    pub(super) fn delete_pending(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        now: Millis,
    ) -> Result<(), StoreError> {
        if self.end_cancelled(tables, place, 0, now)? {
            self.noted.note(&place.kind, Figure::Cancelled);
            self.cancel_requested.take(tables, place.id)?;
        }
        Ok(())
    }

    /// Gives a job that is not claimed another due time.
    fn reschedule(
        &mut self,
        tables: Tables<'_>,
        place: Place,
        due: Millis,
    ) -> Result<bool, StoreError> {
        let Some(job) = tables.job(place)? else { return Ok(false) };
        self.file_again(tables, place, &JobRow { due, ..job })?;
        Ok(true)
    }

    fn retry(&mut self, tables: Tables<'_>, id: JobId, due: Millis) -> Result<Answer, StoreError> {
        let dead = tables.ended(id)?.filter(|row| row.ending == Ending::Dead);
        let Some(dead) = dead else { return Ok(Answer::Changed(false)) };
        if let Some(key) = &dead.job.key {
            if let Some(by) = tables.key_holder(key)? {
                return Ok(Answer::Refused(StoreError::KeyTaken { key: key.clone(), by }));
            }
            tables.put_key(key, id)?;
        }
        self.take_ended(tables, &dead)?;
        let (mut job, n) = (dead.job, dead.kind);
        job.extra = self.retry_member(tables, id, job.extra)?;
        self.cancel_requested.take(tables, id)?;
        self.count(n, KindCounts::of_job(0));
        job.tries.begin_again();
        self.file(tables, n, &JobRow { due, ..job })?;
        Ok(Answer::Changed(true))
    }
}

impl State {
    /// Sets the progress of a run whose claim is held.
    pub(super) fn put_progress(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
        fence: Fence,
        value: &[u8],
    ) -> Result<bool, StoreError> {
        let held = self.claims.held.get(&id);
        let is_held = held.is_some_and(|held| fence_of(self.claims.starts, held.order) == fence)
            && !self.has_ended_in(tables, id)?;
        if is_held {
            tables.execute(
                "INSERT OR REPLACE INTO {p}progress VALUES (?1, ?2)",
                params![id_bytes(id), value],
            )?;
            self.progress.add(id);
        }
        Ok(is_held)
    }

    /// Takes the progress that the run of a claimed job has set.
    pub(super) fn take_progress(
        &mut self,
        tables: Tables<'_>,
        id: JobId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if !self.progress.read(tables)?.contains(&id) {
            return Ok(None);
        }
        // A value that another program has written may have any type.
        let bytes = |row: &Row<'_>| Ok(row.get_ref(0)?.as_bytes().ok().map(<[u8]>::to_vec));
        let value = tables.one(PROGRESS, [id_bytes(id)], bytes)?;
        self.progress.take(tables, id)?;
        Ok(value.flatten())
    }
}

/// Sets or removes a setting. Returns whether that changed it.
fn put_setting(
    tables: Tables<'_>,
    name: &String,
    value: &Option<String>,
) -> Result<bool, StoreError> {
    Ok(match value {
        Some(value) => tables.execute(PUT_SETTING, [name, value])? > 0,
        None => tables.execute(DROP_SETTING, [name])? > 0,
    })
}

pub(super) fn nodes(tables: Tables<'_>) -> Result<Vec<NodeInfo>, StoreError> {
    let nodes = tables.all("SELECT seen, value FROM {p}node ORDER BY id", [], |row| {
        Ok((millis_of(row, 0)?, row.get::<_, String>(1)?))
    })?;
    let info = |(seen, node): (Millis, String)| StoredNode::info(&node, seen);
    Ok(nodes.into_iter().filter_map(info).collect())
}
