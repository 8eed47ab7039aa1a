//! A `BTreeMap` whose keys are deadlines, made unique by a number. It is exact, and has no slots
//! whose number one has to choose.

use std::collections::BTreeMap;

use crate::structures::timers::Timers;

#[derive(Default)]
pub(crate) struct Tree {
    timers: BTreeMap<(u64, u64), u64>,
    inserted: u64,
}

impl Timers for Tree {
    const NAME: &'static str = "BTreeMap";
    const EXACT_CANCEL: bool = true;
    const ORDERED: bool = true;

    type Key = (u64, u64);
    type Due = u64;

    fn new() -> Tree {
        Tree::default()
    }

    fn insert(&mut self, deadline: u64, value: u64) -> (u64, u64) {
        self.inserted += 1;
        let key = (deadline, self.inserted);
        self.timers.insert(key, value);
        key
    }

    fn cancel(&mut self, key: &mut (u64, u64)) -> bool {
        self.timers.remove(key).is_some()
    }

    /// This looks at the earliest entry first, because most ticks have nothing due.
    fn advance(&mut self, to: u64, due: &mut Vec<u64>) {
        while let Some(earliest) = self.timers.first_entry() {
            if earliest.key().0 > to {
                break;
            }
            due.push(earliest.remove());
        }
    }
}
