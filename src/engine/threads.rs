//! The threads of a wheel: the ticker, and the pool if it is the wheel's own. They start together
//! and end together, or none is left behind.
//!
//! Ground rules:
//!
//! - The ticker holds the pool. When the ticker has ended, nobody of ours does.
//! - rayon ends the threads of a pool that is dropped, and does not wait for them. Those of our own
//!   pool are started here, so a shutdown can join them.
//! - Whoever is one of the threads does not wait for them: a job, or what it spawned on the pool.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::engine::dispatch::pool::{PoolOutlet, PoolShared};
use crate::engine::dispatch::{DueJob, Ledger};
use crate::engine::ticker::Ticker;
use crate::engine::verbs::Engine;
use crate::values::error::ConfigError;

/// Which threads run the jobs.
pub(crate) enum PoolSource {
    /// So many of the wheel's own.
    Own(usize),
    /// Those of a pool that the user shares.
    Shared(Arc<ThreadPool>),
}

pub(crate) struct Threads {
    ticker: JoinHandle<()>,
    shared: Arc<PoolShared>,
    /// The threads of the wheel's own pool, if it has one.
    workers: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads, named after the wheel.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        workers: PoolSource,
        max_in_flight: usize,
        name: &str,
    ) -> Result<Threads, ConfigError> {
        let (threads, workers) = match workers {
            PoolSource::Shared(threads) => (threads, Vec::new()),
            PoolSource::Own(count) => own_pool(count, name, Arc::clone(engine.ledger()))?,
        };
        let shared = Arc::new(PoolShared::new(
            threads.current_num_threads(),
            max_in_flight,
            Arc::clone(engine.ledger()),
            Arc::clone(engine.timebase().clock()),
            Arc::clone(engine.alarm().parker()),
        ));
        let ticker = Ticker::new(Arc::clone(engine), PoolOutlet::new(threads, Arc::clone(&shared)));
        let ticker = thread::Builder::new()
            .name(format!("{name}-ticker"))
            .spawn(|| ticker.run())
            .map_err(ConfigError::Ticker)?;
        Ok(Threads { ticker, shared, workers })
    }

    /// Ends the ticker, of a stopped engine, and lets no job start any more. Does not wait for those
    /// that are running. What was handed over and has not started comes back.
    pub(crate) fn stop(self) -> impl Iterator<Item = DueJob> {
        self.shared.stop();
        join(self.ticker);
        core::iter::from_fn(move || self.shared.take_queued())
    }

    /// The same, and waits for running jobs to end, and for the threads of the wheel's own pool.
    pub(crate) fn stop_and_join(self) -> impl Iterator<Item = DueJob> {
        self.shared.stop();
        join(self.ticker);
        self.shared.wait();
        let here = thread::current().id();
        if self.workers.iter().all(|worker| worker.thread().id() != here) {
            // One that unwound did so in rayon, after its last job.
            self.workers.into_iter().for_each(|worker| drop(worker.join()));
        }
        core::iter::from_fn(move || self.shared.take_queued())
    }
}

fn join(ticker: JoinHandle<()>) {
    // It runs no user code: if it unwound, that is a defect of ours, and the jobs still come back.
    let ended = ticker.join();
    debug_assert!(ended.is_ok(), "the ticker panicked");
}

/// A pool whose threads can be joined. A panic in what a job spawns there, which would otherwise end
/// the process, is treated as one in the job.
fn own_pool(
    count: usize,
    name: &str,
    ledger: Arc<Ledger>,
) -> Result<(Arc<ThreadPool>, Vec<JoinHandle<()>>), ConfigError> {
    let mut workers = Vec::with_capacity(count);
    let pool = ThreadPoolBuilder::new()
        .num_threads(count)
        .panic_handler(move |payload| ledger.boundary().report(payload))
        .spawn_handler(|worker| {
            let thread = thread::Builder::new().name(format!("{name}-{}", worker.index()));
            workers.push(thread.spawn(|| worker.run())?);
            Ok(())
        })
        .build()
        .map_err(ConfigError::Pool)?;
    Ok((Arc::new(pool), workers))
}
