//! The advance: the cost of firing a timer, with all its moves from ring to ring.
//!
//! | group | what is measured |
//! | --- | --- |
//! | `drain/one_advance` | timers random over 60,000 ticks, all of which fire in one advance |
//! | `drain/slices_of_256` | the same, looking at 256 entries a call, as a wheel's ticker does |
//! | `refire` | tick by tick; each timer that fires is inserted anew up to 60,000 ticks ahead |
//!
//! All figures are for one timer. `refire` includes the insert, and the timer's share of the ticks
//! without work: 30 ticks with a thousand timers, almost none with a million.
//!
//! ```text
//! cargo bench --bench advance
//! ```

mod common;

use std::time::Duration;

use common::{HORIZON, SIZES, timed};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fastrand::Rng;
use tickwheel::{Geometry, Hierarchy, Key, Span};

struct Clockwork {
    hierarchy: Hierarchy<u64>,
    due: Vec<(Key, u64)>,
    random: Rng,
}

impl Clockwork {
    fn new(room: usize) -> Clockwork {
        Clockwork {
            hierarchy: Hierarchy::new(Geometry::default()),
            due: Vec::with_capacity(room),
            random: common::random(),
        }
    }

    fn filled(size: usize) -> Clockwork {
        let mut clockwork = Clockwork::new(size);
        clockwork.fill(size);
        clockwork
    }

    fn fill(&mut self, size: usize) {
        let now = self.hierarchy.now();
        for number in 0..size as u64 {
            let ahead = Span::new(self.random.u64(1..=HORIZON));
            self.hierarchy.insert(now + ahead, number);
        }
    }

    /// Fires all timers, looking at `limit` entries a call.
    fn drain(&mut self, limit: usize) {
        let end = self.hierarchy.now() + Span::new(HORIZON);
        loop {
            self.due.clear();
            if self.hierarchy.advance(end, limit, &mut self.due).finished {
                break;
            }
        }
        assert!(self.hierarchy.is_empty());
    }

    /// Advances tick by tick until `count` timers have fired. Returns how many fired.
    fn refire(&mut self, count: u64) -> u64 {
        let (mut now, mut fired) = (self.hierarchy.now(), 0);
        while fired < count {
            now = now + Span::new(1);
            assert!(self.hierarchy.advance(now, usize::MAX, &mut self.due).finished);
            fired += self.due.len() as u64;
            for (_, number) in self.due.drain(..) {
                let ahead = Span::new(self.random.u64(1..=HORIZON));
                self.hierarchy.insert(now + ahead, number);
            }
        }
        fired
    }
}

fn drain(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "drain");
    group.throughput(Throughput::Elements(1));
    for (name, limit) in [("one_advance", usize::MAX), ("slices_of_256", 256)] {
        for size in SIZES {
            let mut clockwork = None;
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                let clockwork = clockwork.get_or_insert_with(|| Clockwork::new(size.min(limit)));
                bencher.iter_custom(|iters| {
                    // An iteration drains a population, and counts for one timer of it.
                    let round = |_| {
                        clockwork.fill(size);
                        timed(|| clockwork.drain(limit))
                    };
                    (0..iters).map(round).sum::<Duration>() / size as u32
                });
            });
        }
    }
}

fn refire(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "refire");
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        let mut clockwork = None;
        group.bench_function(BenchmarkId::new("tick_by_tick", size), |bencher| {
            let clockwork = clockwork.get_or_insert_with(|| {
                let mut clockwork = Clockwork::filled(size);
                // After two generations the timers are distributed as they stay from then on.
                clockwork.refire(2 * size as u64);
                clockwork
            });
            bencher.iter_custom(|iters| {
                let mut fired = 0;
                let elapsed = timed(|| fired = clockwork.refire(iters));
                // The last tick may have fired more timers than asked for.
                elapsed.mul_f64(iters as f64 / fired as f64)
            });
        });
    }
}

criterion_group!(benches, drain, refire);
criterion_main!(benches);
