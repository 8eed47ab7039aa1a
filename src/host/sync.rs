//! Locks, atomics and sleep: from `std`, or from `loom` when the protocols are model-checked
//! (`--cfg loom`).
//!
//! No lock of this crate is held while user code runs, with one exception: the `Eq` of a key runs
//! under the lock of a map of keys, and may panic there, but before anything has changed. So
//! [`lock`] ignores poison.

#[cfg(loom)]
pub(crate) use loom::thread_local;
#[cfg(not(loom))]
pub(crate) use std::thread_local;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::time::Duration;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock, PoisonError};

/// Locks the mutex, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'a, T>(bell: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    bell.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the condition variable is notified, or until `timeout` has passed; may return sooner.
/// In a model no time passes: a wake that is needed and does not come is a deadlock, which the model
/// checker reports.
#[cfg_attr(loom, expect(unused_variables))]
pub(crate) fn wait_timeout<'a, T>(
    bell: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    #[cfg(loom)]
    return wait(bell, guard);
    #[cfg(not(loom))]
    bell.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}

/// Puts one thread to sleep until another wakes it. A wake that comes before the sleep is kept, and
/// ends that sleep at once, so no wake is lost.
///
/// A loop may stand in for the thread: it sleeps elsewhere, and each wake calls its hook.
pub(crate) struct Parker {
    state: Mutex<ParkerState>,
    bell: Condvar,
    /// Called by every wake, for a loop that sleeps elsewhere.
    hook: OnceLock<Hook>,
    is_turned: AtomicBool,
}

#[derive(Default)]
struct ParkerState {
    woken: bool,
    /// The thread sleeps here. If it does not, a wake saves the system call.
    sleeps: bool,
}

/// May call user code. It catches the panics of that.
type Hook = Arc<dyn Fn() + Send + Sync + UnwindSafe + RefUnwindSafe>;

impl Parker {
    pub(crate) fn new() -> Parker {
        Parker {
            state: Mutex::new(ParkerState::default()),
            bell: Condvar::new(),
            hook: OnceLock::new(),
            is_turned: AtomicBool::new(false),
        }
    }

    /// Ends the current sleep, or the next one if the thread is awake.
    pub(crate) fn wake(&self) {
        self.wake_because(None);
    }

    /// Wakes as [`Parker::wake`] does. Returns false if the hook was not called: because it is
    /// [postponed](postpone_hooks), or because this thread is calling a hook for the same
    /// cause already (a hook may cause the same wake again).
    pub(crate) fn wake_because(&self, cause: Option<Cause>) -> bool {
        let sleeps = {
            let mut state = lock(&self.state);
            state.woken = true;
            state.sleeps
        };
        if sleeps {
            self.bell.notify_one();
        }
        match self.hook.get() {
            None => true,
            Some(hook) if is_under_way(cause) || is_postponed(hook, cause) => false,
            Some(hook) => {
                call(hook, cause);
                true
            }
        }
    }

    /// Returns whether the next sleep would end at once.
    #[cfg(loom)]
    pub(crate) fn is_woken(&self) -> bool {
        lock(&self.state).woken
    }

    /// Returns whether a loop of the user's stands in for the thread, or may begin to at any time.
    #[cfg(any(feature = "async", feature = "tracing"))]
    pub(crate) fn is_turned(&self) -> bool {
        self.is_turned.load(Ordering::SeqCst)
    }

    /// Notes whether a loop of the user's stands in for the thread, or may begin to.
    pub(crate) fn set_turned(&self, is_turned: bool) {
        self.is_turned.store(is_turned, Ordering::SeqCst);
    }

    /// Makes every wake call `hook`, outside the lock. Later calls have no effect.
    pub(crate) fn set_hook(
        &self,
        hook: impl Fn() + Send + Sync + UnwindSafe + RefUnwindSafe + 'static,
    ) {
        let _ = self.hook.set(Arc::new(hook));
    }

    /// Sleeps until woken, or until `timeout` has passed; may end sooner.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        let mut state = lock(&self.state);
        if !state.woken {
            state.sleeps = true;
            state = match timeout {
                None => wait(&self.bell, state),
                Some(timeout) => wait_timeout(&self.bell, state, timeout),
            };
        }
        *state = ParkerState::default();
    }
}

std::thread_local! {
    /// The number of [`PostponedHooks`] that this thread has. They nest if the `Eq` of a key uses
    /// keys.
    static POSTPONEMENTS: Cell<usize> = const { Cell::new(0) };
    /// The postponed hooks, and why each is called.
    static POSTPONED: RefCell<Vec<(Hook, Option<Cause>)>> = const { RefCell::new(Vec::new()) };
    /// The causes of the hooks that this thread is calling. The calls nest if a hook inserts into a
    /// wheel that a loop advances.
    static UNDER_WAY: RefCell<Vec<Option<Cause>>> = const { RefCell::new(Vec::new()) };
}

/// Why a thread is woken: the address of the object that wakes it, and a number of that object's.
pub(crate) type Cause = (usize, u64);

/// Postpones the hooks that this thread would call until the returned value is dropped: those of
/// every parker, also one that gets its hook meanwhile. A caller that wakes under a lock drops that
/// value after it has released the lock.
pub(crate) fn postpone_hooks() -> PostponedHooks {
    POSTPONEMENTS.set(POSTPONEMENTS.get() + 1);
    PostponedHooks(PhantomData)
}

/// Returns whether this thread is calling a hook for this cause.
fn is_under_way(cause: Option<Cause>) -> bool {
    cause.is_some()
        && UNDER_WAY.try_with(|causes| causes.borrow().contains(&cause)).unwrap_or_default()
}

fn call(hook: &Hook, cause: Option<Cause>) {
    let noted = UNDER_WAY.try_with(|causes| causes.borrow_mut().push(cause)).is_ok();
    hook();
    if noted {
        let _ = UNDER_WAY.try_with(|causes| causes.borrow_mut().pop());
    }
}

/// Calls the hooks that were postponed, when it is dropped.
pub(crate) struct PostponedHooks(PhantomData<*const ()>);

/// Postpones the hook, if hooks are to wait. Returns whether it did.
fn is_postponed(hook: &Hook, cause: Option<Cause>) -> bool {
    // At the end of a thread its list may be gone.
    POSTPONEMENTS.get() > 0
        && POSTPONED.try_with(|hooks| hooks.borrow_mut().push((Arc::clone(hook), cause))).is_ok()
}

impl Drop for PostponedHooks {
    fn drop(&mut self) {
        POSTPONEMENTS.set(POSTPONEMENTS.get() - 1);
        if POSTPONEMENTS.get() == 0 {
            let hooks = POSTPONED.try_with(RefCell::take).unwrap_or_default();
            hooks.into_iter().for_each(|(hook, cause)| call(&hook, cause));
        }
    }
}
