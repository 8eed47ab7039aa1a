//! One of several hierarchies that producers are spread over, behind its lock: the only lock that
//! an insert, a cancel or a reset takes.
//!
//! Ground rules:
//!
//! - No user code runs under the lock: a closure is boxed before (but for a batch), a cancelled job
//!   is given out to be dropped after.
//! - `next_due` is a tick before which nothing here is due. Inserts lower it, a turn raises it to
//!   what the hierarchy says. Who lowers it is told, and tells the ticker, outside the lock.
//! - Jobs lie in the hierarchy behind `ManuallyDrop`, because what has a destructor is copied
//!   through the stack on its way into the table, at 7 % of an insert and cancel. Whoever gets a
//!   job takes it out of there, and the shard's own drop takes what is left.
//! - A closed shard is empty and stays so. Under one lock a job is either in the hierarchy or it is
//!   not: of a cancel, a turn and a close, exactly one gets it.
//! - Jobs that go back into the wheel have a second place, the registry. What is done to them is in
//!   `rearmed.rs`, so one-shot jobs do not pay for it.

mod batch;
mod registry;
mod rearmed;

pub(crate) use rearmed::{Cancelled, Start};

use core::mem::ManuallyDrop;
use std::sync::PoisonError;

use crate::host::sync::{Mutex, lock};
use crate::structure::{Geometry, Hierarchy, Key, Location};
use crate::values::handle::Handle;
use crate::values::job::{Job, Work};
use crate::values::time::Tick;
use registry::Registry;

/// Two cache lines to itself, because processors fetch lines in pairs: shards do not meet.
#[repr(align(128))]
pub(crate) struct Shard {
    number: u32,
    state: Mutex<State>,
}

struct State {
    hierarchy: Hierarchy<ManuallyDrop<Job>>,
    registry: Registry,
    next_due: Tick,
    closed: bool,
    /// Standing jobs that came back to a closed shard, while a shutdown waits for them.
    strays: Option<Vec<Unstarted>>,
    tally: Tally,
}

/// A job that a closed shard gives out: who it is, when it was due.
pub(crate) type Unstarted = (Handle, Tick, Job);

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

/// What whoever turns the shard has to know beforehand.
#[derive(Clone, Copy)]
pub(crate) struct NextWake {
    /// A tick before which nothing is due.
    pub(crate) tick: Tick,
    /// Some job waits for a wall-clock time: the wall clock needs a look now and then.
    pub(crate) watch_wall: bool,
}

impl Shard {
    pub(crate) fn new(number: u32, geometry: Geometry) -> Shard {
        let state = State {
            hierarchy: Hierarchy::new(geometry),
            registry: Registry::default(),
            next_due: Tick::MAX,
            closed: false,
            strays: None,
            tally: Tally::default(),
        };
        Shard { number, state: Mutex::new(state) }
    }

