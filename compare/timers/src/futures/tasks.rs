//! Jobs as tasks: each sleeps until it is due, and then runs a closure.

use std::hint::black_box;
use std::pin::Pin;
use std::time::{Duration, Instant};

use ::tokio::runtime::Runtime;
use ::tokio::task::JoinHandle;

use super::timer::Futures;
use crate::threads::timer::{Timer, poll_once, wait_for};

/// A peer, and the runtime of its tasks, which lives as long as the process.
#[derive(Clone)]
pub(super) struct Tasks<F> {
    pub(super) futures: F,
    pub(super) runtime: &'static Runtime,
}

impl<F: Futures> Timer for Tasks<F> {
    const NAME: &'static str = F::NAME;
    type Job = JoinHandle<()>;
    type Timeout = Pin<Box<F::Sleep>>;

    fn start() -> Tasks<F> {
        let runtime = Box::leak(Box::new(F::runtime(2)));
        Tasks { futures: F::on(runtime), runtime }
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        let futures = self.futures.clone();
        self.runtime.spawn(async move {
            futures.sleep_until(at).await;
            job();
        })
    }

    fn cancel_job(&mut self, job: JoinHandle<()>) -> bool {
        let pending = !job.is_finished();
        job.abort();
        pending
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> Self::Timeout {
        black_box(number);
        let mut sleep = Box::pin(self.futures.sleep(delay));
        assert!(poll_once(sleep.as_mut()).is_pending(), "the delay lies ahead");
        sleep
    }

    fn cancel(&mut self, timeout: Self::Timeout) -> bool {
        drop(timeout);
        true
    }

    fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        let _context = self.runtime.enter();
        work()
    }

    /// Waits until the workers have begun with all tasks spawned so far.
    fn settle(&mut self) {
        wait_for(|call| drop(self.runtime.spawn(async move { call() })));
    }
}
