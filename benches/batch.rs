//! Many jobs at once, beside the same jobs one by one.
//!
//! | group | what is measured, for each of 10,000 jobs |
//! | --- | --- |
//! | `insert_many` | an insert, at random delays within a minute |
//! | `insert_one_time` | an insert, all at one delay: ten thousand in one slot |
//! | `reset_many` | a reset to a later time |
//! | `cancel_many` | a cancel |
//!
//! An hour ahead, a wheel holds 100,000 others. The jobs capture 8 bytes: each is an allocation.
//!
//! ```text
//! cargo bench --bench batch
//! ```

mod common;

use std::time::Duration;

use common::{HORIZON, Random, job, timed};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tickwheel::{Handle, Wheel};

const MANY: usize = 10_000;
const OTHERS: usize = 100_000;
const HOUR: Duration = Duration::from_secs(3600);

type Delays = Vec<Duration>;

/// A reset to come.
type Later = (Handle, Duration);

/// A way to insert, to reset, and to cancel.
struct Way {
    name: &'static str,
    insert: fn(&Wheel, &[Duration]) -> Vec<Handle>,
    reset: fn(&Wheel, &[Later]) -> Vec<bool>,
    cancel: fn(&Wheel, &[Handle]) -> Vec<bool>,
}

const WAYS: [Way; 2] = [
    Way {
        name: "one_by_one",
        insert: |wheel, delays| {
            let insert = |(number, &delay)| wheel.insert(delay, job(number));
            (0..).zip(delays).map(insert).collect()
        },
        reset: |wheel, timers| {
            timers.iter().map(|&(handle, delay)| wheel.reset(handle, delay)).collect()
        },
        cancel: |wheel, handles| handles.iter().map(|&handle| wheel.cancel(handle)).collect(),
    },
    Way {
        name: "batch",
        insert: |wheel, delays| {
            let timers = (0..).zip(delays).map(|(number, &delay)| (delay, job(number)));
            wheel.insert_batch(timers).expect("no bound")
        },
        reset: |wheel, timers| wheel.reset_batch(timers),
        cancel: |wheel, handles| wheel.cancel_batch(handles),
    },
];

/// What of a round is measured.
#[derive(Clone, Copy)]
enum Part {
    Insert,
    Reset,
    Cancel,
}

fn round(wheel: &Wheel, way: &Way, delays: &Delays, part: Part) -> Duration {
    let mut handles = Vec::new();
    let insert = timed(|| handles = (way.insert)(wheel, delays));
    let later: Vec<Later> = handles.iter().map(|&handle| (handle, 3 * HOUR)).collect();
    let mut answers = Vec::new();
    let reset = timed(|| answers = (way.reset)(wheel, &later));
    assert!(answers.iter().all(|&done| done));
    let cancel = timed(|| answers = (way.cancel)(wheel, &handles));
    assert!(answers.iter().all(|&done| done));
    match part {
        Part::Insert => insert,
        Part::Reset => reset,
        Part::Cancel => cancel,
    }
}

fn batches(criterion: &mut Criterion) {
    let mut random = Random::new();
    let mut ahead = || HOUR + Duration::from_millis(random.ahead(HORIZON));
    let spread: Delays = (0..MANY).map(|_| ahead()).collect();
    let one_time = vec![HOUR; MANY];
    let wheel = Wheel::new();
    for _ in 0..OTHERS {
        wheel.insert(ahead() + HOUR, || ());
    }
    let cases = [
        ("insert_many", &spread, Part::Insert),
        ("insert_one_time", &one_time, Part::Insert),
        ("reset_many", &spread, Part::Reset),
        ("cancel_many", &spread, Part::Cancel),
    ];
    for (name, delays, part) in cases {
        let mut group = common::group(criterion, name);
        group.throughput(Throughput::Elements(MANY as u64));
        for way in &WAYS {
            group.bench_function(way.name, |bencher| {
                bencher.iter_custom(|rounds| {
                    (0..rounds).map(|_| round(&wheel, way, delays, part)).sum()
                });
            });
        }
    }
}

criterion_group!(benches, batches);
criterion_main!(benches);
