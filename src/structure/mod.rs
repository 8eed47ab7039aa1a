//! The pure structure: rings of slots, and a table that finds every entry. It has no clock, no thread and no lock: time
//! is an argument, so any run replays from a list of operations.
//!
//! Ground rules (`check.rs` tests each of the first four, `docs/invariants.md` numbers them):
//!
//! - A timer is one node in the table and one entry in one slot; each says where the other is.
//! - The cursors of all rings stand at one tick, the *cursor*: every tick up to it has been processed. An entry lies in
//!   a slot that a cursor comes to at or before the timer's deadline.
//! - One exception: an entry whose deadline is at or before the cursor lies at cursor + 1, the next tick to be
//!   processed. There it is a tie with the timers of that tick.
//! - A visit decides by the node's deadline alone. So a reset to a later deadline is one store: the entry stays where
//!   it is, and its cycle count may be too low.
//! - Thresholds that trade memory against time ([`Tuning`]) change no result. Unit tests use tiny ones, so that a short
//!   history crosses them; the structure is the same.
//! - The memory of a batch of timers is loaded before it is used ([`PREFETCH_BATCH`]). Each load is a cache miss when
//!   there are many timers, and misses that do not wait for each other overlap.

mod handle_table;
mod entries;
mod slots;
mod ring;
mod lookahead;
mod early_cascade;
mod advance;
mod shrink;
mod check;
#[cfg(test)]
mod tests;

pub(crate) use advance::StoppedBy;
pub use advance::Turn;
pub use check::Violation;
use early_cascade::EarlyCascade;
use entries::{Entry, Inner, Outermost};
pub use handle_table::Key;
pub(crate) use handle_table::{Moved, MovedNodes};
use handle_table::{NodeIndex, OldNodes, Table};
use lookahead::Lookahead;
pub use ring::Geometry;
use ring::{FAR, Ring, Spot};
use shrink::SparseWatch;
pub(crate) use shrink::Surplus;
use slots::Slots;

use crate::values::time::Tick;

