//! The check: walks everything, the slow way, and names the first invariant that is broken.
//!
//! It follows the definitions, with divisions and searches, so it shares no shortcut with the code
//! that it checks. `docs/invariants.md` explains each number.

use core::fmt;

use super::Hierarchy;
use super::lookahead::Lookahead;
use super::ring::{FAR, MAX_CYCLES, Ring};
use crate::values::time::Tick;

/// A broken invariant: a defect of this crate, found by [`Hierarchy::check`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    invariant: &'static str,
    detail: String,
}

impl Violation {
    /// Returns the number of the invariant in `docs/invariants.md`, like `"I3"`.
    #[must_use]
    pub fn invariant(&self) -> &'static str {
        self.invariant
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

impl std::error::Error for Violation {}

/// Returns a violation from the function unless `$holds`.
macro_rules! hold {
    ($holds:expr, $invariant:literal, $($detail:tt)+) => {
        if !$holds {
            return Err(Violation { invariant: $invariant, detail: format!($($detail)+) });
        }
    };
}

impl<T> Hierarchy<T> {
    /// Checks every invariant, in time that grows with timers and slots. For tests, and for
    /// programs that suspect a defect here.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_cursors()?;
        self.check_nodes()?;
        self.check_moved()?;
        for (level, ring) in self.rings.iter().enumerate() {
            for slot in ring.numbers() {
                self.check_slot(level, ring, slot)?;
            }
        }
        self.check_slots()?;
        self.check_pause()?;
        self.check_next_turn()?;
        self.check_lookahead()
    }

