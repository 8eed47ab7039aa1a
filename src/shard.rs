//! One of several hierarchies that producers are spread over, behind its lock: the only lock that an
//! insert, a cancel or a reset takes.
//!
//! Ground rules:
//!
//! - No user code runs under the lock: a closure is boxed before, a cancelled job is given out to be
//!   dropped after.
//! - `expected` is a tick before which nothing here is due. Inserts lower it, a turn raises it to
//!   what the hierarchy says. Who lowers it is told, and tells the ticker, outside the lock.
//! - Jobs lie in the hierarchy behind `ManuallyDrop`, because what has a destructor is copied through
//!   the stack on its way into the table, at 7 % of an insert and cancel. Whoever gets a
//!   job takes it out of there, and the shard's own drop takes what is left.
//! - A closed shard is empty and stays so. Under one lock a job is either in the hierarchy or it is
//!   not: of a cancel, a turn and a close, exactly one gets it.

use core::mem::ManuallyDrop;
use std::sync::PoisonError;

use crate::hierarchy::{Geometry, Hierarchy, Location};
use crate::job::Job;
use crate::sync::{Mutex, lock};
use crate::table::Key;
use crate::time::Tick;

/// Two cache lines to itself, because processors fetch lines in pairs: shards do not meet.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<State>,
}

struct State {
    hierarchy: Hierarchy<ManuallyDrop<Job>>,
    expected: Tick,
    closed: bool,
    tally: Tally,
}

/// What became of the jobs of a shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) pending: usize,
    pub(crate) inserted: u64,
    pub(crate) cancelled: u64,
    pub(crate) fired: u64,
}

/// What an insert or a reset did.
#[derive(Clone, Copy)]
pub(crate) struct Planned<T> {
    pub(crate) done: T,
    /// Nothing in this shard was expected before: the ticker may have to wake earlier.
    pub(crate) earliest: bool,
}

/// How a turn ended.
pub(crate) struct Turned {
    /// How many jobs came due.
    pub(crate) fired: usize,
    /// Whether everything due was taken.
    pub(crate) finished: bool,
}

impl Shard {
    pub(crate) fn new(geometry: Geometry) -> Shard {
        let (hierarchy, tally) = (Hierarchy::new(geometry), Tally::default());
        Shard { state: Mutex::new(State { hierarchy, expected: Tick::MAX, closed: false, tally }) }
    }

    /// Adds a job; a closed shard gives it back.
    #[inline]
    pub(crate) fn insert<F>(&self, deadline: Tick, job: Box<F>) -> Result<Planned<Key>, Box<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(job);
        }
        state.tally.inserted += 1;
        let done = state.hierarchy.insert(deadline, ManuallyDrop::new(Job::new(job)));
        Ok(Planned { done, earliest: state.expect(deadline) })
    }

    /// Takes a job out.
    #[inline]
    pub(crate) fn cancel(&self, key: Key) -> Option<Job> {
        let mut state = lock(&self.state);
        let job = state.hierarchy.cancel(key)?;
        state.tally.cancelled += 1;
        Some(ManuallyDrop::into_inner(job))
    }

    /// Gives a job another deadline; whether it was there.
    #[inline]
    pub(crate) fn reset(&self, key: Key, deadline: Tick) -> Planned<bool> {
        let mut state = lock(&self.state);
        let done = state.hierarchy.reset(key, deadline);
        Planned { done, earliest: done && state.expect(deadline) }
    }

    pub(crate) fn deadline(&self, key: Key) -> Option<Tick> {
        lock(&self.state).hierarchy.deadline(key)
    }

    pub(crate) fn location(&self, key: Key) -> Option<Location> {
        lock(&self.state).hierarchy.location(key)
    }

    /// A tick before which nothing here is due.
    pub(crate) fn expected(&self) -> Tick {
        lock(&self.state).expected
    }

    pub(crate) fn tally(&self) -> Tally {
        let state = lock(&self.state);
        Tally { pending: state.hierarchy.len(), ..state.tally }
    }

    /// Advances to `to`, and appends what is due, looking at no more than `limit` entries. Whoever gets
    /// the jobs takes them out of their `ManuallyDrop`.
    pub(crate) fn turn(
        &self,
        to: Tick,
        limit: usize,
        due: &mut Vec<(Key, ManuallyDrop<Job>)>,
    ) -> Turned {
        let before = due.len();
        let mut state = lock(&self.state);
        if state.expected > to && state.hierarchy.now() >= to {
            return Turned { fired: 0, finished: true };
        }
        let finished = state.hierarchy.advance(to, limit, due).finished;
        state.expected = state.hierarchy.next_turn().unwrap_or(Tick::MAX);
        let fired = due.len() - before;
        state.tally.fired += fired as u64;
        Turned { fired, finished }
    }

    /// Closes the shard, and takes everything out: no insert succeeds from here on. What is left of it
    /// takes next to no memory.
    pub(crate) fn close(&self) -> Vec<(Key, Tick, Job)> {
        let smallest = Geometry::ring(1).expect("one slot makes a ring");
        let mut state = lock(&self.state);
        state.closed = true;
        state.expected = Tick::MAX;
        let hierarchy = core::mem::replace(&mut state.hierarchy, Hierarchy::new(smallest));
        drop(state);
        let timers = hierarchy.into_timers();
        timers.map(|(key, deadline, job)| (key, deadline, ManuallyDrop::into_inner(job))).collect()
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let jobs = state.hierarchy.drain().map(|(_, _, job)| ManuallyDrop::into_inner(job));
        // All of them at once: should one panic, the rest are dropped all the same.
        drop(jobs.collect::<Vec<Job>>());
    }
}

