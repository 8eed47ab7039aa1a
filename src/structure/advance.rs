//! The advance: goes from one tick with work to the next, and visits the slots that have some.
//!
//! Ground rules:
//!
//! - [`Lookahead`] says which ticks have no work, and those are not stepped through; and which have
//!   none but a visit to one slot of the innermost ring, for which there is a loop of its own
//!   (`run_innermost`). Everything else is one tick at a time (`process_next`).
//! - A slot of an outer ring is visited when the first of its timers is due, and not when the slot
//!   begins, unless it is full. Until then its entries wait under the cursor, maybe beside entries
//!   for a whole cycle later.
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
//!
//! [`Lookahead`]: super::lookahead::Lookahead

use super::Hierarchy;
use super::budget::{Budget, OutOfBudget};
use super::entry::Inner;
use super::lookahead::Lookahead;
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

    #[inline]
    fn advance_within(
        &mut self,
        to: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
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
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
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
                // A slot that has not ended lies in one that has not ended either.
                break;
            }
        }
    }

    /// Visits the slots of the innermost ring that have work, up to `to`, while no other ring has
    /// any. Stops before a slot for which the budget does not suffice.
    fn run_innermost(&mut self, to: Tick, budget: &mut Budget, due: &mut Vec<(Key, T)>) {
        let Lookahead { work_from: mut tick, outer_from } = self.lookahead;
        while tick < outer_from && tick <= to {
            let slot = self.rings[0].slot(tick);
            if !budget.take_all(self.slots.entries_of::<Inner>(slot).len()) {
                break;
            }
            // The ring still stands some ticks before this one. What moves now may lie further
            // out than it has to, but never later.
            self.fire_slot(slot, tick, due);
            tick = self.rings[0].next_work(tick, outer_from, &self.slots);
        }
        // A slot that has become full meanwhile lies on an outer ring, and begins after all this.
        self.lookahead.work_from = tick;
        self.move_cursors(to.min(Tick::new(tick.get() - 1)));
    }

    /// Does what is to be done next by `to`: pays what is owed, or processes the next tick.
    fn process_next(
        &mut self,
        to: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
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
    fn process_tick(
        &mut self,
        tick: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
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

    /// Continues the visit that ran out of budget. The other slots of its tick come after it.
    #[cold]
    fn resume_visit(
        &mut self,
        tick: Tick,
        budget: &mut Budget,
        due: &mut Vec<(Key, T)>,
    ) -> Result<(), OutOfBudget> {
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
