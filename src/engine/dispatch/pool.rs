//! Runs due jobs on a rayon pool, whose threads start with the first job that comes due.
//!
//! The ticker sends due jobs through a channel; so does the verb `spawn`, without the ticker. *Drainers*, tasks of the
//! pool, take them out and run them, one after the other, so a job that blocks occupies its own thread, and delays no
//! other job.
//!
//! A drainer needs a permit, and there are as many permits as the pool has threads:
//!
//! ```text
//! permit free  ->  permit taken (spawned, has not begun)  ->  active (may be running a job)
//!      ^                                                        |             |
//!      +--------------- the queue is empty ---------------------+             | after 64 jobs:
//!                                                                             v
//!                                               spawns its successor, which has the permit
//! ```
//!
//! Ground rules:
//!
//! - **No job is left in the queue without a drainer.** A sender sends a job, then spawns a drainer if a permit is
//!   free. A drainer that finds the queue empty releases its permit, *then* looks at the queue once more. The sender
//!   writes the queue, fences, and reads the permits; the leaving drainer writes the permits, fences, and reads the
//!   queue. So at least one of them sees the write of the other.
//! - **A thread runs one job of a wheel at a time.** A job that waits inside rayon (`join`, `scope`) lets its thread
//!   run other tasks, and one of them may be a drainer. A job run there could block on a lock that the job below holds,
//!   and both would wait for ever. So a drainer that finds another drainer of its wheel below it *declines*: it
//!   releases its permit, and if the queue is not empty, it asks every thread of the pool to look at the queue. A
//!   thread that has a drainer ignores this, because its drainer looks at the queue later.
//! - **A drainer gives the pool back now and then**, because others may share it. After [`JOBS_PER_STINT`] jobs it
//!   calls `yield_now`, which runs one other task; a bare `spawn` would not, because a worker takes its own spawns
//!   first. Then it spawns its successor, hands over its permit, and returns. During `yield_now`, too, another drainer
//!   of its wheel declines: a thread that had two permits would delay the queue with one job that blocks.
//! - **A drainer is active from before it takes a job until after the job has ended.** After a close no drainer becomes
//!   active, so a thread outside the pool may wait until none is.
//! - Nothing unwinds into rayon, which would end the process: jobs run behind the boundary.
//! - The pool belongs to the ticker, not to the drainers. A call of `spawn` holds it, too, for its own time; if it is the
//!   last holder, rayon only tells the threads to end.
//! - As long as no job comes due, a wheel's own pool ([`LazyPool`]) has no thread. For a program that only cancels its
//!   timers, or inserts no jobs at all, the wheel adds one thread, the ticker.
//! - The system may refuse to start the threads. The jobs that were handed over then stay in the queue, and the ticker
//!   tries again, at most once a [`RETRY_INTERVAL`], even if more jobs come due. The first refusal is kept, for the
//!   ticker to report.
//! - Only the ticker starts the threads. A shutdown joins the ticker first, so no pool starts after it. Until they have
//!   started, `spawn` goes through the wheel.
//! - `spawn` sends under the lock of an open shard, and a shutdown closes the shards before it empties the queue. So no
//!   job is sent into a queue that nobody empties.
//!
//! The price:
//!
//! - After a burst, as many spawned drainers as there are permits may find nothing to do.
//! - rayon cannot be asked to run a task on a free thread. While one thread is stuck in a foreign task and a drainer
//!   declines again and again, that thread collects one task for each time, of some 60 bytes, until it gets to them.

use core::cell::RefCell;
use core::time::Duration;
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rayon::ThreadPool;

use super::{DueJob, JobRunner, Outlet};
use crate::engine::timers::TimersSurplus;
use crate::host::clock::{Clock, Limit};
use crate::host::sync::{
    AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, Parker, fence, lock, thread_local,
    wait_timeout,
};
use crate::host::user_panics::PanicHandler;
use crate::values::error::ConfigError;
use crate::values::job::Job;
use crate::values::time::Moment;

/// How many jobs a drainer runs before it lets the pool run something else.
const JOBS_PER_STINT: usize = 64;

/// How many tasks that free memory may wait for the pool's threads.
const MOST_DISCARDS: usize = 4;

struct Queued {
    due: DueJob,
    handed_over: Moment,
}

/// The ticker's access to the pool.
pub(crate) struct PoolOutlet {
    pool: Arc<LazyPool>,
    shared: Arc<PoolShared>,
}

