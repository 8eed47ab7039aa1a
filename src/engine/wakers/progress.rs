//! The progress of a shard of wakers, which can be read without the shard's lock.
//!
//! Ground rules:
//!
//! - It is written under the lock of the shard, before any waker of the ticks in question is
//!   called.
//! - A finished tick has come, and its timers are gone.
//! - No waker of a tick is called before the tick has begun. If it begins during a poll, its waker
//!   is called after the poll began, so the task polls again. A poll that happens after the wake
//!   also sees `begun`.
//! - This holds for the registered waker. A poll with another waker takes the lock.
//! - `begun` never falls: an unfinished advance goes on to the same tick.

use std::task::{RawWakerVTable, Waker};

use crate::host::sync::{AtomicU64, Ordering};
use crate::values::time::Tick;

/// Two cache lines to itself: while nothing comes due, no thread writes to it.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Progress {
    /// No timer of a later tick has fired. [`Tick::MAX`] once the shard is closed.
    begun: AtomicU64,
    /// No timer of this tick or an earlier one is pending, unless it was reset to the past. Zero
    /// once the shard is closed.
    finished: AtomicU64,
}

impl Progress {
    #[inline]
    pub(super) fn has_begun(&self, tick: Tick) -> bool {
        tick.get() <= self.begun.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn has_finished(&self, tick: Tick) -> bool {
        tick.get() <= self.finished.load(Ordering::Acquire)
    }

    /// Notes that every tick up to this one begins.
    pub(super) fn begin(&self, tick: Tick) {
        debug_assert!(
            self.begun.load(Ordering::Relaxed) <= tick.get(),
            "what has begun does not end"
        );
        self.begun.store(tick.get(), Ordering::Release);
    }

    /// Notes that every tick up to this one is finished.
    pub(super) fn finish(&self, tick: Tick) {
        self.finished.store(tick.get(), Ordering::Release);
    }

    /// From now on every poll takes the lock.
    pub(super) fn close(&self) {
        self.begun.store(Tick::MAX.get(), Ordering::Release);
        self.finished.store(0, Ordering::Release);
    }
}

/// Distinguishes a waker from all others while it exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakerIdentity {
    data: usize,
    vtable: &'static RawWakerVTable,
}

impl WakerIdentity {
    #[inline]
    pub(super) fn of(waker: &Waker) -> WakerIdentity {
        WakerIdentity { data: waker.data().addr(), vtable: waker.vtable() }
    }
}

impl PartialEq for WakerIdentity {
    /// As [`Waker::will_wake`] compares.
    #[inline]
    fn eq(&self, other: &WakerIdentity) -> bool {
        self.data == other.data && core::ptr::eq(self.vtable, other.vtable)
    }
}

impl Eq for WakerIdentity {}
