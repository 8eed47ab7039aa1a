//! The engine: shards, clock, alarm and counters, and every verb once.
//!
//! [`Wheel`](crate::Wheel) and [`Scheduler`](crate::Scheduler) both forward to one engine; the
//! ticker or the [`Driver`](crate::Driver) advances it. An engine has no thread and no pool, so to
//! keep it alive keeps nothing but memory.
//!
//! Ground rules:
//!
//! - A verb reads the clock before it waits for a lock, so the wait counts as a part of the delay.
//!   (A `Keyed` calls the engine with the lock of its map: there the delay counts from then.)
//! - User code is called and dropped outside the locks, and through the unwind boundary.

mod batch;
mod bound;
mod drive;
mod rearmed;
mod rearmed_jobs;

use core::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::alarm::Alarm;
use crate::engine::dispatch::JobRunner;
use crate::engine::metrics::Stats;
use crate::engine::shard::Shard;
use crate::host::clock::Clock;
use crate::host::sync::{AtomicBool, AtomicU64, Ordering};
use crate::host::timebase::{Target, Timebase};
use crate::host::unwind::UnwindBoundary;
use crate::structure::{Geometry, Location};
use crate::values::error::InsertError;
use crate::values::handle::Handle;
use crate::values::job::{Call, Job};
use crate::values::time::{Moment, Scale, Span, Tick, most_aligned};
use crate::values::when::When;
use bound::Bound;

/// What an engine is made of. The builder has checked it.
pub(crate) struct Config {
    pub(crate) scale: Scale,
    pub(crate) clock: Clock,
    pub(crate) geometry: Geometry,
    pub(crate) shards: usize,
    pub(crate) max_pending: Option<usize>,
    pub(crate) boundary: UnwindBoundary,
}

pub(crate) struct Engine {
    timebase: Timebase,
    shards: Box<[Shard]>,
    alarm: Alarm,
    runner: Arc<JobRunner>,
    bound: Option<Bound>,
    behind: AtomicU64,
    stopped: AtomicBool,
}

