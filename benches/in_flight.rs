//! The cost of a bound on jobs in flight: 200,000 jobs at one tick, on a pool of two threads.
//!
//! | column | what is measured |
//! | --- | --- |
//! | in flight | `Builder::max_in_flight`; the last row has no bound |
//! | nothing | from the tick until the last job has run, in nanoseconds a job, for jobs that do nothing |
//! | 10 µs of work | the same for jobs that work for 10 µs |
//!
//! Each is the median of the rounds, with the least and the most. Every round measures all rows, so
//! that no row has the quieter machine.
//!
//! ```text
//! cargo bench --bench in_flight
//! ```

// A program that measures may read the clock; the library may not.
#![allow(clippy::disallowed_methods)]

use std::env;
use std::hint::spin_loop;
use std::time::{Duration, Instant};

use tickwheel::Wheel;

const JOBS: usize = 200_000;
const ROUNDS: usize = 7;
const THREADS: usize = 2;

const BOUNDS: [Option<usize>; 4] = [Some(THREADS), Some(16 * THREADS), Some(64 * THREADS), None];

/// How long a job works.
const WORK: [Duration; 2] = [Duration::ZERO, Duration::from_micros(10)];

fn main() {
    // As in every bench, `cargo test` runs it once and measures nothing.
    let (jobs, rounds) = if env::args().any(|argument| argument == "--test") {
        (JOBS / 100, 1)
    } else {
        (JOBS, ROUNDS)
    };
    println!("{jobs} jobs at one tick, {THREADS} threads, {rounds} rounds; nanoseconds a job");
    let mut times = vec![[const { Vec::new() }; WORK.len()]; BOUNDS.len()];
    for _ in 0..rounds {
        for (bound, row) in BOUNDS.into_iter().zip(&mut times) {
            for (work, cell) in WORK.into_iter().zip(row) {
                cell.push(burst(bound, work, jobs).as_nanos() / jobs as u128);
            }
        }
    }
    println!("{:>10} {:>24} {:>24}", "in flight", "nothing", "10 µs of work");
    for (bound, row) in BOUNDS.into_iter().zip(times) {
        let bound = bound.map_or("no bound".to_owned(), |bound| bound.to_string());
        let [nothing, work] = row.map(summary);
        println!("{bound:>10} {nothing:>24} {work:>24}");
    }
}

/// Returns how long all jobs of a tick take, from the tick on.
fn burst(bound: Option<usize>, work: Duration, jobs: usize) -> Duration {
    let builder = Wheel::builder().threads(THREADS);
    let builder = bound.into_iter().fold(builder, |builder, bound| builder.max_in_flight(bound));
    let wheel = builder.build().expect("the system starts threads");
    let at = Instant::now() + Duration::from_millis(200);
    let job = move || {
        let begin = Instant::now();
        while begin.elapsed() < work {
            spin_loop();
        }
    };
    wheel.insert_batch((0..jobs).map(|_| (at, job))).expect("no bound on pending jobs");
    wheel.wait_idle();
    at.elapsed()
}

fn summary(mut times: Vec<u128>) -> String {
    times.sort_unstable();
    format!("{} ({}, {})", times[times.len() / 2], times[0], times[times.len() - 1])
}
