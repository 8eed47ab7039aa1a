//! Many jobs at once: one reading of the clock, and few locks.
//!
//! Ground rules:
//!
//! - An insert is all or nothing, so a batch goes into one shard, under one lock from the first job
//!   to the last. The boxes are made under it too: the allocator and the table each walk along a
//!   list of free memory, and side by side the cache misses of the two walks overlap.
//! - A cancel or a reset is not all or nothing, so it releases the lock after [`HANDLES_PER_LOCK`]
//!   jobs, and other threads get it.
//! - The answers come in the order of the handles, whatever shards these are of.

use std::time::Duration;

use super::Engine;
use crate::engine::shard::Shard;
use crate::host::timebase::Target;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::Call;

/// How many handles are looked at before a shard's lock is released.
const HANDLES_PER_LOCK: usize = 64;

impl Engine {
    pub(crate) fn insert_batch<C>(
        &self,
        timers: Vec<(Duration, C)>,
    ) -> Result<Vec<Handle>, InsertError<Vec<(Duration, C)>>>
    where
        C: Call + 'static,
    {
        let now = self.timebase.clock().now();
        if let Err(kind) = self.admit(timers.len()) {
            return Err(InsertError::new(kind, timers));
        }
        let count = timers.len();
        let deadline = |delay| self.timebase.deadline(now.plus(delay), now);
        match self.own_shard().insert_batch(timers, deadline) {
            Ok((handles, earliest)) => {
                self.alarm.wake_for(earliest);
                Ok(handles)
            }
            Err(refused) => {
                self.release(count);
                Err(refused)
            }
        }
    }

    pub(crate) fn cancel_batch(&self, handles: &[Handle]) -> Vec<bool> {
        let mut answers = vec![false; handles.len()];
        let mut jobs = Vec::with_capacity(HANDLES_PER_LOCK.min(handles.len()));
        self.by_shard(
            handles,
            |&handle| handle,
            |shard, chosen| {
                let Some(shard) = shard else {
                    chosen.iter().for_each(|&which| answers[which] = self.cancel(handles[which]));
                    return;
                };
                shard.cancel_batch(handles, chosen, &mut answers, &mut jobs);
                self.release(jobs.len());
                jobs.drain(..).for_each(|job| self.discard(job));
            },
        );
        answers
    }

    pub(crate) fn reset_batch(&self, timers: &[(Handle, Duration)]) -> Vec<bool> {
        let now = self.timebase.clock().now();
        let mut answers = vec![false; timers.len()];
        self.by_shard(
            timers,
            |&(handle, _)| handle,
            |shard, chosen| {
                let Some(shard) = shard else {
                    for &which in chosen {
                        let (handle, delay) = timers[which];
                        answers[which] =
                            self.reset_for(handle, Target::Moment(now.plus(delay)), now);
                    }
                    return;
                };
                let deadline = |delay| self.timebase.deadline(now.plus(delay), now);
                self.alarm.wake_for(shard.reset_batch(timers, chosen, &mut answers, deadline));
            },
        );
        answers
    }

    /// Calls `visit` with each shard and the indices of its own handles, among [`HANDLES_PER_LOCK`]
    /// at a time; with no shard for those of re-armable jobs, and of other wheels.
    fn by_shard<T>(
        &self,
        all: &[T],
        handle: impl Fn(&T) -> Handle,
        mut visit: impl FnMut(Option<&Shard>, &[usize]),
    ) {
        let shard = |&which: &usize| handle(&all[which]).shard() as usize;
        let mut indices = Vec::with_capacity(HANDLES_PER_LOCK.min(all.len()));
        for first in (0..all.len()).step_by(HANDLES_PER_LOCK) {
            indices.clear();
            indices.extend(first..all.len().min(first + HANDLES_PER_LOCK));
            if !indices.is_sorted_by_key(shard) {
                indices.sort_by_key(shard);
            }
            for chosen in indices.chunk_by(|a, b| shard(a) == shard(b)) {
                visit(self.shards.get(shard(&chosen[0])), chosen);
            }
        }
    }
}
