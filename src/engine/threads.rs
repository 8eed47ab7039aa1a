//! The threads of a wheel: the ticker, and the pool if it is the wheel's own.
//!
//! Ground rules:
//!
//! - The ticker starts with the wheel, the threads of the wheel's own pool with the first job that
//!   comes due (`dispatch/pool.rs`). All end together.
//! - The ticker holds the pool, and so does [`Threads`]. When both are gone, and no call of `spawn` is
//!   under way, the wheel holds it no more. A future of the user's may run the ticker (`ticker_slot/`); the thread waits meanwhile.
//! - rayon ends the threads of a pool that is dropped, and does not wait for them. The threads of
//!   the wheel's own pool are started here, so a shutdown can join them.
//! - A thread of the pool never waits here. Below it on its stack may lie what a running job waits
//!   for; a wait for that job could then last for ever.
//! - A delivery of a source on the ticker's thread may take any time. A shutdown waits for it as
//!   for a running job, no longer than its limit; a drop does not wait for it.
//! - A thread inside a hook (`host/user_panics.rs`) does not wait here either. On the ticker's thread, a
//!   hook may end the wheel, and the ticker cannot join itself. It ends when the hook has returned.
//!   Until then it hands nothing over, because the engine is stopped. On another wheel's thread, a
//!   hook of this wheel may be waiting for that hook.

use core::convert::Infallible;
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::engine::dispatch::pool::{LazyPool, PoolOutlet, PoolShared};
use crate::engine::dispatch::{DueJob, JobRunner};
use crate::engine::ticker::Ticker;
use crate::engine::ticker_slot::TickerSlot;
use crate::engine::verbs::Engine;
use crate::host::clock::Limit;
use crate::host::sync::{Mutex, lock};
use crate::host::user_panics::{Panic, PanicHandler, is_in_hook};
use crate::values::error::ConfigError;

/// Which threads run the jobs.
pub(crate) enum PoolSource {
    /// A pool of the wheel's own, with this number of threads.
    Own(usize),
    /// A pool that the user shares.
    Shared(Arc<ThreadPool>),
}

pub(crate) struct Threads {
    ticker: TickerThread,
    shared: Arc<PoolShared>,
    /// Asked for its threads. The ticker, which may end first, holds it too.
    pool: Arc<LazyPool>,
    workers: Arc<Mutex<Option<Workers>>>,
}

struct TickerThread {
    thread: JoinHandle<()>,
    slot: Arc<TickerSlot<PoolOutlet>>,
}

/// The threads of the wheel's own pool, once they have started.
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
        let workers = Arc::new(Mutex::new(None));
        let pool = Arc::new(match source {
            PoolSource::Shared(pool) => LazyPool::shared(pool),
            PoolSource::Own(count) => {
                let own = OwnPool {
                    count,
                    name: name.to_owned(),
                    runner: Arc::clone(engine.runner()),
                    panic_handler: panic_handler.clone(),
                    workers: Arc::clone(&workers),
                };
                LazyPool::new(count, move || own.start())
            }
        });
        let shared = Arc::new(PoolShared::new(
            pool.threads(),
            max_in_flight,
            Arc::clone(engine.runner()),
            Arc::clone(engine.timebase().clock()),
            Arc::clone(engine.alarm().parker()),
            panic_handler,
        ));
        let outlet = PoolOutlet::new(Arc::clone(&pool), Arc::clone(&shared));
        engine.set_outlet(outlet.downgrade());
        let ticker = Ticker::new(Arc::clone(engine), outlet);
        let slot = Arc::new(TickerSlot::new(Arc::clone(engine), ticker));
        let runs = Arc::clone(&slot);
        let thread = thread::Builder::new()
            .name(format!("{name}-ticker"))
            .spawn(move || runs.run_on_thread())
            .map_err(ConfigError::Ticker)?;
        let ticker = TickerThread { thread, slot };
        Ok(Threads { ticker, shared, pool, workers })
    }

    /// Ends the ticker of a stopped engine, and lets no drainer take another job. Waits for running
    /// jobs, for a delivery of the ticker, and for the threads of the wheel's own pool; but no longer
    /// than `limit`, and not at all if the caller is a thread of the pool or the ticker, or is in a
    /// hook. Returns the jobs that were handed over and have not started.
    pub(crate) fn stop(self, limit: Duration) -> impl Iterator<Item = DueJob> {
        let may_wait = !limit.is_zero() && !self.is_caller_one_of_them() && !is_in_hook();
        let limit = Limit::new(if may_wait { limit } else { Duration::ZERO });
        let Threads { ticker, shared, pool, workers } = self;
        // The threads of the wheel's own pool end when the pool is dropped.
        drop(pool);
        shared.close();
        ticker.join(&limit);
        if may_wait && shared.wait(&limit) {
            let workers = lock(&workers).take();
            workers.into_iter().for_each(|workers| workers.join(&limit));
        }
        core::iter::from_fn(move || shared.take_queued())
    }

    /// The slot of the ticker, for futures that run it.
    #[cfg(feature = "async")]
    pub(crate) fn ticker_slot(&self) -> &Arc<TickerSlot<PoolOutlet>> {
        &self.ticker.slot
    }

    /// Returns whether the caller is a thread of the pool, or runs the ticker.
    pub(crate) fn is_caller_one_of_them(&self) -> bool {
        let on_the_pool = || self.pool.started()?.current_thread_index();
        self.ticker.is_caller() || on_the_pool().is_some()
    }
}

