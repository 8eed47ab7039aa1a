//! The cost of a process whose jobs are all due later: wake-ups, writes, processor time, memory.

use std::thread;
use std::time::Duration;

use crate::process::{Usage, idleness_between, memory as print_memory};
use crate::{Contender, Fallible, NewJob, Setup, figure, runs};

const PATIENCE: Duration = Duration::from_secs(20);

/// Opens a file that was filled before, and waits.
pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    // The work at the start is over by then.
    let (settle, length) = (setup.seconds("settle")?, setup.seconds("seconds")?);
    let contender = C::open(setup)?;
    thread::sleep(settle);
    let commits = |contender: &C| {
        let figures = contender.figures();
        figures.into_iter().find(|(key, _)| *key == "commits").map(|(_, commits)| commits)
    };
    let (before, commits_before) = (Usage::now()?, commits(&contender));
    thread::sleep(length);
    let (after, commits_after) = (Usage::now()?, commits(&contender));
    idleness_between(&before, &after, length.as_secs_f64());
    if let (Some(before), Some(after)) = (commits_before, commits_after) {
        figure("commits", after - before);
    }
    print_memory()?;
    contender.close()
}

/// The same file, with some jobs that come and run.
pub(super) fn memory<C: Contender>(setup: &Setup) -> Fallible {
    let (jobs, batch) = (setup.size("jobs")? as u64, setup.size("batch")? as u64);
    let runs = runs::expect(jobs as usize);
    let contender = C::open(setup)?;
    for first in (0..jobs).step_by(batch as usize) {
        contender.insert_many((first..jobs.min(first + batch)).map(NewJob::now).collect())?;
    }
    runs.wait_for(jobs, PATIENCE);
    print_memory()?;
    runs.faults(jobs);
    contender.close()
}
