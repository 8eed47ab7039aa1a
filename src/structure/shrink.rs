//! Gives memory back: when few timers are left of many, moves them to a small slab; and keeps large blocks that are not
//! needed any more, the [`Surplus`], until their owner frees them.
//!
//! A slab cannot shrink while a node lies at its end. Without the move, one timer of an hour would pin the memory of
//! every short timer that was pending beside it.
//!
//! Ground rules:
//!
//! - The timers may move when they fill less than a sixteenth of the slab (`Tuning::sparse_shift`), after a cancel and
//!   at the end of an advance. They do so only if the slab has room for more than `Tuning::kept_nodes` nodes, or takes
//!   more than `Tuning::kept_bytes`.
//! - They move only once as many cancels and advances have found the slab sparse as there are timers left
//!   ([`SparseWatch`]). So a burst that is being worked off ends without a move, and each operation pays for one timer
//!   at most: constant time, amortized.
//! - One move is one pause. It walks the entries that are left, not the old slab, and the operating system takes the
//!   memory back: milliseconds after a million timers, as the longest cancel of `examples/footprint.rs` shows. It takes
//!   longer if `T` has a destructor, because `slab` then looks at every vacant index.
//! - Keys go on working (`handle_table.rs`), and entries keep their positions, so a paused scan and an early cascade
//!   never notice a move.
//! - The free of a large block, one of [`LARGE_BYTES`] or more, may take long. glibc then joins all the small blocks that
//!   were freed since the last time: 22 ms after 130,000 jobs (`docs/decisions.md`). So an advance frees no large block.
//!   The owner takes the surplus out, and drops it without a lock, on a thread on which no timer waits. The public
//!   methods of a hierarchy, which has no such thread, free it before they return.

use super::Hierarchy;
use super::entries::{Entry, Inner, Outermost};
use super::handle_table::{Key, OldNodes};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SparseWatch {
    operations: usize,
    /// How many timers were left at the last of these operations.
    left: usize,
}

impl SparseWatch {
    /// Notes that one more operation found the slab sparse, with `left` timers in it. Returns
    /// whether there were enough of them for a move.
    fn is_settled(&mut self, left: usize) -> bool {
        // The slab was full in between: this is another burst.
        if left > 2 * self.left {
            self.operations = 0;
        }
        self.operations += 1;
        self.left = left;
        self.operations >= left
    }
}

/// A block of this size may take long to free. glibc's own limit is twice as large, and counts the free memory beside
/// the block too.
pub(super) const LARGE_BYTES: usize = 32 << 10;

#[derive(Debug)]
pub(crate) struct Surplus<T> {
    _inner: Vec<Vec<Inner>>,
    _outermost: Vec<Vec<Outermost>>,
    _nodes: Option<OldNodes<T>>,
}

impl<T> Hierarchy<T> {
    /// Moves the timers that are left to a smaller slab, if enough operations found the slab
    /// sparse. Table and slots must agree.
    #[inline]
    pub(super) fn shrink_if_sparse(&mut self) {
        if self.table.is_sparse() {
            self.shrink_if_settled();
        }
    }

    #[cold]
    fn shrink_if_settled(&mut self) {
        if !self.sparse.is_settled(self.table.len()) {
            return;
        }
        self.sparse = SparseWatch::default();
        let mut old = self.table.begin_move();
        self.move_nodes::<Inner>(&mut old);
        self.move_nodes::<Outermost>(&mut old);
        debug_assert!(old.is_empty(), "a node without an entry");
        self.old_nodes = Some(old);
        self.slots.has_surplus = true;
    }

    fn move_nodes<E: Entry>(&mut self, old: &mut OldNodes<T>) {
        let mut from = 0;
        while let Some(slot) = self.slots.next_occupied::<E>(from) {
            let index = E::index(&self.slots, slot);
            E::arrays_mut(&mut self.slots).shrink(index, |entries| {
                old.fetch(entries.iter().map(|entry| entry.node()));
                for entry in entries {
                    let node = self.table.move_node(old, entry.node());
                    *entry = E::new(node, entry.cycle().unwrap_or_default());
                }
            });
            from = slot + 1;
        }
        E::arrays_mut(&mut self.slots).give_up_spares();
    }

