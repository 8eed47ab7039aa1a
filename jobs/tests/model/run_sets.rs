//! The result and the progress that a handler sets, and its follow-ups.

use tickwheel_jobs::{Client, JobInfo, Run};

use crate::calls::ok;
use crate::follow_ups::FollowUp;
use crate::oracle::{Outcome, ensure};
use crate::world::Shared;

/// The longest result.
const MOST: usize = 64 << 10;

/// The result, the progress and the follow-ups of one run.
#[derive(Default)]
pub(crate) struct RunSets {
    pub(crate) result: Option<Vec<u8>>,
    pub(crate) follow_ups: Vec<FollowUp>,
    shown: Option<Vec<u8>>,
}

fn json(value: &str) -> Vec<u8> {
    serde_json::to_vec(value).expect("a text is JSON")
}

impl RunSets {
    /// Sets a result of so many bytes. `once`: only the first run of a job sets it.
    pub(crate) fn result(&mut self, run: &Run, bytes: usize, once: bool) -> Outcome {
        if once && run.attempt() > 1 {
            return Ok(());
        }
        let value = format!("{} {}", run.attempt(), "r".repeat(bytes));
        let set = run.set_result(&value);
        let fits = json(&value).len() <= MOST;
        ensure(set.is_ok() == fits, || format!("a result of {bytes} bytes: {set:?}"))?;
        if fits {
            self.result = Some(json(&value));
        }
        Ok(())
    }

    /// Sets a progress. The clock stands still in a handler, so every process sees the first one of a run from then
    /// on: another one is written a second later.
    pub(crate) fn progress(&mut self, shared: &Shared, run: &Run, n: u64) -> Outcome {
        let own = run.client();
        self.is_shown(&own, run)?;
        let value = format!("{} {n}", run.fence().get());
        run.set_progress(&value).map_err(|error| format!("a progress: {error:?}"))?;
        let first = self.shown.get_or_insert_with(|| json(&value)).clone();
        self.is_shown(&own, run)?;
        let Some(other) = shared.lock().other.clone() else { return Ok(()) };
        let seen = ok(other.get(run.id()))?.and_then(|info| info.progress);
        ensure(seen.as_ref() == Some(&first), || format!("another process sees {seen:?}"))
    }

    fn is_shown(&self, own: &Client, run: &Run) -> Outcome {
        let info = ok(own.get(run.id()))?;
        let in_list = own.running().find(|info| info.id == run.id());
        for JobInfo { progress, .. } in info.iter().chain(&in_list) {
            ensure(*progress == self.shown, || {
                format!("{run:?}: the progress is {progress:?}, not {:?}", self.shown)
            })?;
        }
        ensure(info.is_some() && in_list.is_some(), || format!("{run:?} is not there"))
    }
}

impl Shared {
    /// Runs that have ended set progress. No list shows it, and no other run of the job has it.
    pub(crate) fn set_late_progress(&self) {
        for run in self.lock().late.clone() {
            // A value is refused only because of its length.
            let set = run.set_progress("late");
            self.note(set.map_err(|error| format!("a late progress: {error:?}")));
        }
    }
}
