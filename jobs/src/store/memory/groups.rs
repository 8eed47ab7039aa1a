//! Groups in the store in memory.

use std::collections::BTreeSet;

use super::{Ended, KeptJob, Memory};
use crate::store::{Answer, Ending, Left, MOST_EACH, NewGroup, NewJob, Tally};
use crate::values::error::{StoreError, Violation};
use crate::values::extra::{Extra, group_of};
use crate::values::group::GroupId;
use crate::values::group_error::GroupError;
use crate::values::group_info::GroupInfo;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A group.
pub(super) struct Group {
    tally: Tally,
    /// The callback, until it is inserted.
    callback: Option<NewJob>,
    callback_id: Option<JobId>,
    /// The open members.
    members: BTreeSet<JobId>,
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
        let group = Group {
            tally: Tally::new(now, new.waits_for_the_dead),
            callback: new.callback.clone(),
            callback_id: new.callback.as_ref().map(|job| job.id),
            members: BTreeSet::new(),
        };
        self.groups.insert(new.id, group);
        if let Some(callback) = &new.callback {
            let reserved = Ended { until: Millis::MAX, at: now, job: None };
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
        let before = group.tally;
        if before.ended.is_some() {
            return refused(GroupError::Ended);
        }
        change(&mut group.tally);
        let has_changed = group.tally != before;
        self.end_if_over(id, now);
        Answer::Changed(has_changed)
    }

    /// Counts a new job as a member of its group, if it has one.
    pub(super) fn join_group(&mut self, job: &NewJob) {
        if let Some(group) = group_of(job.extra.as_deref())
            && let Some(group) = self.groups.get_mut(&group)
        {
            group.tally.total += 1;
            group.members.insert(job.id);
        }
    }

    /// Returns the group of a job that is pending or claimed.
    pub(super) fn group_of_alive(&self, id: JobId) -> Option<GroupId> {
        group_of(self.alive.get(&id)?.extra.as_deref())
    }

    /// Counts a member that has ended.
    pub(super) fn leave_group(&mut self, of: Option<GroupId>, id: JobId, left: Left, now: Millis) {
        if let Some(of) = of
            && let Some(group) = self.groups.get_mut(&of)
            && group.members.remove(&id)
        {
            group.tally.leave(left);
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
            return extra;
        }
        extra.and_then(|extra| Extra { group: None, ..*extra }.boxed())
    }

    /// Ends a group if it is over: inserts its callback.
    fn end_if_over(&mut self, id: GroupId, now: Millis) {
        let Some(group) = self.groups.get_mut(&id).filter(|group| group.tally.is_over()) else {
            return;
        };
        group.tally.ended = Some(now);
        let Some(mut callback) = group.callback.take() else { return };
        callback.due = callback.due.max(now);
        self.ended.remove(&callback.id);
        self.insert(&callback, now);
    }

    pub(super) fn purge_groups(&mut self, now: Millis) {
        let before = now.minus(self.keep_dead);
        self.groups.retain(|_, group| !group.tally.is_forgotten(before));
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

    /// G1: the counts of each group equal its members.
    pub(super) fn look_at_groups(&self) -> Result<(), Violation> {
        let wrong = |what: String| Err(Violation(format!("G1: {what}")));
        for (id, group) in &self.groups {
            if group.tally.open() != group.members.len() as u64 {
                return wrong(format!("{id} has {} open members", group.members.len()));
            }
            let is_dead = |job: &&Ended| {
                let kept = job.job.as_ref().filter(|kept| kept.ending == Ending::Dead);
                kept.is_some_and(|kept| group_of(kept.record.extra.as_deref()) == Some(*id))
            };
            let dead = self.ended.values().filter(is_dead).count() as u64;
            let its = group.tally;
            if dead != its.dead_left || its.ended.is_none() && dead != its.dead {
                return wrong(format!("{id} has {dead} dead members, and counts {its:?}"));
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
