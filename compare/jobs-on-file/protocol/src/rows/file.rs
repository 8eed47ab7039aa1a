//! How large the file becomes when many jobs pass through it, and whether it shrinks.
//!
//! Every job is due the same time after its insert, and the number of jobs that are alive at once has a limit.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::job::{DISTANT, HOUR, wall_ns};
use crate::process::bytes_in;
use crate::{Contender, Fallible, NewJob, Setup, figure, runs};

use super::life::finish;

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    let (jobs, live) = (setup.size("jobs")? as u64, setup.size("live")? as u64);
    let (batch, delay) = (setup.size("batch")? as u64, setup.seconds("delay")?);
    let (length, settle) = (setup.seconds("seconds")?, setup.seconds("settle")?);
    let directory = setup.path.parent().ok_or("path=.. has no directory")?;
    let runs = runs::expect(jobs as usize);
    let contender = C::open(setup)?;
    let (mut inserted, mut most_live, mut largest) = (0, 0, 0);
    let start = Instant::now();
    while inserted < jobs && start.elapsed() < length {
        let alive = inserted - runs.count();
        most_live = most_live.max(alive);
        if alive + batch > live {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let due = wall_ns() + delay.as_nanos() as i64;
        let new = (inserted..inserted + batch).map(|number| NewJob::at(number, due));
        contender.insert_many(new.collect())?;
        inserted += batch;
        if inserted % (16 * batch) == 0 {
            largest = largest.max(bytes_in(directory)?);
        }
    }
    let passed = bytes_in(directory)?;
    runs.wait_for(inserted, delay + PATIENCE);
    finish(&contender, inserted)?;
    thread::sleep(settle);
    let drained = bytes_in(directory)?;
    runs.faults(inserted);
    contender.close()?;
    let needed = needed::<C>(setup, directory, most_live)?;
    figure("jobs", inserted as f64);
    figure("live", most_live as f64);
    figure("needed_mb", mb(needed));
    figure("passed_mb", mb(passed));
    figure("largest_mb", mb(largest.max(passed)));
    figure("drained_mb", mb(drained));
    figure("closed_mb", mb(bytes_in(directory)?));
    Ok(())
}

/// Returns the size of a new file with a number of pending jobs.
fn needed<C: Contender>(setup: &Setup, directory: &Path, jobs: u64) -> Fallible<u64> {
    let other = directory.join("needed");
    std::fs::create_dir_all(&other)?;
    let contender = C::open(&setup.at(other.join("jobs.db")).idle())?;
    let due = wall_ns() + HOUR;
    let new = |number| NewJob::at(DISTANT + number, due + number as i64 * 1_000_000);
    contender.insert_many((0..jobs).map(new).collect())?;
    contender.close()?;
    let needed = bytes_in(&other)?;
    std::fs::remove_dir_all(&other)?;
    Ok(needed)
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
