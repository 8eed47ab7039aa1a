//! Prefetching: loads the memory of a batch of timers before it is used. Each load is a cache miss
//! when there are many timers, and misses that do not wait for each other overlap.

use super::Hierarchy;
use super::ring::Spot;
use super::slots::Entry;
use super::table::Key;

/// How many nodes are loaded together: more than a core has misses under way, and few enough to be
/// in its first cache still when they are used.
pub(crate) const PREFETCH_BATCH: usize = 32;

impl<T> Hierarchy<T> {
    /// Loads the nodes of some entries that a visit at `spot` is about to ask. The loop does
    /// nothing else, so the loads do not wait for each other.
    #[inline]
    pub(super) fn fetch(&self, spot: Spot, entries: &[Entry]) {
        let mut seen = 0;
        for entry in entries {
            if entry.may_be_due_at(spot) {
                seen ^= self.table.at(entry.node).deadline.get();
            }
        }
        core::hint::black_box(seen);
    }

    /// Loads the memory that a cancel of each of these timers will touch, but of no more than
    /// [`PREFETCH_BATCH`]. Three loops, each with loads that do not wait for each other: the nodes,
    /// then the entries, then the nodes of the entries that will move.
    pub(crate) fn fetch_for_cancel(&self, keys: impl Iterator<Item = Key>) {
        let mut nodes = [(0, 0); PREFETCH_BATCH];
        let mut count = 0;
        for node in keys.take(PREFETCH_BATCH).filter_map(|key| self.table.get(key)) {
            nodes[count] = (node.slot, node.position);
            count += 1;
        }
        let mut last = [0; PREFETCH_BATCH];
        let mut seen = 0;
        for (last, &(slot, position)) in last.iter_mut().zip(&nodes[..count]) {
            let entries = self.slots.of(slot);
            seen ^= entries.get(position as usize).map_or(0, |entry| entry.cycle);
            *last = entries.last().map_or(0, |entry| entry.node);
        }
        for &index in &last[..count] {
            seen ^= self.table.at(index).position;
        }
        core::hint::black_box(seen);
    }
}
