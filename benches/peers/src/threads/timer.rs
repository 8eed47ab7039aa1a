//! What every peer can do: the one door through which all of them are measured.
//!
//! Ground rules:
//!
//! - A peer is used as its documentation advises, with the cheapest form that does the work.
//! - A *job* is a closure that runs when its time has come. A *timeout* is what a program sets
//!   before it waits for something and takes back afterwards: where tasks sleep instead of closures
//!   being called, it is a sleep that was polled once, and cancelling means dropping it.
//! - Every thread uses a clone of its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub(crate) trait Timer: Clone + Send + 'static {
    /// What the report calls it.
    const NAME: &'static str;

    /// What is held of a pending job. Dropping it need not leave the job alone: see
    /// [`Timer::forget`].
    type Job: Send;

    /// What is held of a pending timeout.
    type Timeout: Send;

    fn start() -> Self;

    /// Runs `job` at `at` or later.
    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> Self::Job;

    /// Whether the job was still pending. A peer that does not tell answers `true`.
    fn cancel_job(&mut self, job: Self::Job) -> bool;

    /// Lets the job run without anybody holding on to it.
    fn forget(job: Self::Job) {
        drop(job);
    }

    /// Sets a timeout. `number` is what its closure captures, if it has one.
    fn timeout(&mut self, delay: Duration, number: u64) -> Self::Timeout;

    /// Whether the timeout was still pending. A peer that does not tell answers `true`.
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

    /// Waits until the peer has taken note of all that it was told: messages that it has not
    /// received yet, tasks that have not begun to sleep.
    fn settle(&mut self) {}
}

/// The timeout's job: it captures eight bytes, so that it is an allocation where closures are
/// boxed.
pub(crate) fn capture(number: u64) -> impl FnOnce() + Send + 'static {
    move || {
        std::hint::black_box(number);
    }
}

/// Polls a future for nobody.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Gives `hand_over` something to call, and waits until it has been called.
pub(crate) fn wait_for(hand_over: impl FnOnce(Box<dyn FnOnce() + Send>)) {
    let (called, wait) = mpsc::channel();
    hand_over(Box::new(move || {
        // Nobody waits any more only when this thread has panicked.
        let _ = called.send(());
    }));
    wait.recv().expect("the peer has dropped a job without running it");
}

/// How long it is until `at`, in whole milliseconds, rounded up: for peers that cut off what is
/// below a millisecond. Whoever uses one of them and must not be early has to do the same.
pub(crate) fn whole_millis_until(at: Instant) -> Duration {
    let delay = at.saturating_duration_since(Instant::now());
    Duration::from_millis(delay.as_nanos().div_ceil(1_000_000) as u64)
}
