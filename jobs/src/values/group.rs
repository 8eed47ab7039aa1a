//! A group of jobs as a value: its id, what is known of it, and the error of a change that it does not take.

use core::fmt;
use core::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::id::JobId;
use super::invalid_input::InvalidInput;
use super::time::{rfc3339, rfc3339_or_null};

/// The id of a group of jobs: see [`Client::group`](crate::Client::group). It is written as 32 hexadecimal digits, and
/// read back with [`str::parse`]. The default is the id of no group: all of its digits are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(JobId);

impl GroupId {
    /// Returns an id that no other call has returned, here or elsewhere.
    #[must_use]
    pub fn new() -> GroupId {
        GroupId(JobId::new())
    }

    /// Returns the id that belongs to this name: the same in every process, on every machine and in every version. See
    /// [`JobId::named`].
    #[must_use]
    pub fn named(name: &str) -> GroupId {
        GroupId(JobId::named(name))
    }

    /// Returns the id with these 128 bits.
    #[must_use]
    pub const fn from_u128(bits: u128) -> GroupId {
        GroupId(JobId::from_u128(bits))
    }

    /// Returns the 128 bits.
    #[must_use]
    pub const fn to_u128(self) -> u128 {
        self.0.to_u128()
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupId({self})")
    }
}

impl FromStr for GroupId {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<GroupId, InvalidInput> {
        text.parse().map(GroupId)
    }
}

/// Why a group was not inserted or changed: see [`Client::group`](crate::Client::group).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GroupError {
    /// The store knows no group with the id. A group is forgotten when it has ended, its retention
    /// ([`Builder::keep_dead`](crate::Builder::keep_dead)) is over, and no job that was its member is dead.
    Unknown,
    /// The store has a group with the id already. It may have ended: see [`GroupError::Unknown`].
    Exists,
    /// The group has ended.
    Ended,
    /// The group is sealed, so it takes no more members.
    Sealed,
    /// The group was cancelled, so it takes no more members.
    Cancelled,
    /// The group would be inserted with more than 256 members. Open it, and add them piece by piece.
    TooMany,
    /// A callback has no key.
    CallbackHasKey,
    /// The id of the callback, which its caller chose, is taken: by a job, by one that has ended and whose id is
    /// remembered, or by the callback of another group.
    CallbackKnown,
    /// Only a callback can be a member of another group, and this group has none.
    NoCallback,
    /// Neither a group nor a job of another group is a follow-up: insert it with [`Run::client`](crate::Run::client).
    NoFollowUp,
    /// The group keeps no results, or its callback has run and they are removed: see
    /// [`Group::keep_results`](crate::Group::keep_results).
    NoResults,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupError::Unknown => "there is no such group",
            GroupError::Exists => "there is a group with this id",
            GroupError::Ended => "the group has ended",
            GroupError::Sealed => "the group is sealed, and takes no more members",
            GroupError::Cancelled => "the group was cancelled, and takes no more members",
            GroupError::TooMany => "a group is inserted with at most 256 members: open it instead",
            GroupError::CallbackHasKey => "the callback of a group has no key",
            GroupError::CallbackKnown => "the id of the callback is that of another job",
            GroupError::NoCallback => "only a callback can be a member of another group",
            GroupError::NoFollowUp => "neither a group nor a job of another group is a follow-up",
            GroupError::NoResults => "the group keeps no results, or none any more",
        })
    }
}

impl std::error::Error for GroupError {}

/// A group of jobs, as the store has it: see [`Client::group`](crate::Client::group). `total` is the sum of `open`,
/// `completed`, `dead`, `cancelled` and `expired`.
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
    /// The members that have expired: see [`NewJob::expires`](crate::NewJob::expires).
    pub expired: u64,
    /// The group takes no more members.
    pub is_sealed: bool,
    /// The group was cancelled.
    pub is_cancelled: bool,
    /// Dead members keep the group from its end.
    pub waits_for_the_dead: bool,
    /// The results of its members are there: see [`Group::keep_results`](crate::Group::keep_results).
    pub keeps_results: bool,
    /// The job that is inserted when the group ends, if the group has a callback.
    pub callback: Option<JobId>,
}
