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
//!   waits in rayon runs whatever it finds meanwhile, a drainer too. After [`STINT`] jobs it lets the pool
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

use super::{Due, Ledger, Outlet};
use crate::host::clock::Clock;
use crate::host::sync::{
    AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, Parker, fence, lock, wait,
};
use crate::values::job::Job;
use crate::values::time::Moment;

/// How many jobs a drainer runs before it lets the pool run something else.
const STINT: usize = 64;

/// A job in the queue, and when it came there.
struct Queued {
    due: Due,
    handed_over: Moment,
}

/// The way to the pool: what the ticker holds.
pub(crate) struct Pool {
    threads: Arc<ThreadPool>,
    crew: Arc<Crew>,
}

impl Pool {
    pub(crate) fn new(threads: Arc<ThreadPool>, crew: Arc<Crew>) -> Pool {
        Pool { threads, crew }
    }
}

impl Outlet for Pool {
    fn room(&self) -> usize {
        self.crew.room()
    }

    fn hand_over(&self, jobs: &mut Vec<Due>) {
        let now = self.crew.clock.now();
        let count = jobs.len();
        for due in jobs.drain(..) {
            self.crew.send(due, now);
        }
        // More drainers than jobs would find nothing to do.
        for _ in 0..count {
            if !self.crew.enlist() {
                break;
            }
            let crew = Arc::clone(&self.crew);
            self.threads.spawn(move || crew.drain());
        }
    }
}

/// What drainers and the wheel share.
pub(crate) struct Crew {
    sender: Sender<Queued>,
    queue: Receiver<Queued>,
    places: Places,
    duty: Duty,
    ledger: Arc<Ledger>,
    clock: Arc<Clock>,
    max_in_flight: usize,
    room_wanted: AtomicBool,
    parker: Arc<Parker>,
}

impl Crew {
    /// A crew of at most `places` drainers. Wakes `parker` when room is wanted and has come.
    pub(crate) fn new(
        places: usize,
        max_in_flight: usize,
        ledger: Arc<Ledger>,
        clock: Arc<Clock>,
        parker: Arc<Parker>,
    ) -> Crew {
        let (sender, queue) = unbounded();
        let room_wanted = AtomicBool::new(false);
        let (places, duty) = (Places::new(places), Duty::new());
        Crew { sender, queue, places, duty, ledger, clock, max_in_flight, room_wanted, parker }
    }

    /// Puts a job into the queue. A drainer has to be enlisted after that.
    pub(crate) fn send(&self, due: Due, now: Moment) {
        self.ledger.hand_over(due.due, now);
        let queued = Queued { due, handed_over: now };
        self.sender.send(queued).expect("the crew holds a receiver");
    }

    /// Whether there is a place for another drainer, which is then taken.
    pub(crate) fn enlist(&self) -> bool {
        fence(Ordering::SeqCst);
        self.places.take()
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
        self.duty.stop();
    }

    /// Waits for the drainers of a stopped crew to end their jobs, except for those that are below
    /// the caller on its own stack.
    pub(crate) fn wait(&self) {
        self.duty.wait();
    }

    /// Takes a job that was handed over out of the queue.
    pub(crate) fn take_back(&self) -> Option<Due> {
        let queued = self.queue.try_recv().ok()?;
        self.ledger.end();
        Some(queued.due)
    }

    /// What a drainer does: runs jobs until there are none, or until it is somebody else's turn. On a
    /// thread of the pool.
    pub(crate) fn drain(self: Arc<Self>) {
        while self.duty.begin() {
            let end = self.run_stint();
            self.duty.end();
            match end {
                StintEnd::Stopped => return,
                StintEnd::NothingLeft => {
                    self.places.give_back();
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
        for _ in 0..STINT {
            if self.duty.is_stopped() {
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
    /// The crew was stopped.
    Stopped,
}

/// How many drainers there may be still.
struct Places {
    free: AtomicUsize,
}

impl Places {
    fn new(count: usize) -> Places {
        Places { free: AtomicUsize::new(count) }
    }

    /// Takes a place, if one is free.
    fn take(&self) -> bool {
        let less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn give_back(&self) {
        self.free.fetch_add(1, Ordering::SeqCst);
    }
}

/// Who may be running a job, and whether anybody may begin to.
struct Duty {
    on_duty: Mutex<usize>,
    off_duty: Condvar,
    stopped: AtomicBool,
}

thread_local! {
    /// The crews that have a drainer on this thread's stack, by the address of their `Duty`.
    static HERE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl Duty {
    fn new() -> Duty {
        Duty { on_duty: Mutex::new(0), off_duty: Condvar::new(), stopped: AtomicBool::new(false) }
    }

    /// Goes on duty, unless stopped.
    fn begin(&self) -> bool {
        let mut on_duty = lock(&self.on_duty);
        // Under the lock that `stop` takes: a drainer is either counted or refused.
        if self.is_stopped() {
            return false;
        }
        *on_duty += 1;
        HERE.with_borrow_mut(|here| here.push(self.address()));
        true
    }

    fn end(&self) {
        HERE.with_borrow_mut(|here| here.pop());
        *lock(&self.on_duty) -= 1;
        self.off_duty.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn stop(&self) {
        let _on_duty = lock(&self.on_duty);
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Waits until nobody is on duty but the drainers on this thread's stack.
    fn wait(&self) {
        let here = self.here();
        let mut on_duty = lock(&self.on_duty);
        while *on_duty > here {
            on_duty = wait(&self.off_duty, on_duty);
        }
    }

    fn here(&self) -> usize {
        let count = |here: &RefCell<Vec<usize>>| {
            here.borrow().iter().filter(|&&crew| crew == self.address()).count()
        };
        // A thread that is being torn down runs no drainer.
        HERE.try_with(count).unwrap_or(0)
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}
