//! The pending timers, and the random numbers for the next batch of operations on them.
//!
//! Ground rules:
//!
//! - Nothing random is drawn while the clock runs: a batch is drawn before it.
//! - Timers are picked at random. So their order is neither that of their deadlines nor that of their memory.

use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::structures::delays::Delays;
use crate::structures::timers::Timers;

/// The number of operations between two readings of the clock.
pub(super) const BATCH: usize = 4096;

/// What is to be measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How many timers are pending.
    pub(crate) size: usize,
    pub(crate) delays: Delays,
    /// The short form: hardly anything is measured, the work only has to run.
    pub(crate) short: bool,
}

impl Plan {
    /// This number of operations, or very few in the short form.
    pub(super) fn operations(&self, count: usize) -> usize {
        if self.short { count.min(2000) } else { count }
    }
}

/// The operations to come: a random timer and a random delay for each.
pub(super) struct Batch {
    pub(super) places: Vec<usize>,
    pub(super) delays: Vec<u64>,
}

pub(super) struct Population<T: Timers> {
    pub(super) timers: T,
    /// The timer whose value is `n` has its key at `n`.
    pub(super) keys: Vec<T::Key>,
    pub(super) now: u64,
    pub(super) random: Rng,
    pub(super) batch: Batch,
    plan: Plan,
}

impl<T: Timers> Population<T> {
    pub(super) fn empty(plan: Plan) -> Population<T> {
        Population {
            timers: T::new(),
            keys: Vec::with_capacity(plan.size),
            now: 0,
            random: Rng::with_seed(42),
            batch: Batch { places: Vec::with_capacity(BATCH), delays: Vec::with_capacity(BATCH) },
            plan,
        }
    }

    pub(super) fn full(plan: Plan) -> Population<T> {
        let mut population = Population::empty(plan);
        population.fill();
        population
    }

    /// Inserts timers until there are as many as planned. Returns how long the inserts took.
    pub(super) fn fill(&mut self) -> Duration {
        let mut taken = Duration::ZERO;
        while self.keys.len() < self.plan.size {
            self.draw(BATCH.min(self.plan.size - self.keys.len()));
            taken += timed(|| {
                for &delay in &self.batch.delays {
                    let value = self.keys.len() as u64;
                    self.keys.push(self.timers.insert(self.now + delay, value));
                }
            });
        }
        taken
    }

    /// Inserts as many timers as planned. `insert` gets the structure, a deadline and a value.
    pub(super) fn insert_all(&mut self, mut insert: impl FnMut(&mut T, u64, u64)) {
        let mut value = 0;
        while value < self.plan.size {
            self.draw(BATCH.min(self.plan.size - value));
            for &delay in &self.batch.delays {
                insert(&mut self.timers, self.now + delay, value as u64);
                value += 1;
            }
        }
    }

    /// Draws the next batch.
    pub(super) fn draw(&mut self, count: usize) {
        let (random, delays, last) = (&mut self.random, self.plan.delays, self.plan.size as u64);
        self.batch.places.clear();
        self.batch.places.extend((0..count).map(|_| random.u64(..last) as usize));
        self.batch.delays.clear();
        self.batch.delays.extend((0..count).map(|_| delays.draw(random)));
    }
}

/// How long `work` takes.
pub(super) fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Nanoseconds for one of `count` operations.
pub(super) fn nanos_each(taken: Duration, count: usize) -> f64 {
    taken.as_nanos() as f64 / count as f64
}
