//! `nexus-timer`: rings of linked lists over a slab, with the defaults of its `Wheel`.
//!
//! Its rings reach 4.7 hours; what lies further waits in the outermost. It moves by jumps. The program
//! has to give back the handle of a timer that has fired, or its place in the slab stays taken.

use std::time::{Duration, Instant};

use nexus_timer::{TimerHandle, Wheel};

use crate::structures::timers::Timers;

/// The number of timers in one piece of its slab. For each timer that ends it searches all pieces, so
/// there should be few: with pieces of 4096, as in its examples, a million timers had hundreds of
/// them.
const CHUNK: usize = 1 << 16;

pub(crate) struct Nexus {
    wheel: Wheel<u64>,
    start: Instant,
}

impl Nexus {
    fn at(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

impl Timers for Nexus {
    const NAME: &'static str = "nexus-timer";
    const EXACT_CANCEL: bool = true;
    const ORDERED: bool = false;

    /// A handle is used up by a cancel.
    type Key = Option<TimerHandle<u64>>;
    type Due = u64;

    fn new() -> Nexus {
        let start = Instant::now();
        Nexus { wheel: Wheel::unbounded(CHUNK, start), start }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Option<TimerHandle<u64>> {
        Some(self.wheel.schedule(self.at(deadline), value))
    }

    fn insert_forgotten(&mut self, deadline: u64, value: u64) {
        self.wheel.schedule_forget(self.at(deadline), value);
    }

    fn cancel(&mut self, key: &mut Option<TimerHandle<u64>>) -> bool {
        key.take().is_some_and(|handle| self.wheel.cancel(handle).is_some())
    }

    fn reset(&mut self, key: &mut Option<TimerHandle<u64>>, deadline: u64, _value: u64) -> bool {
        let deadline = self.at(deadline);
        *key = key.take().map(|handle| self.wheel.reschedule(handle, deadline));
        key.is_some()
    }

    fn retire(&mut self, key: &mut Option<TimerHandle<u64>>) {
        if let Some(handle) = key.take() {
            self.wheel.free(handle);
        }
    }

    fn advance(&mut self, to: u64, due: &mut Vec<u64>) {
        self.wheel.poll_and_rebalance(self.at(to), due);
    }
}
