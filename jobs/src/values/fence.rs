//! What tells the runs of a job apart.

/// Tells the runs of a job apart: of two runs of one job, the later has the greater fence.
///
/// For whatever a handler writes to that can compare: it refuses what bears a fence lower than one
/// it has seen for the same job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fence {
    number: u64,
    /// Tells claims apart that have one number, because a failover has forgotten the first of them.
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
