//! The operations of the store in memory that change something: on single jobs, on groups, on schedules; and the
//! pages of jobs.

use core::convert::Infallible;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{EndedEntry, JobRecord, KeptJob, Memory};
use crate::store::group::result_row;
use crate::store::history::Figure;
use crate::store::{
    Answer, End, Ending, Finish, IfTaken, Inserted, JobSet, MOST_EACH, NewGroup, NewJob,
    NewSchedule, Page, PageKey, PageRequest, StoredSchedule, TRIM_LOOKS, TRIMMED, Tally, Tries,
    is_waited_for, kept_until, results_page,
};
use crate::values::error::{StoreError, Violation};
use crate::values::group::{GroupError, GroupId, GroupInfo};
use crate::values::id::JobId;
use crate::values::info::{Cancel, JobInfo, JobState};
use crate::values::job::{Extra, group_of};
use crate::values::node;
use crate::values::setting;
use crate::values::setting::Keep;
use crate::values::time::Millis;

impl KeptJob {
    /// Returns how many bytes count against the bound of its kind.
    fn bytes(&self) -> usize {
        let extra = self.record.extra.as_ref().map_or(0, |extra| extra.to_bytes().len());
        let result = self.result.as_ref().map_or(0, Vec::len);
        self.record.payload.len() + result + self.record.tries.errors.as_text().len() + extra
    }
}

impl Memory {
    pub(super) fn insert(&mut self, new: &NewJob, now: Millis) -> Inserted {
        let id = new.id;
        let known = self.alive.contains_key(&id) || self.ended.contains_key(&id);
        if known && new.callers_id {
            return Inserted::Known;
        }
        let (mut due, mut extra) = (new.due, new.extra.clone());
        if let Some((key, if_taken)) = &new.key {
            if let Some(&holder) = self.keys.get(key) {
                let is_claimed = self.claims.contains_key(&holder);
                let holds =
                    |record: &JobRecord| record.extra.as_ref().is_some_and(|it| it.holds_key);
                let keeps = match is_claimed {
                    true => self.alive.get(&holder).is_some_and(holds),
                    false => *if_taken == IfTaken::Leave,
                };
                if keeps {
                    return Inserted::Taken(holder);
                }
                if is_claimed {
                    if let Some(record) = self.alive.get_mut(&holder) {
                        record.key = None;
                    }
                } else {
                    if let Some(record) = self.alive.get(&holder) {
                        let its = record.extra.as_deref();
                        (due, extra) = new.replacing(record.due, its, record.tries.attempts);
                    }
                    self.cancelled(holder, now);
                }
            }
            self.keys.insert(key.clone(), id);
        }
        self.kinds.insert(Arc::clone(&new.kind));
        let record = JobRecord {
            kind: Arc::clone(&new.kind),
            due,
            tries: Tries::default(),
            key: new.key.as_ref().map(|(key, _)| key.clone()),
            callers_id: new.callers_id,
            extra,
            payload: new.payload.clone(),
        };
        self.alive.insert(id, record);
        self.note(id, Figure::Inserted);
        self.wait(id);
        Inserted::New
    }

    pub(super) fn insert_many(&mut self, jobs: &[NewJob], now: Millis) -> Answer {
        let mut taken = Vec::new();
        for (n, job) in jobs.iter().enumerate() {
            match self.insert(job, now) {
                Inserted::Taken(by) => taken.push((n, by)),
                Inserted::New => self.join_group(job),
                Inserted::Known => {}
            }
        }
        Answer::InsertedMany(taken)
    }

    /// Removes a job from the living.
    fn take(&mut self, id: JobId) -> Option<JobRecord> {
        self.end_claim(id);
        let record = self.alive.remove(&id)?;
        self.leave(record.due, id, &record);
        if let Some(key) = &record.key {
            self.keys.remove(key);
        }
        Some(record)
    }

