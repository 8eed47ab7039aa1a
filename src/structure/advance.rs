//! The advance: from one tick with work to the next, visiting the slots that begin there.
//!
//! Ground rules:
//!
//! - Ticks without work are not stepped through: [`Hierarchy::next_turn`] says where to go.
//! - Whatever interrupts a tick (the budget) leaves the cursor right before it: a structure like
//!   any other, whose next turn is that same tick. The work ahead is interrupted between two ticks.
//! - In a visited slot an entry fires, moves to where its deadline lies now (inwards, unless the
//!   deadline was pushed back), or waits for another cycle. The innermost ring is visited first: it
//!   alone can hold deadlines from before this tick, and they fire first.
//! - Every entry looked at costs one of the budget.

use core::cmp::Reverse;

use super::Hierarchy;
use super::prefetch::PREFETCH_BATCH;
use super::ring::Spot;
use super::slots::Entry;
use super::table::Key;
use crate::values::time::Tick;

/// How far an advance came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "an unfinished advance leaves timers due: call it again"]
pub struct Turn {
    /// The last tick that was worked off to its end: [`Hierarchy::now`].
    pub now: Tick,
    /// Whether everything up to the tick that was asked for is done. If not, the limit was reached
    /// first; the next advance goes on where this one stopped.
    pub finished: bool,
}

impl<T> Hierarchy<T> {
    /// Advances to tick `to` and appends what is due to `due`: in the order of deadlines, ties in
    /// any order. A tick that lies before [`Hierarchy::now`] changes nothing.
    ///
    /// Looks at no more than `limit` entries, firing or moving them, then returns with
    /// [`Turn::finished`] false; a limit of zero gets nowhere unless nothing is left to do. What is
    /// due but was not reached is still pending, and can be cancelled or reset.
    ///
    /// Costs a few steps for each tick that has work and a few for each entry looked at; ticks
    /// without work cost nothing.
    pub fn advance(&mut self, to: Tick, limit: usize, due: &mut Vec<(Key, T)>) -> Turn {
        let mut budget = limit;
        let finished = self.advance_within(to, &mut budget, due);
        self.table.give_up();
        Turn { now: self.now(), finished }
    }

    fn advance_within(&mut self, to: Tick, budget: &mut usize, due: &mut Vec<(Key, T)>) -> bool {
        loop {
            if self.cursor < to && !self.cascade_early(budget) {
                return false;
            }
            if !self.run_innermost(to, budget, due) {
                return false;
            }
            let Some(tick) = self.next_turn().filter(|&tick| tick <= to) else { break };
            self.move_cursors(Tick::new(tick.get() - 1));
            if !self.process_tick(tick, budget, due) {
                return false;
            }
            self.move_cursors(tick);
            self.charge_share();
        }
        self.move_cursors(to);
        true
    }

    /// Moves the cursors of all rings; there is no work up to `to`.
    fn move_cursors(&mut self, to: Tick) {
        self.ended |= to == Tick::MAX;
        let to = to.min(Tick::new(u64::MAX - 1));
        if to <= self.cursor {
            return;
        }
        self.cursor = to;
        self.late = false;
        self.ordered = false;
        for ring in &mut self.rings {
            if !ring.move_to(to) {
                // A slot that has not ended lies in one that has not ended either.
                break;
            }
        }
    }

    /// Visits the slots that begin at `tick`, which is the next; whether the budget sufficed.
    fn process_tick(&mut self, tick: Tick, budget: &mut usize, due: &mut Vec<(Key, T)>) -> bool {
        for level in 0..self.rings.len() {
            let ring = &self.rings[level];
            if !ring.moves_on_at(tick) {
                break;
            }
            let spot = ring.next_spot();
            if !self.slots.has_work(spot) {
                continue;
            }
            if level == 0 && self.late && !self.ordered {
                self.sort_late(spot.slot);
            }
            if !self.visit(level, spot, budget, due) {
                return false;
            }
        }
        true
    }

    /// Works off the ticks up to `to` at which the innermost ring alone moves on: between two
    /// visits lies nothing but the look for the next occupied slot. Whether the budget sufficed.
    fn run_innermost(&mut self, to: Tick, budget: &mut usize, due: &mut Vec<(Key, T)>) -> bool {
        if self.late {
            // The next slot may have to be put in order.
            return true;
        }
        let Some(outer) = self.rings.get(1) else { return true };
        let last = to.min(Tick::new(outer.next_slot_begins().get() - 1));
        while let Some(spot) = self.rings[0].next_occupied(last, &self.slots) {
            if !self.visit(0, spot, budget, due) {
                self.move_cursors(Tick::new(spot.visit.get() - 1));
                return false;
            }
            self.move_cursors(spot.visit);
            self.charge_share();
            if self.cursor < to && !self.cascade_early(budget) {
                return false;
            }
        }
        self.move_cursors(last);
        true
    }

    /// Looks at every entry of a slot that the cursor of a level comes to; whether the budget
    /// sufficed.
    ///
    /// The innermost ring may still stand some ticks before `spot`: what moves then lies further
    /// out than it has to, never later.
    fn visit(
        &mut self,
        level: usize,
        spot: Spot,
        budget: &mut usize,
        due: &mut Vec<(Key, T)>,
    ) -> bool {
        let mut scan = self.slots.begin_scan(spot.slot);
        // Nothing comes into the slot meanwhile: what moves, moves elsewhere.
        let mut entries = self.slots.take_entries(spot.slot);
        while scan.left > 0 && *budget > 0 {
            let count = scan.left.min(*budget).min(PREFETCH_BATCH);
            *budget -= count;
            let first = scan.left - count;
            self.fetch(spot, &entries[first..scan.left]);
            for position in (first..scan.left).rev() {
                let entry = entries[position];
                if !entry.may_be_due_at(spot) {
                    scan.keep(self.rings[level].visit_of(spot.slot, entry.cycle));
                    continue;
                }
                let deadline = self.table.at(entry.node).deadline;
                if deadline <= spot.visit {
                    due.push(self.table.take(entry.node));
                } else {
                    let target = self.spot(deadline);
                    if target.slot == spot.slot {
                        // A cycle later, or many: the scan is past it.
                        entries[position].cycle = target.cycle;
                        scan.keep(target.visit);
                        continue;
                    }
                    self.link(entry.node, target);
                }
                self.swap_remove_entry(&mut entries, position);
            }
            scan.left = first;
        }
        self.slots.put_back(scan, entries)
    }

    /// Takes an entry out of those that a visit has taken.
    #[inline]
    fn swap_remove_entry(&mut self, entries: &mut Vec<Entry>, position: usize) {
        entries.swap_remove(position);
        if let Some(moved) = entries.get(position) {
            self.table.at_mut(moved.node).position = position as u32;
        }
    }

    /// Orders the next slot of the innermost ring so that the scan, which begins at its back, meets
    /// the earliest deadline first.
    fn sort_late(&mut self, slot: u32) {
        self.ordered = true;
        let table = &self.table;
        self.slots.sort_by_key(slot, |entry| Reverse(table.at(entry.node).deadline));
        for (position, entry) in self.slots.of(slot).iter().enumerate() {
            self.table.at_mut(entry.node).position = position as u32;
        }
    }
}
