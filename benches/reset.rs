//! Reset, of a random pending timer.
//!
//! | group | what is measured |
//! | --- | --- |
//! | `reset_later` | to a later deadline, which is one store |
//! | `reset_earlier` | to an earlier deadline, which moves the timer to another slot |
//!
//! ```text
//! cargo bench --bench reset
//! ```

mod common;

use common::{HORIZON, Population, SIZES, Timers, timed};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwheel::{Hierarchy, Wheel};

fn later<T: Timers>(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "reset_later");
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        let mut population = None;
        // Each batch resets to one tick later than all batches before it.
        let mut ahead = HORIZON;
        group.bench_function(BenchmarkId::new(T::NAME, size), |bencher| {
            let population = population.get_or_insert_with(|| Population::<T>::new(size));
            bencher.iter_custom(|iters| {
                population.measure(iters, |timers, keys, _| {
                    ahead += 1;
                    let when = T::when(ahead);
                    timed(|| {
                        for &key in &*keys {
                            assert!(timers.reset(key, when));
                        }
                    })
                })
            });
        });
    }
}

fn earlier<T: Timers>(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "reset_earlier");
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        let mut population = None;
        group.bench_function(BenchmarkId::new(T::NAME, size), |bencher| {
            let population = population.get_or_insert_with(|| Population::<T>::new(size));
            bencher.iter_custom(|iters| {
                population.measure(iters, |timers, keys, whens| {
                    // Every random deadline is earlier than this one. The entries stay in their
                    // slots.
                    for &key in &*keys {
                        assert!(timers.reset(key, T::when(2 * HORIZON)));
                    }
                    timed(|| {
                        for (&key, &when) in keys.iter().zip(whens) {
                            assert!(timers.reset(key, when));
                        }
                    })
                })
            });
        });
    }
}

criterion_group!(
    benches,
    later::<Hierarchy<u64>>,
    later::<Wheel>,
    earlier::<Hierarchy<u64>>,
    earlier::<Wheel>,
);
criterion_main!(benches);
