//! Runs a due job on the thread that advances a wheel without threads.

use core::cell::Cell;
use std::sync::Arc;

use super::{DueJob, JobRunner, Outlet};
use crate::host::clock::Clock;

/// Runs the job on this thread. Returns when the job has ended.
pub(crate) fn run(runner: &JobRunner, clock: &Clock, due: DueJob) {
    let now = clock.now();
    runner.metrics().job_handed_over(due.deadline, now);
    runner.run(due, now, now);
}

/// Runs each job as it is handed over. Takes one at a time, so that jobs that have not run can be
/// cancelled.
pub(crate) struct InlineOutlet {
    runner: Arc<JobRunner>,
    clock: Arc<Clock>,
    /// How many jobs have run.
    count: Cell<usize>,
}

impl InlineOutlet {
    pub(crate) fn new(runner: &Arc<JobRunner>, clock: &Arc<Clock>) -> InlineOutlet {
        let (runner, clock) = (Arc::clone(runner), Arc::clone(clock));
        InlineOutlet { runner, clock, count: Cell::new(0) }
    }

    /// Returns how many jobs have run since the last call.
    pub(crate) fn take_count(&self) -> usize {
        self.count.take()
    }
}

impl Outlet for InlineOutlet {
    fn room(&self) -> usize {
        1
    }

    fn hand_over(&self, jobs: &mut Vec<DueJob>) {
        for job in jobs.drain(..) {
            self.count.set(self.count.get() + 1);
            run(&self.runner, &self.clock, job);
        }
    }
}
