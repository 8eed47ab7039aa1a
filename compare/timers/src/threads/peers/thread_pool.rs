//! `scheduled-thread-pool` with two threads: a binary heap behind a mutex, cancelled by a flag. A
//! cancelled job stays in the heap, with its closure, until its time has come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scheduled_thread_pool::{JobHandle, OnPoolDropBehavior, ScheduledThreadPool};

use crate::threads::timer::{Timer, capture};

#[derive(Clone)]
pub(in crate::threads) struct ThreadPool {
    pool: Arc<ScheduledThreadPool>,
}

impl Timer for ThreadPool {
    const NAME: &'static str = "scheduled-thread-pool";
    type Job = JobHandle;
    type Timeout = JobHandle;

    fn start() -> ThreadPool {
        let pool = ScheduledThreadPool::builder()
            .num_threads(2)
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build();
        ThreadPool { pool: Arc::new(pool) }
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> JobHandle {
        self.pool.execute_after(at.saturating_duration_since(Instant::now()), job)
    }

    fn cancel_job(&mut self, job: JobHandle) -> bool {
        job.cancel();
        true
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> JobHandle {
        self.pool.execute_after(delay, capture(number))
    }

    fn cancel(&mut self, timeout: JobHandle) -> bool {
        self.cancel_job(timeout)
    }
}
