//! The request of a claim, and a claimed job.

use std::sync::Arc;

use super::ended::{MOST_INTERRUPTIONS, Tries};
use crate::values::id::{Fence, JobId};
use crate::values::job::Extra;
use crate::values::setting::{HeadStart, HeadStarts, Rank};
use crate::values::stored_limits::Limits;
use crate::values::time::Millis;

/// Which jobs to claim: the first ones that these limits admit, in the order of rank. Without head starts that is the
/// order of due time. Jobs of one kind with the same due time follow in the order of their ids.
///
/// Jobs with a partition are in the lanes of their kind. The claim takes the first job of the lane whose turn it is,
/// and that job stands in the order by its rank. No claim takes more of a scope than its limit allows: see
/// `lanes.rs`.
///
/// A job that was interrupted is a *suspect*: it may have ended its process. A claim passes over the
/// suspects that it may not take and over the jobs of kinds without room, and takes later jobs instead.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest {
    /// The latest due time.
    pub(crate) until: Millis,
    /// The present: the head start of a kind counts for jobs that are due by then. Jobs with a partition, and jobs of
    /// limited kinds, are claimed only if they are due by then.
    pub(crate) now: Millis,
    pub(crate) head_starts: HeadStarts,
    /// How many of them may be of kinds without a head start.
    pub(crate) plain: usize,
    /// How many, at most.
    pub(crate) limit: usize,
    /// How many of them may be of kinds whose jobs take a thread each.
    pub(crate) blocking: usize,
    pub(crate) limits: Limits,
    /// How many of them may be jobs with a partition, or of kinds with a rate, whose handlers block a thread.
    pub(crate) in_lanes: usize,
    /// How many of them may be of each of these kinds. Other kinds have no limit of their own.
    pub(crate) rooms: Vec<(Arc<str>, usize)>,
    /// How many jobs that were interrupted once may be claimed.
    pub(crate) crashed_once: usize,
    /// Whether one job that was interrupted twice or more may be claimed. The claim takes no other
    /// suspect then.
    pub(crate) poison_pill: bool,
    /// Whether that job may be one that its next interruption makes dead: see [`MOST_INTERRUPTIONS`].
    pub(crate) last_try: bool,
}

impl ClaimRequest {
    /// Returns a request that admits no suspect, and knows no head start and no limit.
    pub(crate) fn new(
        until: Millis,
        limit: usize,
        blocking: usize,
        rooms: Vec<(Arc<str>, usize)>,
    ) -> ClaimRequest {
        ClaimRequest {
            until,
            now: until,
            head_starts: HeadStarts::default(),
            plain: usize::MAX,
            limits: Limits::default(),
            in_lanes: usize::MAX,
            limit,
            blocking,
            rooms,
            crashed_once: 0,
            poison_pill: false,
            last_try: false,
        }
    }

    /// Says whether a job of this kind may be claimed.
    pub(crate) fn has_room(&self, kind: &str) -> bool {
        (self.plain > 0 || !self.head_starts.of(kind).is_none())
            && self.rooms.iter().all(|(full, room)| *room > 0 || **full != *kind)
    }

    /// Says whether a job of this kind may be claimed. `is_bounded`: it has a partition, or its kind has a rate.
    pub(crate) fn has_room_of(&self, kind: &str, is_bounded: bool) -> bool {
        if is_bounded { self.has_room_in_lanes(kind) } else { self.has_room(kind) }
    }

    /// Says whether a job of this kind with a partition may be claimed.
    pub(crate) fn has_room_in_lanes(&self, kind: &str) -> bool {
        self.has_room(kind)
            && (self.in_lanes > 0 || self.rooms.iter().any(|(its, _)| **its == *kind))
    }

    /// Returns the time to report for a job that is due at `due` and is not claimed ahead. The dispatcher claims
    /// earlier than the time reported, by as much as it claims other jobs ahead.
    pub(crate) fn not_ahead(&self, due: Millis) -> Millis {
        due.plus(self.until.since(self.now))
    }

    /// Returns the rank of a job of this kind.
    pub(crate) fn rank(&self, kind: &str, due: Millis) -> Rank {
        match self.head_starts.is_empty() || due > self.now {
            true => HeadStart::NONE.rank(due),
            false => self.head_starts.of(kind).rank(due),
        }
    }

    /// Counts a claimed job of this kind. `is_bounded`: it has a partition, or its kind has a rate.
    pub(crate) fn takes(&mut self, kind: &str, is_bounded: bool) {
        match self.rooms.iter_mut().find(|(its, _)| **its == *kind) {
            Some((_, room)) => *room = room.saturating_sub(1),
            None if is_bounded => self.in_lanes = self.in_lanes.saturating_sub(1),
            None => {}
        }
        if self.head_starts.of(kind).is_none() {
            self.plain = self.plain.saturating_sub(1);
        }
    }

    /// Says whether a job with this number of interruptions may be claimed, and counts it if so.
    pub(crate) fn admits(&mut self, interruptions: u32) -> bool {
        match interruptions {
            0 => true,
            1 if self.crashed_once > 0 => {
                self.crashed_once -= 1;
                self.poison_pill = false;
                true
            }
            2.. if self.poison_pill
                && (self.last_try || interruptions + 1 < MOST_INTERRUPTIONS) =>
            {
                self.crashed_once = 0;
                self.poison_pill = false;
                true
            }
            _ => false,
        }
    }
}

/// A claimed job.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) id: JobId,
    pub(crate) kind: Arc<str>,
    pub(crate) due: Millis,
    pub(crate) tries: Tries,
    pub(crate) key: Option<String>,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) payload: Vec<u8>,
    pub(crate) fence: Fence,
}
