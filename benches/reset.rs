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

use common::{HORIZON, Timers, bench, timed};
use criterion::{Criterion, criterion_group, criterion_main};
use tickwheel::{Hierarchy, Wheel};

fn later<T: Timers>(criterion: &mut Criterion) {
    // Each batch resets to one tick later than all batches before it.
    let mut ahead = HORIZON;
    bench::<T>(criterion, "reset_later", |timers, keys, _| {
        ahead += 1;
        let when = T::when(ahead);
        timed(|| {
            for &key in &*keys {
                assert!(timers.reset(key, when));
            }
        })
    });
}

fn earlier<T: Timers>(criterion: &mut Criterion) {
    bench::<T>(criterion, "reset_earlier", |timers, keys, whens| {
        // Every random deadline is earlier than this one. The entries stay in their slots.
        for &key in &*keys {
            assert!(timers.reset(key, T::when(2 * HORIZON)));
        }
        timed(|| {
            for (&key, &when) in keys.iter().zip(whens) {
                assert!(timers.reset(key, when));
            }
        })
    });
}

criterion_group!(
    benches,
    later::<Hierarchy<u64>>,
    later::<Wheel>,
    earlier::<Hierarchy<u64>>,
    earlier::<Wheel>,
);
criterion_main!(benches);
