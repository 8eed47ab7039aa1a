//! The verbs for many jobs of one shard, each under one lock.

use super::{Shard, key};
use crate::host::sync::lock;
use crate::host::timebase::{Target, Timebase};
use crate::structure::PREFETCH_BATCH;
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::{IntoJob, Job, Work};
use crate::values::time::Tick;

/// The handles of the inserted jobs, and a tick for which the ticker has to wake.
type Arrived = (Vec<Handle>, Tick);

/// One job of a batch that is about to be inserted.
pub(crate) enum Arrival {
    OneShot {
        deadline: Tick,
        job: Job,
    },
    /// Registered under this handle.
    Rearmable {
        handle: Handle,
        target: Target,
        job: Job,
    },
}

impl Shard {
    /// Adds all of the jobs, each for the deadline at its index. Returns them if the shard is
    /// closed, or has no room for all of them.
    pub(crate) fn insert_batch<T, W: Work>(
        &self,
        deadlines: &[Tick],
        timers: Vec<(T, W)>,
    ) -> Result<Arrived, InsertError<Vec<(T, W)>>> {
        let mut handles = Vec::with_capacity(timers.len());
        let earliest = deadlines.iter().copied().min().unwrap_or(Tick::MAX);
        let mut state = lock(&self.state);
        if let Some(kind) = state.refuses(timers.len()) {
            return Err(InsertError::new(kind, timers));
        }
        for (&deadline, (_, work)) in deadlines.iter().zip(timers) {
            let job = Box::new(work).into_job();
            handles.push(self.handle(state.timers.insert(deadline, job)));
        }
        Ok((handles, earliest))
    }

    /// As [`Shard::insert_batch`], for jobs of both kinds.
    pub(crate) fn insert_arrivals(
        &self,
        arrivals: Vec<Arrival>,
        timebase: &Timebase,
    ) -> Result<Arrived, InsertError<Vec<Arrival>>> {
        let now = timebase.clock().now();
        let mut handles = Vec::with_capacity(arrivals.len());
        let mut earliest = Tick::MAX;
        let mut state = lock(&self.state);
        if let Some(kind) = state.refuses(arrivals.len()) {
            return Err(InsertError::new(kind, arrivals));
        }
        for arrival in arrivals {
            match arrival {
                Arrival::OneShot { deadline, job } => {
                    let key = state.timers.insert(deadline, job);
                    earliest = earliest.min(deadline);
                    handles.push(self.handle(key));
                }
                Arrival::Rearmable { handle, target, job } => {
                    let armed = state.arm(handle, target, 0, (timebase, now), job);
                    let tick = armed.expect("it is registered, and the shard is open");
                    earliest = earliest.min(tick);
                    handles.push(handle);
                }
            }
        }
        Ok((handles, earliest))
    }

    /// Takes out those of the chosen jobs that are pending. Sets their `answers` to true.
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
            state.timers.fetch_for_cancel(chosen.iter().map(|&which| key(handles[which])));
            for &which in chosen {
                if let Some(job) = state.timers.cancel_leaving(key(handles[which])) {
                    answers[which] = true;
                    jobs.push(job);
                }
            }
        }
        let surplus = state.timers.take_surplus();
        drop(state);
        drop(surplus);
    }

    /// Gives the chosen jobs the deadlines at their indices, if they are pending. Sets their
    /// `answers` to whether they were. Returns the earliest of the new deadlines.
    pub(crate) fn reset_batch<T>(
        &self,
        timers: &[(Handle, T)],
        deadlines: &[Tick],
        chosen: &[usize],
        answers: &mut [bool],
    ) -> Tick {
        let mut earliest = Tick::MAX;
        let mut state = lock(&self.state);
        for &which in chosen {
            let (handle, deadline) = (timers[which].0, deadlines[which]);
            answers[which] = state.timers.reset(key(handle), deadline);
            if answers[which] {
                earliest = earliest.min(deadline);
            }
        }
        earliest
    }
}
