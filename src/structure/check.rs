//! The check: walks everything, the slow way, and names the first invariant that is broken.
//!
//! It follows the definitions, with divisions and searches, so that it shares no shortcut with the
//! code that it checks. `docs/invariants.md` says what each number is for.

use core::fmt;

use super::Hierarchy;
use super::ring::{FAR, MAX_CYCLES, Ring};
use super::slots::Entry;
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
        self.check_next_turn()
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
            let entry = self.slots.of(node.slot).get(node.position as usize);
            hold!(
                entry.map(|entry| entry.node) == index,
                "I2",
                "{key:?} says slot {} position {}, where {entry:?} lies",
                node.slot,
                node.position
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
        let outermost = level + 1 == self.rings.len();
        let unseen = match self.slots.paused() {
            Some((paused, left)) if paused == slot => left,
            _ => usize::MAX,
        };
        for (position, entry) in self.slots.of(slot).iter().enumerate() {
            let deadline = self.table.at(entry.node).deadline;
            let first = self.slots.first_visit(slot);
            let visit = self.visit_of(ring, slot, entry);
            let cycles = ring.cycles_before(visit);
            let limit = if outermost { u64::from(MAX_CYCLES) } else { 0 };
            let far = outermost && entry.cycle == FAR;
            hold!(cycles <= limit || far, "I3", "level {level} holds {entry:?} of {cycles} cycles");
            let still_to_come = deadline.max(Tick::new(self.cursor.get() + 1));
            hold!(visit <= still_to_come, "I4", "{deadline:?} is visited at {visit:?}, too late");
            hold!(first > self.cursor, "I4", "slot {slot} was to be visited at {first:?}");
            hold!(first <= visit, "I5", "slot {slot} waits until {first:?}, not {visit:?}");
            hold!(
                position < unseen || far || entry.cycle != ring.next_spot().cycle,
                "I9",
                "a paused scan of slot {slot} has left {position} behind, which is due"
            );
        }
        Ok(())
    }

    fn check_slots(&self) -> Result<(), Violation> {
        hold!(self.slots.is_marked(), "I6", "the bits and the slots disagree");
        let room = self.slots.spare_room();
        hold!(
            room.is_some_and(|(counted, actual)| counted == actual),
            "I7",
            "spares, as counted and as they are: {room:?}"
        );
        Ok(())
    }

    fn check_pause(&self) -> Result<(), Violation> {
        let Some((slot, _)) = self.slots.paused() else { return Ok(()) };
        let (begins, next) = (self.slots.first_visit(slot), Tick::new(self.cursor.get() + 1));
        let occupied = !self.slots.of(slot).is_empty();
        hold!(occupied && begins == next, "I9", "a scan of slot {slot} is paused until {begins:?}");
        hold!(!self.early.owes(), "I9", "a scan is paused while a share is owed");
        Ok(())
    }

    fn check_next_turn(&self) -> Result<(), Violation> {
        let next = self.next_turn();
        hold!(next.is_some() != self.is_empty(), "I10", "{next:?} with {} timers", self.len());
        for (level, ring) in self.rings.iter().enumerate() {
            for slot in ring.numbers() {
                for entry in self.slots.of(slot) {
                    let visit = self.visit_of(ring, slot, entry);
                    hold!(
                        next.is_some_and(|next| next <= visit && next > self.cursor),
                        "I10",
                        "the next turn is {next:?}, level {level} has work at {visit:?}"
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns when an entry has to be looked at: when its cycle says so, or when its node does.
    fn visit_of(&self, ring: &Ring, slot: u32, entry: &Entry) -> Tick {
        if entry.cycle != FAR {
            return ring.visit_of(slot, entry.cycle);
        }
        // A far entry may lie in the slot of an earlier deadline; then its header says when.
        let deadline = self.table.at(entry.node).deadline.get();
        Tick::new(deadline - deadline % ring.width()).min(self.slots.first_visit(slot))
    }
}
