//! Many jobs at once, compared with the same jobs one by one.
//!
//! | group | what is measured, for each of 10,000 jobs |
//! | --- | --- |
//! | `insert_many` | an insert, at random delays |
//! | `insert_one_time` | an insert, all with one delay, so all in one slot |
//! | `reset_many` | a reset to a later time |
//! | `cancel_many` | a cancel |
//!
//! | jobs in the wheel | jobs that a round takes |
//! | --- | --- |
//! | `100000` | always the same, so their memory is in the cache |
//! | `100000_scattered`, `1000000_scattered` | random ones, so the memory they free lies anywhere |
//!
//! The jobs are due in about an hour. Each captures 8 bytes, which are an allocation.
//!
//! ```text
//! cargo bench --bench batch
//! ```

mod common;

use std::time::Duration;

use common::{HORIZON, job, timed};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fastrand::Rng;
use tickwheel::{Handle, Wheel};

const MANY: usize = 10_000;

/// How many jobs are in the wheel, and whether a round takes random ones.
const CROWDS: [(usize, bool); 3] = [(100_000, false), (100_000, true), (1_000_000, true)];

const HOUR: Duration = Duration::from_secs(3600);

/// The handle of a job, and its new delay.
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

/// The part of a round that is measured.
#[derive(Clone, Copy)]
enum Part {
    Insert,
    InsertAtOneTime,
    Reset,
    Cancel,
}

/// A wheel that has as many jobs after a round as before.
struct Crowd {
    wheel: Wheel,
    handles: Vec<Handle>,
    scattered: bool,
    random: Rng,
}

impl Crowd {
    fn new(size: usize, scattered: bool) -> Crowd {
        let (wheel, handles) = (Wheel::new(), Vec::with_capacity(size));
        let mut crowd = Crowd { wheel, handles, scattered, random: common::random() };
        for number in 0..size as u64 {
            let delay = crowd.delay();
            crowd.handles.push(crowd.wheel.insert(delay, job(number)));
        }
        crowd
    }

    fn delay(&mut self) -> Duration {
        // Three hours wide, at 180 ms a step.
        HOUR + Duration::from_millis(self.random.u64(1..=HORIZON) * 180)
    }

    /// Moves the handles of a round to the front, and copies them.
    fn draw(&mut self) -> Vec<Handle> {
        for place in 0..MANY * usize::from(self.scattered) {
            let rest = (self.handles.len() - place) as u64;
            self.handles.swap(place, place + self.random.u64(..rest) as usize);
        }
        self.handles[..MANY].to_vec()
    }

    fn round(&mut self, way: &Way, part: Part) -> Duration {
        let timers: Vec<Later> = self.draw().into_iter().map(|handle| (handle, 9 * HOUR)).collect();
        let mut answers = Vec::new();
        let mut elapsed = Duration::ZERO;
        if matches!(part, Part::Reset) {
            elapsed = timed(|| answers = (way.reset)(&self.wheel, &timers));
            assert!(answers.iter().all(|&done| done));
        }
        // Other jobs than those that were reset, which are in the cache now.
        let handles = self.draw();
        let cancel = timed(|| answers = (way.cancel)(&self.wheel, &handles));
        assert!(answers.iter().all(|&done| done));
        let delays: Vec<Duration> = match part {
            Part::InsertAtOneTime => vec![HOUR; MANY],
            _ => (0..MANY).map(|_| self.delay()).collect(),
        };
        let mut fresh = Vec::new();
        let insert = timed(|| fresh = (way.insert)(&self.wheel, &delays));
        self.handles[..MANY].copy_from_slice(&fresh);
        match part {
            Part::Insert | Part::InsertAtOneTime => insert,
            Part::Reset => elapsed,
            Part::Cancel => cancel,
        }
    }
}

fn batches(criterion: &mut Criterion) {
    let parts = [
        ("insert_many", Part::Insert),
        ("insert_one_time", Part::InsertAtOneTime),
        ("reset_many", Part::Reset),
        ("cancel_many", Part::Cancel),
    ];
    for (size, scattered) in CROWDS {
        let crowd_name = format!("{size}{}", if scattered { "_scattered" } else { "" });
        for (name, part) in parts {
            let mut group = common::group(criterion, name);
            group.throughput(Throughput::Elements(MANY as u64));
            for way in &WAYS {
                let mut crowd = None;
                group.bench_function(BenchmarkId::new(way.name, &crowd_name), |bencher| {
                    let crowd = crowd.get_or_insert_with(|| Crowd::new(size, scattered));
                    bencher.iter_custom(|rounds| (0..rounds).map(|_| crowd.round(way, part)).sum());
                });
            }
        }
    }
}

criterion_group!(benches, batches);
criterion_main!(benches);
