//! What is known of a scope with a limit: how many of its jobs run, and until when none starts.

use std::time::SystemTime;

use super::limit::Limit;
use super::limits::LimitScope;

/// A scope with a limit, and the number of its claimed jobs: see [`Client::limits`](crate::Client::limits).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitInfo {
    /// The scope.
    pub scope: LimitScope,
    /// Its limit.
    pub limit: Limit,
    /// How many of its jobs are claimed now. For [`LimitScope::Each`]: the number in the partition with the most.
    pub running: u64,
    /// When the next job of it may start, if its rate lets none start now. Never for [`LimitScope::Each`].
    pub next_start: Option<SystemTime>,
    /// Until when no job of it starts, if it is held.
    pub held_until: Option<SystemTime>,
}

impl LimitInfo {
    /// Says whether the scope lets no further job start now: because as many jobs run as may, because of its rate, or
    /// because it is held.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.is_full() || self.next_start.is_some() || self.held_until.is_some()
    }

    /// Says whether as many jobs are claimed as the limit allows.
    pub(crate) fn is_full(&self) -> bool {
        self.limit.most_running().is_some_and(|most| self.running >= u64::from(most))
    }
}
