//! The wait for an idle wheel: one in which no job is pending or in flight.
//!
//! Ground rules:
//!
//! - A thread that may make the wheel idle (by the end of a job, a cancel, a stop) does so first,
//!   and then calls [`IdleWaiters::notify`]. A waiter first counts itself, and then checks whether
//!   the wheel is idle. So the waiter sees the idle wheel, or the notifier sees the waiter. If a
//!   job left a shard, the lock of the shard orders the two; if a job ended, the count of ended
//!   jobs does, which both write.
//! - Without a waiter, a notification is one load of a counter that no thread writes.

use core::time::Duration;

use crate::host::clock::Limit;
use crate::host::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock, wait_timeout};

pub(crate) struct IdleWaiters {
    waiting: AtomicUsize,
    /// The number of notifications that were sent because a thread was waiting.
    notified: Mutex<u64>,
    bell: Condvar,
}

impl IdleWaiters {
    pub(crate) fn new() -> IdleWaiters {
        IdleWaiters { waiting: AtomicUsize::new(0), notified: Mutex::new(0), bell: Condvar::new() }
    }

    /// Returns whether any thread waits.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Makes the waiters check again. To be called if there are [any](IdleWaiters::any).
    #[cold]
    pub(crate) fn notify(&self) {
        *lock(&self.notified) += 1;
        self.bell.notify_all();
    }

    /// Waits until `is_idle` returns true, or until `limit` has passed. Returns its last result.
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
