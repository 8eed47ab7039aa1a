//! Many jobs for one instant: from the first start to the last.

use std::time::Duration;

use crate::job::{SECOND, wall_ns};
use crate::process::{Usage, usage_between};
use crate::runs::quantile;
use crate::{Contender, Fallible, NewJob, Setup, figure, runs};

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    let (jobs, notice) = (setup.size("jobs")?, setup.seconds("notice")?);
    let runs = runs::expect(jobs);
    let contender = C::open(setup)?;
    let before = Usage::now()?;
    // A whole second, which every contender can store.
    let due = ((wall_ns() + notice.as_nanos() as i64) / SECOND + 1) * SECOND;
    contender.insert_many((0..jobs as u64).map(|number| NewJob::at(number, due)).collect())?;
    if wall_ns() > due {
        return Err("the insert took too long".into());
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
