//! The pool, whose threads start with the first job that comes due.
//!
//! Ground rules:
//!
//! - As long as no job comes due, a wheel's own pool has no thread: a program that only cancels its
//!   timers, or that uses the wheel for something else than jobs, has one thread more, the ticker.
//! - The system may refuse to start the threads. The jobs that were handed over stay in the queue
//!   then, and the ticker tries again now and then. The first refusal is counted as a panic and
//!   reported, with the [`ConfigError`] as its payload.
//! - Only the ticker starts the threads. A shutdown joins the ticker first, so no pool starts after
//!   it.

use std::sync::{Arc, OnceLock};

use rayon::ThreadPool;

use crate::host::sync::{AtomicBool, Ordering};
use crate::host::unwind::{Panic, UnwindBoundary};
use crate::values::error::ConfigError;

type Start = dyn Fn() -> Result<Arc<ThreadPool>, ConfigError> + Send + Sync;

pub(crate) struct LazyPool {
    started: OnceLock<Arc<ThreadPool>>,
    start: Box<Start>,
    threads: usize,
    refused: AtomicBool,
}

impl LazyPool {
    /// A pool of so many threads, which `start` starts.
    pub(crate) fn new(
        threads: usize,
        start: impl Fn() -> Result<Arc<ThreadPool>, ConfigError> + Send + Sync + 'static,
    ) -> LazyPool {
        let refused = AtomicBool::new(false);
        LazyPool { started: OnceLock::new(), start: Box::new(start), threads, refused }
    }

    /// A pool that has started.
    pub(crate) fn shared(pool: Arc<ThreadPool>) -> LazyPool {
        let started = OnceLock::from(Arc::clone(&pool));
        let threads = pool.current_num_threads();
        LazyPool { started, ..LazyPool::new(threads, move || Ok(Arc::clone(&pool))) }
    }

    /// How many threads it has, or will have.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the pool if its threads have started.
    pub(crate) fn started(&self) -> Option<&Arc<ThreadPool>> {
        self.started.get()
    }

    /// Returns the pool, and starts its threads if they have not started. Returns `None` if the
    /// system refuses. One thread at a time calls this.
    pub(crate) fn get(&self, boundary: &UnwindBoundary) -> Option<&Arc<ThreadPool>> {
        if self.started.get().is_none() {
            match (self.start)() {
                Ok(pool) => drop(self.started.set(pool)),
                Err(error) => {
                    if !self.refused.swap(true, Ordering::Relaxed) {
                        boundary.report(Panic { handle: None, payload: Box::new(error) });
                    }
                    return None;
                }
            }
            self.refused.store(false, Ordering::Relaxed);
        }
        self.started.get()
    }

    /// Returns whether the system has refused to start the threads when they were last needed.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;

    #[test]
    fn a_pool_starts_when_it_is_first_asked_for_and_again_when_it_was_refused() {
        let (sender, reports) = channel();
        let (boundary, _handler) = UnwindBoundary::new(Some(Box::new(move |panic: Panic| {
            assert_eq!(panic.handle, None);
            sender.send(panic.downcast::<ConfigError>().unwrap().to_string()).unwrap();
        })));
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let pool = LazyPool::new(3, move || match counted.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(ConfigError::Ticker(std::io::Error::other("no more threads"))),
            _ => Ok(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap())),
        });
        assert!(pool.started().is_none() && !pool.is_refused() && pool.threads() == 3);
        assert!(pool.get(&boundary).is_none() && pool.is_refused());
        assert!(pool.get(&boundary).is_none() && pool.is_refused());
        let told: Vec<String> = reports.try_iter().collect();
        assert!(told.len() == 1 && told[0].ends_with("no more threads"), "{told:?}");
        assert!(pool.get(&boundary).is_some() && !pool.is_refused());
        assert!(pool.get(&boundary).is_some() && pool.started().is_some());
        assert_eq!((attempts.load(Ordering::Relaxed), boundary.panicked()), (3, 1));
    }
}
