//! The works during which the clock moves, tick by tick.

use std::time::{Duration, Instant};

use super::population::{BATCH, Plan, Population, nanos_each};
use crate::structures::delays::Delays;
use crate::structures::timers::{Due, Timers};

/// The least number of operations that are measured.
const MEASURED: usize = 1_000_000;
/// The most operations of the warm-up. A structure that has not settled by then will not settle.
const PATIENCE: usize = 4_000_000;

/// Nanoseconds a pair as in `pairs`, and how many timers fire for each: the clock moves on so that
/// the population is replaced about once while it passes the horizon of the delays. What fires is
/// inserted anew.
pub(super) fn pairs<T: Timers>(plan: Plan) -> (f64, f64) {
    // At most a tick a pair; many pairs a tick when timers are many.
    let pairs_a_tick = (plan.size as f64 / Delays::HORIZON as f64).max(1.0);
    let mut exchange = Exchange {
        population: Population::<T>::full(plan),
        due: Vec::new(),
        pairs_a_tick,
        credit: 0.0,
        fired: 0,
    };
    // Two horizons: what a cancel leaves behind has come due by then.
    let settled = (2.0 * Delays::HORIZON as f64 * pairs_a_tick) as usize;
    exchange.run(plan.operations(settled.min(PATIENCE)));
    exchange.fired = 0;
    let count = plan.operations(MEASURED);
    let taken = exchange.run(count);
    (nanos_each(taken, count), exchange.fired as f64 / count as f64)
}

struct Exchange<T: Timers> {
    population: Population<T>,
    due: Vec<T::Due>,
    pairs_a_tick: f64,
    /// Pairs that have been done since the last tick.
    credit: f64,
    fired: usize,
}

impl<T: Timers> Exchange<T> {
    fn run(&mut self, count: usize) -> Duration {
        let (mut taken, mut cancelled, mut left) = (Duration::ZERO, 0, count);
        while left > 0 {
            // The delays of those that fire are drawn ahead too; a few more than can be expected.
            self.population.draw(2 * BATCH);
            let pairs = BATCH.min(left);
            left -= pairs;
            let Population { timers, keys, now, batch, .. } = &mut self.population;
            let (delays, again) = batch.delays.split_at(BATCH);
            let mut again = again.iter().cycle();
            let start = Instant::now();
            for (&place, &delay) in batch.places[..pairs].iter().zip(delays) {
                let key = &mut keys[place];
                cancelled += usize::from(timers.cancel(key));
                *key = timers.insert(*now + delay, place as u64);
                self.credit += 1.0;
                if self.credit < self.pairs_a_tick {
                    continue;
                }
                self.credit -= self.pairs_a_tick;
                *now += 1;
                timers.advance(*now, &mut self.due);
                self.fired += self.due.len();
                for due in self.due.drain(..) {
                    let value = due.value();
                    let key = &mut keys[value as usize];
                    timers.retire(key);
                    *key = timers.insert(*now + again.next().unwrap_or(&1), value);
                }
            }
            taken += start.elapsed();
        }
        assert_eq!(cancelled, count, "a pending timer was not there to cancel");
        taken
    }
}

/// Nanoseconds for a timer that fires and is inserted anew. There are no cancels, so no key is kept.
pub(super) fn refire<T: Timers>(plan: Plan) -> f64 {
    let mut refire = Refire::<T>::new(plan);
    let warm = Limits {
        fires: plan.operations(2_000_000),
        ticks: Delays::HORIZON,
        time: Duration::from_secs(5),
    };
    refire.run(&warm);
    // Delays of days leave ticks by the million with next to nothing due.
    let measured = Limits {
        fires: plan.operations(MEASURED.max(plan.size)),
        ticks: if plan.delays == Delays::Long { 1_000_000 } else { u64::MAX },
        time: Duration::from_secs(5),
    };
    let (taken, fired) = refire.run(&measured);
    nanos_each(taken, fired.max(1))
}

/// The limits of a run. It stops at the first that is reached.
struct Limits {
    fires: usize,
    ticks: u64,
    time: Duration,
}

struct Refire<T: Timers> {
    population: Population<T>,
    due: Vec<T::Due>,
}

impl<T: Timers> Refire<T> {
    fn new(plan: Plan) -> Refire<T> {
        let mut population = Population::<T>::empty(plan);
        population.insert_all(|timers, deadline, value| timers.insert_forgotten(deadline, value));
        Refire { population, due: Vec::new() }
    }

    /// The time taken, and how many fired.
    fn run(&mut self, limits: &Limits) -> (Duration, usize) {
        let (mut taken, mut fired) = (Duration::ZERO, 0);
        let mut ticks = 0;
        while fired < limits.fires && ticks < limits.ticks && taken < limits.time {
            self.population.draw(BATCH);
            let Population { timers, now, batch, .. } = &mut self.population;
            let mut used = 0;
            let first = *now;
            let start = Instant::now();
            // Goes on until half of the delays are used. One more tick will hardly need the other
            // half; if it does, the delays are used from the beginning again.
            while used < BATCH / 2 && *now - first < BATCH as u64 {
                *now += 1;
                timers.advance(*now, &mut self.due);
                for due in self.due.drain(..) {
                    let delay = batch.delays[used % BATCH];
                    used += 1;
                    timers.insert_forgotten(*now + delay, due.value());
                }
            }
            taken += start.elapsed();
            fired += used;
            ticks += *now - first;
        }
        (taken, fired)
    }
}