    /// Removes a job that was cancelled or replaced.
    pub(super) fn cancelled(&mut self, id: JobId, now: Millis) {
        self.note(id, Figure::Cancelled);
        let member = self.membership(id);
        self.end(id, Ending::Cancelled, (0, None), None, now);
        self.leave_group(member, id, Ending::Cancelled, &[], now);
    }

    /// Removes a job that has completed, has expired or was cancelled. Keeps it if its kind or a waiting caller asks
    /// for it.
    fn end(
        &mut self,
        id: JobId,
        ending: Ending,
        (took, result): (u64, Option<Vec<u8>>),
        keep: Option<Keep>,
        now: Millis,
    ) {
        let Some(mut record) = self.take(id) else { return };
        record.extra = Extra::with_progress(record.extra, None);
        let wanted = record.extra.as_ref().is_some_and(|extra| extra.wanted);
        let (callers_id, kind) = (record.callers_id, Arc::clone(&record.kind));
        match kept_until(keep, wanted, now) {
            Some(until) => {
                let job = Some(KeptJob { ending, record, took, result });
                self.ended.insert(id, EndedEntry { until, at: now, job });
            }
            None if callers_id => self.remember(id, now),
            None => {}
        }
        if let Some(keep) = keep {
            self.trim(&kind, keep, now);
        }
    }

    /// Removes the oldest completed jobs of a kind that has more than it keeps.
    fn trim(&mut self, kind: &str, keep: Keep, now: Millis) {
        let of_kind = |(_, _, kept): &(JobId, Millis, &KeptJob)| *kept.record.kind == *kind;
        let kept = self.kept(Ending::Completed).chain(self.kept(Ending::Expired));
        let mut kept: Vec<_> = kept.filter(of_kind).collect();
        kept.sort_unstable_by_key(|(id, at, _)| (*at, *id));
        let mut jobs = kept.len() as u64;
        let mut bytes: usize = kept.iter().map(|(.., kept)| kept.bytes()).sum();
        let is_waited_for = |at: Millis, kept: &KeptJob| {
            is_waited_for(kept.record.extra.as_ref().is_some_and(|extra| extra.wanted), at, now)
        };
        for (.., waited) in kept.iter().filter(|(_, at, kept)| is_waited_for(*at, kept)) {
            (jobs, bytes) = (jobs - 1, bytes - waited.bytes());
        }
        let mut over = Vec::new();
        for (id, at, oldest) in kept.into_iter().take(TRIM_LOOKS) {
            if over.len() == TRIMMED || jobs <= keep.last && bytes as u64 <= keep.bytes {
                break;
            }
            if !is_waited_for(at, oldest) {
                (jobs, bytes) = (jobs - 1, bytes - oldest.bytes());
                over.push(id);
            }
        }
        over.into_iter().for_each(|id| self.drop_ended(id, now));
    }

    /// Remembers an id whose job has ended.
    pub(super) fn remember(&mut self, id: JobId, now: Millis) {
        let until = now.plus(self.keep_dead);
        self.ended.insert(id, EndedEntry { until, at: now, job: None });
    }

    /// Removes the entry of a job that has ended. Its id stays if its caller chose it and its time is not over.
    pub(super) fn drop_ended(&mut self, id: JobId, now: Millis) {
        let Some(ended) = self.ended.remove(&id) else { return };
        if let Some(kept) = &ended.job {
            self.dead_is_gone(kept, now);
        }
        let until = ended.at.plus(self.keep_dead);
        if ended.job.is_some_and(|kept| kept.record.callers_id) && until >= now {
            self.ended.insert(id, EndedEntry { until, at: ended.at, job: None });
        }
    }

    /// Returns the jobs that ended so and are kept, each with its id and the time of its end.
    pub(super) fn kept(&self, ending: Ending) -> impl Iterator<Item = (JobId, Millis, &KeptJob)> {
        self.ended.iter().filter_map(move |(id, ended)| {
            let job = ended.job.as_ref().filter(|job| job.ending == ending)?;
            Some((*id, ended.at, job))
        })
    }

