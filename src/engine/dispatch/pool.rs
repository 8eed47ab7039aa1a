//! Runs due jobs on a rayon pool. They cross a channel to *drainers*, at most one for each thread
//! of the pool, each of which takes the next job when it is free: a job that blocks holds up its own
//! thread and no other job.
//!
//! Ground rules:
//!
//! - **No job is left in the queue without a drainer.** The ticker sends, then takes places for new
//!   drainers as far as there are any. A drainer that finds the queue empty gives its place back,
//!   *then* looks at the queue once more, and takes a place again if something came. Of a send and a
//!   leave that cross, one sees the other (sequentially consistent fences on both sides).
//! - **A drainer gives the pool back now and then**, because others may share it, and because a job that
//!   waits in rayon runs whatever it finds meanwhile, a drainer too. After [`JOBS_PER_STINT`] jobs it lets the pool
//!   run one piece of something else (`yield_now`: what a worker spawns comes before what others wait
//!   for), then spawns its successor, which has its place, and returns.
//! - **A drainer is on duty from the moment it may take a job until it can take none.** Stopping
//!   forbids new ones and waits for those on duty, except for the ones below it on its own stack: a
//!   job may shut its own wheel down.
//! - Nothing unwinds into rayon, which would abort the process: jobs run behind the fence.
//! - The pool belongs to the ticker, not to the drainers: a drainer never drops a pool.

use core::cell::RefCell;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rayon::ThreadPool;

use super::{DueJob, Ledger, Outlet};
use crate::host::clock::Clock;
use crate::host::sync::{
    AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, Parker, fence, lock, wait,
};
use crate::values::job::Job;
use crate::values::time::Moment;

/// How many jobs a drainer runs before it lets the pool run something else.
const JOBS_PER_STINT: usize = 64;

/// A job in the queue, and when it came there.
struct Queued {
    due: DueJob,
    handed_over: Moment,
}

/// The way to the pool: what the ticker holds.
pub(crate) struct PoolOutlet {
    threads: Arc<ThreadPool>,
    shared: Arc<PoolShared>,
}

impl PoolOutlet {
    pub(crate) fn new(threads: Arc<ThreadPool>, shared: Arc<PoolShared>) -> PoolOutlet {
        PoolOutlet { threads, shared }
    }
}

impl Outlet for PoolOutlet {
    fn room(&self) -> usize {
        self.shared.room()
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        let now = self.shared.clock.now();
        let count = jobs.len();
        for due in jobs.drain(..) {
            self.shared.send(due, now);
        }
        // More drainers than jobs would find nothing to do.
        for _ in 0..count {
            if !self.shared.enlist() {
                break;
            }
            let shared = Arc::clone(&self.shared);
            self.threads.spawn(move || shared.drain());
        }
    }
}

/// What drainers and the wheel share.
pub(crate) struct PoolShared {
    sender: Sender<Queued>,
    queue: Receiver<Queued>,
    permits: DrainerPermits,
    active: ActiveDrainers,
    ledger: Arc<Ledger>,
    clock: Arc<Clock>,
    max_in_flight: usize,
    room_wanted: AtomicBool,
    parker: Arc<Parker>,
}

impl PoolShared {
    /// A shared of at most `places` drainers. Wakes `parker` when room is wanted and has come.
    pub(crate) fn new(
        max_drainers: usize,
        max_in_flight: usize,
        ledger: Arc<Ledger>,
        clock: Arc<Clock>,
        parker: Arc<Parker>,
    ) -> PoolShared {
        let (sender, queue) = unbounded();
        let room_wanted = AtomicBool::new(false);
        let (permits, active) = (DrainerPermits::new(max_drainers), ActiveDrainers::new());
        PoolShared {
            sender,
            queue,
            permits,
            active,
            ledger,
            clock,
            max_in_flight,
            room_wanted,
            parker,
        }
    }

    /// Puts a job into the queue. A drainer has to be enlisted after that.
    pub(crate) fn send(&self, due: DueJob, now: Moment) {
        self.ledger.hand_over(due.deadline, now);
        let queued = Queued { due, handed_over: now };
        self.sender.send(queued).expect("the shared holds a receiver");
    }

    /// Whether there is a place for another drainer, which is then taken.
    pub(crate) fn enlist(&self) -> bool {
        fence(Ordering::SeqCst);
        self.permits.try_acquire()
    }

