//! The view of the groups of jobs, with the counts of their members.

use serde::Serialize;

use super::Time;

/// The groups.
#[derive(Clone, Serialize)]
pub(crate) struct Groups {
    pub(crate) now: Time,
    /// At most a hundred, those that were made last first.
    pub(crate) rows: Vec<GroupRow>,
    /// There are older groups.
    pub(crate) has_more: bool,
}

/// A group.
#[derive(Clone, Serialize)]
pub(crate) struct GroupRow {
    /// 32 hexadecimal digits.
    pub(crate) id: String,
    pub(crate) made: Time,
    pub(crate) ended: Option<Time>,
    /// `open`: it takes further members. `sealed`: it waits for its members. `waits_for_the_dead`: only dead members
    /// keep it from its end. `cancelled`, `ended`.
    pub(crate) state: &'static str,
    /// `total` is the sum of the four others.
    pub(crate) total: u64,
    pub(crate) open: u64,
    pub(crate) completed: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
    pub(crate) waits_for_the_dead: bool,
    /// The job that is inserted when the group ends.
    pub(crate) callback: Option<String>,
}
