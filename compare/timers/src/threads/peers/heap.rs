//! A binary heap behind a mutex, as many programs have it, and a thread that waits on a condition
//! variable for the earliest deadline and runs the jobs that are due.
//!
//! A cancel takes the closure out of its slot and raises the slot's generation. The entry in the
//! heap stays until its time has come, and is thrown away then.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::threads::timer::{Timer, capture};

/// How many jobs are taken out under one lock.
const BATCH: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// In the order of deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Instant,
    handle: Handle,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::threads) struct Handle {
    place: u32,
    generation: u32,
}

/// A slot: empty, or full with the job of the handle that has its generation.
struct Slot {
    generation: u32,
    job: Option<Job>,
}

#[derive(Default)]
struct Queue {
    entries: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    stopped: bool,
}

impl Queue {
    /// Inserts a job. Returns its handle, and whether it is now the earliest.
    fn insert(&mut self, at: Instant, job: Job) -> (Handle, bool) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, job: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[place as usize];
        slot.job = Some(job);
        let handle = Handle { place, generation: slot.generation };
        let earliest = self.entries.peek().is_none_or(|first| at < first.0.at);
        self.entries.push(Reverse(Entry { at, handle }));
        (handle, earliest)
    }

    fn remove(&mut self, handle: Handle) -> Option<Job> {
        let slot = &mut self.slots[handle.place as usize];
        if slot.generation != handle.generation {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.place);
        slot.job.take()
    }

    /// Takes out some of the jobs that are due at `now`.
    fn take_due(&mut self, now: Instant, due: &mut Vec<Job>) {
        while due.len() < BATCH && self.entries.peek().is_some_and(|first| first.0.at <= now) {
            let handle = self.entries.pop().map(|first| first.0.handle);
            due.extend(handle.and_then(|handle| self.remove(handle)));
        }
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics under the lock")
    }

    /// The loop of the thread, until it is stopped.
    fn run(&self) {
        let mut due = Vec::with_capacity(BATCH);
        while self.wait_for_due(&mut due) {
            for job in due.drain(..) {
                // The panic hook has reported it; the thread goes on with the next.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        }
    }

    /// Waits until there is something in `due`; `false` once stopped.
    fn wait_for_due(&self, due: &mut Vec<Job>) -> bool {
        let mut queue = self.lock();
        while !queue.stopped {
            let now = Instant::now();
            queue.take_due(now, due);
            if !due.is_empty() {
                return true;
            }
            queue = match queue.entries.peek().map(|first| first.0.at) {
                None => self.changed.wait(queue).expect("nothing panics under the lock"),
                Some(at) => {
                    let wait = self.changed.wait_timeout(queue, at.saturating_duration_since(now));
                    wait.expect("nothing panics under the lock").0
                }
            };
        }
        false
    }
}

/// Stops the thread when the last clone goes.
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_one();
    }
}

#[derive(Clone)]
pub(in crate::threads) struct Heap {
    owner: Arc<Owner>,
}

impl Timer for Heap {
    const NAME: &'static str = "Mutex<BinaryHeap>";
    type Job = Handle;
    type Timeout = Handle;

    fn start() -> Heap {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || of_thread.run());
        Heap { owner: Arc::new(Owner { shared }) }
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> Handle {
        let shared = &self.owner.shared;
        let job = Box::new(job);
        let (handle, earliest) = shared.lock().insert(at, job);
        if earliest {
            shared.changed.notify_one();
        }
        handle
    }

    fn cancel_job(&mut self, job: Handle) -> bool {
        // The lock is given back before the closure is dropped.
        let removed = self.owner.shared.lock().remove(job);
        removed.is_some()
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> Handle {
        self.insert_at(Instant::now() + delay, capture(number))
    }

    fn cancel(&mut self, timeout: Handle) -> bool {
        self.cancel_job(timeout)
    }
}
