//! The thread timer of `hierarchical_hash_wheel_timer`: one thread owns the wheel, receives
//! messages and runs the closures. A cancel does not return whether it was in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{
    ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer as _,
};

use crate::threads::timer::{Timer, capture, wait_for, whole_millis_until};

type Once = OneShotClosureState<u64>;
type Periodic = PeriodicClosureState<u64>;

/// Its thread panics unless it is stopped before it is dropped.
struct Owner {
    timer: TimerWithThread<u64, Once, Periodic>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The queue of messages has no bound, so the message cannot be refused.
        let _ = self.timer.shutdown_async();
    }
}

pub(in crate::threads) struct HashWheel {
    owner: Arc<Owner>,
    door: TimerRef<u64, Once, Periodic>,
    /// The user chooses the names of timers, which must be unique. So each clone has a range of its own.
    next: u64,
}

impl HashWheel {
    fn new(owner: Arc<Owner>) -> HashWheel {
        static CLONES: AtomicU64 = AtomicU64::new(0);
        let door = owner.timer.timer_ref();
        HashWheel { owner, door, next: CLONES.fetch_add(1, Ordering::Relaxed) << 40 }
    }

    fn schedule(&mut self, delay: Duration, job: impl FnOnce() + Send + 'static) -> u64 {
        self.next += 1;
        self.door.schedule_action_once(self.next, delay, |_| job());
        self.next
    }
}

impl Clone for HashWheel {
    fn clone(&self) -> HashWheel {
        HashWheel::new(Arc::clone(&self.owner))
    }
}

impl Timer for HashWheel {
    const NAME: &'static str = "hierarchical_hash_wheel_timer";
    type Job = u64;
    type Timeout = u64;

    fn start() -> HashWheel {
        let timer = TimerWithThread::new().expect("the thread starts");
        HashWheel::new(Arc::new(Owner { timer }))
    }

    fn insert_at(&mut self, at: Instant, job: impl FnOnce() + Send + 'static) -> u64 {
        self.schedule(whole_millis_until(at), job)
    }

    fn cancel_job(&mut self, job: u64) -> bool {
        self.door.cancel(&job);
        true
    }

    fn timeout(&mut self, delay: Duration, number: u64) -> u64 {
        self.schedule(delay, capture(number))
    }

    fn cancel(&mut self, timeout: u64) -> bool {
        self.cancel_job(timeout)
    }

    /// Producers send messages into a queue without bounds. They are worked off in order, and a job
    /// without a delay runs where its message is read.
    fn settle(&mut self) {
        wait_for(|call| {
            self.schedule(Duration::ZERO, call);
        });
    }
}