impl State {
    /// Something is due at `deadline`; whether nothing was expected before that.
    fn expect(&mut self, deadline: Tick) -> bool {
        let earliest = deadline < self.expected;
        if earliest {
            self.expected = deadline;
        }
        earliest
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn shard() -> Shard {
        Shard::new(Geometry::default())
    }

    fn insert(shard: &Shard, deadline: u64) -> Planned<Key> {
        shard.insert(Tick::new(deadline), Box::new(|| ())).ok().unwrap()
    }

    #[test]
    fn only_an_earlier_deadline_is_reported() {
        let shard = shard();
        assert!(insert(&shard, 50).earliest);
        assert!(!insert(&shard, 50).earliest && !insert(&shard, 60).earliest);
        let key = insert(&shard, 40);
        assert!(key.earliest && shard.reset(key.done, Tick::new(10)).earliest);
        assert!(!shard.reset(key.done, Tick::new(90)).earliest);
        assert_eq!(shard.expected(), Tick::new(10));
    }

    #[test]
    fn a_job_that_never_comes_due_is_never_expected() {
        let shard = shard();
        assert!(!insert(&shard, u64::MAX).earliest);
        assert_eq!(shard.expected(), Tick::MAX);
    }

    #[test]
    fn a_clock_that_stepped_back_finds_nothing_due_and_loses_nothing() {
        let shard = shard();
        let mut due = Vec::new();
        assert!(shard.turn(Tick::new(100), usize::MAX, &mut due).finished);
        // The clock now reads 40, and five ticks from then are 45.
        insert(&shard, 45);
        assert!(shard.turn(Tick::new(45), usize::MAX, &mut due).finished);
        assert!(due.is_empty(), "the wheel stands until the clock has caught up");
        assert_eq!(shard.turn(Tick::new(101), usize::MAX, &mut due).fired, 1);
    }

    #[test]
    fn a_shard_drops_the_jobs_that_are_left() {
        let (shard, captured) = (shard(), std::sync::Arc::new(()));
        for deadline in [1, 1, 70_000] {
            let captured = std::sync::Arc::clone(&captured);
            let job = Box::new(move || drop(captured));
            assert!(shard.insert(Tick::new(deadline), job).is_ok());
        }
        drop(shard);
        assert_eq!(std::sync::Arc::strong_count(&captured), 1);
    }

    #[test]
    fn a_closed_shard_gives_back_what_it_has_and_what_comes() {
        let shard = shard();
        let key = insert(&shard, 5).done;
        let taken: Vec<Key> = shard.close().into_iter().map(|(key, ..)| key).collect();
        assert_eq!(taken, [key]);
        assert!(shard.insert(Tick::new(1), Box::new(|| ())).is_err());
        assert!(shard.cancel(key).is_none() && shard.close().is_empty());
    }
}
