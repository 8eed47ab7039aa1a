//! The slots of all rings: arrays of entries, and how far a paused visit has come in one of them.
//!
//! Ground rules:
//!
//! - A slot is an array of entries of 8 bytes, in no order. Removing one moves the last entry into
//!   its position; the caller then tells the node of the moved one (`Hierarchy::unlink`).
//! - A slot is occupied exactly while it has an entry, and then `first_visit` is no later than the
//!   tick at which any of its entries has to be visited.
//! - An emptied slot keeps a small array, of [`KEPT_ROOM`] entries: no more than its header takes.
//!   A larger one goes to the spares, where the next slot without one finds it. Spares hold no more
//!   room than there are entries, or [`SPARE_ROOM`]: a burst does not pin memory for ever.
//! - A visit scans its slot from the back, so that an entry it removes is the last one, and nothing
//!   has to move. If it runs out of budget it leaves its [`Scan`] in `paused`. One scan at most is
//!   paused, and its slot is visited at the next tick.
//! - A paused scan never looks at an entry twice. A push adds to the back, among the entries that
//!   the scan has seen: if the paused visit must look at the new entry too, it swaps with the first
//!   seen one, and the unseen part grows by one. A cancel may move a seen entry into the unseen
//!   part, which costs one more look at it.

use core::ops::Range;

use super::budget::OutOfBudget;
use super::occupancy::Occupancy;
use super::prefetch::PREFETCH_BATCH;
use super::ring::{FAR, Spot};
use super::table::NodeIndex;
use crate::values::time::Tick;

/// Room for this many entries stays with a slot that is emptied.
const KEPT_ROOM: usize = 4;

/// Room for this many entries may lie in spares, however few timers there are.
const SPARE_ROOM: usize = 4096;

/// A move shrinks a slot's array that has room for more than this many entries for each that it
/// has.
const SPARSE_ROOM: usize = 4;

/// An entry of a slot: the index of a timer's node, and the cycle in which it is due, or [`FAR`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) node: NodeIndex,
    pub(super) cycle: u32,
}

impl Entry {
    /// Returns whether a visit at `spot` has to ask the node.
    #[inline]
    pub(super) fn may_be_due_at(self, spot: Spot) -> bool {
        self.cycle == spot.cycle || self.cycle == FAR
    }
}

#[derive(Debug, Default)]
struct Slot {
    entries: Vec<Entry>,
    first_visit: Tick,
}

/// How far a visit has come in its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// [`NO_SLOT`] when there is no scan.
    slot: u32,
    /// The tick of the visit.
    visit: Tick,
    /// How many entries, at the front, have not been looked at.
    pub(super) left: usize,
    /// The earliest visit to an entry that stays.
    kept: Option<Tick>,
}

/// There are fewer slots than this.
const NO_SLOT: u32 = u32::MAX;

impl Scan {
    const NONE: Scan = Scan { slot: NO_SLOT, visit: Tick::new(0), left: 0, kept: None };

    /// Notes that an entry stays until `visit`.
    pub(super) fn keep(&mut self, visit: Tick) {
        self.kept = Some(self.kept.map_or(visit, |kept| kept.min(visit)));
    }
}

#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    occupancy: Occupancy,
    paused: Scan,
    entries: usize,
    spares: Vec<Vec<Entry>>,
    spare_room: usize,
}

impl Slots {
    pub(super) fn new(count: u32) -> Slots {
        Slots {
            slots: (0..count).map(|_| Slot::default()).collect(),
            occupancy: Occupancy::new(count),
            paused: Scan::NONE,
            entries: 0,
            spares: Vec::new(),
            spare_room: 0,
        }
    }

