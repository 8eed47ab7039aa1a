//! The caller of a verb: a thread, which waits, or a future, which is woken.
//!
//! Each verb is written once, as an `async fn` with a [`Caller`]. For a thread every wait in it blocks, so the
//! first poll returns the result.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// Whether a thread or a future calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    Thread,
    Future,
}

/// Runs a verb on the calling thread, and returns its result.
pub(super) fn on_thread<T>(verb: impl Future<Output = T>) -> T {
    let mut verb = pin!(verb);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = verb.as_mut().poll(&mut context) {
            return value;
        }
    }
}
