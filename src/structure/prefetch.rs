//! Prefetching: loads the memory of a batch of timers before it is used. Each load is a cache miss
//! when there are many timers, and misses that do not wait for each other overlap.

use super::Hierarchy;
use super::entry::Entry;
use super::table::{Key, Table};

/// How many nodes are loaded together: more than a core can have cache misses in flight, and few
/// enough to stay in its first-level cache until they are used.
pub(crate) const PREFETCH_BATCH: usize = 32;

impl<T> Table<T> {
    /// Loads the nodes of some entries that a visit is about to read. The loop does nothing else,
    /// so the loads do not wait for each other.
    #[inline]
    pub(super) fn fetch<E: Entry>(&self, entries: &[E]) {
        let deadline = |entry: &E| self.at(entry.node()).deadline.get();
        core::hint::black_box(entries.iter().fold(0, |seen, entry| seen ^ deadline(entry)));
    }

    /// Loads the nodes of those entries that a visit in this cycle has to read.
    #[inline]
    pub(super) fn fetch_due<E: Entry>(&self, entries: &[E], cycle: u32) {
        let mut seen = 0;
        for entry in entries {
            if entry.may_be_due_in(cycle) {
                seen ^= self.at(entry.node()).deadline.get();
            }
        }
        core::hint::black_box(seen);
    }
}

impl<T> Hierarchy<T> {
    /// Loads the memory that a cancel of each of these timers will touch, but for no more than
    /// [`PREFETCH_BATCH`] timers. Three loops, each with loads that do not wait for each other: the
    /// nodes, then the entries, then the nodes of the entries that will move.
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
            seen ^= self.slots.node(slot, position).unwrap_or(0);
            // The slot of a pending timer is not empty.
            let back = (self.slots.len(slot) as u32).saturating_sub(1);
            *last = self.slots.node(slot, back).unwrap_or(0);
        }
        for &index in &last[..count] {
            seen ^= self.table.at(index).position;
        }
        core::hint::black_box(seen);
    }
}
