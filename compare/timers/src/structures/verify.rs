//! Checks whether every timer fires at its tick: random operations on a structure, and on a model beside it.
//!
//! Ground rules:
//!
//! - An advance from tick `a` to tick `b` has to fire exactly the timers that are due after `a` and up to
//!   `b`. A timer that fires in an earlier advance is early, one that fires in a later advance is late, and
//!   one that never fires is lost.
//! - The structure is used only as its documentation allows: every deadline is in the future when it is
//!   given, and a key is used for no timer but its own.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;

use super::timers::{Due, Timers};

const OPERATIONS: usize = 400_000;

/// "exact", or what is wrong with a structure.
pub(crate) fn verify<T: Timers>() -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::<T>::new();
        for _ in 0..OPERATIONS {
            run.step();
        }
        run.finish();
        run.faults.to_string()
    }));
    outcome.unwrap_or_else(|_| "panics".to_owned())
}

struct Timer<K> {
    deadline: u64,
    key: K,
    /// Its place in the list of pending timers, while it is one of them.
    pending: Option<usize>,
}

struct Run<T: Timers> {
    timers: T,
    /// Every timer that was ever inserted; its number is its value.
    all: Vec<Timer<T::Key>>,
    pending: Vec<usize>,
    /// The model: the timers that are to fire, the earliest first.
    expected: BTreeSet<(u64, usize)>,
    now: u64,
    random: Rng,
    due: Vec<T::Due>,
    faults: Faults,
}

impl<T: Timers> Run<T> {
    fn new() -> Run<T> {
        Run {
            timers: T::new(),
            all: Vec::new(),
            pending: Vec::new(),
            expected: BTreeSet::new(),
            now: 0,
            random: Rng::with_seed(7),
            due: Vec::new(),
            faults: Faults::default(),
        }
    }

    fn step(&mut self) {
        match self.random.u64(..100) {
            0..40 => self.insert(),
            40..58 => self.cancel(),
            58..70 => self.reset(),
            _ => self.advance(),
        }
    }

    /// Mostly tick by tick, because only there a timer that is one tick early can be noticed.
    fn advance(&mut self) {
        match self.random.u64(..1000) {
            0..980 => {
                for _ in 0..self.random.u64(1..=20) {
                    self.advance_by(1);
                }
            }
            980..998 => {
                let ticks = self.random.u64(1..=1000);
                self.advance_by(ticks);
            }
            _ => {
                let ticks = self.random.u64(1..=100_000);
                self.advance_by(ticks);
            }
        }
    }

    /// Near, far, and at the sizes of rings, where one level hands over to the next.
    fn deadline(&mut self) -> u64 {
        let random = &mut self.random;
        let ahead = match random.u64(..20) {
            0..5 => random.u64(1..=300),
            5..14 => random.u64(1..=60_000),
            14..16 => [64, 256, 512, 3600, 4096, 16_384, 65_536][random.usize(..7)],
            16 => 256 * random.u64(1..=300),
            17 => 256 - self.now % 256 + 256 * random.u64(..300),
            18 => random.u64(1..=3_600_000),
            _ => random.u64(1..=100_000_000),
        };
        self.now + ahead
    }

    fn insert(&mut self) {
        let deadline = self.deadline();
        let number = self.all.len();
        let key = self.timers.insert(deadline, number as u64);
        self.all.push(Timer { deadline, key, pending: Some(self.pending.len()) });
        self.pending.push(number);
        self.expected.insert((deadline, number));
    }

    /// A random timer that is pending.
    fn pick(&mut self) -> Option<usize> {
        let count = self.pending.len() as u64;
        (count > 0).then(|| self.pending[self.random.u64(..count) as usize])
    }

    fn cancel(&mut self) {
        let Some(number) = self.pick() else { return };
        if !self.timers.cancel(&mut self.all[number].key) {
            self.faults.refused += 1;
        }
        self.end(number);
    }

    fn reset(&mut self) {
        let Some(number) = self.pick() else { return };
        let deadline = self.deadline();
        let timer = &mut self.all[number];
        self.expected.remove(&(timer.deadline, number));
        self.expected.insert((deadline, number));
        timer.deadline = deadline;
        if !self.timers.reset(&mut timer.key, deadline, number as u64) {
            self.faults.refused += 1;
        }
    }

