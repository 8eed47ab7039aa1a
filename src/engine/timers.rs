//! A hierarchy as the engine keeps it: with the next due tick, a closed state, and counters. It has no lock: each
//! shard of jobs, and each shard of another source (`sources.rs`), has its own lock around one.
//!
//! Ground rules:
//!
//! - `next_due` is a tick before which nothing here is due. Inserts lower it; an advance raises it
//!   to the next turn of the hierarchy.
//! - Values lie in the hierarchy behind `ManuallyDrop`, because a value with a destructor is copied
//!   through the stack on its way into the table, which costs 7 % of an insert and cancel. The code
//!   that takes a value out takes it out of its `ManuallyDrop`, and the drop of `Timers` does so
//!   with the rest.
//! - Memory is freed by the verb that no longer needs it, but for the verbs that leave the surplus: their caller takes
//!   it with [`Timers::take_surplus`], and drops it without a lock.
//! - Closed timers are empty and stay so. The caller asks [`Timers::is_closed`] before an insert.

use core::mem::ManuallyDrop;

use crate::structure::{Geometry, Hierarchy, Key, Location, StoppedBy, Surplus};
use crate::values::time::Tick;

pub(crate) struct Timers<T> {
    hierarchy: Hierarchy<ManuallyDrop<T>>,
    next_due: Tick,
    closed: bool,
    tally: Tally,
}

/// The counts of the timers of one hierarchy.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) pending: usize,
    pub(crate) inserted: u64,
    pub(crate) cancelled: u64,
    pub(crate) resets: u64,
    pub(crate) fired: u64,
    pub(crate) discarded: u64,
}

/// A timer that is due. The caller takes the value out of its `ManuallyDrop`.
pub(crate) type Due<T> = (Key, ManuallyDrop<T>);

/// Memory that timers do not need any more.
pub(crate) type TimersSurplus<T> = Surplus<ManuallyDrop<T>>;

impl<T> Timers<T> {
    /// The most timers that a hierarchy can number.
    pub(crate) const MAX: usize = u32::MAX as usize;

    pub(crate) fn new(geometry: Geometry) -> Timers<T> {
        let hierarchy = Hierarchy::new(geometry);
        Timers { hierarchy, next_due: Tick::MAX, closed: false, tally: Tally::default() }
    }

    /// Adds a timer. There must be fewer than [`Timers::MAX`].
    #[inline]
    pub(crate) fn insert(&mut self, deadline: Tick, value: T) -> Key {
        self.tally.inserted += 1;
        let key = self.hierarchy.insert(deadline, ManuallyDrop::new(value));
        self.lower_next_due(deadline);
        key
    }

    /// Counts a timer that is due when it comes, and gives it a key. Leaves the surplus.
    pub(crate) fn pass(&mut self, value: T) -> Due<T> {
        let key = self.hierarchy.insert(self.hierarchy.now(), ManuallyDrop::new(value));
        let value = self.hierarchy.remove(key).expect("it was inserted under this key");
        self.tally.inserted += 1;
        self.tally.fired += 1;
        (key, value)
    }

    #[inline]
    pub(crate) fn cancel(&mut self, key: Key) -> Option<T> {
        let value = self.cancel_leaving(key);
        self.hierarchy.free_surplus();
        value
    }

    /// As [`Timers::cancel`], and leaves the surplus.
    #[inline]
    pub(crate) fn cancel_leaving(&mut self, key: Key) -> Option<T> {
        let value = self.hierarchy.remove(key)?;
        self.tally.cancelled += 1;
        Some(ManuallyDrop::into_inner(value))
    }

    /// Takes the memory that is not needed any more, if there is any: see `structure/shrink.rs`.
    #[inline]
    pub(crate) fn take_surplus(&mut self) -> Option<TimersSurplus<T>> {
        self.has_surplus().then(|| self.hierarchy.take_surplus())
    }

    #[inline]
    pub(crate) fn has_surplus(&self) -> bool {
        self.hierarchy.has_surplus()
    }

