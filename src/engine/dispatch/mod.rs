//! The dispatch of due jobs: a job is handed over, starts, and ends or panics; and the wait until none is pending or in
//! flight.
//!
//! [`run_inline`] runs a job on the thread that drives a manual wheel, at once; [`InlineOutlet`] does so for a loop of
//! the user's; `pool.rs` runs it on a rayon pool, through a channel.
//!
//! Ground rules:
//!
//! - A [`DueJob`] is out of the wheel: a cancel does not find it. It runs once, or a shutdown hands it back, or a drop
//!   discards it. (A re-armable job can still be cancelled: it is then dropped instead of started.)
//! - Every job runs in [`JobRunner::run`], which catches its panic and counts its end.
//! - A thread that may make the wheel idle (by the end of a job, a cancel, a stop) does so first, and then calls
//!   [`IdleWaiters::notify`]. A waiter first counts itself, and then checks whether the wheel is idle. So the waiter
//!   sees the idle wheel, or the notifier sees the waiter. If a job left a shard, the lock of the shard orders the two;
//!   if a job ended, the count of ended jobs does, which both write.
//! - Without a waiter, a notification is one load of a counter that no thread writes.

pub(crate) mod pool;

use core::cell::Cell;
use core::time::Duration;
use std::sync::Arc;

use crate::engine::metrics::{Histogram, Stats};
use crate::engine::timers::TimersSurplus;
use crate::host::clock::{Clock, Limit};
use crate::host::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, lock, wait_timeout};
use crate::host::user_panics::UnwindBoundary;
use crate::values::error::ConfigError;
use crate::values::handle::Handle;
use crate::values::job::Job;
use crate::values::time::Moment;

/// A job that has come due, on its way to be run.
pub(crate) struct DueJob {
    pub(crate) job: Job,
    /// For a one-shot job, the handle that its insert returned. For a re-armable job use
    /// `Job::rearmable_handle` instead.
    pub(crate) handle: Handle,
    pub(crate) deadline: Moment,
}

/// The place where the ticker hands due jobs over.
pub(crate) trait Outlet {
    /// Returns how many more jobs may be in flight. After it has returned zero, the end of a job
    /// wakes the ticker.
    fn room(&self) -> usize;

    /// Takes due jobs. Returns at once, or once the threads have started that the first jobs need.
    fn hand_over(&self, jobs: &mut Vec<DueJob>);

    /// Frees memory that a shard does not need any more. That may take long.
    fn discard(&self, surplus: TimersSurplus<Job>) {
        drop(surplus);
    }

    /// Tries again to start the threads that jobs wait for, if the system has refused them and it
    /// is time. Returns how long it is until the next try, or `None` if nothing is refused.
    fn retry_threads(&self) -> Option<Duration> {
        None
    }

    /// Returns why the system refused the threads, if that is not reported yet. The caller reports
    /// it, outside of the work that a shutdown always waits for.
    fn take_refusal(&self) -> Option<ConfigError> {
        None
    }
}

impl DueJob {
    /// Returns the handle that the insert returned.
    pub(crate) fn handle(&self) -> Handle {
        self.job.rearmable_handle().unwrap_or(self.handle)
    }
}

/// Runs due jobs, catches their panics, and counts them.
pub(crate) struct JobRunner {
    boundary: UnwindBoundary,
    metrics: DispatchMetrics,
    idle_waiters: Arc<IdleWaiters>,
}

impl JobRunner {
    pub(crate) fn new(boundary: UnwindBoundary, idle_waiters: Arc<IdleWaiters>) -> JobRunner {
        JobRunner { boundary, metrics: DispatchMetrics::default(), idle_waiters }
    }

    pub(crate) fn boundary(&self) -> &UnwindBoundary {
        &self.boundary
    }

    pub(crate) fn metrics(&self) -> &DispatchMetrics {
        &self.metrics
    }

    pub(crate) fn run(&self, due: DueJob, handed_over: Moment, now: Moment) {
        self.metrics.start.record(now.since(handed_over));
        let handle = due.handle();
        self.boundary.fire(due.job, handle);
        self.metrics.job_ended();
        self.tell_waiters();
    }

    /// Counts a job that was handed over and will not be run.
    pub(crate) fn give_up(&self) {
        // Written in this order and read in the other: a thread that sees the second sees the
        // first.
        self.metrics.job_ended();
        self.metrics.given_up.fetch_add(1, Ordering::SeqCst);
        self.tell_waiters();
    }

