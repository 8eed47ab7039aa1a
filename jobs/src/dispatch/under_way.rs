//! The futures under way on a manual clock: they go on when the driver's call has returned.
//!
//! Ground rules:
//!
//! - A run leaves once its end is in the store, so whoever waits finds what it led to.
//! - Whatever wakes a future runs outside the lock.

use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Counts the futures under way.
#[derive(Default)]
pub(crate) struct UnderWay {
    inner: Mutex<Inner>,
    none_left: Condvar,
}

#[derive(Default)]
struct Inner {
    runs: usize,
    wakers: Vec<Waker>,
}

impl UnderWay {
    /// A future has begun.
    #[cfg(feature = "tokio")]
    pub(crate) fn enter(&self) {
        self.lock().runs += 1;
    }

    /// A future has ended, and the store knows.
    #[cfg(feature = "tokio")]
    pub(crate) fn leave(&self) {
        let mut inner = self.lock();
        inner.runs -= 1;
        if inner.runs > 0 {
            return;
        }
        let wakers = core::mem::take(&mut inner.wakers);
        drop(inner);
        self.none_left.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Says whether a future is under way.
    pub(crate) fn is_any(&self) -> bool {
        self.lock().runs > 0
    }

    /// Waits until none is, on this thread.
    pub(crate) fn wait(&self) {
        let mut inner = self.lock();
        while inner.runs > 0 {
            inner = self.none_left.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until none is.
    pub(crate) async fn none(&self) {
        poll_fn(|context| {
            let waker = context.waker().clone();
            let mut inner = self.lock();
            if inner.runs == 0 {
                return Poll::Ready(());
            }
            if !inner.wakers.iter().any(|known| known.will_wake(&waker)) {
                inner.wakers.push(waker);
            }
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
