//! The works of one long advance: to fire everything, and to pass an hour with nothing due.

use std::time::{Duration, Instant};

use super::population::{Plan, Population, nanos_each, timed};
use crate::structures::delays::Delays;
use crate::structures::timers::{Due, Timers};

/// Nanoseconds a timer, when one advance fires all of them.
///
/// The work is done twice and measured the second time, because the first time maps the memory of
/// the caller's list of due timers.
pub(super) fn drain<T: Timers>(plan: Plan) -> Result<f64, String> {
    let repeats = if plan.short { 2 } else { (300_000 / plan.size).max(1) + 1 };
    let mut population = Population::<T>::empty(plan);
    let mut deadlines = Vec::with_capacity(plan.size);
    let mut due = Vec::with_capacity(plan.size);
    let mut taken = Duration::ZERO;
    for round in 0..repeats {
        deadlines.clear();
        due.clear();
        population.insert_all(|timers, deadline, value| {
            timers.insert_forgotten(deadline, value);
            deadlines.push(deadline);
        });
        population.now += Delays::HORIZON;
        let advance = timed(|| population.timers.advance(population.now, &mut due));
        if round > 0 {
            taken += advance;
        }
        check::<T>(&due, &deadlines)?;
    }
    Ok(nanos_each(taken, (repeats - 1) * plan.size))
}

/// Checks that everything has fired, and in order if the structure promises that.
fn check<T: Timers>(due: &[T::Due], deadlines: &[u64]) -> Result<(), String> {
    if due.len() != deadlines.len() {
        return Err(format!("{} of {} timers fired", due.len(), deadlines.len()));
    }
    let in_order = due.iter().map(|due| deadlines[due.value() as usize]).is_sorted();
    if T::ORDERED && !in_order {
        return Err("fired out of order".to_owned());
    }
    Ok(())
}

/// Nanoseconds for one advance over an hour in which nothing is due, twice: the hour, less a tick,
/// before timers that are 1 to 72 hours ahead; and the average of eight hours before timers that are
/// 10 to 72 hours ahead.
///
/// The first ends right before a deadline. Structures that keep near timers apart from far ones have
/// work to do then, though nothing fires. The structure is new each time, and its memory is not in
/// the cache: an hour comes once an hour.
pub(super) fn idle_hour<T: Timers>(plan: Plan) -> (f64, f64) {
    let before = |delays| move |_: usize| passing::<T>(Plan { delays, ..plan });
    (median(before(Delays::Hours)), median(before(Delays::Later)))
}

/// The median of a few values, or the first if it takes long to get one.
fn median(value: impl FnMut(usize) -> f64) -> f64 {
    const VALUES: usize = 5;
    const PATIENCE: Duration = Duration::from_secs(1);
    let start = Instant::now();
    let enough = |&index: &usize| index == 0 || start.elapsed() < PATIENCE;
    let mut values: Vec<f64> = (0..VALUES).take_while(enough).map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds an hour, up to two hours before the first deadline can come, or to the first hour.
fn passing<T: Timers>(plan: Plan) -> f64 {
    let hours = (plan.delays.first() / Delays::HOUR).saturating_sub(2).max(1) as usize;
    let mut population = Population::<T>::full(plan);
    let mut due = Vec::new();
    let taken = timed(|| {
        for hour in 1..=hours {
            population.timers.advance(hour as u64 * Delays::HOUR - 1, &mut due);
        }
    });
    assert!(due.is_empty(), "fired before its deadline");
    nanos_each(taken, hours)
}
