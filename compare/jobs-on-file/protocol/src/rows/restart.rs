//! From the start of a process to the first overdue run, after the process before it was killed.
//!
//! The driver starts `before-kill` on a filled file, and kills it with SIGKILL a second after it has
//! printed `ready`, while it inserts. Once the jobs are due, the driver starts `after-kill`.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::job::{SECOND, wall_ns};
use crate::{Contender, Fallible, NewJob, Setup, distant_job, figure, runs};

const PATIENCE: Duration = Duration::from_secs(20);

/// Inserts jobs that are due in some seconds, then others until it is killed.
pub(super) fn before<C: Contender>(setup: &Setup) -> Fallible {
    let (jobs, notice) = (setup.size("jobs")? as u64, setup.seconds("notice")?);
    runs::expect(jobs as usize);
    let contender = C::open(setup)?;
    let due = wall_ns() + notice.as_nanos() as i64;
    contender.insert_many((0..jobs).map(|number| NewJob::at(number, due)).collect())?;
    println!("ready {}", due / SECOND + 1);
    std::io::stdout().flush()?;
    let until = Instant::now() + 2 * PATIENCE;
    while Instant::now() < until {
        contender.insert(distant_job())?;
    }
    Err("nobody has killed this process".into())
}

/// Waits for the first run. `spawned` says when the process was started, in milliseconds since 1970.
pub(super) fn after<C: Contender>(setup: &Setup) -> Fallible {
    let spawned = (setup.number("spawned")? * 1e6) as i64;
    let jobs = setup.size("jobs")? as u64;
    let runs = runs::expect(jobs as usize);
    let contender = C::open(setup)?;
    let opened = wall_ns();
    runs.wait_for(jobs, PATIENCE);
    let starts = || (0..jobs as usize).map(|number| runs.start(number)).filter(|start| *start > 0);
    let (first, last) = (starts().min().ok_or("no job ran")?, starts().max().unwrap_or(0));
    figure("open_ms", (opened - spawned) as f64 / 1e6);
    figure("first_run_ms", (first - spawned) as f64 / 1e6);
    figure("last_run_ms", (last - spawned) as f64 / 1e6);
    runs.faults(jobs);
    contender.close()
}
