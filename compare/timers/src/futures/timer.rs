//! The trait through which all peers are measured.

use std::future::{Future, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::tokio::runtime::{Builder, Runtime};
use async_executor::Executor;
use futures_lite::FutureExt;

/// The source of a peer's sleeps. A task uses a clone of its own.
pub(super) trait Futures: Default + Clone + Send + Sync + 'static {
    /// Its name in the report.
    const NAME: &'static str;

    type Sleep: Future + Send + 'static;

    /// The runtime of the tasks.
    fn runtime(workers: usize) -> Runtime {
        builder(workers).build().expect("the runtime starts")
    }

    /// The source of the sleeps of tasks on this runtime.
    fn on(_runtime: &Runtime) -> Self {
        Self::default()
    }

    /// The source of the sleeps of tasks on an executor of smol.
    fn on_smol(_executor: &Executor<'static>) -> Self {
        Self::default()
    }

    fn sleep(&self, delay: Duration) -> Self::Sleep;

    fn sleep_until(&self, at: Instant) -> Self::Sleep;

    /// Sets the time anew, counted from now.
    fn reset(&self, sleep: Pin<&mut Self::Sleep>, delay: Duration);

    /// Sets the time to an instant. Reads no clock, if the peer can do without.
    fn reset_at(&self, sleep: Pin<&mut Self::Sleep>, at: Instant);

    /// Polls a future that is ready, within a timeout. Returns whether it was in time. If the peer
    /// has no timeout, this is a race of two futures.
    fn ready(&self, delay: Duration, number: u64, cx: &mut Context<'_>) -> bool {
        let limit = async {
            self.sleep(delay).await;
            None
        };
        let timeout = ready(Some(black_box(number))).or(limit);
        matches!(black_box(pin!(timeout).poll(cx)), Poll::Ready(Some(_)))
    }

    /// Limits a future to a delay. Returns its output if it was in time. If the peer has no timeout,
    /// this is a race of two futures.
    fn limit<T: Future + Send>(
        &self,
        delay: Duration,
        future: T,
    ) -> impl Future<Output = Option<T::Output>> + Send {
        let limit = async move {
            self.sleep(delay).await;
            None
        };
        async { Some(future.await) }.or(limit)
    }

    /// Makes a sleep, polls it once and drops it. Returns whether it was pending.
    fn once(&self, delay: Duration, cx: &mut Context<'_>) -> bool {
        pin!(self.sleep(delay)).poll(cx).is_pending()
    }
}

/// A runtime with that number of workers, and with timers.
pub(super) fn builder(workers: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_time();
    builder
}
