//! Runs of batches: collects due jobs of a kind, and calls its handler with several of them.
//!
//! Ground rules:
//!
//! - Each job of a batch has a claim, a start and an end of its own, which are reported and counted one by one. Only
//!   the call of the handler is common to them.
//! - A job that was interrupted before is a batch by itself, and waits for no other. So if it ends the process once
//!   more, it takes no other job of its batch along.
//! - No lock is held while a handler runs.

use std::sync::Arc;

use super::batches::{Added, WaitOver};
use super::command::RunEnd;
use super::execute::{Executor, QueueOf};
use super::handlers::{BatchCall, BatchSize, Call, NotDecoded};
use super::machine::Start;
use super::run_state::{RunState, Slot};

impl Executor {
    /// Adds a due job to the batch of its kind, and runs the batch if it is complete.
    pub(super) fn collect(
        self: &Arc<Executor>,
        start: Start,
        size: BatchSize,
        call: &BatchCall,
        queue: QueueOf,
    ) {
        if start.state.was_interrupted {
            return self.run_batch(vec![start], call);
        }
        let now = self.clock.now();
        if !start.state.is_waiting() || start.state.has_expired(now.instant) {
            return;
        }
        match self.batches.add(start, size, now.millis()) {
            Added::Complete(starts) => self.run_batch(starts, call),
            Added::First(over) => {
                let due = over.due;
                queue(self).push_wait(over);
                self.set_timer(due, queue);
            }
            Added::Waits => {}
        }
    }

    /// Runs the batch whose first job has waited long enough, unless it was complete before.
    pub(super) fn run_collected(self: &Arc<Executor>, over: &WaitOver) {
        let starts = self.batches.take(over);
        if let Some(Call::Batch(_, call)) = self.handlers.get(&over.kind).map(|its| &its.call) {
            self.run_batch(starts, call);
        }
    }

    /// Runs a batch, without the jobs that were withdrawn and those whose leases have ended.
    fn run_batch(self: &Arc<Executor>, mut starts: Vec<Start>, call: &BatchCall) {
        starts.sort_unstable_by_key(|start| (start.state.due, start.state.id));
        starts.retain(|start| self.begin(&start.state));
        let Some(first) = starts.first().map(|start| Arc::clone(&start.state)) else { return };
        let takes_a_thread = matches!(first.slot, Slot::Batch { .. });
        let capacity = self.capacity.as_deref().filter(|_| takes_a_thread);
        if let Some(capacity) = capacity {
            capacity.batch_started();
        }
        let mut states: Vec<Arc<RunState>> = Vec::with_capacity(starts.len());
        let mut jobs = Vec::with_capacity(starts.len());
        for Start { state, payload, .. } in starts {
            jobs.push((payload, self.run_of(&state)));
            states.push(state);
        }
        let mut not_decoded = Vec::new();
        let called = self.call(|| call(jobs, &mut not_decoded));
        for NotDecoded { run, why } in not_decoded {
            states.retain(|state| state.id != run.state.id);
            let end = match why {
                Ok(error) => RunEnd::Undecodable(error.to_string()),
                Err(panic) => RunEnd::panicked(panic),
            };
            self.end(&run.state, end);
        }
        self.called(called, &states);
        if let Some(capacity) = capacity {
            let now = self.clock.latest().instant;
            capacity.batch_ended(first.age(now).unwrap_or_default(), now);
        }
    }
}
