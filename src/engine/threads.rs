//! The threads of a wheel: the ticker, and the pool if it is the wheel's own.
//!
//! Ground rules:
//!
//! - All threads start together and end together, or none is left behind.
//! - The ticker holds the pool, and so does [`Threads`]. When both have ended, the wheel holds it
//!   no more.
//! - rayon ends the threads of a pool that is dropped, and does not wait for them. The threads of
//!   the wheel's own pool are started here, so a shutdown can join them.
//! - On a thread of the pool, nothing here waits. Below it on the stack may lie a job, a half of a
//!   `join` or an `install` that a running job waits for; to wait for that job could then last for
//!   ever.

use core::convert::Infallible;
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::engine::dispatch::pool::{PoolOutlet, PoolShared};
use crate::engine::dispatch::{DueJob, JobRunner};
use crate::engine::ticker::Ticker;
use crate::engine::verbs::Engine;
use crate::host::clock::Limit;
use crate::host::unwind::{Panic, PanicHandler};
use crate::values::error::ConfigError;

/// Which threads run the jobs.
pub(crate) enum PoolSource {
    /// A pool of the wheel's own, with this number of threads.
    Own(usize),
    /// A pool that the user shares.
    Shared(Arc<ThreadPool>),
}

pub(crate) struct Threads {
    ticker: JoinHandle<()>,
    shared: Arc<PoolShared>,
    /// To ask which threads it has. The ticker, which may end first, holds it too.
    pool: Arc<ThreadPool>,
    workers: Workers,
}

/// The threads of the wheel's own pool, if it has one.
struct Workers {
    threads: Vec<JoinHandle<()>>,
    /// Is disconnected when the last of them ends.
    ended: Receiver<Infallible>,
}

impl Threads {
    /// Starts the threads, named after the wheel.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        source: PoolSource,
        max_in_flight: usize,
        name: &str,
        panic_handler: Option<Arc<PanicHandler>>,
    ) -> Result<Threads, ConfigError> {
        let (pool, workers) = match source {
            PoolSource::Shared(pool) => (pool, Workers::none()),
            PoolSource::Own(count) => {
                own_pool(count, name, Arc::clone(engine.runner()), panic_handler.clone())?
            }
        };
        let shared = Arc::new(PoolShared::new(
            pool.current_num_threads(),
            max_in_flight,
            Arc::clone(engine.runner()),
            Arc::clone(engine.timebase().clock()),
            Arc::clone(engine.alarm().parker()),
            panic_handler,
        ));
        let outlet = PoolOutlet::new(Arc::clone(&pool), Arc::clone(&shared));
        let ticker = Ticker::new(Arc::clone(engine), outlet);
        let ticker = thread::Builder::new()
            .name(format!("{name}-ticker"))
            .spawn(|| ticker.run())
            .map_err(ConfigError::Ticker)?;
        Ok(Threads { ticker, shared, pool, workers })
    }

    /// Ends the ticker, of a stopped engine, and lets no drainer take another job. Does not wait
    /// for jobs that run. Returns the jobs that were handed over and have not started.
    pub(crate) fn stop(self) -> impl Iterator<Item = DueJob> {
        self.shared.close();
        join(self.ticker);
        core::iter::from_fn(move || self.shared.take_queued())
    }

    /// The same, and waits for running jobs to end, and for the threads of the wheel's own pool;
    /// but no longer than `limit`, and not at all if the caller is a thread of the pool.
    pub(crate) fn stop_and_join(self, limit: Duration) -> impl Iterator<Item = DueJob> {
        let limit = Limit::new(limit);
        let Threads { ticker, shared, pool, workers } = self;
        let on_the_pool = pool.current_thread_index().is_some();
        // Threads of the wheel's own pool end when nothing holds it.
        drop(pool);
        shared.close();
        join(ticker);
        if !on_the_pool && shared.wait(&limit) {
            workers.join(&limit);
        }
        core::iter::from_fn(move || shared.take_queued())
    }

    /// Returns whether the caller is a thread of the pool.
    pub(crate) fn is_caller_on_the_pool(&self) -> bool {
        self.pool.current_thread_index().is_some()
    }
}

/// Returns whether the caller is a thread of whatever rayon pool.
pub(crate) fn is_caller_on_any_pool() -> bool {
    rayon::current_thread_index().is_some()
}

impl Workers {
    fn none() -> Workers {
        Workers { threads: Vec::new(), ended: bounded(0).1 }
    }

    /// Waits until the threads have ended, or until the limit has passed.
    fn join(self, limit: &Limit) {
        if self.ended.recv_timeout(limit.remaining()) == Err(RecvTimeoutError::Disconnected) {
            // A worker that unwound did so in rayon, after its last job.
            self.threads.into_iter().for_each(|worker| drop(worker.join()));
        }
    }
}

fn join(ticker: JoinHandle<()>) {
    // It runs no user code: if it unwound, that is a defect of ours, and the jobs still come back.
    let ended = ticker.join();
    debug_assert!(ended.is_ok(), "the ticker panicked");
}

/// A pool whose threads can be joined. A panic in what a job spawns there, which would otherwise
/// end the process, is treated as one in the job.
fn own_pool(
    count: usize,
    name: &str,
    runner: Arc<JobRunner>,
    panic_handler: Option<Arc<PanicHandler>>,
) -> Result<(Arc<ThreadPool>, Workers), ConfigError> {
    let mut threads = Vec::with_capacity(count);
    let (alive, ended) = bounded(0);
    let pool = ThreadPoolBuilder::new()
        .num_threads(count)
        .panic_handler(move |payload| {
            // Keeps the user's handler for as long as the pool has threads.
            let _ = &panic_handler;
            runner.boundary().report(Panic { handle: None, payload });
        })
        .spawn_handler(|worker| {
            let thread = thread::Builder::new().name(format!("{name}-{}", worker.index()));
            let alive = alive.clone();
            threads.push(thread.spawn(|| {
                worker.run();
                drop(alive);
            })?);
            Ok(())
        })
        .build()
        .map_err(ConfigError::Pool)?;
    Ok((Arc::new(pool), Workers { threads, ended }))
}
