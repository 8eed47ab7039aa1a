//! Fences: numbers that order the runs of a job.

use super::id::JobId;

/// The claim of a job. Several jobs that a server gives out together have the same fence.
pub(crate) type Claim = (JobId, Fence);

/// A number that orders the runs of a job: of two runs of one job, the later has the greater fence.
///
/// A handler can send it with each write to another system. That system then refuses a write whose fence is
/// lower than one that it has seen for the same job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fence {
    number: u64,
    /// Distinguishes claims with the same number: after a failover that loses a claim, the next one may get its number
    /// again.
    nonce: u64,
}

impl Fence {
    pub(crate) const fn new(number: u64, nonce: u64) -> Fence {
        Fence { number, nonce }
    }

    #[cfg(feature = "redis")]
    pub(crate) const fn nonce(self) -> u64 {
        self.nonce
    }

    /// Returns the fence as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.number
    }
}

impl core::fmt::Display for Fence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.number.fmt(f)
    }
}
