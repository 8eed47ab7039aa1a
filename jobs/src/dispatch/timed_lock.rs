//! A lock whose wait has a limit.
//!
//! Ground rules:
//!
//! - A thread takes the `Turn` first, then the value, and gives them back in the other order. So no thread
//!   waits for the mutex of the value.
//! - The mutex of the `Turn` is held for a moment only, and no other code runs meanwhile.

use core::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A value that one thread at a time has.
pub(crate) struct TimedLock<T> {
    is_taken: Mutex<bool>,
    freed: Condvar,
    value: Mutex<T>,
}

/// Access to the value. It gives the value back first, then the `Turn`.
pub(crate) struct Guard<'a, T> {
    value: MutexGuard<'a, T>,
    _turn: Turn<'a>,
}

struct Turn<'a> {
    is_taken: &'a Mutex<bool>,
    freed: &'a Condvar,
}

impl<T> TimedLock<T> {
    pub(crate) fn new(value: T) -> TimedLock<T> {
        TimedLock { is_taken: Mutex::new(false), freed: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits for the value, until `until` if there is one. Returns `None` once that has passed.
    pub(crate) fn lock_until(&self, until: Option<Instant>) -> Option<Guard<'_, T>> {
        let mut is_taken = unpoisoned(self.is_taken.lock());
        while *is_taken {
            is_taken = match until {
                None => unpoisoned(self.freed.wait(is_taken)),
                Some(until) => {
                    let left = until.saturating_duration_since(present());
                    if left.is_zero() {
                        return None;
                    }
                    unpoisoned(self.freed.wait_timeout(is_taken, left)).0
                }
            };
        }
        *is_taken = true;
        drop(is_taken);
        Some(self.guard())
    }

    /// Takes the value if no other thread has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let was_taken = core::mem::replace(&mut *unpoisoned(self.is_taken.lock()), true);
        (!was_taken).then(|| self.guard())
    }

    fn guard(&self) -> Guard<'_, T> {
        let turn = Turn { is_taken: &self.is_taken, freed: &self.freed };
        Guard { value: unpoisoned(self.value.lock()), _turn: turn }
    }
}

/// Ignores a panic under the lock: the value stays as it is.
fn unpoisoned<T>(locked: Result<T, PoisonError<T>>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *unpoisoned(self.is_taken.lock()) = false;
        self.freed.notify_one();
    }
}

#[expect(clippy::disallowed_methods, reason = "a caller's own wait, whatever clock the jobs go by")]
fn present() -> Instant {
    Instant::now()
}
