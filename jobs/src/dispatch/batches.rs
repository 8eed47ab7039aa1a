//! Claimed jobs of kinds with a handler of batches that are due, and wait for the rest of their batch.
//!
//! Ground rules:
//!
//! - A kind collects one batch at a time. The batch is complete once it has as many jobs as its size says, or once its
//!   first job has waited for the time that its size says.
//! - The end of that wait is an entry of the run queue, with a number. A batch that was complete earlier leaves its
//!   entry behind: the number is another one by then, and the entry does nothing.
//! - A job that was cancelled or given back while it waited is in no batch, and does not count for its size. It is
//!   dropped outside the lock, because the last user of its span calls the user's subscriber.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::{HashMap, HashSet};

use super::handlers::BatchSize;
use super::machine::Start;
use crate::values::id::JobId;
use crate::values::setting::HeadStart;
use crate::values::time::Millis;

/// The batches that are being collected, by kind.
#[derive(Default)]
pub(crate) struct Batches {
    kinds: Mutex<HashMap<Arc<str>, Batch>>,
}

struct Batch {
    starts: Vec<Start>,
    /// Of the batches of this kind.
    number: u64,
    until: Millis,
}

/// The end of the wait of a batch.
#[derive(Clone, Debug)]
pub(super) struct WaitOver {
    pub(super) kind: Arc<str>,
    number: u64,
    pub(super) due: Millis,
    /// That of its first job.
    pub(super) head_start: HeadStart,
}

/// What becomes of a job that was added to a batch.
pub(super) enum Added {
    /// The batch is complete.
    Complete(Vec<Start>),
    /// The job is the first of its batch, which is complete at the end of this wait.
    First(WaitOver),
    /// The batch waits for more jobs.
    Waits,
}

impl Batches {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Batch>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job that is due.
    pub(super) fn add(&self, start: Start, size: BatchSize, now: Millis) -> Added {
        let kind = Arc::clone(&start.state.kind);
        let (added, withdrawn) =
            self.lock().entry(kind).or_insert_with(Batch::empty).add(start, size, now);
        drop(withdrawn);
        added
    }

    /// Takes the batch whose wait is over, unless it was complete before.
    pub(super) fn take(&self, over: &WaitOver) -> Vec<Start> {
        match self.lock().get_mut(&over.kind).filter(|batch| batch.number == over.number) {
            Some(batch) => batch.take(),
            None => Vec::new(),
        }
    }

    /// Adds the ids of the jobs that wait and were not withdrawn.
    pub(super) fn add_waiting(&self, ids: &mut HashSet<JobId>) {
        let kinds = self.lock();
        let states = kinds.values().flat_map(|batch| &batch.starts).map(|start| &start.state);
        ids.extend(states.filter(|state| state.is_waiting()).map(|state| state.id));
    }
}

impl Batch {
    fn empty() -> Batch {
        Batch { starts: Vec::new(), number: 0, until: Millis::ZERO }
    }

    /// Adds a job. Also returns the jobs that have left the batch.
    fn add(&mut self, start: Start, size: BatchSize, now: Millis) -> (Added, Vec<Start>) {
        let (kind, head_start) = (Arc::clone(&start.state.kind), start.state.head_start);
        self.starts.push(start);
        let mut withdrawn = Vec::new();
        if self.starts.len() >= size.most {
            withdrawn.extend(self.starts.extract_if(.., |start| !start.state.is_waiting()));
        }
        if self.starts.len() >= size.most {
            return (Added::Complete(self.take()), withdrawn);
        }
        let until = now.plus(size.wait);
        // If the wait ends later than that, it began before the clock was set back.
        if self.starts.len() > 1 && self.until <= until {
            return (Added::Waits, withdrawn);
        }
        self.number += 1;
        self.until = until;
        let over = WaitOver { kind, number: self.number, due: until, head_start };
        (Added::First(over), withdrawn)
    }

    fn take(&mut self) -> Vec<Start> {
        self.number += 1;
        core::mem::take(&mut self.starts)
    }
}
