//! The oracle of the model of groups: a list of jobs and a list of groups, and what must become of them.
//!
//! Ground rules:
//!
//! - Nothing is counted beforehand. A number is the length of a list that was filtered.
//! - A dead job is a member until it is retried or deleted. Its group is there so long.
//! - Whether a group is over is asked anew of every group after every event.

use std::time::Duration;

use super::{Checked, ensure};
use crate::values::group::{GroupError, GroupId, GroupInfo};
use crate::values::id::JobId;
use crate::values::info::{JobInfo, JobState};
use crate::values::time::Millis;

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Is {
    /// A callback that is to come.
    Ahead,
    Pending,
    Claimed,
    Dead,
    Gone,
}

/// The state of a member: it is open, or has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Open,
    Completed,
    Dead,
    Cancelled,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) key: Option<&'static str>,
    pub(super) is: Is,
    pub(super) group: Option<GroupId>,
    pub(super) due: Millis,
    pub(super) is_asked: bool,
    /// Until when it is kept, if it is dead.
    pub(super) until: Millis,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) id: GroupId,
    pub(super) members: Vec<(JobId, Fate)>,
    pub(super) is_sealed: bool,
    pub(super) is_cancelled: bool,
    pub(super) waits: bool,
    pub(super) callback: Option<JobId>,
    pub(super) ended: Option<Millis>,
}

#[derive(Debug)]
pub(super) struct Oracle {
    pub(super) jobs: Vec<Job>,
    pub(super) groups: Vec<Group>,
    pub(super) forgotten: Vec<GroupId>,
    /// Until when a job is kept that dies now.
    pub(super) dead_until: Millis,
    pub(super) callbacks: usize,
}

impl Oracle {
    pub(super) fn job(&mut self, id: JobId) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    pub(super) fn group(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.iter_mut().find(|group| group.id == id)
    }

    /// Returns the ids of the jobs that are there in one of these ways.
    pub(super) fn those(&self, of: &[Is]) -> Vec<JobId> {
        self.jobs.iter().filter(|job| of.contains(&job.is)).map(|job| job.id).collect()
    }

    /// Returns why a group takes no member.
    pub(super) fn refusal(&self, id: GroupId) -> Option<GroupError> {
        let Some(group) = self.groups.iter().find(|group| group.id == id) else {
            return Some(GroupError::Unknown);
        };
        match group {
            Group { is_cancelled: true, .. } => Some(GroupError::Cancelled),
            Group { ended: Some(_), .. } => Some(GroupError::Ended),
            Group { is_sealed: true, .. } => Some(GroupError::Sealed),
            _ => None,
        }
    }

    /// A job is inserted. Returns whether it came: another one may be there.
    pub(super) fn inserted(&mut self, job: Job, leaves: bool, callers_id: bool) -> bool {
        if callers_id && self.jobs.iter().any(|other| other.id == job.id) {
            return false;
        }
        let holds = |other: &Job| {
            job.key.is_some()
                && other.key == job.key
                && matches!(other.is, Is::Pending | Is::Claimed)
        };
        if let Some(holder) = self.jobs.iter().find(|other| holds(other)).cloned() {
            if holder.is == Is::Claimed {
                self.jobs
                    .iter_mut()
                    .filter(|other| other.id == holder.id)
                    .for_each(|it| it.key = None);
            } else if leaves {
                return false;
            } else {
                self.fate(holder.id, Is::Gone, Fate::Cancelled);
            }
        }
        if let Some(group) = job.group.and_then(|group| self.group(group)) {
            group.members.push((job.id, Fate::Open));
        }
        self.jobs.push(job);
        true
    }

    /// A job has ended.
    pub(super) fn fate(&mut self, id: JobId, is: Is, fate: Fate) {
        let until = self.dead_until;
        let Some(job) = self.job(id) else { return };
        (job.is, job.until) = (is, until);
        let group = job.group;
        if let Some(group) = group.and_then(|group| self.group(group)) {
            let its = group
                .members
                .iter_mut()
                .filter(|(member, its)| *member == id && *its == Fate::Open);
            its.for_each(|(_, its)| *its = fate);
        }
    }

