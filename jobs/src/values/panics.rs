//! What a panic of the program's code leaves behind: a payload, whose drop may panic as well, and perhaps a lock that
//! was held. Neither stops the jobs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls code that may panic. Returns `None` if it has panicked.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    let drop_payload = |payload| {
        // The drop of a payload may panic as well. What that panic has carried is never dropped.
        catch_unwind(AssertUnwindSafe(|| drop(payload))).unwrap_or_else(core::mem::forget);
    };
    catch_unwind(AssertUnwindSafe(call)).map_err(drop_payload).ok()
}

/// Locks a mutex, also if a thread has panicked while it held the lock. Code that changes a value in several parts
/// under a lock handles its own panic.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
