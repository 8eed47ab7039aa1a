//! The visit: looks at every entry of one slot, and fires it, moves it to an inner ring (the
//! cascade), or keeps it.
//!
//! Ground rules:
//!
//! - A timer that is due fires. Any other moves to the slot of its present deadline: inwards,
//!   unless it was postponed. It stays if that is the same slot, a cycle later. An entry whose
//!   cycle has not come stays too, and its node is not read.
//! - A slot that nearly all entries leave is emptied from front to back, without bookkeeping for
//!   the entries that were not reached yet: [`Hierarchy::fire_slot`] on the innermost ring,
//!   [`Hierarchy::cascade_slot`] on the others. Both need the budget for the whole slot.
//! - Any other visit is a [`Scan`](super::scan::Scan), which can be paused: a visit to the
//!   outermost ring, where many entries may stay, and a visit whose budget does not suffice or
//!   takes nothing out.
//! - A visited slot is empty until the visit puts back the entries that stay, so a moved entry
//!   never lands among them. `fire_slot` is different: it leaves postponed entries in the slot, and
//!   moves them at its end. None of them comes back to the slot, because the ring stands before the
//!   tick and does not reach a whole cycle past it.

use super::budget::{Budget, OutOfBudget};
use super::entry::{Entry, Inner, Outermost};
use super::prefetch::PREFETCH_BATCH;
use super::ring::Spot;
use super::table::Key;
use super::{Hierarchy, spot_of};
use crate::values::time::Tick;

/// The nodes of this many entries, or fewer, are not worth a fetch of their own.
const FEW: usize = 4;

/// The decision of a scan about an entry.
enum Fate {
    /// Its cycle, which has this number, has not come: the entry stays, and its node is not read.
    Waits(u32),
    /// The deadline lies in this slot in a later cycle: the entry stays until then.
    Stays(Tick, u32),
    /// The deadline lies in another slot.
    Moves(Tick, Spot),
    /// The timer is due.
    Fires,
}

impl<T> Hierarchy<T> {
    /// Visits the slot of `tick`, which comes right after the cursor, on the ring of `level`.
    pub(super) fn visit(
        &mut self,
        level: usize,
        slot: u32,
        tick: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
        if !self.slots.is_inner(slot) {
            return self.scan::<Outermost>(level, tick, budget, due);
        }
        // `take_all` refuses a budget of looks, so that always scans.
        if self.slots.is_paused_in(slot) || !budget.take_all(self.slots.len(slot)) {
            return self.scan::<Inner>(level, tick, budget, due);
        }
        match level {
            0 => self.fire_slot(slot, tick, due),
            _ => self.cascade_slot(slot, tick, due),
        }
        Ok(())
    }

    /// Fires every timer in a slot of the innermost ring, and moves those that were postponed.
    #[inline]
    pub(super) fn fire_slot(&mut self, slot: u32, tick: Tick, due: &mut Vec<(Key, T)>) {
        let entries = &mut Inner::slot_mut(&mut self.slots, slot).entries;
        let (len, mut postponed) = (entries.len(), 0);
        for position in 0..len {
            if position % PREFETCH_BATCH == 0 && len > FEW {
                self.table.fetch(&entries[position..len.min(position + PREFETCH_BATCH)]);
            }
            let entry = entries[position];
            match self.table.take_due(entry.node(), tick) {
                Some(timer) => due.push(timer),
                None => {
                    entries[postponed] = entry;
                    postponed += 1;
                }
            }
        }
        entries.truncate(postponed);
        if postponed > 0 {
            self.move_postponed(slot);
        }
        self.slots.close::<Inner>(slot);
    }

    #[cold]
    fn move_postponed(&mut self, slot: u32) {
        while let Some(entry) = Inner::slot_mut(&mut self.slots, slot).entries.pop() {
            let deadline = self.table.at(entry.node()).deadline;
            let target = spot_of(&self.rings, deadline);
            debug_assert!(target.slot != slot, "a postponed timer lies in another slot");
            self.link(target, entry.node(), deadline);
        }
    }