    /// A dead job is retried or deleted.
    pub(super) fn was_dead(&mut self, id: JobId, is: Is, fate: Fate, now: Millis) {
        let Some(job) = self.job(id) else { return };
        (job.is, job.is_asked) = (is, false);
        if is == Is::Pending {
            job.due = now;
        }
        let Some(group) = job.group else { return };
        match self.group(group).filter(|group| group.ended.is_none()) {
            Some(group) => {
                group.members.iter_mut().filter(|it| it.0 == id).for_each(|it| it.1 = fate);
            }
            None => self.job(id).into_iter().for_each(|job| job.group = None),
        }
    }

    /// Ends every group that is over.
    pub(super) fn settle(&mut self, now: Millis) {
        let is_over = |group: &&mut Group| {
            let has = |fate| group.members.iter().any(|member| member.1 == fate);
            let waits = group.waits && !group.is_cancelled;
            let is_held = has(Fate::Open) || waits && has(Fate::Dead);
            group.ended.is_none() && group.is_sealed && !is_held
        };
        let over: Vec<&mut Group> = self.groups.iter_mut().filter(is_over).collect();
        let mut callbacks = Vec::new();
        for group in over {
            group.ended = Some(now);
            callbacks.extend(group.callback);
        }
        for id in callbacks {
            self.callbacks += 1;
            if let Some(job) = self.job(id) {
                (job.is, job.due) = (Is::Pending, job.due.max(now));
            }
        }
    }

    /// Forgets the dead jobs whose retention is over. Forgets the groups whose retention is over too, unless a dead job
    /// names the group.
    pub(super) fn purge(&mut self, now: Millis, keep_dead: Duration) {
        let is_over = |job: &&Job| job.is == Is::Dead && job.until < now;
        let over: Vec<JobId> = self.jobs.iter().filter(is_over).map(|job| job.id).collect();
        over.into_iter().for_each(|id| self.was_dead(id, Is::Gone, Fate::Cancelled, now));
        self.settle(now);
        let Oracle { jobs, groups, forgotten, .. } = self;
        let is_named = |id| jobs.iter().any(|job| job.is == Is::Dead && job.group == Some(id));
        let before = now.minus(keep_dead);
        groups.retain(|group| {
            let is_kept = group.ended.is_none_or(|ended| ended >= before) || is_named(group.id);
            if !is_kept {
                forgotten.push(group.id);
            }
            is_kept
        });
    }

    /// Compares a group with what the store says of it.
    pub(super) fn group_agrees(&self, group: &Group, info: Option<&GroupInfo>) -> Checked {
        let Some(info) = info else { return Err(format!("the store lost {group:?}")) };
        let many = |fate| group.members.iter().filter(|member| member.1 == fate).count() as u64;
        let right = info.total == group.members.len() as u64
            && info.open == many(Fate::Open)
            && info.completed == many(Fate::Completed)
            && info.dead == many(Fate::Dead)
            && info.cancelled == many(Fate::Cancelled)
            && info.ended == group.ended.map(Millis::to_system)
            && info.is_sealed == group.is_sealed
            && info.is_cancelled == group.is_cancelled
            && info.waits_for_the_dead == group.waits
            && info.callback == group.callback
            && info.id == group.id;
        ensure(right, || format!("{info:?}, and not {group:?}"))
    }

    /// Compares a job with what the store says of it.
    pub(super) fn job_agrees(job: &Job, info: Option<&JobInfo>) -> Checked {
        let state = info.map(|info| info.state);
        let right = match (job.is, state) {
            (Is::Ahead, None) => true,
            (Is::Pending, Some(JobState::Pending)) => {
                info.is_some_and(|info| Millis::present(info.due) == job.due)
            }
            (Is::Claimed, Some(JobState::Running)) | (Is::Dead, Some(JobState::Dead)) => true,
            (Is::Gone, None | Some(JobState::Completed | JobState::Cancelled)) => true,
            _ => false,
        };
        ensure(right, || format!("{job:?}, and the store has {info:?}"))
    }
}
