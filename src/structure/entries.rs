//! The entries, of two kinds, by which slots refer to their timers, and the arrays in which they lie: one a slot.
//!
//! Ground rules:
//!
//! - An entry of an inner ring is the index of the timer's node, 4 bytes. In such a ring the slot alone says when an
//!   entry is visited.
//! - Only the outermost ring holds entries for other cycles than the next, so only there an entry has a cycle number, 4
//!   bytes more.
//! - The number of a slot decides which kind it holds. Code for both kinds is generic over [`Entry`]; an [`Arrays`]
//!   holds the slots of one kind.
//! - A slot is an array of entries, in no order, and `first_due`: a lower bound of the ticks at which they are due.
//!   `first_due` is valid while the slot has an entry.
//! - An emptied slot keeps an array of up to [`KEPT_BYTES`], which is no more than its header takes. A larger array
//!   goes to the spares, where the next slot without an array takes it. Spares hold room for no more than
//!   [`SPARE_ROOM`] entries, so a burst does not pin memory for ever. An array for which they have no room is freed, or
//!   is surplus if it is large (`shrink.rs`).

use super::PREFETCH_BATCH;
use super::handle_table::NodeIndex;
use super::ring::FAR;
use super::shrink::LARGE_BYTES;
use super::slots::Slots;
use crate::values::time::Tick;

/// An entry of a slot.
pub(super) trait Entry: Copy + Default {
    /// Whether an entry has a cycle: those of the outermost ring.
    const HAS_CYCLE: bool;

    /// Returns an entry for the node at `node`, due in the cycle with this number.
    fn new(node: NodeIndex, cycle: u32) -> Self;

    fn node(self) -> NodeIndex;

    /// Returns the number of the cycle in which the entry is due, or [`FAR`], if it has one.
    fn cycle(self) -> Option<u32>;

    /// Returns whether a visit in the cycle with this number has to read the node.
    #[inline]
    fn may_be_due_in(self, cycle: u32) -> bool {
        self.cycle().is_none_or(|own| own == cycle || own == FAR)
    }

    fn arrays(slots: &Slots) -> &Arrays<Self>;

    fn arrays_mut(slots: &mut Slots) -> &mut Arrays<Self>;

    /// Returns the index of a slot in its [`Arrays`].
    fn index(slots: &Slots, slot: u32) -> usize;

    #[inline]
    fn slot(slots: &Slots, slot: u32) -> &Slot<Self> {
        Self::arrays(slots).slot(Self::index(slots, slot))
    }

    #[inline]
    fn slot_mut(slots: &mut Slots, slot: u32) -> &mut Slot<Self> {
        let index = Self::index(slots, slot);
        Self::arrays_mut(slots).slot_mut(index)
    }
}

/// An entry of any ring but the outermost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inner(NodeIndex);

impl Entry for Inner {
    const HAS_CYCLE: bool = false;

    #[inline]
    fn new(node: NodeIndex, _cycle: u32) -> Inner {
        Inner(node)
    }

    #[inline]
    fn node(self) -> NodeIndex {
        self.0
    }

    #[inline]
    fn cycle(self) -> Option<u32> {
        None
    }

    #[inline]
    fn arrays(slots: &Slots) -> &Arrays<Inner> {
        &slots.inner
    }

    #[inline]
    fn arrays_mut(slots: &mut Slots) -> &mut Arrays<Inner> {
        &mut slots.inner
    }

    #[inline]
    fn index(_slots: &Slots, slot: u32) -> usize {
        slot as usize
    }
}

/// An entry of the outermost ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outermost {
    node: NodeIndex,
    cycle: u32,
}

impl Entry for Outermost {
    const HAS_CYCLE: bool = true;

    #[inline]
    fn new(node: NodeIndex, cycle: u32) -> Outermost {
        Outermost { node, cycle }
    }

    #[inline]
    fn node(self) -> NodeIndex {
        self.node
    }

    #[inline]
    fn cycle(self) -> Option<u32> {
        Some(self.cycle)
    }

    #[inline]
    fn arrays(slots: &Slots) -> &Arrays<Outermost> {
        &slots.outermost
    }

    #[inline]
    fn arrays_mut(slots: &mut Slots) -> &mut Arrays<Outermost> {
        &mut slots.outermost
    }

    #[inline]
    fn index(slots: &Slots, slot: u32) -> usize {
        slot as usize - slots.inner.len()
    }
}

/// An array of up to this size stays with a slot that is emptied.
const KEPT_BYTES: usize = 32;

/// The spares together may have room for this many entries.
const SPARE_ROOM: usize = 16_384;

/// A move shrinks a slot's array that has room for more than this many times its entries.
const SPARSE_ROOM: usize = 4;

#[derive(Debug)]
pub(super) struct Slot<E> {
    pub(super) entries: Vec<E>,
    pub(super) first_due: Tick,
}

#[derive(Debug)]
pub(super) struct Arrays<E> {
    slots: Box<[Slot<E>]>,
    spares: Vec<Vec<E>>,
    spare_room: usize,
    surplus: Vec<Vec<E>>,
}

impl<E: Copy> Arrays<E> {
    /// Room for this many entries stays with a slot that is emptied.
    const KEPT_ROOM: usize = KEPT_BYTES / size_of::<E>();

