//! The slots of all rings: which of them are occupied, how far the scan of one has come, and the budget of an advance,
//! which pauses it.
//!
//! Ground rules:
//!
//! - Slots are numbered through all rings, innermost first. The slots of the outermost ring hold another kind of
//!   [`Entry`] than the others.
//! - Removing an entry moves the last one of its slot into its position; the caller then updates the node of the moved
//!   entry (`Hierarchy::unlink`).
//! - A slot's bit ([`Occupancy`]) is set exactly while it has an entry. A summary bit is set exactly when its word of
//!   bits is not zero. So the search for the next occupied slot looks at a few words, however many slots lie empty
//!   before it. The caller asks about the range that is one ring.
//! - A visit that can be paused ([`Scan`]) scans its slot from the back. So when it removes an entry, only an entry
//!   that it has seen can move into the gap. If it runs out of budget its scan is paused. One scan at most is paused,
//!   and its slot is visited at the next tick.
//! - A push adds to the back, among the entries that a paused scan has seen. If the scan has to look at the new entry
//!   too, the entry changes places with the first seen one, and the unseen part grows by one. A cancel may move a seen
//!   entry into the unseen part, which costs one more look at it. Otherwise a paused scan looks at no entry twice.
//! - A function takes from the [`Budget`] *before* it looks, one for each entry. When nothing is left it returns
//!   [`OutOfBudget`], which every caller passes on: the next advance finds the work that was not reached.
//! - A budget of looks ([`Budget::of_looks`]) takes no timer out: the first one that is due ends the advance. So
//!   [`Budget::take_all`] grants it nothing: the visits that pay for a whole slot empty it, and cannot stop half-way.

use core::ops::Range;

use super::entries::{Arrays, Entry, Inner, Outermost};
use super::handle_table::NodeIndex;
use crate::values::time::Tick;

#[derive(Debug)]
pub(super) struct Slots {
    pub(super) inner: Arrays<Inner>,
    pub(super) outermost: Arrays<Outermost>,
    occupancy: Occupancy,
    paused: Scan,
    /// A push to a slot below this number needs no extra care: the slot belongs to an inner ring,
    /// and no scan is paused.
    plain_below: u32,
    full_from: usize,
    /// There may be surplus. A flag of its own, because every cancel looks at it.
    pub(super) has_surplus: bool,
}

impl Slots {
    /// Returns `count` empty slots. Those below `outermost` belong to inner rings.
    pub(super) fn new(outermost: u32, count: u32, full_from: usize) -> Slots {
        Slots {
            inner: Arrays::new(outermost as usize),
            outermost: Arrays::new((count - outermost) as usize),
            occupancy: Occupancy::new(count),
            paused: Scan::NONE,
            plain_below: outermost,
            full_from,
            has_surplus: false,
        }
    }

    pub(super) fn count(&self) -> u32 {
        (self.inner.len() + self.outermost.len()) as u32
    }

    /// Returns whether a slot belongs to a ring that has another around it.
    #[inline]
    pub(super) fn is_inner(&self, slot: u32) -> bool {
        (slot as usize) < self.inner.len()
    }

    /// Returns the number of entries in all slots. Looks at every slot.
    pub(super) fn entries(&self) -> usize {
        self.inner.count() + self.outermost.count()
    }

    #[inline]
    pub(super) fn has_entries(&self, slot: u32) -> bool {
        self.occupancy.is_set(slot)
    }

    #[inline]
    pub(super) fn len(&self, slot: u32) -> usize {
        match self.is_inner(slot) {
            true => self.entries_of::<Inner>(slot).len(),
            false => self.entries_of::<Outermost>(slot).len(),
        }
    }

    /// Returns the node of the entry at `position`, if one lies there.
    pub(super) fn node(&self, slot: u32, position: u32) -> Option<NodeIndex> {
        match self.is_inner(slot) {
            true => self.entry::<Inner>(slot, position).map(Inner::node),
            false => self.entry::<Outermost>(slot, position).map(Outermost::node),
        }
    }

    /// Returns the cycle of the entry at `position`, if one lies there and has a cycle.
    pub(super) fn cycle(&self, slot: u32, position: u32) -> Option<u32> {
        let entry = (!self.is_inner(slot)).then(|| self.entry::<Outermost>(slot, position));
        entry.flatten().and_then(Outermost::cycle)
    }

    fn entry<E: Entry>(&self, slot: u32, position: u32) -> Option<E> {
        self.entries_of(slot).get(position as usize).copied()
    }