impl PoolOutlet {
    pub(crate) fn new(pool: Arc<LazyPool>, shared: Arc<PoolShared>) -> PoolOutlet {
        PoolOutlet { pool, shared }
    }

    pub(crate) fn downgrade(&self) -> WeakOutlet {
        WeakOutlet { pool: Arc::downgrade(&self.pool), shared: Arc::downgrade(&self.shared) }
    }

    /// Puts a job into the queue. The caller then calls [`PoolOutlet::spawn_drainers`].
    pub(crate) fn send(&self, due: DueJob, now: Moment) {
        self.shared.send(due, now);
    }

    /// Spawns drainers for `jobs` jobs in the queue, unless the pool has no threads.
    pub(crate) fn spawn_drainers(&self, jobs: usize) {
        let Some(pool) = self.pool.get() else { return };
        // More drainers than jobs would find nothing to do.
        for _ in 0..jobs {
            if !self.shared.permit_for_queue() {
                break;
            }
            let shared = Arc::clone(&self.shared);
            pool.spawn(move || shared.drain());
        }
    }
}

/// An outlet that keeps neither the pool nor the panic handler alive.
pub(crate) struct WeakOutlet {
    pool: Weak<LazyPool>,
    shared: Weak<PoolShared>,
}

impl WeakOutlet {
    /// Returns the outlet, unless the wheel has ended, its pool has not started, or the jobs in flight have a bound.
    pub(crate) fn open(&self) -> Option<PoolOutlet> {
        let shared = self.shared.upgrade().filter(|shared| shared.max_in_flight == usize::MAX)?;
        let pool = self.pool.upgrade().filter(|pool| pool.started().is_some())?;
        Some(PoolOutlet { pool, shared })
    }
}

impl Outlet for PoolOutlet {
    fn room(&self) -> usize {
        self.shared.room()
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        let (now, count) = (self.shared.clock.now(), jobs.len());
        jobs.drain(..).for_each(|due| self.shared.send(due, now));
        // Jobs that came while the system refused the threads have no drainer yet.
        let all = self.pool.started().is_none();
        self.spawn_drainers(if all { self.shared.queue.len() } else { count });
    }

    fn discard(&self, surplus: TimersSurplus<Job>) {
        match self.pool.started() {
            Some(pool) if self.shared.may_discard() => {
                let shared = Arc::clone(&self.shared);
                pool.spawn(move || {
                    drop(surplus);
                    shared.discards.fetch_sub(1, Ordering::Relaxed);
                });
            }
            _ => drop(surplus),
        }
    }

    fn retry_threads(&self) -> Option<Duration> {
        self.pool.retry_in()?;
        self.spawn_drainers(self.shared.queue.len());
        self.pool.retry_in()
    }

    fn take_refusal(&self) -> Option<ConfigError> {
        self.pool.take_refusal()
    }
}

/// The state that drainers and the wheel share.
pub(crate) struct PoolShared {
    sender: Sender<Queued>,
    queue: Receiver<Queued>,
    permits: DrainerPermits,
    active: ActiveDrainers,
    runner: Arc<JobRunner>,
    clock: Arc<Clock>,
    max_in_flight: usize,
    room_wanted: AtomicBool,
    /// How many tasks that free memory have not ended.
    discards: AtomicUsize,
    ticker: Arc<Parker>,
    /// Jobs may go on after their wheel is gone. The user's panic handler stays as long as they do.
    _panic_handler: Option<Arc<PanicHandler>>,
}

impl PoolShared {
    /// Returns the shared state of at most `max_drainers` drainers. When room is wanted and a job
    /// ends, `ticker` is woken.
    pub(crate) fn new(
        max_drainers: usize,
        max_in_flight: usize,
        runner: Arc<JobRunner>,
        clock: Arc<Clock>,
        ticker: Arc<Parker>,
        panic_handler: Option<Arc<PanicHandler>>,
    ) -> PoolShared {
        let (sender, queue) = unbounded();
        PoolShared {
            sender,
            queue,
            permits: DrainerPermits::new(max_drainers),
            active: ActiveDrainers::new(),
            runner,
            clock,
            max_in_flight,
            room_wanted: AtomicBool::new(false),
            discards: AtomicUsize::new(0),
            ticker,
            _panic_handler: panic_handler,
        }
    }

    /// Puts a job into the queue. The caller then spawns a drainer, if there is a permit for it.
    pub(crate) fn send(&self, due: DueJob, now: Moment) {
        self.runner.metrics().job_handed_over(due.deadline, now);
        let queued = Queued { due, handed_over: now };
        self.sender.send(queued).expect("the receiver lives as long as the sender");
    }

