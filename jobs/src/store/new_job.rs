//! A job or a schedule, as it comes to a store; the result of an insert, and a schedule as it is stored.

use std::sync::Arc;

use crate::values::group::GroupId;
use crate::values::id::JobId;
#[cfg(doc)]
use crate::values::job::Burst;
use crate::values::job::Extra;
use crate::values::schedule::{Schedule, key_of_occurrences};
use crate::values::time::Millis;

#[derive(Clone, Debug)]
pub(crate) struct NewJob {
    pub(crate) id: JobId,
    pub(crate) kind: Arc<str>,
    pub(crate) due: Millis,
    pub(crate) key: Option<(String, IfTaken)>,
    /// The caller chose the id. So the insert first checks that the id is new, and the store remembers
    /// the id after the job has ended.
    pub(crate) callers_id: bool,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) payload: Vec<u8>,
}

impl NewJob {
    /// Makes the job a member of a group.
    pub(crate) fn join(&mut self, group: GroupId) {
        self.extra.get_or_insert_default().group = Some(group);
    }

    /// Returns an occurrence of a schedule. Without overlap it holds the key of the schedule until its end. If an
    /// earlier occurrence has the key, that one is left.
    pub(crate) fn occurrence(
        schedule: &StoredSchedule,
        kind: Arc<str>,
        due: Millis,
        (id, callers_id): (JobId, bool),
    ) -> NewJob {
        let holds_key = schedule.schedule.without_overlap;
        let key = holds_key.then(|| (key_of_occurrences(&schedule.name), IfTaken::Leave));
        let extra = Extra { holds_key, ..Extra::default() }.boxed();
        NewJob { id, kind, due, key, callers_id, extra, payload: schedule.payload.clone() }
    }

    /// Returns the due time and the extra of this job, if it replaces a pending job that is due then, has this extra,
    /// and was tried so often.
    pub(crate) fn replacing(
        &self,
        due: Millis,
        extra: Option<&Extra>,
        attempts: u32,
    ) -> (Millis, Option<Box<Extra>>) {
        let mut own = self.extra.clone();
        let due = match &self.key {
            Some((_, IfTaken::ReplaceKeepingTime)) => due,
            Some((_, IfTaken::Debounce)) => {
                let before = extra.and_then(|extra| extra.burst).filter(|_| attempts == 0);
                match (own.as_mut().and_then(|own| own.burst.as_mut()), before) {
                    (Some(burst), Some(before)) => {
                        burst.first = burst.first.min(before.first);
                        self.due.min(burst.latest())
                    }
                    _ => self.due,
                }
            }
            _ => self.due,
        };
        (due, own)
    }
}

/// The action of an insert whose key another pending job has. The table `outbox` has these numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfTaken {
    Replace = 0,
    /// Replaces the other job, but keeps its due time.
    ReplaceKeepingTime = 1,
    Leave = 2,
    /// Replaces the other job, and goes on with its burst, if that job has not run yet: see [`Burst`].
    Debounce = 3,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inserted {
    New,
    /// The id is known, so nothing was inserted.
    Known,
    /// This job keeps the key, so nothing was inserted. It is pending and [`IfTaken::Leave`] was given, or
    /// it is claimed and holds its key until its end.
    Taken(JobId),
}

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