    #[inline]
    pub(super) fn entries_of<E: Entry>(&self, slot: u32) -> &[E] {
        &E::slot(self, slot).entries
    }

    #[inline]
    pub(super) fn first_occupied(&self, range: Range<u32>) -> Option<u32> {
        self.occupancy.first_in(range)
    }

    /// Returns a lower bound of the ticks at which the entries of an occupied slot are due.
    #[inline]
    pub(super) fn first_due(&self, slot: u32) -> Tick {
        match self.is_inner(slot) {
            true => Inner::slot(self, slot).first_due,
            false => Outermost::slot(self, slot).first_due,
        }
    }

    /// Returns whether a slot is full: no timer should then wait for a visit to all of it.
    pub(super) fn is_full(&self, slot: u32) -> bool {
        self.len(slot) >= self.full_from
    }

    /// Returns whether a push to this slot needs no extra care.
    #[inline(always)]
    pub(super) fn is_plain(&self, slot: u32) -> bool {
        slot < self.plain_below
    }

    /// Adds an entry, which is due at `due`, at the back of a slot. Returns its position. Returns
    /// `None` if the slot is empty or its array is full: then [`Slots::push_with_room`] adds the
    /// entry.
    ///
    /// If a scan is paused in the slot, the caller calls [`Slots::add_to_paused`] next.
    #[inline(always)]
    pub(super) fn push<E: Entry>(&mut self, number: u32, entry: E, due: Tick) -> Option<u32> {
        let slot = E::slot_mut(self, number);
        let position = slot.entries.len();
        if position == 0 || position == slot.entries.capacity() {
            return None;
        }
        slot.first_due = slot.first_due.min(due);
        slot.entries.push(entry);
        Some(position as u32)
    }

    /// As [`Slots::push`], for a slot that is empty or whose array is full.
    pub(super) fn push_with_room<E: Entry>(&mut self, number: u32, entry: E, due: Tick) -> u32 {
        if self.entries_of::<E>(number).is_empty() {
            self.occupancy.set(number);
            let index = E::index(self, number);
            E::arrays_mut(self).open(index);
        }
        let slot = E::slot_mut(self, number);
        let position = slot.entries.len();
        slot.first_due = slot.first_due.min(due);
        slot.entries.push(entry);
        position as u32
    }

    /// Registers the entry that was just pushed with the scan that is paused in its slot. If the
    /// scan has to look at it too, the entry changes places with the first one seen. Returns the
    /// entry's position, and the node of the other entry if the two changed places.
    pub(super) fn add_to_paused<E: Entry>(
        &mut self,
        slot: u32,
        due: Tick,
    ) -> (u32, Option<NodeIndex>) {
        let last = self.entries_of::<E>(slot).len() - 1;
        // Cancels may have left fewer entries than that.
        let first_seen = self.paused.left.min(last);
        self.paused.left = first_seen;
        if due > self.paused.tick {
            self.paused.keep(due);
            return (last as u32, None);
        }
        self.paused.left += 1;
        let entries = &mut E::slot_mut(self, slot).entries;
        entries.swap(first_seen, last);
        (first_seen as u32, (first_seen < last).then(|| entries[last].node()))
    }

