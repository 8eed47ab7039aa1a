//! The threads of a wheel: the ticker, and the pool if it is the wheel's own. They start together
//! and end together, or none is left behind.
//!
//! Ground rules:
//!
//! - The ticker holds the pool. When the ticker has ended, nobody of ours does.
//! - rayon ends the threads of a pool that is dropped, and does not wait for them. Those of our own
//!   pool count themselves out, so that a shutdown can.
//! - Whoever is one of the threads does not wait for itself.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::dispatch::Due;
use crate::dispatch::pool::{Crew, Pool};
use crate::engine::Engine;
use crate::error::ConfigError;
use crate::sync::{Condvar, Mutex, lock, wait};
use crate::ticker::Ticker;

/// Which threads run the jobs.
pub(crate) enum Workers {
    /// So many of the wheel's own.
    Own(usize),
    /// Those of a pool that the user shares.
    Shared(Arc<ThreadPool>),
}

pub(crate) struct Staff {
    ticker: JoinHandle<()>,
    crew: Arc<Crew>,
    /// Threads of the wheel's own pool.
    workers: Option<Arc<Present>>,
}

impl Staff {
    /// Starts the threads, named after the wheel.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        workers: Workers,
        max_in_flight: usize,
        name: &str,
    ) -> Result<Staff, ConfigError> {
        let (threads, workers) = match workers {
            Workers::Shared(threads) => (threads, None),
            Workers::Own(count) => {
                let present = Arc::new(Present::new(count));
                (Arc::new(own_pool(count, name, &present)?), Some(present))
            }
        };
        let crew = Arc::new(Crew::new(
            threads.current_num_threads(),
            max_in_flight,
            Arc::clone(engine.ledger()),
            Arc::clone(engine.clock()),
            Arc::clone(engine.alarm().parker()),
        ));
        let ticker = Ticker::new(Arc::clone(engine), Pool::new(threads, Arc::clone(&crew)));
        let ticker = thread::Builder::new()
            .name(format!("{name}-ticker"))
            .spawn(|| ticker.run())
            .map_err(ConfigError::Ticker)?;
        Ok(Staff { ticker, crew, workers })
    }

    /// Ends the ticker, of a stopped engine, and lets no job start any more. Does not wait for those
    /// that are running. What was handed over and has not started comes back.
    pub(crate) fn dismiss(self) -> impl Iterator<Item = Due> {
        self.crew.stop();
        join(self.ticker);
        core::iter::from_fn(move || self.crew.take_back())
    }

    /// The same, and waits for running jobs to end, and for the threads of the wheel's own pool.
    pub(crate) fn dismiss_and_wait(self) -> impl Iterator<Item = Due> {
        self.crew.stop();
        join(self.ticker);
        self.crew.wait();
        if let Some(workers) = self.workers.filter(|_| !self.crew.is_on_duty_here()) {
            workers.wait_until_gone();
        }
        core::iter::from_fn(move || self.crew.take_back())
    }
}

fn join(ticker: JoinHandle<()>) {
    // It runs no user code: if it unwound, that is a defect of ours, and the jobs still come back.
    let ended = ticker.join();
    debug_assert!(ended.is_ok(), "the ticker panicked");
}

fn own_pool(count: usize, name: &str, present: &Arc<Present>) -> Result<ThreadPool, ConfigError> {
    let (name, present) = (name.to_owned(), Arc::clone(present));
    ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(move |number| format!("{name}-{number}"))
        .exit_handler(move |_| present.leave())
        .build()
        .map_err(ConfigError::Pool)
}

/// Threads that have not ended.
struct Present {
    count: Mutex<usize>,
    gone: Condvar,
}

impl Present {
    fn new(count: usize) -> Present {
        Present { count: Mutex::new(count), gone: Condvar::new() }
    }

    fn leave(&self) {
        *lock(&self.count) -= 1;
        self.gone.notify_all();
    }

    fn wait_until_gone(&self) {
        let mut count = lock(&self.count);
        while *count > 0 {
            count = wait(&self.gone, count);
        }
    }
}
