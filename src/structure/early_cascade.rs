//! Cascades ahead of time: the entries of a full slot of the second ring move inwards over the ticks
//! before the cursor comes there, so that the tick at which it begins does not pay for all of them.
//!
//! Ground rules:
//!
//! - Only the slot that the second ring comes to next is worked on, in the second half of the way
//!   there, and only if it holds [`EARLY_CASCADE_MIN`] when that half begins. Each tick with work looks at its
//!   share; without any, nobody waits for the cascade either.
//! - An entry moves as soon as the innermost ring reaches its deadline. One that is looked at too
//!   early stays, and the cascade finds it. So this is never wrong to do, and never needed: how far it
//!   came is a hint, which cancels and inserts need not keep right.
//! - Every entry looked at costs one of the budget. What a tick owes when the budget is used up is
//!   worked off by the next advance, before anything else.

use super::Hierarchy;
use super::prefetch::PREFETCH_BATCH;
use crate::values::time::Tick;

/// A cascade of fewer than so many is over in half a millisecond.
const EARLY_CASCADE_MIN: usize = if cfg!(test) { 3 } else { 16_384 };

/// How far the work on the next slot of the second ring has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlyCascade {
    /// When the cursor comes to that slot; zero before there was any.
    visit: Tick,
    /// So many entries, at the front, have not been looked at.
    left: usize,
    /// So many of them were to be looked at by now.
    due_now: usize,
}

impl<T> Hierarchy<T> {
    /// A tick has been worked off: its share of the work ahead is due_now.
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
            let left = if len >= EARLY_CASCADE_MIN { len } else { 0 };
            self.early = EarlyCascade { visit: next.visit, left, due_now: 0 };
        }
        self.early.due_now = (self.early.left as u64).div_ceil(ticks) as usize;
    }

    /// Looks at what is due_now; whether the budget sufficed.
    #[inline]
    pub(super) fn cascade_early(&mut self, budget: &mut usize) -> bool {
        self.early.due_now == 0 || self.cascade_share(budget)
    }

    fn cascade_share(&mut self, budget: &mut usize) -> bool {
        let next = self.rings[1].next_spot();
        debug_assert_eq!(self.early.visit, next.visit, "the cursor waits for what is due_now");
        // Entries may have gone since.
        let mut left = self.early.left.min(self.slots.of(next.slot).len());
        let due_now = self.early.due_now.min(left);
        let count = due_now.min(*budget);
        *budget -= count;
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
        self.early.due_now == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::{Geometry, Key};

    /// A timer at each of the ticks 4 to 7, and seven in the slot of the second ring that begins at 8.
    fn with_a_full_slot() -> (Hierarchy<u64>, Vec<Key>) {
        let mut wheel = Hierarchy::new(Geometry::levels(&[8, 8]).unwrap());
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
    fn what_is_looked_at_ahead_costs_budget() {
        let (mut wheel, keys) = with_a_full_slot();
        let mut due = Vec::new();
        let turn = wheel.advance(Tick::new(4), 1, &mut due);
        assert_eq!((due.len(), turn.finished, moved(&wheel, &keys)), (1, true, 0));
        // Tick 4 owes a look at two of seven, which come first.
        let mut finished = || wheel.advance(Tick::new(5), 1, &mut due).finished;
        assert_eq!([finished(), finished(), finished()], [false, false, true]);
        assert_eq!(due.len(), 2);
    }

    #[test]
    fn nothing_is_owed_of_what_was_cancelled() {
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
