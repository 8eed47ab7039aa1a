//! How late scheduled jobs start: a steady rate of jobs, each inserted some seconds before it is
//! due, at a random nanosecond.

use std::thread;
use std::time::{Duration, Instant};

use crate::job::{SECOND, wall_ns};
use crate::process::{Usage, memory, usage_between};
use crate::runs::quantile;
use crate::{Contender, Fallible, NewJob, Setup, figure, runs};

/// Ten batches a second.
const BATCHES_PER_SECOND: u64 = 10;
/// How long to wait for jobs that are late.
const PATIENCE: Duration = Duration::from_secs(15);
/// The points of the drawing.
const QUANTILES: [f64; 20] = [
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998,
    0.999, 0.9995, 1.0,
];

pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    let per_second = setup.size("per_second")? as u64;
    // The least time between the insert of a job and its due time.
    let (length, notice) = (setup.seconds("seconds")?, setup.seconds("notice")?);
    let per_batch = per_second / BATCHES_PER_SECOND;
    let batches = (length.as_secs_f64() * BATCHES_PER_SECOND as f64) as u64;
    let jobs = batches * per_batch;
    let runs = runs::expect(jobs as usize);
    let contender = C::open(setup)?;
    let (mut random, mut number) = (fastrand::Rng::with_seed(3), 0);
    let (before, start) = (Usage::now()?, Instant::now());
    let interval = Duration::from_secs(1) / BATCHES_PER_SECOND as u32;
    for batch in 0..batches {
        let from = wall_ns() + notice.as_nanos() as i64;
        let new = (0..per_batch).map(|_| {
            number += 1;
            NewJob::at(number - 1, from + random.i64(0..SECOND / BATCHES_PER_SECOND as i64))
        });
        contender.insert_many(new.collect())?;
        let next = interval * (batch as u32 + 1);
        thread::sleep(next.saturating_sub(start.elapsed()));
    }
    runs.wait_for(jobs, PATIENCE);
    let after = Usage::now()?;
    let late = runs.lateness(0..jobs as usize);
    figure("jobs", jobs as f64);
    for part in QUANTILES {
        figure(&format!("q{part}"), quantile(&late, part)? / 1e6);
    }
    usage_between(&before, &after, jobs);
    memory()?;
    runs.faults(jobs);
    contender.close()
}
