//! `slab-wheel`: rings of `Vec`s over a slab, with its policy for milliseconds.
//!
//! Its rings reach 18 hours; what lies further waits in a tree. It moves by jumps.

use std::time::{Duration, Instant};

use slab_wheel::{Key, Millis, TimingWheel};

use crate::structures::timers::Timers;

pub(crate) struct Wheel {
    wheel: TimingWheel<u64, Millis>,
    start: Instant,
}

impl Wheel {
    fn at(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

impl Timers for Wheel {
    const NAME: &'static str = "slab-wheel";
    const EXACT_CANCEL: bool = true;
    const ORDERED: bool = true;

    type Key = Key;
    type Due = (Key, u64);

    fn new() -> Wheel {
        let start = Instant::now();
        Wheel { wheel: TimingWheel::starting_at(start), start }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        self.wheel.insert(self.at(deadline), value)
    }

    fn cancel(&mut self, key: &mut Key) -> bool {
        self.wheel.remove(*key).is_some()
    }

    fn advance(&mut self, to: u64, due: &mut Vec<(Key, u64)>) {
        self.wheel.advance_to(self.at(to));
        self.wheel.drain_expired_into(due);
    }
}