    /// Moves every timer of a slot of another inner ring inwards, or fires it.
    fn cascade_slot(&mut self, slot: u32, tick: Tick, due: &mut Vec<(Key, T)>) {
        let mut entries = self.slots.take_entries::<Inner>(slot);
        let (len, mut stay, mut first_due) = (entries.len(), 0, Tick::MAX);
        for position in 0..len {
            if position % PREFETCH_BATCH == 0 {
                self.table.fetch(&entries[position..len.min(position + PREFETCH_BATCH)]);
            }
            let entry = entries[position];
            let deadline = self.table.at(entry.node()).deadline;
            if deadline <= tick {
                due.push(self.table.take(entry.node()));
                continue;
            }
            let target = spot_of(&self.rings, deadline);
            if target.slot != slot {
                self.link(target, entry.node(), deadline);
                continue;
            }
            self.table.at_mut(entry.node()).position = stay as u32;
            entries[stay] = entry;
            stay += 1;
            first_due = first_due.min(deadline);
        }
        entries.truncate(stay);
        self.slots.put_back(slot, entries, first_due);
    }

    /// Looks at the entries of a slot, as far as the budget goes.
    #[inline]
    fn scan<E: Entry>(
        &mut self,
        level: usize,
        tick: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
        match budget.is_of_looks() {
            true => self.scan_slot::<E, true>(level, tick, budget, due),
            false => self.scan_slot::<E, false>(level, tick, budget, due),
        }
    }

    /// Looks at every entry of a slot, from the back, as far as the budget goes. With `LOOKS`, a
    /// budget of looks, stops at the first entry that is due.
    fn scan_slot<E: Entry, const LOOKS: bool>(
        &mut self,
        level: usize,
        tick: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
        let spot = self.rings[level].spot(tick);
        let mut scan = self.slots.begin_scan(spot.slot, tick);
        let mut entries = self.slots.take_entries::<E>(spot.slot);
        while scan.left > 0 {
            let count = budget.take(scan.left.min(PREFETCH_BATCH));
            if count == 0 {
                break;
            }
            let first = scan.left - count;
            self.table.fetch_due(&entries[first..scan.left], spot.cycle);
            for position in (first..scan.left).rev() {
                let entry = entries[position];
                match self.fate(entry, spot, tick) {
                    Fate::Waits(cycle) => {
                        scan.keep(self.rings[level].begin_in(spot.slot, cycle));
                    }
                    Fate::Stays(deadline, cycle) => {
                        if E::HAS_CYCLE {
                            entries[position] = E::new(entry.node(), cycle);
                        }
                        scan.keep(deadline);
                    }
                    Fate::Moves(deadline, target) => {
                        self.link(target, entry.node(), deadline);
                        self.swap_remove_entry(&mut entries, position);
                    }
                    Fate::Fires if LOOKS => {
                        budget.note_due();
                        // The resumed scan begins with this entry.
                        scan.left = position + 1;
                        return self.slots.end_scan(scan, entries);
                    }
                    Fate::Fires => {
                        due.push(self.table.take(entry.node()));
                        self.swap_remove_entry(&mut entries, position);
                    }
                }
            }
            scan.left = first;
        }
        self.slots.end_scan(scan, entries)
    }

    /// Decides what a scan at `tick` does with an entry of its slot.
    #[inline(always)]
    fn fate<E: Entry>(&self, entry: E, spot: Spot, tick: Tick) -> Fate {
        if let Some(cycle) = entry.cycle()
            && !entry.may_be_due_in(spot.cycle)
        {
            return Fate::Waits(cycle);
        }
        let deadline = self.table.at(entry.node()).deadline;
        if deadline <= tick {
            return Fate::Fires;
        }
        let target = spot_of(&self.rings, deadline);
        match target.slot == spot.slot {
            true => Fate::Stays(deadline, target.cycle),
            false => Fate::Moves(deadline, target),
        }
    }

    /// Takes an entry out of the array that a scan took from its slot, and updates the node of the
    /// entry that moved into its position.
    #[inline]
    fn swap_remove_entry<E: Entry>(&mut self, entries: &mut Vec<E>, position: usize) {
        entries.swap_remove(position);
        if let Some(moved) = entries.get(position) {
            self.table.at_mut(moved.node()).position = position as u32;
        }
    }
}
