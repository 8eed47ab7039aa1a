//! The bound on pending jobs.
//!
//! Ground rules: a job is counted from before it enters a shard until it has left; a re-armable job
//! until its end. So the bound is never exceeded, not even for a moment. The count must be exact,
//! but orders no other memory: the data of a job crosses between threads under its shard's lock.

use super::Engine;
use crate::host::sync::{AtomicUsize, Ordering};
use crate::values::error::InsertErrorKind;

impl Engine {
    /// Takes room for `jobs` jobs. Returns the reason if there is none.
    #[inline]
    pub(super) fn admit(&self, jobs: usize) -> Result<(), InsertErrorKind> {
        match &self.bound {
            Some(bound) if !bound.try_acquire(jobs) => Err(self.refuse(jobs)),
            _ => Ok(()),
        }
    }

    /// Counts jobs that found no room. Returns the reason.
    #[cold]
    fn refuse(&self, jobs: usize) -> InsertErrorKind {
        self.note_refused(jobs);
        match self.is_stopped() {
            // If the wheel is full *and* shut down, say shut down: that is final.
            true => InsertErrorKind::Shutdown,
            false => InsertErrorKind::Full,
        }
    }

    /// Counts jobs that an insert refused.
    #[cold]
    pub(crate) fn note_refused(&self, jobs: usize) {
        self.refused.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// Counts `jobs` admitted jobs as refused, and gives their room back.
    #[cold]
    pub(super) fn release_refused(&self, jobs: usize) {
        self.note_refused(jobs);
        self.release(jobs);
    }

    /// Gives back the room of jobs that are not pending any more, and notifies idle waiters.
    #[inline]
    pub(super) fn release(&self, jobs: usize) {
        if let Some(bound) = &self.bound {
            bound.release(jobs);
        }
        if self.idle_waiters.any() {
            self.idle_waiters.notify();
        }
    }

    /// Returns how many jobs may be pending, if there is a bound.
    pub(crate) fn max_pending(&self) -> Option<usize> {
        self.bound.as_ref().map(|bound| bound.max)
    }
}

/// The bound, and how many more jobs may be pending.
pub(super) struct Bound {
    max: usize,
    room: AtomicUsize,
}

impl Bound {
    pub(super) fn new(max: usize) -> Bound {
        Bound { max, room: AtomicUsize::new(max) }
    }

    /// Takes room for all of the jobs, or for none. Returns whether there was room.
    fn try_acquire(&self, jobs: usize) -> bool {
        let less = |room: usize| room.checked_sub(jobs);
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    pub(super) fn release(&self, jobs: usize) {
        self.room.fetch_add(jobs, Ordering::Relaxed);
    }
}
