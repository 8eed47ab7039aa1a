//! A schedule, as it comes to a store and as it is stored.

use std::sync::Arc;

use crate::values::schedule::Schedule;
use crate::values::time::Millis;

/// A schedule to store.
#[derive(Clone, Debug)]
pub(crate) struct NewSchedule {
    pub(crate) name: String,
    pub(crate) kind: Arc<str>,
    pub(crate) schedule: Schedule,
    pub(crate) payload: Vec<u8>,
    /// The first occurrence. A stored schedule with the same kind and rule keeps its own next one.
    pub(crate) first: Millis,
}

/// A stored schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredSchedule {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) schedule: Schedule,
    /// The rule as text: this version may not know it.
    pub(crate) rule_text: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) next: Millis,
}
