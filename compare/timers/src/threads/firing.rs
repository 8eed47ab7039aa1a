//! How the pool of `tickwheel` keeps up: a million jobs of about a microsecond each, due on one
//! tick.
//!
//! The size is the number of pool threads. The figure is `jobs`: million jobs a second, from the
//! deadline until the last job has run.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use harness::Fallible;
use harness::case::{Figures, figure};

use super::peers::Ours;
use super::runs::{Runs, quantile};
use super::timer::Timer;

pub(super) fn firing(threads: usize, short: bool) -> Fallible<Figures> {
    let jobs = if short { 10_000 } else { 1_000_000 };
    let steps = steps_of(Duration::from_micros(1));
    let mut timer = Ours::with_threads(threads)?;
    let runs = Runs::new(jobs);
    let at = Instant::now() + Duration::from_millis(if short { 500 } else { 1_000 });
    for number in 0..jobs {
        timer.insert_at(at, move || {
            work(steps);
            runs.record(number, at);
        });
    }
    let left = at.checked_duration_since(Instant::now());
    thread::sleep(left.ok_or("the inserting took too long")?);
    runs.wait(at, Duration::from_millis(2))?;
    let last = quantile(&runs.sorted_millis(), 1.0);
    Ok(vec![figure("jobs", jobs as f64 / last / 1e3)])
}

/// Multiplications, each of which waits for the one before.
fn work(steps: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..steps {
        value = value.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(7);
    }
    black_box(value);
}

/// The number of steps of work that take this long on this machine: the fastest of several tries.
fn steps_of(time: Duration) -> u64 {
    const TRIAL: u64 = 100_000;
    let trial = || {
        let start = Instant::now();
        work(TRIAL);
        start.elapsed()
    };
    let fastest = (0..20).map(|_| trial()).min().unwrap_or(time);
    (TRIAL as f64 * time.as_secs_f64() / fastest.as_secs_f64()) as u64
}
