//! The lookahead: most ticks have no work, and most of the others only visit one slot of the innermost ring. Two lower
//! bounds tell an advance which ticks these are, without a look at the rings:
//!
//! - before `work_from` no timer is due on any ring, and no share is owed: the cursors may move up
//!   to there without a look;
//! - before `outer_from` the only work is to visit whole slots of the innermost ring: no other ring
//!   has work, no scan is paused, and no share of an early cascade is owed or can come to be owed.
//!   `outer_from` is no later than the end of that ring's cycle.
//!
//! Ground rules:
//!
//! - Both are lower bounds. So an operation that only removes or postpones timers (a cancel, a
//!   reset to a later deadline) leaves them as they are.
//! - An insert, or a reset to an earlier deadline, lowers `work_from` to its deadline. It leaves
//!   `outer_from`, because an entry on an outer ring is due in a later cycle of the innermost. A
//!   slot that becomes full lowers both: it is visited when it begins, and may cascade early. If
//!   the slot's array had room already, only the next `look_ahead` notices that the slot is full.
//!   That costs time, but no timer is lost or late.
//! - An advance raises them: along the innermost ring from one occupied slot to the next
//!   (`Hierarchy::run_innermost`), and after any other work by a look at every ring
//!   (`Hierarchy::look_ahead`).
//! - `work_from` always lies after the cursor. So a deadline that has passed lies before
//!   `work_from`, and an insert needs one comparison. If `outer_from` is no later than `work_from`,
//!   it says nothing.

use super::Hierarchy;
use super::entries::{Entry, Inner, Outermost};
use crate::values::time::Tick;

#[derive(Clone, Copy, Debug)]
pub(super) struct Lookahead {
    pub(super) work_from: Tick,
    pub(super) outer_from: Tick,
}

impl Lookahead {
    /// The bounds of a hierarchy without timers, at any tick.
    pub(super) const EMPTY: Lookahead =
        Lookahead { work_from: Tick::MAX, outer_from: Tick::new(0) };

    /// The bounds when nothing is known of the ticks after `cursor`.
    pub(super) fn unknown(cursor: Tick) -> Lookahead {
        Lookahead { work_from: Tick::new(cursor.get() + 1), outer_from: Tick::new(0) }
    }
}

impl<T> Hierarchy<T> {
    /// Lowers `work_from`, if need be, for a timer that is about to lie on a ring. Returns the tick
    /// at which the timer is due: its deadline, or the next tick if that has passed.
    #[inline(always)]
    pub(super) fn note_deadline(&mut self, deadline: Tick) -> Tick {
        if deadline < self.lookahead.work_from { self.note_first(deadline) } else { deadline }
    }

    #[inline]
    fn note_first(&mut self, deadline: Tick) -> Tick {
        let due = deadline.max(Tick::new(self.cursor.get() + 1));
        self.lookahead.work_from = due;
        due
    }

    /// Lowers both bounds for a slot that has become full.
    pub(super) fn note_full(&mut self, slot: u32) {
        let ring = self.rings.iter().find(|ring| ring.numbers().contains(&slot));
        let visit = ring.map_or(Tick::MAX, |ring| ring.visit_of(slot, &self.slots));
        let work_from = self.lookahead.work_from.min(visit);
        self.lookahead = Lookahead { work_from, outer_from: Tick::new(0) };
    }

    /// Looks at every ring, and raises both bounds as far as possible.
    pub(super) fn look_ahead(&mut self) {
        debug_assert!(self.slots.paused().is_none(), "a paused scan comes first");
        if self.early.owes() {
            self.lookahead = Lookahead::unknown(self.cursor);
            return;
        }
        let under_cursors = self.rings.iter().skip(1);
        let under_cursors = under_cursors.filter_map(|ring| ring.visit_under_cursor(&self.slots));
        // No outer ring comes to its next slot before the second ring does, and `share_owed_from`
        // is no later than that.
        let outer_from = under_cursors.fold(self.share_owed_from(), Tick::min);
        let work_from = self.next_turn().unwrap_or(Tick::MAX);
        self.lookahead = Lookahead { work_from, outer_from };
    }

    /// Returns the earliest deadline. Looks at the header of every slot with entries, and at the
    /// timers of only those slots that may hold it.
    pub(crate) fn earliest_deadline(&self) -> Option<Tick> {
        self.find_earliest().0
    }

    /// Returns the earliest deadline, and how many timers were looked at.
    fn find_earliest(&self) -> (Option<Tick>, usize) {
        let occupied = || {
            let next = |slot: u32| self.slots.first_occupied(slot..self.slots.count());
            core::iter::successors(next(0), move |&slot| next(slot + 1))
        };
        let first_due = |slot: u32| self.slots.first_due(slot);
        let Some(first) = occupied().min_by_key(|&slot| first_due(slot)) else { return (None, 0) };
        let (mut earliest, mut looked_at) = (self.earliest_in(first), self.slots.len(first));
        // A timer whose deadline has passed is due at the next tick. Its slot's `first_due` is that
        // tick, not the deadline.
        let next = Tick::new(self.cursor.get() + 1);
        for slot in occupied().filter(|&slot| slot != first) {
            if first_due(slot) <= earliest.max(next) {
                earliest = earliest.min(self.earliest_in(slot));
                looked_at += self.slots.len(slot);
            }
        }
        (Some(earliest), looked_at)
    }

