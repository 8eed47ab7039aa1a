//! The dead jobs in groups by their error, and the groups of jobs.

use serde::Serialize;

use super::jobs::group_of;
use super::kinds_and_limits::MOST_GROUPS;
use super::queue::View;
use super::values::Time;
use crate::api::request;
use crate::values::error::StoreError;
use crate::values::group::{GroupId, GroupInfo};
use crate::values::id::JobId;

/// The dead jobs in groups.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Dead {
    /// When they were asked for.
    pub now: Time,
    /// How many jobs are dead.
    pub total: u64,
    /// Those with the most jobs first.
    pub groups: Vec<DeadGroup>,
    /// There are more groups.
    pub has_more: bool,
}

/// Dead jobs of one kind with one first line of the error.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct DeadGroup {
    /// Its name in a filter: a hash of the kind and the error.
    pub group: JobId,
    /// The kind.
    pub kind: String,
    /// In its redacted form. Groups with the same kind and form are one.
    pub error: String,
    /// How many jobs it has.
    pub jobs: u64,
    /// When the first of them died, if that is known: see [`DeadByError`](crate::DeadByError).
    pub first_died: Option<Time>,
    /// When the last of them died.
    pub last_died: Option<Time>,
}

/// Groups of jobs.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Groups {
    /// When they were asked for.
    pub now: Time,
    /// Those that were made last first.
    pub rows: Vec<GroupRow>,
    /// There are older groups.
    pub has_more: bool,
}

/// A group of jobs.
#[derive(Clone, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct GroupRow {
    /// Its id.
    pub id: GroupId,
    /// When it was made.
    pub made: Time,
    /// When it ended.
    pub ended: Option<Time>,
    /// Its state.
    pub state: GroupState,
    /// Its members: the sum of the five others.
    pub total: u64,
    /// Members that have not ended.
    pub open: u64,
    /// Members that have completed.
    pub completed: u64,
    /// Members that are dead.
    pub dead: u64,
    /// Members that were cancelled.
    pub cancelled: u64,
    /// Members that have expired.
    pub expired: u64,
    /// Its end waits until no member is dead.
    pub waits_for_the_dead: bool,
    /// The job that is inserted when the group ends.
    pub callback: Option<JobId>,
}

/// The state of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GroupState {
    /// It takes further members.
    #[default]
    Open,
    /// It waits for its members.
    Sealed,
    /// Only dead members keep it from its end.
    WaitsForTheDead,
    /// It was cancelled, and waits for the runs of its members.
    Cancelled,
    /// It has ended.
    Ended,
}

impl View {
    /// Returns at most `most` groups of dead jobs, of the thousand with the most jobs.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn dead(&self, most: usize) -> Result<Dead, StoreError> {
        let stored = self.client.dead_by_error(MOST_GROUPS)?;
        let is_whole = stored.len() < MOST_GROUPS;
        let mut groups: Vec<DeadGroup> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for group in stored {
            let error = self.redactor.first_line(&group.kind, &group.error);
            let name = group_of(&group.kind, &error);
            let at = *places.entry(name).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(there) => {
                    there.jobs += group.jobs;
                    let first = group.first_died.map(Time::from);
                    there.first_died = there.first_died.into_iter().chain(first).min();
                    there.last_died = there.last_died.max(group.last_died.map(Time::from));
                }
                None => groups.push(DeadGroup {
                    group: name,
                    kind: group.kind,
                    error,
                    jobs: group.jobs,
                    first_died: group.first_died.map(Time::from),
                    last_died: group.last_died.map(Time::from),
                }),
            }
        }
        groups.sort_by_key(|group| core::cmp::Reverse(group.jobs));
        let has_more = !is_whole || groups.len() > most;
        groups.truncate(most);
        Ok(Dead { now: self.now(), total: self.client.count()?.dead, groups, has_more })
    }

    /// Returns at most `most` groups of jobs, those that were made last first.
    ///
    /// # Errors
    ///
    /// If the store could not be read.
    pub fn groups(&self, most: usize) -> Result<Groups, StoreError> {
        // One more tells whether there are more.
        let asked = request::groups(most.saturating_add(1));
        let mut found = self.client.answer_of(asked)?;
        let has_more = found.len() > most;
        found.truncate(most);
        Ok(Groups { now: self.now(), rows: found.iter().map(GroupRow::of).collect(), has_more })
    }
}

impl GroupRow {
    fn of(group: &GroupInfo) -> GroupRow {
        GroupRow {
            id: group.id,
            made: group.made.into(),
            ended: group.ended.map(Time::from),
            state: match group {
                GroupInfo { ended: Some(_), .. } => GroupState::Ended,
                GroupInfo { is_cancelled: true, .. } => GroupState::Cancelled,
                GroupInfo { is_sealed: false, .. } => GroupState::Open,
                GroupInfo { open: 0, waits_for_the_dead: true, .. } => GroupState::WaitsForTheDead,
                _ => GroupState::Sealed,
            },
            total: group.total,
            open: group.open,
            completed: group.completed,
            dead: group.dead,
            cancelled: group.cancelled,
            expired: group.expired,
            waits_for_the_dead: group.waits_for_the_dead,
            callback: group.callback,
        }
    }
}

impl GroupState {
    /// Returns the word for it: `open`, `sealed`, `waits_for_the_dead`, `cancelled`, `ended`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            GroupState::Open => "open",
            GroupState::Sealed => "sealed",
            GroupState::WaitsForTheDead => "waits_for_the_dead",
            GroupState::Cancelled => "cancelled",
            GroupState::Ended => "ended",
        }
    }
}
