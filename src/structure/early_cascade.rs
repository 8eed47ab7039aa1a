//! The early cascade: moves the entries of a full slot of the second ring inwards, a share at each of the ticks before
//! the slot begins. So its first tick does not pay for all of them.
//!
//! Ground rules:
//!
//! - Only the slot that the second ring comes to next is cascaded early, in the second half of the
//!   way there, and only if it holds [`Tuning::early_cascade_min`] entries or more when the first
//!   share is charged. Each tick with work pays a share. If no tick has work, no share is paid, but
//!   no timer waits for the cascade either.
//! - An entry that is looked at moves if the innermost ring reaches its deadline. Otherwise it
//!   stays, and the visit of the slot finds it. So an early cascade may do too little without harm,
//!   and `left` is a hint, which cancels and inserts need not update.
//! - Every entry looked at costs one of the budget. If that is used up, the next advance pays the
//!   rest of the share (`due_now`) before anything else.
//!
//! [`Tuning::early_cascade_min`]: super::Tuning::early_cascade_min

use super::entries::{Entry, Inner, Outermost};
use super::ring::Spot;
use super::slots::{Budget, Budgeted, OutOfBudget};
use super::{Hierarchy, PREFETCH_BATCH};
use crate::values::time::Tick;

/// How far the early cascade of the next slot of the second ring has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EarlyCascade {
    /// When the cursor comes to that slot; zero before the first early cascade.
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

    /// Returns whether nothing is left to do before the slot that begins at `visit`.
    fn is_done_before(&self, visit: Tick) -> bool {
        self.visit == visit && self.left == 0
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
        let visit = self.rings[1].next_slot_begins();
        if self.early.visit != visit {
            self.early = EarlyCascade { visit, left: self.full_len(), due_now: 0 };
        }
        self.early.due_now = (self.early.left as u64).div_ceil(ticks) as usize;
    }

    /// Returns the number of entries in the slot that the second ring comes to next; zero if the
    /// slot is not full, or if none of them may be due there.
    fn full_len(&self) -> usize {
        let next = &self.rings[1];
        let slot = next.next_slot();
        let ends = next.next_slot_begins().get().saturating_add(next.width());
        let is_full = self.slots.is_full(slot) && self.slots.first_due(slot).get() < ends;
        if is_full { self.slots.len(slot) } else { 0 }
    }

    /// Returns the first tick after which a share may be charged; zero for a single ring, which has
    /// no second one to look at. If a slot becomes full later, `Hierarchy::push_with_room` notes it
    /// if the slot's array grows then; if not, the next `look_ahead` notices it.
    pub(super) fn share_owed_from(&self) -> Tick {
        let Some(outer) = self.rings.get(1) else { return Tick::new(0) };
        let visit = outer.next_slot_begins();
        let cascades = self.full_len() > 0 && !self.early.is_done_before(visit);
        if cascades { Tick::new(visit.get() - outer.width() / 2) } else { visit }
    }

    /// Pays the share that has been charged.
    pub(super) fn cascade_early(&mut self, budget: &mut Budget) -> Budgeted {
        match self.rings.len() {
            2 => self.cascade_share::<Outermost>(budget),
            _ => self.cascade_share::<Inner>(budget),
        }
    }

    fn cascade_share<E: Entry>(&mut self, budget: &mut Budget) -> Budgeted {
        let visit = self.rings[1].next_slot_begins();
        debug_assert_eq!(self.early.visit, visit, "the cursor waits for the share");
        let Spot { slot, cycle } = self.rings[1].spot(visit);
        // Cancels may have made the slot shorter than the hint.
        let mut left = self.early.left.min(self.slots.len(slot));
        let due_now = self.early.due_now.min(left);
        let count = budget.take(due_now);
        self.early.left = left - count;
        self.early.due_now = due_now - count;
        while left > self.early.left {
            let first = left.saturating_sub(PREFETCH_BATCH).max(self.early.left);
            self.table.fetch_due(&self.slots.entries_of::<E>(slot)[first..left], cycle);
            for position in (first..left).rev() {
                let entry = self.slots.entries_of::<E>(slot)[position];
                let deadline = self.table.at(entry.node()).deadline;
                if entry.may_be_due_in(cycle) && self.rings[0].reaches(deadline) {
                    self.unlink(slot, position as u32);
                    self.link(self.rings[0].spot(deadline), entry.node(), deadline);
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
    use crate::structure::{Geometry, Key, Tuning};

    /// A timer at each of the ticks 4 to 7; and seven, whose keys are returned, in the slot of the
    /// second ring that begins at 8.
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

    /// Each tick before a full slot moves a few of its timers inward, so no tick pays for all of them.
    #[test]
    fn full_slot_moves_over_the_ticks_before_it() {
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

    /// Entries that are visited early count against the budget of the advance.
    #[test]
    fn early_cascade_costs_budget() {
        let (mut wheel, keys) = with_a_full_slot();
        let mut due = Vec::new();
        let turn = wheel.advance(Tick::new(4), 1, &mut due);
        assert_eq!((due.len(), turn.finished, moved(&wheel, &keys)), (1, true, 0));
        // Tick 4 owes a look at two of seven entries, which comes first.
        let mut finished = || wheel.advance(Tick::new(5), 1, &mut due).finished;
        assert_eq!([finished(), finished(), finished()], [false, false, true]);
        assert_eq!(due.len(), 2);
    }

    /// An advance has no early work left if the timers of the full slot are cancelled.
    #[test]
    fn early_cascade_ignores_cancelled_timers() {
        let (mut wheel, keys) = with_a_full_slot();
        let mut due = Vec::new();
        assert!(wheel.advance(Tick::new(4), 1, &mut due).finished);
        let rest: Vec<Key> = wheel.table.iter().map(|(key, _)| key).collect();
        assert_eq!(rest.len(), keys.len() + 3);
        assert!(rest.iter().all(|&key| wheel.cancel(key).is_some()));
        assert!(wheel.advance(Tick::new(100), 0, &mut due).finished, "nothing is left to do");
    }

    /// An advance to a tick that has passed moves no timer.
    #[test]
    fn advance_to_the_past_changes_nothing() {
        let (mut wheel, keys) = with_a_full_slot();
        let mut due = Vec::new();
        assert!(wheel.advance(Tick::new(4), 1, &mut due).finished);
        for tick in [0, 4] {
            assert!(wheel.advance(Tick::new(tick), usize::MAX, &mut due).finished);
            assert_eq!(moved(&wheel, &keys), 0);
        }
    }
}