    fn tell_waiters(&self) {
        if self.idle_waiters.any() && self.metrics.in_flight() == 0 {
            self.idle_waiters.notify();
        }
    }

    /// Fills in the fields of `stats` that are counted only here.
    pub(crate) fn report(&self, stats: &mut Stats) {
        stats.panicked = self.boundary.panicked();
        stats.handover = self.metrics.handover.lateness();
        stats.start = self.metrics.start.lateness();
    }
}

/// Counts the jobs that left the wheel to be run, and how late they were.
#[derive(Default)]
pub(crate) struct DispatchMetrics {
    handed_over: AtomicU64,
    ended: AtomicU64,
    given_up: AtomicU64,
    handover: Histogram,
    start: Histogram,
}

impl DispatchMetrics {
    /// Counts a job that leaves the wheel to be run. Sequentially consistent, because `in_flight`
    /// reads both counters, and must not see an end without its beginning.
    pub(crate) fn job_handed_over(&self, deadline: Moment, now: Moment) {
        self.handed_over.fetch_add(1, Ordering::SeqCst);
        self.handover.record(now.since(deadline));
    }

    pub(crate) fn started(&self) -> u64 {
        self.start.count()
    }

    /// Counts a job that was handed over and has run.
    ///
    /// Sequentially consistent, because a protocol depends on it: either `PoolShared::room` sees
    /// this end, or this end sees that room is wanted (`pool.rs`).
    pub(crate) fn job_ended(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how many of the ended jobs were given up. Read this before [`ended`], which is then
    /// no less.
    ///
    /// [`ended`]: DispatchMetrics::ended
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Does what [`DispatchMetrics::ended`] does, for a thread that is about to wait for the next
    /// end. An end that this does not count comes later, and its thread sees all that this thread
    /// has written before.
    pub(crate) fn ended_before_wait(&self) -> u64 {
        // Adds zero, because a load could read an older count than that of the last end.
        self.ended.fetch_add(0, Ordering::SeqCst)
    }

    pub(crate) fn in_flight(&self) -> usize {
        // `ended` is read first: a job that ends between the two reads must not make the difference
        // negative.
        let ended = self.ended();
        (self.handed_over.load(Ordering::SeqCst) - ended) as usize
    }
}

pub(crate) fn run_inline(runner: &JobRunner, clock: &Clock, due: DueJob) {
    let now = clock.now();
    runner.metrics().job_handed_over(due.deadline, now);
    runner.run(due, now, now);
}

/// Runs each job as it is handed over. Takes one at a time, so that jobs that have not run can be
/// cancelled.
pub(crate) struct InlineOutlet {
    runner: Arc<JobRunner>,
    clock: Arc<Clock>,
    count: Cell<usize>,
}

impl InlineOutlet {
    pub(crate) fn new(runner: &Arc<JobRunner>, clock: &Arc<Clock>) -> InlineOutlet {
        let (runner, clock) = (Arc::clone(runner), Arc::clone(clock));
        InlineOutlet { runner, clock, count: Cell::new(0) }
    }

    /// Returns how many jobs have run since the last call.
    pub(crate) fn take_count(&self) -> usize {
        self.count.take()
    }
}

impl Outlet for InlineOutlet {
    fn room(&self) -> usize {
        1
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        for job in jobs.drain(..) {
            self.count.set(self.count.get() + 1);
            run_inline(&self.runner, &self.clock, job);
        }
    }
}

pub(crate) struct IdleWaiters {
    waiting: AtomicUsize,
    /// The number of notifications that were sent because a thread was waiting.
    notified: Mutex<u64>,
    bell: Condvar,
}

impl IdleWaiters {
    pub(crate) fn new() -> IdleWaiters {
        IdleWaiters { waiting: AtomicUsize::new(0), notified: Mutex::new(0), bell: Condvar::new() }
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Makes the waiters check again. To be called if there are [any](IdleWaiters::any).
    #[cold]
    pub(crate) fn notify(&self) {
        *lock(&self.notified) += 1;
        self.bell.notify_all();
    }

    /// Waits until `is_idle` returns true, or until `limit` has passed. Returns its last result.
    pub(crate) fn wait(&self, is_idle: impl Fn() -> bool, limit: Duration) -> bool {
        let limit = Limit::new(limit);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut idle;
        loop {
            let seen = *lock(&self.notified);
            idle = is_idle();
            if idle || limit.has_passed() {
                break;
            }
            let notified = lock(&self.notified);
            if *notified == seen {
                drop(wait_timeout(&self.bell, notified, limit.remaining()));
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        idle
    }
}