    /// Returns how many entries lie in all slots.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    pub(super) fn first_occupied(&self, range: Range<u32>) -> Option<u32> {
        self.occupancy.first_in(range)
    }

    /// Returns the earliest tick at which an entry of an occupied slot may be due.
    pub(super) fn first_visit(&self, slot: u32) -> Tick {
        self.slots[slot as usize].first_visit
    }

    /// Returns the entries of a slot.
    pub(super) fn of(&self, slot: u32) -> &[Entry] {
        &self.slots[slot as usize].entries
    }

    /// Adds an entry at the back of a slot. Returns its position.
    ///
    /// If a scan is paused there, [`Slots::add_to_paused`] has to follow.
    #[inline(always)]
    pub(super) fn push(&mut self, spot: Spot, node: NodeIndex) -> u32 {
        let mut slot = &mut self.slots[spot.slot as usize];
        let position = slot.entries.len();
        if position == 0 {
            self.occupy(spot);
            slot = &mut self.slots[spot.slot as usize];
        }
        slot.first_visit = slot.first_visit.min(spot.visit);
        slot.entries.push(Entry { node, cycle: spot.cycle });
        self.entries += 1;
        position as u32
    }

    /// Makes the entry that was just pushed known to the scan that is paused in its slot. Returns
    /// two positions if their entries have changed places.
    #[cold]
    pub(super) fn add_to_paused(&mut self, spot: Spot) -> Option<[u32; 2]> {
        let entries = &mut self.slots[spot.slot as usize].entries;
        let last = entries.len().checked_sub(1)?;
        // Cancels may have made the slot shorter than that.
        let first_seen = self.paused.left.min(last);
        self.paused.left = first_seen;
        if spot.visit > self.paused.visit {
            self.paused.keep(spot.visit);
            return None;
        }
        entries.swap(first_seen, last);
        self.paused.left += 1;
        Some([first_seen as u32, last as u32])
    }

    /// Prepares a slot for its first entry.
    #[inline(never)]
    fn occupy(&mut self, spot: Spot) {
        let slot = &mut self.slots[spot.slot as usize];
        self.occupancy.set(spot.slot);
        slot.first_visit = spot.visit;
        if slot.entries.capacity() == 0
            && let Some(spare) = self.spares.pop()
        {
            self.spare_room -= spare.capacity();
            slot.entries = spare;
        }
    }

    /// Removes an entry. Returns the node of the entry that moved into its position, if one did.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32, position: u32) -> Option<NodeIndex> {
        let entries = &mut self.slots[slot as usize].entries;
        debug_assert!((position as usize) < entries.len(), "no entry lies there");
        let last = entries.pop()?;
        self.entries -= 1;
        if let Some(vacated) = entries.get_mut(position as usize) {
            *vacated = last;
            return Some(last.node);
        }
        if entries.is_empty() {
            self.vacate(slot);
        }
        None
    }

    /// Returns whether the slot of `spot` has an entry that may be due at that visit.
    pub(super) fn has_work(&self, spot: Spot) -> bool {
        self.occupancy.is_set(spot.slot) && self.first_visit(spot.slot) == spot.visit
    }

    /// Begins to scan the slot of `spot`, or resumes the scan that is paused there.
    pub(super) fn begin_scan(&mut self, spot: Spot) -> Scan {
        let len = self.of(spot.slot).len();
        let paused = core::mem::replace(&mut self.paused, Scan::NONE);
        if paused.slot == spot.slot {
            // Cancels may have made the slot shorter than that.
            Scan { left: paused.left.min(len), ..paused }
        } else {
            debug_assert_eq!(paused.slot, NO_SLOT, "a paused scan is forgotten");
            Scan { slot: spot.slot, visit: spot.visit, left: len, kept: None }
        }
    }

    /// Takes the entries of a slot out of it for a visit, which puts back those that stay.
    pub(super) fn take_entries(&mut self, slot: u32) -> Vec<Entry> {
        let taken = core::mem::take(&mut self.slots[slot as usize].entries);
        self.entries -= taken.len();
        taken
    }

    /// Puts back the entries that a visit left, and ends its scan. If the scan has not seen them
    /// all, it is paused instead.
    pub(super) fn put_back(&mut self, scan: Scan, entries: Vec<Entry>) -> Result<(), OutOfBudget> {
        self.entries += entries.len();
        let emptied = entries.is_empty();
        let slot = &mut self.slots[scan.slot as usize];
        slot.entries = entries;
        if emptied {
            self.vacate(scan.slot);
        } else if scan.left > 0 {
            self.paused = scan;
            return Err(OutOfBudget);
        } else if let Some(kept) = scan.kept {
            slot.first_visit = kept;
        }
        Ok(())
    }

    /// Removes every entry, and gives up the memory.
    pub(super) fn clear(&mut self) {
        *self = Slots::new(self.slots.len() as u32);
    }

    /// Shows every entry to `move_nodes`, a few at a time, and gives up the memory that a burst has
    /// left: large arrays of few entries, and spares.
    pub(super) fn shrink(&mut self, mut move_nodes: impl FnMut(&mut [Entry])) {
        let count = self.slots.len() as u32;
        let mut from = 0;
        while let Some(slot) = self.first_occupied(from..count) {
            let entries = &mut self.slots[slot as usize].entries;
            let room = entries.len().max(KEPT_ROOM);
            if entries.capacity() / SPARSE_ROOM > room {
                entries.shrink_to(room);
            }
            entries.chunks_mut(PREFETCH_BATCH).for_each(&mut move_nodes);
            from = slot + 1;
        }
        self.trim_spares();
    }

    /// Returns the paused scan, if there is one: its slot, and how many entries it has not seen.
    pub(super) fn paused(&self) -> Option<(u32, usize)> {
        (self.paused.slot != NO_SLOT).then_some((self.paused.slot, self.paused.left))
    }

    /// Returns whether a scan of `slot` is paused.
    #[inline]
    pub(super) fn is_paused_in(&self, slot: u32) -> bool {
        self.paused.slot == slot
    }

    /// Returns whether the bits agree with the slots.
    pub(super) fn is_marked(&self) -> bool {
        let bits = |(number, slot): (usize, &Slot)| {
            self.occupancy.is_set(number as u32) != slot.entries.is_empty()
        };
        self.occupancy.is_summed() && self.slots.iter().enumerate().all(bits)
    }

    /// Returns the room in spares as counted, and as it is, or `None` if one of them is not empty.
    pub(super) fn spare_room(&self) -> Option<(usize, usize)> {
        let empty = self.spares.iter().all(Vec::is_empty);
        empty.then(|| (self.spare_room, self.spares.iter().map(Vec::capacity).sum()))
    }

    /// Returns for how many entries there is room, in slots and spares.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.slots.iter().map(|slot| slot.entries.capacity()).sum::<usize>() + self.spare_room
    }

    /// Closes a slot that has lost its last entry.
    #[inline(never)]
    fn vacate(&mut self, slot: u32) {
        self.occupancy.clear(slot);
        if self.is_paused_in(slot) {
            self.paused = Scan::NONE;
        }
        let entries = &mut self.slots[slot as usize].entries;
        if entries.capacity() > KEPT_ROOM {
            let emptied = core::mem::take(entries);
            self.retire(emptied);
        }
    }

    fn retire(&mut self, emptied: Vec<Entry>) {
        self.spare_room += emptied.capacity();
        self.spares.push(emptied);
        self.trim_spares();
    }

    fn trim_spares(&mut self) {
        let allowed = self.entries.max(SPARE_ROOM);
        while self.spare_room > allowed {
            let surplus = self.spares.pop().expect("spare room lies in spares");
            self.spare_room -= surplus.capacity();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(slot: u32) -> Spot {
        Spot { slot, cycle: 0, visit: Tick::new(1) }
    }

    #[test]
    fn a_burst_in_one_slot_does_not_pin_its_memory() {
        let mut slots = Slots::new(4);
        let burst = 8 * SPARE_ROOM as u32;
        for node in 0..burst {
            slots.push(spot(2), node);
        }
        (0..burst).rev().for_each(|position| {
            slots.remove(2, position);
        });
        assert_eq!(slots.slots[2].entries.capacity(), 0);
        assert!(slots.spare_room <= SPARE_ROOM);
    }

    #[test]
    fn an_array_is_used_again() {
        let mut slots = Slots::new(4);
        let count = KEPT_ROOM as u32 + 1;
        for node in 0..count {
            slots.push(spot(1), node);
        }
        let room = slots.slots[1].entries.capacity();
        for position in (0..count).rev() {
            slots.remove(1, position);
        }
        assert_eq!(slots.spare_room, room);
        slots.push(spot(3), 8);
        assert_eq!((slots.spare_room, slots.slots[3].entries.capacity()), (0, room));
    }

    #[test]
    fn a_small_array_stays_with_its_slot() {
        let mut slots = Slots::new(4);
        slots.push(spot(1), 7);
        slots.remove(1, 0);
        assert_eq!((slots.spare_room, slots.slots[1].entries.capacity()), (0, KEPT_ROOM));
    }
}