/// The place of a timer's entry, for drawings of the rings.
///
/// The entry may move inwards as its deadline comes nearer, or stay where it is until then. After
/// [`Hierarchy::reset`] to a later deadline, the entry lies in an earlier slot than the deadline
/// needs.
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
    /// Whether `Tick::MAX` has been processed too. It can be processed any number of times.
    ended: bool,
    lookahead: Lookahead,
    early: EarlyCascade,
    sparse: SparseWatch,
    /// The slab before the last move, which is surplus.
    old_nodes: Option<OldNodes<T>>,
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
        let (mut first, mut outermost, mut width) = (0, 0, 1);
        let mut rings = Vec::with_capacity(geometry.sizes().len());
        for &slots in geometry.sizes() {
            // Neither can overflow: the geometry was checked when it was made.
            rings.push(Ring::new(first, slots as u32, width));
            outermost = first;
            first += slots as u32;
            width *= slots as u64;
        }
        Hierarchy {
            table: Table::new(tuning),
            rings: rings.into(),
            slots: Slots::new(outermost, first, tuning.early_cascade_min),
            cursor: Tick::new(0),
            ended: false,
            lookahead: Lookahead::EMPTY,
            early: EarlyCascade::default(),
            sparse: SparseWatch::default(),
            old_nodes: None,
        }
    }

    /// Adds a timer that is due at `deadline`. If that is not after [`Hierarchy::now`], the timer
    /// is due at the next tick. Constant time, amortized over the growth of arrays.
    ///
    /// # Panics
    ///
    /// With 2^32 timers pending.
    pub fn insert(&mut self, deadline: Tick, value: T) -> Key {
        let due = self.note_deadline(deadline);
        let spot = spot_of(&self.rings, due);
        let position = self.push(spot, self.table.next_index(), due);
        self.table.insert(deadline, spot.slot, position, value)
    }

    /// Removes a timer. Returns its value, or `None` when the timer is no longer, or never was, in
    /// this hierarchy.
    ///
    /// Constant time, amortized; nothing of the timer stays in the hierarchy. If the timers that
    /// are left fill less than a sixteenth of their memory, a cancel may move them to a smaller
    /// slab; keys go on working. The move takes one step for each timer that is left and, if `T`
    /// has a destructor, one step for each timer that the old slab had room for: milliseconds after
    /// a million timers.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let value = self.remove(key);
        self.free_surplus();
        value
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
        // A postponed entry is visited too early; the visit then finds the new deadline. This holds
        // too if both deadlines have passed: the entry lies at the next tick, and stays there.
        if !postponed && let Some(index) = self.slots.node(slot, position) {
            self.unlink(slot, position);
            let due = self.note_deadline(deadline);
            self.link(spot_of(&self.rings, due), index, due);
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
    /// Looks at two slots a level at most, however many timers there are. If all pending timers
    /// have cycles to wait, it looks at every occupied slot of the outermost ring.
    #[must_use]
    pub fn next_turn(&self) -> Option<Tick> {
        let under_cursors =
            self.rings.iter().filter_map(|ring| ring.visit_under_cursor(&self.slots));
        let mut earliest = under_cursors.min();
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

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Tick> {
        self.table.iter().map(|(_, node)| node.deadline)
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

    /// Drops every timer, and frees their memory. [`Hierarchy::now`] does not change, and all keys
    /// given so far are stale.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// Removes every timer, and frees their memory. Returns the timers in no order.
    pub fn drain(&mut self) -> impl Iterator<Item = (Key, Tick, T)> + use<T> {
        self.slots.clear();
        self.old_nodes = None;
        self.lookahead = Lookahead::EMPTY;
        self.early = EarlyCascade::default();
        self.table.take_all().map(|(key, node)| (key, node.deadline, node.value))
    }

    /// Returns every timer, in no order. Unlike [`Hierarchy::drain`], it makes no new slots.
    pub(crate) fn into_timers(mut self) -> impl Iterator<Item = (Key, Tick, T)> {
        self.table.take_all().map(|(key, node)| (key, node.deadline, node.value))
    }

    /// Returns the place of a timer's entry, if the timer is pending. For drawings and tests.
    #[must_use]
    pub fn location(&self, key: Key) -> Option<Location> {
        let node = self.table.get(key)?;
        let on_ring = |ring: &&Ring| ring.numbers().contains(&node.slot);
        let (level, ring) = self.rings.iter().enumerate().find(|(_, ring)| on_ring(ring))?;
        let due = match self.slots.cycle(node.slot, node.position) {
            // The slot in which the entry lies. A postponed timer lies earlier than it is due.
            Some(cycle) if cycle != FAR => ring.begin_in(node.slot, cycle),
            Some(_) => node.deadline,
            None => self.slots.first_due(node.slot),
        };
        Some(Location {
            level,
            slot: (node.slot - ring.numbers().start) as usize,
            cycles: ring.cycles_before(due.max(ring.position().2)),
            cursor: ring.position().0 as usize,
        })
    }

    /// Adds an entry at `spot` for the node at `index`, which has none and is due at `due`. Returns
    /// the entry's position.
    #[inline(always)]
    fn push(&mut self, spot: Spot, index: NodeIndex, due: Tick) -> u32 {
        match self.slots.is_plain(spot.slot) {
            true => self.push_entry(spot.slot, Inner::new(index, 0), due),
            false => self.push_with_care(spot, index, due),
        }
    }

    /// [`Hierarchy::push`] on the outermost ring, where an entry has a cycle, or while a scan is
    /// paused.
    #[inline(never)]
    fn push_with_care(&mut self, spot: Spot, index: NodeIndex, due: Tick) -> u32 {
        let Spot { slot, cycle } = spot;
        if self.slots.is_inner(slot) {
            let position = self.push_entry(slot, Inner::new(index, 0), due);
            return self.add_to_paused::<Inner>(slot, position, due);
        }
        let position = self.push_entry(slot, Outermost::new(index, cycle), due);
        self.add_to_paused::<Outermost>(slot, position, due)
    }

    #[inline(always)]
    fn push_entry<E: Entry>(&mut self, slot: u32, entry: E, due: Tick) -> u32 {
        match self.slots.push(slot, entry, due) {
            Some(position) => position,
            None => self.push_with_room(slot, entry, due),
        }
    }

    #[inline(never)]
    fn push_with_room<E: Entry>(&mut self, slot: u32, entry: E, due: Tick) -> u32 {
        let position = self.slots.push_with_room(slot, entry, due);
        if self.slots.is_full(slot) {
            self.note_full(slot);
        }
        position
    }

    /// If a scan is paused in the slot, registers the entry that was just pushed with it. If the
    /// entry changes places with another, stores the new position in the node of that one. Returns
    /// the position of the pushed entry.
    fn add_to_paused<E: Entry>(&mut self, slot: u32, position: u32, due: Tick) -> u32 {
        if !self.slots.is_paused_in(slot) {
            return position;
        }
        let (new, displaced) = self.slots.add_to_paused::<E>(slot, due);
        if let Some(displaced) = displaced {
            self.table.at_mut(displaced).position = position;
        }
        new
    }

    /// As [`Hierarchy::push`], and updates the node.
    #[inline]
    fn link(&mut self, spot: Spot, index: NodeIndex, due: Tick) {
        let position = self.push(spot, index, due);
        let node = self.table.at_mut(index);
        node.slot = spot.slot;
        node.position = position;
    }

    /// Removes an entry from its slot, and updates the node of the entry that moved into its
    /// position.
    #[inline]
    fn unlink(&mut self, slot: u32, position: u32) {
        if let Some(moved) = self.slots.remove(slot, position) {
            self.table.at_mut(moved).position = position;
        }
    }
}

/// Returns the spot of an entry that is due at `tick`, which lies after the cursor: on the
/// innermost ring that reaches `tick`, or, with cycles, on the outermost.
#[inline(always)]
fn spot_of(rings: &[Ring], tick: Tick) -> Spot {
    for ring in &rings[..rings.len() - 1] {
        if ring.reaches(tick) {
            return Spot { slot: ring.slot(tick), cycle: 0 };
        }
    }
    outermost_spot_of(rings, tick)
}

#[inline(never)]
fn outermost_spot_of(rings: &[Ring], tick: Tick) -> Spot {
    let ring = &rings[rings.len() - 1];
    if ring.reaches(tick) { ring.spot(tick) } else { ring.spot_far(tick) }
}

impl<T> Default for Hierarchy<T> {
    /// An empty hierarchy of the default [`Geometry`].
    fn default() -> Hierarchy<T> {
        Hierarchy::new(Geometry::default())
    }
}

/// Thresholds of one [`Hierarchy`].
#[derive(Clone, Copy, Debug)]
struct Tuning {
    /// A slot with this many entries, or more, is full: it is cascaded early (`early_cascade.rs`),
    /// and visited when it begins (`Ring::visit_of`).
    early_cascade_min: usize,
    /// A slab with room for at most `kept_nodes` nodes, which take at most `kept_bytes` bytes, is
    /// never shrunk (`shrink.rs`).
    kept_nodes: usize,
    kept_bytes: usize,
    /// A slab of `room` is sparse when it holds fewer than `room >> sparse_shift` nodes.
    sparse_shift: u32,
}

impl Tuning {
    /// A cascade of fewer than 16,384 entries takes less than half a millisecond. 4096 nodes take
    /// 160 kB in a wheel; with larger values, fewer nodes take as much. A sixteenth
    /// (`sparse_shift`) bounds the pause of a move, see `shrink.rs`.
    const DEFAULT: Tuning = Tuning {
        early_cascade_min: 16_384,
        kept_nodes: 4096,
        kept_bytes: 160 << 10,
        sparse_shift: 4,
    };

    /// Thresholds so low that a handful of timers crosses every one.
    #[cfg(test)]
    const TINY: Tuning =
        Tuning { early_cascade_min: 3, kept_nodes: 2, kept_bytes: usize::MAX, sparse_shift: 1 };
}

/// How many nodes are loaded together: more than a core can have cache misses in flight, and few
/// enough to stay in its first-level cache until they are used.
pub(crate) const PREFETCH_BATCH: usize = 32;

impl<T> Table<T> {
    /// Loads the nodes of some entries that a visit is about to read. The loop does nothing else,
    /// so the loads do not wait for each other.
    #[inline]
    fn fetch<E: Entry>(&self, entries: &[E]) {
        let deadline = |entry: &E| self.at(entry.node()).deadline.get();
        core::hint::black_box(entries.iter().fold(0, |seen, entry| seen ^ deadline(entry)));
    }

    /// Loads the nodes of those entries that a visit in this cycle has to read.
    #[inline]
    fn fetch_due<E: Entry>(&self, entries: &[E], cycle: u32) {
        let mut seen = 0;
        for entry in entries {
            if entry.may_be_due_in(cycle) {
                seen ^= self.at(entry.node()).deadline.get();
            }
        }
        core::hint::black_box(seen);
    }
}

impl<T> Hierarchy<T> {
    /// Loads the memory that a cancel of each of these timers will touch, but for no more than
    /// [`PREFETCH_BATCH`] timers. Three loops, each with loads that do not wait for each other: the
    /// nodes, then the entries, then the nodes of the entries that will move.
    pub(crate) fn fetch_for_cancel(&self, keys: impl Iterator<Item = Key>) {
        let mut nodes = [(0, 0); PREFETCH_BATCH];
        let mut count = 0;
        for node in keys.take(PREFETCH_BATCH).filter_map(|key| self.table.get(key)) {
            nodes[count] = (node.slot, node.position);
            count += 1;
        }
        let mut last = [0; PREFETCH_BATCH];
        let mut seen = 0;
        for (last, &(slot, position)) in last.iter_mut().zip(&nodes[..count]) {
            seen ^= self.slots.node(slot, position).unwrap_or(0);
            // The slot of a pending timer is not empty.
            let back = (self.slots.len(slot) as u32).saturating_sub(1);
            *last = self.slots.node(slot, back).unwrap_or(0);
        }
        for &index in &last[..count] {
            seen ^= self.table.at(index).position;
        }
        core::hint::black_box(seen);
    }
}
