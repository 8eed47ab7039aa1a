//! `async-io`: its `Timer`, with the reactor's own thread. The tasks run on an `async-executor`
//! with two threads, as in smol.

use std::future::pending;
use std::hint::black_box;
use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};

use async_executor::{Executor, Task};

use crate::threads::timer::{self, poll_once, wait_for};

/// The executor and its threads live as long as the process.
#[derive(Clone)]
pub(in crate::threads) struct AsyncIo {
    executor: &'static Executor<'static>,
}

impl timer::Timer for AsyncIo {
    const NAME: &'static str = "async-io";
    type Job = Task<()>;
    type Timeout = async_io::Timer;

    fn start() -> AsyncIo {
        let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
        for _ in 0..2 {
            thread::spawn(|| async_io::block_on(executor.run(pending::<()>())));
        }
        AsyncIo { executor }
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> Task<()> {
        self.executor.spawn(async move {
            async_io::Timer::at(at).await;
            job();
        })
    }

    fn cancel_job(&mut self, job: Task<()>) -> bool {
        // Dropping the task cancels it.
        !job.is_finished()
    }

    fn forget(job: Task<()>) {
        job.detach();
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> async_io::Timer {
        black_box(number);
        let mut timer = async_io::Timer::after(delay);
        assert!(poll_once(Pin::new(&mut timer)).is_pending(), "the delay lies ahead");
        timer
    }

    fn cancel(&mut self, timeout: async_io::Timer) -> bool {
        drop(timeout);
        true
    }

    fn settle(&mut self) {
        wait_for(|call| self.executor.spawn(async move { call() }).detach());
    }
}
