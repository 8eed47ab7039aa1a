//! Who calls a verb: a thread, which waits, or a future, which is woken.
//!
//! Each verb is written once, as a future that is told who calls. For a thread everything in it blocks, so its
//! first poll is its last.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    Thread,
    Future,
}

/// Returns what a verb that a thread calls returns.
pub(super) fn on_thread<T>(verb: impl Future<Output = T>) -> T {
    let mut verb = pin!(verb);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = verb.as_mut().poll(&mut context) {
            return value;
        }
    }
}
