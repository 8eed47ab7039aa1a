//! The verbs for many jobs of one shard, each under one lock.

use core::mem::ManuallyDrop;
use std::time::Duration;

use super::{Shard, key};
use crate::host::sync::lock;
use crate::structure::PREFETCH_BATCH;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::{Job, Work};
use crate::values::time::Tick;

/// The handles of the jobs that came in, and the earliest of their deadlines.
type Arrived = (Vec<Handle>, Tick);

impl Shard {
    /// Adds all of the jobs. Returns them if the shard is closed, or has no room for all of them.
    pub(crate) fn insert_batch<W: Work + 'static>(
        &self,
        timers: Vec<(Duration, W)>,
        deadline: impl Fn(Duration) -> Tick,
    ) -> Result<Arrived, InsertError<Vec<(Duration, W)>>> {
        let mut handles = Vec::with_capacity(timers.len());
        let mut earliest = Tick::MAX;
        let mut state = lock(&self.state);
        if let Some(kind) = state.refuses(timers.len()) {
            return Err(InsertError::new(kind, timers));
        }
        state.tally.inserted += timers.len() as u64;
        for (delay, work) in timers {
            let deadline = deadline(delay);
            earliest = earliest.min(deadline);
            let job = ManuallyDrop::new(Job::new(Box::new(work)));
            handles.push(self.handle(state.hierarchy.insert(deadline, job)));
        }
        state.lower_next_due(earliest);
        Ok((handles, earliest))
    }

    /// Takes out the chosen ones of these jobs that are pending. Sets `answers` to which they were.
    pub(crate) fn cancel_batch(
        &self,
        handles: &[Handle],
        chosen: &[usize],
        answers: &mut [bool],
        jobs: &mut Vec<Job>,
    ) {
        let mut state = lock(&self.state);
        for chosen in chosen.chunks(PREFETCH_BATCH) {
            // The cache misses of many jobs overlap.
            state.hierarchy.fetch_for_cancel(chosen.iter().map(|&which| key(handles[which])));
            for &which in chosen {
                if let Some(job) = state.hierarchy.cancel(key(handles[which])) {
                    answers[which] = true;
                    jobs.push(ManuallyDrop::into_inner(job));
                }
            }
        }
        state.tally.cancelled += jobs.len() as u64;
    }

    /// Gives the chosen ones of these jobs another deadline, if they are pending. Sets `answers` to
    /// which they were. Returns the earliest of the new deadlines.
    pub(crate) fn reset_batch(
        &self,
        timers: &[(Handle, Duration)],
        chosen: &[usize],
        answers: &mut [bool],
        deadline: impl Fn(Duration) -> Tick,
    ) -> Tick {
        let mut earliest = Tick::MAX;
        let mut state = lock(&self.state);
        for &which in chosen {
            let (handle, delay) = timers[which];
            let deadline = deadline(delay);
            answers[which] = state.hierarchy.reset(key(handle), deadline);
            if answers[which] {
                earliest = earliest.min(deadline);
            }
        }
        state.lower_next_due(earliest);
        earliest
    }
}
