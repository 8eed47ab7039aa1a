//! The cost of time in which no timer is due, with many timers pending.
//!
//! | group | what is measured |
//! | --- | --- |
//! | `hours/within_range` | a thousand advances by an hour of milliseconds; timers lie beyond |
//! | `hours/beyond_range` | the same; timers lie thousands of years ahead, with a cycle count |
//! | `next_turn/near` | `next_turn`; timers lie within a minute |
//! | `next_turn/beyond_range` | `next_turn`; timers lie thousands of years ahead |
//!
//! The times of `hours` are for a thousand hours: a microsecond is a nanosecond for one. With timers
//! beyond the range of the outermost ring, `next_turn` has to look at every slot there.
//!
//! ```text
//! cargo bench --bench idle
//! ```

mod common;

use std::hint::black_box;

use common::{HORIZON, SIZES};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickwheel::{Geometry, Hierarchy, Key, Span};

const HOUR: Span = Span::new(3_600_000);

/// The number of hours before the first timer of a population within range has to move, and so the
/// number measured at a time. Each time needs a new population, which takes far longer to make.
const QUIET_HOURS: u64 = 1_000;

struct Idle {
    hierarchy: Hierarchy<u64>,
    due: Vec<(Key, u64)>,
}

impl Idle {
    /// Returns a hierarchy with timers more than `ahead` ticks away, random over `spread`.
    fn new(size: usize, ahead: u64, spread: u64) -> Idle {
        let mut random = common::random();
        let mut idle = Idle { hierarchy: Hierarchy::new(Geometry::default()), due: Vec::new() };
        for number in 0..size as u64 {
            let ahead = Span::new(ahead + random.u64(1..=spread));
            idle.hierarchy.insert(idle.hierarchy.now() + ahead, number);
        }
        idle
    }

    /// Returns timers in the outermost ring, which are visited once, after 1,100 hours.
    fn within_range(size: usize) -> Idle {
        Idle::new(size, 1_100 * HOUR.get(), 90 * HOUR.get())
    }

    /// Returns timers in every slot of the outermost ring, with a cycle count.
    fn beyond_range(size: usize) -> Idle {
        Idle::new(size, 1 << 50, 1 << 45)
    }

    fn pass(&mut self) {
        for _ in 0..QUIET_HOURS {
            let next = self.hierarchy.now() + HOUR;
            assert!(self.hierarchy.advance(black_box(next), usize::MAX, &mut self.due).finished);
        }
        assert!(self.due.is_empty());
    }
}

fn hours(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "hours");
    group.throughput(Throughput::Elements(QUIET_HOURS));
    for size in SIZES {
        group.bench_function(BenchmarkId::new("within_range", size), |bencher| {
            bencher.iter_batched_ref(
                || Idle::within_range(size),
                Idle::pass,
                BatchSize::PerIteration,
            );
        });
    }
    for size in SIZES {
        let mut idle = None;
        group.bench_function(BenchmarkId::new("beyond_range", size), |bencher| {
            let idle = idle.get_or_insert_with(|| Idle::beyond_range(size));
            bencher.iter(|| idle.pass());
        });
    }
}

fn next_turn(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "next_turn");
    group.throughput(Throughput::Elements(1));
    let near: fn(usize) -> Idle = |size| Idle::new(size, 0, HORIZON);
    for (name, population) in [("near", near), ("beyond_range", Idle::beyond_range)] {
        for size in SIZES {
            let mut idle = None;
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                let idle = idle.get_or_insert_with(|| population(size));
                bencher.iter(|| black_box(&idle.hierarchy).next_turn());
            });
        }
    }
}

criterion_group!(benches, hours, next_turn);
criterion_main!(benches);
