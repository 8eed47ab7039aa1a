//! Futures that are polled by hand.

use super::*;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use tickwheel::Sleep;
use tokio::runtime::{self, Runtime};

/// Returns a runtime with this number of threads. One is the thread of the test.
pub(crate) fn tokio(threads: usize) -> Runtime {
    match threads {
        1 => runtime::Builder::new_current_thread().enable_time().build().unwrap(),
        _ => {
            let mut builder = runtime::Builder::new_multi_thread();
            builder.worker_threads(threads).enable_time().build().unwrap()
        }
    }
}

/// A future that is polled by hand, with a waker that counts.
pub(crate) struct Polled<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn polled<F: Future>(future: F) -> Polled<F> {
    Polled { future: Box::pin(future), wakes: Arc::default() }
}

impl<F: Future> Polled<F> {
    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        self.poll_by(&self.waker())
    }

    /// Polls with another waker.
    pub(crate) fn poll_by(&mut self, waker: &Waker) -> Poll<F::Output> {
        self.future.as_mut().poll(&mut Context::from_waker(waker))
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.wakes))
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    /// Returns how many clones of the waker exist elsewhere.
    pub(crate) fn clones(&self) -> usize {
        Arc::strong_count(&self.wakes) - 1
    }

    /// Returns a function that counts the wakers, also after the future is dropped.
    pub(crate) fn watch(&self) -> impl Fn() -> usize + use<F> {
        let wakes = Arc::downgrade(&self.wakes);
        move || wakes.strong_count()
    }

    /// Polls at first and after each wake, and at no other time.
    #[track_caller]
    pub(crate) fn finish(&mut self, time: &Time) -> F::Output {
        loop {
            let seen = self.wakes();
            match self.poll() {
                Poll::Ready(output) => return output,
                Poll::Pending => time.until(|| self.wakes() > seen),
            }
        }
    }
}

impl<F: Future + Unpin> Polled<F> {
    pub(crate) fn get(&mut self) -> &mut F {
        &mut self.future
    }
}

/// Polls a sleep with a waker that calls `wake`. It must not be over.
pub(crate) fn poll_with(sleep: &mut Sleep, wake: impl Fn() + Send + Sync + 'static) {
    assert!(Pin::new(sleep).poll(&mut Context::from_waker(&waker(wake))).is_pending());
}

/// Polls a sleep with a waker that drops a value when it is dropped.
pub(crate) fn poll_with_captured<T: Send + Sync + 'static>(sleep: &mut Sleep, captured: T) {
    poll_with(sleep, move || {
        let _ = &captured;
    });
}
