//! The drainers of a pool: the permits that limit them, and those that may be running a job.

use core::cell::RefCell;

use crate::host::clock::Limit;
use crate::host::sync::{
    AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, lock, thread_local, wait_timeout,
};

/// How many more drainers there may be. The operations are sequentially consistent for the first
/// ground rule of `pool.rs`.
pub(super) struct DrainerPermits {
    free: AtomicUsize,
}

impl DrainerPermits {
    pub(super) fn new(count: usize) -> DrainerPermits {
        DrainerPermits { free: AtomicUsize::new(count) }
    }

    /// Takes a permit. Returns whether there was one.
    pub(super) fn try_acquire(&self) -> bool {
        let less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    pub(super) fn release(&self) {
        self.free.fetch_add(1, Ordering::SeqCst);
    }
}

/// The drainers that may be running a job.
pub(super) struct ActiveDrainers {
    count: Mutex<usize>,
    changed: Condvar,
    closed: AtomicBool,
}

thread_local! {
    /// The wheels that have a drainer on this thread's stack, active or yielding, by the address of
    /// their [`ActiveDrainers`].
    // Not `const`, which loom's macro does not take.
    #[allow(clippy::missing_const_for_thread_local)]
    static ON_THIS_STACK: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

impl ActiveDrainers {
    pub(super) fn new() -> ActiveDrainers {
        ActiveDrainers {
            count: Mutex::new(0),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Makes a drainer active, unless this is closed. Returns whether it did.
    pub(super) fn enter(&self) -> bool {
        let mut count = lock(&self.count);
        // Under the lock that `close` takes: a drainer is either counted or refused.
        if self.is_closed() {
            return false;
        }
        *count += 1;
        ON_THIS_STACK.with(|stack| stack.borrow_mut().push(self.address()));
        true
    }

    pub(super) fn exit(&self) {
        ON_THIS_STACK.with(|stack| stack.borrow_mut().pop());
        *lock(&self.count) -= 1;
        self.changed.notify_all();
    }

    /// Lets the pool run one other task on this thread. A drainer of this wheel declines there, as
    /// during a job; but a shutdown does not wait for that task.
    pub(super) fn yield_now(&self) {
        ON_THIS_STACK.with(|stack| stack.borrow_mut().push(self.address()));
        rayon::yield_now();
        ON_THIS_STACK.with(|stack| stack.borrow_mut().pop());
    }

    /// Returns whether the calling thread is in the middle of a job of this wheel, or of a yield.
    pub(super) fn is_on_this_stack(&self) -> bool {
        ON_THIS_STACK.with(|stack| stack.borrow().contains(&self.address()))
    }

    /// A hint between two jobs; `enter` decides under the lock.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        let _count = lock(&self.count);
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn wait(&self, limit: &Limit) -> bool {
        let mut count = lock(&self.count);
        while *count > 0 && !limit.has_passed() {
            count = wait_timeout(&self.changed, count, limit.remaining());
        }
        *count == 0
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}
