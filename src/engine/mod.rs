//! The engine: timing wheels behind locks, the threads that advance them, and the dispatch of due
//! jobs.

pub(crate) mod metrics;
pub(crate) mod timers;
pub(crate) mod dispatch;
pub(crate) mod shard;
pub(crate) mod alarm;
pub(crate) mod sources;
#[cfg(feature = "async")]
pub(crate) mod wakers;
pub(crate) mod verbs;
pub(crate) mod ticker;
pub(crate) mod ticker_slot;
pub(crate) mod threads;

#[cfg(all(test, loom))]
mod models;
