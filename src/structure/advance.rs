//! The advance goes from one tick with work to the next; a visit looks at every entry of one slot that has work, and
//! fires it, moves it to an inner ring (the cascade), or keeps it.
//!
//! Ground rules of the advance:
//!
//! - [`Lookahead`] says which ticks have no work: the advance skips these. It also says which ticks only visit one slot
//!   of the innermost ring: `run_innermost` is a loop for these. `process_next` does all other work, one tick at a
//!   time.
//! - A slot of an outer ring is visited when the first of its timers is due. Until then its entries wait under the
//!   cursor, maybe beside entries for a whole cycle later. A full slot is visited when it begins.
//!
//! The state between two advances is one of three:
//!
//! | state | `cursor` | `slots.paused()` | `early` owes |
//! | --- | --- | --- | --- |
//! | at rest | the last processed tick, `to` or before | none | nothing |
//! | stopped between two ticks | the last processed tick | none | a share: it comes first |
//! | stopped within a tick | the tick before it | the scan of one slot of that tick | nothing |
//!
//! The third state needs no special case: its next tick is the one that was not finished. Of the slots of that tick,
//! the paused one is visited first, so no second scan is ever paused. The others may come in any order: all timers that
//! fire at one tick are ties.
//!
//! Ground rules of a visit:
//!
//! - A timer that is due fires. Any other moves to the slot of its present deadline: inwards, unless it was postponed.
//!   It stays if that is the same slot, a cycle later. An entry whose cycle has not come stays too, and its node is not
//!   read.
//! - A slot that nearly all entries leave is emptied from front to back, without bookkeeping for the entries that were
//!   not reached yet: [`Hierarchy::fire_slot`] on the innermost ring, [`Hierarchy::cascade_slot`] on the others. Both
//!   need the budget for the whole slot.
//! - Any other visit is a [`Scan`](super::slots::Scan), which can be paused: a visit to the outermost ring, where many
//!   entries may stay, and a visit whose budget does not suffice or takes nothing out.
//! - A visited slot is empty until the visit puts back the entries that stay, so a moved entry never lands among them.
//!   `fire_slot` is different: it leaves postponed entries in the slot, and moves them at its end. None of them comes
//!   back to the slot, because the ring stands before the tick and does not reach a whole cycle past it.

use super::entries::{Entry, Inner, Outermost};
use super::handle_table::Key;
use super::lookahead::Lookahead;
use super::ring::Spot;
use super::slots::{Budget, Budgeted};
use super::{Hierarchy, PREFETCH_BATCH, spot_of};
use crate::values::time::Tick;

/// The timers that an advance takes out.
type Due<T> = Vec<(Key, T)>;

/// How far an advance came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an unfinished advance leaves timers due: call it again"]
pub struct Turn {
    /// The last tick that was processed to its end: [`Hierarchy::now`].
    pub now: Tick,
    /// Whether every tick up to the one asked for has been processed. If not, the limit was reached
    /// first; the next advance continues where this one stopped.
    pub finished: bool,
}

/// Why an advance that takes nothing out stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoppedBy {
    /// Nothing is due up to the tick asked for.
    End,
    /// A timer is due.
    Due,
    /// The limit was reached first.
    Limit,
}

impl<T> Hierarchy<T> {
    /// Advances to tick `to` and appends the timers that are due to `due`, in the order of their deadlines. A timer
    /// whose deadline had passed at its insert or reset fires with those of the next tick. An advance to [`Tick::MAX`]
    /// fires also the timers with that deadline. Ties come in any order. A tick that lies before [`Hierarchy::now`]
    /// changes nothing.
    ///
    /// Looks at no more than `limit` entries, firing or moving them, then returns with [`Turn::finished`] false. With a
    /// limit of zero it fires and moves none: the clock goes no further than the tick before the next one with work. A
    /// timer that is due but was not reached is still pending, and can be cancelled or reset.
    ///
    /// Costs a few steps for each tick that has work and a few for each entry looked at; ticks
    /// without work cost nothing. If few timers are left of many, the call may end with a move of
    /// those to a smaller slab, as described at [`Hierarchy::cancel`]; the limit does not count
    /// them.
    pub fn advance(&mut self, to: Tick, mut limit: usize, due: &mut Vec<(Key, T)>) -> Turn {
        let turn = self.advance_counting(to, &mut limit, due);
        self.free_surplus();
        turn
    }

