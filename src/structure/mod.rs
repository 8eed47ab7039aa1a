//! The pure structure: rings of slots, and a table that finds every entry. It has no clock, no
//! thread and no lock: time is an argument, so any run replays from a list of operations.
//!
//! Ground rules (`check.rs` tests each of them, `docs/invariants.md` numbers them):
//!
//! - A timer is one node in the table and one entry in one slot; each says where the other is.
//! - The cursors of all rings stand at one tick, the *cursor*: every tick up to it has been
//!   processed. An entry lies in a slot that a cursor comes to at or before the timer's deadline.
//! - One exception: an entry whose deadline is at or before the cursor lies at cursor + 1, the next
//!   tick to be processed. There it is a tie with the timers of that tick.
//! - A visit looks at the node's deadline, not at how the entry got there. So a reset to a later
//!   deadline is one store, which leaves the entry where it is, and a cycle count may be too low.

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
use shrink::SparseWatch;
use slots::Slots;
use table::{NodeIndex, Table};
use tuning::Tuning;

/// Where a timer's entry lies: what a drawing of the rings needs.
///
/// The entry moves inwards as its deadline comes nearer. After [`Hierarchy::reset`] to a later
/// deadline it lies earlier than the deadline asks for.
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

/// A hashed timing wheel with hierarchical levels, over values of any type: the structure inside
/// [`Wheel`](crate::Wheel), for programs that bring their own clock and threads.
///
/// Insert and reset take constant time; so does cancel, amortized. Schemes 6 and 7 of G. Varghese
/// and T. Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987), with arrays instead of lists
/// in the slots.
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
    /// The last processed tick. Stays below `Tick::MAX`, so that there is always a next tick.
    cursor: Tick,
    /// Whether `Tick::MAX` has been processed too, which can happen again and again.
    ended: bool,
    early: EarlyCascade,
    tuning: Tuning,
    sparse: SparseWatch,
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
            table: Table::new(tuning),
            rings: rings.into(),
            slots: Slots::new(first),
            cursor: Tick::new(0),
            ended: false,
            early: EarlyCascade::default(),
            tuning,
            sparse: SparseWatch::default(),
        }
    }

    /// Adds a timer that is due at `deadline`. If that is not after [`Hierarchy::now`], the timer
    /// is due at the next tick. Constant time, amortized over the growth of arrays.
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

    /// Removes a timer. Returns its value, or `None` when the timer is no longer, or never was, in
    /// this hierarchy.
    ///
    /// Constant time, amortized, and nothing stays behind. When few timers are left of many, fewer
    /// than a sixteenth of those there is memory for, the cancel moves them to less memory; keys go
    /// on working. This takes a step for each timer that is left, and if `T` has a destructor one for
    /// each there was memory for: milliseconds after a million.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let node = self.table.remove(key)?;
        self.unlink(node.slot, node.position);
        self.shrink_if_sparse();
        Some(node.value)
    }

    /// Gives a timer another deadline, under the rules of [`Hierarchy::insert`]. Returns whether
    /// the timer is pending. Constant time; to a later deadline it is one store.
    pub fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        let Some(node) = self.table.get_mut(key) else {
            return false;
        };
        let postponed = deadline >= node.deadline;
        let (slot, position) = (node.slot, node.position);
        node.deadline = deadline;
        // The visit of a postponed entry comes too early, and finds the new deadline. This holds
        // too if both deadlines have passed: the entry lies at the next tick, and stays there.
        if !postponed {
            let index = self.slots.of(slot)[position as usize].node;
            self.unlink(slot, position);
            let spot = self.locate(deadline);
            self.link(index, spot);
        }
        true
    }

    /// Returns whether the timer is pending.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        self.table.get(key).is_some()
    }

    /// Returns the deadline as it was last given, if the timer is pending. A deadline that had
    /// passed when it was given is returned like any other.
    #[must_use]
    pub fn deadline(&self, key: Key) -> Option<Tick> {
        self.table.get(key).map(|node| node.deadline)
    }

    /// Returns the value of a pending timer.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.table.get(key).map(|node| &node.value)
    }

    /// Returns the value of a pending timer, to change it.
    #[must_use]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.table.get_mut(key).map(|node| &mut node.value)
    }

    /// Returns the last tick that has been processed to its end.
    #[must_use]
    pub fn now(&self) -> Tick {
        if self.ended { Tick::MAX } else { self.cursor }
    }

    /// Returns the earliest tick at which there is work: timers to fire, or to move to an inner
    /// ring. It is a lower bound for the earliest deadline that is still to come, and `None` when
    /// no timer is pending.
    ///
    /// Looks at one slot a level, whatever the number of timers. When all pending timers have
    /// cycles to wait, it looks at every occupied slot of the outermost ring.
    #[must_use]
    pub fn next_turn(&self) -> Option<Tick> {
        let mut earliest: Option<Tick> = None;
        for ring in &self.rings {
            // The slots of an outer ring begin where slots of this ring begin, never between them.
            if earliest.is_some_and(|known| known < ring.next_slot_begins()) {
                break;
            }
            let visit = ring.next_visit(&self.slots);
            earliest = earliest.into_iter().chain(visit).min();
        }
        earliest
    }

    /// Returns the earliest deadline, by a look at every timer.
    pub(crate) fn earliest_deadline(&self) -> Option<Tick> {
        self.table.iter().map(|(_, node)| node.deadline).min()
    }

    /// Returns how many timers are pending.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every timer, and the memory they took. [`Hierarchy::now`] stays what it is, and no key
    /// comes back to life.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// Removes every timer, and gives up the memory they took. Returns them in no order.
    pub fn drain(&mut self) -> impl Iterator<Item = (Key, Tick, T)> + use<T> {
        self.slots.clear();
        self.early = EarlyCascade::default();
        self.table.take_all().map(|(key, node)| (key, node.deadline, node.value))
    }

    /// Returns every timer, in no order.
    pub(crate) fn into_timers(mut self) -> impl Iterator<Item = (Key, Tick, T)> {
        self.table.take_all().map(|(key, node)| (key, node.deadline, node.value))
    }

    /// Returns where a timer's entry lies, if the timer is pending. For drawings and tests.
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

    /// Returns where an entry with this deadline belongs.
    #[inline]
    fn locate(&self, deadline: Tick) -> Spot {
        match deadline > self.cursor {
            true => self.spot(deadline),
            false => self.late_spot(),
        }
    }

    /// Returns where an entry belongs whose deadline is still to come: on the innermost ring that
    /// reaches it.
    #[inline(always)]
    fn spot(&self, tick: Tick) -> Spot {
        for ring in &self.rings {
            if ring.reaches(tick) {
                return ring.spot(tick);
            }
        }
        self.far_spot(tick)
    }

    /// Returns where an entry belongs whose deadline no ring reaches: on the outermost, with
    /// cycles.
    #[inline(never)]
    fn far_spot(&self, tick: Tick) -> Spot {
        self.rings[self.rings.len() - 1].spot_far(tick)
    }

    /// Returns where an entry belongs whose deadline has passed: at the next tick.
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