impl Engine {
    pub(crate) fn new(config: Config) -> Engine {
        let shard = |number| Shard::new(number as u32, config.geometry.clone(), Shard::MAX_JOBS);
        Engine {
            timebase: Timebase::new(config.clock, config.scale),
            shards: (0..config.shards).map(shard).collect(),
            alarm: Alarm::new(),
            runner: Arc::new(JobRunner::new(config.boundary)),
            bound: config.max_pending.map(Bound::new),
            behind: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    // The verbs.

    #[inline]
    pub(crate) fn insert<C>(&self, delay: Duration, job: C) -> Result<Handle, InsertError<C>>
    where
        C: Call + 'static,
    {
        let now = self.timebase.clock().now();
        match self.admit(1) {
            Ok(()) => self.insert_admitted(self.timebase.deadline(now.plus(delay), now), job),
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    /// Takes the most aligned of the ticks that `slack` leaves to choose from.
    pub(crate) fn insert_within<C>(
        &self,
        delay: Duration,
        slack: Duration,
        job: C,
    ) -> Result<Handle, InsertError<C>>
    where
        C: Call + 'static,
    {
        let now = self.timebase.clock().now();
        let earliest = now.plus(delay);
        let latest = self.timebase.scale().present(earliest.plus(slack));
        match self.admit(1) {
            Ok(()) => {
                let first = self.timebase.deadline(earliest, now);
                self.insert_admitted(most_aligned(first, latest), job)
            }
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    pub(crate) fn insert_when<C>(
        self: &Arc<Engine>,
        when: When,
        job: C,
    ) -> Result<Handle, InsertError<C>>
    where
        C: Call + 'static,
    {
        let now = self.timebase.clock().now();
        match self.admit(1) {
            Ok(()) => self.insert_for(self.timebase.target(when, now), now, job),
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    /// As [`Engine::insert_when`]; the job was admitted.
    fn insert_for<C>(
        self: &Arc<Engine>,
        target: Target,
        now: Moment,
        job: C,
    ) -> Result<Handle, InsertError<C>>
    where
        C: Call + 'static,
    {
        match target {
            Target::Moment(moment) => {
                self.insert_admitted(self.timebase.deadline(moment, now), job)
            }
            Target::Wall(_) => self.insert_appointment(target, job),
        }
    }

    /// Replaces a job by another, which takes its room if it was pending. The replaced job is in
    /// `old` then. A re-armable job that is with the pool stays there, and is dropped by the thread
    /// that has it; `old` is then `None`.
    pub(crate) fn replace<C>(
        self: &Arc<Engine>,
        handle: Handle,
        when: When,
        job: C,
        old: &mut Option<Job>,
    ) -> Result<Handle, InsertError<C>>
    where
        C: Call + 'static,
    {
        let now = self.timebase.clock().now();
        let admitted = match self.remove_keeping_room(handle, old) {
            true => Ok(()),
            false => self.admit(1),
        };
        match admitted {
            Ok(()) => self.insert_for(self.timebase.target(when, now), now, job),
            Err(kind) => Err(InsertError::new(kind, job)),
        }
    }

    #[inline]
    fn insert_admitted<C>(&self, deadline: Tick, job: C) -> Result<Handle, InsertError<C>>
    where
        C: Call + 'static,
    {
        match self.own_shard().insert(deadline, Box::new(job)) {
            Ok(handle) => {
                self.alarm.wake_for(deadline);
                Ok(handle)
            }
            Err(refused) => {
                self.release(1);
                Err(refused.map(|job| *job))
            }
        }
    }

    /// The shard that the calling thread inserts into.
    #[inline]
    pub(super) fn own_shard(&self) -> &Shard {
        &self.shards[thread_index() as usize % self.shards.len()]
    }

    #[inline]
    pub(crate) fn cancel(&self, handle: Handle) -> bool {
        let Some(shard) = self.shard_of(handle) else { return self.cancel_rearmable(handle) };
        let Some(job) = shard.cancel(handle) else { return false };
        self.release(1);
        self.discard(job);
        true
    }

    /// Cancels a job without dropping it: it is in `job` then. A re-armable job that is with the
    /// pool stays there, and is dropped by the thread that has it; `job` is then `None`.
    pub(crate) fn remove(&self, handle: Handle, job: &mut Option<Job>) -> bool {
        let removed = self.remove_keeping_room(handle, job);
        self.release(usize::from(removed));
        removed
    }

    /// The same, and keeps the room for another job.
    fn remove_keeping_room(&self, handle: Handle, job: &mut Option<Job>) -> bool {
        match self.shard_of(handle) {
            Some(shard) => {
                *job = shard.cancel(handle);
                job.is_some()
            }
            None => self.remove_rearmable(handle, job),
        }
    }

    #[inline]
    pub(crate) fn take(&self, handle: Handle) -> Option<Job> {
        let job = match self.shard_of(handle) {
            Some(shard) => shard.cancel(handle),
            None => self.rearmable_shard(handle)?.take_rearmable(handle),
        }?;
        self.release(1);
        Some(job)
    }

    #[inline]
    pub(crate) fn reset(&self, handle: Handle, delay: Duration) -> bool {
        let now = self.timebase.clock().now();
        self.reset_for(handle, Target::Moment(now.plus(delay)), now)
    }

    pub(crate) fn reset_when(&self, handle: Handle, when: When) -> bool {
        let now = self.timebase.clock().now();
        self.reset_for(handle, self.timebase.target(when, now), now)
    }

    #[inline]
    fn reset_for(&self, handle: Handle, target: Target, now: Moment) -> bool {
        let Some(shard) = self.shard_of(handle) else {
            return self.reset_rearmable(handle, target);
        };
        let deadline = self.timebase.deadline(self.timebase.estimate(target).moment, now);
        let is_pending = shard.reset(handle, deadline);
        if is_pending {
            self.alarm.wake_for(deadline);
        }
        is_pending
    }

    pub(crate) fn is_pending(&self, handle: Handle) -> bool {
        self.deadline_of(handle).is_some()
    }

    pub(crate) fn remaining(&self, handle: Handle) -> Option<Duration> {
        Some(self.timebase.until(self.deadline_of(handle)?))
    }

    pub(crate) fn location(&self, handle: Handle) -> Option<Location> {
        self.shard_of(handle).or(self.rearmable_shard(handle))?.location(handle)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.tally().pending).sum()
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // First, so that every job counted as ended is counted as fired by its shard below.
        let ended = self.runner.metrics().ended();
        for tally in self.shards.iter().map(Shard::tally) {
            stats.pending += tally.pending;
            stats.inserted += tally.inserted;
            stats.cancelled += tally.cancelled;
            stats.fired += tally.fired;
        }
        // Not `DispatchMetrics::in_flight`: a job that is out of its shard and not handed over yet
        // would be nowhere, and a wheel that looks idle would not be.
        stats.in_flight = (stats.fired - ended) as usize;
        stats.ticks_behind = Span::new(self.behind.load(Ordering::Relaxed));
        self.runner.report(&mut stats);
        stats
    }

    pub(crate) fn timebase(&self) -> &Timebase {
        &self.timebase
    }

    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    pub(crate) fn runner(&self) -> &Arc<JobRunner> {
        &self.runner
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns whether the engine has been told to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Drops a job that will not run.
    pub(crate) fn discard(&self, job: Job) {
        self.runner.boundary().discard(job);
    }

    /// The shard of a one-shot job.
    #[inline]
    fn shard_of(&self, handle: Handle) -> Option<&Shard> {
        self.shards.get(handle.shard() as usize)
    }

    fn deadline_of(&self, handle: Handle) -> Option<Tick> {
        match self.shard_of(handle) {
            Some(shard) => shard.deadline(handle),
            None => self.rearmable_shard(handle)?.deadline_of_rearmable(handle),
        }
    }
}

/// Returns a number for the calling thread. Threads are numbered in the order of their first
/// inserts, so threads that start together use different shards.
fn thread_index() -> u32 {
    // Relaxed, and not for the model checker: the numbers need to differ, and order nothing.
    static NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    thread_local! {
        static INDEX: Cell<Option<u32>> = const { Cell::new(None) };
    }
    INDEX.with(|index| {
        index.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            index.set(Some(number));
            number
        })
    })
}
