//! The advance: from one tick with work to the next, visiting the slots that begin there.
//!
//! Ground rules:
//!
//! - Ticks without work are not stepped through: [`Hierarchy::next_turn`] says where to go.
//! - While a tick is worked off, the cursor stands right before it. Whatever interrupts (the budget)
//!   leaves a structure like any other, whose next turn is that same tick.
//! - In a visited slot an entry fires, moves to where its deadline lies now (inwards, unless the
//!   deadline was pushed back), or waits for another cycle. The innermost ring is visited first: it
//!   alone can hold deadlines from before this tick, and they fire first.
//! - Every entry looked at costs one of the budget.

use core::cmp::Reverse;
use core::ops::Range;

use super::Hierarchy;
use super::ring::Spot;
use super::slots::Scan;
use crate::table::Key;
use crate::time::Tick;

/// So many nodes are looked at together. Each look is a cache miss when there are many timers, and
/// misses that do not wait for each other overlap.
const TOGETHER: usize = 8;

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
        while let Some(tick) = self.next_turn().filter(|&tick| tick <= to) {
            self.turn_to(Tick::new(tick.get() - 1));
            if !self.work_off(tick, &mut budget, due) {
                return Turn { now: self.now(), finished: false };
            }
            self.turn_to(tick);
        }
        self.turn_to(to);
        Turn { now: self.now(), finished: true }
    }

    /// Moves the cursors of all rings; there is no work up to `to`.
    fn turn_to(&mut self, to: Tick) {
        self.ended |= to == Tick::MAX;
        let to = to.min(Tick::new(u64::MAX - 1));
        if to <= self.cursor {
            return;
        }
        self.cursor = to;
        self.late = false;
        self.ordered = false;
        for ring in &mut self.rings {
            if !ring.turn_to(to) {
                // A slot that has not ended lies in one that has not ended either.
                break;
            }
        }
    }

    /// Visits the slots that begin at `tick`, which is the next; whether the budget sufficed.
    fn work_off(&mut self, tick: Tick, budget: &mut usize, due: &mut Vec<(Key, T)>) -> bool {
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
            if !self.visit(level, budget, due) {
                return false;
            }
        }
        true
    }

    /// Looks at every entry of the slot that the cursor of a level comes to; whether the budget
    /// sufficed.
    fn visit(&mut self, level: usize, budget: &mut usize, due: &mut Vec<(Key, T)>) -> bool {
        let spot = self.rings[level].next_spot();
        let mut scan = self.slots.begin_scan(spot.slot);
        while scan.left > 0 {
            let count = scan.left.min(*budget).min(TOGETHER);
            if count == 0 {
                self.slots.pause(scan);
                return false;
            }
            *budget -= count;
            let first = scan.left - count;
            let deadlines = self.deadlines(spot, first..scan.left);
            for position in (first..scan.left).rev() {
                self.settle(level, spot, position, deadlines[position - first], &mut scan, due);
            }
            scan.left = first;
        }
        self.slots.end_scan(scan);
        true
    }

    /// The deadlines of some entries of a slot, save of those that wait for another cycle. A loop
    /// with nothing else in it: the loads do not wait for each other.
    #[inline]
    fn deadlines(&self, spot: Spot, range: Range<usize>) -> [Tick; TOGETHER] {
        let mut deadlines = [Tick::default(); TOGETHER];
        for (deadline, entry) in deadlines.iter_mut().zip(&self.slots.of(spot.slot)[range]) {
            if entry.may_be_due_at(spot) {
                *deadline = self.table.at(entry.place).deadline;
            }
        }
        deadlines
    }

    /// Fires an entry that is visited, moves it to where it belongs now, or lets it wait.
    #[inline]
    fn settle(
        &mut self,
        level: usize,
        spot: Spot,
        position: usize,
        deadline: Tick,
        scan: &mut Scan,
        due: &mut Vec<(Key, T)>,
    ) {
        let entry = self.slots.of(spot.slot)[position];
        if !entry.may_be_due_at(spot) {
            scan.keep(self.rings[level].visit_of(spot.slot, entry.cycle));
            return;
        }
        if deadline <= spot.visit {
            self.unlink(spot.slot, position as u32);
            due.push(self.table.take(entry.place));
            return;
        }
        let target = self.locate(deadline);
        if target.slot == spot.slot {
            // A cycle later, or many: the scan is past it.
            self.slots.postpone(spot.slot, position, target.cycle);
            scan.keep(target.visit);
        } else {
            self.unlink(spot.slot, position as u32);
            self.link(entry.place, target);
        }
    }

    /// Orders the next slot of the innermost ring so that the scan, which begins at its back, meets
    /// the earliest deadline first.
    fn sort_late(&mut self, slot: u32) {
        self.ordered = true;
        let table = &self.table;
        self.slots.sort_by_key(slot, |entry| Reverse(table.at(entry.place).deadline));
        for (position, entry) in self.slots.of(slot).iter().enumerate() {
            self.table.at_mut(entry.place).position = position as u32;
        }
    }
}
