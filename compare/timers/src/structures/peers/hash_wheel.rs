//! `hierarchical_hash_wheel_timer`: its wheel with cancellation, four rings of 256 `Vec`s and a hash
//! map of what is pending.
//!
//! Two references lead to a timer: a strong one in the map, and a weak one in a slot. A cancel
//! takes out the one in the map. The one in the slot, and the allocation, stay until the cursor
//! comes by. The wheel moves tick by tick, and says how many ticks may be skipped.

use std::rc::Rc;
use std::time::Duration;

use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{
    CancellableTimerEntry, QuadWheelWithOverflow,
};

use crate::structures::timers::{Due, Timers};

/// The caller makes up the number.
#[derive(Debug)]
pub(crate) struct Entry {
    number: u64,
    value: u64,
}

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.number
    }
}

impl Due for Rc<Entry> {
    fn value(&self) -> u64 {
        self.value
    }
}

pub(crate) struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    now: u64,
    inserted: u64,
}

impl Timers for HashWheel {
    const NAME: &'static str = "hierarchical_hash_wheel_timer";
    const EXACT_CANCEL: bool = false;
    const ORDERED: bool = true;

    type Key = u64;
    type Due = Rc<Entry>;

    fn new() -> HashWheel {
        HashWheel { wheel: QuadWheelWithOverflow::new(), now: 0, inserted: 0 }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> u64 {
        self.inserted += 1;
        let entry = Rc::new(Entry { number: self.inserted, value });
        let delay = Duration::from_millis(deadline - self.now);
        let inserted = self.wheel.insert_ref_with_delay(entry, delay);
        inserted.expect("a deadline that is still to come");
        self.inserted
    }

    fn cancel(&mut self, key: &mut u64) -> bool {
        self.wheel.cancel(key).is_ok()
    }

    fn advance(&mut self, to: u64, due: &mut Vec<Rc<Entry>>) {
        while self.now < to {
            let left = to - self.now;
            let skipped = match self.wheel.can_skip() {
                Skip::None => 0,
                Skip::Millis(free) => u64::from(free).min(left),
                Skip::Empty => left.min(u64::from(u32::MAX)),
            };
            if skipped > 0 {
                self.wheel.skip(skipped as u32);
                self.now += skipped;
            } else {
                due.extend(self.wheel.tick());
                self.now += 1;
            }
        }
    }
}
