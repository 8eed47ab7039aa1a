//! The progress of runs: written with a commit, the latest of each run, at most once a second.
//!
//! Ground rules:
//!
//! - A step writes the progress that has come since the last one, so it is in the store a second later at most: the
//!   dispatcher makes a step each second.
//! - The progress of a run that has ended or lost its lease is dropped here. The store refuses it too, by the fence.

use std::time::{Duration, Instant};

use foldhash::HashMap;

use super::commit::{Commit, FollowUp};
use super::{Machine, StepOutput};
use crate::dispatch::command::Command;
use crate::dispatch::progress::Latest;
use crate::store::Op;
use crate::values::id::Claim;
use crate::values::time::Now;

/// The shortest time between two writes of the progress of one run.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// The progress of runs that the machine has taken.
#[derive(Default)]
pub(super) struct ProgressWrites {
    unwritten: Latest,
    /// When the progress of a run was written, within the last [`WRITE_INTERVAL`].
    written: HashMap<Claim, Instant>,
}

impl Machine {
    /// Writes the progress that is due. `commands`: those of this step, which may end runs.
    pub(super) fn write_progress(
        &mut self,
        now: Instant,
        commands: &[Command],
        commit: &mut Commit,
    ) {
        let latest = self.settings.progress.take();
        let writes = &mut self.progress;
        if latest.is_none() && writes.unwritten.is_empty() {
            return;
        }
        writes.unwritten.extend(latest.unwrap_or_default());
        writes.written.retain(|_, at| now.saturating_duration_since(*at) < WRITE_INTERVAL);
        for command in commands {
            if let Command::Ended { id, fence, .. } = command {
                writes.unwritten.remove(&(*id, *fence));
            }
        }
        let runs = &self.runs;
        writes.unwritten.retain(|&(id, fence), value| {
            let run = runs.get(&id).filter(|run| run.fence == fence && !run.has_expired(now));
            if run.is_none() || writes.written.contains_key(&(id, fence)) {
                return run.is_some();
            }
            writes.written.insert((id, fence), now);
            let value = core::mem::take(value);
            commit.push(Op::PutProgress { id, fence, value }, FollowUp::ProgressPut);
            false
        });
    }

    /// Keeps the progress that a commit has not written, unless the run has set another since.
    pub(super) fn keep_progress(&mut self, op: Op) {
        if let Op::PutProgress { id, fence, value } = op {
            self.progress.unwritten.entry((id, fence)).or_insert(value);
        }
    }

    pub(super) fn wake_for_progress(&self, present: Now, output: &mut StepOutput) {
        let ProgressWrites { unwritten, written } = &self.progress;
        let due = unwritten.keys().filter_map(|claim| written.get(claim)).min();
        if let Some(at) = due.filter(|_| self.unsettled.is_none()) {
            let wait = (*at + WRITE_INTERVAL).saturating_duration_since(present.instant);
            output.wake_by(present.millis().plus(wait + Duration::from_millis(1)));
        }
    }
}
