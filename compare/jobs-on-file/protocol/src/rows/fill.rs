//! Fills a file with pending jobs for other rows: due at random between two hours and three days from
//! now.

use std::time::Instant;

use crate::job::{DISTANT, HOUR, wall_ns};
use crate::process::bytes_in;
use crate::{Contender, Fallible, NewJob, Setup, figure};

const BATCH: usize = 5000;

pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    let jobs = setup.size("jobs")?;
    let contender = C::open(&setup.idle())?;
    let (mut random, mut number) = (fastrand::Rng::with_seed(2), 3 * DISTANT);
    let start = Instant::now();
    let soonest = wall_ns() + 2 * HOUR;
    for first in (0..jobs).step_by(BATCH) {
        let new = (first..jobs.min(first + BATCH)).map(|_| {
            number += 1;
            NewJob::at(number, soonest + random.i64(0..72 * HOUR))
        });
        contender.insert_many(new.collect())?;
    }
    figure("jobs_per_s", jobs as f64 / start.elapsed().as_secs_f64());
    let stored = contender.unfinished()?;
    figure("lost", jobs as f64 - stored as f64);
    contender.close()?;
    let directory = setup.path.parent().ok_or("path=.. has no directory")?;
    figure("bytes_per_job", bytes_in(directory)? as f64 / jobs as f64);
    Ok(())
}
