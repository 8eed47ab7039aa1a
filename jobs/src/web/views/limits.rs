//! The views of the limits: each scope with a limit, and what runs and waits under it.

use serde::Serialize;

use super::{Number, Time};

/// The limits of a queue.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Limits {
    /// At most a hundred: first the queue, then flows, then each partition of a kind, then partitions.
    pub(crate) rows: Vec<LimitRow>,
    /// How many scopes have a limit, are held, or are paused partitions.
    pub(crate) total: u64,
}

/// A scope: its limit, and how far it is reached.
#[derive(Clone, Serialize)]
pub(crate) struct LimitRow {
    /// `queue`, `flow`, `each_partition`, `partition`.
    pub(crate) scope: &'static str,
    pub(crate) flow: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) partition: Option<String>,
    /// Its claimed jobs. Of each partition of a kind: those of the partition with the most.
    pub(crate) running: u64,
    /// How many of its jobs may run at once.
    pub(crate) most_running: Option<u32>,
    /// How many of its jobs may start in `per_ms`.
    pub(crate) rate: Option<u32>,
    pub(crate) per_ms: Option<u64>,
    pub(crate) burst: Option<u32>,
    pub(crate) weight: Option<u32>,
    /// Its overdue jobs. `None`: it is a partition, whose jobs are not counted.
    pub(crate) waiting: Option<Number>,
    /// The queue or the partition is paused.
    pub(crate) is_paused: bool,
    /// When its next job may start, if its rate lets none start now.
    pub(crate) next_start: Option<Time>,
    /// Until when no job of it starts, if it is held.
    pub(crate) held_until: Option<Time>,
}

impl LimitRow {
    /// Says whether as many of its jobs run as may.
    pub(crate) fn is_full(&self) -> bool {
        self.most_running.is_some_and(|most| self.running >= u64::from(most))
    }
}
