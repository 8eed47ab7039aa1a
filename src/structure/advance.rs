//! The advance: goes from one tick with work to the next, and visits the slots that begin there.
//!
//! Ground rules:
//!
//! - [`Hierarchy::next_turn`] names the next tick with work; the ticks before it are not stepped
//!   through.
//! - A visit decides the [`Fate`] of each entry of its slot: it fires, it moves to where its
//!   deadline lies now (inwards, unless the deadline was pushed back), or it stays for another
//!   cycle.
//! - Every entry that a visit or an early cascade looks at costs one of the [`Budget`], before it
//!   is looked at.
//!
//! The state between two advances is one of three:
//!
//! | state | `cursor` | `slots.paused()` | `early` owes |
//! | --- | --- | --- | --- |
//! | at rest | the last processed tick, `to` or before | none | nothing |
//! | stopped between two ticks | the last processed tick | none | a share: it comes first |
//! | stopped within a tick | the tick before it | the scan of one slot of that tick | nothing |
//!
//! The third is a structure like any other, whose next tick is the one that was not finished. Of
//! the slots of that tick the paused one comes first, so no second scan is ever paused. The order
//! of the others is free: all timers that fire at one tick are ties.

use super::Hierarchy;
use super::budget::{Budget, OutOfBudget};
use super::prefetch::PREFETCH_BATCH;
use super::ring::Spot;
use super::slots::Entry;
use super::table::Key;
use crate::values::time::Tick;

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

/// What a visit does with an entry.
enum Fate {
    /// The cycle count has not run out: the entry stays, unread.
    Waits,
    /// The deadline lies one or more cycles later in this slot: the entry stays for that visit.
    Stays(Spot),
    /// The deadline lies in another slot.
    MovesTo(Spot),
    /// The timer is due.
    Fires,
}

impl<T> Hierarchy<T> {
    /// Advances to tick `to` and appends the timers that are due to `due`, in the order of their
    /// deadlines. A deadline that had passed when it was given counts as one of the next tick after
    /// that. Ties come in any order. A tick that lies before [`Hierarchy::now`] changes nothing.
    ///
    /// Looks at no more than `limit` entries, firing or moving them, then returns with
    /// [`Turn::finished`] false; a limit of zero gets nowhere unless nothing is left to do. A timer
    /// that is due but was not reached is still pending, and can be cancelled or reset.
    ///
    /// Costs a few steps for each tick that has work and a few for each entry looked at; ticks
    /// without work cost nothing. When few timers are left of many, the call ends with a move of
    /// those to less memory, as described at [`Hierarchy::cancel`]; the limit does not count them.
    pub fn advance(&mut self, to: Tick, mut limit: usize, due: &mut Vec<(Key, T)>) -> Turn {
        self.advance_counting(to, &mut limit, due)
    }

    /// Does what [`Hierarchy::advance`] does, and takes the entries that it looked at off the limit.
    pub(crate) fn advance_counting(
        &mut self,
        to: Tick,
        limit: &mut usize,
        due: &mut Vec<(Key, T)>,
    ) -> Turn {
        let mut budget = Budget::new(*limit);
        let finished = self.advance_within(to, &mut budget, due).is_ok();
        *limit = budget.left();
        self.shrink_if_sparse();
        Turn { now: self.now(), finished }
    }

    fn advance_within(
        &mut self,
        to: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
        loop {
            if self.cursor < to {
                self.cascade_early(budget)?;
            }
            self.run_innermost(to, budget, due)?;
            let Some(tick) = self.next_turn().filter(|&tick| tick <= to) else { break };
            self.move_cursors(Tick::new(tick.get() - 1));
            self.process_tick(tick, budget, due)?;
            self.move_cursors(tick);
            self.charge_share();
        }
        self.move_cursors(to);
        Ok(())
    }

    /// Moves the cursors of all rings to `to`. The caller has processed every tick with work up to
    /// there.
    fn move_cursors(&mut self, to: Tick) {
        self.ended |= to == Tick::MAX;
        let to = to.min(Tick::new(u64::MAX - 1));
        if to <= self.cursor {
            return;
        }
        self.cursor = to;
        for ring in &mut self.rings {
            if !ring.move_to(to) {
                // A slot that has not ended lies in one that has not ended either.
                break;
            }
        }
    }

