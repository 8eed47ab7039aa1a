//! From the call that inserts a job for now to the start of its handler, on an idle queue.

use std::thread;
use std::time::Duration;

use crate::job::wall_ns;
use crate::process::{Usage, usage_between};
use crate::runs::quantile;
use crate::{Contender, Fallible, NewJob, Setup, figure, runs};

const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(3);

pub(super) fn measure<C: Contender>(setup: &Setup) -> Fallible {
    let jobs = setup.size("jobs")?;
    let runs = runs::expect(jobs);
    let contender = C::open(setup)?;
    let mut waits = Vec::new();
    let mut answers = Vec::new();
    let before = Usage::now()?;
    for number in 0..jobs {
        let called = wall_ns();
        contender.insert(NewJob::now(number as u64))?;
        answers.push(wall_ns() - called);
        runs.wait_for(number as u64 + 1, PATIENCE);
        if runs.start(number) != 0 {
            waits.push(runs.start(number) - called);
        }
        thread::sleep(PAUSE);
    }
    let after = Usage::now()?;
    waits.sort_unstable();
    answers.sort_unstable();
    for (key, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        figure(&format!("start_{key}_ms"), quantile(&waits, part)? / 1e6);
    }
    figure("answer_p50_ms", quantile(&answers, 0.5)? / 1e6);
    usage_between(&before, &after, jobs as u64);
    runs.faults(jobs as u64);
    contender.close()
}
