//! How many jobs the handlers of a builder take at once: a thread each, as futures, or as batches.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use super::builder::Builder;
use crate::dispatch::capacity::Capacity;
use crate::dispatch::clock::Clock;
use crate::dispatch::handlers::{BatchSize, Handler, Handlers};
use crate::dispatch::run_state::Slot;
use crate::values::error::OpenError;

impl Builder {
    /// Checks that this process may claim as many jobs as a batch has.
    pub(super) fn check_batches(&self) -> Result<(), OpenError> {
        for (kind, handler) in self.handlers.all() {
            let Some(BatchSize { most, .. }) = handler.batch() else { continue };
            let (in_flight, futures) = (self.max_in_flight, self.max_async_runs);
            let reason = match most {
                0 => "no job could run".to_owned(),
                most if most > in_flight => {
                    format!("max_in_flight({in_flight}) would leave each batch smaller")
                }
                most if handler.is_async && most > futures => {
                    format!("max_async_runs({futures}) would leave each batch smaller")
                }
                _ => continue,
            };
            let reason = format!("a batch of {most} jobs of the kind {kind:?}: {reason}");
            return Err(OpenError::Config(reason));
        }
        Ok(())
    }

    /// Returns how many jobs of a kind may be claimed at once, of the kinds with a number of their own.
    pub(super) fn rooms(&self) -> HashMap<Arc<str>, usize> {
        // A batch for each thread, and one that is collected meanwhile.
        let batches = pool(self.threads).saturating_add(1);
        let room = |handler: &Handler| match handler.batch() {
            _ if handler.is_async => Some(self.max_async_runs),
            Some(size) if self.source.is_shared() => Some(size.most.saturating_mul(batches)),
            // Room for all jobs of a batch, also if they have partitions.
            Some(_) => Some(usize::MAX),
            _ => None,
        };
        let rooms = self.handlers.all().filter_map(|(kind, handler)| Some((kind, room(handler)?)));
        rooms.map(|(kind, room)| (Arc::clone(kind), room)).collect()
    }

    /// Returns how many runs can be under way at once: one for each thread or as many as a batch has, and as many
    /// futures of each kind as may be.
    pub(super) fn most_runs(&self) -> usize {
        let handlers = &self.handlers;
        let of_futures = handlers.all().filter(|(_, handler)| handler.is_async).count();
        let of_threads = handlers.all().filter(|(_, handler)| !handler.is_async);
        let on_a_thread =
            of_threads.map(|(_, handler)| handler.batch().map_or(1, |size| size.most));
        let on_threads = on_a_thread.max().unwrap_or(0).saturating_mul(pool(self.threads));
        let runs = self.max_async_runs.saturating_mul(of_futures).saturating_add(on_threads);
        runs.min(self.max_in_flight)
    }
}

/// Returns what a job takes, of each kind whose jobs do not take a thread each.
pub(super) fn slots(handlers: &Handlers) -> HashMap<Arc<str>, Slot> {
    let slot = |handler: &Handler| match handler.batch() {
        _ if handler.is_async => Some(Slot::Future),
        Some(BatchSize { wait, .. }) => Some(Slot::Batch { wait }),
        None => None,
    };
    let slots = handlers.all().filter_map(|(kind, handler)| Some((kind, slot(handler)?)));
    slots.map(|(kind, slot)| (Arc::clone(kind), slot)).collect()
}

/// Returns the time limit of each kind that has one.
pub(super) fn limits_of(
    handlers: &Handlers,
    limits: &[(&str, Duration)],
) -> Result<HashMap<Arc<str>, Duration>, OpenError> {
    for (kind, limit) in limits {
        if limit.is_zero() {
            let reason = format!("time_limit(0) of the kind {kind:?}: no run could end in time");
            return Err(OpenError::Config(reason));
        }
        if handlers.get(kind).is_none() {
            let reason = format!("time_limit: there is no handler for the kind {kind:?}");
            return Err(OpenError::Config(reason));
        }
    }
    Ok(limits.iter().map(|(kind, limit)| (Arc::from(*kind), *limit)).collect())
}

/// Returns the capacity of a pool of this many threads.
pub(super) fn capacity(threads: Option<usize>) -> Arc<Capacity> {
    Arc::new(Capacity::new(pool(threads), Clock::of_system().now().instant))
}

/// Returns the number of threads of a pool: by default as many as the machine has processors.
pub(super) fn pool(threads: Option<usize>) -> usize {
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    threads.unwrap_or(1)
}