    /// Returns the node of the entry that moved into the position, if one did.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32, position: u32) -> Option<NodeIndex> {
        match self.is_inner(slot) {
            true => self.remove_entry::<Inner>(slot, position),
            false => self.remove_entry::<Outermost>(slot, position),
        }
    }

    #[inline(always)]
    fn remove_entry<E: Entry>(&mut self, slot: u32, position: u32) -> Option<NodeIndex> {
        let entries = &mut E::slot_mut(self, slot).entries;
        debug_assert!((position as usize) < entries.len(), "no entry lies there");
        let last = entries.pop()?;
        if let Some(vacated) = entries.get_mut(position as usize) {
            *vacated = last;
            return Some(last.node());
        }
        if entries.is_empty() {
            self.close::<E>(slot);
        }
        None
    }

    /// Begins to scan a slot at `tick`, or resumes the scan that is paused there.
    pub(super) fn begin_scan(&mut self, slot: u32, tick: Tick) -> Scan {
        let len = self.len(slot);
        let paused = self.end_pause();
        if paused.slot == slot {
            // Cancels may have left fewer entries than that.
            Scan { left: paused.left.min(len), ..paused }
        } else {
            debug_assert!(!paused.exists(), "a paused scan is forgotten");
            Scan::new(slot, tick, len)
        }
    }

    /// Takes the entries of a slot out of it for a visit, which puts back those that stay.
    #[inline]
    pub(super) fn take_entries<E: Entry>(&mut self, slot: u32) -> Vec<E> {
        core::mem::take(&mut E::slot_mut(self, slot).entries)
    }

    /// Puts back the entries that stay after a visit. None of them is due before `first_due`.
    #[inline]
    pub(super) fn put_back<E: Entry>(&mut self, number: u32, entries: Vec<E>, first_due: Tick) {
        let emptied = entries.is_empty();
        let slot = E::slot_mut(self, number);
        slot.entries = entries;
        slot.first_due = first_due;
        if emptied {
            self.close::<E>(number);
        }
    }

    /// Puts back the entries that stay after a scan. If the scan has not seen them all, it is
    /// paused.
    pub(super) fn end_scan<E: Entry>(&mut self, scan: Scan, entries: Vec<E>) -> Budgeted {
        let unfinished = scan.left > 0;
        let first_due = if unfinished { scan.tick } else { scan.kept };
        self.put_back(scan.slot, entries, first_due);
        if unfinished {
            self.paused = scan;
            self.plain_below = 0;
            return Err(OutOfBudget);
        }
        Ok(())
    }

    fn end_pause(&mut self) -> Scan {
        self.plain_below = self.inner.len() as u32;
        core::mem::replace(&mut self.paused, Scan::NONE)
    }

    /// Closes a slot that has lost its last entry.
    #[inline(never)]
    pub(super) fn close<E: Entry>(&mut self, slot: u32) {
        self.occupancy.clear(slot);
        if self.is_paused_in(slot) {
            self.end_pause();
        }
        let index = E::index(self, slot);
        let arrays = E::arrays_mut(self);
        arrays.close(index);
        self.has_surplus |= arrays.has_surplus();
    }

    /// Removes every entry, and frees the memory.
    pub(super) fn clear(&mut self) {
        *self = Slots::new(self.inner.len() as u32, self.count(), self.full_from);
    }

    /// Returns the first occupied slot, from `from` on, that holds entries of this kind.
    pub(super) fn next_occupied<E: Entry>(&self, from: u32) -> Option<u32> {
        let first = if E::HAS_CYCLE { self.inner.len() as u32 } else { 0 };
        self.first_occupied(from.max(first)..first + E::arrays(self).len() as u32)
    }

    /// Returns the slot of the paused scan, if there is one, and how many entries it has not seen.
    pub(super) fn paused(&self) -> Option<(u32, usize)> {
        self.paused.exists().then_some((self.paused.slot, self.paused.left))
    }

    #[inline]
    pub(super) fn is_paused_in(&self, slot: u32) -> bool {
        self.paused.slot == slot
    }

    /// Returns whether the bits agree with the slots, and `plain_below` with the paused scan.
    pub(super) fn is_marked(&self) -> bool {
        let plain_below = if self.paused.exists() { 0 } else { self.inner.len() as u32 };
        let agrees = |slot| self.occupancy.is_set(slot) == (self.len(slot) > 0);
        self.plain_below == plain_below
            && self.occupancy.is_summed()
            && (0..self.count()).all(agrees)
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.inner.room() + self.outermost.room()
    }
}

const BITS: u32 = u64::BITS;

#[derive(Debug)]
pub(super) struct Occupancy {
    words: Box<[u64]>,
    summary: Box<[u64]>,
}

impl Occupancy {
    pub(super) fn new(slots: u32) -> Occupancy {
        let words = slots.div_ceil(BITS);
        let summary = words.div_ceil(BITS);
        Occupancy {
            words: vec![0; words as usize].into(),
            summary: vec![0; summary as usize].into(),
        }
    }

    pub(super) fn set(&mut self, slot: u32) {
        let word = slot / BITS;
        self.words[word as usize] |= 1 << (slot % BITS);
        self.summary[(word / BITS) as usize] |= 1 << (word % BITS);
    }

    pub(super) fn clear(&mut self, slot: u32) {
        let word = slot / BITS;
        self.words[word as usize] &= !(1 << (slot % BITS));
        if self.words[word as usize] == 0 {
            self.summary[(word / BITS) as usize] &= !(1 << (word % BITS));
        }
    }

    pub(super) fn is_set(&self, slot: u32) -> bool {
        self.words[(slot / BITS) as usize] & (1 << (slot % BITS)) != 0
    }