    /// Visits the slots that begin at `tick`, which comes right after the cursor.
    fn process_tick(
        &mut self,
        tick: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
        if self.slots.paused().is_some() {
            self.resume_visit(budget, due)?;
        }
        for level in 0..self.rings.len() {
            let ring = &self.rings[level];
            if !ring.moves_on_at(tick) {
                break;
            }
            let spot = ring.next_spot();
            if self.slots.has_work(spot) {
                self.visit(level, spot, budget, due)?;
            }
        }
        Ok(())
    }

    /// Continues the visit that ran out of budget. The other slots of its tick come after it.
    #[cold]
    fn resume_visit(
        &mut self,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
        for level in 0..self.rings.len() {
            let spot = self.rings[level].next_spot();
            if self.slots.is_paused_in(spot.slot) {
                return self.visit(level, spot, budget, due);
            }
        }
        debug_assert!(false, "a scan is paused in a slot that no cursor comes to next");
        Ok(())
    }

    /// Processes the ticks up to `to` at which the innermost ring alone moves on: between two
    /// visits lies only the search for the next occupied slot.
    fn run_innermost(
        &mut self,
        to: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
        let Some(outer) = self.rings.get(1) else { return Ok(()) };
        let last = to.min(Tick::new(outer.next_slot_begins().get() - 1));
        while let Some(spot) = self.rings[0].next_occupied(last, &self.slots) {
            if let Err(stop) = self.visit(0, spot, budget, due) {
                self.move_cursors(Tick::new(spot.visit.get() - 1));
                return Err(stop);
            }
            self.move_cursors(spot.visit);
            self.charge_share();
            if self.cursor < to {
                self.cascade_early(budget)?;
            }
        }
        self.move_cursors(last);
        Ok(())
    }

    /// Looks at every entry of the slot that the cursor of `level` comes to at `spot`.
    ///
    /// The innermost ring may still stand some ticks before `spot`. An entry that moves then may
    /// lie further out than it has to, but never later.
    fn visit(
        &mut self,
        level: usize,
        spot: Spot,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
        let mut scan = self.slots.begin_scan(spot);
        // The slot stays empty until `put_back`: an entry that moves goes to another slot, and one
        // whose deadline lies in this slot again stays in `entries`.
        let mut entries = self.slots.take_entries(spot.slot);
        while scan.left > 0 {
            let count = budget.take(scan.left.min(PREFETCH_BATCH));
            if count == 0 {
                break;
            }
            let first = scan.left - count;
            self.fetch(spot, &entries[first..scan.left]);
            for position in (first..scan.left).rev() {
                let entry = entries[position];
                match self.fate(entry, spot) {
                    Fate::Waits => scan.keep(self.rings[level].visit_of(spot.slot, entry.cycle)),
                    Fate::Stays(later) => {
                        entries[position].cycle = later.cycle;
                        scan.keep(later.visit);
                    }
                    Fate::MovesTo(target) => {
                        self.link(entry.node, target);
                        self.swap_remove_entry(&mut entries, position);
                    }
                    Fate::Fires => {
                        due.push(self.table.take(entry.node));
                        self.swap_remove_entry(&mut entries, position);
                    }
                }
            }
            scan.left = first;
        }
        self.slots.put_back(scan, entries)
    }

    /// Decides what a visit at `spot` does with an entry of its slot.
    #[inline(always)]
    fn fate(&self, entry: Entry, spot: Spot) -> Fate {
        if !entry.may_be_due_at(spot) {
            return Fate::Waits;
        }
        let deadline = self.table.at(entry.node).deadline;
        if deadline <= spot.visit {
            return Fate::Fires;
        }
        let target = self.spot(deadline);
        if target.slot == spot.slot { Fate::Stays(target) } else { Fate::MovesTo(target) }
    }

    /// Takes an entry out of the array that a visit took from its slot, and tells the node of the
    /// entry that moved into its position.
    #[inline]
    fn swap_remove_entry(&mut self, entries: &mut Vec<Entry>, position: usize) {
        entries.swap_remove(position);
        if let Some(moved) = entries.get(position) {
            self.table.at_mut(moved.node).position = position as u32;
        }
    }
}
