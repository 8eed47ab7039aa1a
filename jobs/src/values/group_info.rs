//! A group of jobs, as the store has it.

use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::group::GroupId;
use super::id::JobId;
use super::time::rfc3339;

/// A group of jobs, as the store has it: see [`Client::group`](crate::Client::group). `total` is the sum of `open`,
/// `completed`, `dead` and `cancelled`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct GroupInfo {
    /// The id of the group.
    pub id: GroupId,
    /// When the group was inserted.
    #[serde(serialize_with = "rfc3339")]
    pub made: SystemTime,
    /// When its last member ended, if the group has ended.
    #[serde(serialize_with = "rfc3339_or_null")]
    pub ended: Option<SystemTime>,
    /// The members that the group has had.
    pub total: u64,
    /// The members that are pending or run. The callback of an inner group is one from the beginning.
    pub open: u64,
    /// The members that have completed.
    pub completed: u64,
    /// The members that are dead. A retry takes a member out of this number, and so does its deletion.
    pub dead: u64,
    /// The members that were cancelled, were replaced under their key, or were deleted when they were dead.
    pub cancelled: u64,
    /// The group takes no more members.
    pub is_sealed: bool,
    /// The group was cancelled.
    pub is_cancelled: bool,
    /// Dead members keep the group from its end.
    pub waits_for_the_dead: bool,
    /// The job that is inserted when the group ends, if the group has a callback.
    pub callback: Option<JobId>,
}

fn rfc3339_or_null<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => rfc3339(time, serializer),
        None => serializer.serialize_none(),
    }
}
