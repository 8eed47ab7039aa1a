//! The engine: shards and other sources, clock, alarm and counters, and every verb once.
//!
//! [`Wheel`](crate::Wheel) and [`Scheduler`](crate::Scheduler) both forward to one engine; the
//! ticker or the [`Driver`](crate::Driver) advances it. An engine has no thread and no pool, so a
//! reference to it keeps only memory alive.
//!
//! Ground rules:
//!
//! - A verb reads the clock before it waits for a lock, so the delay includes the wait. (A `Keyed`
//!   calls the engine under the lock of its map: there the delay counts from that call.)
//! - User code is called and dropped outside the locks, and through the unwind boundary.

mod batch;
mod bound;
pub(crate) mod drive;
mod insert;
mod rearmed;
mod repeating;
#[cfg(feature = "async")]
mod wakers;

use core::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::alarm::Alarm;
use crate::engine::dispatch::JobRunner;
use crate::engine::idle::IdleWaiters;
use crate::engine::metrics::Stats;
use crate::engine::shard::Shard;
use crate::engine::sources::Sources;
use crate::host::clock::Clock;
use crate::host::sync::{AtomicBool, AtomicU64, Ordering, Parker};
use crate::host::timebase::{Target, Timebase};
use crate::host::unwind::UnwindBoundary;
use crate::structure::{Geometry, Location};
use crate::values::handle::Handle;
use crate::values::job::Job;
use crate::values::time::{Moment, Scale, Span, Tick};
use crate::values::when::When;
use bound::Bound;
pub(crate) use rearmed::IgnoresRun;
#[cfg(feature = "async")]
use wakers::LazyWakers;

/// The parts of an engine. The builder has checked them.
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
    /// The alarm of the jobs' shards.
    alarm: Alarm,
    sources: Sources,
    #[cfg(feature = "async")]
    wakers: LazyWakers,
    /// The geometry of the sources that are made later.
    geometry: Geometry,
    runner: Arc<JobRunner>,
    bound: Option<Bound>,
    refused: AtomicU64,
    /// Written by the ticker, as `behind` is.
    wakeups: AtomicU64,
    behind: AtomicU64,
    idle_waiters: Arc<IdleWaiters>,
    stopped: AtomicBool,
}

impl Engine {
    pub(crate) fn new(config: Config) -> Engine {
        let idle_waiters = Arc::new(IdleWaiters::new());
        let parker = Arc::new(Parker::new());
        let shard = |number| Shard::new(number as u32, config.geometry.clone(), Shard::MAX_JOBS);
        Engine {
            timebase: Timebase::new(config.clock, config.scale),
            shards: (0..config.shards).map(shard).collect(),
            sources: Sources::new(&parker),
            #[cfg(feature = "async")]
            wakers: LazyWakers::default(),
            geometry: config.geometry,
            alarm: Alarm::new(parker),
            runner: Arc::new(JobRunner::new(config.boundary, Arc::clone(&idle_waiters))),
            bound: config.max_pending.map(Bound::new),
            refused: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
            idle_waiters,
            behind: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Returns the shard that the calling thread inserts into.
    #[inline]
    pub(super) fn own_shard(&self) -> &Shard {
        &self.shards[thread_index() as usize % self.shards.len()]
    }

    #[inline]
    pub(crate) fn cancel(&self, handle: Handle) -> bool {
        let Some(shard) = self.shard_of(handle) else { return self.cancel_rearmable(handle) };
        let Some(job) = shard.cancel(handle) else { return false };
        self.release(1);
        self.discard(job, handle);
        true
    }

    /// Cancels a job without dropping it, and puts it into `job`. A re-armable job that is with the
    /// pool stays there: the thread that has it drops it, and `job` stays `None`.
    pub(crate) fn remove(&self, handle: Handle, job: &mut Option<Job>) -> bool {
        let removed = self.remove_keeping_room(handle, job);
        self.release(usize::from(removed));
        removed
    }

    /// Does what [`Engine::remove`] does, but keeps the room for another job.
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
    pub(crate) fn reset(&self, handle: Handle, when: When) -> bool {
        let now = self.timebase.clock().now();
        self.reset_for(handle, self.timebase.target(when, now), now)
    }

    #[inline]
    fn reset_for(&self, handle: Handle, target: Target, now: Moment) -> bool {
        let Some(shard) = self.shard_of(handle) else {
            return self.reset_rearmable(handle, target);
        };
        let moment = self.timebase.estimate(target.point).moment;
        let deadline = self.timebase.deadline(moment, target.window, now);
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

    /// Returns whether no job is pending and none is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        // Read before the shards, as in `stats`.
        let ended = self.runner.metrics().ended_before_wait();
        let Some((inserted, fired)) = self.tally_of_empty_shards() else { return false };
        // A job may move between shards during the scan, by a cancel and another insert. If the
        // insert count is unchanged after a second scan, all shards were empty at once, between the
        // two.
        fired == ended && self.tally_of_empty_shards() == Some((inserted, fired))
    }

    /// Returns how many jobs were inserted and fired, or `None` if one is pending.
    fn tally_of_empty_shards(&self) -> Option<(u64, u64)> {
        let tally = |shard: &Shard| Some(shard.tally()).filter(|tally| tally.pending == 0);
        self.shards.iter().try_fold((0, 0), |(inserted, fired), shard| {
            let tally = tally(shard)?;
            Some((inserted + tally.inserted, fired + tally.fired))
        })
    }

    /// Waits until the wheel is idle, or until `limit` has passed. Returns whether it is.
    pub(crate) fn wait_idle(&self, limit: Duration) -> bool {
        self.idle_waiters.wait(|| self.is_idle(), limit)
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // Read before the ended jobs, so that no more jobs seem to run than do.
        let started = self.runner.metrics().started();
        // Read before the shards, so that every job counted as ended is counted as fired by its
        // shard.
        let given_up = self.runner.metrics().given_up();
        let ended = self.runner.metrics().ended();
        for tally in self.shards.iter().map(Shard::tally) {
            stats.pending += tally.pending;
            stats.inserted += tally.inserted;
            stats.cancelled += tally.cancelled;
            stats.resets += tally.resets;
            stats.fired += tally.fired;
            stats.discarded += tally.discarded;
        }
        // Not `DispatchMetrics::in_flight`: that does not count a job that has left its shard and
        // is not handed over yet. The wheel would look idle, and would not be.
        stats.in_flight = (stats.fired - ended) as usize;
        stats.completed = ended - given_up;
        stats.busy_threads = started.saturating_sub(stats.completed) as usize;
        stats.discarded += given_up;
        #[cfg(feature = "async")]
        self.wakers.report(&mut stats);
        self.sources.report(&mut stats);
        stats.refused = self.refused.load(Ordering::Relaxed);
        stats.wakeups = self.wakeups.load(Ordering::Relaxed);
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

    /// The sources of timers beside the jobs.
    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn runner(&self) -> &Arc<JobRunner> {
        &self.runner
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns whether [`Engine::stop`] was called.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Drops the job with this handle, which will not run.
    pub(crate) fn discard(&self, job: Job, handle: Handle) {
        self.runner.boundary().discard_job(job, handle);
    }

    /// Returns the shard of a one-shot job.
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
    // Relaxed, and not an atomic of the model checker: the numbers have to differ, but order no
    // other memory.
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
