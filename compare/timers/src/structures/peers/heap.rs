//! A `BinaryHeap` of deadlines and a slab of timers with generations: what most programs write first.
//!
//! Ground rules:
//!
//! - A cancel is lazy: it frees the place in the slab, and leaves the entry in the heap until its
//!   deadline comes. An entry whose generation is not that of its place is garbage.
//! - A reset to a later deadline is lazy too: the entry comes out of the heap too early, and goes back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::structures::timers::Timers;

/// The entry of a timer in the heap; the first field decides the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    deadline: u64,
    place: u32,
    generation: u32,
}

struct Place {
    /// The deadline of the last insert or reset.
    deadline: u64,
    value: u64,
    /// Goes up when the timer in this place ends or gets another entry.
    generation: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Key {
    place: u32,
    generation: u32,
}

#[derive(Default)]
pub(crate) struct Heap {
    entries: BinaryHeap<Reverse<Entry>>,
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Heap {
    /// The place of a timer that is pending.
    fn find(&mut self, key: Key) -> Option<&mut Place> {
        let place = &mut self.places[key.place as usize];
        (place.generation == key.generation).then_some(place)
    }

    /// Ends the timer at a place.
    fn release(&mut self, place: u32) {
        self.places[place as usize].generation += 1;
        self.free.push(place);
    }
}

impl Timers for Heap {
    const NAME: &'static str = "BinaryHeap";
    const EXACT_CANCEL: bool = false;
    const ORDERED: bool = true;

    type Key = Key;
    type Due = u64;

    fn new() -> Heap {
        Heap::default()
    }

    fn insert(&mut self, deadline: u64, value: u64) -> Key {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push(Place { deadline, value, generation: 0 });
                self.places.len() as u32 - 1
            }
        };
        let taken = &mut self.places[place as usize];
        (taken.deadline, taken.value) = (deadline, value);
        let generation = taken.generation;
        self.entries.push(Reverse(Entry { deadline, place, generation }));
        Key { place, generation }
    }

    fn cancel(&mut self, key: &mut Key) -> bool {
        let pending = self.find(*key).is_some();
        if pending {
            self.release(key.place);
        }
        pending
    }

    fn reset(&mut self, key: &mut Key, deadline: u64, _value: u64) -> bool {
        let Some(place) = self.find(*key) else {
            return false;
        };
        let postponed = deadline >= place.deadline;
        place.deadline = deadline;
        if !postponed {
            place.generation += 1;
            key.generation = place.generation;
            self.entries.push(Reverse(Entry {
                deadline,
                place: key.place,
                generation: key.generation,
            }));
        }
        true
    }

    fn advance(&mut self, to: u64, due: &mut Vec<u64>) {
        while let Some(&Reverse(entry)) = self.entries.peek() {
            if entry.deadline > to {
                break;
            }
            self.entries.pop();
            let place = &self.places[entry.place as usize];
            if place.generation != entry.generation {
                continue;
            }
            if place.deadline > entry.deadline {
                self.entries.push(Reverse(Entry { deadline: place.deadline, ..entry }));
                continue;
            }
            due.push(place.value);
            self.release(entry.place);
        }
    }
}
