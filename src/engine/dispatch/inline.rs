//! Runs a due job on the thread that drives a manual wheel.

use super::{DueJob, JobRunner};
use crate::host::clock::Clock;

/// Runs the job here and now; returns when it has ended.
pub(crate) fn run(runner: &JobRunner, clock: &Clock, due: DueJob) {
    let now = clock.now();
    runner.metrics().job_handed_over(due.deadline, now);
    runner.run(due, now, now);
}
