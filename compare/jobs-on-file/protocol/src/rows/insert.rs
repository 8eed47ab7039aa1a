//! Inserts alone: one by one from some callers, and in batches at random times beside many pending.

use std::time::Instant;

use crate::job::{DISTANT, HOUR, wall_ns};
use crate::process::{Usage, usage_between};
use crate::{Contender, Fallible, NewJob, Setup, figure};

/// Each caller waits for the answer to one insert before the next. Every job is due in three days.
pub(super) fn one_by_one<C: Contender>(setup: &Setup) -> Fallible {
    let (callers, length) = (setup.size("callers")?, setup.seconds("seconds")?);
    let contender = C::open(setup)?;
    contender.insert_by(callers, Instant::now() + length / 10)?;
    let (before, start) = (Usage::now()?, Instant::now());
    let inserted = contender.insert_by(callers, start + length)?;
    let elapsed = start.elapsed();
    let after = Usage::now()?;
    figure("jobs", inserted as f64);
    figure("jobs_per_s", inserted as f64 / elapsed.as_secs_f64());
    usage_between(&before, &after, inserted);
    contender.close()
}

/// Batches whose jobs are due at random times of three days, into a file that was filled before.
pub(super) fn random<C: Contender>(setup: &Setup) -> Fallible {
    let (batch, jobs) = (setup.size("batch")?, setup.size("jobs")?);
    let contender = C::open(setup)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut number = 2 * DISTANT;
    let (before, start) = (Usage::now()?, Instant::now());
    for _ in 0..jobs / batch {
        let soonest = wall_ns() + HOUR;
        let new = (0..batch).map(|_| {
            number += 1;
            NewJob::at(number, soonest + random.i64(0..72 * HOUR))
        });
        contender.insert_many(new.collect())?;
    }
    let elapsed = start.elapsed();
    let after = Usage::now()?;
    let inserted = (jobs / batch * batch) as u64;
    figure("jobs_per_s", inserted as f64 / elapsed.as_secs_f64());
    usage_between(&before, &after, inserted);
    contender.close()
}
