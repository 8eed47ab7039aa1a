//! The engine: shards and other sources, clock, alarm and counters, and every verb once. The ticker or the
//! [`Driver`](crate::Driver) advances and ends it with the verbs at the end of this file.
//!
//! [`Wheel`](crate::Wheel) and [`Scheduler`](crate::Scheduler) both forward to one engine. An engine has no thread and
//! no pool, so a reference to it keeps only memory alive.
//!
//! Ground rules:
//!
//! - A verb reads the clock before it waits for a lock, so the delay includes the wait. (A `Keyed` calls the engine
//!   under the lock of its map: there the delay counts from that call.)
//! - User code is called and dropped outside the locks, and through the unwind boundary.
//! - Against the [`Bound`] on pending jobs, a job is counted from before it enters a shard until it has left; a
//!   re-armable job until its end. So the bound is never exceeded, not even for a moment. The count must be exact, but
//!   orders no other memory: the data of a job crosses between threads under its shard's lock.

mod insert;
mod rearmed;

use core::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) use rearmed::IgnoresRun;

use crate::engine::alarm::Alarm;
use crate::engine::dispatch::pool::{PoolOutlet, WeakOutlet};
use crate::engine::dispatch::{DueJob, IdleWaiters, JobRunner};
use crate::engine::metrics::Stats;
use crate::engine::shard::{self, NextWake, Shard, Unstarted};
#[cfg(feature = "async")]
use crate::engine::sources::Source;
use crate::engine::sources::Sources;
use crate::engine::timers::{Due, TimersSurplus};
#[cfg(feature = "async")]
use crate::engine::wakers::{WakerContext, WakerShard, Wakers};
use crate::host::clock::{Clock, Target, Timebase};
use crate::host::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, Parker};
use crate::host::user_panics::UnwindBoundary;
use crate::structure::{Geometry, Location};
use crate::values::error::InsertErrorKind;
use crate::values::handle::Handle;
use crate::values::job::Job;
use crate::values::time::{Moment, Scale, Span, Tick, When};

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
    /// Made when the first future waits.
    #[cfg(feature = "async")]
    wakers: OnceLock<Arc<Wakers>>,
    /// The geometry of the sources that are made later.
    geometry: Geometry,
    runner: Arc<JobRunner>,
    /// For jobs that need no ticker. Not set without a pool. Written once, so no panic leaves it broken.
    outlet: AssertUnwindSafe<OnceLock<WeakOutlet>>,
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
            wakers: OnceLock::new(),
            geometry: config.geometry,
            alarm: Alarm::new(parker),
            runner: Arc::new(JobRunner::new(config.boundary, Arc::clone(&idle_waiters))),
            outlet: AssertUnwindSafe(OnceLock::new()),
            bound: config.max_pending.map(Bound::new),
            refused: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
            idle_waiters,
            behind: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn own_shard(&self) -> &Shard {
        shard::of_this_thread(&self.shards)
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
        for tally in self.wakers.get().iter().flat_map(|wakers| wakers.tallies()) {
            stats.sleeping += tally.pending;
            stats.woken += tally.fired;
        }
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

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The shard of wakers that the calling thread uses.
    #[cfg(feature = "async")]
    pub(crate) fn own_waker_shard(&self) -> &Arc<WakerShard> {
        let wakers = self.wakers.get_or_init(|| {
            let alarm = Arc::clone(self.sources.alarm());
            let context = WakerContext::new(self.timebase.share(), alarm, Arc::clone(&self.runner));
            let wakers = Arc::new(Wakers::new(self.shards.len(), &self.geometry, context));
            // As if they had been there from the beginning: every tick up to the present is over.
            wakers.advance(self.timebase.present(), usize::MAX);
            self.sources.add(Arc::clone(&wakers) as Arc<dyn Source>);
            wakers
        });
        wakers.shard(shard::thread_index())
    }

    /// Returns whether any future has waited yet.
    #[cfg(all(test, feature = "async", not(loom)))]
    pub(crate) fn has_wakers(&self) -> bool {
        self.wakers.get().is_some()
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn runner(&self) -> &Arc<JobRunner> {
        &self.runner
    }

    pub(crate) fn set_outlet(&self, outlet: WeakOutlet) {
        // There is one pool, which is set once.
        drop(self.outlet.set(outlet));
    }

    /// Returns the outlet for jobs that need no ticker, if there is one now.
    fn open_outlet(&self) -> Option<PoolOutlet> {
        self.outlet.get()?.open()
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

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

    #[inline]
    fn admit(&self, jobs: usize) -> Result<(), InsertErrorKind> {
        match &self.bound {
            Some(bound) if !bound.try_acquire(jobs) => Err(self.refuse(jobs)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn refuse(&self, jobs: usize) -> InsertErrorKind {
        self.note_refused(jobs);
        match self.is_stopped() {
            // If the wheel is full *and* shut down, say shut down: that is final.
            true => InsertErrorKind::Shutdown,
            false => InsertErrorKind::Full,
        }
    }

    #[cold]
    pub(crate) fn note_refused(&self, jobs: usize) {
        self.refused.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// Counts `jobs` admitted jobs as refused, and gives their room back.
    #[cold]
    fn release_refused(&self, jobs: usize) {
        self.note_refused(jobs);
        self.release(jobs);
    }

    /// Gives back the room of jobs that are not pending any more, and notifies idle waiters.
    #[inline]
    fn release(&self, jobs: usize) {
        if let Some(bound) = &self.bound {
            bound.release(jobs);
        }
        if self.idle_waiters.any() {
            self.idle_waiters.notify();
        }
    }

    pub(crate) fn max_pending(&self) -> Option<usize> {
        self.bound.as_ref().map(|bound| bound.max)
    }
}

/// The bound, and how many more jobs may be pending.
struct Bound {
    max: usize,
    room: AtomicUsize,
}

impl Bound {
    fn new(max: usize) -> Bound {
        Bound { max, room: AtomicUsize::new(max) }
    }

    /// Takes room for all of the jobs, or for none. Returns whether there was room.
    fn try_acquire(&self, jobs: usize) -> bool {
        let less = |room: usize| room.checked_sub(jobs);
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn release(&self, jobs: usize) {
        self.room.fetch_add(jobs, Ordering::Relaxed);
    }
}

/// The jobs that one advance takes out. Its memory is used again, so an advance allocates nothing.
#[derive(Default)]
pub(crate) struct DueJobs {
    pub(crate) jobs: Vec<DueJob>,
    /// The jobs as they come out of a shard. Empty between two advances.
    taken: Vec<Due<Job>>,
    /// Memory that the shard does not need any more.
    pub(crate) surplus: Option<TimersSurplus<Job>>,
}

impl DueJobs {
    pub(crate) fn with_capacity(jobs: usize) -> DueJobs {
        let (jobs, taken) = (Vec::with_capacity(jobs), Vec::with_capacity(jobs));
        DueJobs { jobs, taken, surplus: None }
    }
}

impl Engine {
    pub(crate) fn next_wake(&self) -> NextWake {
        self.shards.iter().map(Shard::next_wake).fold(NextWake::NEVER, NextWake::join)
    }

    pub(crate) fn earliest_deadline(&self) -> Tick {
        let jobs = self.shards.iter().map(Shard::earliest_deadline).min().unwrap_or(Tick::MAX);
        jobs.min(self.sources.earliest_deadline())
    }

    /// Advances one shard to `to`, looking at no more than `limit` entries, and appends the jobs
    /// that are due. Returns whether all of them were appended.
    ///
    /// The caller must have processed every tick before `to`. All jobs that come out are stamped as
    /// due at `to`.
    pub(crate) fn advance_shard(
        &self,
        shard: usize,
        to: Tick,
        limit: usize,
        due: &mut DueJobs,
    ) -> bool {
        let DueJobs { jobs: due, taken: jobs, surplus } = due;
        let finished;
        (finished, *surplus) = self.shards[shard].advance(to, limit, jobs);
        if let Some(bound) = &self.bound {
            // A re-armable job keeps its room while it is out, for when it comes back.
            bound.release(jobs.iter().filter(|(_, job)| job.rearmable_handle().is_none()).count());
        }
        let when = self.timebase.scale().begin(to);
        let shard = &self.shards[shard];
        due.extend(jobs.drain(..).map(|(key, job)| {
            let job = ManuallyDrop::into_inner(job);
            DueJob { job, handle: shard.handle(key), deadline: when }
        }));
        finished
    }

    pub(crate) fn set_behind(&self, behind: Span) {
        self.behind.store(behind.get(), Ordering::Relaxed);
    }

    pub(crate) fn note_wakeup(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    /// Refuses every insert from now on, makes the ticker end, and closes the sources. Returns the
    /// pending jobs.
    pub(crate) fn stop(&self) -> Vec<Unstarted> {
        // Before the wake: the ticker, awake or woken, sees `stopped` through the parker's lock.
        self.stopped.store(true, Ordering::Release);
        self.alarm.parker().wake();
        let mut pending = Vec::new();
        for shard in &self.shards {
            pending.extend(shard.close(&self.timebase));
        }
        self.release(pending.len());
        self.sources.close(self.timebase.present());
        pending
    }

    /// To be called after [`Engine::stop`]. Returns the jobs that never ran: those of
    /// `handed_over`, and re-armable jobs that came back since. Jobs that come back later are
    /// dropped.
    pub(crate) fn collect_unstarted(
        &self,
        handed_over: impl Iterator<Item = DueJob>,
    ) -> Vec<Unstarted> {
        let mut unstarted = Vec::new();
        for DueJob { job, handle, .. } in handed_over {
            let Some(rearmable) = job.rearmable_handle() else {
                unstarted.push((handle, Tick::new(0), job));
                continue;
            };
            match self.deregister(rearmable) {
                Some(due) => unstarted.push((rearmable, due, job)),
                // The job was cancelled on its way.
                None => self.discard(job, rearmable),
            }
        }
        for shard in &self.shards {
            for (stray, registered) in shard.collect_unstarted(&self.timebase) {
                match registered {
                    true => unstarted.push(stray),
                    false => self.discard(stray.2, stray.0),
                }
            }
        }
        unstarted
    }
}
