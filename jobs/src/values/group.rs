//! The id of a group of jobs.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::id::{JobId, ParseIdError};

/// The id of a group of jobs: see [`Client::group`](crate::Client::group). It is written as 32 hexadecimal digits, and
/// read back with [`str::parse`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(JobId);

impl GroupId {
    /// Returns an id that no other call has returned, here or elsewhere.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default that differs each time is none")]
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
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<GroupId, ParseIdError> {
        text.parse().map(GroupId)
    }
}