    pub(super) fn cancel(&mut self, id: JobId, now: Millis) -> Cancel {
        if !self.alive.contains_key(&id) {
            return Cancel::Gone;
        }
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.asked = true;
            return Cancel::Running;
        }
        self.cancelled(id, now);
        Cancel::Cancelled
    }

    pub(super) fn pending_holder(&self, key: &str) -> Option<JobId> {
        self.keys.get(key).copied().filter(|id| !self.claims.contains_key(id))
    }

    pub(super) fn reschedule(&mut self, id: JobId, due: Millis) -> bool {
        if self.claims.contains_key(&id) {
            return false;
        }
        let Some(record) = self.alive.get(&id).cloned() else { return false };
        self.leave(record.due, id, &record);
        self.alive.insert(id, JobRecord { due, ..record });
        self.wait(id);
        true
    }

    pub(super) fn retry(&mut self, id: JobId, due: Millis) -> Answer {
        let dead = self.ended.get(&id).and_then(|ended| ended.job.as_ref());
        let Some(dead) = dead.filter(|dead| dead.ending == Ending::Dead) else {
            return Answer::Changed(false);
        };
        let mut record = dead.record.clone();
        if let Some(key) = &record.key
            && let Some(&by) = self.keys.get(key)
        {
            return Answer::Refused(StoreError::KeyTaken { key: key.clone(), by });
        }
        self.ended.remove(&id);
        record.extra = self.retry_member(id, record.extra);
        record.due = due;
        record.tries.begin_again();
        if let Some(key) = &record.key {
            self.keys.insert(key.clone(), id);
        }
        self.alive.insert(id, record);
        self.wait(id);
        Answer::Changed(true)
    }

    pub(super) fn finish(&mut self, finish: &Finish, now: Millis) -> Answer {
        let id = finish.id;
        if !self.claims.contains_key(&id) {
            return Answer::Done;
        }
        // A job whose cancel was requested is deleted, whatever the result of its run.
        let is_cancelled = self.claims[&id].asked && finish.end != End::Completed;
        let end = if is_cancelled { &End::Cancelled } else { &finish.end };
        if let Some(record) = self.alive.get(&id) {
            self.noted.note_run(&record.kind, Figure::of(end.outcome()), finish.run);
        }
        let member = self.membership(id);
        match end {
            End::Cancelled => self.end(id, Ending::Cancelled, (finish.took, None), None, now),
            End::Completed => {
                let run = (finish.took, finish.result.clone());
                self.end(id, Ending::Completed, run, finish.keep, now);
            }
            End::Expired => self.end(id, Ending::Expired, (finish.took, None), finish.keep, now),
            End::Retry { due, .. } | End::Snoozed { due } => {
                self.end_claim(id);
                if let Some(record) = self.alive.get_mut(&id) {
                    record.due = *due;
                    record.tries.end(end);
                }
                self.wait(id);
            }
            End::Dead { .. } => {
                if let Some(record) = self.alive.get_mut(&id) {
                    record.tries.end(end);
                }
                self.bury(id, finish.took, now);
            }
        }
        // The follow-ups join the group before this member leaves it.
        let answer = match &finish.then {
            Some(jobs) => self.insert_many(jobs, now),
            None if is_cancelled => Answer::Cancelled(Cancel::Cancelled),
            None => Answer::Done,
        };
        if let Some(ending) = end.ending() {
            self.leave_group(member, id, ending, end.result_or_errors(&finish.result), now);
        }
        answer
    }

    pub(super) fn bury(&mut self, id: JobId, took: u64, now: Millis) {
        if let Some(record) = self.take(id) {
            let until = now.plus(self.keep_dead);
            let job = Some(KeptJob { ending: Ending::Dead, record, took, result: None });
            self.ended.insert(id, EndedEntry { until, at: now, job });
        }
    }

    pub(super) fn get(&self, id: JobId) -> Option<JobInfo> {
        if let Some(record) = self.alive.get(&id) {
            let Some(claim) = self.claims.get(&id) else {
                return Some(record.info(id, JobState::Pending));
            };
            let info = record.info(id, JobState::Running);
            let progress = claim.progress.clone().or(info.progress);
            let claimed = Some(claim.at.to_system());
            let node = Some(node::name().to_owned());
            return Some(JobInfo { progress, claimed, node, ..info });
        }
        let ended = self.ended.get(&id)?;
        let kept = ended.job.as_ref()?;
        let at = ended.at.to_system();
        Some(JobInfo {
            died: (kept.ending == Ending::Dead).then_some(at),
            ended: Some(at),
            took: Some(Duration::from_millis(kept.took)),
            result: kept.result.clone(),
            ..kept.record.info(id, kept.ending.state())
        })
    }

    pub(super) fn page(&self, request: &PageRequest) -> Page {
        let is_asked_for = |record: &JobRecord| {
            (request.from..=request.to).contains(&record.due)
                && request.kind.as_ref().is_none_or(|kind| **kind == *record.kind)
        };
        let mut found: Vec<(Millis, JobId)> = match request.set {
            JobSet::Alive | JobSet::Claimed => {
                let is_in_set = |id| request.set == JobSet::Alive || self.claims.contains_key(id);
                let alive = self.alive.iter().filter(|(id, _)| is_in_set(id));
                let alive = alive.map(|(id, record)| (record.due, *id, record));
                let alive = alive.filter(|(due, id, it)| request.has_due(*due, *id, &it.kind));
                alive.map(|(due, id, _)| (due, id)).collect()
            }
            JobSet::Ended(_) => {
                let endings = Ending::ALL.into_iter().filter(|ending| request.set.has(*ending));
                let kept = endings.flat_map(|ending| self.kept(ending));
                let asked_for = kept.filter(|(.., kept)| is_asked_for(&kept.record));
                asked_for.map(|(id, at, _)| (at, id)).collect()
            }
        };
        found.sort_unstable();
        if matches!(request.set, JobSet::Ended(_)) {
            found.reverse();
            found.retain(|at| request.after.is_none_or(|after| *at < after));
        }
        let found = found.into_iter().map(|at| (at, ())).collect();
        let get = |(_, id): PageKey, ()| Ok::<_, Infallible>(self.get(id));
        let Ok(page) = Page::read(found, request.limit, get);
        page
    }
}