    /// Gives a timer another deadline. Returns whether it was there.
    #[inline]
    pub(crate) fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        let is_pending = self.move_to(key, deadline);
        self.tally.resets += u64::from(is_pending);
        is_pending
    }

    /// Does what [`Timers::reset`] does, but does not count a reset.
    #[inline]
    pub(crate) fn move_to(&mut self, key: Key, deadline: Tick) -> bool {
        let is_pending = self.hierarchy.reset(key, deadline);
        if is_pending {
            self.lower_next_due(deadline);
        }
        is_pending
    }

    /// Counts a reset that [`Timers::reset`] did not make (the timer may be out).
    pub(crate) fn count_reset(&mut self) {
        self.tally.resets += 1;
    }

    #[cfg(feature = "async")]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.hierarchy.get_mut(key).map(|value| &mut **value)
    }

    #[cfg(feature = "async")]
    pub(crate) fn now(&self) -> Tick {
        self.hierarchy.now()
    }

    pub(crate) fn deadline(&self, key: Key) -> Option<Tick> {
        self.hierarchy.deadline(key)
    }

    pub(crate) fn location(&self, key: Key) -> Option<Location> {
        self.hierarchy.location(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.hierarchy.len()
    }

    pub(crate) fn next_due(&self) -> Tick {
        self.next_due
    }

    /// Returns the earliest deadline, by a look at every timer that may have it; "never" without
    /// timers.
    pub(crate) fn earliest_deadline(&self) -> Tick {
        self.hierarchy.earliest_deadline().unwrap_or(Tick::MAX)
    }

    /// Returns the earliest deadline after `tick`, by a look at every timer.
    pub(crate) fn earliest_deadline_after(&self, tick: Tick) -> Tick {
        let later = self.hierarchy.deadlines().filter(|&deadline| deadline > tick);
        later.min().unwrap_or(Tick::MAX)
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally { pending: self.hierarchy.len(), ..self.tally }
    }

    /// Loads the timers of these keys, which are about to be cancelled.
    pub(crate) fn fetch_for_cancel(&self, keys: impl Iterator<Item = Key>) {
        self.hierarchy.fetch_for_cancel(keys);
    }

    /// Returns whether an advance to `to` would change nothing.
    pub(crate) fn has_come_to(&self, to: Tick) -> bool {
        self.next_due > to && self.hierarchy.now() >= to
    }

    /// Advances to `to`, and appends the timers that are due. Looks at no more than `limit`
    /// entries. Returns whether all due timers were appended.
    pub(crate) fn advance(&mut self, to: Tick, mut limit: usize, due: &mut Vec<Due<T>>) -> bool {
        let finished = self.advance_leaving(to, &mut limit, due);
        self.hierarchy.free_surplus();
        finished
    }

    /// As [`Timers::advance`], leaves the surplus, and subtracts the entries that it looked at from the limit.
    pub(crate) fn advance_leaving(
        &mut self,
        to: Tick,
        limit: &mut usize,
        due: &mut Vec<Due<T>>,
    ) -> bool {
        if self.has_come_to(to) {
            return true;
        }
        let before = due.len();
        let finished = self.hierarchy.advance_counting(to, limit, due).finished;
        self.next_due = self.hierarchy.next_turn().unwrap_or(Tick::MAX);
        self.tally.fired += (due.len() - before) as u64;
        finished
    }

    /// Advances to `to`, but takes nothing out: stops before the first tick at which a timer is
    /// due. Looks at no more than `limit` entries. Returns why it stopped.
    pub(crate) fn advance_to_due(&mut self, to: Tick, limit: usize) -> StoppedBy {
        if self.has_come_to(to) {
            return StoppedBy::End;
        }
        let stopped_by = self.hierarchy.advance_to_due(to, limit);
        self.next_due = self.hierarchy.next_turn().unwrap_or(Tick::MAX);
        stopped_by
    }

    /// Takes out every timer. Returns the key, deadline and value of each.
    pub(crate) fn drain(&mut self) -> Vec<(Key, Tick, T)> {
        self.tally.discarded += self.hierarchy.len() as u64;
        self.next_due = Tick::MAX;
        let into_inner = |(key, deadline, value)| (key, deadline, ManuallyDrop::into_inner(value));
        self.hierarchy.drain().map(into_inner).collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Closes the timers, and returns the hierarchy that held them, or `None` if they were closed
    /// before. Keeps almost no memory.
    pub(crate) fn close(&mut self) -> Option<Hierarchy<ManuallyDrop<T>>> {
        if core::mem::replace(&mut self.closed, true) {
            return None;
        }
        let smallest = Geometry::ring(1).expect("one slot makes a ring");
        let hierarchy = core::mem::replace(&mut self.hierarchy, Hierarchy::new(smallest));
        self.tally.discarded += hierarchy.len() as u64;
        self.next_due = Tick::MAX;
        Some(hierarchy)
    }

    #[inline]
    fn lower_next_due(&mut self, deadline: Tick) {
        self.next_due = self.next_due.min(deadline);
    }
}

impl<T> Drop for Timers<T> {
    fn drop(&mut self) {
        let values = self.hierarchy.drain().map(|(_, _, value)| ManuallyDrop::into_inner(value));
        // Dropped as one collection: if the drop of one value panics, the rest are dropped all the
        // same.
        drop(values.collect::<Vec<T>>());
    }
}
