//! Looks at memory that is about to be used, many places at a time: each look is a cache miss when there
//! are many timers, and misses that do not wait for each other overlap.

use super::Hierarchy;
use super::ring::Spot;
use super::slots::Entry;
use super::table::Key;

/// So many nodes are looked at together. Each look is a cache miss when there are many timers, and
/// misses that do not wait for each other overlap.
pub(crate) const PREFETCH_BATCH: usize = 32;

impl<T> Hierarchy<T> {
    /// Looks at the nodes of some entries that a visit is about to ask. A loop with nothing else in
    /// it: the loads do not wait for each other.
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

    /// Looks at all that a cancel of each of these timers will touch. Three loops, each with loads
    /// that do not wait for each other: the nodes, then the entries, then the nodes of those that
    /// will move.
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
