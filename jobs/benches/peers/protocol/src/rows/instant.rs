//! Many jobs for one instant: from the first start to the last.

use std::time::Duration;

use crate::job::{SECOND, wall_ns};
use crate::process::{Usage, usage_between};
use crate::runs::quantile;
use crate::{Contender, Fallible, NewJob, Setup, figure, runs};

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    let jobs = setup.size("jobs")?;
    let runs = runs::expect(jobs);
    let contender = C::open(setup)?;
    let before = Usage::now()?;
    // A whole second, which everybody can keep.
    let due = (wall_ns() / SECOND + 3) * SECOND;
    contender.insert_many((0..jobs as u64).map(|number| NewJob::at(number, due)).collect())?;
    if wall_ns() > due - SECOND / 2 {
        return Err("the insert took longer than two seconds".into());
    }
    runs.wait_for(jobs as u64, PATIENCE);
    let after = Usage::now()?;
    let late = runs.lateness(0..jobs);
    let (first, last) = (quantile(&late, 0.0)?, quantile(&late, 1.0)?);
    figure("first_to_last_ms", (last - first) / 1e6);
    figure("first_ms", first / 1e6);
    figure("last_ms", last / 1e6);
    usage_between(&before, &after, jobs as u64);
    runs.faults(jobs as u64);
    contender.close()
}
