//! A scan: how far a visit has come among the entries of its slot.
//!
//! Ground rules:
//!
//! - A visit scans its slot from the back. So when it removes an entry, only an entry that it has
//!   seen can move into the gap. If it runs out of budget its scan is paused. One scan at most is
//!   paused, and its slot is visited at the next tick.
//! - A push adds to the back, among the entries that a paused scan has seen. If the scan has to
//!   look at the new entry too, the entry changes places with the first seen one, and the unseen
//!   part grows by one. A cancel may move a seen entry into the unseen part, which costs one more
//!   look at it. Otherwise a paused scan looks at no entry twice.

use crate::values::time::Tick;

/// The progress of a visit in its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// [`NO_SLOT`] when there is no scan.
    pub(super) slot: u32,
    /// The tick of the visit.
    pub(super) tick: Tick,
    /// The number of entries, at the front, that have not been looked at.
    pub(super) left: usize,
    /// A lower bound of the ticks at which the entries that stay are due.
    pub(super) kept: Tick,
}

/// There are fewer slots than this.
const NO_SLOT: u32 = u32::MAX;

impl Scan {
    pub(super) const NONE: Scan =
        Scan { slot: NO_SLOT, tick: Tick::new(0), left: 0, kept: Tick::MAX };

    /// Returns a scan of a slot with `left` entries.
    pub(super) fn new(slot: u32, tick: Tick, left: usize) -> Scan {
        Scan { slot, tick, left, kept: Tick::MAX }
    }

    pub(super) fn exists(&self) -> bool {
        self.slot != NO_SLOT
    }

    /// Notes that an entry stays, which is not due before `tick`.
    #[inline]
    pub(super) fn keep(&mut self, tick: Tick) {
        self.kept = self.kept.min(tick);
    }
}
