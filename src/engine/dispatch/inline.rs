//! Runs a due job on the thread that found it due: the runner of a manual wheel.

use super::{DueJob, Ledger};
use crate::host::clock::Clock;

/// Runs the job here and now; returns when it has ended.
pub(crate) fn run(ledger: &Ledger, clock: &Clock, due: DueJob) {
    let now = clock.now();
    ledger.hand_over(due.deadline, now);
    ledger.run(due.job, now, now);
}
