//! Cancel, alone and with the insert that goes with it.
//!
//! | group | what is measured, with the given number of timers pending |
//! | --- | --- |
//! | `cancel` | the cancel of a random timer |
//! | `pairs` | the cancel of a random timer, and the insert of another |
//! | `timeout` | a job inserted 30 s ahead, and cancelled: a timeout that does not happen |
//!
//! `timeout` is the whole cost of a timeout on one thread. Its timer is in the cache.
//!
//! ```text
//! cargo bench --bench cancel
//! ```

mod common;

use std::hint::black_box;
use std::time::Duration;

use common::{Population, SIZES, Timers, bench, job, timed};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwheel::{Hierarchy, Wheel};

fn cancel<T: Timers>(criterion: &mut Criterion) {
    bench::<T>(criterion, "cancel", |timers, keys, whens| {
        let elapsed = timed(|| {
            for &key in &*keys {
                assert!(timers.cancel(key));
            }
        });
        for (key, &when) in keys.iter_mut().zip(whens) {
            *key = timers.insert(when);
        }
        elapsed
    });
}

fn pairs<T: Timers>(criterion: &mut Criterion) {
    bench::<T>(criterion, "pairs", |timers, keys, whens| {
        timed(|| {
            for (key, &when) in keys.iter_mut().zip(whens) {
                assert!(timers.cancel(*key));
                *key = timers.insert(when);
            }
        })
    });
}

fn timeout(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "timeout");
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        let mut population = None;
        group.bench_function(BenchmarkId::new(Wheel::NAME, size), |bencher| {
            let population = population.get_or_insert_with(|| Population::<Wheel>::new(size));
            let wheel = &population.timers;
            let mut number = 0;
            bencher.iter(|| {
                number += 1;
                let handle = wheel.insert(black_box(Duration::from_secs(30)), job(number));
                assert!(wheel.cancel(black_box(handle)));
            });
        });
    }
}

criterion_group!(
    benches,
    cancel::<Hierarchy<u64>>,
    cancel::<Wheel>,
    pairs::<Hierarchy<u64>>,
    pairs::<Wheel>,
    timeout,
);
criterion_main!(benches);
