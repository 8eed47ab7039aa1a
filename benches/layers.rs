//! The adapters compared with the wheel: a timeout that does not happen, and a run.
//!
//! | bench | what is measured, with 100,000 others pending |
//! | --- | --- |
//! | `timeout/handle` | a job inserted 30 s ahead, and cancelled by its handle |
//! | `timeout/guard` | the same, by the drop of its guard |
//! | `timeout/group` | the same, as the one job of a group that is cancelled |
//! | `timeout/key` | the same, under a key |
//! | `timeout/wall` | the same, for a wall-clock time |
//! | `timeout/repeat` | a repeating job, inserted and cancelled |
//! | `run/insert` | a job that comes due and inserts the next, on a manual clock |
//! | `run/repeat` | a run of a repeating job, on a manual clock |
//!
//! ```text
//! cargo bench --bench layers
//! ```

// A program that measures may read the clock; the library may not.
#![allow(clippy::disallowed_methods)]

mod common;

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use common::{Population, job};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tickwheel::{Driver, Group, Guard, Keyed, Next, Repeat, Scheduler, Wheel};

const OTHERS: usize = 100_000;
const TIMEOUT: Duration = Duration::from_secs(30);
const MS: Duration = Duration::from_millis(1);

fn timeout(criterion: &mut Criterion) {
    let population = Population::<Wheel>::new(OTHERS);
    let wheel = &population.timers;
    let keyed = Keyed::new(wheel.scheduler());
    let connection = Group::new(wheel.scheduler());
    let at = SystemTime::now() + TIMEOUT;
    // The first job for a wall-clock time wakes the ticker, which then looks at the wall clock.
    wheel.insert(at + TIMEOUT, || ());
    let mut group = common::group(criterion, "timeout");
    group.throughput(Throughput::Elements(1));
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    group.bench_function("handle", |bencher| {
        bencher.iter(|| {
            let handle = wheel.insert(black_box(TIMEOUT), job(next()));
            assert!(wheel.cancel(handle));
        });
    });
    group.bench_function("guard", |bencher| {
        bencher.iter(|| {
            let handle = wheel.insert(black_box(TIMEOUT), job(next()));
            drop(Guard::new(wheel.scheduler(), handle));
        });
    });
    group.bench_function("group", |bencher| {
        bencher.iter(|| {
            connection.insert(black_box(TIMEOUT), job(next())).expect("there is room");
            assert_eq!(connection.cancel_all(), 1);
        });
    });
    group.bench_function("key", |bencher| {
        bencher.iter(|| {
            let key = next();
            keyed.insert(key, black_box(TIMEOUT), job(key)).expect("there is room");
            assert!(keyed.cancel(&key));
        });
    });
    group.bench_function("wall", |bencher| {
        bencher.iter(|| {
            let handle = wheel.insert(black_box(at), job(next()));
            assert!(wheel.cancel(handle));
        });
    });
    group.bench_function("repeat", |bencher| {
        bencher.iter(|| {
            let number = next();
            let ping = move || {
                black_box(number);
            };
            let handle = wheel.every(black_box(TIMEOUT), ping).expect("there is room");
            assert!(wheel.cancel(handle));
        });
    });
}

fn run(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "run");
    group.throughput(Throughput::Elements(1));
    let passes = |driver: &Driver, runs: u64| {
        let start = Instant::now();
        let ran = driver.advance(MS * u32::try_from(runs).expect("minutes at most"));
        let elapsed = start.elapsed();
        assert_eq!(ran as u64, runs);
        elapsed
    };
    group.bench_function("insert", |bencher| {
        bencher.iter_custom(|runs| {
            let (wheel, driver) = Wheel::builder().manual().expect("the defaults are sound");
            again(wheel.scheduler());
            passes(&driver, runs)
        });
    });
    group.bench_function("repeat", |bencher| {
        bencher.iter_custom(|runs| {
            let (wheel, driver) = Wheel::builder().manual().expect("the defaults are sound");
            wheel.repeat(Repeat::every(MS), |_| Next::Period).expect("there is room");
            passes(&driver, runs)
        });
    });
}

/// A job that repeats without `Wheel::repeat`: it inserts the next.
fn again(scheduler: Scheduler) {
    let next = scheduler.clone();
    scheduler.insert(MS, || again(next)).expect("there is room");
}

criterion_group!(benches, timeout, run);
criterion_main!(benches);