    /// Returns whether one more task may free memory on the pool, and counts it. If all threads of the pool are busy
    /// for long, the ticker frees the memory itself.
    fn may_discard(&self) -> bool {
        let may = self.discards.load(Ordering::Relaxed) < MOST_DISCARDS;
        self.discards.fetch_add(usize::from(may), Ordering::Relaxed);
        may
    }

    /// Takes a permit for a drainer of the jobs that the caller has sent, or has seen in the queue.
    /// Returns whether there was one.
    pub(crate) fn permit_for_queue(&self) -> bool {
        // Pairs with the fence in `release_permit`: the queue was written before it, the permits
        // are read after it.
        fence(Ordering::SeqCst);
        self.permits.try_acquire()
    }

    /// Releases the permit of a drainer that leaves. Returns whether the queue has jobs that came
    /// meanwhile, for which no drainer may have been spawned.
    fn release_permit(&self) -> bool {
        self.permits.release();
        // Pairs with the fence in `permit_for_queue`: the permits were written before it, the queue
        // is read after it.
        fence(Ordering::SeqCst);
        !self.queue.is_empty()
    }

    pub(crate) fn room(&self) -> usize {
        let room = || self.max_in_flight.saturating_sub(self.runner.metrics().in_flight());
        match room() {
            0 => {
                self.room_wanted.store(true, Ordering::Relaxed);
                // Pairs with the fence in `run`: this thread writes `room_wanted` and then reads
                // the count of ended jobs, a drainer writes the count and then reads `room_wanted`.
                // So either there is room below, or the drainer wakes the ticker.
                fence(Ordering::SeqCst);
                room()
            }
            some => some,
        }
    }

    pub(crate) fn close(&self) {
        self.active.close();
    }

    /// Waits until no drainer is active, after [`PoolShared::close`], or until the limit has
    /// passed. Returns whether none is.
    ///
    /// Not for a thread of the pool: it cannot know which jobs wait for the tasks below it on its
    /// own stack.
    pub(crate) fn wait(&self, limit: &Limit) -> bool {
        self.active.wait(limit)
    }

    /// Takes a job out of the queue, to hand it back or to discard it.
    pub(crate) fn take_queued(&self) -> Option<DueJob> {
        let queued = self.queue.try_recv().ok()?;
        self.runner.give_up();
        Some(queued.due)
    }

    /// Runs jobs as a drainer with a permit, on a thread of the pool.
    pub(crate) fn drain(self: Arc<Self>) {
        if self.active.is_on_this_stack() {
            return self.decline();
        }
        while self.active.enter() {
            let end = self.run_stint();
            self.active.exit();
            match end {
                StintEnd::Closed => return,
                StintEnd::NothingLeft => {
                    if !self.release_permit() || !self.permit_for_queue() {
                        return;
                    }
                }
                StintEnd::Over => {
                    self.active.yield_now();
                    rayon::spawn(|| self.drain());
                    return;
                }
            }
        }
    }

    /// Leaves the queue to other threads, because this thread has a drainer of this wheel below on
    /// its stack.
    fn decline(self: Arc<Self>) {
        if !self.release_permit() {
            return;
        }
        // A free thread runs its share of this at once. A thread that runs another task does so
        // after that task. A thread that is in the middle of a job of this wheel looks at the queue
        // after that job.
        rayon::spawn_broadcast(move |_| {
            if !self.active.is_on_this_stack() && !self.queue.is_empty() && self.permit_for_queue()
            {
                Arc::clone(&self).drain();
            }
        });
    }

    fn run_stint(&self) -> StintEnd {
        for _ in 0..JOBS_PER_STINT {
            if self.active.is_closed() {
                return StintEnd::Closed;
            }
            let Ok(Queued { due, handed_over }) = self.queue.try_recv() else {
                return StintEnd::NothingLeft;
            };
            self.run(due, handed_over);
        }
        StintEnd::Over
    }

    fn run(&self, due: DueJob, handed_over: Moment) {
        self.runner.run(due, handed_over, self.clock.now());
        if self.max_in_flight < usize::MAX {
            // Pairs with the fence in `room`, where it is explained.
            fence(Ordering::SeqCst);
            if self.room_wanted.load(Ordering::Relaxed)
                && self.room_wanted.swap(false, Ordering::Relaxed)
            {
                self.ticker.wake();
            }
        }
    }
}

/// Why a drainer stops taking jobs.
enum StintEnd {
    /// It has run its share.
    Over,
    /// The queue was found empty.
    NothingLeft,
    /// The wheel has ended.
    Closed,
}

