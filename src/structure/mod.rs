//! The pure structure: rings of slots, and a table that finds every entry. No clock, no thread, no
//! lock: time is an argument, so any run replays from a list of operations.
//!
//! Ground rules (`check.rs` tests each of them, `docs/invariants.md` numbers them):
//!
//! - A timer is one node in the table and one entry in one slot; each says where the other is.
//! - The cursors of all rings stand at one tick, the *cursor*: everything up to it has been worked
//!   off. An entry lies where a cursor comes by at or before the timer's deadline, never after it.
//! - Only a deadline that had passed when it was given lies later than itself: at the tick after
//!   the cursor, which is the first that is still to come.
//! - A visit looks at the node's deadline, not at how the entry got there. So a deadline may move
//!   away from its entry at the cost of one store, and a cycle count may be too low.

mod moved;
mod table;
mod tuning;
mod budget;
mod geometry;
mod occupancy;
mod slots;
mod ring;
mod prefetch;
mod advance;
mod early_cascade;
mod shrink;
mod check;
#[cfg(test)]
mod tests;

pub use advance::Turn;
pub use check::Violation;
pub use geometry::Geometry;
pub(crate) use prefetch::PREFETCH_BATCH;
pub use table::Key;

use crate::values::time::Tick;
use early_cascade::EarlyCascade;
use ring::{FAR, Ring, Spot};
use slots::Slots;
use table::{NodeIndex, Table};
use tuning::Tuning;

/// Where a timer's entry lies: what a drawing of the rings needs.
///
/// The entry moves inwards as its deadline comes nearer, and lies at an earlier place than its
/// deadline asks for after [`Hierarchy::reset`] to a later one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// The level, 0 is the innermost.
    pub level: usize,
    /// The slot within that level's ring.
    pub slot: usize,
    /// The cycle count: how many times the ring's cursor passes the slot before the entry is due.
    pub cycles: u64,
    /// The slot that the ring's cursor is at.
    pub cursor: usize,
}

/// A hashed timebase wheel with hierarchical levels, over values of any type: the structure inside
/// [`Wheel`](crate::Wheel), for those who bring their own clock and threads.
///
/// Insert, cancel and reset take constant time. Schemes 6 and 7 of G. Varghese and T. Lauck,
/// *Hashed and Hierarchical Timebase Wheels* (SOSP 1987), with arrays instead of lists in the slots.
///
/// ```
/// use tickwheel::{Geometry, Hierarchy, Tick};
/// let mut idle = Hierarchy::new(Geometry::default());
/// let a = idle.insert(Tick::new(30_000), "a");
/// let b = idle.insert(Tick::new(30_000), "b");
/// assert!(idle.reset(a, Tick::new(45_000)));
/// let mut due = Vec::new();
/// let turn = idle.advance(Tick::new(40_000), usize::MAX, &mut due);
/// assert!(turn.finished);
/// assert_eq!(due, [(b, "b")]);
/// assert_eq!(idle.cancel(a), Some("a"));
/// assert_eq!(idle.cancel(a), None);
/// ```
#[derive(Debug)]
pub struct Hierarchy<T> {
    table: Table<T>,
    rings: Box<[Ring]>,
    slots: Slots,
    /// Everything up to here has been worked off. Stays below `Tick::MAX`, so that there is always
    /// a next tick.
    cursor: Tick,
    /// `Tick::MAX` has been worked off too, which can happen again and again.
    ended: bool,
    early: EarlyCascade,
    tuning: Tuning,
}

impl<T> Hierarchy<T> {
    /// An empty hierarchy at tick 0.
    ///
    /// Takes 32 bytes a slot, and another 32 to 48 once the slot has been used.
    #[must_use]
    pub fn new(geometry: Geometry) -> Hierarchy<T> {
        Hierarchy::with_tuning(geometry, Tuning::DEFAULT)
    }

    fn with_tuning(geometry: Geometry, tuning: Tuning) -> Hierarchy<T> {
        let (mut first, mut width) = (0, 1);
        let mut rings = Vec::with_capacity(geometry.sizes().len());
        for &slots in geometry.sizes() {
            // Neither can overflow: the geometry was checked when it was made.
            rings.push(Ring::new(first, slots as u32, width));
            first += slots as u32;
            width *= slots as u64;
        }
        Hierarchy {
            table: Table::new(),
            rings: rings.into(),
            slots: Slots::new(first),
            cursor: Tick::new(0),
            ended: false,
            tuning,
            early: EarlyCascade::default(),
        }
    }

    /// Adds a timer that is due at `deadline`, or at the next tick if that is not after
    /// [`Hierarchy::now`]. Constant time.
    ///
    /// # Panics
    ///
    /// With 2^32 timers pending.
    pub fn insert(&mut self, deadline: Tick, value: T) -> Key {
        let spot = self.locate(deadline);
        let position = self.slots.push(spot, self.table.next_index());
        let key = self.table.insert(deadline, spot.slot, position, value);
        if self.slots.is_paused_in(spot.slot) {
            self.add_to_paused(spot);
        }
        key
    }

