//! `tokio::time` on a multi-threaded runtime with two workers.
//!
//! A job is a task that sleeps, and a timeout is a sleep that was polled once. The producers are
//! threads of their own that have entered the runtime, so their number does not depend on the
//! number of workers.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use ::tokio::runtime::{Builder, Runtime};
use ::tokio::task::JoinHandle;
use ::tokio::time::{Sleep, sleep, sleep_until};

use crate::threads::timer::{Timer, poll_once, wait_for};

/// The runtime lives as long as the process: a job may be the last that uses it, and no job may
/// drop the runtime it runs on.
#[derive(Clone)]
pub(in crate::threads) struct Tokio {
    runtime: &'static Runtime,
}

/// Two workers, and timers.
pub(super) fn runtime() -> &'static Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build();
    Box::leak(Box::new(runtime.expect("the runtime starts")))
}

/// Aborts a task. Returns whether it had not ended.
pub(super) fn abort(task: &JoinHandle<()>) -> bool {
    let pending = !task.is_finished();
    task.abort();
    pending
}

/// Waits until the workers have begun with all tasks spawned so far: their queues are in order.
pub(super) fn settle(runtime: &'static Runtime) {
    wait_for(|call| drop(runtime.spawn(async move { call() })));
}

/// Polls a sleep for the first time. Returns whether it is pending.
pub(super) fn begins(sleep: Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_once(sleep).is_pending()
}

impl Timer for Tokio {
    const NAME: &'static str = "tokio";
    type Job = JoinHandle<()>;
    type Timeout = Pin<Box<Sleep>>;

    fn start() -> Tokio {
        Tokio { runtime: runtime() }
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        self.runtime.spawn(async move {
            sleep_until(at.into()).await;
            job();
        })
    }

    fn cancel_job(&mut self, job: JoinHandle<()>) -> bool {
        abort(&job)
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> Pin<Box<Sleep>> {
        black_box(number);
        let mut sleep = Box::pin(sleep(delay));
        assert!(begins(sleep.as_mut()), "the delay lies ahead");
        sleep
    }

    fn cancel(&mut self, timeout: Pin<Box<Sleep>>) -> bool {
        !timeout.is_elapsed()
    }

    /// A task keeps such a sleep on its own stack.
    fn pair(&mut self, delay: Duration, number: u64) -> bool {
        black_box(number);
        let mut sleep = pin!(sleep(delay));
        begins(sleep.as_mut()) && !sleep.is_elapsed()
    }

    fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        let _context = self.runtime.enter();
        work()
    }

    fn settle(&mut self) {
        settle(self.runtime);
    }
}
