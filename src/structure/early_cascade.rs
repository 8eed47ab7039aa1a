//! The early cascade: moves the entries of a full slot of the second ring inwards over the ticks
//! before the cursor comes there, so that the tick at which the slot begins does not pay for all.
//!
//! Ground rules:
//!
//! - Only the slot that the second ring comes to next is cascaded early, in the second half of the
//!   way there, and only if it holds [`Tuning::early_cascade_min`] entries when that half begins.
//!   Each tick with work pays a share. When no tick has work, no timer waits for the cascade
//!   either.
//! - An entry moves as soon as the innermost ring reaches its deadline. One that is looked at
//!   before that stays, and the visit finds it. So an early cascade is never wrong and never
//!   needed, and `left` is a hint, which cancels and inserts need not keep right.
//! - Every entry looked at costs one of the budget. If the budget is used up, the next advance pays
//!   the rest of the share (`due_now`) before anything else.
//!
//! [`Tuning::early_cascade_min`]: super::tuning::Tuning::early_cascade_min

use super::Hierarchy;
use super::budget::{Budget, OutOfBudget};
use super::prefetch::PREFETCH_BATCH;
use crate::values::time::Tick;

/// How far the early cascade of the next slot of the second ring has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlyCascade {
    /// When the cursor comes to that slot; zero before there was any.
    visit: Tick,
    /// How many entries, at the front of the slot, have not been looked at.
    left: usize,
    /// How many of those are to be looked at before the next tick.
    due_now: usize,
}

impl EarlyCascade {
    /// Returns whether a share has been charged and not yet paid.
    pub(super) fn owes(&self) -> bool {
        self.due_now > 0
    }
}

impl<T> Hierarchy<T> {
    /// Charges the share of a tick that has just been processed.
    #[inline]
    pub(super) fn charge_share(&mut self) {
        let Some(outer) = self.rings.get(1) else { return };
        let visit = outer.next_slot_begins();
        let ticks = (visit - self.cursor).get();
        if ticks <= outer.width() / 2 && visit < Tick::MAX {
            self.charge_share_of(ticks);
        }
    }

    fn charge_share_of(&mut self, ticks: u64) {
        let next = self.rings[1].next_spot();
        if self.early.visit != next.visit {
            let len = self.slots.of(next.slot).len();
            let left = if len >= self.tuning.early_cascade_min { len } else { 0 };
            self.early = EarlyCascade { visit: next.visit, left, due_now: 0 };
        }
        self.early.due_now = (self.early.left as u64).div_ceil(ticks) as usize;
    }

    /// Pays the share that has been charged, if one has.
    #[inline]
    pub(super) fn cascade_early(&mut self, budget: &mut Budget) -> Result<(), OutOfBudget> {
        if self.early.owes() { self.cascade_share(budget) } else { Ok(()) }
    }

    fn cascade_share(&mut self, budget: &mut Budget) -> Result<(), OutOfBudget> {
        let next = self.rings[1].next_spot();
        debug_assert_eq!(self.early.visit, next.visit, "the cursor waits for the share");
        // Cancels may have made the slot shorter than the hint.
        let mut left = self.early.left.min(self.slots.of(next.slot).len());
        let due_now = self.early.due_now.min(left);
        let count = budget.take(due_now);
        self.early.left = left - count;
        self.early.due_now = due_now - count;
        while left > self.early.left {
            let first = left.saturating_sub(PREFETCH_BATCH).max(self.early.left);
            self.fetch(next, &self.slots.of(next.slot)[first..left]);
            for position in (first..left).rev() {
                let entry = self.slots.of(next.slot)[position];
                let deadline = self.table.at(entry.node).deadline;
                if entry.may_be_due_at(next) && self.rings[0].reaches(deadline) {
                    let spot = self.spot(deadline);
                    self.unlink(next.slot, position as u32);
                    self.link(entry.node, spot);
                }
            }
            left = first;
        }
        if self.early.owes() { Err(OutOfBudget) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::tuning::Tuning;
    use crate::structure::{Geometry, Key};

    /// A timer at each of the ticks 4 to 7, and seven in the slot of the second ring that begins at
    /// 8.
    fn with_a_full_slot() -> (Hierarchy<u64>, Vec<Key>) {
        let tuning = Tuning { early_cascade_min: 3, ..Tuning::DEFAULT };
        let mut wheel = Hierarchy::with_tuning(Geometry::levels(&[8, 8]).unwrap(), tuning);
        for tick in 4..8 {
            wheel.insert(Tick::new(tick), 0);
        }
        let keys = (9..16).map(|tick| wheel.insert(Tick::new(tick), 1)).collect();
        (wheel, keys)
    }

    fn moved(wheel: &Hierarchy<u64>, keys: &[Key]) -> usize {
        keys.iter().filter(|&&key| wheel.location(key).is_some_and(|it| it.level == 0)).count()
    }

    #[test]
    fn a_full_slot_moves_over_the_ticks_before_it() {
        let (mut wheel, keys) = with_a_full_slot();
        let (mut due, mut before) = (Vec::new(), 0);
        for tick in 1..8 {
            assert!(wheel.advance(Tick::new(tick), usize::MAX, &mut due).finished);
            let now = moved(&wheel, &keys);
            assert!(now <= before + 3, "tick {tick} pays for {now} after {before}");
            before = now;
        }
        assert!(before >= 3, "{before} have moved before the cursor comes there");
        wheel.check().unwrap();
        assert!(wheel.advance(Tick::new(15), usize::MAX, &mut due).finished);
        assert_eq!(due.len(), 4 + keys.len());
    }

    #[test]
    fn an_early_look_costs_budget() {
        let (mut wheel, keys) = with_a_full_slot();
        let mut due = Vec::new();
        let turn = wheel.advance(Tick::new(4), 1, &mut due);
        assert_eq!((due.len(), turn.finished, moved(&wheel, &keys)), (1, true, 0));
        // Tick 4 owes a look at two of seven entries, which comes first.
        let mut finished = || wheel.advance(Tick::new(5), 1, &mut due).finished;
        assert_eq!([finished(), finished(), finished()], [false, false, true]);
        assert_eq!(due.len(), 2);
    }

    #[test]
    fn nothing_is_owed_for_cancelled_timers() {
        let (mut wheel, keys) = with_a_full_slot();
        let mut due = Vec::new();
        assert!(wheel.advance(Tick::new(4), 1, &mut due).finished);
        let rest: Vec<Key> = wheel.table.iter().map(|(key, _)| key).collect();
        assert_eq!(rest.len(), keys.len() + 3);
        assert!(rest.iter().all(|&key| wheel.cancel(key).is_some()));
        assert!(wheel.advance(Tick::new(100), 0, &mut due).finished, "nothing is left to do");
    }

    #[test]
    fn an_advance_to_the_past_changes_nothing() {
        let (mut wheel, keys) = with_a_full_slot();
        let mut due = Vec::new();
        assert!(wheel.advance(Tick::new(4), 1, &mut due).finished);
        for tick in [0, 4] {
            assert!(wheel.advance(Tick::new(tick), usize::MAX, &mut due).finished);
            assert_eq!(moved(&wheel, &keys), 0);
        }
    }
}