    /// Does what [`Hierarchy::advance`] does, and subtracts the entries that it looked at from the
    /// limit. Leaves the surplus to the caller.
    pub(crate) fn advance_counting(
        &mut self,
        to: Tick,
        limit: &mut usize,
        due: &mut Due<T>,
    ) -> Turn {
        let mut budget = Budget::new(*limit);
        let finished = self.advance_within(to, &mut budget, due).is_ok();
        *limit = budget.left;
        self.shrink_if_sparse();
        Turn { now: self.now(), finished }
    }

    /// Advances to `to`, but takes nothing out: stops before the first tick at which a timer is
    /// due. Looks at no more than `limit` entries, and moves them. Returns why it stopped. It looks
    /// at no entry again before its time, so many calls together cost as much as one advance.
    pub(crate) fn advance_to_due(&mut self, to: Tick, limit: usize) -> StoppedBy {
        let mut budget = Budget::of_looks(limit);
        let mut due = Vec::new();
        let finished = self.advance_within(to, &mut budget, &mut due).is_ok();
        debug_assert!(due.is_empty(), "it takes nothing out");
        self.free_surplus();
        match () {
            () if finished => StoppedBy::End,
            () if budget.found_due => StoppedBy::Due,
            () => StoppedBy::Limit,
        }
    }

    #[inline]
    fn advance_within(&mut self, to: Tick, budget: &mut Budget, due: &mut Due<T>) -> Budgeted {
        if to >= self.lookahead.work_from {
            return self.advance_through_work(to, budget, due);
        }
        self.move_cursors(to);
        Ok(())
    }

    #[inline(never)]
    fn advance_through_work(
        &mut self,
        to: Tick,
        budget: &mut Budget,
        due: &mut Due<T>,
    ) -> Budgeted {
        loop {
            self.run_innermost(to, budget, due);
            if self.is_empty() && !self.early.owes() {
                self.lookahead = Lookahead::EMPTY;
                break;
            }
            if to < self.lookahead.work_from {
                break;
            }
            if let Err(stop) = self.process_next(to, budget, due) {
                self.lookahead = Lookahead::unknown(self.cursor);
                return Err(stop);
            }
        }
        self.move_cursors(to);
        Ok(())
    }

    /// Moves the cursors of all rings to `to`. The caller has processed every tick with work up to
    /// there.
    #[inline]
    fn move_cursors(&mut self, to: Tick) {
        self.ended |= to == Tick::MAX;
        let to = to.min(Tick::new(u64::MAX - 1));
        if to > self.cursor {
            self.cursor = to;
            if !self.rings[0].step_to(to) {
                self.move_all_rings(to);
            }
        }
    }

    #[inline(never)]
    fn move_all_rings(&mut self, to: Tick) {
        for ring in &mut self.rings {
            if !ring.move_to(to) {
                // If the slot of a ring has not ended, the slots of the rings around it have not
                // either.
                break;
            }
        }
    }