/// A group.
pub(super) struct GroupRecord {
    tally: Tally,
    /// The callback, until it is inserted.
    callback: Option<NewJob>,
    callback_id: Option<JobId>,
    /// The open members.
    members: BTreeSet<JobId>,
    /// The rows of the members that have ended, if it keeps results.
    results: BTreeMap<JobId, Vec<u8>>,
}

fn refused(error: GroupError) -> Answer {
    Answer::Refused(StoreError::Group(error))
}

impl Memory {
    pub(super) fn insert_group(&mut self, new: &NewGroup, now: Millis) -> Answer {
        if self.groups.contains_key(&new.id) {
            return refused(GroupError::Exists);
        }
        let outer = new.callback.as_ref().and_then(|job| group_of(job.extra.as_deref()));
        if let Some(error) = outer.and_then(|outer| self.refusal(outer)) {
            return refused(error);
        }
        let is_known = |id: &JobId| self.alive.contains_key(id) || self.ended.contains_key(id);
        if new.callback.as_ref().is_some_and(|callback| is_known(&callback.id)) {
            return refused(GroupError::CallbackKnown);
        }
        let group = GroupRecord {
            tally: Tally::new(now, new),
            callback: new.callback.clone(),
            callback_id: new.callback.as_ref().map(|job| job.id),
            members: BTreeSet::new(),
            results: BTreeMap::new(),
        };
        self.groups.insert(new.id, group);
        if let Some(callback) = &new.callback {
            let reserved = EndedEntry { until: Millis::MAX, at: now, job: None };
            self.ended.insert(callback.id, reserved);
            self.join_group(callback);
        }
        let answer = self.insert_many(&new.members, now);
        if let Some(group) = self.groups.get_mut(&new.id) {
            group.tally.is_sealed = new.is_sealed;
        }
        self.end_if_over(new.id, now);
        answer
    }

