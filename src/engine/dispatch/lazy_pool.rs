//! The pool, whose threads start with the first job that comes due.
//!
//! Ground rules:
//!
//! - As long as no job comes due, a wheel's own pool has no thread. For a program that only cancels
//!   its timers, or inserts no jobs at all, the wheel adds one thread, the ticker.
//! - The system may refuse to start the threads. The jobs that were handed over then stay in the
//!   queue, and the ticker tries again, at most once a [`RETRY_INTERVAL`], even if more jobs come
//!   due. The first refusal is kept, for the ticker to report.
//! - Only the ticker starts the threads. A shutdown joins the ticker first, so no pool starts after
//!   it.

use core::time::Duration;
use std::sync::{Arc, OnceLock};

use rayon::ThreadPool;

use crate::host::clock::Limit;
use crate::host::sync::{Mutex, lock};
use crate::values::error::ConfigError;

type Start = dyn Fn() -> Result<Arc<ThreadPool>, ConfigError> + Send + Sync;

/// How often the start of the threads is tried again after the system has refused them.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct LazyPool {
    started: OnceLock<Arc<ThreadPool>>,
    start: Box<Start>,
    threads: usize,
    retry_interval: Duration,
    /// Until when not to try again, if the system refused to start the threads at the last try.
    refused: Mutex<Option<Limit>>,
    /// The first refusal, until it is taken.
    refusal: Mutex<Option<ConfigError>>,
}

impl LazyPool {
    /// Returns a pool of `threads` threads, which `start` starts.
    pub(crate) fn new(
        threads: usize,
        start: impl Fn() -> Result<Arc<ThreadPool>, ConfigError> + Send + Sync + 'static,
    ) -> LazyPool {
        LazyPool {
            started: OnceLock::new(),
            start: Box::new(start),
            threads,
            retry_interval: RETRY_INTERVAL,
            refused: Mutex::new(None),
            refusal: Mutex::new(None),
        }
    }

    /// Makes every [`LazyPool::get`] try again after a refusal.
    #[cfg(all(test, not(loom)))]
    pub(super) fn retried_at_once(self) -> LazyPool {
        LazyPool { retry_interval: Duration::ZERO, ..self }
    }

    /// Returns a pool that has started already.
    pub(crate) fn shared(pool: Arc<ThreadPool>) -> LazyPool {
        let started = OnceLock::from(Arc::clone(&pool));
        let threads = pool.current_num_threads();
        LazyPool { started, ..LazyPool::new(threads, move || Ok(Arc::clone(&pool))) }
    }

    /// Returns how many threads the pool has, or will have.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the pool if its threads have started.
    pub(crate) fn started(&self) -> Option<&Arc<ThreadPool>> {
        self.started.get()
    }

    /// Returns the pool, and starts its threads if they have not started. Returns `None` if the
    /// system refuses, or if it is too early for another try. One thread at a time calls this.
    pub(crate) fn get(&self) -> Option<&Arc<ThreadPool>> {
        if self.started.get().is_none() {
            if self.retry_in().is_some_and(|wait| !wait.is_zero()) {
                return None;
            }
            match (self.start)() {
                Ok(pool) => {
                    drop(self.started.set(pool));
                    *lock(&self.refused) = None;
                }
                Err(error) => {
                    let wait = Limit::new(self.retry_interval);
                    let was_refused = lock(&self.refused).replace(wait).is_some();
                    if !was_refused {
                        *lock(&self.refusal) = Some(error);
                    }
                }
            }
        }
        self.started.get()
    }

    /// Returns the first refusal, once.
    pub(crate) fn take_refusal(&self) -> Option<ConfigError> {
        match self.started.get() {
            Some(_) => None,
            None => lock(&self.refusal).take(),
        }
    }

    /// Returns how long it is until the start is tried again, or `None` if the system has not
    /// refused it.
    pub(crate) fn retry_in(&self) -> Option<Duration> {
        lock(&self.refused).as_ref().map(Limit::remaining)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// The pool starts at its first use. If the system refuses the threads, the start is tried again later.
    #[test]
    fn pool_starts_at_first_use_and_retries_if_refused() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let mut pool = LazyPool::new(3, move || match counted.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(ConfigError::Ticker(std::io::Error::other("no more threads"))),
            _ => Ok(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap())),
        });
        assert!(pool.started().is_none() && pool.retry_in().is_none() && pool.threads() == 3);
        // No call makes it try again before the time has come.
        pool.retry_interval = Duration::from_secs(3600);
        for _ in 0..3 {
            assert!(pool.get().is_none() && !pool.retry_in().unwrap().is_zero());
            assert_eq!(attempts.load(Ordering::Relaxed), 1);
        }
        assert!(pool.take_refusal().unwrap().to_string().ends_with("no more threads"));
        pool.retry_interval = Duration::ZERO;
        *lock(&pool.refused) = Some(Limit::new(Duration::ZERO));
        assert!(pool.get().is_none() && pool.retry_in() == Some(Duration::ZERO));
        assert!(pool.take_refusal().is_none(), "it was told once");
        assert!(pool.get().is_some() && pool.retry_in().is_none());
        assert!(pool.get().is_some() && pool.started().is_some());
        assert_eq!(attempts.load(Ordering::Relaxed), 3);
    }
}
