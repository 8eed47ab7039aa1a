//! The threads of a wheel: the ticker, and the pool if it is the wheel's own.
//!
//! Ground rules:
//!
//! - The ticker starts with the wheel. The threads of the wheel's own pool start together, with the
//!   first job that comes due (`dispatch/lazy_pool.rs`), or none of them does. All end together.
//! - The ticker holds the pool, and so does [`Threads`]. When both have ended, the wheel holds it
//!   no more.
//! - rayon ends the threads of a pool that is dropped, and does not wait for them. The threads of
//!   the wheel's own pool are started here, so a shutdown can join them.
//! - On a thread of the pool, nothing here waits. Below it on the stack may lie a job, a half of a
//!   `join` or an `install` that a running job waits for; to wait for that job could then last for
//!   ever.
//! - What a source delivers on the ticker's thread may take any time: a shutdown waits for it as
//!   for a running job, no longer than its limit, and a drop does not wait for it.
//! - In a hook (`host/hooks.rs`) nothing here waits either. On the ticker's thread it may end the
//!   wheel, and the ticker cannot join itself. It ends when the hook has returned. Until then it hands
//!   nothing over, because the engine is stopped. On another wheel's thread somebody may wait for the
//!   hook, in a hook of this wheel.

use core::convert::Infallible;
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::engine::activity::Activity;
use crate::engine::dispatch::lazy_pool::LazyPool;
use crate::engine::dispatch::pool::{PoolOutlet, PoolShared};
use crate::engine::dispatch::{DueJob, JobRunner};
use crate::engine::ticker::Ticker;
use crate::engine::verbs::Engine;
use crate::host::clock::Limit;
use crate::host::hooks::is_in_hook;
use crate::host::sync::{Mutex, lock};
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
    ticker: TickerThread,
    shared: Arc<PoolShared>,
    /// To ask which threads it has. The ticker, which may end first, holds it too.
    pool: Arc<LazyPool>,
    workers: Arc<Mutex<Option<Workers>>>,
}

struct TickerThread {
    thread: JoinHandle<()>,
    activity: Arc<Activity>,
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
        let ticker = Ticker::new(Arc::clone(engine), outlet);
        let activity = Arc::clone(ticker.activity());
        let thread = thread::Builder::new()
            .name(format!("{name}-ticker"))
            .spawn(|| ticker.run())
            .map_err(ConfigError::Ticker)?;
        let ticker = TickerThread { thread, activity };
        Ok(Threads { ticker, shared, pool, workers })
    }

    /// Ends the ticker, of a stopped engine, and lets no drainer take another job. Does not wait
    /// for jobs that run, nor for what the ticker delivers. Returns the jobs that were handed over
    /// and have not started.
    pub(crate) fn stop(self) -> impl Iterator<Item = DueJob> {
        self.shared.close();
        self.ticker.join(&Limit::new(Duration::ZERO));
        core::iter::from_fn(move || self.shared.take_queued())
    }

    /// The same, and waits for running jobs and for what the ticker delivers to end, and for the
    /// threads of the wheel's own pool; but no longer than `limit`, and not at all if the caller is
    /// a thread of the pool or the ticker, or is in a hook.
    pub(crate) fn stop_and_join(self, limit: Duration) -> impl Iterator<Item = DueJob> {
        let may_wait = !self.is_caller_one_of_them() && !is_in_hook();
        let limit = Limit::new(if may_wait { limit } else { Duration::ZERO });
        let Threads { ticker, shared, pool, workers } = self;
        // Threads of the wheel's own pool end when nothing holds it.
        drop(pool);
        shared.close();
        ticker.join(&limit);
        if may_wait && shared.wait(&limit) {
            let workers = lock(&workers).take();
            workers.into_iter().for_each(|workers| workers.join(&limit));
        }
        core::iter::from_fn(move || shared.take_queued())
    }

    /// Returns whether the caller is a thread of the pool, or the ticker.
    pub(crate) fn is_caller_one_of_them(&self) -> bool {
        let on_the_pool = || self.pool.started()?.current_thread_index();
        self.ticker.is_caller() || on_the_pool().is_some()
    }
}

/// Returns whether the caller is a thread of whatever rayon pool.
pub(crate) fn is_caller_on_any_pool() -> bool {
    rayon::current_thread_index().is_some()
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
    /// Waits until the ticker has ended; but not for what it delivers once the limit has passed, and
    /// not at all if the caller is the ticker.
    fn join(self, limit: &Limit) {
        if self.is_caller() || !self.activity.wait(limit) {
            return;
        }
        // User code runs there behind the boundary: if it unwound, that is a defect of ours, and the
        // jobs still come back.
        let ended = self.thread.join();
        debug_assert!(ended.is_ok(), "the ticker panicked");
    }

    fn is_caller(&self) -> bool {
        self.thread.thread().id() == thread::current().id()
    }
}

/// What the wheel's own pool is started from.
struct OwnPool {
    count: usize,
    name: String,
    runner: Arc<JobRunner>,
    panic_handler: Option<Arc<PanicHandler>>,
    workers: Arc<Mutex<Option<Workers>>>,
}

impl OwnPool {
    /// Starts a pool whose threads can be joined. A panic in what a job spawns there, which would
    /// otherwise end the process, is treated as one in the job.
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
