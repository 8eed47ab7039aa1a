//! What a claim asks for, and what it brings.

use std::sync::Arc;

use crate::values::extra::Extra;
use crate::values::fence::Fence;
use crate::values::id::JobId;
use crate::values::time::Millis;

/// A job is dead once its process has ended this often in a row while the job was claimed.
pub(crate) const MOST_INTERRUPTIONS: u32 = 5;

/// Which jobs to claim: the earliest ones.
///
/// A job that was interrupted is a *suspect*: it may be what ended its process. A claim passes over the
/// suspects that it may not take, and takes the jobs behind them. It passes over the jobs of a kind that has
/// no room as well.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest {
    /// The latest deadline.
    pub(crate) until: Millis,
    /// How many, at most.
    pub(crate) limit: usize,
    /// How many of them may be of kinds whose handlers block a thread.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only nodes share the work"))]
    pub(crate) blocking: usize,
    /// How many of them may be of these kinds. Kinds that are not listed have no limit of their own.
    pub(crate) rooms: Vec<(Arc<str>, usize)>,
    /// How many jobs that were interrupted once may be claimed.
    pub(crate) crashed_once: usize,
    /// Whether one job that was interrupted more often may be claimed, if the claim takes no other
    /// suspect.
    pub(crate) poison_pill: bool,
    /// Whether that job may be one whose next interruption is the last, [`MOST_INTERRUPTIONS`].
    pub(crate) last_try: bool,
}

impl ClaimRequest {
    /// Returns a request that admits no suspect.
    pub(crate) fn new(
        until: Millis,
        limit: usize,
        blocking: usize,
        rooms: Vec<(Arc<str>, usize)>,
    ) -> ClaimRequest {
        let (crashed_once, poison_pill, last_try) = (0, false, false);
        ClaimRequest { until, limit, blocking, rooms, crashed_once, poison_pill, last_try }
    }

    /// Says whether a job of this kind may be claimed.
    pub(crate) fn has_room(&self, kind: &str) -> bool {
        self.rooms.iter().all(|(full, room)| *room > 0 || **full != *kind)
    }

    /// A job of this kind is claimed.
    pub(crate) fn takes(&mut self, kind: &str) {
        if let Some((_, room)) = self.rooms.iter_mut().find(|(its, _)| **its == *kind) {
            *room = room.saturating_sub(1);
        }
    }

    /// Says whether a job that was interrupted so often may be claimed, and takes note of it if so.
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
    pub(crate) failures: u32,
    pub(crate) interruptions: u32,
    /// How often it has run before, whatever became of those runs.
    pub(crate) attempts: u32,
    pub(crate) key: Option<String>,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) payload: Vec<u8>,
    pub(crate) fence: Fence,
}
