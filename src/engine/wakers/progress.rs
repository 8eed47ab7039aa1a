//! How far a shard of wakers has come, for a look without its lock.
//!
//! Ground rules:
//!
//! - Written under the lock of the shard, before any of the wakers that it is about is called.
//! - A tick that is finished has come: its timers are gone.
//! - A tick that has not begun has called no waker. If it begins during the look, the waker is called
//!   after the look has begun, so its task polls again. If the waker was called before, then whatever
//!   lets the poll follow that call shows it the beginning too.
//! - That goes for the waker that is registered. A look with another one takes the lock.
//! - What has begun does not fall: an advance that is not finished goes on to the same tick.

use std::task::{RawWakerVTable, Waker};

use crate::host::sync::{AtomicU64, Ordering};
use crate::values::time::Tick;

/// Two cache lines to itself: while nothing comes due, nobody writes to it.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Progress {
    /// No timer of a later tick has fired. [`Tick::MAX`] once the shard is closed.
    begun: AtomicU64,
    /// No timer of this tick or an earlier one is there, unless it was reset to the past. Zero once
    /// the shard is closed.
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

    /// Every tick up to this one begins.
    pub(super) fn begin(&self, tick: Tick) {
        debug_assert!(
            self.begun.load(Ordering::Relaxed) <= tick.get(),
            "what has begun does not end"
        );
        self.begun.store(tick.get(), Ordering::Release);
    }

    /// Every tick up to this one is finished.
    pub(super) fn finish(&self, tick: Tick) {
        self.finished.store(tick.get(), Ordering::Release);
    }

    /// From here on the shard has to be asked.
    pub(super) fn close(&self) {
        self.begun.store(Tick::MAX.get(), Ordering::Release);
        self.finished.store(0, Ordering::Release);
    }
}

/// Tells a waker from all others, as long as it is there.
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