    /// How many more jobs may be in flight. With none, the parker is woken when one has ended.
    pub(crate) fn room(&self) -> usize {
        let room = || self.max_in_flight.saturating_sub(self.ledger.in_flight());
        match room() {
            0 => {
                // Say that room is wanted, then look again: of this and the end of a job, one sees
                // the other.
                self.room_wanted.store(true, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                room()
            }
            some => some,
        }
    }

    /// Lets no drainer take another job. Does not wait.
    pub(crate) fn stop(&self) {
        self.active.close();
    }

    /// Waits for the drainers of a stopped shared to end their jobs, except for those that are below
    /// the caller on its own stack.
    pub(crate) fn wait(&self) {
        self.active.wait();
    }

    /// Takes a job that was handed over out of the queue.
    pub(crate) fn take_queued(&self) -> Option<DueJob> {
        let queued = self.queue.try_recv().ok()?;
        self.ledger.end();
        Some(queued.due)
    }

    /// What a drainer does: runs jobs until there are none, or until it is somebody else's turn. On a
    /// thread of the pool.
    pub(crate) fn drain(self: Arc<Self>) {
        while self.active.enter() {
            let end = self.run_stint();
            self.active.exit();
            match end {
                StintEnd::Stopped => return,
                StintEnd::NothingLeft => {
                    self.permits.release();
                    fence(Ordering::SeqCst);
                    if self.queue.is_empty() || !self.enlist() {
                        return;
                    }
                }
                StintEnd::Over => {
                    rayon::yield_now();
                    rayon::spawn(|| self.drain());
                    return;
                }
            }
        }
    }

    fn run_stint(&self) -> StintEnd {
        for _ in 0..JOBS_PER_STINT {
            if self.active.is_closed() {
                return StintEnd::Stopped;
            }
            let Ok(Queued { due, handed_over }) = self.queue.try_recv() else {
                return StintEnd::NothingLeft;
            };
            self.run(due.job, handed_over);
        }
        StintEnd::Over
    }

    fn run(&self, job: Job, handed_over: Moment) {
        self.ledger.run(job, handed_over, self.clock.now());
        if self.max_in_flight < usize::MAX {
            fence(Ordering::SeqCst);
            if self.room_wanted.load(Ordering::Relaxed)
                && self.room_wanted.swap(false, Ordering::Relaxed)
            {
                self.parker.wake();
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
    /// The shared was stopped.
    Stopped,
}

/// How many drainers there may be still.
struct DrainerPermits {
    free: AtomicUsize,
}

impl DrainerPermits {
    fn new(count: usize) -> DrainerPermits {
        DrainerPermits { free: AtomicUsize::new(count) }
    }

    /// Takes a place, if one is free.
    fn try_acquire(&self) -> bool {
        let less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn release(&self) {
        self.free.fetch_add(1, Ordering::SeqCst);
    }
}

/// Who may be running a job, and whether anybody may begin to.
struct ActiveDrainers {
    count: Mutex<usize>,
    changed: Condvar,
    closed: AtomicBool,
}

thread_local! {
    /// The crews that have a drainer on this thread's stack, by the address of their `ActiveDrainers`.
    static ON_THIS_STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl ActiveDrainers {
    fn new() -> ActiveDrainers {
        ActiveDrainers {
            count: Mutex::new(0),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Goes on duty, unless stopped.
    fn enter(&self) -> bool {
        let mut count = lock(&self.count);
        // Under the lock that `stop` takes: a drainer is either counted or refused.
        if self.is_closed() {
            return false;
        }
        *count += 1;
        ON_THIS_STACK.with_borrow_mut(|here| here.push(self.address()));
        true
    }

    fn exit(&self) {
        ON_THIS_STACK.with_borrow_mut(|here| here.pop());
        *lock(&self.count) -= 1;
        self.changed.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn close(&self) {
        let _on_duty = lock(&self.count);
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Waits until nobody is on duty but the drainers on this thread's stack.
    fn wait(&self) {
        let here = self.here();
        let mut count = lock(&self.count);
        while *count > here {
            count = wait(&self.changed, count);
        }
    }

    fn here(&self) -> usize {
        let count = |here: &RefCell<Vec<usize>>| {
            here.borrow().iter().filter(|&&shared| shared == self.address()).count()
        };
        // A thread that is being torn down runs no drainer.
        ON_THIS_STACK.try_with(count).unwrap_or(0)
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}