    pub(super) fn add_to_group(&mut self, id: GroupId, jobs: &[NewJob], now: Millis) -> Answer {
        match self.refusal(id) {
            Some(error) => refused(error),
            None => self.insert_many(jobs, now),
        }
    }

    /// Returns why the group takes no member.
    fn refusal(&self, id: GroupId) -> Option<GroupError> {
        self.groups.get(&id).map_or(Some(GroupError::Unknown), |group| group.tally.refuses())
    }

    /// Seals or cancels a group. Says whether that changes it.
    pub(super) fn change_group(
        &mut self,
        id: GroupId,
        now: Millis,
        change: impl FnOnce(&mut Tally),
    ) -> Answer {
        let Some(group) = self.groups.get_mut(&id) else { return refused(GroupError::Unknown) };
        match group.tally.change(change) {
            Err(error) => refused(error),
            Ok(has_changed) => {
                self.end_if_over(id, now);
                Answer::Changed(has_changed)
            }
        }
    }

    /// Counts a new job as a member of its group, if it has one.
    pub(super) fn join_group(&mut self, job: &NewJob) {
        if let Some(group) = group_of(job.extra.as_deref())
            && let Some(group) = self.groups.get_mut(&group)
        {
            group.tally.total += 1;
            group.members.insert(job.id);
            group.results.remove(&job.id);
        }
    }

    /// Returns the group of a job that is pending or claimed.
    pub(super) fn group_of_alive(&self, id: JobId) -> Option<GroupId> {
        group_of(self.alive.get(&id)?.extra.as_deref())
    }

    /// Returns the group and the kind of a job that is pending or claimed, if it is a member.
    pub(super) fn membership(&self, id: JobId) -> Option<(GroupId, Arc<str>)> {
        Some((self.group_of_alive(id)?, Arc::clone(&self.alive.get(&id)?.kind)))
    }

    /// Counts a member that has ended. `rest`: [`End::result_or_errors`].
    pub(super) fn leave_group(
        &mut self,
        member: Option<(GroupId, Arc<str>)>,
        id: JobId,
        ending: Ending,
        rest: &[u8],
        now: Millis,
    ) {
        if let Some((of, kind)) = member
            && let Some(group) = self.groups.get_mut(&of)
            && group.members.remove(&id)
        {
            group.tally.leave(ending);
            if group.tally.keeps_results {
                group.results.insert(id, result_row(ending, &kind, rest));
            }
            self.end_if_over(of, now);
        }
    }

    /// Counts a dead member as cancelled, because it was deleted.
    pub(super) fn dead_is_gone(&mut self, job: &KeptJob, now: Millis) {
        if job.ending == Ending::Dead
            && let Some(of) = group_of(job.record.extra.as_deref())
            && let Some(group) = self.groups.get_mut(&of)
        {
            group.tally.dead_is_gone();
            self.end_if_over(of, now);
        }
    }

    /// Opens a dead member again. If its group has ended, the job is a member no longer.
    pub(super) fn retry_member(
        &mut self,
        id: JobId,
        extra: Option<Box<Extra>>,
    ) -> Option<Box<Extra>> {
        let Some(of) = group_of(extra.as_deref()) else { return extra };
        if let Some(group) = self.groups.get_mut(&of)
            && group.tally.reopen()
        {
            group.members.insert(id);
            group.results.remove(&id);
            return extra;
        }
        extra.and_then(|extra| Extra { group: None, ..*extra }.boxed())
    }

