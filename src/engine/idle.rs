//! The wait for an idle wheel: one in which nothing is pending and nothing is in flight.
//!
//! Ground rules:
//!
//! - What may make the wheel idle (the end of a job, a cancel, a stop) happens first; then it calls
//!   [`IdleWaiters::notify`]. A waiter first counts itself, then looks whether the wheel is idle.
//!   So either the waiter sees that the wheel is idle, or the notifier sees the waiter: through the
//!   lock of the shard if a job left it, and through the count of ended jobs if one ended, which
//!   both change.
//! - Without a waiter, a notification is one load of a counter that nobody writes.

use core::time::Duration;

use crate::host::clock::Limit;
use crate::host::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock, wait_timeout};

pub(crate) struct IdleWaiters {
    waiting: AtomicUsize,
    /// How many notifications there were while somebody waited.
    notified: Mutex<u64>,
    bell: Condvar,
}

impl IdleWaiters {
    pub(crate) fn new() -> IdleWaiters {
        IdleWaiters { waiting: AtomicUsize::new(0), notified: Mutex::new(0), bell: Condvar::new() }
    }

    /// Returns whether anybody waits.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Lets the waiters look again. To be called if there are [any](IdleWaiters::any).
    #[cold]
    pub(crate) fn notify(&self) {
        *lock(&self.notified) += 1;
        self.bell.notify_all();
    }

    /// Waits until `is_idle` says so, or until `limit` has passed. Returns what it said last.
    pub(crate) fn wait(&self, is_idle: impl Fn() -> bool, limit: Duration) -> bool {
        let limit = Limit::new(limit);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut idle;
        loop {
            let seen = *lock(&self.notified);
            idle = is_idle();
            if idle || limit.has_passed() {
                break;
            }
            let notified = lock(&self.notified);
            if *notified == seen {
                drop(wait_timeout(&self.bell, notified, limit.remaining()));
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        idle
    }
}
