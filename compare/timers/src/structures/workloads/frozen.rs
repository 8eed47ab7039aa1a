//! The works during which the clock stands still: insert, cancel, reset.

use std::mem;
use std::time::Duration;

use super::population::{BATCH, Plan, Population, nanos_each, timed};
use crate::structures::timers::Timers;

/// The least number of operations that are measured.
const MEASURED: usize = 1_000_000;

/// Nanoseconds an insert, from nothing to the size of the plan.
///
/// The first filling is not measured: it maps the memory of the keys, which is the caller's.
pub(super) fn insert<T: Timers>(plan: Plan) -> f64 {
    // A thousand inserts are over too soon for one reading of the clock.
    let repeats = if plan.short { 1 } else { (100_000 / plan.size).max(1) };
    let (mut taken, mut keys) = (Duration::ZERO, Vec::new());
    for round in 0..=repeats {
        let mut population = Population::<T>::empty(plan);
        if round > 0 {
            population.keys = keys;
        }
        let filling = population.fill();
        if round > 0 {
            taken += filling;
        }
        keys = mem::take(&mut population.keys);
        drop(population);
        keys.clear();
    }
    nanos_each(taken, repeats * plan.size)
}

/// Nanoseconds a pair: cancel a random timer, insert another.
pub(super) fn pairs<T: Timers>(plan: Plan) -> f64 {
    let mut population = Population::<T>::full(plan);
    exchange(&mut population, plan.operations(plan.size.min(MEASURED)));
    let count = plan.operations(MEASURED);
    nanos_each(exchange(&mut population, count), count)
}

fn exchange<T: Timers>(population: &mut Population<T>, count: usize) -> Duration {
    let (mut taken, mut cancelled, mut left) = (Duration::ZERO, 0, count);
    while left > 0 {
        population.draw(BATCH.min(left));
        left -= population.batch.places.len();
        let Population { timers, keys, now, batch, .. } = population;
        taken += timed(|| {
            for (&place, &delay) in batch.places.iter().zip(&batch.delays) {
                let key = &mut keys[place];
                cancelled += usize::from(timers.cancel(key));
                *key = timers.insert(*now + delay, place as u64);
            }
        });
    }
    assert_eq!(cancelled, count, "a pending timer was not there to cancel");
    taken
}

/// Nanoseconds a reset to a later deadline.
pub(super) fn reset<T: Timers>(plan: Plan) -> f64 {
    /// How far a deadline is pushed back.
    const PUSH: u64 = 30_000;
    /// How often a timer is reset, on average, before all timers are replaced by new ones.
    /// Otherwise the deadlines would become longer than those that a structure is made for.
    const TIMES: usize = 4;
    let (mut taken, mut done, mut found) = (Duration::ZERO, 0, 0);
    let count = plan.operations(MEASURED);
    while done < count {
        let mut population = Population::<T>::empty(plan);
        let mut deadlines = Vec::with_capacity(plan.size);
        let mut keys = mem::take(&mut population.keys);
        population.insert_all(|timers, deadline, value| {
            keys.push(timers.insert(deadline, value));
            deadlines.push(deadline);
        });
        population.keys = keys;
        let mut left = (TIMES * plan.size).min(count - done);
        done += left;
        while left > 0 {
            population.draw(BATCH.min(left));
            left -= population.batch.places.len();
            let Population { timers, keys, batch, .. } = &mut population;
            for (&place, delay) in batch.places.iter().zip(&mut batch.delays) {
                // A little more or less each time, so that not all move by the same.
                deadlines[place] += PUSH + *delay % 1024;
                *delay = deadlines[place];
            }
            taken += timed(|| {
                for (&place, &deadline) in batch.places.iter().zip(&batch.delays) {
                    found += usize::from(timers.reset(&mut keys[place], deadline, place as u64));
                }
            });
        }
    }
    assert_eq!(found, count, "a pending timer was not there to reset");
    nanos_each(taken, count)
}
