//! The trait through which all peers are measured.
//!
//! Ground rules:
//!
//! - A peer is used as its documentation advises, with the cheapest form that does the work.
//! - A *job* is a closure that runs when its time has come. A program sets a *timeout* before it
//!   waits for something, and cancels it afterwards. With a peer whose tasks sleep, instead of
//!   closures that are called, a timeout is a sleep that was polled once, and to cancel it is to
//!   drop it.
//! - Every thread uses a clone of its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub(crate) trait Timer: Clone + Send + 'static {
    /// Its name in the report.
    const NAME: &'static str;

    /// The handle of a pending job. With some peers its drop cancels the job: see [`Timer::forget`].
    type Job: Send;

    /// The handle of a pending timeout.
    type Timeout: Send;

    fn start() -> Self;

    /// Runs `job` at `at` or later.
    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> Self::Job;

    /// Cancels a job. Returns whether it was still pending, or `true` if the peer does not say.
    fn cancel_job(&mut self, job: Self::Job) -> bool;

    /// Lets the job run although its handle is dropped.
    fn forget(job: Self::Job) {
        drop(job);
    }

    /// Sets a timeout. `number` is what its closure captures, if it has one.
    fn timeout(&mut self, delay: Duration, number: u64) -> Self::Timeout;

    /// Cancels a timeout. Returns whether it was still pending, or `true` if the peer does not say.
    fn cancel(&mut self, timeout: Self::Timeout) -> bool;

    /// Sets a timeout and cancels it at once.
    fn pair(&mut self, delay: Duration, number: u64) -> bool {
        let timeout = self.timeout(delay, number);
        self.cancel(timeout)
    }

    /// Runs `work` where timeouts can be set: inside a runtime, where there is one.
    fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Waits until the peer has handled all earlier calls: it has received all messages, and all
    /// tasks have begun to sleep.
    fn settle(&mut self) {}
}

/// The closure of a timeout. It captures eight bytes, so a peer that boxes closures has to allocate.
pub(crate) fn capture(number: u64) -> impl FnOnce() + Send + 'static {
    move || {
        std::hint::black_box(number);
    }
}

/// Polls a future once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Passes a function to `hand_over`, and waits until the function has been called.
pub(crate) fn wait_for(hand_over: impl FnOnce(Box<dyn FnOnce() + Send>)) {
    let (called, wait) = mpsc::channel();
    hand_over(Box::new(move || {
        // The receiver is gone only if this thread has panicked.
        let _ = called.send(());
    }));
    wait.recv().expect("the peer has dropped a job without running it");
}

/// How long it is until `at`, in whole milliseconds, rounded up: for peers that cut off fractions
/// of a millisecond. A program that uses one of them, and must not be early, has to do the same.
pub(crate) fn whole_millis_until(at: Instant) -> Duration {
    let delay = at.saturating_duration_since(Instant::now());
    Duration::from_millis(delay.as_nanos().div_ceil(1_000_000) as u64)
}
