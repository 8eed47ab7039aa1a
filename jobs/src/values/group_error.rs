//! The error of a group that does not take a change.

use core::fmt;

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
        })
    }
}

impl std::error::Error for GroupError {}