    /// Removes a timer and gives its value back; `None` when it is no longer, or never was, in this
    /// hierarchy. Constant time, and nothing stays behind.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let node = self.table.remove(key)?;
        self.unlink(node.slot, node.position);
        self.shrink_if_sparse();
        Some(node.value)
    }

    /// Gives a timer another deadline, under the rules of [`Hierarchy::insert`]; whether it was
    /// there. Constant time; to a later deadline it is one store.
    pub fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        let Some(node) = self.table.get_mut(key) else {
            return false;
        };
        let postponed = deadline >= node.deadline;
        let (slot, position) = (node.slot, node.position);
        node.deadline = deadline;
        // The visit of a postponed entry comes too early, and finds the new deadline. A deadline
        // that has passed is visited at the next tick: so is a later one that has passed too.
        if !postponed {
            let index = self.slots.of(slot)[position as usize].node;
            self.unlink(slot, position);
            let spot = self.locate(deadline);
            self.link(index, spot);
        }
        true
    }

    /// Whether the timer is pending.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        self.table.get(key).is_some()
    }

    /// The deadline as it was last given, if the timer is pending.
    #[must_use]
    pub fn deadline(&self, key: Key) -> Option<Tick> {
        self.table.get(key).map(|node| node.deadline)
    }

    /// The value of a pending timer.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.table.get(key).map(|node| &node.value)
    }

    /// The value of a pending timer, to change it.
    #[must_use]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.table.get_mut(key).map(|node| &mut node.value)
    }

    /// The last tick that has been worked off to its end.
    #[must_use]
    pub fn now(&self) -> Tick {
        if self.ended { Tick::MAX } else { self.cursor }
    }

    /// The earliest tick at which there is work: timers to fire, or to move to an inner ring. A
    /// lower bound for the earliest deadline that is still to come; `None` when nothing is pending.
    ///
    /// Looks at one slot a level, whatever the number of timers; at most at every slot of the
    /// outermost ring, when all that is pending has cycles to wait.
    #[must_use]
    pub fn next_turn(&self) -> Option<Tick> {
        let mut earliest: Option<Tick> = None;
        for ring in &self.rings {
            // What begins later on this ring begins no sooner on those outside it.
            if earliest.is_some_and(|known| known < ring.next_slot_begins()) {
                break;
            }
            let visit = ring.next_visit(&self.slots);
            earliest = earliest.into_iter().chain(visit).min();
        }
        earliest
    }

    /// How many timers are pending.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every timer, and the memory they took. The present stays what it is, and no key comes
    /// back to life.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// Takes every timer out, in no order, and gives up the memory they took.
    pub fn drain(&mut self) -> impl Iterator<Item = (Key, Tick, T)> + use<T> {
        self.slots.clear();
        self.early = EarlyCascade::default();
        self.table.take_all().map(|(key, node)| (key, node.deadline, node.value))
    }

    /// Every timer, in no order.
    pub(crate) fn into_timers(mut self) -> impl Iterator<Item = (Key, Tick, T)> {
        self.table.take_all().map(|(key, node)| (key, node.deadline, node.value))
    }

    /// Where a timer's entry lies, if the timer is pending. For drawings and tests.
    #[must_use]
    pub fn location(&self, key: Key) -> Option<Location> {
        let node = self.table.get(key)?;
        let on_ring = |ring: &&Ring| ring.numbers().contains(&node.slot);
        let (level, ring) = self.rings.iter().enumerate().find(|(_, ring)| on_ring(ring))?;
        let visit = match self.slots.of(node.slot)[node.position as usize].cycle {
            FAR => ring.spot_far(node.deadline).visit,
            cycle => ring.visit_of(node.slot, cycle),
        };
        Some(Location {
            level,
            slot: (node.slot - ring.numbers().start) as usize,
            cycles: ring.cycles_before(visit),
            cursor: ring.position().0 as usize,
        })
    }

    /// Finds where an entry with this deadline belongs: on the innermost ring that reaches it.
    #[inline]
    fn locate(&self, deadline: Tick) -> Spot {
        match deadline > self.cursor {
            true => self.spot(deadline),
            false => self.late_spot(),
        }
    }

    /// Where an entry belongs that is to be visited by a tick still to come.
    #[inline(always)]
    fn spot(&self, tick: Tick) -> Spot {
        for ring in &self.rings {
            if ring.reaches(tick) {
                return ring.spot(tick);
            }
        }
        self.far_spot(tick)
    }

    /// Where an entry belongs that lies beyond the outermost ring.
    #[inline(never)]
    fn far_spot(&self, tick: Tick) -> Spot {
        self.rings[self.rings.len() - 1].spot_far(tick)
    }

    /// Where an entry belongs whose deadline has passed.
    #[cold]
    fn late_spot(&self) -> Spot {
        self.rings[0].next_spot()
    }

    /// Puts an entry for the node at `index`, which has none, into a slot.
    #[inline]
    fn link(&mut self, index: NodeIndex, spot: Spot) {
        let position = self.slots.push(spot, index);
        let node = self.table.at_mut(index);
        node.slot = spot.slot;
        node.position = position;
        if self.slots.is_paused_in(spot.slot) {
            self.add_to_paused(spot);
        }
    }

    /// Makes the entry that was just pushed known to the scan that is paused in its slot, and tells
    /// the nodes of two entries that changed places.
    #[cold]
    fn add_to_paused(&mut self, spot: Spot) {
        for position in self.slots.add_to_paused(spot).into_iter().flatten() {
            let entry = self.slots.of(spot.slot)[position as usize];
            self.table.at_mut(entry.node).position = position;
        }
    }

    /// Removes an entry from its slot, and tells the node of the one that moved into its position.
    #[inline]
    fn unlink(&mut self, slot: u32, position: u32) {
        if let Some(moved) = self.slots.remove(slot, position) {
            self.table.at_mut(moved).position = position;
        }
    }
}

impl<T> Default for Hierarchy<T> {
    /// An empty hierarchy of the default [`Geometry`].
    fn default() -> Hierarchy<T> {
        Hierarchy::new(Geometry::default())
    }
}
