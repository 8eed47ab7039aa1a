//! How much memory is held for a timer.
//!
//! It is the memory that the system has given the process. Memory that an allocator keeps for later
//! counts, and so do pieces too small to use. Memory that was allocated and never touched does not
//! count.

use std::fs;

use super::population::{Plan, Population};
use crate::structures::timers::Timers;

/// Bytes a timer while all are pending, and once all have been cancelled.
pub(super) fn bytes<T: Timers>(plan: Plan) -> Result<(f64, f64), String> {
    let mut population = Population::<T>::empty(plan);
    let mut keys: Vec<Option<T::Key>> = Vec::new();
    // The keys are the caller's. Their memory is written once, so that it is there before the first reading.
    keys.resize_with(plan.size, || None);
    let before = held()?;
    population.insert_all(|timers, deadline, value| {
        keys[value as usize] = Some(timers.insert(deadline, value));
    });
    let pending = held()?;
    // Timers are cancelled in a random order, not in the order in which they were inserted.
    for place in 0..plan.size {
        let other = place + population.random.usize(..plan.size - place);
        keys.swap(place, other);
        if let Some(mut key) = keys[place].take() {
            population.timers.cancel(&mut key);
        }
    }
    let after = held()?;
    let each = |held: u64| (held as f64 - before as f64) / plan.size as f64;
    Ok((each(pending), each(after)))
}

/// The memory of this process that is backed by no file, in bytes. Counted page by page: the other
/// counters of the system are approximate.
fn held() -> Result<u64, String> {
    let path = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("Anonymous:")?.trim().strip_suffix("kB"))
        .and_then(|kilobytes| kilobytes.trim().parse::<u64>().ok())
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| format!("{path} does not say how much is anonymous"))
}
