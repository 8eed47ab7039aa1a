//! The verbs for many jobs at once: one reading of the clock, and few locks.
//!
//! Ground rules:
//!
//! - An insert is all or nothing, so a batch goes into one shard, under one lock from the first job
//!   to the last. The boxes are made under the lock too: the allocator and the table each walk
//!   along a list of free memory, and the cache misses of the two walks overlap when they run side
//!   by side.
//! - A cancel or a reset is not all or nothing, so it releases the lock after [`HANDLES_PER_LOCK`]
//!   jobs, for other threads.
//! - The answers come in the order of the handles, whichever shards hold the jobs.

use std::sync::Arc;

use super::Engine;
use crate::engine::shard::{Arrival, Shard};
use crate::host::timebase::{Point, Target};
use crate::values::error::{InsertError, InsertErrorKind};
use crate::values::handle::Handle;
use crate::values::job::{Call, Disarmed, disarmed, is_job};
use crate::values::time::{Moment, Tick};
use crate::values::when::When;

/// How many handles are looked at before a shard's lock is released.
const HANDLES_PER_LOCK: usize = 64;

/// The result of an insert of many: their handles, or the refused timers.
type Inserted<W, C> = Result<Vec<Handle>, InsertError<Vec<(W, C)>>>;

impl Engine {
    pub(crate) fn insert_batch<W, C>(self: &Arc<Engine>, timers: Vec<(W, C)>) -> Inserted<W, C>
    where
        W: Into<When> + Copy,
        C: Call,
    {
        let now = self.timebase.clock().now();
        // Before room is taken: the conversion to a `When` may be user code, and may unwind.
        let deadlines = match is_job::<C>() {
            true => None,
            false => self.deadlines(timers.iter().map(|&(when, _)| when), now),
        };
        let whens: Vec<When> = match deadlines {
            Some(_) => Vec::new(),
            None => timers.iter().map(|&(when, _)| when.into()).collect(),
        };
        if let Err(kind) = self.admit(timers.len()) {
            return Err(InsertError::new(kind, timers));
        }
        match deadlines {
            Some(deadlines) => self.insert_one_shots(&deadlines, timers),
            None => self.insert_mixed(&whens, timers, now),
        }
    }

    /// Returns the deadlines of timers, or `None` if one of them waits for the wall clock.
    fn deadlines<W: Into<When>>(
        &self,
        whens: impl ExactSizeIterator<Item = W>,
        now: Moment,
    ) -> Option<Vec<Tick>> {
        let mut deadlines = Vec::with_capacity(whens.len());
        for when in whens {
            let Target { point, window } = self.timebase.target(when.into(), now);
            let Point::Moment(moment) = point else { return None };
            deadlines.push(self.timebase.deadline(moment, window, now));
        }
        Some(deadlines)
    }

    fn insert_one_shots<W, C: Call>(
        &self,
        deadlines: &[Tick],
        timers: Vec<(W, C)>,
    ) -> Inserted<W, C> {
        let count = timers.len();
        match self.own_shard().insert_batch(deadlines, timers) {
            Ok((handles, earliest)) => {
                self.alarm.wake_for(earliest);
                Ok(handles)
            }
            Err(refused) => {
                self.release_refused(count);
                Err(refused)
            }
        }
    }

    /// Inserts timers of any kind: re-armable ones are registered first, then all go into the shard
    /// under one lock.
    fn insert_mixed<W, C: Call>(
        self: &Arc<Engine>,
        whens: &[When],
        timers: Vec<(W, C)>,
        now: Moment,
    ) -> Inserted<W, C> {
        let shard = self.own_shard();
        let (times, jobs): (Vec<W>, Vec<C>) = timers.into_iter().unzip();
        let mut arrivals = Vec::with_capacity(whens.len());
        let mut refused = None;
        for (&when, job) in whens.iter().zip(jobs.into_iter().map(disarmed)) {
            let arrival = self.arrival(shard, when, now, job);
            arrivals.push(arrival.unwrap_or_else(|(kind, arrival)| {
                refused = Some(kind);
                arrival
            }));
        }
        let result = match refused {
            Some(kind) => Err(InsertError::new(kind, arrivals)),
            None => shard.insert_arrivals(arrivals, &self.timebase),
        };
        match result {
            Ok((handles, earliest)) => {
                self.alarm.wake_for(earliest);
                Ok(handles)
            }
            Err(refused) => {
                self.release_refused(whens.len());
                let back = |arrival| match arrival {
                    Arrival::OneShot { job, .. } => job.into_call(),
                    Arrival::Rearmable { handle, job, .. } => {
                        shard.deregister(handle, &self.timebase);
                        job.into_call()
                    }
                };
                Err(refused.map(|all| times.into_iter().zip(all.into_iter().map(back)).collect()))
            }
        }
    }

    /// Prepares a job for its insert, and registers it if it is re-armable. If the registration is
    /// refused, the arrival only serves to get the job back.
    fn arrival(
        self: &Arc<Engine>,
        shard: &Shard,
        when: When,
        now: Moment,
        job: Disarmed,
    ) -> Result<Arrival, (InsertErrorKind, Arrival)> {
        let target = self.target_of(&job, when, now);
        let job = match (job, target.point) {
            (Disarmed::OneShot(job), Point::Moment(moment)) => {
                let deadline = self.timebase.deadline(moment, target.window, now);
                return Ok(Arrival::OneShot { deadline, job });
            }
            (job, _) => job,
        };
        match shard.register() {
            Ok(handle) => {
                Ok(Arrival::Rearmable { handle, target, job: self.rearmable(handle, job) })
            }
            Err(kind) => {
                let job = match job {
                    Disarmed::OneShot(job) => job,
                    Disarmed::Repeating { handle, .. } => self.rearmable(handle, job),
                };
                Err((kind, Arrival::OneShot { deadline: Tick::MAX, job }))
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
                // The list holds no handles beside the jobs: with them a cancel of many took half
                // as long again when the memory of the jobs is cold.
                let cancelled = chosen.iter().filter(|&&which| answers[which]);
                for (job, &which) in jobs.drain(..).zip(cancelled) {
                    self.discard(job, handles[which]);
                }
            },
        );
        answers
    }

    pub(crate) fn reset_batch<W: Into<When> + Copy>(&self, timers: &[(Handle, W)]) -> Vec<bool> {
        let now = self.timebase.clock().now();
        let deadline = |&(_, when): &(Handle, W)| {
            let Target { point, window } = self.timebase.target(when.into(), now);
            self.timebase.deadline(self.timebase.estimate(point).moment, window, now)
        };
        let deadlines: Vec<Tick> = timers.iter().map(deadline).collect();
        let mut answers = vec![false; timers.len()];
        self.by_shard(
            timers,
            |&(handle, _)| handle,
            |shard, chosen| {
                let Some(shard) = shard else {
                    for &which in chosen {
                        let (handle, when) = timers[which];
                        let target = self.timebase.target(when.into(), now);
                        answers[which] = self.reset_for(handle, target, now);
                    }
                    return;
                };
                let earliest = shard.reset_batch(timers, &deadlines, chosen, &mut answers);
                self.alarm.wake_for(earliest);
            },
        );
        answers
    }

    /// Calls `visit` with each shard and the indices of its own handles, among [`HANDLES_PER_LOCK`]
    /// at a time. Calls it with no shard for handles of re-armable jobs and of other wheels.
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
