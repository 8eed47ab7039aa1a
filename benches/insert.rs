//! Insert, alone, into a structure that already holds many timers.
//!
//! A batch of random timers is cancelled, which is not measured, and as many are inserted at random
//! deadlines. So they reuse freed table entries, as in a program that has run for a while.
//!
//! ```text
//! cargo bench --bench insert
//! ```

mod common;

use common::{Timers, bench, timed};
use criterion::{Criterion, criterion_group, criterion_main};
use tickwheel::{Hierarchy, Wheel};

fn insert<T: Timers>(criterion: &mut Criterion) {
    bench::<T>(criterion, "insert", |timers, keys, whens| {
        for &key in &*keys {
            assert!(timers.cancel(key));
        }
        timed(|| {
            for (key, &when) in keys.iter_mut().zip(whens) {
                *key = timers.insert(when);
            }
        })
    });
}

criterion_group!(benches, insert::<Hierarchy<u64>>, insert::<Wheel>);
criterion_main!(benches);