    fn check_cursors(&self) -> Result<(), Violation> {
        let now = self.cursor.get();
        hold!(now < u64::MAX, "I1", "the cursor has no next tick");
        for (level, ring) in self.rings.iter().enumerate() {
            let slots = u64::from(ring.numbers().len() as u32);
            let since_start = now / ring.width();
            let right = (
                (since_start % slots) as u32,
                ((since_start / slots) % u64::from(FAR)) as u32,
                Tick::new(since_start * ring.width()),
            );
            let stands = ring.position();
            hold!(stands == right, "I1", "level {level} stands at {stands:?}, not {right:?}");
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<(), Violation> {
        let (nodes, entries) = (self.table.len(), self.slots.entries());
        hold!(nodes == entries, "I2", "{nodes} timers have {entries} entries");
        for (key, node) in self.table.iter() {
            let index = self.table.find(key);
            hold!(index.is_some(), "I8", "{key:?} does not find its node");
            let (slot, position) = (node.slot, node.position);
            let found = self.slots.node(slot, position);
            hold!(
                found == index,
                "I2",
                "{key:?} says slot {slot}, position {position}, where {found:?} lies"
            );
        }
        Ok(())
    }

    fn check_moved(&self) -> Result<(), Violation> {
        let mut moved = 0;
        for (key, _) in self.table.iter() {
            let Some(row) = self.table.moved().get(key.generation) else { continue };
            let right = key.index == row.key_index && self.table.find(key) == Some(row.index);
            hold!(right && row.index != row.key_index, "I8", "{key:?} has the row {row:?}");
            moved += 1;
        }
        let rows = self.table.moved().len();
        hold!(moved == rows, "I8", "{moved} nodes have moved, {rows} have a row");
        Ok(())
    }

    fn check_slot(&self, level: usize, ring: &Ring, slot: u32) -> Result<(), Violation> {
        let unseen = match self.slots.paused() {
            Some((paused, left)) if paused == slot => left,
            _ => usize::MAX,
        };
        let next = Tick::new(self.cursor.get() + 1);
        for position in 0..self.slots.len(slot) {
            let cycle = self.slots.cycle(slot, position as u32);
            let is_outermost = level + 1 == self.rings.len();
            hold!(cycle.is_some() == is_outermost, "I3", "level {level} holds a cycle {cycle:?}");
            let (deadline, begin) = self.timer_at(ring, slot, position as u32);
            let cycles = ring.cycles_before(begin.max(ring.position().2));
            let limit = if cycle.is_some() { u64::from(MAX_CYCLES) } else { 0 };
            let far = cycle == Some(FAR);
            hold!(cycles <= limit || far, "I3", "level {level} holds an entry of {cycles} cycles");
            let due = deadline.max(next);
            hold!(begin <= due, "I4", "{deadline:?} lies in the slot that begins at {begin:?}");
            let first_due = self.slots.first_due(slot);
            hold!(first_due > self.cursor, "I4", "slot {slot} was due at {first_due:?}");
            let in_ring = first_due.get() / ring.width() % u64::from(ring.numbers().len() as u32);
            let in_slot = in_ring == u64::from(slot - ring.numbers().start);
            hold!(in_slot, "I5", "slot {slot} waits until {first_due:?}, which lies in another");
            let last = last_visit(ring, begin, due);
            hold!(first_due <= last, "I5", "slot {slot} waits until {first_due:?}, not {last:?}");
            let is_due = match cycle {
                Some(cycle) => cycle == ring.spot(next).cycle,
                None => deadline <= next,
            };
            let is_left = position >= unseen && !far && is_due;
            hold!(
                !is_left,
                "I9",
                "a paused scan of slot {slot} left position {position} behind, which is due"
            );
        }
        Ok(())
    }

    fn check_slots(&self) -> Result<(), Violation> {
        hold!(self.slots.is_marked(), "I6", "the bits and the slots disagree");
        for room in [self.slots.inner.spare_room(), self.slots.outermost.spare_room()] {
            let agrees = room.is_some_and(|(counted, actual)| counted == actual);
            hold!(agrees, "I7", "spares, as counted and as they are: {room:?}");
        }
        Ok(())
    }

    fn check_pause(&self) -> Result<(), Violation> {
        let Some((slot, _)) = self.slots.paused() else { return Ok(()) };
        let (due, next) = (self.slots.first_due(slot), Tick::new(self.cursor.get() + 1));
        let occupied = self.slots.len(slot) > 0;
        hold!(occupied && due == next, "I9", "a scan of slot {slot} is paused until {due:?}");
        hold!(!self.early.owes(), "I9", "a scan is paused while a share is owed");
        Ok(())
    }

    fn check_next_turn(&self) -> Result<(), Violation> {
        let next = self.next_turn();
        hold!(next.is_some() != self.is_empty(), "I10", "{next:?} with {} timers", self.len());
        hold!(next.is_none_or(|next| next > self.cursor), "I10", "the next turn is {next:?}");
        for (level, ring) in self.rings.iter().enumerate() {
            let slots = ring.numbers().map(|slot| (slot, self.slots.len(slot) as u32));
            for (slot, position) in slots.flat_map(|(slot, len)| (0..len).map(move |at| (slot, at)))
            {
                let (deadline, begin) = self.timer_at(ring, slot, position);
                let last = last_visit(ring, begin, deadline.max(Tick::new(self.cursor.get() + 1)));
                let in_time = next.is_some_and(|next| next <= last);
                hold!(in_time, "I10", "next turn {next:?}, level {level} has work by {last:?}");
            }
        }
        Ok(())
    }

    fn check_lookahead(&self) -> Result<(), Violation> {
        let Lookahead { work_from, outer_from } = self.lookahead;
        hold!(work_from > self.cursor, "I11", "work from {work_from:?}, which is over");
        let odd = self.early.owes() || self.slots.paused().is_some() || self.rings.len() == 1;
        let known = outer_from > Tick::new(self.cursor.get() + 1);
        hold!(!(odd && known), "I11", "outer rings from {outer_from:?}, with something to do");
        if !known {
            return self.check_work_from();
        }
        let cycle = self.rings[0].numbers().len() as u64;
        let begin = self.cursor.get() - self.cursor.get() % cycle;
        let ends = begin.saturating_add(cycle - 1);
        hold!(outer_from.get() - 1 <= ends, "I11", "outer rings from {outer_from:?}, past {ends}");
        for slot in self.rings[1..].iter().flat_map(Ring::numbers) {
            let first = self.slots.first_due(slot);
            let waits = self.slots.len(slot) == 0 || outer_from <= first;
            hold!(waits, "I11", "outer rings from {outer_from:?}, slot {slot}: {first:?}");
        }
        self.check_work_from()
    }

    fn check_work_from(&self) -> Result<(), Violation> {
        let work_from = self.lookahead.work_from;
        for (level, ring) in self.rings.iter().enumerate() {
            for slot in ring.numbers().filter(|&slot| self.slots.len(slot) > 0) {
                let first = self.slots.first_due(slot);
                let is_known = work_from <= first;
                hold!(is_known, "I11", "work from {work_from:?}, level {level}: {first:?}");
            }
        }
        let is_next = work_from.get() == self.cursor.get() + 1;
        hold!(is_next || !self.early.owes(), "I11", "work from {work_from:?}, with a share owed");
        Ok(())
    }

    /// Returns the deadline of an entry's timer, and when the slot begins in which the entry is to
    /// be looked at: by the entry's cycle; by its node, if it is far; by the slot's header, if it
    /// has no cycle.
    fn timer_at(&self, ring: &Ring, slot: u32, position: u32) -> (Tick, Tick) {
        let node = self.slots.node(slot, position).expect("the position is one of the slot");
        let deadline = self.table.at(node).deadline;
        let begin_of = |tick: Tick| Tick::new(tick.get() - tick.get() % ring.width());
        let begin = match self.slots.cycle(slot, position) {
            // A far entry may lie in the slot of an earlier deadline, which is then in the slot's
            // header.
            Some(FAR) => begin_of(deadline).min(self.slots.first_due(slot)),
            Some(cycle) => ring.begin_in(slot, cycle),
            None => begin_of(self.slots.first_due(slot)),
        };
        (deadline, begin)
    }
}

/// Returns the last tick at which an entry may be looked at: the tick at which it is due, or the
/// last of its slot if that is earlier.
fn last_visit(ring: &Ring, begin: Tick, due: Tick) -> Tick {
    due.min(Tick::new(begin.get().saturating_add(ring.width() - 1)))
}