    pub(super) fn first_in(&self, range: Range<u32>) -> Option<u32> {
        if range.is_empty() {
            return None;
        }
        let word = range.start / BITS;
        let here = self.words[word as usize] & (u64::MAX << (range.start % BITS));
        let found = if here != 0 {
            word * BITS + here.trailing_zeros()
        } else {
            let word = first_from(&self.summary, word + 1)?;
            word * BITS + self.words[word as usize].trailing_zeros()
        };
        (found < range.end).then_some(found)
    }

    pub(super) fn is_summed(&self) -> bool {
        self.words.iter().enumerate().all(|(word, &bits)| {
            let summed = self.summary[word / BITS as usize] & (1 << (word as u32 % BITS)) != 0;
            summed == (bits != 0)
        })
    }
}

fn first_from(words: &[u64], bit: u32) -> Option<u32> {
    let start = (bit / BITS) as usize;
    let first = words.get(start)? & (u64::MAX << (bit % BITS));
    if first != 0 {
        return Some(start as u32 * BITS + first.trailing_zeros());
    }
    let (skipped, &bits) = words[start + 1..].iter().enumerate().find(|&(_, &bits)| bits != 0)?;
    Some((start + 1 + skipped) as u32 * BITS + bits.trailing_zeros())
}

/// The progress of a visit in its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// [`NO_SLOT`] when there is no scan.
    pub(super) slot: u32,
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

/// How many more entries an advance may look at.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) left: usize,
    /// The rest of a budget of looks, whose `left` is zero.
    looks_left: usize,
    /// This is a budget of looks.
    pub(super) looks_alone: bool,
    /// A look found a timer that is due.
    pub(super) found_due: bool,
}

/// The budget was used up before the work was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutOfBudget;

pub(super) type Budgeted = Result<(), OutOfBudget>;

impl Budget {
    pub(super) fn new(entries: usize) -> Budget {
        Budget { left: entries, looks_left: 0, looks_alone: false, found_due: false }
    }

    /// Returns a budget for `entries` looks, which takes no timer out.
    pub(super) fn of_looks(entries: usize) -> Budget {
        Budget { left: 0, looks_left: entries, looks_alone: true, found_due: false }
    }

    /// Takes the cost of `wanted` entries, or as much as is left. Returns how many entries have
    /// been paid for.
    #[inline]
    pub(super) fn take(&mut self, wanted: usize) -> usize {
        if self.left == 0 {
            return self.take_looks(wanted);
        }
        let granted = wanted.min(self.left);
        self.left -= granted;
        granted
    }

    #[cold]
    fn take_looks(&mut self, wanted: usize) -> usize {
        let granted = wanted.min(self.looks_left);
        self.looks_left -= granted;
        granted
    }

    /// Takes the cost of `wanted` entries, or nothing if less is left. Returns whether they have
    /// been paid for.
    #[inline]
    pub(super) fn take_all(&mut self, wanted: usize) -> bool {
        let enough = wanted <= self.left;
        if enough {
            self.left -= wanted;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Random sets and clears of slots agree with a `BTreeSet`.
        #[test]
        fn occupancy_agrees_with_a_set(
            ops in prop::collection::vec((0_u32..9000, any::<bool>()), 1..60),
            from in 0_u32..9000, length in 0_u32..9000,
        ) {
            let (mut bits, mut model) = (Occupancy::new(9000), BTreeSet::new());
            for (slot, set) in ops {
                if set {
                    bits.set(slot);
                    model.insert(slot);
                } else {
                    bits.clear(slot);
                    model.remove(&slot);
                }
                prop_assert_eq!(bits.is_set(slot), set);
                prop_assert!(bits.is_summed());
                let range = from..(from + length).min(9000);
                let expected = range.clone().find(|s| model.contains(s));
                prop_assert_eq!(bits.first_in(range), expected);
                for &start in &model {
                    prop_assert_eq!(bits.first_in(start..9000), Some(start));
                    let after = model.range(start + 1..).next().copied();
                    prop_assert_eq!(bits.first_in(start + 1..9000), after);
                }
            }
        }
    }

    /// A search of an empty range finds no slot.
    #[test]
    fn range_that_is_empty_holds_no_slot() {
        let mut bits = Occupancy::new(64);
        bits.set(63);
        assert_eq!(bits.first_in(63..63), None);
        assert_eq!(bits.first_in(64..64), None);
        assert_eq!(bits.first_in(0..63), None);
        assert_eq!(bits.first_in(0..64), Some(63));
    }

    /// `is_summed` finds a summary that does not agree with its bits.
    #[test]
    fn summary_that_is_wrong_is_found() {
        let mut bits = Occupancy::new(128);
        bits.set(70);
        bits.summary[0] = 0;
        assert!(!bits.is_summed());
    }
}
