//! `tm-wheel`: rings of linked lists over a slab.
//!
//! With 4 rings of 256 slots it holds delays up to 2^32 ticks, more than any work here has. It
//! moves by jumps, and its documentation says that timers do not fire in the order of deadlines.

use tm_wheel::{TimerDriver, TimerHandle};

use crate::structures::timers::Timers;

pub(crate) type Wheel = TimerDriver<u64, 4, 256>;

impl Timers for Wheel {
    const NAME: &'static str = "tm-wheel";
    const EXACT_CANCEL: bool = true;
    const ORDERED: bool = false;

    /// A handle is used up by a cancel.
    type Key = Option<TimerHandle>;
    type Due = u64;

    fn new() -> Wheel {
        Wheel::default()
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Option<TimerHandle> {
        Some(Wheel::insert(self, value, deadline))
    }

    fn cancel(&mut self, key: &mut Option<TimerHandle>) -> bool {
        key.take().is_some_and(|handle| self.remove(handle).is_some())
    }

    fn advance(&mut self, to: u64, due: &mut Vec<u64>) {
        due.extend(self.advance_to(to));
    }
}
