//! What lies above a tick in the lateness of closures: closures that come due evenly over two seconds, at random.
//!
//! | row | what is late |
//! | --- | --- |
//! | a bare thread | a thread that sleeps until the end of each millisecond: how long after it the thread goes on |
//! | closures, tick | a closure on a wheel with threads: how long after its deadline it starts |
//!
//! A deadline that does not fall on a tick is late by up to a tick. What is above that is the wake-up of the ticker, as
//! in the row of the bare thread, and the wait for the closures of the same tick. So the rows differ in how many
//! closures a tick has.
//!
//! ```text
//! cargo bench --bench lateness
//! ```

// A program that measures may read the clock; the library may not.
#![allow(clippy::disallowed_methods)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tickwheel::Wheel;

const MS: Duration = Duration::from_millis(1);
/// How many closures, and the tick in microseconds.
const ROWS: [(usize, u64); 6] = [
    (10_000, 1000),
    (100_000, 1000),
    (1_000_000, 1000),
    (10_000, 100),
    (100_000, 100),
    (1_000_000, 100),
];
/// How long before the first deadline the inserts begin.
const HEAD_START: Duration = Duration::from_secs(2);
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

fn main() {
    // As in every bench, `cargo test` runs it once and measures nothing.
    let is_test = env::args().any(|argument| argument == "--test");
    let (share, rounds) = if is_test { (100, 1) } else { (1, 5) };
    let over = 2000 * MS / share;
    println!("over {over:?}, medians of {rounds} [least, most], in ms");
    println!(
        "{:<34} {:>22} {:>22} {:>22} {:>22}",
        "", "half", "99 %", "99.9 %", "processor, us each"
    );
    let print = |name: String, figures: Vec<Vec<f64>>| {
        let columns: Vec<String> = figures.into_iter().map(median).collect();
        println!("{name:<34} {}", columns.join(" "));
    };
    let bare = (0..rounds).map(|_| quantiles(bare_thread(over)));
    print("a bare thread".to_owned(), columns(bare.collect()));
    for (closures, tick) in ROWS {
        let closures = closures / share as usize;
        let figures = (0..rounds).map(|_| wheel(closures, Duration::from_micros(tick), over));
        print(format!("{closures} closures, tick of {tick} us"), columns(figures.collect()));
    }
}

/// Returns the lateness of a thread that sleeps until the end of each millisecond.
fn bare_thread(over: Duration) -> Vec<u64> {
    let mut next = Instant::now();
    let sleep = |_| {
        next += MS;
        while let Some(wait) =
            next.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero())
        {
            thread::park_timeout(wait);
        }
        next.elapsed().as_nanos() as u64
    };
    (0..over.as_millis()).map(sleep).collect()
}

/// Returns the lateness of closures on a wheel with threads, and the processor time of each.
fn wheel(closures: usize, tick: Duration, over: Duration) -> Vec<f64> {
    let wheel = Wheel::builder().tick(tick).build().expect("the system starts threads");
    let late: Arc<[AtomicU64]> = (0..closures).map(|_| AtomicU64::new(0)).collect();
    let mut random = common::random();
    let first = Instant::now() + HEAD_START;
    for number in 0..closures {
        let due = first + Duration::from_nanos(random.u64(..over.as_nanos() as u64));
        let late = Arc::clone(&late);
        // A time is stored as one more than it is, because 0 is that of a closure that has not run.
        wheel.insert(due, move || {
            late[number].store(due.elapsed().as_nanos() as u64 + 1, Ordering::Relaxed);
        });
    }
    thread::sleep(first.saturating_duration_since(Instant::now()));
    let before = processor_time();
    thread::sleep(over);
    while !wheel.is_empty() || wheel.stats().in_flight > 0 {
        thread::sleep(MS);
    }
    let each = processor_time()
        .zip(before)
        .map(|(after, before)| (after - before) / closures as f64 / 1000.0);
    let late = late.iter().map(|late| late.load(Ordering::Relaxed).checked_sub(1));
    let mut figures = quantiles(late.map(|late| late.expect("every closure has run")).collect());
    figures.extend(each);
    figures
}

fn quantiles(mut late: Vec<u64>) -> Vec<f64> {
    late.sort_unstable();
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1e6;
    QUANTILES.map(at).to_vec()
}

/// Returns the rounds of each figure.
fn columns(rounds: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    (0..rounds[0].len()).map(|at| rounds.iter().map(|figures| figures[at]).collect()).collect()
}

fn median(mut rounds: Vec<f64>) -> String {
    rounds.sort_unstable_by(f64::total_cmp);
    let (least, most) = (rounds[0], rounds[rounds.len() - 1]);
    format!("{:>22}", format!("{:.3} [{least:.3}, {most:.3}]", rounds[rounds.len() / 2]))
}

/// Returns the processor time in ns of the threads that there are (Linux).
fn processor_time() -> Option<f64> {
    let tasks = fs::read_dir("/proc/self/task").ok()?.flatten();
    let of_task = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<f64>().ok()
    };
    Some(tasks.filter_map(of_task).sum())
}