    /// [`Hierarchy::cancel`], which leaves the surplus to the caller.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let node = self.table.remove(key)?;
        self.unlink(node.slot, node.position);
        self.shrink_if_sparse();
        Some(node.value)
    }

    #[inline]
    pub(crate) fn has_surplus(&self) -> bool {
        self.slots.has_surplus
    }

    #[cold]
    pub(crate) fn take_surplus(&mut self) -> Surplus<T> {
        self.slots.has_surplus = false;
        Surplus {
            _inner: self.slots.inner.take_surplus(),
            _outermost: self.slots.outermost.take_surplus(),
            _nodes: self.old_nodes.take(),
        }
    }

    #[inline]
    pub(crate) fn free_surplus(&mut self) {
        if self.has_surplus() {
            self.take_surplus();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::{Geometry, Key, Tuning};
    use crate::values::time::Tick;

    /// Returns ten timers from tick 100 on, spread over the slab in which a hundred others lay, and their keys.
    fn survivors() -> (Hierarchy<u64>, Vec<Key>) {
        let geometry = Geometry::levels(&[8, 8]).unwrap();
        let mut wheel = Hierarchy::with_tuning(geometry, Tuning::TINY);
        let mut keys: Vec<Key> = (0..110).map(|n| wheel.insert(Tick::new(100 + n), n)).collect();
        let kept: Vec<Key> = (0..10).rev().map(|n| keys.remove(n * 11 + 10)).collect();
        assert!(keys.iter().all(|&key| wheel.cancel(key).is_some()));
        assert!(wheel.table.capacity() < 40, "{}", wheel.table.capacity());
        assert!(!wheel.table.moved().is_empty());
        wheel.check().unwrap();
        (wheel, kept)
    }

    /// C122: The memory of a burst is given back, also while one long timer stays.
    #[test]
    fn long_timer_does_not_pin_the_memory_of_a_burst() {
        let mut wheel = Hierarchy::default();
        let count = 100_000;
        for n in 0..count {
            wheel.insert(Tick::new(1 + n % 1000), n);
        }
        let long = wheel.insert(Tick::new(3_600_000), count);
        let mut due = Vec::new();
        assert!(wheel.advance(Tick::new(1000), usize::MAX, &mut due).finished);
        assert_eq!((due.len() as u64, wheel.get(long)), (count, Some(&count)));
        assert!(wheel.table.capacity() <= 4096, "{}", wheel.table.capacity());
    }

    /// C122: The memory that a slab keeps is bounded in bytes too: a few thousand nodes of large values
    /// would take much.
    #[test]
    fn long_timer_does_not_pin_the_memory_of_large_values() {
        let mut wheel = Hierarchy::default();
        let value = [0_u8; 16 << 10];
        for n in 0..500 {
            wheel.insert(Tick::new(1 + n % 100), value);
        }
        let long = wheel.insert(Tick::new(3_600_000), value);
        let mut due = Vec::new();
        assert!(wheel.advance(Tick::new(100), usize::MAX, &mut due).finished);
        assert!(due.len() == 500 && wheel.contains(long));
        assert!(wheel.table.capacity() <= 16, "{}", wheel.table.capacity());
        // A small slab is kept: it does not come and go with each timer.
        let room = wheel.table.capacity();
        for _ in 0..10 {
            let key = wheel.insert(Tick::new(200), value);
            assert!(wheel.cancel(key).is_some());
        }
        assert!(wheel.table.capacity() >= room);
    }

    /// A burst that fires or is cancelled to its end moves few nodes on the way.
    #[test]
    fn burst_that_goes_to_its_end_moves_few_nodes() {
        let mut wheel = Hierarchy::default();
        for n in 0..100_000 {
            wheel.insert(Tick::new(5), n);
        }
        let mut due = Vec::new();
        while !wheel.advance(Tick::new(5), 256, &mut due).finished {
            assert!(wheel.table.moved().len() <= 256, "{}", wheel.table.moved().len());
        }
        assert_eq!((due.len(), wheel.table.capacity()), (100_000, 0));
        // The watch begins anew with a second burst.
        let keys: Vec<Key> = (0..100_000).map(|n| wheel.insert(Tick::new(9), n)).collect();
        for key in keys {
            wheel.cancel(key);
            assert!(wheel.table.moved().len() <= 5000, "{}", wheel.table.moved().len());
        }
        assert_eq!(wheel.table.moved().len(), 0);
    }

    /// A slab of a thousand nodes keeps its memory when it is empty.
    #[test]
    fn slab_that_is_small_is_kept() {
        let mut wheel = Hierarchy::default();
        let keys: Vec<Key> = (0..1000).map(|n| wheel.insert(Tick::new(5), n)).collect();
        let room = wheel.table.capacity();
        assert!(keys.iter().all(|&key| wheel.cancel(key).is_some()));
        assert_eq!((wheel.len(), wheel.table.capacity()), (0, room));
    }

    /// C122: The array of a slot gives the memory of a burst back, also while one timer stays in the slot.
    #[test]
    fn timer_does_not_pin_the_array_of_its_slot() {
        let mut wheel = Hierarchy::default();
        let keys: Vec<Key> = (0..100_000).map(|n| wheel.insert(Tick::new(70_000), n)).collect();
        assert!(keys[1..].iter().all(|&key| wheel.cancel(key).is_some()));
        assert!(wheel.table.capacity() <= 4096, "{}", wheel.table.capacity());
        assert!(wheel.slots.room() <= 8192, "{}", wheel.slots.room());
        assert_eq!(wheel.cancel(keys[0]), Some(0));
    }

    /// Iteration, advance and drain return the keys that `insert` returned, also for moved nodes.
    #[test]
    fn keys_come_out_as_insert_returned_them() {
        let sorted = |mut keys: Vec<Key>| {
            keys.sort_by_key(|key| key.generation);
            keys
        };
        let (mut wheel, kept) = survivors();
        let is_forged_found = |&key: &Key| wheel.contains(Key { index: u32::MAX, ..key });
        assert!(!kept.iter().any(is_forged_found), "the generation alone is no key");
        let listed = wheel.table.iter().map(|(key, _)| key).collect();
        assert_eq!(sorted(listed), sorted(kept.clone()));
        let mut due = Vec::new();
        assert!(wheel.advance(Tick::new(300), usize::MAX, &mut due).finished);
        let fired = due.into_iter().map(|(key, _)| key).collect();
        assert_eq!(sorted(fired), sorted(kept));
        assert_eq!(wheel.table.moved().len(), 0);

        let (mut wheel, kept) = survivors();
        let drained = wheel.drain().map(|(key, ..)| key).collect();
        assert_eq!(sorted(drained), sorted(kept));
        assert_eq!(wheel.table.moved().len(), 0);

        let (wheel, kept) = survivors();
        let timers = wheel.into_timers().map(|(key, ..)| key).collect();
        assert_eq!(sorted(timers), sorted(kept));
    }

    /// The rows of moved nodes go when their timers do, and their memory is given back.
    #[test]
    fn rows_of_moved_nodes_do_not_pin_memory() {
        let mut wheel = Hierarchy::default();
        let keys: Vec<Key> = (0..200_000).map(|n| wheel.insert(Tick::new(5000), n)).collect();
        let (gone, kept) = keys.split_at(195_000);
        assert!(gone.iter().all(|&key| wheel.cancel(key).is_some()));
        assert!(wheel.table.moved().len() > 4000);
        // New timers keep the slab from a second move.
        for n in 0..20_000 {
            wheel.insert(Tick::new(5000), n);
        }
        assert!(kept[1..].iter().all(|&key| wheel.cancel(key).is_some()));
        assert_eq!(wheel.table.moved().len(), 1);
        assert!(wheel.table.moved().room() < 1000, "{}", wheel.table.moved().room());
        assert!(wheel.contains(kept[0]));
        wheel.check().unwrap();
    }

    const MANY: u64 = 100_000;

    fn with_many() -> Hierarchy<u64> {
        let mut wheel = Hierarchy::default();
        for n in 0..MANY {
            wheel.insert(Tick::new(1 + n % 1000), n);
        }
        wheel
    }

    /// The arrays of large slots, and the slab of a burst, are surplus until the owner takes them.
    #[test]
    fn large_blocks_of_a_burst_are_surplus() {
        let (mut wheel, mut due) = (with_many(), Vec::new());
        wheel.insert(Tick::new(3_600_000), MANY);
        assert!(!wheel.has_surplus());
        let (mut arrays, mut slabs) = (0, 0);
        for tick in 1..=1000 {
            let mut limit = usize::MAX;
            assert!(wheel.advance_counting(Tick::new(tick), &mut limit, &mut due).finished);
            if wheel.has_surplus() {
                let surplus = wheel.take_surplus();
                arrays += surplus._inner.len() + surplus._outermost.len();
                slabs += usize::from(surplus._nodes.is_some());
            }
        }
        assert!(arrays >= 3 && slabs == 1, "{arrays} arrays, {slabs} slabs");
        assert_eq!(due.len() as u64, MANY);
    }

    /// A hierarchy that is used by itself has no surplus after an advance or a cancel.
    #[test]
    fn public_methods_free_the_surplus() {
        let (mut wheel, mut due) = (with_many(), Vec::new());
        assert!(wheel.advance(Tick::new(1000), usize::MAX, &mut due).finished);
        assert!(due.len() as u64 == MANY && !wheel.has_surplus());
        let mut wheel = Hierarchy::default();
        let keys: Vec<_> = (0..MANY).map(|n| wheel.insert(Tick::new(5000), n)).collect();
        for key in keys {
            assert!(wheel.cancel(key).is_some() && !wheel.has_surplus());
        }
    }
}
