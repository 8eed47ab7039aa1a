//! The number of futures under way on a manual clock, whose driver waits until there is none.
//!
//! Ground rules:
//!
//! - A future leaves once the end of its run is in the store, so after a wait the store has the effects of that
//!   run.
//! - Wakers are called outside the lock.

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
    /// Counts a future that has begun.
    #[cfg(feature = "tokio")]
    pub(crate) fn enter(&self) {
        self.lock().runs += 1;
    }

    /// Removes a future from the count, because the end of its run is in the store.
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

    /// Blocks this thread until no future is under way.
    pub(crate) fn wait(&self) {
        let mut inner = self.lock();
        while inner.runs > 0 {
            inner = self.none_left.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until no future is under way.
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
