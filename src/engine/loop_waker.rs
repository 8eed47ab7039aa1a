//! The waker of a loop or a future that advances a wheel on a thread of the user's.
//!
//! Ground rules:
//!
//! - Every wake of the wheel's parker calls the waker, if there is one: on the thread that inserts,
//!   and outside every lock. It is user code, behind the unwind boundary.
//! - The parker's hook, which lives as long as the engine, holds the waker's place and not the
//!   engine.

use std::sync::Arc;
use std::task::Waker;

use crate::engine::dispatch::JobRunner;
use crate::engine::verbs::Engine;
use crate::host::in_hook::call_hook;
use crate::host::sync::{Mutex, lock};

pub(crate) struct LoopWaker {
    waker: Mutex<Option<Arc<Waker>>>,
    runner: Arc<JobRunner>,
}

impl LoopWaker {
    /// Returns the place for a waker of the engine's loop.
    pub(crate) fn new(engine: &Engine) -> Arc<LoopWaker> {
        let runner = Arc::clone(engine.runner());
        Arc::new(LoopWaker { waker: Mutex::new(None), runner })
    }

    /// Makes every wake of the engine's parker call the waker.
    pub(crate) fn hook_into(self: &Arc<LoopWaker>, engine: &Engine) {
        let wakes = Arc::clone(self);
        engine.alarm().parker().set_hook(move || wakes.wake());
    }

    /// Sets the waker. Drops the one before.
    pub(crate) fn set(&self, waker: Option<Arc<Waker>>) {
        let old = self.replace(waker);
        self.discard(old);
    }

    /// Sets the waker, and returns the one before, for a caller that holds a lock. It must be
    /// passed to [`LoopWaker::discard`].
    pub(crate) fn replace(&self, waker: Option<Arc<Waker>>) -> Option<Arc<Waker>> {
        core::mem::replace(&mut *lock(&self.waker), waker)
    }

    /// Drops a waker.
    pub(crate) fn discard<T>(&self, waker: T) {
        self.runner.boundary().discard(waker);
    }

    fn wake(&self) {
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            self.call(waker);
        }
    }

    /// Calls a waker, and drops it.
    pub(crate) fn call(&self, waker: Arc<Waker>) {
        let boundary = self.runner.boundary();
        call_hook(|| {
            boundary.call_without_handle(|| waker.wake_by_ref());
            boundary.discard(waker);
        });
    }
}
