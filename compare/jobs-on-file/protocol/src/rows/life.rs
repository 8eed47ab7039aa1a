//! The whole life of jobs that are due at once: inserted in batches, run by an empty handler, ended.
//!
//! Inserts and runs go on at the same time. The clock stops when the store itself says that no job is
//! left.

use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Usage, memory, usage_between};
use crate::{Contender, Fallible, NewJob, Setup, figure, runs};

const PATIENCE: Duration = Duration::from_secs(20);
/// The most jobs of one measurement.
const MOST: usize = 3_000_000;

pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    let (batch, ahead) = (setup.size("batch")? as u64, setup.size("ahead")? as u64);
    let length = setup.seconds("seconds")?;
    let runs = runs::expect(MOST);
    let contender = C::open(setup)?;
    let mut inserted = 0;
    let insert = |inserted: &mut u64| {
        let jobs = (*inserted..*inserted + batch).map(NewJob::now).collect();
        *inserted += batch;
        contender.insert_many(jobs)
    };
    insert(&mut inserted)?;
    finish(&contender, inserted)?;
    let (before, start, warm) = (Usage::now()?, Instant::now(), inserted);
    while start.elapsed() < length && inserted + batch <= MOST as u64 {
        if inserted - runs.count() > ahead {
            thread::sleep(Duration::from_micros(200));
            continue;
        }
        insert(&mut inserted)?;
    }
    let insert_time = start.elapsed();
    finish(&contender, inserted)?;
    let elapsed = start.elapsed();
    let after = Usage::now()?;
    figure("jobs", (inserted - warm) as f64);
    figure("jobs_per_s", (inserted - warm) as f64 / elapsed.as_secs_f64());
    figure("insert_s", insert_time.as_secs_f64());
    figure("seconds", elapsed.as_secs_f64());
    usage_between(&before, &after, inserted - warm);
    memory()?;
    runs.faults(inserted);
    for (key, value) in contender.figures() {
        figure(key, value);
    }
    contender.close()
}

/// Waits until a number of jobs have run and none is left in the store.
pub(super) fn finish<C: Contender>(contender: &C, jobs: u64) -> Fallible {
    runs::expect(0).wait_for(jobs, PATIENCE);
    let since = Instant::now();
    while contender.unfinished()? > 0 {
        if since.elapsed() > PATIENCE {
            return Err(format!("{} jobs never ended", contender.unfinished()?).into());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