    fn advance_by(&mut self, ticks: u64) {
        let from = self.now;
        self.now += ticks;
        self.timers.advance(self.now, &mut self.due);
        let mut last = 0;
        for due in std::mem::take(&mut self.due) {
            let number = due.value() as usize;
            let timer = &mut self.all[number];
            if timer.pending.is_none() {
                self.faults.again += 1;
                continue;
            }
            self.timers.retire(&mut timer.key);
            let deadline = timer.deadline;
            self.faults.early = self.faults.early.max(deadline.saturating_sub(self.now));
            self.faults.late = self.faults.late.max((from + 1).saturating_sub(deadline));
            self.faults.disorder += u64::from(T::ORDERED && deadline < last);
            last = deadline;
            self.end(number);
        }
        // The timers that are left in the model have come due and did not fire.
        while self.expected.first().is_some_and(|(deadline, _)| *deadline <= self.now) {
            self.expected.pop_first();
            self.faults.overdue += 1;
        }
    }

    fn end(&mut self, number: usize) {
        let Some(place) = self.all[number].pending.take() else { return };
        self.expected.remove(&(self.all[number].deadline, number));
        self.pending.swap_remove(place);
        if let Some(&moved) = self.pending.get(place) {
            self.all[moved].pending = Some(place);
        }
    }

    /// Goes past every deadline, and then on for a while, for timers that come late.
    fn finish(&mut self) {
        self.advance_by(100_000_000);
        self.advance_by(1_000_000);
        self.faults.lost = self.pending.len() as u64;
    }
}

#[derive(Default)]
struct Faults {
    /// The most ticks by which a timer was early, and late.
    early: u64,
    late: u64,
    /// Timers that did not fire when they were due.
    overdue: u64,
    /// Timers that never fired.
    lost: u64,
    /// Fired after they had fired or were cancelled.
    again: u64,
    /// Cancels and resets of pending timers that were refused.
    refused: u64,
    /// Fired after a later one, where the order is promised.
    disorder: u64,
}

impl std::fmt::Display for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let faults = [
            (self.early, "ticks early"),
            (self.late, "ticks late"),
            (self.overdue, "not fired when due"),
            (self.lost, "lost"),
            (self.again, "fired again"),
            (self.refused, "not found though pending"),
            (self.disorder, "out of order"),
        ];
        let found = faults.iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = found.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&if texts.is_empty() { "exact".to_owned() } else { texts.join("; ") })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::verify;
    use crate::structures::timers::Timers;

    /// The faults of a structure.
    const NOTHING: u8 = 0;
    const EARLY: u8 = 1;
    const LATE: u8 = 2;
    const LOSES: u8 = 3;
    const CANCELS_NOTHING: u8 = 4;
    const BACKWARDS: u8 = 5;

    #[derive(Default)]
    struct Faulty<const FAULT: u8> {
        timers: BTreeMap<(u64, u64), u64>,
        inserted: u64,
    }

    impl<const FAULT: u8> Timers for Faulty<FAULT> {
        const NAME: &'static str = "faulty";
        const EXACT_CANCEL: bool = true;
        const ORDERED: bool = true;

        type Key = (u64, u64);
        type Due = u64;

        fn new() -> Self {
            Faulty::default()
        }

        fn insert(&mut self, deadline: u64, value: u64) -> (u64, u64) {
            self.inserted += 1;
            // One of a thousand is wrong.
            let wrong = self.inserted.is_multiple_of(1000);
            let key = match FAULT {
                EARLY if wrong => (deadline - 1, self.inserted),
                LATE if wrong => (deadline + 2, self.inserted),
                LOSES if wrong => (u64::MAX, self.inserted),
                _ => (deadline, self.inserted),
            };
            self.timers.insert(key, value);
            key
        }

        fn cancel(&mut self, key: &mut (u64, u64)) -> bool {
            if FAULT == CANCELS_NOTHING && self.inserted.is_multiple_of(1000) {
                return self.timers.contains_key(key);
            }
            self.timers.remove(key).is_some()
        }

        fn advance(&mut self, to: u64, due: &mut Vec<u64>) {
            let later = self.timers.split_off(&(to + 1, 0));
            let fired = std::mem::replace(&mut self.timers, later).into_values();
            if FAULT == BACKWARDS { due.extend(fired.rev()) } else { due.extend(fired) }
        }
    }

    #[test]
    fn every_kind_of_fault_is_found() {
        let found = [
            (verify::<Faulty<NOTHING>>(), "exact"),
            (verify::<Faulty<EARLY>>(), "1 ticks early"),
            (verify::<Faulty<LATE>>(), "2 ticks late"),
            (verify::<Faulty<LOSES>>(), "not fired when due"),
            (verify::<Faulty<CANCELS_NOTHING>>(), "fired again"),
            (verify::<Faulty<BACKWARDS>>(), "out of order"),
        ];
        for (outcome, expected) in found {
            assert!(outcome.contains(expected), "{outcome:?} is not {expected:?}");
        }
    }
}
