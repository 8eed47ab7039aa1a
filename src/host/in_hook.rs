//! Hooks: says whether a thread is calling user code that is no job.
//!
//! A wheel calls hooks by itself: a waker, [`Full::Give`](crate::Full::Give), a handler of panics,
//! and the drop of a value on the thread that advances or ends a wheel.
//!
//! Ground rules:
//!
//! - A thread that advances or ends a wheel waits for the hooks that it calls, and other threads
//!   may wait for it. So no verb waits inside a hook: not for its own wheel, and not for another
//!   wheel, one of whose hooks may be waiting for this wheel.
//! - The note is thread-local. Hooks nest, so the end of a hook restores the note to its previous
//!   value.

use core::cell::Cell;

std::thread_local! {
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Calls a hook, or a function that calls hooks. It must not unwind.
pub(crate) fn call_hook(call: impl FnOnce()) {
    let outer = IN_HOOK.replace(true);
    call();
    IN_HOOK.set(outer);
}

/// Returns whether this thread is inside a hook. Then the caller must not wait for other threads.
pub(crate) fn is_in_hook() -> bool {
    IN_HOOK.get()
}
