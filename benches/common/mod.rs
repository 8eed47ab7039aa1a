//! Shared by the benches: random numbers, a population of pending timers of constant size, and the
//! measurement of a part of a batch.
//!
//! Ground rules:
//!
//! - Populations are random in time and in memory: an operation picks its timers at random, so with
//!   a million timers it pays for cache misses, as it does in a program.
//! - No random number is drawn while the clock runs. The arguments of operations are drawn before.
//! - A population is built when a bench first uses it: a bench that is filtered out costs nothing.

// Every bench compiles this file for itself and uses a part of it.
#![allow(dead_code)]
// A program that measures may read the clock; the library may not.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use fastrand::Rng;
use tickwheel::{Geometry, Handle, Hierarchy, Key, Tick, Wheel};

/// How many timers are pending.
pub(crate) const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

/// Deadlines lie from 1 to this number of ticks ahead, unless a bench says otherwise.
pub(crate) const HORIZON: u64 = 60_000;

/// The largest number of operations between two readings of the clock.
const BATCH: usize = 1024;

/// Returns a group short enough for a bench file to take about a minute. A sample has about a
/// million operations, of nanoseconds each.
pub(crate) fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10);
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    group
}

/// Returns random numbers that are the same in every run.
pub(crate) fn random() -> Rng {
    Rng::with_seed(42)
}

/// The verbs that the structure alone and the wheel have in common.
pub(crate) trait Timers {
    /// The name in the bench's output.
    const NAME: &str;
    /// A deadline as the verbs take it.
    type When: Copy;
    type Key: Copy;

    fn empty() -> Self;

    /// Returns the deadline `ahead` ticks from now, up to [`HORIZON`] and beyond.
    fn when(ahead: u64) -> Self::When;

    fn insert(&mut self, when: Self::When) -> Self::Key;

    fn cancel(&mut self, key: Self::Key) -> bool;

    fn reset(&mut self, key: Self::Key, when: Self::When) -> bool;
}

impl Timers for Hierarchy<u64> {
    const NAME: &str = "hierarchy";
    type When = Tick;
    type Key = Key;

    fn empty() -> Hierarchy<u64> {
        Hierarchy::new(Geometry::default())
    }

    fn when(ahead: u64) -> Tick {
        Tick::new(ahead)
    }

    fn insert(&mut self, when: Tick) -> Key {
        Hierarchy::insert(self, when, when.get())
    }

    fn cancel(&mut self, key: Key) -> bool {
        Hierarchy::cancel(self, key).is_some()
    }

    fn reset(&mut self, key: Key, when: Tick) -> bool {
        Hierarchy::reset(self, key, when)
    }
}

/// A wheel whose clock runs and whose ticker sleeps. The jobs capture 8 bytes: each is an
/// allocation.
impl Timers for Wheel {
    const NAME: &str = "wheel";
    type When = Duration;
    type Key = Handle;

    fn empty() -> Wheel {
        Wheel::new()
    }

    /// Returns a deadline an hour later, with ticks 180 times as far apart. So no timer comes due
    /// during the measurement. As many slots are in use, but each timer lies one level further out.
    fn when(ahead: u64) -> Duration {
        Duration::from_secs(3600) + Duration::from_millis(ahead * 180)
    }

    fn insert(&mut self, when: Duration) -> Handle {
        Wheel::insert(self, when, job(when.as_secs()))
    }

    fn cancel(&mut self, key: Handle) -> bool {
        Wheel::cancel(self, key)
    }

    fn reset(&mut self, key: Handle, when: Duration) -> bool {
        Wheel::reset(self, key, when)
    }
}

/// Returns a job that captures 8 bytes.
pub(crate) fn job(number: u64) -> impl FnOnce() + Send + 'static {
    move || {
        std::hint::black_box(number);
    }
}

/// A constant number of pending timers, and random numbers for the next batch.
pub(crate) struct Population<T: Timers> {
    pub(crate) timers: T,
    keys: Vec<T::Key>,
    whens: Vec<T::When>,
    random: Rng,
}

impl<T: Timers> Population<T> {
    pub(crate) fn new(size: usize) -> Population<T> {
        let (mut timers, mut random) = (T::empty(), random());
        let keys = (0..size).map(|_| timers.insert(T::when(random.u64(1..=HORIZON)))).collect();
        Population { timers, keys, whens: Vec::with_capacity(BATCH), random }
    }

    /// Does `iters` operations in batches. Returns how long their measured part took. A batch is a
    /// random choice of keys, no key twice, and as many random deadlines.
    pub(crate) fn measure(
        &mut self,
        iters: u64,
        mut batch: impl FnMut(&mut T, &mut [T::Key], &[T::When]) -> Duration,
    ) -> Duration {
        let (mut left, mut total) = (iters, Duration::ZERO);
        while left > 0 {
            let size = BATCH.min(self.keys.len()).min(usize::try_from(left).unwrap_or(BATCH));
            self.draw(size);
            total += batch(&mut self.timers, &mut self.keys[..size], &self.whens);
            left -= size as u64;
        }
        total
    }

    /// Moves random keys to the front, by the first steps of a Fisher-Yates shuffle.
    fn draw(&mut self, size: usize) {
        self.whens.clear();
        for place in 0..size {
            let other = place + self.random.usize(..self.keys.len() - place);
            self.keys.swap(place, other);
            self.whens.push(T::when(self.random.u64(1..=HORIZON)));
        }
    }
}

/// Measures a part of a batch at each of [`SIZES`]. `batch` returns how long that part took.
pub(crate) fn bench<T: Timers>(
    criterion: &mut Criterion,
    name: &str,
    mut batch: impl FnMut(&mut T, &mut [T::Key], &[T::When]) -> Duration,
) {
    let mut group = group(criterion, name);
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        let mut population = None;
        group.bench_function(BenchmarkId::new(T::NAME, size), |bencher| {
            let population = population.get_or_insert_with(|| Population::<T>::new(size));
            bencher.iter_custom(|iters| population.measure(iters, &mut batch));
        });
    }
}

/// Returns how long `work` takes.
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
