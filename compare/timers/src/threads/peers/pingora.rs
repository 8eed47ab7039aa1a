//! `pingora-timeout`: its fast timeouts, rounded up to 10 ms, in a map for each thread; a thread of
//! its own looks at all maps every 10 ms. The tasks run on a tokio runtime with two workers.
//!
//! A timeout that is dropped leaves its map's entry behind until the entry's time has come; all
//! timeouts of the same 10 ms share one.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use ::tokio::runtime::Runtime;
use ::tokio::task::JoinHandle;
use pingora_timeout::sleep;

use super::tokio::{abort, begins, runtime, settle};
use crate::threads::timer::{Timer, poll_once};

#[derive(Clone)]
pub(in crate::threads) struct Pingora {
    runtime: &'static Runtime,
}

impl Timer for Pingora {
    const NAME: &'static str = "pingora-timeout";
    type Job = JoinHandle<()>;
    type Timeout = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn start() -> Pingora {
        Pingora { runtime: runtime() }
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        self.runtime.spawn(async move {
            // Its delays count from the first poll.
            sleep(at.saturating_duration_since(Instant::now())).await;
            job();
        })
    }

    fn cancel_job(&mut self, job: JoinHandle<()>) -> bool {
        abort(&job)
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> Self::Timeout {
        black_box(number);
        let mut sleep = Box::pin(sleep(delay));
        assert!(begins(sleep.as_mut()), "the delay lies ahead");
        sleep
    }

    fn cancel(&mut self, timeout: Self::Timeout) -> bool {
        drop(timeout);
        true
    }

    /// A task keeps such a sleep on its own stack.
    fn pair(&mut self, delay: Duration, number: u64) -> bool {
        black_box(number);
        poll_once(pin!(sleep(delay))).is_pending()
    }

    fn settle(&mut self) {
        settle(self.runtime);
    }
}
