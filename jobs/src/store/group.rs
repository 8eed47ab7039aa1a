//! A group of jobs: what a store inserts, counts and decides.
//!
//! Ground rules:
//!
//! - A member is *open* while it is pending or claimed. It leaves the group in the commit that ends it, and is counted
//!   there by how it ended.
//! - A group ends in the commit after which it is sealed and has no open member. If it waits for the dead, it must also
//!   have no dead member. That commit inserts the callback.
//! - The callback of an inner group may be a member of an outer one. Then it is open in the outer group from the
//!   insert of the inner one on.
//! - The follow-ups of a member join its group before the member leaves it.
//! - The id of a callback that is to come is remembered, as that of a job that has ended. So no other job takes it, and
//!   a second group with this callback is refused.
//! - An ended group changes no more. A dead member that is retried after that is a member no longer.
//! - A group may keep results: one row for each member that has ended, which the commit of that end writes. A retry of a
//!   dead member removes its row. The rows stay until the group has ended and its callback is neither alive nor dead. A
//!   group without a callback keeps them as long as itself. A purge removes them, in several commits; the first of these
//!   lets the group keep none, so that no caller takes a part for all. The group is forgotten after its last row.
//! - A dead job names its group until it is retried or deleted. So a group is forgotten only when no dead job names it:
//!   otherwise such a job would be counted in a later group with the same id.

use super::ended::Ending;
use super::new_job::NewJob;
use crate::values::fail_and_retry::AttemptErrors;
use crate::values::group::{GroupError, GroupId, GroupInfo};
use crate::values::id::JobId;
use crate::values::info::{JobState, MemberResult};
use crate::values::time::Millis;

/// A purge removes at most this many results in a commit, of at most [`GROUPS_LOOKED_AT`] groups. On a server the number
/// is about the same.
pub(crate) const RESULTS_PURGED: usize = 1000;
pub(crate) const GROUPS_LOOKED_AT: usize = 128;

/// A group to insert.
#[derive(Clone, Debug)]
pub(crate) struct NewGroup {
    pub(crate) id: GroupId,
    pub(crate) members: Vec<NewJob>,
    /// Its due time is the earliest one: it is due when the group ends, and not before.
    pub(crate) callback: Option<NewJob>,
    pub(crate) is_sealed: bool,
    pub(crate) waits_for_the_dead: bool,
    pub(crate) keeps_results: bool,
}

/// Returns the row of the result of a member: how it has ended, the length of its kind, the kind, and
/// `End::result_or_errors`.
pub(crate) fn result_row(ending: Ending, kind: &str, rest: &[u8]) -> Vec<u8> {
    [&[ending as u8, kind.len() as u8], kind.as_bytes(), rest].concat()
}

/// Reads such a row.
pub(crate) fn member_result(id: JobId, row: &[u8]) -> Option<MemberResult> {
    let (&[ending, kind], rest) = row.split_first_chunk()?;
    let (kind, rest) = str::from_utf8(rest).ok()?.split_at_checked(kind.into())?;
    let state = Ending::of_number(ending.into())?.state();
    let rest = |of| Some(rest.to_owned()).filter(|rest| state == of && !rest.is_empty());
    let errors = AttemptErrors::from_text(rest(JobState::Dead).unwrap_or_default()).list();
    Some(MemberResult {
        id,
        kind: kind.to_owned(),
        state,
        result: rest(JobState::Completed).map(String::into_bytes),
        errors,
    })
}

/// The counts and the marks of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    pub(crate) made: Millis,
    pub(crate) ended: Option<Millis>,
    pub(crate) total: u64,
    pub(crate) completed: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
    /// The dead jobs that name the group: `dead`, less those that were retried or deleted after its end.
    pub(crate) dead_left: u64,
    pub(crate) is_sealed: bool,
    pub(crate) is_cancelled: bool,
    pub(crate) waits_for_the_dead: bool,
    /// Each member that has ended has a row of results.
    pub(crate) keeps_results: bool,
}