    pub(super) fn new(count: usize) -> Arrays<E> {
        let slot = |_| Slot { entries: Vec::new(), first_due: Tick::MAX };
        let slots = (0..count).map(slot).collect();
        Arrays { slots, spares: Vec::new(), spare_room: 0, surplus: Vec::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn slot(&self, index: usize) -> &Slot<E> {
        &self.slots[index]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, index: usize) -> &mut Slot<E> {
        &mut self.slots[index]
    }

    /// Gives an array to a slot that is about to get its first entry.
    pub(super) fn open(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.first_due = Tick::MAX;
        if slot.entries.capacity() == 0
            && let Some(spare) = self.spares.pop()
        {
            self.spare_room -= spare.capacity();
            slot.entries = spare;
        }
    }

    /// Takes the array from a slot that has lost its last entry, unless the array is small.
    #[inline]
    pub(super) fn close(&mut self, index: usize) {
        let entries = &mut self.slot_mut(index).entries;
        if entries.capacity() > Self::KEPT_ROOM {
            let emptied = core::mem::take(entries);
            self.retire(emptied);
        }
    }

    fn retire(&mut self, emptied: Vec<E>) {
        self.spare_room += emptied.capacity();
        self.spares.push(emptied);
        while self.spare_room > SPARE_ROOM {
            let emptied = self.spares.pop().expect("spare room lies in spares");
            self.spare_room -= emptied.capacity();
            self.free(emptied);
        }
    }

    pub(super) fn give_up_spares(&mut self) {
        for spare in core::mem::take(&mut self.spares) {
            self.free(spare);
        }
        self.spare_room = 0;
    }

    /// Frees an array, unless it is large: then it is surplus.
    fn free(&mut self, array: Vec<E>) {
        if array.capacity() * size_of::<E>() >= LARGE_BYTES {
            self.surplus.push(array);
        }
    }

    #[inline]
    pub(super) fn has_surplus(&self) -> bool {
        !self.surplus.is_empty()
    }

    pub(super) fn take_surplus(&mut self) -> Vec<Vec<E>> {
        core::mem::take(&mut self.surplus)
    }

    /// Passes the entries of a slot to `move_nodes`, a few at a time, and shrinks a large array of
    /// few entries.
    pub(super) fn shrink(&mut self, index: usize, mut move_nodes: impl FnMut(&mut [E])) {
        let entries = &mut self.slot_mut(index).entries;
        let room = entries.len().max(Self::KEPT_ROOM);
        let is_sparse = entries.capacity() / SPARSE_ROOM > room;
        entries.chunks_mut(PREFETCH_BATCH).for_each(&mut move_nodes);
        if is_sparse {
            let mut smaller = Vec::with_capacity(room);
            smaller.extend_from_slice(entries);
            let larger = core::mem::replace(entries, smaller);
            self.free(larger);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.slots.iter().map(|slot| slot.entries.len()).sum()
    }

    /// Returns the room in spares, as counted in `spare_room` and as summed up, or `None` if a
    /// spare is not empty.
    pub(super) fn spare_room(&self) -> Option<(usize, usize)> {
        let empty = self.spares.iter().all(Vec::is_empty);
        empty.then(|| (self.spare_room, self.spares.iter().map(Vec::capacity).sum()))
    }

    /// Returns for how many entries there is room, in slots and spares.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.slots.iter().map(|slot| slot.entries.capacity()).sum::<usize>() + self.spare_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts `count` entries into a slot and takes them out. Returns the room that its array had.
    fn fill_and_empty(arrays: &mut Arrays<u32>, index: usize, count: usize) -> usize {
        arrays.open(index);
        let entries = &mut arrays.slot_mut(index).entries;
        entries.extend(0..count as u32);
        let room = entries.capacity();
        entries.clear();
        arrays.close(index);
        room
    }

    /// A slot that closes keeps a small array. A larger one is the spare array, which the next slot that opens uses. The
    /// array of a burst is freed.
    #[test]
    fn closed_slot_keeps_spares_or_frees_its_array() {
        let mut arrays = Arrays::new(4);
        let small = fill_and_empty(&mut arrays, 0, 1);
        assert!(small <= Arrays::<u32>::KEPT_ROOM);
        assert_eq!((arrays.spare_room, arrays.slot(0).entries.capacity()), (0, small));
        let larger = fill_and_empty(&mut arrays, 1, Arrays::<u32>::KEPT_ROOM + 1);
        assert_eq!(arrays.spare_room, larger);
        arrays.open(3);
        assert_eq!((arrays.spare_room, arrays.slot(3).entries.capacity()), (0, larger));
        fill_and_empty(&mut arrays, 2, 8 * SPARE_ROOM);
        assert_eq!(arrays.slot(2).entries.capacity(), 0);
        assert!(arrays.spare_room <= SPARE_ROOM);
    }

    /// All arrays together keep room for at most `SPARE_ROOM` entries.
    #[test]
    fn arrays_of_many_slots_keep_a_bounded_room() {
        let mut arrays = Arrays::<u32>::new(100);
        for index in 0..100 {
            arrays.slot_mut(index).entries.reserve_exact(SPARE_ROOM / 10);
        }
        (0..100).for_each(|index| arrays.close(index));
        assert!((SPARE_ROOM / 2..=SPARE_ROOM).contains(&arrays.room()), "{}", arrays.room());
    }
}
