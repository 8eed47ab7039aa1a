//! Whether a thread calls a hook: code of the user's that is no job, and that a wheel calls by itself.
//!
//! A hook is a waker, [`Full::Give`](crate::Full::Give), a handler of panics, and the drop of a value on the
//! thread that advances or ends a wheel.
//!
//! Ground rules:
//!
//! - Whoever advances or ends a wheel may be waited for, and waits for the hook. So no verb waits in a hook: not
//!   for its own wheel, and not for another, in whose hook somebody may wait for this one.
//! - Each thread notes for itself that it calls a hook. A hook may call another one, so the note is restored and
//!   not removed.

use core::cell::Cell;

std::thread_local! {
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Calls what is a hook, or calls hooks. It must not unwind.
pub(crate) fn call_hook(call: impl FnOnce()) {
    let outer = IN_HOOK.replace(true);
    call();
    IN_HOOK.set(outer);
}

/// Returns whether a hook calls the caller, on this thread. Then the caller waits for nobody.
pub(crate) fn is_in_hook() -> bool {
    IN_HOOK.get()
}