    /// Ends a group if it is over: inserts its callback.
    fn end_if_over(&mut self, id: GroupId, now: Millis) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        if !group.tally.end_if_over(now) {
            return;
        }
        let Some(mut callback) = group.callback.take() else { return };
        callback.due = callback.due.max(now);
        self.ended.remove(&callback.id);
        self.insert(&callback, now);
    }

    /// Removes results that may go, and forgets groups whose retention is over and that no dead job names.
    pub(super) fn purge_groups(&mut self, now: Millis) {
        let before = now.minus(self.keep_dead);
        let Memory { groups, alive, ended, .. } = self;
        for group in groups.values_mut().filter(|group| !group.results.is_empty()) {
            let job = |id| ended.get(id).and_then(|ended: &EndedEntry| ended.job.as_ref());
            let is_dead = |id| job(id).is_some_and(|kept| kept.ending == Ending::Dead);
            let callback = group.callback_id.as_ref();
            let callback_is_left = callback.map(|id| alive.contains_key(id) || is_dead(id));
            if group.tally.results_may_go(callback_is_left, before) {
                group.tally.keeps_results = false;
                group.results.clear();
            }
        }
        self.groups
            .retain(|_, group| !(group.results.is_empty() && group.tally.is_forgotten(before)));
    }

    pub(super) fn group_info(&self, id: GroupId) -> Option<GroupInfo> {
        let group = self.groups.get(&id)?;
        Some(group.tally.info(id, group.callback_id))
    }

    pub(super) fn latest_groups(&self, most: usize) -> Vec<GroupInfo> {
        let mut groups: Vec<GroupInfo> =
            self.groups.keys().filter_map(|id| self.group_info(*id)).collect();
        groups.sort_unstable_by_key(|group| core::cmp::Reverse((group.made, group.id)));
        groups.truncate(most);
        groups
    }

    pub(super) fn members(&self, id: GroupId, after: Option<JobId>) -> Vec<JobId> {
        let Some(group) = self.groups.get(&id) else { return Vec::new() };
        let behind = group.members.iter().filter(|id| after.is_none_or(|after| **id > after));
        behind.take(MOST_EACH).copied().collect()
    }

    pub(super) fn results(&self, id: GroupId, after: Option<JobId>) -> Answer {
        let group = self.groups.get(&id).filter(|group| group.tally.keeps_results);
        let page = group.map(|group| {
            let rows = group.results.iter();
            let behind = rows.filter(|(id, _)| after.is_none_or(|after| **id > after));
            results_page(behind.map(|(id, row)| Ok((*id, row.clone()))))
        });
        page.transpose().map_or_else(Answer::Refused, Answer::Results)
    }

    /// G1: the counts of each group equal its members.
    pub(super) fn look_at_groups(&self) -> Result<(), Violation> {
        let wrong = |what: String| Err(Violation(format!("G1: {what}")));
        for (id, group) in &self.groups {
            if group.tally.open() != group.members.len() as u64 {
                return wrong(format!("{id} has {} open members", group.members.len()));
            }
            let is_dead = |job: &&EndedEntry| {
                let kept = job.job.as_ref().filter(|kept| kept.ending == Ending::Dead);
                kept.is_some_and(|kept| group_of(kept.record.extra.as_deref()) == Some(*id))
            };
            let dead = self.ended.values().filter(is_dead).count() as u64;
            let its = group.tally;
            if dead != its.dead_left || its.ended.is_none() && dead != its.dead {
                return wrong(format!("{id} has {dead} dead members, and counts {its:?}"));
            }
            let results = if its.keeps_results { its.have_ended() } else { 0 };
            if group.results.len() as u64 > results {
                return wrong(format!("{id} has {} results: {its:?}", group.results.len()));
            }
            if group.tally.is_over() {
                return wrong(format!("{id} is over, and has not ended"));
            }
            for member in &group.members {
                let inner = self.groups.values().any(|inner| {
                    inner.callback.as_ref().is_some_and(|callback| callback.id == *member)
                });
                if self.group_of_alive(*member) != Some(*id) && !inner {
                    return wrong(format!("{member} of {id} is gone"));
                }
            }
        }
        let all_dead = self.kept(Ending::Dead);
        let named = all_dead.filter_map(|(.., dead)| group_of(dead.record.extra.as_deref()));
        if let Some(id) = { named }.find(|id| !self.groups.contains_key(id)) {
            return wrong(format!("a dead job names {id}, which is gone"));
        }
        let has_row = |id: &JobId, of: GroupId| {
            self.groups.get(&of).is_some_and(|group| group.members.contains(id))
        };
        match self
            .alive
            .keys()
            .find(|id| self.group_of_alive(**id).is_some_and(|of| !has_row(id, of)))
        {
            Some(id) => wrong(format!("{id} is not among the members of its group")),
            None => Ok(()),
        }
    }
}

