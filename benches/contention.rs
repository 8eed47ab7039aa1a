//! Timeouts that do not happen, from several threads on one wheel: each thread inserts a job 30
//! seconds ahead and cancels it, over and over.
//!
//! The figure is the time for one such pair over all threads, so its inverse is the throughput of
//! all threads together. The clock runs from when the first thread starts until the last is done.
//!
//! ```text
//! cargo bench --bench contention
//! ```

// A program that measures may read the clock; the library may not.
#![allow(clippy::disallowed_methods)]

mod common;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use common::{HORIZON, SIZES, Timers, job};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwheel::Wheel;

const PRODUCERS: [u64; 4] = [1, 2, 4, 8];

/// Returns a wheel whose pending timers are spread over all shards: a thread inserts into one
/// shard, and enough threads insert to use every shard.
fn filled(size: usize) -> Wheel {
    const THREADS: usize = 64;
    let (wheel, mut random) = (Wheel::new(), common::random());
    for part in 0..THREADS {
        let fill = || {
            for _ in (part..size).step_by(THREADS) {
                let ahead = random.u64(1..=HORIZON);
                wheel.insert(Wheel::when(ahead), job(ahead));
            }
        };
        thread::scope(|scope| scope.spawn(fill).join().unwrap());
    }
    wheel
}

/// Makes `pairs` in all. Returns how long that took.
fn produce(wheel: &Wheel, producers: u64, pairs: u64) -> Duration {
    let barrier = Barrier::new(producers as usize);
    let producer = |share: u64| {
        barrier.wait();
        let start = Instant::now();
        for number in 0..share {
            let handle = wheel.insert(Duration::from_secs(30), job(number));
            assert!(wheel.cancel(handle));
        }
        (start, Instant::now())
    };
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let shares = (0..producers).map(|n| pairs / producers + u64::from(n < pairs % producers));
        let threads: Vec<_> = shares.map(|share| scope.spawn(move || producer(share))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let first = times.iter().map(|&(start, _)| start).min().unwrap();
    let last = times.iter().map(|&(_, end)| end).max().unwrap();
    last - first
}

fn contention(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "contention");
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        let mut wheel = None;
        for producers in PRODUCERS {
            let name = format!("{producers}_producers");
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                let wheel = wheel.get_or_insert_with(|| filled(size));
                bencher.iter_custom(|iters| produce(wheel, producers, iters));
            });
        }
    }
}

criterion_group!(benches, contention);
criterion_main!(benches);