/// How many more drainers there may be. The operations are sequentially consistent for the first
/// ground rule of `pool.rs`.
pub(super) struct DrainerPermits {
    free: AtomicUsize,
}

impl DrainerPermits {
    pub(super) fn new(count: usize) -> DrainerPermits {
        DrainerPermits { free: AtomicUsize::new(count) }
    }

    pub(super) fn try_acquire(&self) -> bool {
        let less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    pub(super) fn release(&self) {
        self.free.fetch_add(1, Ordering::SeqCst);
    }
}

/// The drainers that may be running a job.
pub(super) struct ActiveDrainers {
    count: Mutex<usize>,
    changed: Condvar,
    closed: AtomicBool,
}

thread_local! {
    /// The wheels that have a drainer on this thread's stack, active or yielding, by the address of
    /// their [`ActiveDrainers`].
    // Not `const`, which loom's macro does not take.
    #[allow(clippy::missing_const_for_thread_local)]
    static ON_THIS_STACK: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

impl ActiveDrainers {
    pub(super) fn new() -> ActiveDrainers {
        let (count, changed) = (Mutex::new(0), Condvar::new());
        ActiveDrainers { count, changed, closed: AtomicBool::new(false) }
    }

    /// Makes a drainer active, unless this is closed. Returns whether it did.
    pub(super) fn enter(&self) -> bool {
        let mut count = lock(&self.count);
        // Under the lock that `close` takes: a drainer is either counted or refused.
        if self.is_closed() {
            return false;
        }
        *count += 1;
        ON_THIS_STACK.with(|stack| stack.borrow_mut().push(self.address()));
        true
    }

    pub(super) fn exit(&self) {
        ON_THIS_STACK.with(|stack| stack.borrow_mut().pop());
        *lock(&self.count) -= 1;
        self.changed.notify_all();
    }

    /// Lets the pool run one other task on this thread. A drainer of this wheel declines there, as
    /// during a job; but a shutdown does not wait for that task.
    pub(super) fn yield_now(&self) {
        ON_THIS_STACK.with(|stack| stack.borrow_mut().push(self.address()));
        rayon::yield_now();
        ON_THIS_STACK.with(|stack| stack.borrow_mut().pop());
    }

    /// Returns whether the calling thread is in the middle of a job of this wheel, or of a yield.
    pub(super) fn is_on_this_stack(&self) -> bool {
        ON_THIS_STACK.with(|stack| stack.borrow().contains(&self.address()))
    }

    /// A hint between two jobs; `enter` decides under the lock.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        let _count = lock(&self.count);
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn wait(&self, limit: &Limit) -> bool {
        let mut count = lock(&self.count);
        while *count > 0 && !limit.has_passed() {
            count = wait_timeout(&self.changed, count, limit.remaining());
        }
        *count == 0
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

type Start = dyn Fn() -> Result<Arc<ThreadPool>, ConfigError> + Send + Sync;

/// How often the start of the threads is tried again after the system has refused them.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct LazyPool {
    started: OnceLock<Arc<ThreadPool>>,
    start: Box<Start>,
    threads: usize,
    retry_interval: Duration,
    /// Until when not to try again, if the system refused to start the threads at the last try.
    refused: Mutex<Option<Limit>>,
    /// The first refusal, until it is taken.
    refusal: Mutex<Option<ConfigError>>,
}

impl LazyPool {
    pub(crate) fn new(
        threads: usize,
        start: impl Fn() -> Result<Arc<ThreadPool>, ConfigError> + Send + Sync + 'static,
    ) -> LazyPool {
        LazyPool {
            started: OnceLock::new(),
            start: Box::new(start),
            threads,
            retry_interval: RETRY_INTERVAL,
            refused: Mutex::new(None),
            refusal: Mutex::new(None),
        }
    }

    /// Makes every [`LazyPool::get`] try again after a refusal.
    #[cfg(all(test, not(loom)))]
    pub(super) fn retried_at_once(self) -> LazyPool {
        LazyPool { retry_interval: Duration::ZERO, ..self }
    }

    pub(crate) fn shared(pool: Arc<ThreadPool>) -> LazyPool {
        let started = OnceLock::from(Arc::clone(&pool));
        let threads = pool.current_num_threads();
        LazyPool { started, ..LazyPool::new(threads, move || Ok(Arc::clone(&pool))) }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    pub(crate) fn started(&self) -> Option<&Arc<ThreadPool>> {
        self.started.get()
    }

    /// Returns the pool, and starts its threads if they have not started. Returns `None` if the
    /// system refuses, or if it is too early for another try. Until it has started, one thread at a
    /// time calls this: the ticker.
    pub(crate) fn get(&self) -> Option<&Arc<ThreadPool>> {
        if self.started.get().is_none() {
            if self.retry_in().is_some_and(|wait| !wait.is_zero()) {
                return None;
            }
            match (self.start)() {
                Ok(pool) => {
                    drop(self.started.set(pool));
                    *lock(&self.refused) = None;
                }
                Err(error) => {
                    let wait = Limit::new(self.retry_interval);
                    let was_refused = lock(&self.refused).replace(wait).is_some();
                    if !was_refused {
                        *lock(&self.refusal) = Some(error);
                    }
                }
            }
        }
        self.started.get()
    }

    /// Returns the first refusal, once.
    pub(crate) fn take_refusal(&self) -> Option<ConfigError> {
        match self.started.get() {
            Some(_) => None,
            None => lock(&self.refusal).take(),
        }
    }

    /// Returns how long it is until the start is tried again, or `None` if the system has not
    /// refused it.
    pub(crate) fn retry_in(&self) -> Option<Duration> {
        lock(&self.refused).as_ref().map(Limit::remaining)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;
    use crate::engine::dispatch::IdleWaiters;
    use crate::host::user_panics::UnwindBoundary;
    use crate::structure::Hierarchy;
    use crate::values::handle::Handle;
    use crate::values::job::Job;
    use crate::values::time::Tick;

    fn due(job: impl FnOnce() + Send + 'static) -> DueJob {
        let key = Hierarchy::default().insert(Tick::new(1), ());
        let handle = Handle::new(0, key.generation, key.index);
        DueJob { job: Job::new(job), handle, deadline: Moment::default() }
    }

    /// C20: Jobs that came while the system refused the threads get as many threads as any job.
    #[test]
    fn jobs_that_came_before_the_pool_started_get_all_threads() {
        let refuses = AtomicBool::new(true);
        let pool = LazyPool::new(2, move || match refuses.swap(false, Ordering::Relaxed) {
            true => Err(ConfigError::Ticker(std::io::Error::other("no more threads"))),
            false => Ok(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap())),
        });
        let runner = JobRunner::new(UnwindBoundary::default(), Arc::new(IdleWaiters::new()));
        let (clock, parker) = (Arc::new(Clock::monotonic()), Arc::new(Parker::new()));
        let shared = PoolShared::new(2, usize::MAX, Arc::new(runner), clock, parker, None);
        let outlet = PoolOutlet::new(Arc::new(pool.retried_at_once()), Arc::new(shared));
        let ((go, goes), (ended, ends)) = (channel(), channel());
        // The first two come while the system refuses, and the first waits for the second.
        let first = due(move || goes.recv().unwrap());
        let second = due(move || go.send(()).unwrap());
        outlet.hand_over(&mut vec![first, second]);
        assert!(outlet.take_refusal().is_some());
        outlet.hand_over(&mut vec![due(move || ended.send(()).unwrap())]);
        ends.recv_timeout(Duration::from_secs(60)).expect("no thread is held for ever");
    }

    /// The pool starts at its first use. If the system refuses the threads, the start is tried again later.
    #[test]
    fn pool_starts_at_first_use_and_retries_if_refused() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let mut pool = LazyPool::new(3, move || match counted.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(ConfigError::Ticker(std::io::Error::other("no more threads"))),
            _ => Ok(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap())),
        });
        assert!(pool.started().is_none() && pool.retry_in().is_none() && pool.threads() == 3);
        // No call makes it try again before the time has come.
        pool.retry_interval = Duration::from_secs(3600);
        for _ in 0..3 {
            assert!(pool.get().is_none() && !pool.retry_in().unwrap().is_zero());
            assert_eq!(attempts.load(Ordering::Relaxed), 1);
        }
        assert!(pool.take_refusal().unwrap().to_string().ends_with("no more threads"));
        pool.retry_interval = Duration::ZERO;
        *lock(&pool.refused) = Some(Limit::new(Duration::ZERO));
        assert!(pool.get().is_none() && pool.retry_in() == Some(Duration::ZERO));
        assert!(pool.take_refusal().is_none(), "it was told once");
        assert!(pool.get().is_some() && pool.retry_in().is_none());
        assert!(pool.get().is_some() && pool.started().is_some());
        assert_eq!(attempts.load(Ordering::Relaxed), 3);
    }
}