    /// Adds a job; a closed shard gives it back.
    #[inline]
    pub(crate) fn insert<W>(&self, deadline: Tick, work: Box<W>) -> Result<Planned<Handle>, Box<W>>
    where
        W: Work + 'static,
    {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(work);
        }
        state.tally.inserted += 1;
        let key = state.hierarchy.insert(deadline, ManuallyDrop::new(Job::new(work)));
        Ok(Planned { done: self.handle(key), earliest: state.lower_next_due(deadline) })
    }

    /// Takes a job out.
    #[inline]
    pub(crate) fn cancel(&self, handle: Handle) -> Option<Job> {
        let mut state = lock(&self.state);
        let job = state.hierarchy.cancel(key(handle))?;
        state.tally.cancelled += 1;
        Some(ManuallyDrop::into_inner(job))
    }

    /// Gives a job another deadline; whether it was there.
    #[inline]
    pub(crate) fn reset(&self, handle: Handle, deadline: Tick) -> Planned<bool> {
        let mut state = lock(&self.state);
        let done = state.hierarchy.reset(key(handle), deadline);
        Planned { done, earliest: done && state.lower_next_due(deadline) }
    }

    pub(crate) fn deadline(&self, handle: Handle) -> Option<Tick> {
        lock(&self.state).hierarchy.deadline(key(handle))
    }

    /// Of a re-armable job too, while it is in.
    pub(crate) fn location(&self, handle: Handle) -> Option<Location> {
        let mut state = lock(&self.state);
        let key = match handle.rearmable_shard() {
            Some(_) => state.registry.registration(handle)?.key?,
            None => key(handle),
        };
        state.hierarchy.location(key)
    }

    pub(crate) fn next_wake(&self) -> NextWake {
        let state = lock(&self.state);
        NextWake { tick: state.next_due, watch_wall: state.registry.has_any_on_the_wall() }
    }

    /// The handle of a one-shot job.
    pub(crate) fn handle(&self, key: Key) -> Handle {
        Handle::new(self.number, key.generation, key.index)
    }

    pub(crate) fn tally(&self) -> Tally {
        let state = lock(&self.state);
        Tally { pending: state.hierarchy.len(), ..state.tally }
    }

    /// Advances to `to`, and appends what is due, looking at no more than `limit` entries; whether
    /// everything due was taken. Whoever gets the jobs takes them out of their `ManuallyDrop`.
    pub(crate) fn advance(
        &self,
        to: Tick,
        limit: usize,
        due: &mut Vec<(Key, ManuallyDrop<Job>)>,
    ) -> bool {
        let before = due.len();
        let mut state = lock(&self.state);
        if state.next_due > to && state.hierarchy.now() >= to {
            return true;
        }
        let finished = state.hierarchy.advance(to, limit, due).finished;
        state.next_due = state.hierarchy.next_turn().unwrap_or(Tick::MAX);
        state.tally.fired += (due.len() - before) as u64;
        finished
    }

    /// Closes the shard, and takes everything out: no insert succeeds from here on. What is left of
    /// it takes next to no memory, and the registrations of re-armable jobs that are out.
    ///
    /// Of these, some may come back: they are kept until [`Shard::finish_shutdown`].
    pub(crate) fn close(&self) -> Vec<Unstarted> {
        let smallest = Geometry::ring(1).expect("one slot makes a ring");
        let mut state = lock(&self.state);
        if core::mem::replace(&mut state.closed, true) {
            return Vec::new();
        }
        let hierarchy = core::mem::replace(&mut state.hierarchy, Hierarchy::new(smallest));
        state.registry.retain_out(|key| hierarchy.contains(key));
        state.strays = Some(Vec::new());
        state.next_due = Tick::MAX;
        drop(state);
        let with_handle = |(key, deadline, job)| {
            let job: Job = ManuallyDrop::into_inner(job);
            (job.handle().unwrap_or(self.handle(key)), deadline, job)
        };
        hierarchy.into_timers().map(with_handle).collect()
    }

    /// Ends the wait for re-armable jobs: those that came back are given out, and whether they still
    /// had their registrations. From here on nobody else is kept, and a handle is stale whatever became of
    /// its job.
    pub(crate) fn finish_shutdown(&self) -> Vec<(Unstarted, bool)> {
        let mut state = lock(&self.state);
        let strays = state.strays.take().unwrap_or_default();
        let with_registration = |stray: Unstarted| {
            let registered = state.registry.deregister(stray.0).is_some();
            (stray, registered)
        };
        strays.into_iter().map(with_registration).collect()
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
    /// Nobody comes back any more.
    fn is_ended(&self) -> bool {
        self.closed && self.strays.is_none()
    }

    /// Something is due at `deadline`; whether nothing was expected before that.
    fn lower_next_due(&mut self, deadline: Tick) -> bool {
        let earliest = deadline < self.next_due;
        if earliest {
            self.next_due = deadline;
        }
        earliest
    }
}

/// The key of a one-shot job.
#[inline]
fn key(handle: Handle) -> Key {
    Key { generation: handle.generation(), index: handle.index() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn shard() -> Shard {
        Shard::new(0, Geometry::default())
    }

    fn insert(shard: &Shard, deadline: u64) -> Planned<Handle> {
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
        assert_eq!(shard.next_wake().tick, Tick::new(10));
    }

    #[test]
    fn a_job_that_never_comes_due_is_never_expected() {
        let shard = shard();
        assert!(!insert(&shard, u64::MAX).earliest);
        assert_eq!(shard.next_wake().tick, Tick::MAX);
    }

    #[test]
    fn a_clock_that_stepped_back_finds_nothing_due_and_loses_nothing() {
        let shard = shard();
        let mut due = Vec::new();
        assert!(shard.advance(Tick::new(100), usize::MAX, &mut due));
        // The clock now reads 40, and five ticks from then are 45.
        insert(&shard, 45);
        assert!(shard.advance(Tick::new(45), usize::MAX, &mut due));
        assert!(due.is_empty(), "the wheel stands until the clock has caught up");
        assert!(shard.advance(Tick::new(101), usize::MAX, &mut due) && due.len() == 1);
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
        let handle = insert(&shard, 5).done;
        let taken: Vec<Handle> = shard.close().into_iter().map(|(handle, ..)| handle).collect();
        assert_eq!(taken, [handle]);
        assert!(shard.insert(Tick::new(1), Box::new(|| ())).is_err());
        assert!(shard.cancel(handle).is_none() && shard.close().is_empty());
    }
}
