//! One ring of 3600 slots with a cycle count on every entry: the classic hashed wheel, with a `Vec`
//! for a slot.
//!
//! The key has the slot, and a cancel searches that slot for the number of the timer. That does not
//! take constant time: a slot holds a 3600th of all timers.

use crate::structures::timers::Timers;

const SLOTS: u64 = 3600;

struct Entry {
    number: u64,
    value: u64,
    /// How many times the cursor passes before the entry is due.
    cycles: u64,
}

pub(crate) struct Key {
    slot: usize,
    number: u64,
}

pub(crate) struct Ring {
    slots: Vec<Vec<Entry>>,
    now: u64,
    inserted: u64,
}

impl Timers for Ring {
    const NAME: &'static str = "ring of 3600";
    const EXACT_CANCEL: bool = false;
    const ORDERED: bool = true;

    type Key = Key;
    type Due = u64;

    fn new() -> Ring {
        Ring { slots: (0..SLOTS).map(|_| Vec::new()).collect(), now: 0, inserted: 0 }
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        self.inserted += 1;
        let slot = (deadline % SLOTS) as usize;
        let cycles = (deadline - self.now - 1) / SLOTS;
        self.slots[slot].push(Entry { number: self.inserted, value, cycles });
        Key { slot, number: self.inserted }
    }

    fn cancel(&mut self, key: &mut Key) -> bool {
        let slot = &mut self.slots[key.slot];
        let found = slot.iter().position(|entry| entry.number == key.number);
        if let Some(position) = found {
            slot.swap_remove(position);
        }
        found.is_some()
    }

    /// It goes tick by tick, also over ticks without work, because the count of every passed entry goes down.
    fn advance(&mut self, to: u64, due: &mut Vec<u64>) {
        while self.now < to {
            self.now += 1;
            let slot = &mut self.slots[(self.now % SLOTS) as usize];
            let mut position = 0;
            while position < slot.len() {
                if slot[position].cycles == 0 {
                    due.push(slot.swap_remove(position).value);
                } else {
                    slot[position].cycles -= 1;
                    position += 1;
                }
            }
        }
    }
}
