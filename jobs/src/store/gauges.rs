//! The gauges of a kind: how many of its jobs are in which state.

use std::time::Duration;

/// How many jobs of a kind there are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct KindGauges {
    pub(crate) kind: String,
    /// Jobs that are not claimed.
    pub(crate) pending: u64,
    pub(crate) claimed: u64,
    pub(crate) dead: u64,
    /// Pending jobs whose due time has passed, of all kinds 10,000 at most.
    pub(crate) overdue: u64,
    /// How long ago the first of them was due.
    pub(crate) oldest_overdue: Option<Duration>,
}
