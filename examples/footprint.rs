//! How many bytes a pending timer takes, and how many of them stay when all have been cancelled.
//!
//! Reads the resident memory of the process before and after a million inserts. It includes the
//! allocator's overhead. The keys, 16 bytes each, belong to the caller and are not counted. Each
//! case runs in its own process.
//!
//! The memory that stays after the last cancel is mostly freed blocks that the allocator keeps. One
//! timer that stays does not keep the memory of the others: the timers that are left are moved
//! together, during one cancel, which takes that much longer.
//!
//! ```text
//! cargo run --release --example footprint
//! ```

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use tickwheel::{Geometry, Hierarchy, Tick, Wheel};

const TIMERS: u64 = 1_000_000;

/// The name of a case on the command line and in the table, and the function that runs it.
type Case = (&'static str, &'static str, fn() -> Option<Reading>);

const CASES: [Case; 4] = [
    ("hierarchy", "Hierarchy<u64>", hierarchy),
    ("beside", "Hierarchy<u64>, and one stays", beside),
    ("plain", "Wheel, closure without captures", plain),
    ("capture", "Wheel, closure with 16 bytes", capture),
];

/// Resident bytes for each timer, and how long the longest cancel took.
struct Reading {
    pending: f64,
    cancelled: f64,
    longest: Duration,
}

fn main() -> ExitCode {
    if resident().is_none() {
        println!("cannot measure here: there is no RssAnon in /proc/self/status");
        return ExitCode::SUCCESS;
    }
    match env::args().nth(1) {
        Some(name) => measure(&name),
        None => measure_each(),
    }
}

fn measure_each() -> ExitCode {
    let columns = ["pending", "all cancelled", "longest cancel"];
    let [pending, cancelled, longest] = columns;
    println!("{:32} {pending:>16} {cancelled:>16} {longest:>16}", "bytes a timer, of a million");
    let itself = env::current_exe().expect("a program knows where it is");
    for (name, ..) in CASES {
        let status = Command::new(&itself).arg(name).status();
        if !status.is_ok_and(|status| status.success()) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn measure(name: &str) -> ExitCode {
    let Some((_, title, case)) = CASES.iter().find(|(known, ..)| *known == name) else {
        eprintln!("no such case: {name}");
        return ExitCode::FAILURE;
    };
    let Some(Reading { pending, cancelled, longest }) = case() else { return ExitCode::FAILURE };
    let longest = longest.as_secs_f64() * 1e3;
    println!("{title:32} {pending:16.1} {cancelled:16.1} {longest:13.1} ms");
    ExitCode::SUCCESS
}

fn hierarchy() -> Option<Reading> {
    in_hierarchy(false)
}

fn beside() -> Option<Reading> {
    in_hierarchy(true)
}

fn in_hierarchy(one_stays: bool) -> Option<Reading> {
    let mut hierarchy = Hierarchy::new(Geometry::default());
    // Written to, so that the keys' own memory is resident before anything is measured.
    let stale = hierarchy.insert(Tick::new(1), 0);
    hierarchy.cancel(stale);
    let mut keys = vec![stale; TIMERS as usize];

    let before = resident()?;
    for (number, key) in (0..TIMERS).zip(&mut keys) {
        *key = hierarchy.insert(Tick::new(ahead(number)), number);
    }
    let long = one_stays.then(|| hierarchy.insert(Tick::new(1 << 32), TIMERS));
    let pending = resident()?;
    let longest = longest(&keys, |key| hierarchy.cancel(key).is_some());
    let reading = reading(before, pending, resident()?, longest);
    assert!(long.is_none_or(|long| hierarchy.contains(long)));
    reading
}

/// Cancels every timer; returns how long the longest cancel took.
#[allow(clippy::disallowed_methods)]
fn longest<K: Copy>(keys: &[K], mut cancel: impl FnMut(K) -> bool) -> Duration {
    let mut longest = Duration::ZERO;
    for &key in keys {
        let begin = Instant::now();
        assert!(cancel(key));
        longest = longest.max(begin.elapsed());
    }
    longest
}

fn plain() -> Option<Reading> {
    wheel(|_| || ())
}

fn capture() -> Option<Reading> {
    wheel(|number| {
        let captured = [number; 2];
        move || {
            std::hint::black_box(captured);
        }
    })
}

fn wheel<F: FnOnce() + Send + 'static>(job: impl Fn(u64) -> F) -> Option<Reading> {
    let wheel = Wheel::new();
    let stale = wheel.insert(Duration::MAX, || ());
    wheel.cancel(stale);
    let mut handles = vec![stale; TIMERS as usize];

    let before = resident()?;
    for (number, handle) in (0..TIMERS).zip(&mut handles) {
        *handle = wheel.insert(Duration::from_millis(ahead(number)), job(number));
    }
    let pending = resident()?;
    let longest = longest(&handles, |handle| wheel.cancel(handle));
    reading(before, pending, resident()?, longest)
}

/// From a minute to an hour, in ticks of a millisecond, pseudo-random.
fn ahead(number: u64) -> u64 {
    60_000 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 3_540_000
}

fn reading(before: u64, pending: u64, cancelled: u64, longest: Duration) -> Option<Reading> {
    let a_timer = |bytes: u64| (bytes as f64 - before as f64) / TIMERS as f64;
    Some(Reading { pending: a_timer(pending), cancelled: a_timer(cancelled), longest })
}

/// Returns the resident memory that no file backs, in bytes.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