    fn earliest_in(&self, slot: u32) -> Tick {
        match self.slots.is_inner(slot) {
            true => self.earliest_of(self.slots.entries_of::<Inner>(slot)),
            false => self.earliest_of(self.slots.entries_of::<Outermost>(slot)),
        }
    }

    fn earliest_of<E: Entry>(&self, entries: &[E]) -> Tick {
        let deadlines = entries.iter().map(|entry| self.table.at(entry.node()).deadline);
        deadlines.min().unwrap_or(Tick::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::{Geometry, Key, Tuning};

    fn level<T>(wheel: &Hierarchy<T>, key: Key) -> Option<usize> {
        wheel.location(key).map(|location| location.level)
    }

    fn advance<T>(wheel: &mut Hierarchy<T>, to: u64) -> usize {
        let mut due = Vec::new();
        assert!(wheel.advance(Tick::new(to), usize::MAX, &mut due).finished);
        wheel.check().unwrap();
        due.len()
    }

    /// A slot of an outer ring cascades at the deadline of its first timer, and not when the slot begins.
    #[test]
    fn slot_waits_for_the_first_of_its_timers() {
        let mut wheel = Hierarchy::new(Geometry::levels(&[8, 8]).unwrap());
        let (first, last) = (wheel.insert(Tick::new(19), ()), wheel.insert(Tick::new(22), ()));
        assert_eq!(wheel.next_turn(), Some(Tick::new(19)));
        assert_eq!(advance(&mut wheel, 18), 0);
        assert_eq!((level(&wheel, first), level(&wheel, last)), (Some(1), Some(1)));
        // A timer for the same slot, one cycle later.
        let later = wheel.insert(Tick::new(18 + 64), ());
        assert_eq!(wheel.next_turn(), Some(Tick::new(19)));
        assert_eq!(advance(&mut wheel, 19), 1);
        assert_eq!((level(&wheel, last), level(&wheel, later)), (Some(0), Some(1)));
        assert_eq!(advance(&mut wheel, 81), 1);
        assert_eq!(advance(&mut wheel, 82), 1);
    }

    /// A full slot cascades when the slot begins.
    #[test]
    fn full_slot_cascades_when_it_begins() {
        let tuning = Tuning { early_cascade_min: 3, ..Tuning::DEFAULT };
        let mut wheel = Hierarchy::with_tuning(Geometry::levels(&[8, 8]).unwrap(), tuning);
        let keys: Vec<Key> = (0..7).map(|_| wheel.insert(Tick::new(22), ())).collect();
        assert_eq!(wheel.next_turn(), Some(Tick::new(16)));
        assert_eq!(advance(&mut wheel, 15), 0);
        assert!(keys.iter().all(|&key| level(&wheel, key) == Some(1)));
        assert_eq!(advance(&mut wheel, 16), 0);
        assert!(keys.iter().all(|&key| level(&wheel, key) == Some(0)));
        assert_eq!(advance(&mut wheel, 22), 7);
    }

    /// A caller that goes from deadline to deadline looks at few timers at each step, of however
    /// many.
    #[test]
    fn earliest_deadline_is_found_by_visits_of_few_timers() {
        let mut wheel = Hierarchy::default();
        let count = 20_000;
        for n in 0..count {
            wheel.insert(Tick::new(1 + n * 7 % (50 * count)), ());
        }
        let mut looked_at = 0;
        while let (Some(next), looks) = wheel.find_earliest() {
            let mut due = Vec::new();
            assert!(wheel.advance(next, usize::MAX, &mut due).finished && due.len() == 1);
            looked_at += looks;
        }
        assert!(looked_at as u64 <= 10 * count, "{looked_at}");
    }

    /// The bounds of the lookahead follow inserts, resets and advances.
    #[test]
    fn lookahead_bounds_follow_inserts_resets_and_advances() {
        let mut wheel = Hierarchy::new(Geometry::levels(&[8, 8]).unwrap());
        let far = wheel.insert(Tick::new(40), ());
        assert_eq!(wheel.lookahead.work_from, Tick::new(40));
        let near = wheel.insert(Tick::new(5), ());
        assert_eq!(wheel.lookahead.work_from, Tick::new(5));
        assert_eq!(advance(&mut wheel, 5), 1);
        let Lookahead { work_from, outer_from } = wheel.lookahead;
        assert_eq!((work_from, outer_from), (Tick::new(40), Tick::new(8)));
        assert!(wheel.reset(far, Tick::new(7)) && !wheel.contains(near));
        assert_eq!(wheel.lookahead.work_from, Tick::new(7));
        wheel.insert(Tick::new(2), ());
        assert_eq!(wheel.lookahead.work_from, Tick::new(6), "what has passed is due next");
    }
}
