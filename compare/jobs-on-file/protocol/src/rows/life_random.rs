//! The whole life of jobs whose delays are uniform over three days, in a file with many such jobs.
//!
//! Three days have to pass in some seconds, so the program sets the wall clock of this process
//! forward. It inserts a batch, and then sets the clock forward until as many jobs are due.
//! Everything else is as in the row `life`.

use std::thread;
use std::time::{Duration, Instant};

use crate::job::{HOUR, wall_ns};
use crate::process::{Usage, usage_between};
use crate::{Contender, Fallible, NewJob, Setup, clock, figure, runs};

const DAYS: Duration = Duration::from_secs(72 * 3600);
/// The earliest job of the file is due two hours after the file was made.
const UNTIL_FIRST: Duration = Duration::from_secs(2 * 3600);
const MOST: usize = 3_000_000;
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    let (pending, batch) = (setup.size("pending")?, setup.size("batch")?);
    let (ahead, length) = (setup.size("ahead")? as u64, setup.seconds("seconds")?);
    let runs = runs::expect(MOST);
    let contender = C::open(setup)?;
    let filled = contender.unfinished()?;
    clock::set_forward(UNTIL_FIRST);
    let step = DAYS.mul_f64(batch as f64 / pending as f64);
    let mut random = fastrand::Rng::with_seed(4);
    let (mut number, mut due) = (0, 0);
    let (mut start, warm_up) = (Instant::now(), length / 4);
    let mut before: Option<(Usage, u64)> = None;
    let mut longest = Duration::ZERO;
    while number + batch as u64 <= MOST as u64 {
        let ran = runs.all();
        if before.is_none() && start.elapsed() >= warm_up {
            before = Some((Usage::now()?, ran));
            (start, longest) = (Instant::now(), Duration::ZERO);
        }
        if before.is_some() && start.elapsed() >= length {
            break;
        }
        if due > ran + ahead && start.elapsed() < length {
            thread::sleep(Duration::from_micros(200));
            continue;
        }
        let now = wall_ns();
        let new = (0..batch).map(|_| {
            number += 1;
            NewJob::at(number - 1, now + random.i64(0..72 * HOUR))
        });
        let new = new.collect();
        let called = Instant::now();
        contender.insert_many(new)?;
        longest = longest.max(called.elapsed());
        clock::set_forward(step);
        due += batch as u64;
    }
    let (elapsed, after, ran) = (start.elapsed().as_secs_f64(), Usage::now()?, runs.all());
    let (before, ran_before) = before.ok_or("no time to measure")?;
    figure("jobs_per_s", (ran - ran_before) as f64 / elapsed);
    figure("longest_insert_ms", longest.as_secs_f64() * 1e3);
    usage_between(&before, &after, ran - ran_before);
    figure("lost", still_missing(&contender, filled + number)?);
    runs.untimely();
    contender.close()
}

/// Waits until the jobs that have run are gone from the store. Returns how many jobs have not run
/// and are not in the store either.
fn still_missing<C: Contender>(contender: &C, jobs: u64) -> Fallible<f64> {
    let since = Instant::now();
    loop {
        let ran = runs::expect(0).all();
        let missing = jobs as f64 - (contender.unfinished()? + ran) as f64;
        if missing == 0.0 || since.elapsed() > PATIENCE {
            return Ok(missing);
        }
        thread::sleep(Duration::from_millis(20));
    }
}