impl Workers {
    /// Waits until the threads have ended, or until the limit has passed.
    fn join(self, limit: &Limit) {
        if self.ended.recv_timeout(limit.remaining()) == Err(RecvTimeoutError::Disconnected) {
            // A worker that unwound did so in rayon, after its last job.
            self.threads.into_iter().for_each(|worker| drop(worker.join()));
        }
    }
}

impl TickerThread {
    /// Ends the ticker, and waits until it has ended; but for a delivery no longer than the limit,
    /// and not at all if the caller runs the ticker.
    fn join(self, limit: &Limit) {
        let is_caller = self.is_caller();
        self.slot.close();
        if is_caller || !self.slot.wait(limit) {
            return;
        }
        // User code runs behind the boundary there. If the ticker panicked, that is a defect of
        // this crate, and the jobs still come back.
        let ended = self.thread.join();
        debug_assert!(ended.is_ok(), "the ticker panicked");
    }

    fn is_caller(&self) -> bool {
        self.thread.thread().id() == thread::current().id() || self.slot.runs_here()
    }
}

/// The settings with which the wheel's own pool is started.
struct OwnPool {
    count: usize,
    name: String,
    runner: Arc<JobRunner>,
    panic_handler: Option<Arc<PanicHandler>>,
    workers: Arc<Mutex<Option<Workers>>>,
}

impl OwnPool {
    /// Starts a pool whose threads can be joined. A panic in a task that a job spawned there would
    /// otherwise end the process; it is counted and reported like one of a job.
    fn start(&self) -> Result<Arc<ThreadPool>, ConfigError> {
        let mut threads = Vec::with_capacity(self.count);
        let (alive, ended) = bounded(0);
        let runner = Arc::clone(&self.runner);
        let panic_handler = self.panic_handler.clone();
        let pool = ThreadPoolBuilder::new()
            .num_threads(self.count)
            .panic_handler(move |payload| {
                // Keeps the user's handler for as long as the pool has threads.
                let _ = &panic_handler;
                runner.boundary().report(Panic { handle: None, payload });
            })
            .spawn_handler(|worker| {
                let thread =
                    thread::Builder::new().name(format!("{}-{}", self.name, worker.index()));
                let alive = alive.clone();
                threads.push(thread.spawn(|| {
                    worker.run();
                    drop(alive);
                })?);
                Ok(())
            })
            .build()
            .map_err(ConfigError::Pool)?;
        *lock(&self.workers) = Some(Workers { threads, ended });
        Ok(Arc::new(pool))
    }
}