impl Tally {
    /// Returns the tally of a new group, which is not sealed yet.
    pub(crate) fn new(made: Millis, new: &NewGroup) -> Tally {
        Tally {
            made,
            ended: None,
            total: 0,
            completed: 0,
            dead: 0,
            cancelled: 0,
            expired: 0,
            dead_left: 0,
            is_sealed: false,
            is_cancelled: false,
            waits_for_the_dead: new.waits_for_the_dead,
            keeps_results: new.keeps_results,
        }
    }

    /// Returns the number of open members.
    pub(crate) fn open(&self) -> u64 {
        self.total.saturating_sub(self.have_ended())
    }

    /// Returns the number of members that have ended.
    pub(crate) fn have_ended(&self) -> u64 {
        self.completed + self.dead + self.cancelled + self.expired
    }

    /// Says whether the group ends now.
    pub(crate) fn is_over(&self) -> bool {
        let is_held = self.waits_for_the_dead && !self.is_cancelled && self.dead > 0;
        self.ended.is_none() && self.is_sealed && self.open() == 0 && !is_held
    }

    /// Returns why the group takes no more members, if it does not.
    pub(crate) fn refuses(&self) -> Option<GroupError> {
        if self.is_cancelled {
            Some(GroupError::Cancelled)
        } else if self.ended.is_some() {
            Some(GroupError::Ended)
        } else {
            self.is_sealed.then_some(GroupError::Sealed)
        }
    }

    /// Seals or cancels the group, unless it has ended. Says whether that changes it.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Tally)) -> Result<bool, GroupError> {
        if self.ended.is_some() {
            return Err(GroupError::Ended);
        }
        let before = *self;
        change(self);
        Ok(*self != before)
    }

    /// Ends the group if it is over. Says whether it does.
    pub(crate) fn end_if_over(&mut self, now: Millis) -> bool {
        let is_over = self.is_over();
        if is_over {
            self.ended = Some(now);
        }
        is_over
    }

    /// Counts an open member that leaves the group.
    pub(crate) fn leave(&mut self, ending: Ending) {
        *match ending {
            Ending::Completed => &mut self.completed,
            Ending::Dead => &mut self.dead,
            Ending::Cancelled => &mut self.cancelled,
            Ending::Expired => &mut self.expired,
        } += 1;
        self.dead_left += u64::from(ending == Ending::Dead);
    }

    /// Counts a dead member as cancelled, because it was deleted.
    pub(crate) fn dead_is_gone(&mut self) {
        self.dead_left = self.dead_left.saturating_sub(1);
        if self.ended.is_none() {
            self.dead = self.dead.saturating_sub(1);
            self.cancelled += 1;
        }
    }

    /// Counts a dead member that is retried. Says whether it is an open member again.
    pub(crate) fn reopen(&mut self) -> bool {
        self.dead_left = self.dead_left.saturating_sub(1);
        let is_member = self.ended.is_none();
        self.dead = self.dead.saturating_sub(u64::from(is_member));
        is_member
    }

    /// Says whether its results may go. `callback_is_left`: its callback is pending, claimed or dead, if it has one.
    /// `before`: a group that ended before this may be forgotten.
    pub(crate) fn results_may_go(&self, callback_is_left: Option<bool>, before: Millis) -> bool {
        let may_go = |ended| callback_is_left.map_or(ended < before, |is_left| !is_left);
        self.ended.is_some_and(may_go)
    }

    /// Says whether the group may be forgotten, if it has ended before this time.
    pub(crate) fn is_forgotten(&self, before: Millis) -> bool {
        self.dead_left == 0 && self.ended.is_some_and(|ended| ended < before)
    }

    /// Seals the group, and marks it as cancelled: it waits for the dead no longer.
    pub(crate) fn cancel(&mut self) {
        (self.is_sealed, self.is_cancelled) = (true, true);
    }

    pub(crate) fn info(&self, id: GroupId, callback: Option<JobId>) -> GroupInfo {
        GroupInfo {
            id,
            made: self.made.to_system(),
            ended: self.ended.map(Millis::to_system),
            total: self.total,
            open: self.open(),
            completed: self.completed,
            dead: self.dead,
            cancelled: self.cancelled,
            expired: self.expired,
            is_sealed: self.is_sealed,
            is_cancelled: self.is_cancelled,
            waits_for_the_dead: self.waits_for_the_dead,
            keeps_results: self.keeps_results,
            callback,
        }
    }
}