    /// Visits the slots of the innermost ring that have work, up to `to`, while no other ring has
    /// any. Stops before a slot for which the budget does not suffice.
    fn run_innermost(&mut self, to: Tick, budget: &mut Budget, due: &mut Due<T>) {
        let Lookahead { work_from: mut tick, outer_from } = self.lookahead;
        while tick < outer_from && tick <= to {
            let slot = self.rings[0].slot(tick);
            if !budget.take_all(self.slots.entries_of::<Inner>(slot).len()) {
                break;
            }
            // The ring still stands some ticks before this one. So an entry that moves now may land
            // on an outer ring although an inner one would do. It is never late.
            self.fire_slot(slot, tick, due);
            tick = self.rings[0].next_work(tick, outer_from, &self.slots);
        }
        // A slot that became full meanwhile lies on an outer ring, and does not begin before
        // `tick`.
        self.lookahead.work_from = tick;
        self.move_cursors(to.min(Tick::new(tick.get() - 1)));
    }

    /// Does the next work up to `to`: pays the share that is owed, or processes the next tick.
    fn process_next(&mut self, to: Tick, budget: &mut Budget, due: &mut Due<T>) -> Budgeted {
        if self.early.owes() {
            self.cascade_early(budget)?;
        } else {
            let tick = self.lookahead.work_from;
            debug_assert!(self.cursor < tick && tick <= to);
            self.move_cursors(Tick::new(tick.get() - 1));
            self.process_tick(tick, budget, due)?;
            self.move_cursors(tick);
            self.charge_share();
        }
        self.look_ahead();
        Ok(())
    }

    /// Visits the slots that have work at `tick`, which comes right after the cursor.
    fn process_tick(&mut self, tick: Tick, budget: &mut Budget, due: &mut Due<T>) -> Budgeted {
        if self.slots.paused().is_some() {
            self.resume_visit(tick, budget, due)?;
        }
        for level in 0..self.rings.len() {
            let ring = &self.rings[level];
            let slot = ring.slot(tick);
            if self.slots.has_entries(slot) && ring.visit_of(slot, &self.slots) <= tick {
                self.visit(level, slot, tick, budget, due)?;
            }
        }
        Ok(())
    }

    /// Continues the visit that ran out of budget.
    #[cold]
    fn resume_visit(&mut self, tick: Tick, budget: &mut Budget, due: &mut Due<T>) -> Budgeted {
        for level in 0..self.rings.len() {
            let slot = self.rings[level].slot(tick);
            if self.slots.is_paused_in(slot) {
                return self.visit(level, slot, tick, budget, due);
            }
        }
        debug_assert!(false, "a scan is paused in a slot that no cursor comes to next");
        Ok(())
    }
}

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
    fn visit(
        &mut self,
        level: usize,
        slot: u32,
        tick: Tick,
        budget: &mut Budget,
        due: &mut Due<T>,
    ) -> Budgeted {
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
    fn fire_slot(&mut self, slot: u32, tick: Tick, due: &mut Due<T>) {
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
    fn cascade_slot(&mut self, slot: u32, tick: Tick, due: &mut Due<T>) {
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

    #[inline]
    fn scan<E: Entry>(
        &mut self,
        level: usize,
        tick: Tick,
        budget: &mut Budget,
        due: &mut Due<T>,
    ) -> Budgeted {
        match budget.looks_alone {
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
        due: &mut Due<T>,
    ) -> Budgeted {
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
                        budget.found_due = true;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An advance that takes nothing out looks at no entry twice: after each cancel it continues
    /// from where it stopped.
    #[test]
    fn advance_to_due_visits_no_entry_twice() {
        let mut wheel = Hierarchy::default();
        let count = 10_000;
        let due: Vec<Key> = (0..count)
            .flat_map(|_| {
                wheel.insert(Tick::new(700), ());
                let key = wheel.insert(Tick::new(600), ());
                [key]
            })
            .collect();
        let mut looks = 0;
        for key in due.into_iter().rev() {
            while wheel.advance_to_due(Tick::new(650), 1) != StoppedBy::Due {
                looks += 1;
            }
            assert!(wheel.cancel(key).is_some());
        }
        while wheel.advance_to_due(Tick::new(650), 1) != StoppedBy::End {
            looks += 1;
        }
        assert!(looks <= 5 * count, "{looks}");
    }
}