impl Memory {
    pub(super) fn put_schedule(&mut self, new: &NewSchedule) -> bool {
        let rule_text = new.schedule.rule.to_text();
        let known = self.schedules.get(&new.name);
        let same = known.filter(|known| *known.kind == *new.kind && known.rule_text == rule_text);
        let next = same.map_or(new.first, |same| same.next);
        let (changed, is_known) = (same.is_none(), known.is_some());
        self.kinds.insert(Arc::clone(&new.kind));
        if !is_known {
            self.drop_pause(&new.name);
        }
        let stored = StoredSchedule {
            name: new.name.clone(),
            kind: new.kind.to_string(),
            schedule: new.schedule.clone(),
            rule_text,
            payload: new.payload.clone(),
            next,
        };
        self.schedules.insert(new.name.clone(), stored);
        changed
    }

    pub(super) fn occur(
        &mut self,
        name: &str,
        expected: Millis,
        jobs: &[NewJob],
        next: Option<Millis>,
        now: Millis,
    ) -> Answer {
        if self.schedules.get(name).is_none_or(|schedule| schedule.next != expected) {
            return Answer::Changed(false);
        }
        let inserted = self.insert_many(jobs, now);
        self.move_schedule(name, next);
        inserted
    }

    /// Removes a schedule and its pause. Returns whether there was one.
    pub(super) fn drop_schedule(&mut self, name: &str) -> bool {
        self.drop_pause(name);
        self.schedules.remove(name).is_some()
    }

    /// Pauses a schedule. Returns whether there is one.
    pub(super) fn pause_schedule(&mut self, name: &str, at: Millis) -> bool {
        let exists = self.schedules.contains_key(name);
        if exists {
            self.settings.insert(setting::schedule_pause_setting(name), at.get().to_string());
        }
        exists
    }

    /// Ends a pause. Returns whether the schedule was paused, with this next occurrence.
    pub(super) fn resume_schedule(
        &mut self,
        name: &str,
        expected: Millis,
        next: Option<Millis>,
    ) -> bool {
        let is_expected = self.schedules.get(name).is_some_and(|of| of.next == expected);
        let resumes = is_expected && self.drop_pause(name);
        if resumes {
            self.move_schedule(name, next);
        }
        resumes
    }

    /// Sets the next occurrence of a schedule, or removes the schedule if it has none.
    fn move_schedule(&mut self, name: &str, next: Option<Millis>) {
        match (next, self.schedules.get_mut(name)) {
            (Some(next), Some(schedule)) => schedule.next = next,
            _ => drop(self.drop_schedule(name)),
        }
    }

    /// Removes the pause of a schedule. Returns whether it had one.
    fn drop_pause(&mut self, name: &str) -> bool {
        self.settings.remove(&setting::schedule_pause_setting(name)).is_some()
    }
}
